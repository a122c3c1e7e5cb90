// SPDX-License-Identifier: MIT
/* Running maxima along an axis. */
#include "ops/batch.h"
#include "ops/running.h"

/*
 * Shapes:	x[..] -> y[..], positions[..], both like x
 * Dtypes:	x: f64 f32 f16 bf16 and integers; y as x; positions: i64
 * Does:	the largest of all elements along axis up to and with this one, and where along the
 *		axis it stands: of equal ones the last. From a NaN on all are NaN, at the last of
 *		them.
 * Gradient:	dy goes to where each element came from; none through positions
 * Source:	torch.cummax
 */
RLX_OP(cummax, "the largest so far along an axis, and i64 positions; ties to the last, NaN stays",
	IN(x)
	REQ(i32, axis, "the dimension to run along, -1 for the last"),
	RLX_T_REDUCTION | RLX_T_STEPPED)

static enum rlx_status cummax_infer(struct rlx_infer *q)
{
	return op_running_infer(q, ((const struct rlx_op_cummax *)q->args)->axis);
}

static enum rlx_status cummax_eval(struct rlx_eval *q)
{
	op_running_eval(q, ((const struct rlx_op_cummax *)q->args)->axis, false);
	return RLX_OK;
}

static enum rlx_status cummax_expand(struct rlx_expand *q)
{
	return op_running_expand(q, ((const struct rlx_op_cummax *)q->args)->axis, false);
}

static enum rlx_status cummax_vjp(struct rlx_grad *q)
{
	return op_order_vjp(q, ((const struct rlx_op_cummax *)q->args)->axis);
}

static bool cummax_sample(unsigned int i, struct rlx_sample *s)
{
	return op_running_sample(i, s, &((struct rlx_op_cummax *)s->args)->axis);
}

const struct rlx_op_impl rlx_op_cummax_impl = {
	.infer = cummax_infer, .eval = cummax_eval, .expand = cummax_expand,
	.vjp = cummax_vjp,
	.batch = op_batch_axes,
};
RLX_SAMPLES(cummax, cummax_sample)
