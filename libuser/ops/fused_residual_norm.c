// SPDX-License-Identifier: MIT
/* A residual sum and the normalisation behind it, both given back. */
#include "ops/emit.h"

/*
 * Shapes:	x[.., n], residual and bias broadcast to x, gamma and beta to [n] -> y[.., n],
 *		sum[.., n]
 * Dtypes:	f64 f32 f16 bf16; y and sum as x and residual promoted
 * Does:	sum = x + residual + bias; y is layer_norm of it over the last axis, with kind
 *		RLX_NORM_RMS rms_norm (RLX_NORM_LAYER if not given), with gamma and beta.
 * Gradient:	by the ops that it stands for
 * Source:	add, layer_norm, rms_norm
 */
RLX_OP(fused_residual_norm, "sum = x + residual + bias; layer or rms norm of it over the last axis",
	IN(x) IN(residual) OPT(bias) OPT(gamma) OPT(beta)
	ATTR(i32, kind)
	REQ(f32, eps, "what the model was trained with, often 1e-5"),
	RLX_T_REDUCTION | RLX_T_FUSED | RLX_T_STEPPED)

static enum rlx_status fused_residual_norm_infer(struct rlx_infer *q)
{
	static const char *const name[] = { "x", "residual", "bias", "gamma", "beta" };
	const struct rlx_op_fused_residual_norm *a = q->args;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_enum(q, "kind", a->kind, RLX_NORM_RMS + 1);
	struct rlx_type row;
	uint32_t k;

	if (!st)
		st = op_need_rank(q, 0, 1, RLX_MAX_RANK);
	if (!st)
		st = op_need_real(q, "eps", a->eps, 0);
	for (k = 0; !st && k < 5; k++)
		if (q->in[k])
			st = op_need_float(q, k, false);
	if (st)
		return st;
	row = rlx_type(RLX_F32, x->dim[x->rank - 1]);
	for (k = 1; k < 5; k++)
		if (q->in[k] && !op_fits(q->in[k], k < 3 ? x : &row))
			return op_fail(q, RLX_ESHAPE, "%s does not broadcast to %s",
				       name[k], k < 3 ? "x" : "x's last axis");
	q->n_out = 2;
	q->out[0] = *x;
	q->out[0].dtype = rlx_dtype_promote(x->dtype, q->in[1]->dtype);
	q->out[1] = q->out[0];
	return RLX_OK;
}

static enum rlx_status fused_residual_norm_expand(struct rlx_expand *q)
{
	const struct rlx_op_fused_residual_norm *a = q->args;
	enum rlx_dtype dt = q->out_type[0].dtype;
	rlx_value s;

	s = rlx_emit(q->g, add, .a = op_cast(q->g, q->in[0], dt),
		     .b = op_cast(q->g, q->in[1], dt));
	if (q->in[2].id)
		s = rlx_emit(q->g, add, .a = s, .b = op_cast(q->g, q->in[2], dt));
	if (a->kind == RLX_NORM_LAYER)
		q->out[0] = rlx_emit(q->g, layer_norm, .x = s, .gamma = q->in[3],
				     .beta = q->in[4], .axis = -1, .eps = a->eps);
	else
		q->out[0] = rlx_emit(q->g, rms_norm, .x = s, .gamma = q->in[3],
				     .beta = q->in[4], .axis = -1, .eps = a->eps);
	q->out[1] = s;
	return op_done(q->g);
}

static bool fused_residual_norm_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_fused_residual_norm *a = s->args;

	if (i >= 7)
		return false;
	s->n_in = 5;
	s->in[0] = s->in[1] = rlx_type(RLX_F32, 3, 5, 33);
	s->in[3] = rlx_type(RLX_F32, 33);
	a->kind = i & 1 ? RLX_NORM_RMS : RLX_NORM_LAYER;
	a->eps = 1e-5f;
	s->tol = 1e-5;
	if (i == 2 || i == 3)	/* a residual that broadcasts */
		s->in[1] = s->in[2] = s->in[4] = s->in[3];
	if (i == 4) {
		s->in[2] = rlx_type(RLX_F32, 1, 5, 1);
		s->in[3] = (struct rlx_type){ 0 };
	}
	if (i == 5)
		s->in[4] = rlx_type(RLX_F32, 1);
	if (i == 6)
		s->in[0].dim[0] = s->in[1].dim[0] = 0;
	return true;
}

const struct rlx_op_impl rlx_op_fused_residual_norm_impl = {
	.infer = fused_residual_norm_infer, .expand = fused_residual_norm_expand,
};
RLX_SAMPLES(fused_residual_norm, fused_residual_norm_sample)
