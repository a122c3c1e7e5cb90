// SPDX-License-Identifier: MIT
/* The k largest or smallest elements along an axis. */
#include "ops/batch.h"
#include "ops/order.h"

/*
 * Shapes:	x[.., d, ..] -> y[.., k, ..], positions[.., k, ..] with d on axis
 * Dtypes:	x: f64 f32 f16 bf16 and integers; y as x; positions: i64
 * Does:	the k largest along axis from the largest on, with smallest the smallest from
 *		there, and where they came from. Of equal ones the first, NaN is the largest.
 *		unsorted says that any order would do; they come sorted all the same. k is at most
 *		d.
 * Gradient:	dy goes to where each element came from; none through positions
 * Source:	ONNX TopK-11
 */
RLX_OP(topk, "the k largest (or smallest) along an axis, and i64 positions; ties to the first",
	IN(x)
	REQ(i64, k, "how many to keep")
	REQ(i32, axis, "the dimension to run along, -1 for the last")
	ATTR(bool, smallest)
	ATTR(bool, unsorted),
	RLX_T_REDUCTION | RLX_T_STEPPED | RLX_T_NONFINITE)

static enum rlx_status topk_infer(struct rlx_infer *q)
{
	const struct rlx_op_topk *a = q->args;
	enum rlx_status st;
	uint32_t ax;

	st = op_order_infer(q, a->axis, &ax);
	if (st)
		return st;
	if (a->k < 0 || a->k > q->in[0]->dim[ax])
		return op_fail(q, RLX_ESHAPE, "k is %lld, axis %u has %lld elements",
			       (long long)a->k, ax, (long long)q->in[0]->dim[ax]);
	q->out[0].dim[ax] = q->out[1].dim[ax] = a->k;
	return RLX_OK;
}

static size_t topk_scratch(const struct rlx_infer *q)
{
	return op_order_scratch(q, ((const struct rlx_op_topk *)q->args)->axis);
}

static enum rlx_status topk_eval(struct rlx_eval *q)
{
	const struct rlx_op_topk *a = q->args;

	op_order_eval(q, a->axis, !a->smallest);
	return RLX_OK;
}

static enum rlx_status topk_vjp(struct rlx_grad *q)
{
	return op_order_vjp(q, ((const struct rlx_op_topk *)q->args)->axis);
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
	.vjp = topk_vjp,
	.batch = op_batch_axes,
};
RLX_SAMPLES(topk, topk_sample)
