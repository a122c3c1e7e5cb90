// SPDX-License-Identifier: MIT
/* A layer norm whose scale and shift come with the input: diffusion transformers. */
#include "ops/emit.h"

/*
 * Shapes:	x[.., d], scale and shift that broadcast to it (as [b, 1, d] to [b, s, d]) -> y
 *		like x
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	(x - mean) / sqrt(var + eps) (1 + scale) + shift, mean and variance (divided by d)
 *		over the last dimension, computed in f32 or f64.
 * Gradient:	by those operations: to x, scale and shift
 * Source:	Peebles and Xie 2023 (adaLN)
 */
RLX_OP(ada_layer_norm, "x normalised over its last dimension, times 1 + scale, plus shift",
	IN(x) IN(scale) IN(shift)
	REQ(f32, eps, "what the model was trained with, often 1e-6"),
	RLX_T_REDUCTION)

static enum rlx_status ada_layer_norm_infer(struct rlx_infer *q)
{
	static const char *const name[] = { "x", "scale", "shift" };
	const struct rlx_op_ada_layer_norm *a = q->args;
	enum rlx_status st = op_need_rank(q, 0, 1, RLX_MAX_RANK);
	uint32_t k;

	for (k = 0; !st && k < 3; k++)
		st = op_need_float(q, k, false);
	if (!st)
		st = op_need_real(q, "eps", a->eps, 0);
	for (k = 1; !st && k < 3; k++)
		if (!op_fits(q->in[k], q->in[0]))
			st = op_fail(q, RLX_ESHAPE, "%s does not broadcast to x", name[k]);
	return st ? st : op_infer_same(q);
}

static enum rlx_status ada_layer_norm_expand(struct rlx_expand *q)
{
	const struct rlx_op_ada_layer_norm *a = q->args;
	enum rlx_dtype acc = op_acc_type(q->out_type->dtype);
	rlx_value x = op_cast(q->g, q->in[0], acc), scale = op_cast(q->g, q->in[1], acc);

	x = rlx_emit(q->g, layer_norm, .x = x, .axis = -1, .eps = a->eps);
	x = rlx_emit(q->g, mul, .a = x, .b = op_add_const(q->g, scale, 1));
	x = rlx_emit(q->g, add, .a = x, .b = op_cast(q->g, q->in[2], acc));
	q->out[0] = op_cast(q->g, x, q->out_type->dtype);
	return op_done(q->g);
}

static bool ada_layer_norm_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 2)
		return false;
	s->n_in = 3;
	s->in[0] = i == 1 ? rlx_type(RLX_F32, 5) : rlx_type(RLX_F32, i ? 0 : 2, 3, 17);
	s->in[1] = i == 1 ? rlx_type(RLX_F32, 5) : rlx_type(RLX_F32, i ? 0 : 2, 1, 17);
	s->in[2] = i == 1 ? rlx_type(RLX_F32, 1) : s->in[1];
	s->tol = 1e-5;
	((struct rlx_op_ada_layer_norm *)s->args)->eps = 1e-5f;
	return true;
}

const struct rlx_op_impl rlx_op_ada_layer_norm_impl = {
	.infer = ada_layer_norm_infer, .expand = ada_layer_norm_expand,
};
RLX_SAMPLES(ada_layer_norm, ada_layer_norm_sample)
