// SPDX-License-Identifier: MIT
/* Single elements picked by index along an axis. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[..], indices[..] of x's rank, no larger than x but along axis -> y like indices
 * Dtypes:	x: any; indices: i32 i64 u32; y as x
 * Does:	each element of y is that of x at the same place but for axis (0 if not given),
 *		where the index says. A negative index counts from the end.
 * Errors:	RLX_ERANGE for an index outside the axis.
 * Gradient:	dy added into zeros at the indices; none to indices
 * Source:	ONNX GatherElements-13
 */
RLX_OP(gather_elements, "y[i][j] = x[indices[i][j]][j] (for axis 0)",
	IN(x) IN(indices)
	ATTR(i32, axis),
	RLX_T_MOVE)

static enum rlx_status gather_elements_infer(struct rlx_infer *q)
{
	const struct rlx_op_gather_elements *a = q->args;
	const struct rlx_type *x = q->in[0], *idx = q->in[1];
	enum rlx_status st = op_need_index(q, 1);
	uint32_t ax, i;

	if (!st)
		st = op_infer_axis(q, a->axis, x->rank, &ax);
	if (st)
		return st;
	if (idx->rank != x->rank)
		return op_fail(q, RLX_ESHAPE, "the indices have rank %u, x has %u",
			       idx->rank, x->rank);
	for (i = 0; i < x->rank; i++)
		if (i != ax && idx->dim[i] > x->dim[i])
			return op_fail(q, RLX_ESHAPE,
				       "the indices have size %lld on axis %u, x has %lld",
				       (long long)idx->dim[i], i, (long long)x->dim[i]);
	q->out[0] = *idx;
	q->out[0].dtype = x->dtype;
	return RLX_OK;
}

static enum rlx_status gather_elements_eval(struct rlx_eval *q)
{
	const struct rlx_op_gather_elements *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *idx = &q->in[1];
	int64_t own[RLX_MAX_RANK], s[RLX_MAX_RANK], at;
	struct op_walk w;
	enum rlx_status st;
	uint32_t ax = 0;

	op_axis(a->axis, x->type.rank, &ax);
	shape_dense(&x->type, own);
	memcpy(s, own, sizeof(s));
	s[ax] = 0;
	op_walk_begin(&w, &idx->type, s, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		st = op_index(q, el_geti(idx, w.i), x->type.dim[ax], &at);
		if (st)
			return st;
		el_copy(&q->out[0], w.i, x, w.off[0] + at * own[ax]);
	}
	return RLX_OK;
}

static enum rlx_status gather_elements_vjp(struct rlx_grad *q)
{
	const struct rlx_op_gather_elements *a = q->args;

	q->d_in[0] = rlx_emit(q->g, scatter_elements,
			      .x = op_zeros_like(q->g, q->in[0]), .indices = q->in[1],
			      .updates = q->d_out[0], .axis = a->axis,
			      .reduction = RLX_SCATTER_ADD);
	return op_done(q->g);
}

static bool gather_elements_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type x, idx; int32_t axis; } c[] = {
		{ { RLX_F32, 2, { 5, 4 } }, { RLX_I64, 2, { 3, 4 } }, 0 },
		{ { RLX_F32, 3, { 2, 3, 7 } }, { RLX_I32, 3, { 2, 3, 9 } }, -1 },
		{ { RLX_F32, 3, { 3, 4, 5 } }, { RLX_I64, 3, { 2, 6, 4 } }, 1 },
		{ { RLX_F32, 1, { 1 } }, { RLX_I64, 1, { 3 } }, 0 },
		{ { RLX_I32, 2, { 0, 4 } }, { RLX_I64, 2, { 0, 4 } }, 0 },
	};

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 2;
	s->in[0] = c[i].x;
	s->in[1] = c[i].idx;
	((struct rlx_op_gather_elements *)s->args)->axis = c[i].axis;
	s->hi[1] = (double)c[i].x.dim[c[i].axis < 0 ? c[i].x.rank - 1 : (uint32_t)c[i].axis] - 1;
	s->lo[1] = -s->hi[1] - 1;
	return true;
}

const struct rlx_op_impl rlx_op_gather_elements_impl = {
	.infer = gather_elements_infer, .eval = gather_elements_eval,
	.vjp = gather_elements_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
	.batch = op_batch_axes,
};
RLX_SAMPLES(gather_elements, gather_elements_sample)
