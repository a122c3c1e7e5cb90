// SPDX-License-Identifier: MIT
/* Numbers kept within bounds. */
#include "ops/emit.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	min(max(x, lo), hi), hi where lo is above it; NaN stays. A bound of minus or plus
 *		infinity is none. Bounds are rounded to x's dtype.
 * Gradient:	dx = dy where lo < x < hi, 0 on the bounds and beyond, as relu's at 0
 * Source:	torch.clamp
 */
RLX_OP(clamp, "min(max(x, lo), hi); NaN stays",
	IN(x)
	REQ(f32, lo, "the least that remains; -INFINITY: no bound")
	REQ(f32, hi, "the most; INFINITY: no bound"),
	RLX_T_INPLACE)

static enum rlx_status clamp_infer(struct rlx_infer *q)
{
	const struct rlx_op_clamp *a = q->args;
	enum rlx_status st = op_need_float(q, 0, false);

	if (!st && (isnan(a->lo) || isnan(a->hi)))
		st = op_fail(q, RLX_EINVAL, "lo is %g, hi %g; NaN bounds nothing", (double)a->lo,
			     (double)a->hi);
	return st ? st : op_infer_same(q);
}

static enum rlx_status clamp_expand(struct rlx_expand *q)
{
	const struct rlx_op_clamp *a = q->args;
	rlx_value y = q->in[0];

	y = rlx_emit(q->g, max, .a = y, .b = op_const_like(q->g, y, (double)a->lo));
	q->out[0] = rlx_emit(q->g, min, .a = y, .b = op_const_like(q->g, y, (double)a->hi));
	return op_done(q->g);
}

static enum rlx_status clamp_vjp(struct rlx_grad *q)
{
	const struct rlx_op_clamp *a = q->args;
	struct rlx_graph *g = q->g;
	rlx_value x = q->in[0], in;

	in = rlx_emit(g, bit_and,
		      .a = rlx_emit(g, gt, .a = x, .b = op_const_like(g, x, (double)a->lo)),
		      .b = rlx_emit(g, lt, .a = x, .b = op_const_like(g, x, (double)a->hi)));
	q->d_in[0] = rlx_emit(g, where, .cond = in, .a = q->d_out[0],
			      .b = op_const_like(g, x, 0));
	return op_done(g);
}

static bool clamp_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_clamp *a = s->args;

	if (i > 3)
		return false;
	s->n_in = 1;
	s->in[0] = i == 2 ? rlx_type(RLX_F32, 0, 4) : rlx_type(RLX_F32, 3, 17);
	a->lo = i == 1 ? -INFINITY : i == 3 ? 1 : -0.5f;
	a->hi = i == 3 ? -1 : 0.75f;
	return true;
}

const struct rlx_op_impl rlx_op_clamp_impl = {
	.infer = clamp_infer, .expand = clamp_expand, .vjp = clamp_vjp,
};
RLX_SAMPLES(clamp, clamp_sample)
