// SPDX-License-Identifier: MIT
/*
 * Graphs that come quantized: GEMMs of what is dequantized, as ONNX's QDQ form writes
 * them, become GEMMs of 8-bit integers; and integer GEMMs that are scaled behind, as
 * dynamic quantization writes them, give floats themselves. Sums of integers are exact, so
 * that both round less than what is written; a quantize behind then moves into the product,
 * which rounds once where two did (quant_propagate.c).
 *
 * Runs before constants are folded: weights would become floats.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/element.h"
#include "ops/emit.h"
#include "pass/pass.h"
#include "pass/quant.h"

rlx_pass_fn rlx_pass_qdq;

struct qdq {
	struct rlx_rewrite	 rw;
	bool			 conv;	/* the target's integer convolutions are the faster ones;
					 * packed weights have a kernel */
};

/* A dequantized operand, in the old graph. */
struct operand {
	uint32_t	q, scale, zp;	/* zp may be 0 */
	bool		swapped;	/* a transpose of the last two dimensions is between */
};

static int64_t count(const struct rlx_graph *g, uint32_t v)
{
	return v ? rlx_type_count(&g->val[v].type) : 0;
}

static bool is_constant(const struct rlx_graph *g, uint32_t v)
{
	return v && rlx_node_of(g, v)->def->index == RLX_OP_constant;
}

/*
 * Value @v as bytes with one scale, or with one for each place on dimension @axis of it;
 * zero points alike. False: it is something else.
 */
static bool operand_of(const struct rlx_graph *g, uint32_t v, uint32_t axis, struct operand *o)
{
	const struct rlx_node *n = rlx_node_of(g, v);
	uint32_t rank = g->val[v].type.rank, at;
	const struct rlx_op_dequantize *d;
	enum rlx_dtype dt;

	*o = (struct operand){ 0 };
	if (n->def->index == RLX_OP_transpose && op_swaps_last(n->args, rank)) {
		o->swapped = true;
		v = n->in[0];
		n = rlx_node_of(g, v);
		axis = axis == rank - 1 ? rank - 2 : axis == rank - 2 ? rank - 1 : axis;
	}
	if (n->def->index != RLX_OP_dequantize || g->val[v].type.dtype != RLX_F32)
		return false;
	d = n->args;
	dt = g->val[n->in[0]].type.dtype;
	if (d->block || (dt != RLX_U8 && dt != RLX_I8) ||
	    (n->in[2] && count(g, n->in[2]) != count(g, n->in[1])))
		return false;
	at = d->axis < 0 ? (uint32_t)(d->axis + (int32_t)rank) : (uint32_t)d->axis;
	o->q = n->in[0];
	o->scale = n->in[1];
	o->zp = n->in[2];
	return count(g, o->scale) == 1 ||
	       (at == axis && count(g, o->scale) == g->val[v].type.dim[axis]);
}

static rlx_value bytes_of(struct qdq *q, const struct operand *o, uint32_t rank)
{
	rlx_value v = rlx_rewrite_value(&q->rw, o->q);
	int64_t perm[RLX_MAX_RANK];
	uint32_t i;

	if (!o->swapped)
		return v;
	for (i = 0; i < rank; i++)
		perm[i] = i + 2 < rank ? i : rank - 1 - (i + 2 - rank);
	return rlx_emit(q->rw.g, transpose, .x = v, .perm = { perm, rank });
}

/* As a scalar or a vector. */
static rlx_value vector_of(struct qdq *q, uint32_t v)
{
	const struct rlx_type *t = v ? &q->rw.old->val[v].type : NULL;
	int64_t n = t ? rlx_type_count(t) : 0;

	if (!t || t->rank <= 1)
		return rlx_rewrite_value(&q->rw, v);
	return rlx_emit(q->rw.g, reshape, .x = rlx_rewrite_value(&q->rw, v), .shape = { &n, 1 });
}

static bool from_matmul(struct qdq *q, const struct rlx_node *n)
{
	const struct rlx_graph *g = q->rw.old;
	const struct rlx_type *ta = &g->val[n->in[0]].type, *tb = &g->val[n->in[1]].type;
	struct operand a, b;
	rlx_value y;

	if (!operand_of(g, n->in[0], ta->rank, &a) ||
	    !operand_of(g, n->in[1], tb->rank - 1, &b) || count(g, a.scale) != 1 ||
	    ta->dim[ta->rank - 1] > RLX_QUANT_TERMS)
		return false;
	/* batches that broadcast have no kernel */
	if (tb->rank > 2 && (tb->rank != ta->rank ||
			     memcmp(ta->dim, tb->dim, (tb->rank - 2) * sizeof(ta->dim[0]))))
		return false;
	y = rlx_emit(q->rw.g, qmatmul, .a = bytes_of(q, &a, ta->rank),
		     .b = bytes_of(q, &b, tb->rank), .a_scale = vector_of(q, a.scale),
		     .a_zp = vector_of(q, a.zp), .b_scale = vector_of(q, b.scale),
		     .b_zp = vector_of(q, b.zp));
	rlx_rewrite_set(&q->rw, n->out, y);
	return true;
}

