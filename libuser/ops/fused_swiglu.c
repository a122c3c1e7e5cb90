// SPDX-License-Identifier: MIT
/* The gated unit of feed-forward layers, both halves in one tensor. */
#include "ops/emit.h"

/*
 * Shapes:	x[.., 2 n] -> y[.., n]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	the first half of the last axis times the silu of the second; gate_first: the
 *		second times the silu of the first.
 * Gradient:	by the ops that it stands for
 * Source:	slice, silu, mul; Shazeer 2020 (GLU variants)
 */
RLX_OP(fused_swiglu, "x[.., up | gate]: up silu(gate); gate_first: x[.., gate | up]",
	IN(x)
	ATTR(bool, gate_first),
	RLX_T_FUSED | RLX_T_REDUCTION | RLX_T_TAPERS)

static enum rlx_status fused_swiglu_infer(struct rlx_infer *q)
{
	enum rlx_status st = op_need_float(q, 0, false);
	uint32_t last = q->in[0]->rank - 1;

	if (!st)
		st = op_need_rank(q, 0, 1, RLX_MAX_RANK);
	if (st)
		return st;
	if (q->in[0]->dim[last] % 2)
		return op_fail(q, RLX_ESHAPE, "the last axis of %lld has no halves",
			       (long long)q->in[0]->dim[last]);
	q->out[0] = *q->in[0];
	q->out[0].dim[last] /= 2;
	return RLX_OK;
}

static rlx_value half(struct rlx_expand *q, bool second)
{
	int64_t n = q->out_type->dim[q->out_type->rank - 1];

	return rlx_emit(q->g, slice, .x = q->in[0], .axes = RLX_INTS(-1),
			.starts = RLX_INTS(second ? n : 0),
			.ends = RLX_INTS(second ? 2 * n : n));
}

static enum rlx_status fused_swiglu_expand(struct rlx_expand *q)
{
	const struct rlx_op_fused_swiglu *a = q->args;
	rlx_value gate = half(q, !a->gate_first), up = half(q, a->gate_first);

	q->out[0] = rlx_emit(q->g, mul, .a = up, .b = rlx_emit(q->g, silu, .x = gate));
	return op_done(q->g);
}

static bool fused_swiglu_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 3)
		return false;
	s->n_in = 1;
	s->in[0] = i == 2 ? rlx_type(RLX_F32, 2) : i == 3 ? rlx_type(RLX_F32, 0, 6) :
		   rlx_type(RLX_F32, 2, 3, 34);
	s->tol = 1e-6;
	((struct rlx_op_fused_swiglu *)s->args)->gate_first = i & 1;
	return true;
}

const struct rlx_op_impl rlx_op_fused_swiglu_impl = {
	.infer = fused_swiglu_infer, .expand = fused_swiglu_expand,
};
RLX_SAMPLES(fused_swiglu, fused_swiglu_sample)
