// SPDX-License-Identifier: MIT
/* A soft limit on logits. */
#include "ops/emit.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	cap tanh(x / cap). cap is finite and above 0.
 * Gradient:	by tanh: dx = dy (1 - tanh(x / cap)^2)
 * Source:	Gemma 2 (Gemma Team 2024)
 */
RLX_OP(softcap, "cap tanh(x / cap): x near 0, never beyond +-cap",
	IN(x)
	REQ(f32, cap, "the bound"),
	RLX_T_INPLACE)

static enum rlx_status softcap_infer(struct rlx_infer *q)
{
	const struct rlx_op_softcap *a = q->args;
	enum rlx_status st = op_need_float(q, 0, false);

	if (!st && !(a->cap > 0 && isfinite(a->cap)))
		st = op_fail(q, RLX_EINVAL, "cap is %g; it must be above 0 and finite",
			     (double)a->cap);
	return st ? st : op_infer_same(q);
}

static enum rlx_status softcap_eval(struct rlx_eval *q)
{
	const struct rlx_op_softcap *a = q->args;
	int64_t n = rlx_type_count(&q->in[0].type), i;

	for (i = 0; i < n; i++)
		el_set(&q->out[0], i, (double)a->cap * tanh(el_get(&q->in[0], i) / (double)a->cap));
	return RLX_OK;
}

static enum rlx_status softcap_expand(struct rlx_expand *q)
{
	const struct rlx_op_softcap *a = q->args;
	enum rlx_dtype dt = q->out_type->dtype;
	rlx_value t = op_cast(q->g, q->in[0], op_acc_type(dt));	/* 1 / cap may not fit f16 */

	t = rlx_emit(q->g, tanh, .x = op_mul_const(q->g, t, 1 / (double)a->cap));
	q->out[0] = op_cast(q->g, op_mul_const(q->g, t, (double)a->cap), dt);
	return op_done(q->g);
}

static bool softcap_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_softcap *a = s->args;

	if (i > 2)
		return false;
	s->n_in = 1;
	s->in[0] = i == 2 ? rlx_type(RLX_F32, 0, 4) : rlx_type(RLX_F32, 3, 17);
	s->lo[0] = -60;
	s->hi[0] = 60;
	s->tol = 2e-6;
	s->grad_tol = 1e-3;
	a->cap = i ? 30 : 1.5f;
	return true;
}

const struct rlx_op_impl rlx_op_softcap_impl = {
	.infer = softcap_infer, .eval = softcap_eval, .expand = softcap_expand,
};
RLX_SAMPLES(softcap, softcap_sample)
