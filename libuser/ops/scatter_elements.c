// SPDX-License-Identifier: MIT
/* Single elements written by index along an axis. */
#include "ops/batch.h"
#include "ops/scatter.h"

/*
 * Shapes:	x[..], indices[..] of x's rank, no larger than x but along axis, updates[..] like
 *		indices -> y[..] like x
 * Dtypes:	x: any; indices: i32 i64 u32; updates and y as x
 * Does:	y is x but at the places that the indices name along axis (0 if not given; other
 *		coordinates are the update's own), where updates are put. reduction
 *		RLX_SCATTER_NONE (if not given) replaces, and which of several updates of a place
 *		stays is not said; ADD, MUL, MAX, MIN combine with what is there, not for c64.
 *		Integers wrap; NaN wins in MAX and MIN. Negative indices count from the end.
 * Errors:	RLX_ERANGE for an index outside the axis.
 * Gradient:	updates get dy at their places. x gets dy, with RLX_SCATTER_NONE 0 where it was
 *		replaced. MUL: dy times the product of the other factors. MAX, MIN: dy to x and
 *		updates that equal the result, to each in full. None to indices
 * Source:	ONNX ScatterElements-18
 */
RLX_OP(scatter_elements, "y = x; y[indices[i][j]][j] op= updates[i][j] (for axis 0)",
	IN(x) IN(indices) IN(updates)
	ATTR(i32, axis)
	ATTR(i32, reduction),
	RLX_T_MOVE | RLX_T_ACCUMULATES)

static enum rlx_status scatter_elements_infer(struct rlx_infer *q)
{
	const struct rlx_op_scatter_elements *a = q->args;
	const struct rlx_type *x = q->in[0], *idx = q->in[1], *u = q->in[2];
	enum rlx_status st = op_scatter_infer(q, a->reduction);
	uint32_t ax, i;

	if (!st)
		st = op_infer_axis(q, a->axis, x->rank, &ax);
	if (st)
		return st;
	if (idx->rank != x->rank || u->rank != x->rank)
		return op_fail(q, RLX_ESHAPE, "x, indices and updates have ranks %u, %u, %u",
			       x->rank, idx->rank, u->rank);
	for (i = 0; i < x->rank; i++)
		if (u->dim[i] != idx->dim[i] || (i != ax && idx->dim[i] > x->dim[i]))
			return op_fail(q, RLX_ESHAPE,
				       "axis %u has sizes %lld, %lld, %lld in x, indices, updates",
				       i, (long long)x->dim[i], (long long)idx->dim[i],
				       (long long)u->dim[i]);
	return op_infer_same(q);
}

static size_t scatter_elements_scratch(const struct rlx_infer *q)
{
	const struct rlx_op_scatter_elements *a = q->args;

	return op_scatter_scratch(q, a->reduction);
}

static enum rlx_status scatter_elements_eval(struct rlx_eval *q)
{
	const struct rlx_op_scatter_elements *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *idx = &q->in[1];
	int64_t own[RLX_MAX_RANK], s[RLX_MAX_RANK], at;
	struct op_walk w;
	enum rlx_status st;
	uint32_t ax = 0;

	op_axis(a->axis, x->type.rank, &ax);
	shape_dense(&x->type, own);
	memcpy(s, own, sizeof(s));
	s[ax] = 0;
	op_scatter_begin(q, a->reduction);
	op_walk_begin(&w, &idx->type, s, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		st = op_index(q, el_geti(idx, w.i), x->type.dim[ax], &at);
		if (st)
			return st;
		op_scatter_one(q, a->reduction, w.off[0] + at * own[ax], w.i);
	}
	op_scatter_end(q, a->reduction);
	return RLX_OK;
}

/* Elements of @v at the op's indices. */
static rlx_value pick(struct rlx_grad *q, rlx_value v)
{
	const struct rlx_op_scatter_elements *a = q->args;

	return rlx_emit(q->g, gather_elements, .x = v, .indices = q->in[1],
			.axis = a->axis);
}

static enum rlx_status scatter_elements_vjp(struct rlx_grad *q)
{
	const struct rlx_op_scatter_elements *a = q->args;

	if (a->reduction == RLX_SCATTER_NONE) {
		q->d_in[0] = rlx_emit(q->g, scatter_elements, .x = q->d_out[0],
				      .indices = q->in[1], .axis = a->axis,
				      .updates = op_zeros_like(q->g, q->in[2]));
		q->d_in[2] = pick(q, q->d_out[0]);
	} else {
		op_scatter_vjp(q, a->reduction, pick);
	}
	return op_done(q->g);
}

static bool scatter_elements_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_scatter_elements *a = s->args;

	s->n_in = 3;
	s->in[0] = rlx_type(RLX_F32, 5, 7);
	s->in[1] = rlx_type(RLX_I64, 4, 6);
	s->tol = 1e-6;
	if (i < 5) {
		a->reduction = (int32_t)i;
		a->axis = i & 1 ? -1 : 0;
		s->hi[1] = 4;
		s->lo[1] = i ? -5 : 0;
		if (i == RLX_SCATTER_MUL) {
			s->lo[0] = s->lo[2] = 0.5;
			s->hi[0] = s->hi[2] = 1.5;
		}
		if (!i) {	/* one row: no two updates meet */
			s->in[1].dim[0] = 1;
		}
	} else if (i == 5) {
		s->in[0] = rlx_type(RLX_I32, 1);
		s->in[1] = rlx_type(RLX_I32, 9);
		s->lo[1] = -0.4;	/* only 0, but not "both 0" */
		s->hi[1] = 0.4;
		a->reduction = RLX_SCATTER_ADD;
	} else if (i == 6) {
		s->in[0] = rlx_type(RLX_F32, 3, 0);
		s->in[1] = rlx_type(RLX_I64, 2, 0);
	} else {
		return false;
	}
	s->in[2] = s->in[1];
	s->in[2].dtype = s->in[0].dtype;
	return true;
}

const struct rlx_op_impl rlx_op_scatter_elements_impl = {
	.infer = scatter_elements_infer, .scratch = scatter_elements_scratch,
	.eval = scatter_elements_eval, .vjp = scatter_elements_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
	.batch = op_batch_axes,
};
RLX_SAMPLES(scatter_elements, scatter_elements_sample)
