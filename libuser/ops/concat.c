// SPDX-License-Identifier: MIT
/* Joining tensors along an axis. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	xs[k][.., d(k), ..] -> y[.., the sum of d(k), ..] with d on axis; the other sizes
 *		are equal
 * Dtypes:	any, all the same; y as xs
 * Does:	puts one or more tensors behind each other along axis, 0 if not given. Empty ones
 *		may be among them.
 * Gradient:	each of xs gets its part of dy
 * Source:	ONNX Concat-13, numpy.concatenate
 */
RLX_OP(concat, "join tensors of one dtype along an axis",
	ATTR(i32, axis)
	INS(xs),
	RLX_T_MOVE)

static enum rlx_status concat_infer(struct rlx_infer *q)
{
	const struct rlx_op_concat *a = q->args;
	struct rlx_type *out = &q->out[0];
	enum rlx_status st;
	uint32_t k, i, ax;

	if (!q->n_in)
		return op_fail(q, RLX_EINVAL, "no inputs");
	*out = *q->in[0];
	st = op_infer_axis(q, a->axis, out->rank, &ax);
	for (k = 1; !st && k < q->n_in; k++) {
		const struct rlx_type *t = q->in[k];

		if (t->dtype != out->dtype)
			return op_fail(q, RLX_ETYPE, "input %u is %s, the first %s; cast one",
				       k, rlx_dtype_name(t->dtype),
				       rlx_dtype_name(out->dtype));
		if (t->rank != out->rank)
			return op_fail(q, RLX_ESHAPE, "input %u has rank %u, the first %u",
				       k, t->rank, out->rank);
		for (i = 0; i < t->rank; i++)
			if (i != ax && t->dim[i] != out->dim[i])
				return op_fail(q, RLX_ESHAPE,
					       "input %u has size %lld on axis %u, the first %lld",
					       k, (long long)t->dim[i], i,
					       (long long)out->dim[i]);
		if (__builtin_add_overflow(out->dim[ax], t->dim[ax], &out->dim[ax]))
			return op_fail(q, RLX_ESHAPE, "the sizes add up to over 2^63");
	}
	return st;
}

static enum rlx_status concat_eval(struct rlx_eval *q)
{
	const struct rlx_op_concat *a = q->args;
	const struct rlx_type *y = &q->out[0].type;
	size_t el = rlx_dtype_size(y->dtype), row, put = 0, stride;
	char *to = q->out[0].data;
	uint32_t k, ax = 0;
	int64_t pre, i;

	op_axis(a->axis, y->rank, &ax);
	pre = shape_span(y, 0, ax);
	stride = (size_t)shape_span(y, ax, y->rank) * el;
	for (k = 0; k < q->n_in; k++, put += row) {
		const struct rlx_tensor *x = &q->in[k];

		row = (size_t)shape_span(&x->type, ax, y->rank) * el;
		for (i = 0; row && i < pre; i++)
			memcpy(to + (size_t)i * stride + put,
			       (const char *)x->data + (size_t)i * row, row);
	}
	return RLX_OK;
}

static enum rlx_status concat_vjp(struct rlx_grad *q)
{
	const struct rlx_op_concat *a = q->args;
	int64_t from = 0, size;
	uint32_t k, ax = 0;

	op_axis(a->axis, op_type(q->g, q->out[0]).rank, &ax);
	for (k = 0; k < q->n_in; k++, from += size) {
		size = op_type(q->g, q->in[k]).dim[ax];
		q->d_in[k] = rlx_emit(q->g, slice, .x = q->d_out[0],
				      .axes = RLX_INTS(ax), .starts = RLX_INTS(from),
				      .ends = RLX_INTS(from + size));
	}
	return op_done(q->g);
}

static bool concat_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_concat *a = s->args;

	switch (i) {
	case 0:
		s->n_in = 3;
		s->in[0] = rlx_type(RLX_F32, 2, 3, 5);
		s->in[1] = rlx_type(RLX_F32, 2, 1, 5);
		s->in[2] = rlx_type(RLX_F32, 2, 0, 5);
		a->axis = 1;
		return true;
	case 1:
		s->n_in = 2;
		s->in[0] = rlx_type(RLX_I64, 7);
		s->in[1] = rlx_type(RLX_I64, 1);
		return true;
	case 2:
		s->n_in = 2;
		s->in[0] = s->in[1] = rlx_type(RLX_F32, 3, 1, 4);
		a->axis = -1;
		return true;
	case 3:
		s->n_in = 1;
		s->in[0] = rlx_type(RLX_BOOL, 3, 1);
		return true;
	}
	return false;
}

const struct rlx_op_impl rlx_op_concat_impl = {
	.infer = concat_infer, .eval = concat_eval, .vjp = concat_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = op_batch_axes,
};
RLX_SAMPLES(concat, concat_sample)
