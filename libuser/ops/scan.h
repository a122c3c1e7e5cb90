/* SPDX-License-Identifier: MIT */
/* What running sums and products share: they differ in how two values join. */
#ifndef RLX_OPS_SCAN_H
#define RLX_OPS_SCAN_H

#include "ops/emit.h"

struct op_scan {
	int32_t	axis;
	bool	exclusive, reverse, product;
};

/* Numbers and an axis of them; the output is like x. */
static inline enum rlx_status op_scan_infer(struct rlx_infer *q, int32_t axis)
{
	enum rlx_status st = op_need_number(q, 0);
	uint32_t ax;

	if (!st)
		st = op_infer_axis(q, axis, q->in[0]->rank, &ax);
	return st ? st : op_infer_same(q);
}

static inline void op_scan_put(const struct rlx_tensor *y, int64_t at, bool ints,
			       uint64_t whole, double real)
{
	if (ints)
		el_seti(y, at, (int64_t)whole);
	else
		el_set(y, at, real);
}

/* Integers wrap, as their sums and products do elsewhere. */
static inline void op_scan_eval(struct rlx_eval *q, const struct op_scan *s)
{
	const struct rlx_tensor *x = &q->in[0], *y = &q->out[0];
	int64_t d, post, lines, i, k, at;
	bool ints = el_is_int(x->type.dtype);
	uint32_t ax = 0;

	op_axis(s->axis, x->type.rank, &ax);
	d = x->type.dim[ax];
	post = shape_span(&x->type, ax + 1, x->type.rank);
	lines = shape_span(&x->type, 0, ax) * post;
	for (i = 0; i < lines; i++) {
		uint64_t whole = s->product;
		double real = s->product;

		for (k = 0; k < d; k++) {
			at = i / post * d * post + i % post +
			     (s->reverse ? d - 1 - k : k) * post;
			if (s->exclusive)
				op_scan_put(y, at, ints, whole, real);
			if (ints && s->product)
				whole *= (uint64_t)el_geti(x, at);
			else if (ints)
				whole += (uint64_t)el_geti(x, at);
			else if (s->product)
				real *= el_get(x, at);
			else
				real += el_get(x, at);
			if (!s->exclusive)
				op_scan_put(y, at, ints, whole, real);
		}
	}
}

static inline bool op_scan_sample(unsigned int i, struct rlx_sample *s,
				  struct op_scan *a)
{
	if (i >= 7)
		return false;
	s->n_in = 1;
	s->in[0] = i == 4 ? rlx_type(RLX_I64, 3, 9) : i == 5 ?
		   rlx_type(RLX_F32, 3, 0) : i == 6 ? rlx_type(RLX_F32, 1) :
		   rlx_type(RLX_F32, 3, 5, 7);
	s->tol = 1e-5;
	a->axis = i < 3 ? (int32_t)i : -1;
	a->exclusive = i & 1;
	a->reverse = i & 2;
	return true;
}

#endif
