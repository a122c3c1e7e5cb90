// SPDX-License-Identifier: MIT
/*
 * Bytes that pointwise ops read or write, as in a sum of two quantized branches: quantize and
 * dequantize are written as the casts and the arithmetic that they are, so that one region
 * reads bytes, computes in f32 and writes bytes. Alone they stay: they have kernels.
 */
#include "ir/element.h"
#include "ops/quant.h"
#include "pass/pass.h"
#include "pass/quant.h"

rlx_pass_fn rlx_pass_quant_pointwise;

static bool is_number(const struct rlx_graph *g, uint32_t v)
{
	return !v || (rlx_type_count(&g->val[v].type) == 1 &&
		      rlx_node_of(g, v)->def->index == RLX_OP_constant);
}

static bool is_bytes(const struct rlx_graph *g, uint32_t v)
{
	return op_quant_bytes(&g->val[v].type);
}

/* Between f32 and bytes by numbers that are known, one for all? */
static bool by_numbers(const struct rlx_graph *g, const struct rlx_node *n, bool back)
{
	uint32_t small = back ? n->in[0] : n->out, wide = back ? n->out : n->in[0];

	return is_bytes(g, small) && g->val[wide].type.dtype == RLX_F32 &&
	       g->val[n->in[1]].type.dtype == RLX_F32 && is_number(g, n->in[1]) &&
	       is_number(g, n->in[2]);
}

static bool is_pointwise(const struct rlx_graph *g, const struct rlx_node *n)
{
	return n->def->traits & RLX_T_ELEMENTWISE && n->n_in >= 1 && n->n_in <= 3 &&
	       g->val[n->out].type.dtype == RLX_F32;
}

static double number(const struct rlx_graph *g, uint32_t v, double absent)
{
	const struct rlx_op_constant *c;
	struct rlx_tensor t;

	if (!v)
		return absent;
	c = rlx_node_of(g, v)->args;
	t = (struct rlx_tensor){ c->type, (void *)(uintptr_t)rlx_blob_data(c->data) };
	return el_get(&t, 0);
}

static rlx_value scalar(struct rlx_rewrite *rw, uint32_t v)
{
	return op_reshape(rw->g, rlx_rewrite_value(rw, v), NULL, 0);
}

/* (x - zp) * scale; each reader has its own. */
static rlx_value widened(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	double zp = number(rw->old, n->in[2], 0);
	rlx_value x = op_cast(rw->g, rlx_rewrite_value(rw, n->in[0]), RLX_F32);

	if (zp != 0)
		x = op_add_const(rw->g, x, -zp);
	return rlx_emit(rw->g, mul, .a = x, .b = scalar(rw, n->in[1]));
}

/*
 * The cast saturates, and makes 0 of what is no number. As in GEMMs that give bytes, one
 * factor stands for what is divided by.
 */
static void narrowed(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	double zp = number(rw->old, n->in[2], 0);
	rlx_value x = op_mul_const(rw->g, rlx_rewrite_value(rw, n->in[0]),
				   1 / number(rw->old, n->in[1], 1));

	x = rlx_emit(rw->g, round, .x = x);
	if (zp != 0)
		x = op_add_const(rw->g, x, zp);
	rlx_rewrite_set(rw, n->out, op_cast(rw->g, x, rw->old->val[n->out].type.dtype));
}

/* A pointwise op that computes as many as it reads takes bytes for what was dequantized. */
static bool reads_bytes(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	const struct rlx_graph *g = rw->old;
	bool any = false;
	uint32_t in[3], k;

	for (k = 0; k < n->n_in; k++) {
		const struct rlx_node *from = n->in[k] ? rlx_node_of(g, n->in[k]) : NULL;

		in[k] = rw->map[n->in[k]];
		if (!from || from->def->index != RLX_OP_dequantize || !by_numbers(g, from, true) ||
		    rlx_type_count(&g->val[n->in[k]].type) != rlx_type_count(&g->val[n->out].type))
			continue;
		in[k] = widened(rw, from).id;
		any = true;
	}
	if (any && !rw->g->err.status)
		rlx_rewrite_set(rw, n->out, rlx_node_new(rw->g, n->def, n->args, in, n->n_in, n));
	return any;
}

enum rlx_status rlx_pass_quant_pointwise(struct rlx_pass_ctx *c, struct rlx_graph *g,
					 struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);
	uint32_t i;

	if (st)
		return st;
	for (i = 0; i < g->n_node && !rw.g->err.status; i++) {
		const struct rlx_node *n = &g->node[i];

		if (!rw.live[i])
			continue;
		if (is_pointwise(g, n) && reads_bytes(&rw, n))
			continue;
		if (n->def->index == RLX_OP_quantize && by_numbers(g, n, false) &&
		    rw.uses[n->in[0]] == 1 && is_pointwise(g, rlx_node_of(g, n->in[0])))
			narrowed(&rw, n);
		else
			rlx_rewrite_copy(&rw, i);
	}
	return rlx_rewrite_end(&rw, out);
}
