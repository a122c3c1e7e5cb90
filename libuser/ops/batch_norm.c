// SPDX-License-Identifier: MIT
/* Batch normalisation with known statistics. */
#include "ops/emit.h"

/*
 * Shapes:	x[n, c, ..], gamma[c], beta[c], mean[c], var[c] -> y[n, c, ..]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	(x - mean) / sqrt(var + eps) gamma + beta, each channel by its own numbers, which
 *		are given: it takes no statistics of x. eps is finite and not negative; where var
 *		+ eps is negative the channel is NaN.
 * Gradient:	by x scale + shift: to all five inputs
 * Source:	Ioffe and Szegedy 2015; ONNX BatchNormalization-15 in inference
 */
RLX_OP(batch_norm, "(x - mean[c]) / sqrt(var[c] + eps) gamma[c] + beta[c], channels at axis 1",
	IN(x) IN(gamma) IN(beta) IN(mean) IN(var)
	REQ(f32, eps, "what the model was trained with, often 1e-5"),
	RLX_T_REDUCTION | RLX_T_INPLACE)

static enum rlx_status batch_norm_infer(struct rlx_infer *q)
{
	static const char *const name[] = { "x", "gamma", "beta", "mean", "var" };
	const struct rlx_op_batch_norm *a = q->args;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_rank(q, 0, 2, RLX_MAX_RANK);
	uint32_t k;

	if (!st)
		st = op_need_real(q, "eps", a->eps, 0);
	for (k = 0; !st && k < 5; k++) {
		st = op_need_float(q, k, false);
		if (!st && k && (q->in[k]->rank != 1 || q->in[k]->dim[0] != x->dim[1]))
			st = op_fail(q, RLX_ESHAPE, "%s must be [%lld]", name[k],
				     (long long)x->dim[1]);
	}
	return st ? st : op_infer_same(q);
}

static enum rlx_status batch_norm_eval(struct rlx_eval *q)
{
	const struct rlx_op_batch_norm *a = q->args;
	const struct rlx_type *x = &q->in[0].type;
	int64_t n = rlx_type_count(x), sp = shape_span(x, 2, x->rank), i, c;
	double v;

	for (i = 0; i < n; i++) {
		c = i / sp % x->dim[1];
		v = (el_get(&q->in[0], i) - el_get(&q->in[3], c)) /
		    sqrt(el_get(&q->in[4], c) + a->eps);
		el_set(&q->out[0], i, v * el_get(&q->in[1], c) + el_get(&q->in[2], c));
	}
	return RLX_OK;
}

/* x scale + shift, with scale and shift of one channel each (folded if constant). */
static enum rlx_status batch_norm_expand(struct rlx_expand *q)
{
	const struct rlx_op_batch_norm *a = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type t = *q->out_type;
	enum rlx_dtype acc = op_acc_type(t.dtype);
	int64_t dim[RLX_MAX_RANK] = { t.dim[1], 1, 1, 1, 1, 1, 1, 1 };
	rlx_value in[5], scale, shift, x;
	uint32_t k;

	for (k = 0; k < 5; k++)
		in[k] = op_cast(g, q->in[k], acc);
	scale = rlx_emit(g, rsqrt, .x = op_add_const(g, in[4], a->eps));
	scale = rlx_emit(g, mul, .a = in[1], .b = scale);
	shift = rlx_emit(g, mul, .a = in[3], .b = scale);
	shift = rlx_emit(g, sub, .a = in[2], .b = shift);
	x = rlx_emit(g, mul, .a = in[0], .b = op_reshape(g, scale, dim, t.rank - 1));
	x = rlx_emit(g, add, .a = x, .b = op_reshape(g, shift, dim, t.rank - 1));
	q->out[0] = op_cast(g, x, t.dtype);
	return op_done(g);
}

static bool batch_norm_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_F32, 4, { 2, 5, 3, 7 } }, { RLX_F32, 2, { 4, 9 } },
		{ RLX_F32, 5, { 1, 3, 2, 2, 3 } }, { RLX_F32, 4, { 0, 3, 2, 2 } },
		{ RLX_F32, 3, { 2, 1, 1 } },
	};
	uint32_t k;

	if (i >= sizeof(x) / sizeof(x[0]))
		return false;
	s->n_in = 5;
	s->in[0] = x[i];
	for (k = 1; k < 5; k++)
		s->in[k] = rlx_type(RLX_F32, x[i].dim[1]);
	s->lo[4] = 0.3;
	s->hi[4] = 2;
	s->tol = 1e-5;
	((struct rlx_op_batch_norm *)s->args)->eps = 1e-5f;
	return true;
}

const struct rlx_op_impl rlx_op_batch_norm_impl = {
	.infer = batch_norm_infer, .eval = batch_norm_eval,
	.expand = batch_norm_expand,
};
RLX_SAMPLES(batch_norm, batch_norm_sample)
