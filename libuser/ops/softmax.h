/* SPDX-License-Identifier: MIT */
/* What softmax and its logarithm share: they differ in the last step. */
#ifndef RLX_OPS_SOFTMAX_H
#define RLX_OPS_SOFTMAX_H

#include "ops/emit.h"

/* A float x and an axis of it; the output is like x. */
static inline enum rlx_status op_infer_lines(struct rlx_infer *q, int32_t axis)
{
	enum rlx_status st = op_need_float(q, 0, false);
	uint32_t ax;

	if (!st)
		st = op_infer_axis(q, axis, q->in[0]->rank, &ax);
	return st ? st : op_infer_same(q);
}

/* Line by line along the axis, less its largest element so that exp stays finite. */
static inline void op_softmax_lines(struct rlx_eval *q, int32_t axis, bool log_of)
{
	const struct rlx_tensor *x = &q->in[0];
	int64_t d, post, lines, i, k, base;
	double top, sum, v;
	uint32_t ax = 0;

	op_axis(axis, x->type.rank, &ax);
	d = x->type.dim[ax];
	post = shape_span(&x->type, ax + 1, x->type.rank);
	lines = shape_span(&x->type, 0, ax) * post;
	for (i = 0; i < lines; i++) {
		base = i / post * d * post + i % post;
		top = -INFINITY;
		sum = 0;
		for (k = 0; k < d; k++) {
			v = el_get(x, base + k * post);
			top = isnan(v) || v > top ? v : top;
		}
		for (k = 0; k < d; k++)
			sum += exp(el_get(x, base + k * post) - top);
		for (k = 0; k < d; k++) {
			v = el_get(x, base + k * post) - top;
			el_set(&q->out[0], base + k * post, log_of ? v - log(sum) : exp(v) / sum);
		}
	}
}

static inline bool op_softmax_sample(unsigned int i, struct rlx_sample *s, int32_t *axis)
{
	static const struct { struct rlx_type x; int32_t axis; } c[] = {
		{ { RLX_F32, 2, { 5, 17 } }, -1 }, { { RLX_F32, 2, { 5, 17 } }, 0 },
		{ { RLX_F32, 4, { 2, 3, 4, 65 } }, 3 }, { { RLX_F32, 4, { 2, 3, 4, 5 } }, 1 },
		{ { RLX_F32, 1, { 1 } }, 0 }, { { RLX_F32, 3, { 3, 0, 2 } }, 1 },
		{ { RLX_F32, 2, { 0, 7 } }, -1 },
	};

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 1;
	s->in[0] = c[i].x;
	s->lo[0] = -9;
	s->hi[0] = 9;
	s->tol = 2e-6;
	*axis = c[i].axis;
	return true;
}

#endif
