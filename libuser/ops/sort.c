// SPDX-License-Identifier: MIT
/* Sorting along an axis. */
#include "ops/emit.h"

RLX_OP(sort, "ascending (or descending) along an axis, and i64 positions; stable, NaN is largest",
	IN(x)
	ATTR(i32, axis)
	ATTR(bool, descending),
	RLX_T_REDUCTION)

static enum rlx_status sort_infer(struct rlx_infer *q)
{
	const struct rlx_op_sort *a = q->args;
	enum rlx_status st = op_need_number(q, 0);
	uint32_t ax;

	if (!st)
		st = op_infer_axis(q, a->axis, q->in[0]->rank, &ax);
	if (st)
		return st;
	q->n_out = 2;
	q->out[0] = *q->in[0];
	q->out[1] = q->out[0];
	q->out[1].dtype = RLX_I64;
	return RLX_OK;
}

/* Positions of one line. */
static size_t sort_scratch(const struct rlx_infer *q)
{
	const struct rlx_op_sort *a = q->args;
	uint32_t ax = 0;

	op_axis(a->axis, q->in[0]->rank, &ax);
	return (size_t)q->in[0]->dim[ax] * sizeof(int64_t) + sizeof(int64_t);
}

static enum rlx_status sort_eval(struct rlx_eval *q)
{
	const struct rlx_op_sort *a = q->args;
	const struct rlx_tensor *x = &q->in[0];
	struct op_line l = { .t = x, .descending = a->descending };
	int64_t *idx = q->scratch, d, lines, i, k;
	uint32_t ax = 0;

	op_axis(a->axis, x->type.rank, &ax);
	d = x->type.dim[ax];
	l.stride = op_span(&x->type, ax + 1, x->type.rank);
	lines = op_span(&x->type, 0, ax) * l.stride;
	for (i = 0; i < lines; i++) {
		l.base = i / l.stride * d * l.stride + i % l.stride;
		for (k = 0; k < d; k++)
			idx[k] = k;
		op_sort(&l, idx, d);
		for (k = 0; k < d; k++) {
			el_copy(&q->out[0], l.base + k * l.stride, x,
				l.base + idx[k] * l.stride);
			el_seti(&q->out[1], l.base + k * l.stride, idx[k]);
		}
	}
	return RLX_OK;
}

static enum rlx_status sort_vjp(struct rlx_grad *q)
{
	const struct rlx_op_sort *a = q->args;

	if (!q->d_out[0].id)
		return RLX_OK;
	q->d_in[0] = rlx_emit(q->g, scatter_elements,
			      .x = op_zeros_like(q->g, q->in[0]), .indices = q->out[1],
			      .updates = q->d_out[0], .axis = a->axis,
			      .reduction = RLX_SCATTER_ADD);
	return op_done(q->g);
}

static bool sort_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_sort *a = s->args;

	if (i > 6)
		return false;
	s->n_in = 1;
	s->in[0] = i == 4 ? rlx_type(RLX_F32, 0, 7) : i == 5 ? rlx_type(RLX_F32, 1) :
		   rlx_type(RLX_F32, 3, 11, 5);
	a->axis = i < 3 ? (int32_t)i : -1;
	a->descending = i & 1;
	if (i == 3 || i == 6) {		/* many ties */
		s->in[0] = rlx_type(RLX_I32, 4, 65);
		s->hi[0] = 5;
	}
	return true;
}

const struct rlx_op_impl rlx_op_sort_impl = {
	.infer = sort_infer, .scratch = sort_scratch, .eval = sort_eval,
	.vjp = sort_vjp, .sample = sort_sample,
};
