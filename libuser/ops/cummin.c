// SPDX-License-Identifier: MIT
/* Running minima along an axis. */
#include "ops/batch.h"
#include "ops/running.h"

/*
 * Shapes:	x[..] -> y[..], positions[..], both like x
 * Dtypes:	x: f64 f32 f16 bf16 and integers; y as x; positions: i64
 * Does:	the smallest of all elements along axis up to and with this one, and where along the
 *		axis it stands: of equal ones the last. From a NaN on all are NaN, at the last of
 *		them.
 * Gradient:	dy goes to where each element came from; none through positions
 * Source:	torch.cummin
 */
RLX_OP(cummin, "the smallest so far along an axis, and i64 positions; ties to the last, NaN stays",
	IN(x)
	REQ(i32, axis, "the dimension to run along, -1 for the last"),
	RLX_T_REDUCTION | RLX_T_STEPPED)

static enum rlx_status cummin_infer(struct rlx_infer *q)
{
	return op_running_infer(q, ((const struct rlx_op_cummin *)q->args)->axis);
}

static enum rlx_status cummin_eval(struct rlx_eval *q)
{
	op_running_eval(q, ((const struct rlx_op_cummin *)q->args)->axis, true);
	return RLX_OK;
}

static enum rlx_status cummin_expand(struct rlx_expand *q)
{
	return op_running_expand(q, ((const struct rlx_op_cummin *)q->args)->axis, true);
}

static enum rlx_status cummin_vjp(struct rlx_grad *q)
{
	return op_order_vjp(q, ((const struct rlx_op_cummin *)q->args)->axis);
}

static bool cummin_sample(unsigned int i, struct rlx_sample *s)
{
	return op_running_sample(i, s, &((struct rlx_op_cummin *)s->args)->axis);
}

const struct rlx_op_impl rlx_op_cummin_impl = {
	.infer = cummin_infer, .eval = cummin_eval, .expand = cummin_expand,
	.vjp = cummin_vjp,
	.batch = op_batch_axes,
};
RLX_SAMPLES(cummin, cummin_sample)
