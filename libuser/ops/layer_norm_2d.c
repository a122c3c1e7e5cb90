// SPDX-License-Identifier: MIT
/* Layer norm over the channels of each pixel. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[n, c, h, w], gamma[c], beta[c] -> y[n, c, h, w]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	layer_norm over the channels of each pixel: transposed to [n, h, w, c],
 *		normalised, and back.
 * Gradient:	by those three ops: to x, gamma and beta
 * Source:	Liu et al. 2022 (ConvNeXt)
 */
RLX_OP(layer_norm_2d, "layer norm over c of [n, c, h, w], pixel by pixel",
	IN(x) OPT(gamma) OPT(beta)
	REQ(f32, eps, "what the model was trained with, often 1e-5"),
	RLX_T_REDUCTION | RLX_T_STEPPED)

static enum rlx_status layer_norm_2d_infer(struct rlx_infer *q)
{
	const struct rlx_op_layer_norm_2d *a = q->args;
	enum rlx_status st = op_need_rank(q, 0, 4, 4);
	uint32_t k;

	if (!st)
		st = op_need_real(q, "eps", a->eps, 0);
	for (k = 0; !st && k < 3; k++) {
		if (!q->in[k])
			continue;
		st = op_need_float(q, k, false);
		if (!st && k && (q->in[k]->rank != 1 || q->in[k]->dim[0] != q->in[0]->dim[1]))
			st = op_fail(q, RLX_ESHAPE, "%s must be [%lld]", k == 1 ? "gamma" : "beta",
				     (long long)q->in[0]->dim[1]);
	}
	return st ? st : op_infer_same(q);
}

/* Channels last, the ordinary layer norm, and back. */
static enum rlx_status layer_norm_2d_expand(struct rlx_expand *q)
{
	const struct rlx_op_layer_norm_2d *a = q->args;
	rlx_value t = rlx_emit(q->g, transpose, .x = q->in[0], .perm = RLX_INTS(0, 2, 3, 1));
	rlx_value y = rlx_emit(q->g, layer_norm, .x = t, .gamma = q->in[1], .beta = q->in[2],
			       .axis = -1, .eps = a->eps);

	q->out[0] = rlx_emit(q->g, transpose, .x = y, .perm = RLX_INTS(0, 3, 1, 2));
	return op_done(q->g);
}

static bool layer_norm_2d_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_layer_norm_2d *a = s->args;

	if (i > 2)
		return false;
	s->n_in = 3;
	s->in[0] = i == 2 ? rlx_type(RLX_F32, 0, 5, 2, 3) : rlx_type(RLX_F32, 2, 5, 3, 4);
	if (!i) {
		s->in[1] = rlx_type(RLX_F32, 5);
		s->in[2] = rlx_type(RLX_F32, 5);
	}
	s->tol = 1e-5;
	a->eps = 1e-3f;
	return true;
}

const struct rlx_op_impl rlx_op_layer_norm_2d_impl = {
	.infer = layer_norm_2d_infer, .expand = layer_norm_2d_expand,
	.batch = op_batch_examples,
};
RLX_SAMPLES(layer_norm_2d, layer_norm_2d_sample)
