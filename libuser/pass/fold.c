// SPDX-License-Identifier: MIT
/*
 * Compute what depends on constants alone, with the ops' own reference
 * evaluation. Results larger than their operands (an expanded scalar) stay as
 * ops: folding them would cost memory and gain nothing.
 */
#include <string.h>

#include "base/alloc.h"
#include "pass/pass.h"

rlx_pass_fn rlx_pass_fold, rlx_pass_fold_again;

/* Reference evaluation is slow: leave what would take it long. */
static const double MOST_FLOPS = 3e7;

static const struct rlx_op_constant *constant_of(const struct rlx_rewrite *rw,
						 uint32_t old)
{
	uint32_t v = old ? rw->map[old] : 0;
	const struct rlx_node *n = v ? rlx_node_of(rw->g, v) : NULL;

	return n && n->def->index == RLX_OP_constant ? n->args : NULL;
}

/* A weight in fp8 may be multiplied as it is: until it is known where, it stays that. */
static bool may_stay(const struct rlx_rewrite *rw, const struct rlx_node *n)
{
	return n->def->index == RLX_OP_dequantize &&
	       rlx_dtype_is_float(rw->old->val[n->in[0]].type.dtype) &&
	       rlx_dtype_size(rw->old->val[n->out].type.dtype) == 2;
}

static bool may_fold(const struct rlx_rewrite *rw, const struct rlx_node *n)
{
	const struct rlx_type *types[16];
	struct rlx_infer q = { .def = n->def, .args = n->args, .n_in = n->n_in, .in = types };
	struct rlx_cost cost = { 0 };
	int64_t in = 0, out = 0;
	uint32_t i;

	if (!n->n_in || n->n_in > 16 || n->def->traits & (RLX_T_IMPURE | RLX_T_SUBGRAPH))
		return false;
	for (i = 0; i < n->n_in; i++) {
		if (n->in[i] && !constant_of(rw, n->in[i]))
			return false;
		types[i] = n->in[i] ? &rw->old->val[n->in[i]].type : NULL;
		in += types[i] ? rlx_type_bytes(types[i]) : 0;
	}
	for (i = 0; i < n->n_out; i++) {
		q.out[i] = rw->old->val[n->out + i].type;
		out += rlx_type_bytes(&q.out[i]);
	}
	q.n_out = n->n_out;
	if (n->def->impl->cost)
		n->def->impl->cost(&q, &cost);
	return cost.flops <= MOST_FLOPS && out <= 4 * in + 4096;
}

static void fold_node(struct rlx_rewrite *rw, uint32_t idx)
{
	const struct rlx_node *n = &rw->old->node[idx];
	struct rlx_tensor in[16] = { 0 }, out[RLX_MAX_OUT] = { 0 };
	struct rlx_error err = { 0 };
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = 0; i < n->n_in; i++) {
		const struct rlx_op_constant *c = constant_of(rw, n->in[i]);

		if (c)
			in[i] = (struct rlx_tensor){ c->type,
				(void *)(uintptr_t)rlx_blob_data(c->data) };
	}
	for (i = 0; i < n->n_out; i++) {
		out[i].type = rw->old->val[n->out + i].type;
		out[i].data = rlx_aligned(64, (size_t)rlx_type_bytes(&out[i].type) + 1);
		if (!out[i].data)
			st = RLX_ENOMEM;
	}
	if (!st)
		st = rlx_op_eval(&(struct rlx_eval){
			.err = &err, .def = n->def, .args = n->args, .n_in = n->n_in,
			.in = in, .n_out = n->n_out, .out = out });
	for (i = 0; i < n->n_out && !st; i++) {
		struct rlx_blob *b = rlx_blob_new(out[i].data,
				(size_t)rlx_type_bytes(&out[i].type), rlx_free, out[i].data);

		if (!b) {
			rlx_fail(&rw->g->err, RLX_ENOMEM, "fold: out of memory");
			break;
		}
		out[i].data = NULL;
		rlx_rewrite_set(rw, n->out + i, rlx_constant_blob(rw->g, out[i].type, b));
		rlx_blob_put(b);
	}
	for (i = 0; i < n->n_out; i++)
		rlx_free(out[i].data);
	/* bad data (an index out of range) is the run's to report */
	if (st)
		rlx_rewrite_copy(rw, idx);
}

static enum rlx_status fold(struct rlx_pass_ctx *c, struct rlx_graph *g, bool again,
			    struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);
	uint32_t n;

	if (st)
		return st;
	for (n = 0; n < g->n_node; n++) {
		if (!rw.live[n])
			continue;
		if (may_fold(&rw, &g->node[n]) && (again || !may_stay(&rw, &g->node[n])))
			fold_node(&rw, n);
		else
			rlx_rewrite_copy(&rw, n);
	}
	return rlx_rewrite_end(&rw, out);
}

enum rlx_status rlx_pass_fold(struct rlx_pass_ctx *c, struct rlx_graph *g,
			      struct rlx_graph **out)
{
	return fold(c, g, false, out);
}

/* What layout and expansion made constant. */
enum rlx_status rlx_pass_fold_again(struct rlx_pass_ctx *c, struct rlx_graph *g,
				    struct rlx_graph **out)
{
	return fold(c, g, true, out);
}
