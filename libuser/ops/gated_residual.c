// SPDX-License-Identifier: MIT
/* A branch that a gate weighs, added to what goes past it: diffusion transformers. */
#include "ops/emit.h"

/*
 * Shapes:	x[..], gate and y that broadcast to it (gate as [b, 1, d] to [b, s, d]) -> like x
 * Dtypes:	f64 f32 f16 bf16; the result as x
 * Does:	x + gate y, computed in f32 or f64 and rounded once
 * Gradient:	by those operations: to x, gate and y
 * Source:	Peebles and Xie 2023 (adaLN-Zero)
 */
RLX_OP(gated_residual, "x + gate y, where gate and y broadcast to x",
	IN(x) IN(gate) IN(y),
	RLX_T_INPLACE)

static enum rlx_status gated_residual_infer(struct rlx_infer *q)
{
	static const char *const name[] = { "x", "gate", "y" };
	enum rlx_status st = RLX_OK;
	uint32_t k;

	for (k = 0; !st && k < 3; k++)
		st = op_need_float(q, k, false);
	for (k = 1; !st && k < 3; k++)
		if (!op_fits(q->in[k], q->in[0]))
			st = op_fail(q, RLX_ESHAPE, "%s does not broadcast to x", name[k]);
	return st ? st : op_infer_same(q);
}

static enum rlx_status gated_residual_expand(struct rlx_expand *q)
{
	enum rlx_dtype dt = q->out_type->dtype, acc = op_acc_type(dt);
	rlx_value x = op_cast(q->g, q->in[0], acc), v;

	v = rlx_emit(q->g, mul, .a = op_cast(q->g, q->in[1], acc),
		     .b = op_cast(q->g, q->in[2], acc));
	q->out[0] = op_cast(q->g, rlx_emit(q->g, add, .a = x, .b = v), dt);
	return op_done(q->g);
}

static bool gated_residual_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 3)
		return false;
	s->n_in = 3;
	s->in[0] = rlx_type(RLX_F32, 2, i == 2 ? 0 : 5, 7);
	s->in[1] = i == 1 ? rlx_type(RLX_F32, 7) : i == 3 ? rlx_type(RLX_F32) :
		   rlx_type(RLX_F32, 2, 1, 7);
	s->in[2] = i == 3 ? rlx_type(RLX_F32, 5, 1) : s->in[0];
	s->tol = 1e-6;
	return true;
}

const struct rlx_op_impl rlx_op_gated_residual_impl = {
	.infer = gated_residual_infer, .expand = gated_residual_expand,
};
RLX_SAMPLES(gated_residual, gated_residual_sample)
