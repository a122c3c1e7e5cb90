// SPDX-License-Identifier: MIT
/* Every step-th element between two positions, along any axes. */
#include "ops/emit.h"

RLX_OP(slice, "x[start:end:step] along axes, clamped as in numpy",
	IN(x)
	ATTR(ints, axes)
	ATTR(ints, starts)
	ATTR(ints, ends)
	ATTR(ints, steps),
	RLX_T_MOVE)

/* First position, step and count along one axis of @d elements; @step is not 0. */
struct range {
	int64_t	start, step, n;
};

static struct range range_of(int64_t start, int64_t end, int64_t step, int64_t d)
{
	struct range r = { 0, step, 0 };
	int64_t top = step > 0 ? d : d - 1, low = step > 0 ? 0 : -1;

	if (step == INT64_MIN)
		r.step = step = -INT64_MAX;
	if (!d)
		return r;
	start = start < 0 ? start + d : start;
	end = end < 0 ? end + d : end;
	r.start = start < 0 ? 0 : start > top ? top : start;
	end = end < low ? low : end > top ? top : end;
	if (step > 0 && end > r.start)
		r.n = (end - r.start - 1) / step + 1;
	else if (step < 0 && end < r.start)
		r.n = (r.start - end - 1) / -step + 1;
	return r;
}

/* Ranges of all axes; the arguments have been checked. */
static void ranges_of(const struct rlx_op_slice *a, const struct rlx_type *x,
		      struct range r[RLX_MAX_RANK])
{
	uint32_t i, ax = 0;

	for (i = 0; i < x->rank; i++)
		r[i] = (struct range){ 0, 1, x->dim[i] };
	for (i = 0; i < a->starts.n; i++) {
		if (!op_axis(a->axes.n ? a->axes.v[i] : i, x->rank, &ax))
			continue;
		r[ax] = range_of(a->starts.v[i], a->ends.v[i],
				 a->steps.n ? a->steps.v[i] : 1, x->dim[ax]);
	}
}

static enum rlx_status slice_infer(struct rlx_infer *q)
{
	const struct rlx_op_slice *a = q->args;
	const struct rlx_type *x = q->in[0];
	struct range r[RLX_MAX_RANK];
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
	ranges_of(a, x, r);
	q->out[0] = *x;
	for (i = 0; i < x->rank; i++)
		q->out[0].dim[i] = r[i].n;
	return RLX_OK;
}

static enum rlx_status slice_eval(struct rlx_eval *q)
{
	const struct rlx_type *x = &q->in[0].type;
	int64_t own[RLX_MAX_RANK], s[RLX_MAX_RANK], base = 0;
	struct range r[RLX_MAX_RANK];
	struct op_walk w;
	uint32_t i;

	if (!rlx_type_count(&q->out[0].type))
		return RLX_OK;
	ranges_of(q->args, x, r);
	op_dense(x, own);
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
	int64_t pre = op_span(&t, 0, axis), post = op_span(&t, axis + 1, t.rank);
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
	struct range r[RLX_MAX_RANK];
	rlx_value d = q->d_out[0];
	uint32_t i;

	if (!rlx_type_count(&y)) {
		q->d_in[0] = op_zeros_like(q->g, q->in[0]);
		return op_done(q->g);
	}
	ranges_of(q->args, &x, r);
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
	}
	return false;
}

const struct rlx_op_impl rlx_op_slice_impl = {
	.infer = slice_infer, .eval = slice_eval, .vjp = slice_vjp,
	.sample = slice_sample,
};
