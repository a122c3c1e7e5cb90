// SPDX-License-Identifier: MIT
/*
 * Quantising moves upwards: above what only moves elements, so that bytes are moved
 * and equal quantize nodes meet and merge; into a product, which then gives bytes.
 * Each is exact, but for the product: it rounds once where two did.
 *
 * Max pooling stays below: its kernel takes floats.
 */
#include "base/alloc.h"
#include "pass/pass.h"
#include "pass/quant.h"

struct propagate {
	struct rlx_rewrite	 rw;
	uint32_t		*reader;	/* per old value: a quantize that reads it */
};

/* One scale and one zero point for the whole tensor. */
static bool per_tensor(const struct rlx_graph *g, const struct rlx_node *n)
{
	return n->def->index == RLX_OP_quantize && n->in[2] &&
	       !((const struct rlx_op_quantize *)n->args)->block &&
	       rlx_type_count(&g->val[n->in[1]].type) == 1;
}

static bool same_scale(const struct rlx_graph *g, const struct rlx_node *a,
		       const struct rlx_node *b)
{
	return a->in[1] == b->in[1] && a->in[2] == b->in[2] &&
	       g->val[a->out].type.dtype == g->val[b->out].type.dtype;
}

/* Is the quantize @n as well above the moving op @from that makes its input? */
static bool may_pass(const struct propagate *p, const struct rlx_node *n,
		     const struct rlx_node *from)
{
	const struct rlx_graph *g = p->rw.old;
	uint32_t other;

	switch (from->def->index) {
	case RLX_OP_reshape:
		return true;
	case RLX_OP_transpose:
	case RLX_OP_concat:
		return p->rw.uses[n->in[0]] == 1;
	case RLX_OP_slice:
		/* quantising what is cut away would be lost work */
		other = p->reader[from->in[0]];
		return other && same_scale(g, n, rlx_node_of(g, other));
	}
	return false;
}

/* quantize(move(x, ..)) becomes move(quantize(x), ..). */
static void pass_up(struct propagate *p, const struct rlx_node *n,
		    const struct rlx_node *from)
{
	uint32_t in[3] = { 0, p->rw.map[n->in[1]], p->rw.map[n->in[2]] }, i;
	uint32_t *bytes = rlx_calloc(from->n_in, sizeof(*bytes));

	if (!bytes) {
		rlx_fail(&p->rw.g->err, RLX_ENOMEM, "quantize: out of memory");
		return;
	}
	for (i = 0; i < from->n_in; i++) {
		in[0] = p->rw.map[from->in[i]];
		bytes[i] = rlx_node_new(p->rw.g, n->def, n->args, in, 3, n).id;
	}
	rlx_rewrite_set(&p->rw, n->out, rlx_node_new(p->rw.g, from->def, from->args, bytes,
						     from->n_in, from));
	rlx_free(bytes);
}

/* Bytes below 0 do not exist: with a zero point of 0 a relu changes none. */
static bool clips_at_zero(const struct propagate *p, const struct rlx_node *n)
{
	const struct rlx_node *zp = rlx_node_of(p->rw.old, n->in[2]);
	const struct rlx_op_constant *c = zp->args;

	return p->rw.old->val[n->out].type.dtype == RLX_U8 &&
	       zp->def->index == RLX_OP_constant &&
	       *(const uint8_t *)rlx_blob_data(c->data) == 0;
}

static void drop_relu(struct propagate *p, const struct rlx_node *n,
		      const struct rlx_node *relu)
{
	uint32_t in[3] = { p->rw.map[relu->in[0]], p->rw.map[n->in[1]],
			   p->rw.map[n->in[2]] };

	rlx_rewrite_set(&p->rw, n->out,
			rlx_node_new(p->rw.g, n->def, n->args, in, 3, n));
}

