// SPDX-License-Identifier: MIT
/* The gradient of layer norm, from the statistics of the forward pass. */
#include "ops/norm_grad.h"

/*
 * Shapes:	x[a.., t..], t from axis on, dy like it, gamma broadcast to [t..], mean[a.., 1..]
 *		and inv like it -> dx as x, dgamma[t..], dbeta[t..]
 * Dtypes:	x, dy, gamma, mean, inv: f64 f32 f16 bf16; dx as x; dgamma, dbeta: f64 if x or dy
 *		is, else f32
 * Does:	with xh = (x - mean) inv and d = dy gamma, or dy without one: dx = inv (d - mean d -
 *		xh mean(d xh)), means over the dimensions from axis on; dgamma = dy xh and dbeta =
 *		dy, summed over those ahead of axis. Of layer_norm(x, gamma, beta), whose mean and
 *		1 / sqrt(var + eps) mean and inv are, that is what dy brings to x, and to gamma and
 *		beta before they are summed to their own shapes.
 * Gradient:	by those operations: to x, dy, gamma, mean and inv
 * Source:	Ba et al. 2016
 */
RLX_OP(layer_norm_grad, "gradients of layer_norm to x, gamma and beta, of its statistics",
	IN(x) IN(dy) OPT(gamma) IN(mean) IN(inv)
	REQ(i32, axis, "that of layer_norm"),
	RLX_T_REDUCTION)

enum { MEAN = 3, INV };

/* Of mean and inv, but for their dtypes. */
static struct rlx_type stats_of(const struct rlx_type *x, uint32_t ax)
{
	struct rlx_type t = *x;

	while (ax < t.rank)
		t.dim[ax++] = 1;
	return t;
}

static enum rlx_status layer_norm_grad_infer(struct rlx_infer *q)
{
	const struct rlx_op_layer_norm_grad *a = q->args;
	enum rlx_status st;
	struct rlx_type t;
	uint32_t ax, k;

	st = op_infer_norm_grad(q, a->axis, &ax);
	if (st)
		return st;
	t = stats_of(q->in[0], ax);
	for (k = MEAN; k <= INV; k++) {
		st = op_need_float(q, k, false);
		if (st)
			return st;
		t.dtype = q->in[k]->dtype;
		if (!rlx_type_equal(&t, q->in[k]))
			return op_fail(q, RLX_ESHAPE, "%s has not the shape of x with 1 from axis "
				       "%u on", k == MEAN ? "mean" : "inv", ax);
	}
	return RLX_OK;
}

static void given(const struct rlx_eval *q, int64_t row, int64_t n, double out[2])
{
	(void)n;
	out[0] = el_get(&q->in[MEAN], row);
	out[1] = el_get(&q->in[INV], row);
}

static size_t layer_norm_grad_scratch(const struct rlx_infer *q)
{
	return op_norm_grad_scratch(q, ((const struct rlx_op_layer_norm_grad *)q->args)->axis);
}

static enum rlx_status layer_norm_grad_eval(struct rlx_eval *q)
{
	op_norm_grad_eval(q, ((const struct rlx_op_layer_norm_grad *)q->args)->axis, true, given);
	return RLX_OK;
}

static enum rlx_status layer_norm_grad_expand(struct rlx_expand *q)
{
	const struct rlx_op_layer_norm_grad *a = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type x = op_type(g, q->in[0]), dy = op_type(g, q->in[1]);
	enum rlx_dtype acc = op_norm_grad_acc(&x, &dy);
	rlx_value inv = op_cast(g, q->in[INV], acc), xh;

	xh = rlx_emit(g, sub, .a = op_cast(g, q->in[0], acc), .b = op_cast(g, q->in[MEAN], acc));
	op_norm_grad_expand(q, a->axis, true, rlx_emit(g, mul, .a = xh, .b = inv), inv);
	return op_done(g);
}

static bool layer_norm_grad_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_layer_norm_grad *a = s->args;

	if (!op_norm_grad_sample(i, s, &a->axis))
		return false;
	s->n_in = 5;
	s->in[MEAN] = s->in[INV] = stats_of(&s->in[0], shape_axis(a->axis, s->in[0].rank));
	s->lo[INV] = 0.5;
	s->hi[INV] = 2;
	return true;
}

const struct rlx_op_impl rlx_op_layer_norm_grad_impl = {
	.infer = layer_norm_grad_infer, .scratch = layer_norm_grad_scratch,
	.eval = layer_norm_grad_eval, .expand = layer_norm_grad_expand,
};
RLX_SAMPLES(layer_norm_grad, layer_norm_grad_sample)
