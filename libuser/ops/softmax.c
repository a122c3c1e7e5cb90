// SPDX-License-Identifier: MIT
/* Softmax along any axis. */
#include "ops/softmax.h"

RLX_OP(softmax, "exp(x - max) / sum along one axis",
	IN(x)
	ATTR(i32, axis),
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
	static const struct { struct rlx_type x; int32_t axis; } c[] = {
		{ { RLX_F32, 2, { 5, 17 } }, -1 }, { { RLX_F32, 2, { 5, 17 } }, 0 },
		{ { RLX_F32, 4, { 2, 3, 4, 65 } }, 3 }, { { RLX_F32, 4, { 2, 3, 4, 5 } }, 1 },
		{ { RLX_F32, 1, { 1 } }, 0 }, { { RLX_F32, 3, { 3, 0, 2 } }, 1 },
		{ { RLX_F32, 2, { 0, 7 } }, -1 },
	};

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 1;
	s->in[0] = c[i].x;
	s->lo[0] = -9;
	s->hi[0] = 9;
	s->tol = 2e-6;
	((struct rlx_op_softmax *)s->args)->axis = c[i].axis;
	return true;
}

const struct rlx_op_impl rlx_op_softmax_impl = {
	.infer = softmax_infer, .eval = softmax_eval, .vjp = softmax_vjp,
	.sample = softmax_sample,
};
