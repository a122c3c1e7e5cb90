// SPDX-License-Identifier: MIT
/* A matrix product of normalised rows, and the gate behind it: half a decoder's layer. */
#include "ops/emit.h"

/*
 * Shapes:	x[.., k], w[k, n], trans_w: [n, k], gamma broadcasts to [k] -> y[.., n], with a
 *		gate [.., n / 2]
 * Dtypes:	x, w, gamma: f64 f32 f16 bf16; y as x and w promoted
 * Does:	rms_norm of x's last axis, times gamma if given, times w; gate RLX_SWIGLU_LAST or
 *		FIRST: fused_swiglu of that with the gate in the last or first half of the
 *		columns, RLX_SWIGLU_NONE if not given.
 * Gradient:	by the ops that it stands for
 * Source:	rms_norm, matmul, fused_swiglu
 */
RLX_OP(fused_norm_matmul, "rms_norm(x, gamma) op(w); gate: fused_swiglu of that",
	IN(x) IN(w) OPT(gamma)
	REQ(f32, eps, "what the model was trained with, often 1e-5")
	ATTR(bool, trans_w)
	ATTR(i32, gate),
	RLX_T_COMPUTE | RLX_T_FUSED | RLX_T_TAPERS)

static enum rlx_status fused_norm_matmul_infer(struct rlx_infer *q)
{
	const struct rlx_op_fused_norm_matmul *a = q->args;
	const struct rlx_type *x = q->in[0], *w = q->in[1], *gamma = q->in[2];
	enum rlx_status st = op_need_enum(q, "gate", a->gate, RLX_SWIGLU_FIRST + 1);
	struct rlx_type row;
	int64_t n, k;
	uint32_t i;

	for (i = 0; !st && i < 3; i++)
		if (q->in[i])
			st = op_need_float(q, i, false);
	if (!st)
		st = op_need_real(q, "eps", a->eps, 0);
	if (!st)
		st = op_need_rank(q, 0, 2, RLX_MAX_RANK);
	if (!st)
		st = op_need_rank(q, 1, 2, 2);
	if (st)
		return st;
	n = w->dim[a->trans_w ? 0 : 1];
	k = w->dim[a->trans_w ? 1 : 0];
	if (x->dim[x->rank - 1] != k)
		return op_fail(q, RLX_ESHAPE, "inner dims %lld != %lld",
			       (long long)x->dim[x->rank - 1], (long long)k);
	row = rlx_type(RLX_F32, k);
	if (gamma && !op_fits(gamma, &row))
		return op_fail(q, RLX_ESHAPE, "gamma does not broadcast to x's last axis");
	if (a->gate && n % 2)
		return op_fail(q, RLX_ESHAPE, "%lld columns have no halves", (long long)n);
	q->out[0] = *x;
	q->out[0].dtype = rlx_dtype_promote(x->dtype, w->dtype);
	q->out[0].dim[x->rank - 1] = a->gate ? n / 2 : n;
	return RLX_OK;
}

static enum rlx_status fused_norm_matmul_expand(struct rlx_expand *q)
{
	const struct rlx_op_fused_norm_matmul *a = q->args;
	rlx_value y = rlx_emit(q->g, rms_norm, .x = q->in[0], .gamma = q->in[2], .axis = -1,
			       .eps = a->eps);

	y = rlx_emit(q->g, fused_matmul, .a = y, .b = q->in[1], .trans_b = a->trans_w);
	if (a->gate)
		y = rlx_emit(q->g, fused_swiglu, .x = y,
			     .gate_first = a->gate == RLX_SWIGLU_FIRST);
	q->out[0] = y;
	return op_done(q->g);
}

static void fused_norm_matmul_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_type *x = q->in[0];

	c->flops = 2.0 * (double)shape_span(x, 0, x->rank - 1) * (double)rlx_type_count(q->in[1]);
}

static bool fused_norm_matmul_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_fused_norm_matmul *a = s->args;

	if (i > 6)
		return false;
	s->n_in = 3;
	s->tol = 2e-5;
	a->eps = 1e-5f;
	a->gate = (int32_t)(i % 3);
	a->trans_w = i != 3;
	s->in[0] = rlx_type(RLX_F32, 2, i == 4 ? 1 : 3, 72);
	s->in[1] = i != 3 ? rlx_type(RLX_F32, 38, 72) : rlx_type(RLX_F32, 72, 38);
	s->in[2] = rlx_type(RLX_F32, 72);
	if (i == 4)	/* nothing scaled */
		s->in[2] = (struct rlx_type){ 0 };
	if (i == 5)	/* more rows than few */
		s->in[0].dim[1] = 19;
	if (i == 6)
		s->in[0].dim[0] = 0;
	return true;
}

const struct rlx_op_impl rlx_op_fused_norm_matmul_impl = {
	.infer = fused_norm_matmul_infer, .expand = fused_norm_matmul_expand,
	.cost = fused_norm_matmul_cost,
};
RLX_SAMPLES(fused_norm_matmul, fused_norm_matmul_sample)
