// SPDX-License-Identifier: MIT
/* Running sums along an axis. */
#include "ops/batch.h"
#include "ops/scan.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	f64 f32 f16 bf16 and integers; y as x
 * Does:	the sum of all elements along axis up to and with this one; exclusive: without it,
 *		beginning at 0; reverse: from the end. Integers wrap.
 * Gradient:	dx = cumsum(dy) from the other end
 * Source:	ONNX CumSum-14, numpy.cumsum
 */
RLX_OP(cumsum, "running sum along an axis, from either end, with or without itself",
	IN(x)
	REQ(i32, axis, "the dimension to run along, -1 for the last")
	ATTR(bool, exclusive)
	ATTR(bool, reverse),
	RLX_T_REDUCTION | RLX_T_CARRIES)

static enum rlx_status cumsum_infer(struct rlx_infer *q)
{
	const struct rlx_op_cumsum *a = q->args;

	return op_scan_infer(q, a->axis);
}

static enum rlx_status cumsum_eval(struct rlx_eval *q)
{
	const struct rlx_op_cumsum *a = q->args;

	op_scan_eval(q, &(struct op_scan){ a->axis, a->exclusive, a->reverse, false });
	return RLX_OK;
}

static enum rlx_status cumsum_vjp(struct rlx_grad *q)
{
	const struct rlx_op_cumsum *a = q->args;

	q->d_in[0] = rlx_emit(q->g, cumsum, .x = q->d_out[0], .axis = a->axis,
			      .exclusive = a->exclusive, .reverse = !a->reverse);
	return op_done(q->g);
}

static bool cumsum_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_cumsum *a = s->args;
	struct op_scan scan;

	if (!op_scan_sample(i, s, &scan))
		return false;
	a->axis = scan.axis;
	a->exclusive = scan.exclusive;
	a->reverse = scan.reverse;
	return true;
}

const struct rlx_op_impl rlx_op_cumsum_impl = {
	.infer = cumsum_infer, .eval = cumsum_eval, .vjp = cumsum_vjp,
	.batch = op_batch_axes,
};
RLX_SAMPLES(cumsum, cumsum_sample)
