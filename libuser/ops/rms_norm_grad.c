// SPDX-License-Identifier: MIT
/* The gradient of RMS norm. */
#include "ops/norm_grad.h"

/*
 * Shapes:	x[a.., t..], t from axis on, dy like it, gamma broadcast to [t..] -> dx as x,
 *		dgamma[t..], dbeta[t..]
 * Dtypes:	x, dy, gamma: f64 f32 f16 bf16; dx as x; dgamma, dbeta: f64 if x or dy is, else
 *		f32
 * Does:	with inv = 1 / sqrt(mean(x^2) + eps), xh = x inv and d = dy gamma, dy without one:
 *		dx = inv (d - xh mean(d xh)), means over the dimensions from axis on; dgamma =
 *		dy xh and dbeta = dy, summed over those ahead of axis. That is what dy brings to x
 *		of rms_norm(x, gamma, beta), and to gamma and beta before they are summed to their
 *		own shapes.
 * Gradient:	by those operations: to x, dy and gamma
 * Source:	Zhang and Sennrich 2019
 */
RLX_OP(rms_norm_grad, "gradients of rms_norm to x, gamma and beta",
	IN(x) IN(dy) OPT(gamma)
	REQ(i32, axis, "that of rms_norm")
	REQ(f32, eps, "that of rms_norm"),
	RLX_T_REDUCTION)

static enum rlx_status rms_norm_grad_infer(struct rlx_infer *q)
{
	const struct rlx_op_rms_norm_grad *a = q->args;
	enum rlx_status st = op_need_real(q, "eps", a->eps, 0);
	uint32_t ax;

	return st ? st : op_infer_norm_grad(q, a->axis, &ax);
}

static void of_squares(const struct rlx_eval *q, int64_t row, int64_t n, double out[2])
{
	const struct rlx_op_rms_norm_grad *a = q->args;
	double sum = 0, v;
	int64_t i;

	for (i = 0; i < n; i++) {
		v = el_get(&q->in[0], row * n + i);
		sum += v * v;
	}
	out[0] = 0;
	out[1] = 1 / sqrt(sum / (double)n + a->eps);
}

static size_t rms_norm_grad_scratch(const struct rlx_infer *q)
{
	return op_norm_grad_scratch(q, ((const struct rlx_op_rms_norm_grad *)q->args)->axis);
}

static enum rlx_status rms_norm_grad_eval(struct rlx_eval *q)
{
	op_norm_grad_eval(q, ((const struct rlx_op_rms_norm_grad *)q->args)->axis, false,
			  of_squares);
	return RLX_OK;
}

static enum rlx_status rms_norm_grad_expand(struct rlx_expand *q)
{
	const struct rlx_op_rms_norm_grad *a = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type t = op_type(g, q->in[0]), dy = op_type(g, q->in[1]);
	rlx_value x = op_cast(g, q->in[0], op_norm_grad_acc(&t, &dy)), inv;
	uint32_t ax = 0;

	op_axis(a->axis, t.rank, &ax);
	inv = op_reduce_span(g, rlx_emit(g, mul, .a = x, .b = x), RLX_REDUCE_MEAN, ax, t.rank);
	inv = rlx_emit(g, rsqrt, .x = op_add_const(g, inv, a->eps));
	op_norm_grad_expand(q, a->axis, false, rlx_emit(g, mul, .a = x, .b = inv), inv);
	return op_done(g);
}

static bool rms_norm_grad_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_rms_norm_grad *a = s->args;

	s->n_in = 3;
	a->eps = 1e-3f;
	return op_norm_grad_sample(i, s, &a->axis);
}

const struct rlx_op_impl rlx_op_rms_norm_grad_impl = {
	.infer = rms_norm_grad_infer, .scratch = rms_norm_grad_scratch,
	.eval = rms_norm_grad_eval, .expand = rms_norm_grad_expand,
};
RLX_SAMPLES(rms_norm_grad, rms_norm_grad_sample)
