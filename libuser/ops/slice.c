// SPDX-License-Identifier: MIT
/* Every step-th element between two positions, along any axes. */
#include "ops/batch.h"
#include "ops/emit.h"
#include "ops/slice_axis.h"

/*
 * Shapes:	x[d..] -> y[n..], n elements from start on by step before end; d on axes that are
 *		not named
 * Dtypes:	any; y as x
 * Does:	starts and ends are one number for each of axes, which are the first ones if not
 *		given; steps are 1 if not given. Negative positions count from the end; what lies
 *		outside is clamped to 0 to d, backwards (a step below 0) starts to 0 to d - 1 and
 *		ends to one before the first. Nothing in between gives an empty axis. A step of 0
 *		and an axis named twice are RLX_EINVAL.
 * Gradient:	dy where the elements came from, 0 elsewhere
 * Source:	ONNX Slice-13
 */
RLX_OP(slice, "x[start:end:step] along axes, clamped as in ONNX",
	IN(x)
	ATTR(ints, axes)
	ATTR(ints, starts)
	ATTR(ints, ends)
	ATTR(ints, steps),
	RLX_T_MOVE)

static enum rlx_status slice_infer(struct rlx_infer *q)
{
	const struct rlx_op_slice *a = q->args;
	const struct rlx_type *x = q->in[0];
	struct op_slice_axis r[RLX_MAX_RANK];
	enum rlx_status st;
	uint32_t i, mask;

	if (a->starts.n != a->ends.n || (a->axes.n && a->axes.n != a->starts.n) ||
	    (a->steps.n && a->steps.n != a->starts.n))
		return op_fail(q, RLX_EINVAL,
			       "%u starts, %u ends, %u axes, %u steps: not equally long",
			       a->starts.n, a->ends.n, a->axes.n, a->steps.n);
	if (a->starts.n > x->rank)
		return op_fail(q, RLX_ESHAPE, "%u starts for rank %u", a->starts.n,
			       x->rank);
	st = op_infer_axes(q, a->axes, x->rank, false, &mask);
	if (st)
		return st;
	for (i = 0; i < a->steps.n; i++)
		if (!a->steps.v[i])
			return op_fail(q, RLX_EINVAL, "step %u is 0", i);
	op_slice_axes(a, x, r);
	q->out[0] = *x;
	for (i = 0; i < x->rank; i++)
		q->out[0].dim[i] = r[i].n;
	return RLX_OK;
}

static enum rlx_status slice_eval(struct rlx_eval *q)
{
	const struct rlx_type *x = &q->in[0].type;
	int64_t own[RLX_MAX_RANK], s[RLX_MAX_RANK], base = 0;
	struct op_slice_axis r[RLX_MAX_RANK];
	struct op_walk w;
	uint32_t i;

	if (!rlx_type_count(&q->out[0].type))
		return RLX_OK;
	op_slice_axes(q->args, x, r);
	shape_dense(x, own);
	for (i = 0; i < x->rank; i++) {
		base += r[i].start * own[i];
		s[i] = r[i].n > 1 ? own[i] * r[i].step : 0;
	}
	op_walk_begin(&w, &q->out[0].type, s, NULL, NULL);
	for (; !w.done; op_walk_next(&w))
		el_copy(&q->out[0], w.i, &q->in[0], base + w.off[0]);
	return RLX_OK;
}

/* Put zeros between the elements along one axis: n becomes (n - 1) step + 1. */
static rlx_value spread(struct rlx_graph *g, rlx_value d, uint32_t axis, int64_t step)
{
	struct rlx_type t = op_type(g, d);
	int64_t pre = shape_span(&t, 0, axis), post = shape_span(&t, axis + 1, t.rank);
	int64_t n = t.dim[axis];

	d = op_reshape(g, d, (int64_t[]){ pre, n, 1, post }, 4);
	d = rlx_emit(g, pad, .x = d, .pads = RLX_INTS(0, 0, 0, 0, 0, 0, step - 1, 0));
	d = op_reshape(g, d, (int64_t[]){ pre, n * step, post }, 3);
	d = rlx_emit(g, pad, .x = d, .pads = RLX_INTS(0, 0, 0, 0, 1 - step, 0));
	t.dim[axis] = (n - 1) * step + 1;
	return op_reshape(g, d, t.dim, t.rank);
}

