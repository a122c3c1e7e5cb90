// SPDX-License-Identifier: MIT
/* Sorting along an axis. */
#include "ops/batch.h"
#include "ops/order.h"

/*
 * Shapes:	x[..] -> y[..], positions[..], both like x
 * Dtypes:	x: f64 f32 f16 bf16 and integers; y as x; positions: i64
 * Does:	the elements along axis from the smallest on, with descending from the largest,
 *		and where they came from. Equal ones keep their order, descending too; NaN is the
 *		largest, -0 equals 0.
 * Gradient:	dy goes to where each element came from; none through positions
 * Source:	numpy.sort, stable
 */
RLX_OP(sort, "ascending (or descending) along an axis, and i64 positions; stable, NaN is largest",
	IN(x)
	REQ(i32, axis, "the dimension to run along, -1 for the last")
	ATTR(bool, descending),
	RLX_T_REDUCTION | RLX_T_STEPPED | RLX_T_NONFINITE)

static enum rlx_status sort_infer(struct rlx_infer *q)
{
	const struct rlx_op_sort *a = q->args;
	uint32_t ax;

	return op_order_infer(q, a->axis, &ax);
}

static size_t sort_scratch(const struct rlx_infer *q)
{
	return op_order_scratch(q, ((const struct rlx_op_sort *)q->args)->axis);
}

static enum rlx_status sort_eval(struct rlx_eval *q)
{
	const struct rlx_op_sort *a = q->args;

	op_order_eval(q, a->axis, a->descending);
	return RLX_OK;
}

static enum rlx_status sort_vjp(struct rlx_grad *q)
{
	return op_order_vjp(q, ((const struct rlx_op_sort *)q->args)->axis);
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
	.vjp = sort_vjp,
	.batch = op_batch_axes,
};
RLX_SAMPLES(sort, sort_sample)
