// SPDX-License-Identifier: MIT
/* Logarithm of softmax along any axis. */
#include "ops/softmax.h"

RLX_OP(log_softmax, "x - max - log(sum(exp(x - max))) along one axis",
	IN(x)
	ATTR(i32, axis),
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
	rlx_value p = rlx_emit(q->g, exp, .x = q->out[0]), sum;

	sum = rlx_emit(q->g, reduce, .x = q->d_out[0], .axes = RLX_INTS(a->axis),
		       .keep_dims = true);
	q->d_in[0] = rlx_emit(q->g, sub, .a = q->d_out[0],
			      .b = rlx_emit(q->g, mul, .a = p, .b = sum));
	return op_done(q->g);
}

static bool log_softmax_sample(unsigned int i, struct rlx_sample *s)
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
	((struct rlx_op_log_softmax *)s->args)->axis = c[i].axis;
	return true;
}

const struct rlx_op_impl rlx_op_log_softmax_impl = {
	.infer = log_softmax_infer, .eval = log_softmax_eval, .vjp = log_softmax_vjp,
	.sample = log_softmax_sample,
};
