// SPDX-License-Identifier: MIT
/* The first part of each sequence turned round. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[..], lens[d], d the size of batch_axis -> y[..] like x
 * Dtypes:	x: any; lens: i32 i64 u32; y as x
 * Does:	at place b of batch_axis the first lens[b] slices along time_axis are put in
 *		reverse order; those behind stay.
 * Errors:	RLX_ERANGE for a length outside 0 to the axis' size.
 * Gradient:	dx = reverse_sequence(dy) with the same lengths
 * Source:	ONNX ReverseSequence-10
 */
RLX_OP(reverse_sequence, "for each batch b reverse the first lens[b] steps of the time axis",
	IN(x) IN(lens)
	REQ(i32, time_axis, "the dimension to reverse")
	REQ(i32, batch_axis, "the dimension that lens goes along"),
	RLX_T_MOVE)

static enum rlx_status reverse_sequence_infer(struct rlx_infer *q)
{
	const struct rlx_op_reverse_sequence *a = q->args;
	const struct rlx_type *x = q->in[0], *l = q->in[1];
	enum rlx_status st = op_need_index(q, 1);
	uint32_t t, b;

	if (!st)
		st = op_infer_axis(q, a->time_axis, x->rank, &t);
	if (!st)
		st = op_infer_axis(q, a->batch_axis, x->rank, &b);
	if (st)
		return st;
	if (t == b)
		return op_fail(q, RLX_EINVAL, "time and batch are both axis %u", t);
	if (l->rank != 1 || l->dim[0] != x->dim[b])
		return op_fail(q, RLX_ESHAPE, "lens must be [%lld]", (long long)x->dim[b]);
	return op_infer_same(q);
}

static enum rlx_status reverse_sequence_eval(struct rlx_eval *q)
{
	const struct rlx_op_reverse_sequence *a = q->args;
	const struct rlx_type *x = &q->in[0].type;
	uint32_t t = 0, b = 0;
	int64_t s[RLX_MAX_RANK], len, i;
	struct op_walk w;

	op_axis(a->time_axis, x->rank, &t);
	op_axis(a->batch_axis, x->rank, &b);
	for (i = 0; i < x->dim[b]; i++) {
		len = el_geti(&q->in[1], i);
		if (len < 0 || len > x->dim[t])
			return op_fail(q, RLX_ERANGE,
				       "length %lld of batch %lld is not in 0 to %lld",
				       (long long)len, (long long)i, (long long)x->dim[t]);
	}
	shape_dense(x, s);
	op_walk_begin(&w, x, s, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		len = el_geti(&q->in[1], w.idx[b]);
		if (len < 0 || len > x->dim[t])	/* lengths may be memory that others write */
			return op_fail(q, RLX_ERANGE, "lengths changed while they were read");
		i = w.idx[t] < len ? len - 1 - w.idx[t] : w.idx[t];
		el_copy(&q->out[0], w.i, &q->in[0], w.off[0] + (i - w.idx[t]) * s[t]);
	}
	return RLX_OK;
}

static enum rlx_status reverse_sequence_vjp(struct rlx_grad *q)
{
	const struct rlx_op_reverse_sequence *a = q->args;

	q->d_in[0] = rlx_emit(q->g, reverse_sequence, .x = q->d_out[0], .lens = q->in[1],
			      .time_axis = a->time_axis, .batch_axis = a->batch_axis);
	return op_done(q->g);
}

static bool reverse_sequence_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_reverse_sequence *a = s->args;

	if (i > 3)
		return false;
	s->n_in = 2;
	s->in[0] = i == 3 ? rlx_type(RLX_I32, 0, 2) : i == 2 ? rlx_type(RLX_F32, 2, 3, 5, 2) :
		   rlx_type(RLX_F32, 5, 4);
	a->time_axis = i == 2 ? -2 : i == 1 || i == 3;
	a->batch_axis = i == 0;
	s->in[1] = rlx_type(i == 1 ? RLX_I32 : RLX_I64, s->in[0].dim[a->batch_axis]);
	s->hi[1] = 4;
	return true;
}

static void reverse_sequence_bad_data(const void *args, char *text, size_t size)
{
	(void)args;
	snprintf(text, size, "a length is not in 0 to the size of the time axis");
}

const struct rlx_op_impl rlx_op_reverse_sequence_impl = {
	.infer = reverse_sequence_infer, .eval = reverse_sequence_eval,
	.bad_data = reverse_sequence_bad_data,
	.vjp = reverse_sequence_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = op_batch_axes_of_first,
};
RLX_SAMPLES(reverse_sequence, reverse_sequence_sample)