static double number(const struct rlx_graph *g, uint32_t v, int64_t i)
{
	const struct rlx_op_constant *c = rlx_node_of(g, v)->args;
	struct rlx_tensor t = { c->type, (void *)(uintptr_t)rlx_blob_data(c->data) };

	return el_get(&t, rlx_type_count(&t.type) == 1 ? 0 : i);
}

/* Is @v absent, or known to be 0 throughout? */
static bool zeros(const struct rlx_graph *g, uint32_t v)
{
	int64_t n = count(g, v), i;

	if (v && !is_constant(g, v))
		return false;
	for (i = 0; i < n && number(g, v, i) == 0; i++)
		;
	return i == n;
}

/*
 * The bias @v of a convolution as i32 in units of its sums: it was dequantized by the
 * product of the operands' scales, as ONNX demands. None: it was not.
 */
static rlx_value whole_bias(struct qdq *q, uint32_t v, const struct operand *x,
			    const struct operand *w)
{
	const struct rlx_graph *g = q->rw.old;
	const struct rlx_node *n = v ? rlx_node_of(g, v) : NULL;
	double unit, got;
	int64_t i;

	if (!n || n->def->index != RLX_OP_dequantize || !zeros(g, n->in[2]) ||
	    g->val[n->in[0]].type.dtype != RLX_I32 || !is_constant(g, n->in[0]) ||
	    !is_constant(g, n->in[1]))
		return RLX_NONE;
	for (i = 0; i < count(g, n->in[0]); i++) {
		if (fabs(number(g, n->in[0], i)) > RLX_QUANT_BIAS)
			return RLX_NONE;
		unit = number(g, x->scale, 0) * number(g, w->scale, i);
		got = number(g, n->in[1], i);
		if (!(fabs(got - unit) <= 1e-6 * unit))
			return RLX_NONE;
	}
	return rlx_rewrite_value(&q->rw, n->in[0]);
}

static bool from_conv(struct qdq *q, const struct rlx_node *n)
{
	const struct rlx_graph *g = q->rw.old;
	const struct rlx_type *tw = &g->val[n->in[1]].type;
	const struct rlx_op_conv *c = n->args;
	struct rlx_op_qconv a;
	struct operand x, w;
	rlx_value y;

	if (!operand_of(g, n->in[0], tw->rank, &x) || !operand_of(g, n->in[1], 0, &w) ||
	    x.swapped || w.swapped || count(g, x.scale) != 1 || !is_constant(g, w.q) ||
	    !is_constant(g, x.scale) || !is_constant(g, w.scale) ||
	    (x.zp && !is_constant(g, x.zp)) || (w.zp && !is_constant(g, w.zp)) ||
	    !tw->dim[0] || rlx_type_count(tw) / tw->dim[0] > RLX_QUANT_TERMS)
		return false;
	a = (struct rlx_op_qconv){
		.x = bytes_of(q, &x, 0), .w = bytes_of(q, &w, 0),
		.x_scale = vector_of(q, x.scale), .x_zp = vector_of(q, x.zp),
		.w_scale = vector_of(q, w.scale), .w_zp = vector_of(q, w.zp),
		.bias = whole_bias(q, n->in[2], &x, &w),
		.stride = c->stride, .pad = c->pad, .dilation = c->dilation,
		.groups = c->groups,
	};
	y = rlx_emit_raw(q->rw.g, &rlx_op_qconv, &a, sizeof(a), n->file, n->line);
	if (n->in[2] && !a.bias.id && !q->rw.g->err.status)
		y = rlx_quant_add_bias(&q->rw, n, y);
	rlx_rewrite_set(&q->rw, n->out, y);
	return true;
}

/* Does @v hold one number, or one for each column of @y? */
static bool of_columns(const struct rlx_graph *g, uint32_t v, const struct rlx_type *y)
{
	const struct rlx_type *t = &g->val[v].type;
	int64_t n = rlx_type_count(t);

	return t->dtype == RLX_F32 && t->rank <= y->rank &&
	       (n == 1 || (n == y->dim[y->rank - 1] && t->dim[t->rank - 1] == n));
}

/* The new node of old value @v if it is a product that nothing else reads. */
static const struct rlx_node *product(const struct qdq *q, uint32_t v)
{
	const struct rlx_node *n = q->rw.map[v] ? rlx_node_of(q->rw.g, q->rw.map[v]) : NULL;

	return n && q->rw.uses[v] == 1 && n->def->index == RLX_OP_qmatmul ? n : NULL;
}

enum { A_SCALE = 2, B_SCALE = 4, OUT_SCALE = 6, BIAS = 8, INPUTS };	/* of a qmatmul */

