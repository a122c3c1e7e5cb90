// SPDX-License-Identifier: MIT
/* The k largest or smallest elements along an axis. */
#include "ops/emit.h"

RLX_OP(topk, "the k largest (or smallest) along an axis, and i64 positions; ties to the first",
	IN(x)
	ATTR(i64, k)
	ATTR(i32, axis)
	ATTR(bool, smallest)
	ATTR(bool, unsorted),
	RLX_T_REDUCTION)

static enum rlx_status topk_infer(struct rlx_infer *q)
{
	const struct rlx_op_topk *a = q->args;
	enum rlx_status st = op_need_number(q, 0);
	uint32_t ax;

	if (!st)
		st = op_infer_axis(q, a->axis, q->in[0]->rank, &ax);
	if (st)
		return st;
	if (a->k < 0 || a->k > q->in[0]->dim[ax])
		return op_fail(q, RLX_ESHAPE, "k is %lld, axis %u has %lld elements",
			       (long long)a->k, ax, (long long)q->in[0]->dim[ax]);
	q->n_out = 2;
	q->out[0] = *q->in[0];
	q->out[0].dim[ax] = a->k;
	q->out[1] = q->out[0];
	q->out[1].dtype = RLX_I64;
	return RLX_OK;
}

/* Positions of one line. */
static size_t topk_scratch(const struct rlx_infer *q)
{
	const struct rlx_op_topk *a = q->args;
	uint32_t ax = 0;

	op_axis(a->axis, q->in[0]->rank, &ax);
	return (size_t)q->in[0]->dim[ax] * sizeof(int64_t) + sizeof(int64_t);
}

static enum rlx_status topk_eval(struct rlx_eval *q)
{
	const struct rlx_op_topk *a = q->args;
	const struct rlx_tensor *x = &q->in[0];
	struct op_line l = { .t = x, .descending = !a->smallest };
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
		for (k = 0; k < a->k; k++) {
			int64_t at = (i / l.stride * a->k + k) * l.stride + i % l.stride;

			el_copy(&q->out[0], at, x, l.base + idx[k] * l.stride);
			el_seti(&q->out[1], at, idx[k]);
		}
	}
	return RLX_OK;
}

static enum rlx_status topk_vjp(struct rlx_grad *q)
{
	const struct rlx_op_topk *a = q->args;

	if (!q->d_out[0].id)
		return RLX_OK;
	q->d_in[0] = rlx_emit(q->g, scatter_elements,
			      .x = op_zeros_like(q->g, q->in[0]), .indices = q->out[1],
			      .updates = q->d_out[0], .axis = a->axis,
			      .reduction = RLX_SCATTER_ADD);
	return op_done(q->g);
}

static bool topk_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_topk *a = s->args;

	s->n_in = 1;
	s->in[0] = rlx_type(RLX_F32, 3, 11, 5);
	a->k = 3;
	switch (i) {
	case 0: case 1: case 2:
		a->axis = (int32_t)i - 1;
		a->smallest = i & 1;
		return true;
	case 3:		/* many ties */
		s->in[0] = rlx_type(RLX_I32, 4, 65);
		s->hi[0] = 5;
		a->axis = 1;
		a->k = 65;
		return true;
	case 4:
		a->k = 0;
		return true;
	case 5:
		s->in[0] = rlx_type(RLX_F32, 0, 7);
		a->axis = -1;
		a->unsorted = true;
		return true;
	case 6:
		s->in[0] = rlx_type(RLX_F32, 1);
		a->k = 1;
		return true;
	}
	return false;
}

const struct rlx_op_impl rlx_op_topk_impl = {
	.infer = topk_infer, .scratch = topk_scratch, .eval = topk_eval,
	.vjp = topk_vjp, .sample = topk_sample,
};
