/* SPDX-License-Identifier: MIT */
/* What sort and topk share: sorted lines, of which topk keeps the first. */
#ifndef RLX_OPS_ORDER_H
#define RLX_OPS_ORDER_H

#include "ops/emit.h"

/* Two outputs: x's elements and their i64 positions; @ax is the axis counted from 0. */
static inline enum rlx_status op_order_infer(struct rlx_infer *q, int32_t axis,
					     uint32_t *ax)
{
	enum rlx_status st = op_need_number(q, 0);

	if (!st)
		st = op_infer_axis(q, axis, q->in[0]->rank, ax);
	if (st)
		return st;
	q->n_out = 2;
	q->out[0] = *q->in[0];
	q->out[1] = q->out[0];
	q->out[1].dtype = RLX_I64;
	return RLX_OK;
}

/* Positions of one line. */
static inline size_t op_order_scratch(const struct rlx_infer *q, int32_t axis)
{
	uint32_t ax = 0;

	op_axis(axis, q->in[0]->rank, &ax);
	return (size_t)q->in[0]->dim[ax] * sizeof(int64_t) + sizeof(int64_t);
}

/* Each line along the axis in order, as much of it as the outputs hold. */
static inline void op_order_eval(struct rlx_eval *q, int32_t axis, bool descending)
{
	const struct rlx_tensor *x = &q->in[0];
	struct op_line l = { .t = x, .descending = descending };
	int64_t *idx = q->scratch, d, keep, lines, i, k, at;
	uint32_t ax = 0;

	op_axis(axis, x->type.rank, &ax);
	d = x->type.dim[ax];
	keep = q->out[0].type.dim[ax];
	l.stride = shape_span(&x->type, ax + 1, x->type.rank);
	lines = shape_span(&x->type, 0, ax) * l.stride;
	for (i = 0; i < lines; i++) {
		l.base = i / l.stride * d * l.stride + i % l.stride;
		for (k = 0; k < d; k++)
			idx[k] = k;
		op_sort(&l, idx, d);
		for (k = 0; k < keep; k++) {
			at = (i / l.stride * keep + k) * l.stride + i % l.stride;
			el_copy(&q->out[0], at, x, l.base + idx[k] * l.stride);
			el_seti(&q->out[1], at, idx[k]);
		}
	}
}

/* Each gradient goes to the element it was taken from. */
static inline enum rlx_status op_order_vjp(struct rlx_grad *q, int32_t axis)
{
	if (!q->d_out[0].id)
		return RLX_OK;
	q->d_in[0] = rlx_emit(q->g, scatter_elements,
			      .x = op_zeros_like(q->g, q->in[0]), .indices = q->out[1],
			      .updates = q->d_out[0], .axis = axis,
			      .reduction = RLX_SCATTER_ADD);
	return op_done(q->g);
}

#endif