/* Old node @n is the product @mm with old value @v, its columns', as input @at. */
static bool with(struct qdq *q, const struct rlx_node *n, const struct rlx_node *mm,
		 unsigned int at, uint32_t v)
{
	uint32_t in[INPUTS];

	memcpy(in, mm->in, sizeof(in));
	if (!in[A_SCALE])
		in[A_SCALE] = rlx_scalar_const(q->rw.g, RLX_F32, 1).id;
	in[at] = vector_of(q, v).id;
	rlx_rewrite_set(&q->rw, n->out, rlx_node_new(q->rw.g, rlx_op_qmatmul.def,
			&(struct rlx_op_qmatmul){ 0 }, in, INPUTS, n));
	return true;
}

/* mul(cast(product), scale): the product of scales 1 and @scale. */
static bool scaled(struct qdq *q, const struct rlx_node *n)
{
	const struct rlx_graph *g = q->rw.old;
	const struct rlx_type *y = &g->val[n->out].type;
	uint32_t k;

	for (k = 0; k < 2; k++) {
		const struct rlx_node *cast = rlx_node_of(g, n->in[k]), *mm;

		if (cast->def->index != RLX_OP_cast || q->rw.uses[n->in[k]] != 1 ||
		    y->dtype != RLX_F32 || g->val[cast->in[0]].type.dtype != RLX_I32 ||
		    !rlx_type_equal(&g->val[n->in[k]].type, y) ||
		    !of_columns(g, n->in[1 - k], y))
			continue;
		mm = product(q, cast->in[0]);
		if (mm && !mm->in[A_SCALE] && !mm->in[BIAS])
			return with(q, n, mm, B_SCALE, n->in[1 - k]);
	}
	return false;
}

/* add(product, bias): the product has it. */
static bool biased(struct qdq *q, const struct rlx_node *n)
{
	const struct rlx_graph *g = q->rw.old;
	const struct rlx_type *y = &g->val[n->out].type;
	uint32_t k;

	for (k = 0; k < 2; k++) {
		const struct rlx_node *mm = product(q, n->in[k]);

		if (mm && mm->in[A_SCALE] && !mm->in[OUT_SCALE] && !mm->in[BIAS] &&
		    y->dtype == RLX_F32 && rlx_type_equal(&g->val[n->in[k]].type, y) &&
		    of_columns(g, n->in[1 - k], y) &&
		    count(g, n->in[1 - k]) == y->dim[y->rank - 1])
			return with(q, n, mm, BIAS, n->in[1 - k]);
	}
	return false;
}

/* Rows of a dequantized table: of its bytes, which stay a quarter, the rows are dequantized. */
static bool gathered(struct qdq *q, const struct rlx_node *n)
{
	const struct rlx_graph *g = q->rw.old;
	const struct rlx_node *d = rlx_node_of(g, n->in[0]);
	uint32_t in[2] = { d->n_in ? q->rw.map[d->in[0]] : 0, q->rw.map[n->in[1]] };
	const struct rlx_op_dequantize *a = d->args;
	rlx_value rows;

	if (d->def->index != RLX_OP_dequantize || a->block || !is_constant(g, d->in[0]) ||
	    count(g, d->in[1]) != 1 || q->rw.g->err.status)
		return false;
	rows = rlx_node_new(q->rw.g, n->def, n->args, in, 2, n);
	rlx_rewrite_set(&q->rw, n->out,
			rlx_emit(q->rw.g, dequantize, .x = rows,
				 .scale = vector_of(q, d->in[1]), .zp = vector_of(q, d->in[2])));
	return true;
}

static bool replaced(struct qdq *q, const struct rlx_node *n)
{
	switch (n->def->index) {
	case RLX_OP_matmul:
		return from_matmul(q, n) || (q->conv && rlx_quant_packed_weight(&q->rw, n));
	case RLX_OP_conv: return q->conv && from_conv(q, n);
	case RLX_OP_gather: return gathered(q, n);
	case RLX_OP_mul: return scaled(q, n);
	case RLX_OP_add: return biased(q, n);
	}
	return false;
}

enum rlx_status rlx_pass_qdq(struct rlx_pass_ctx *c, struct rlx_graph *g,
			     struct rlx_graph **out)
{
	struct rlx_graph *new = NULL;
	enum rlx_status st;
	/* GPUs have them without tensor cores, and no blocks of channels */
	struct qdq q = { .conv = c->target.channels > 0 };
	uint32_t n;

	st = rlx_rewrite_begin(&q.rw, g, c->err);
	if (st)
		return st;
	for (n = 0; n < g->n_node && !q.rw.g->err.status; n++)
		if (q.rw.live[n] && !replaced(&q, &g->node[n]))
			rlx_rewrite_copy(&q.rw, n);
	st = rlx_rewrite_end(&q.rw, &new);
	if (st || !new)
		return st;
	st = rlx_quant_propagate(new, out, c->err);
	rlx_graph_put(new);
	return st;
}
