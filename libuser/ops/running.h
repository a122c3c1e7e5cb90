/* SPDX-License-Identifier: MIT */
/* What cummax and cummin share: of equal ones the later, and NaN stays. */
#ifndef RLX_OPS_RUNNING_H
#define RLX_OPS_RUNNING_H

#include "ops/order.h"

static inline enum rlx_status op_running_infer(struct rlx_infer *q, int32_t axis)
{
	uint32_t ax;

	if (!q->in[0]->rank)
		return op_fail(q, RLX_ESHAPE, "a scalar has no axis to run along");
	return op_order_infer(q, axis, &ax);
}

/* Does the element at @i take the place of the best so far, which lies at @best? */
static inline bool op_running_takes(const struct rlx_tensor *x, int64_t i, int64_t best, bool min)
{
	double v, b;

	if (el_is_int(x->type.dtype))
		return min ? op_compare(x, i, best) <= 0 : op_compare(x, i, best) >= 0;
	v = el_get(x, i);
	b = el_get(x, best);
	return isnan(v) || (min ? v <= b : v >= b);
}

static inline void op_running_eval(struct rlx_eval *q, int32_t axis, bool min)
{
	const struct rlx_tensor *x = &q->in[0];
	int64_t d, stride, lines, i, k, at, base, best;
	uint32_t ax = 0;

	op_axis(axis, x->type.rank, &ax);
	d = x->type.dim[ax];
	stride = shape_span(&x->type, ax + 1, x->type.rank);
	lines = shape_span(&x->type, 0, ax) * stride;
	for (i = 0; i < lines; i++) {
		base = i / stride * d * stride + i % stride;
		for (best = k = 0; k < d; k++) {
			at = base + k * stride;
			if (op_running_takes(x, at, base + best * stride, min))
				best = k;
			el_copy(&q->out[0], at, x, base + best * stride);
			el_seti(&q->out[1], at, best);
		}
	}
}

/* Elements [from, to) along axis 1. */
static inline rlx_value op_running_part(struct rlx_graph *g, rlx_value x, int64_t from, int64_t to)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(1), .starts = RLX_INTS(from),
			.ends = RLX_INTS(to));
}

/*
 * By doubling: after each round an element has the best of twice as many that end with it. What is
 * joined is one stretch and the next, so that the order of rounds does not show in the result.
 */
static inline enum rlx_status op_running_expand(struct rlx_expand *q, int32_t axis, bool min)
{
	const struct rlx_type t = op_type(q->g, q->in[0]);
	struct rlx_graph *g = q->g;
	uint32_t ax = 0;
	int64_t d, step;
	rlx_value v, at, now[2], old[2], take;
	struct rlx_type ti;

	op_axis(axis, t.rank, &ax);
	d = t.dim[ax];
	v = op_fold3(g, q->in[0], ax);
	ti = op_type(g, v);
	ti.dtype = RLX_I64;
	at = rlx_emit(g, iota, .type = ti, .axis = 1);
	for (step = 1; step < d; step *= 2) {
		now[0] = op_running_part(g, v, step, d);
		old[0] = op_running_part(g, v, 0, d - step);
		now[1] = op_running_part(g, at, step, d);
		old[1] = op_running_part(g, at, 0, d - step);
		take = min ? rlx_emit(g, le, .a = now[0], .b = old[0]) :
			     rlx_emit(g, ge, .a = now[0], .b = old[0]);
		if (!el_is_int(t.dtype))
			take = rlx_emit(g, bit_or, .a = take,
					.b = rlx_emit(g, ne, .a = now[0], .b = now[0]));
		now[0] = rlx_emit(g, where, .cond = take, .a = now[0], .b = old[0]);
		now[1] = rlx_emit(g, where, .cond = take, .a = now[1], .b = old[1]);
		v = rlx_emit(g, concat, .axis = 1,
			     .xs = RLX_VALUES(op_running_part(g, v, 0, step), now[0]));
		at = rlx_emit(g, concat, .axis = 1,
			      .xs = RLX_VALUES(op_running_part(g, at, 0, step), now[1]));
	}
	q->out[0] = op_reshape(g, v, t.dim, t.rank);
	q->out[1] = op_reshape(g, at, t.dim, t.rank);
	return op_done(g);
}

static inline bool op_running_sample(unsigned int i, struct rlx_sample *s, int32_t *axis)
{
	if (i > 6)
		return false;
	s->n_in = 1;
	s->in[0] = i == 3 ? rlx_type(RLX_I32, 4, 65) : i == 4 ? rlx_type(RLX_F32, 0, 7) :
		   i == 5 ? rlx_type(RLX_F32, 1) : i == 6 ? rlx_type(RLX_I64, 2, 0, 3) :
		   rlx_type(RLX_F32, 3, 11, 5);
	if (i == 3)		/* many ties */
		s->hi[0] = 5;
	*axis = i < 3 ? (int32_t)i : i == 6 ? 1 : -1;
	return true;
}

#endif