static enum rlx_status slice_vjp(struct rlx_grad *q)
{
	struct rlx_type x = op_type(q->g, q->in[0]), y = op_type(q->g, q->out[0]);
	int64_t pads[2 * RLX_MAX_RANK] = { 0 };
	struct op_slice_axis r[RLX_MAX_RANK];
	rlx_value d = q->d_out[0];
	uint32_t i;

	if (!rlx_type_count(&y)) {
		q->d_in[0] = op_zeros_like(q->g, q->in[0]);
		return op_done(q->g);
	}
	op_slice_axes(q->args, &x, r);
	for (i = 0; i < x.rank; i++) {
		if (r[i].n == 1)
			r[i].step = 1;
		if (r[i].step < 0) {
			r[i].start += (r[i].n - 1) * r[i].step;
			r[i].step = -r[i].step;
			d = rlx_emit(q->g, slice, .x = d, .axes = RLX_INTS(i),
				     .starts = RLX_INTS(-1), .ends = RLX_INTS(INT64_MIN),
				     .steps = RLX_INTS(-1));
		}
		if (r[i].step > 1)
			d = spread(q->g, d, i, r[i].step);
		pads[i] = r[i].start;
		pads[x.rank + i] = x.dim[i] - r[i].start - (r[i].n - 1) * r[i].step - 1;
	}
	q->d_in[0] = rlx_emit(q->g, pad, .x = d, .pads = { pads, 2 * x.rank });
	return op_done(q->g);
}

static bool slice_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_slice *a = s->args;

	s->n_in = 1;
	s->in[0] = rlx_type(RLX_F32, 5, 9, 7);
	switch (i) {
	case 0:
		a->starts = op_keep(s, RLX_INTS(1, 2));
		a->ends = op_keep(s, RLX_INTS(4, INT64_MAX));
		return true;
	case 1:
		a->axes = op_keep(s, RLX_INTS(-1));
		a->starts = op_keep(s, RLX_INTS(-1));
		a->ends = op_keep(s, RLX_INTS(INT64_MIN));
		a->steps = op_keep(s, RLX_INTS(-2));
		return true;
	case 2:
		a->axes = op_keep(s, RLX_INTS(1, 0));
		a->starts = op_keep(s, RLX_INTS(-100, 3));
		a->ends = op_keep(s, RLX_INTS(100, -9));
		a->steps = op_keep(s, RLX_INTS(4, -1));
		return true;
	case 3:		/* nothing is left */
		a->starts = op_keep(s, RLX_INTS(4));
		a->ends = op_keep(s, RLX_INTS(2));
		return true;
	case 4:
		s->in[0] = rlx_type(RLX_I64, 0, 3);
		a->starts = op_keep(s, RLX_INTS(-1, 1));
		a->ends = op_keep(s, RLX_INTS(INT64_MIN, 3));
		a->steps = op_keep(s, RLX_INTS(INT64_MIN, INT64_MAX));
		return true;
	case 5:
		s->in[0] = rlx_scalar(RLX_F32);
		return true;
	case 6:		/* backwards from in front of the axis, and from behind it */
		a->starts = op_keep(s, RLX_INTS(-6, INT64_MAX, INT64_MIN));
		a->ends = op_keep(s, RLX_INTS(INT64_MIN, 3, -8));
		a->steps = op_keep(s, RLX_INTS(-1, -2, -3));
		return true;
	}
	return false;
}

static enum rlx_status slice_batch(struct rlx_batching *q)
{
	struct rlx_op_slice a = *(const struct rlx_op_slice *)q->args;

	a.axes = op_batch_axis_list(q, a.axes, a.starts.n);
	q->to[0] = q->in[0].id;
	return op_batch_emit(q, &a);
}

const struct rlx_op_impl rlx_op_slice_impl = {
	.infer = slice_infer, .eval = slice_eval, .vjp = slice_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = slice_batch,
};
RLX_SAMPLES(slice, slice_sample)
