// SPDX-License-Identifier: MIT
/* Softmax along any axis. */
#include "ops/batch.h"
#include "ops/softmax.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	exp(x - max) / sum(exp(x - max)) along axis. NaN or +inf in a line, or nothing but
 *		-inf, makes all of the line NaN.
 * Gradient:	dx = y (dy - sum(dy y))
 * Source:	ONNX Softmax-13
 */
RLX_OP(softmax, "exp(x - max) / sum along one axis",
	IN(x)
	REQ(i32, axis, "-1 for the last dimension"),
	RLX_T_REDUCTION | RLX_T_INPLACE)

static enum rlx_status softmax_infer(struct rlx_infer *q)
{
	const struct rlx_op_softmax *a = q->args;

	return op_infer_lines(q, a->axis);
}

static enum rlx_status softmax_eval(struct rlx_eval *q)
{
	const struct rlx_op_softmax *a = q->args;

	op_softmax_lines(q, a->axis, false);
	return RLX_OK;
}

/* y (dy - sum y dy) */
static enum rlx_status softmax_vjp(struct rlx_grad *q)
{
	const struct rlx_op_softmax *a = q->args;
	rlx_value y = q->out[0], dot;

	dot = rlx_emit(q->g, reduce, .x = rlx_emit(q->g, mul, .a = y, .b = q->d_out[0]),
		       .axes = RLX_INTS(a->axis), .keep_dims = true);
	q->d_in[0] = rlx_emit(q->g, mul, .a = y,
			      .b = rlx_emit(q->g, sub, .a = q->d_out[0], .b = dot));
	return op_done(q->g);
}

static bool softmax_sample(unsigned int i, struct rlx_sample *s)
{
	return op_softmax_sample(i, s, &((struct rlx_op_softmax *)s->args)->axis);
}

const struct rlx_op_impl rlx_op_softmax_impl = {
	.infer = softmax_infer, .eval = softmax_eval, .vjp = softmax_vjp,
	.batch = op_batch_axes,
};
RLX_SAMPLES(softmax, softmax_sample)