/* Where the scale of the result stands among the inputs of a product; 0: is none. */
static uint32_t result_scale(const struct rlx_graph *g, const struct rlx_node *n)
{
	if (n->def->index == RLX_OP_qconv)
		return 7;
	/* a bias in f32 needs a result in f32 */
	if (n->def->index == RLX_OP_qmatmul &&
	    (!n->in[8] || g->val[n->in[8]].type.dtype == RLX_I32))
		return 6;
	return 0;
}

static bool constant(const struct rlx_graph *g, uint32_t v)
{
	return rlx_node_of(g, v)->def->index == RLX_OP_constant;
}

/* The product gives the bytes that @n would make of its f32 result. */
static bool into_product(struct propagate *p, const struct rlx_node *n,
			 const struct rlx_node *from)
{
	const struct rlx_graph *g = p->rw.old;
	enum rlx_dtype to = g->val[n->out].type.dtype;
	uint32_t at = result_scale(g, from), in[9], i;

	if (!at || p->rw.uses[n->in[0]] != 1 || g->val[from->out].type.dtype != RLX_F32 ||
	    (to != RLX_U8 && to != RLX_I8) || !constant(g, n->in[1]) ||
	    !constant(g, n->in[2]))
		return false;
	for (i = 0; i < 9; i++)
		in[i] = p->rw.map[from->in[i]];
	in[at] = p->rw.map[n->in[1]];
	in[at + 1] = p->rw.map[n->in[2]];
	rlx_rewrite_set(&p->rw, n->out,
			rlx_node_new(p->rw.g, from->def, from->args, in, 9, from));
	return true;
}

static bool moved(struct propagate *p, const struct rlx_node *n)
{
	const struct rlx_graph *g = p->rw.old;
	const struct rlx_node *from;

	if (!per_tensor(g, n))
		return false;
	from = rlx_node_of(g, n->in[0]);
	if (may_pass(p, n, from)) {
		pass_up(p, n, from);
		return true;
	}
	if (from->def->index == RLX_OP_relu && p->rw.uses[n->in[0]] == 1 &&
	    clips_at_zero(p, n)) {
		drop_relu(p, n, from);
		return true;
	}
	return into_product(p, n, from);
}

/* One step up for each quantize that can. *@out is NULL if none can. */
static enum rlx_status one_round(struct rlx_graph *g, struct rlx_graph **out,
				 struct rlx_error *err)
{
	struct propagate p = { 0 };
	enum rlx_status st = rlx_rewrite_begin(&p.rw, g, err);
	uint32_t n;

	if (st)
		return st;
	p.reader = rlx_calloc(g->n_val, sizeof(*p.reader));
	if (!p.reader)
		rlx_fail(&p.rw.g->err, RLX_ENOMEM, "quantize: out of memory");
	for (n = 0; p.reader && n < g->n_node; n++)
		if (p.rw.live[n] && per_tensor(g, &g->node[n]))
			p.reader[g->node[n].in[0]] = g->node[n].out;
	for (n = 0; n < g->n_node && !p.rw.g->err.status; n++)
		if (p.rw.live[n] && !moved(&p, &g->node[n]))
			rlx_rewrite_copy(&p.rw, n);
	rlx_free(p.reader);
	return rlx_rewrite_end(&p.rw, out);
}

rlx_pass_fn rlx_pass_cse;

enum rlx_status rlx_quant_propagate(struct rlx_graph *g, struct rlx_graph **out,
				    struct rlx_error *err)
{
	struct rlx_pass_ctx c = { .err = err };
	struct rlx_graph *cur = rlx_graph_get(g), *next = cur;
	enum rlx_status st = RLX_OK;
	bool merge = true;

	/* equal scales must be one value, and dead readers gone, before each round */
	while (!st && (next || !merge)) {
		next = NULL;
		st = merge ? rlx_pass_cse(&c, cur, &next) : one_round(cur, &next, err);
		merge = !merge;
		if (!st && next) {
			rlx_graph_put(cur);
			cur = next;
		}
	}
	if (st)
		rlx_graph_put(cur);
	else
		*out = cur;
	return st;
}
