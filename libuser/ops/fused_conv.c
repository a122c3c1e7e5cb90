// SPDX-License-Identifier: MIT
/* A convolution with what commonly stands behind it. */
#include "ops/act.h"
#include "ops/window.h"

RLX_OP(fused_conv, "act(conv(x, w) + bias + residual)",
	IN(x) IN(w) OPT(bias) OPT(residual)
	ATTR(ints, stride)
	ATTR(ints, pad)
	ATTR(ints, dilation)
	ATTR(i64, groups)
	ATTR(i32, act)
	ATTR(f32, act_lo)
	ATTR(f32, act_hi),
	RLX_T_COMPUTE | RLX_T_FUSED)

static enum rlx_status fused_conv_infer(struct rlx_infer *q)
{
	const struct rlx_op_fused_conv *a = q->args;
	const struct op_window_args wa = { a->stride, a->pad, a->dilation, false };
	const struct rlx_type *bias = q->in[2], *res = q->in[3];
	struct rlx_type *y = &q->out[0];
	enum rlx_status st = op_act_infer(q, a->act, a->act_lo, a->act_hi);
	struct op_conv c;
	uint32_t k;

	for (k = 0; !st && k < 4; k++)
		if (q->in[k])
			st = op_need_float(q, k, false);
	if (!st)
		st = op_conv_infer(q, &wa, a->groups, &c, y);
	if (st)
		return st;
	if (bias && (bias->rank != 1 || bias->dim[0] != y->dim[1]))
		return op_fail(q, RLX_ESHAPE, "the bias must be [%lld]",
			       (long long)y->dim[1]);
	if (res && (res->rank != y->rank ||
		    memcmp(res->dim, y->dim, y->rank * sizeof(y->dim[0]))))
		return op_fail(q, RLX_ESHAPE, "the residual has not the result's shape");
	y->dtype = rlx_dtype_promote(q->in[0]->dtype, q->in[1]->dtype);
	return RLX_OK;
}

static enum rlx_status fused_conv_expand(struct rlx_expand *q)
{
	const struct rlx_op_fused_conv *a = q->args;
	rlx_value y;

	y = rlx_emit(q->g, conv, .x = q->in[0], .w = q->in[1], .bias = q->in[2],
		     .stride = a->stride, .pad = a->pad, .dilation = a->dilation,
		     .groups = a->groups);
	if (q->in[3].id)
		y = rlx_emit(q->g, add, .a = y,
			     .b = op_cast(q->g, q->in[3], q->out_type->dtype));
	q->out[0] = op_act_emit(q->g, y, a->act, a->act_lo, a->act_hi);
	return op_done(q->g);
}

static void fused_conv_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]) *
		   (double)op_span(q->in[1], 1, q->in[1]->rank);
}

static bool fused_conv_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_fused_conv *a = s->args;

	if (i > RLX_ACT_COUNT + 1)
		return false;
	s->n_in = 4;
	s->tol = 1e-5;
	s->in[0] = rlx_type(RLX_F32, 2, 3, 7, 9);
	s->in[1] = rlx_type(RLX_F32, 5, 3, 3, 3);
	s->in[2] = rlx_type(RLX_F32, 5);
	a->pad = op_keep(s, RLX_INTS(1, 1, 1, 1));
	a->act = i < RLX_ACT_COUNT ? (int32_t)i : RLX_ACT_SILU;
	a->act_lo = i == RLX_ACT_HARD_SIGMOID ? 0.2f : 0;
	a->act_hi = i == RLX_ACT_HARD_SIGMOID ? 0.5f : 6;
	if (i & 1)
		s->in[3] = rlx_type(RLX_F32, 2, 5, 7, 9);
	if (i == RLX_ACT_COUNT) {	/* 1-D, no bias */
		s->in[0] = rlx_type(RLX_F32, 1, 4, 16);
		s->in[1] = rlx_type(RLX_F32, 6, 2, 3);
		s->in[2] = s->in[3] = (struct rlx_type){ 0 };
		a->pad = (struct rlx_ints){ 0 };
		a->stride = op_keep(s, RLX_INTS(2));
		a->groups = 2;
	} else if (i > RLX_ACT_COUNT) {
		s->in[0].dim[0] = 0;
		s->in[3] = (struct rlx_type){ 0 };
	}
	if (i == RLX_ACT_CLIP || i == RLX_ACT_HARD_SIGMOID || i == RLX_ACT_RELU ||
	    i == RLX_ACT_HARD_SWISH)
		s->grad_tol = 2e-3;	/* a difference may cross a kink */
	return true;
}

const struct rlx_op_impl rlx_op_fused_conv_impl = {
	.infer = fused_conv_infer, .expand = fused_conv_expand,
	.cost = fused_conv_cost, .sample = fused_conv_sample,
};
