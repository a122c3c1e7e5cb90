// SPDX-License-Identifier: MIT
/* Linear recurrences along an axis. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	a[..], x[..] alike, initial[..] without axis -> y[..], as x
 * Dtypes:	f64 f32 f16 bf16; a, initial and y as x
 * Does:	y_t = a_t y_(t-1) + x_t along axis, from initial, or 0; reverse: from the end, of
 *		y_(t+1). Sums are kept in f32 (f64 of f64), whatever x is.
 * Gradient:	dx = the same from the other end with a moved by one, da_t = dx_t y_(t-1), dinitial
 *		= a dx at the first
 * Source:	Blelloch 1990; Gu and Dao 2023
 */
RLX_OP(linear_scan, "y_t = a_t y_(t-1) + x_t along an axis, from either end",
	IN(a) IN(x) OPT(initial)
	REQ(i32, axis, "the dimension to run along, -1 for the last")
	ATTR(bool, reverse),
	RLX_T_REDUCTION | RLX_T_STEPPED | RLX_T_CARRIES)

static enum rlx_status linear_scan_infer(struct rlx_infer *q)
{
	const struct rlx_op_linear_scan *o = q->args;
	const struct rlx_type *a = q->in[0], *x = q->in[1], *h = q->n_in > 2 ? q->in[2] : NULL;
	enum rlx_status st = op_need_float(q, 1, false);
	struct rlx_type want = *x;
	uint32_t ax;

	if (!st)
		st = op_infer_axis(q, o->axis, x->rank, &ax);
	if (st)
		return st;
	if (!rlx_type_equal(a, x))
		return op_fail(q, RLX_ESHAPE, "a and x must be of one type");
	want.rank--;
	memmove(want.dim + ax, want.dim + ax + 1, (want.rank - ax) * sizeof(want.dim[0]));
	want.dim[want.rank] = 0;
	if (h && !rlx_type_equal(h, &want))
		return op_fail(q, RLX_ESHAPE, "initial must be as x without axis %u", ax);
	q->out[0] = *x;
	return RLX_OK;
}

static enum rlx_status linear_scan_eval(struct rlx_eval *q)
{
	const struct rlx_op_linear_scan *o = q->args;
	const struct rlx_type *x = &q->in[1].type;
	uint32_t ax = shape_axis(o->axis, x->rank);
	int64_t n = x->dim[ax], post = shape_span(x, ax + 1, x->rank);
	int64_t lines = shape_span(x, 0, ax) * post, i, k, at;
	double h;

	for (i = 0; i < lines; i++) {
		h = q->n_in > 2 && op_has(&q->in[2]) ? el_get(&q->in[2], i) : 0;
		for (k = 0; k < n; k++) {
			at = (i / post * n + (o->reverse ? n - 1 - k : k)) * post + i % post;
			h = el_get(&q->in[0], at) * h + el_get(&q->in[1], at);
			el_set(&q->out[0], at, h);
		}
	}
	return RLX_OK;
}

/* x moved by one along @ax, away from where the recurrence begins; in front @first, or 0 */
static rlx_value moved(struct rlx_graph *g, rlx_value x, uint32_t ax, bool to_end, rlx_value first)
{
	struct rlx_type t = op_type(g, x);
	int64_t pads[2 * RLX_MAX_RANK] = { 0 };

	if (!x.id)
		return x;
	pads[ax] = to_end ? 1 : -1;
	pads[t.rank + ax] = -pads[ax];
	if (!first.id)
		return rlx_emit(g, pad, .x = x, .pads = { pads, 2 * t.rank });
	pads[to_end ? ax : t.rank + ax] = 0;
	x = rlx_emit(g, pad, .x = x, .pads = { pads, 2 * t.rank });
	t.dim[ax] = 1;
	first = op_reshape(g, first, t.dim, t.rank);
	return rlx_emit(g, concat, .axis = (int32_t)ax, .xs = to_end ? RLX_VALUES(first, x) :
			RLX_VALUES(x, first));
}

static enum rlx_status linear_scan_vjp(struct rlx_grad *q)
{
	const struct rlx_op_linear_scan *o = q->args;
	struct rlx_graph *g = q->g;
	rlx_value initial = q->n_in > 2 ? q->in[2] : RLX_NONE, dx, first;
	struct rlx_type x = op_type(g, q->in[1]), t;
	uint32_t ax = shape_axis(o->axis, x.rank);

	if (!x.dim[ax]) {
		q->d_in[0] = q->d_in[1] = op_zeros_like(g, q->in[1]);
		return op_done(g);
	}
	dx = rlx_emit(g, linear_scan, .a = moved(g, q->in[0], ax, o->reverse, RLX_NONE),
		      .x = q->d_out[0], .axis = (int32_t)ax, .reverse = !o->reverse);
	q->d_in[1] = dx;
	q->d_in[0] = rlx_emit(g, mul, .a = dx, .b = moved(g, q->out[0], ax, !o->reverse, initial));
	if (!initial.id)
		return op_done(g);
	t = op_type(g, initial);
	first = rlx_emit(g, mul, .a = dx, .b = q->in[0]);
	first = rlx_emit(g, slice, .x = first, .axes = RLX_INTS(ax),
			 .starts = RLX_INTS(o->reverse ? x.dim[ax] - 1 : 0),
			 .ends = RLX_INTS(o->reverse ? x.dim[ax] : 1));
	q->d_in[2] = op_reshape(g, first, t.dim, t.rank);
	return op_done(g);
}

static bool linear_scan_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type x; int32_t axis; bool initial; } c[] = {
		{ { RLX_F32, 3, { 2, 9, 5 } }, 1, true }, { { RLX_F32, 2, { 3, 17 } }, -1, false },
		{ { RLX_F32, 2, { 6, 70 } }, 0, true }, { { RLX_F32, 3, { 2, 0, 3 } }, 1, false },
		{ { RLX_F32, 1, { 1 } }, 0, true }, { { RLX_F32, 2, { 0, 4 } }, 1, false },
	};
	struct rlx_op_linear_scan *o = s->args;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 3;
	s->in[0] = s->in[1] = c[i].x;
	if (c[i].initial) {
		uint32_t ax = shape_axis(c[i].axis, c[i].x.rank);

		s->in[2] = c[i].x;
		s->in[2].rank--;
		memmove(s->in[2].dim + ax, s->in[2].dim + ax + 1,
			(s->in[2].rank - ax) * sizeof(int64_t));
		s->in[2].dim[s->in[2].rank] = 0;
	}
	s->lo[0] = -0.9;
	s->hi[0] = 0.9;
	s->tol = 2e-6;
	o->axis = c[i].axis;
	o->reverse = i % 2;
	return true;
}

const struct rlx_op_impl rlx_op_linear_scan_impl = {
	.infer = linear_scan_infer, .eval = linear_scan_eval, .vjp = linear_scan_vjp,
	.batch = op_batch_axes,
};
RLX_SAMPLES(linear_scan, linear_scan_sample)
