// SPDX-License-Identifier: MIT
/* Position of the largest or smallest element along an axis. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[.., d, ..] -> y without d, which is on axis; with keep_dims 1 in its place
 * Dtypes:	x: f64 f32 f16 bf16, integers, bool; y: i64
 * Does:	the position along axis of the largest element, with min of the smallest. Of equal
 *		ones the first, with last_index the last. NaN is taken for larger than any number,
 *		with min for smaller.
 * Errors:	RLX_ESHAPE if the axis is empty and y is not.
 * Gradient:	none: the result is a position
 * Source:	ONNX ArgMax-13, ArgMin-13, numpy.argmax
 */
RLX_OP(arg_reduce, "i64 position of the max (or min) along an axis; NaN wins, ties to the first",
	IN(x)
	REQ(i32, axis, "the dimension to run along, -1 for the last")
	ATTR(bool, min)
	ATTR(bool, keep_dims)
	ATTR(bool, last_index),
	RLX_T_REDUCTION | RLX_T_NODIFF | RLX_T_NONFINITE)

static enum rlx_status arg_reduce_infer(struct rlx_infer *q)
{
	const struct rlx_op_arg_reduce *a = q->args;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = x->dtype == RLX_BOOL ? RLX_OK : op_need_number(q, 0);
	struct rlx_type *y = &q->out[0];
	uint32_t ax, i;

	if (!st)
		st = op_infer_axis(q, a->axis, x->rank, &ax);
	if (st)
		return st;
	y->dtype = RLX_I64;
	for (i = 0; i < x->rank; i++)
		if (i != ax)
			y->dim[y->rank++] = x->dim[i];
		else if (a->keep_dims)
			y->dim[y->rank++] = 1;
	if (!x->dim[ax] && rlx_type_count(y))
		return op_fail(q, RLX_ESHAPE, "axis %u is empty", ax);
	return RLX_OK;
}

/* Element @i is better than @best; NaN is better than any number. */
static bool better(const struct rlx_tensor *t, bool min, int64_t i, int64_t best)
{
	int c = op_compare(t, i, best);

	if (!min || el_is_int(t->type.dtype))
		return min ? c < 0 : c > 0;
	if (isnan(el_get(t, best)))
		return false;
	return isnan(el_get(t, i)) || c < 0;
}

static bool tie(const struct rlx_tensor *t, int64_t i, int64_t best)
{
	return !op_compare(t, i, best);
}

static enum rlx_status arg_reduce_eval(struct rlx_eval *q)
{
	const struct rlx_op_arg_reduce *a = q->args;
	const struct rlx_tensor *x = &q->in[0];
	int64_t n = rlx_type_count(&q->out[0].type), d, post, i, k, base, best;
	uint32_t ax = 0;

	op_axis(a->axis, x->type.rank, &ax);
	d = x->type.dim[ax];
	post = shape_span(&x->type, ax + 1, x->type.rank);
	for (i = 0; i < n; i++) {
		base = i / post * d * post + i % post;
		best = 0;
		for (k = 1; k < d; k++)
			if (better(x, a->min, base + k * post, base + best * post) ||
			    (a->last_index && tie(x, base + k * post, base + best * post)))
				best = k;
		el_seti(&q->out[0], i, best);
	}
	return RLX_OK;
}

static bool arg_reduce_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_arg_reduce *a = s->args;

	s->n_in = 1;
	if (i < 8) {
		s->in[0] = rlx_type(RLX_F32, 3, 7, 5);
		a->axis = (int32_t)(i % 3) - 1;
		a->min = i & 1;
		a->keep_dims = i & 2;
		a->last_index = i & 4;
	} else if (i == 8) {	/* many ties */
		s->in[0] = rlx_type(RLX_I32, 4, 33);
		s->hi[0] = 3;
		a->axis = 1;
	} else if (i == 9) {
		s->in[0] = rlx_type(RLX_I64, 4, 33);
		s->hi[0] = 3;
		a->axis = 1;
		a->last_index = true;
	} else if (i == 10) {
		s->in[0] = rlx_type(RLX_F32, 0, 3);
		a->axis = 1;
	} else if (i == 11) {
		s->in[0] = rlx_type(RLX_U8, 1);
	} else {
		return false;
	}
	return true;
}

const struct rlx_op_impl rlx_op_arg_reduce_impl = {
	.infer = arg_reduce_infer, .eval = arg_reduce_eval,
	.batch = op_batch_axes,
};
RLX_SAMPLES(arg_reduce, arg_reduce_sample)
