// SPDX-License-Identifier: MIT
/* A mixture's gate that looks for experts in the best groups of them alone. */
#include "ops/emit.h"

/*
 * Shapes:	route and gate[.., e] -> ids[.., k], weights[.., k]; e a multiple of groups
 * Dtypes:	route, gate: f64 f32 f16 bf16; ids: i32; weights as gate
 * Does:	experts stand in groups of e / groups. A group is as good as the sum of its two
 *		best routing scores (of one, if it has no more); the keep best groups remain, and
 *		of their experts the k of the best routing scores, the best first. Ties go to the
 *		lower number, and a NaN comes behind all numbers. Weights are the gate scores
 *		there, for k above 1 divided by their sum + 1e-20, times scaling (1 if not given).
 * Errors:	RLX_ESHAPE if e is no multiple of groups, or the groups kept have fewer than k;
 *		RLX_EINVAL unless keep is from 1 to groups.
 * Gradient:	to gate, by division and sum; none to route, and none through ids
 * Source:	DeepSeek-AI 2024 (DeepSeek-V3)
 */
RLX_OP(group_topk, "the k best experts of the keep best groups: i32 ids, and their weights",
	IN(route) IN(gate)
	REQ(i64, groups, "how many groups the experts stand in")
	REQ(i64, keep, "how many of them remain")
	REQ(i64, k, "how many experts are chosen")
	ATTR_NZ(f32, scaling, 1),
	RLX_T_REDUCTION | RLX_T_STEPPED)

static enum rlx_status group_topk_infer(struct rlx_infer *q)
{
	const struct rlx_op_group_topk *a = q->args;
	const struct rlx_type *r = q->in[0], *w = q->in[1];
	enum rlx_status st = op_need_float(q, 0, false);
	int64_t e;

	st = st ? st : op_need_float(q, 1, false);
	st = st ? st : op_need_rank(q, 0, 1, RLX_MAX_RANK);
	st = st ? st : op_need_real(q, "scaling", (double)a->scaling, -INFINITY);
	if (st)
		return st;
	if (r->rank != w->rank || memcmp(r->dim, w->dim, r->rank * sizeof(*r->dim)))
		return op_fail(q, RLX_ESHAPE, "route and gate are of one shape");
	if (a->groups < 1 || a->keep < 1 || a->keep > a->groups)
		return op_fail(q, RLX_EINVAL, "keep is %lld of %lld groups", (long long)a->keep,
			       (long long)a->groups);
	e = r->dim[r->rank - 1];
	if (e % a->groups)
		return op_fail(q, RLX_ESHAPE, "%lld experts do not make %lld groups",
			       (long long)e, (long long)a->groups);
	if (e > INT32_MAX)
		return op_fail(q, RLX_ERANGE, "%lld experts; ids are i32", (long long)e);
	if (a->k < 0 || a->k > e / a->groups * a->keep)
		return op_fail(q, RLX_ESHAPE, "k is %lld, %lld groups of %lld remain",
			       (long long)a->k, (long long)a->keep, (long long)(e / a->groups));
	q->n_out = 2;
	q->out[0] = *r;
	q->out[0].dtype = RLX_I32;
	q->out[1] = *w;
	q->out[0].dim[r->rank - 1] = q->out[1].dim[r->rank - 1] = a->k;
	return RLX_OK;
}

/* The @k least of each line of @x, in order; NaN is the largest. Output 1: where. */
static rlx_value least(struct rlx_graph *g, rlx_value x, int64_t k, int32_t axis)
{
	return rlx_emit(g, topk, .x = x, .k = k, .axis = axis, .smallest = true);
}

/* Groups that remain, by number: [rows, keep, 1]. @neg: negated scores [rows, groups, per]. */
static rlx_value best_groups(struct rlx_graph *g, const struct rlx_op_group_topk *a, rlx_value neg)
{
	struct rlx_type t = op_type(g, neg);
	rlx_value v = least(g, neg, t.dim[2] < 2 ? t.dim[2] : 2, 2);

	v = rlx_emit(g, reduce, .x = v, .axes = RLX_INTS(2));
	v = rlx_out(g, least(g, v, a->keep, 1), 1);
	return op_reshape(g, least(g, v, a->keep, 1), (int64_t[]){ t.dim[0], a->keep, 1 }, 3);
}

static enum rlx_status group_topk_expand(struct rlx_expand *q)
{
	const struct rlx_op_group_topk *a = q->args;
	struct rlx_type t = op_type(q->g, q->in[0]), three;
	enum rlx_dtype acc = op_acc_type(t.dtype), wide = op_acc_type(q->out_type[1].dtype);
	int64_t e = t.dim[t.rank - 1], per = e / a->groups, rows = shape_span(&t, 0, t.rank - 1);
	struct rlx_graph *g = q->g;
	rlx_value v, at, ids, w, sum;

	v = rlx_emit(g, neg, .x = op_cast(g, q->in[0], acc));
	v = op_reshape(g, v, (int64_t[]){ rows, a->groups, per }, 3);
	at = best_groups(g, a, v);
	three = rlx_type(RLX_I64, rows, a->keep, per);
	at = op_expand_to(g, at, &three);
	ids = rlx_emit(g, iota, .type = rlx_type(RLX_I64, 1, 1, per), .axis = 2);
	ids = rlx_emit(g, add, .a = op_mul_const(g, at, (double)per), .b = ids);
	v = rlx_emit(g, gather_elements, .x = v, .indices = at, .axis = 1);
	v = op_reshape(g, v, (int64_t[]){ rows, a->keep * per }, 2);
	at = rlx_out(g, least(g, v, a->k, 1), 1);
	ids = op_reshape(g, ids, (int64_t[]){ rows, a->keep * per }, 2);
	ids = rlx_emit(g, gather_elements, .x = ids, .indices = at, .axis = 1);
	w = op_reshape(g, op_cast(g, q->in[1], wide), (int64_t[]){ rows, e }, 2);
	w = rlx_emit(g, gather_elements, .x = w, .indices = ids, .axis = 1);
	if (a->k > 1) {
		sum = rlx_emit(g, reduce, .x = w, .axes = RLX_INTS(1), .keep_dims = true);
		w = rlx_emit(g, div, .a = w, .b = op_add_const(g, sum, 1e-20));
	}
	w = op_cast(g, op_mul_const(g, w, (double)a->scaling), q->out_type[1].dtype);
	q->out[0] = op_reshape(g, op_cast(g, ids, RLX_I32), q->out_type[0].dim, t.rank);
	q->out[1] = op_reshape(g, w, q->out_type[1].dim, t.rank);
	return op_done(g);
}

static bool group_topk_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_group_topk *a = s->args;

	if (i > 4)
		return false;
	s->n_in = 2;
	s->in[0] = s->in[1] = i == 3 ? rlx_type(RLX_F32, 0, 6) : i == 2 ? rlx_type(RLX_F32, 8) :
			      rlx_type(RLX_F32, 3, 5, 24);
	s->lo[1] = 0.1;
	s->hi[1] = 1;
	s->tol = 1e-6;
	a->groups = i == 1 ? 24 : i == 3 ? 3 : 4;
	a->keep = i == 1 ? 7 : 2;
	a->k = i == 1 ? 6 : i == 4 ? 1 : 3;
	a->scaling = i ? 2.5f : 1;
	return true;
}

const struct rlx_op_impl rlx_op_group_topk_impl = {
	.infer = group_topk_infer, .expand = group_topk_expand,
};
RLX_SAMPLES(group_topk, group_topk_sample)
