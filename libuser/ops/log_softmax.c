// SPDX-License-Identifier: MIT
/* Logarithm of softmax along any axis. */
#include "ops/batch.h"
#include "ops/emit.h"
#include "ops/softmax.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	x - max - log(sum(exp(x - max))) along axis. NaN or +inf in a line, or nothing but
 *		-inf, makes all of the line NaN.
 * Gradient:	dx = dy - exp(y) sum(dy)
 * Source:	ONNX LogSoftmax-13
 */
RLX_OP(log_softmax, "x - max - log(sum(exp(x - max))) along one axis",
	IN(x)
	REQ(i32, axis, "-1 for the last dimension"),
	RLX_T_REDUCTION | RLX_T_INPLACE)

static enum rlx_status log_softmax_infer(struct rlx_infer *q)
{
	const struct rlx_op_log_softmax *a = q->args;

	return op_infer_lines(q, a->axis);
}

static enum rlx_status log_softmax_eval(struct rlx_eval *q)
{
	const struct rlx_op_log_softmax *a = q->args;

	op_softmax_lines(q, a->axis, true);
	return RLX_OK;
}

/* dy - exp(y) sum dy */
static enum rlx_status log_softmax_vjp(struct rlx_grad *q)
{
	const struct rlx_op_log_softmax *a = q->args;
	rlx_value p = rlx_emit(q->g, exp, .x = q->out[0]);
	rlx_value sum = op_sum_scattered(q->g, q->d_out[0], a->axis);

	q->d_in[0] = rlx_emit(q->g, sub, .a = q->d_out[0],
			      .b = rlx_emit(q->g, mul, .a = p, .b = sum));
	return op_done(q->g);
}

static bool log_softmax_sample(unsigned int i, struct rlx_sample *s)
{
	return op_softmax_sample(i, s, &((struct rlx_op_log_softmax *)s->args)->axis);
}

const struct rlx_op_impl rlx_op_log_softmax_impl = {
	.infer = log_softmax_infer, .eval = log_softmax_eval, .vjp = log_softmax_vjp,
	.batch = op_batch_axes,
};
RLX_SAMPLES(log_softmax, log_softmax_sample)
