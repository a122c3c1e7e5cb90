// SPDX-License-Identifier: MIT
/*
 * Functions of a byte: what pointwise ops make of one quantized value, quantized again, is one
 * of 256 bytes, also if that value is read twice, as in a hard swish, and if what is between is
 * quantized as well. The ops' own reference evaluation gives the table, so that nothing is
 * rounded otherwise than it is written.
 *
 * Runs behind constant folding: scales are constants then.
 */
#include <string.h>

#include "base/alloc.h"
#include "ops/quant.h"
#include "pass/pass.h"
#include "pass/quant.h"

rlx_pass_fn rlx_pass_quant_table;

enum { BYTES = 256, INPUTS = 3 };

/* A value that is a function of old value @of, which has bytes: what it is for each; 0: none. */
struct image {
	uint32_t	of;
	void		*table;
};

struct tables {
	struct rlx_rewrite	 rw;
	struct image		*image;		/* per old value */
};

/* Constant @v of one element, as a scalar; false: it is something else. */
static bool number(const struct rlx_graph *g, uint32_t v, struct rlx_tensor *out)
{
	const struct rlx_op_constant *c = rlx_node_of(g, v)->args;

	if (rlx_type_count(&g->val[v].type) != 1 ||
	    rlx_node_of(g, v)->def->index != RLX_OP_constant)
		return false;
	*out = (struct rlx_tensor){ rlx_scalar(c->type.dtype),
				    (void *)(uintptr_t)rlx_blob_data(c->data) };
	return true;
}

/* Every byte, in the order of its bits. */
static void *all_bytes(void)
{
	uint8_t *t = rlx_aligned(64, BYTES);

	for (unsigned int i = 0; t && i < BYTES; i++)
		t[i] = (uint8_t)i;
	return t;
}

/*
 * Input @k of @n for evaluation over all bytes: a number, or what is a function of *@of, which
 * is set with the first of those.
 */
static bool operand(struct tables *t, const struct rlx_node *n, uint32_t k, uint32_t *of,
		    struct rlx_tensor *out)
{
	const struct rlx_graph *g = t->rw.old;
	const uint32_t v = n->in[k];
	struct image *m = &t->image[v];

	if (!v || number(g, v, out))
		return true;
	if (!m->of && op_quant_bytes(&g->val[v].type) && n->def->index == RLX_OP_dequantize)
		*m = (struct image){ v, all_bytes() };
	if (!m->table || (*of && *of != m->of) ||
	    !shape_same(&g->val[v].type, &g->val[n->out].type))
		return false;
	*of = m->of;
	*out = (struct rlx_tensor){ rlx_type(g->val[v].type.dtype, BYTES), m->table };
	return true;
}

/* quantize or dequantize by one scale, or pointwise. */
static bool may_be(const struct rlx_graph *g, const struct rlx_node *n)
{
	if (n->n_in < 1 || n->n_in > INPUTS || n->n_out != 1)
		return false;
	if (n->def->index == RLX_OP_quantize || n->def->index == RLX_OP_dequantize)
		return rlx_type_count(&g->val[n->in[1]].type) == 1 &&
		       op_quant_bytes(&g->val[n->def->index == RLX_OP_quantize ?
					      n->out : n->in[0]].type);
	return n->def->traits & RLX_T_ELEMENTWISE && !(n->def->traits & RLX_T_IMPURE);
}

/* Scales are scalars here, so there is no axis. */
static const void *args_of(const struct rlx_node *n, struct rlx_op_quantize *q,
			   struct rlx_op_dequantize *d)
{
	if (n->def->index == RLX_OP_quantize) {
		*q = *(const struct rlx_op_quantize *)n->args;
		q->axis = q->block = 0;
		return q;
	}
	if (n->def->index == RLX_OP_dequantize) {
		*d = *(const struct rlx_op_dequantize *)n->args;
		d->axis = d->block = 0;
		return d;
	}
	return n->args;
}

/* Take down what @n gives, if it is a function of a byte. */
static void evaluate(struct tables *t, const struct rlx_node *n)
{
	const struct rlx_graph *g = t->rw.old;
	struct rlx_tensor in[INPUTS] = { 0 }, out;
	struct rlx_op_dequantize d;
	struct rlx_op_quantize q;
	struct rlx_error err = { 0 };
	uint32_t of = 0, k;

	if (!may_be(g, n))
		return;
	for (k = 0; k < n->n_in; k++)
		if (!operand(t, n, k, &of, &in[k]))
			return;
	if (!of)
		return;
	out.type = rlx_type(g->val[n->out].type.dtype, BYTES);
	out.data = rlx_aligned(64, (size_t)rlx_type_bytes(&out.type));
	if (out.data && rlx_op_eval(&(struct rlx_eval){
			.err = &err, .def = n->def, .args = args_of(n, &q, &d), .n_in = n->n_in,
			.in = in, .n_out = 1, .out = &out })) {
		rlx_free(out.data);
		out.data = NULL;
	}
	if (out.data)
		t->image[n->out] = (struct image){ of, out.data };
}

/* What quantize @n gives, looked up; false: it is none of a byte alone. */
static bool looked_up(struct tables *t, const struct rlx_node *n)
{
	const struct rlx_graph *g = t->rw.old;
	const struct image *m = &t->image[n->out];
	const struct rlx_type *y = &g->val[n->out].type;
	rlx_value table;
	void *copy;

	if (n->def->index != RLX_OP_quantize || !m->table)
		return false;
	copy = rlx_aligned(64, BYTES);
	if (copy)
		memcpy(copy, m->table, BYTES);
	table = rlx_quant_own(t->rw.g, rlx_type(y->dtype, BYTES), copy);
	rlx_rewrite_set(&t->rw, n->out,
			rlx_emit(t->rw.g, lookup, .x = rlx_rewrite_value(&t->rw, m->of),
				 .table = table));
	return true;
}

enum rlx_status rlx_pass_quant_table(struct rlx_pass_ctx *c, struct rlx_graph *g,
				     struct rlx_graph **out)
{
	struct tables t = { 0 };
	enum rlx_status st;
	uint32_t i;

	/* GPUs have no kernel; strict bits are those of what is written, step by step */
	if (c->target.channels <= 0 || c->flags & RLX_COMPILE_STRICT_BITS)
		return RLX_OK;
	st = rlx_rewrite_begin(&t.rw, g, c->err);
	if (st)
		return st;
	t.image = rlx_calloc(g->n_val, sizeof(*t.image));
	if (!t.image)
		rlx_fail(&t.rw.g->err, RLX_ENOMEM, "quantize: out of memory");
	for (i = 0; t.image && i < g->n_node && !t.rw.g->err.status; i++) {
		if (!rlx_rewrite_live(&t.rw, i))
			continue;
		evaluate(&t, &g->node[i]);
		if (!looked_up(&t, &g->node[i]))
			rlx_rewrite_copy(&t.rw, i);
	}
	for (i = 0; t.image && i < g->n_val; i++)
		rlx_free(t.image[i].table);
	rlx_free(t.image);
	return rlx_rewrite_end(&t.rw, out);
}
