// SPDX-License-Identifier: MIT
/* A convolution with what commonly stands behind it. */
#include "ir/match.h"
#include "ops/batch.h"
#include "ops/act.h"
#include "ops/window.h"

/*
 * Shapes:	x[n, c, in..], w[co, c / groups, k..], bias[co], residual like y -> y[n, co,
 *		out..] as conv; with block y and residual are as block_channels gives them, and so
 *		may x be; channels last x is [n, 1, h, w, c] (or plain), w [co, 1, kh, kw, c /
 *		groups], y and residual [n, 1, oh, ow, co] (with plain_y plain); of a plain x w may
 *		have more channels, whose weights are not looked at
 * Dtypes:	x, w, bias, residual: f64 f32 f16 bf16; y as x and w promoted, or out_dtype
 * Does:	act(conv(x, w) + bias + residual) with stride, pad and dilation of conv. act is
 *		one of enum rlx_act, none if not given; act_lo and act_hi bound RLX_ACT_CLIP and
 *		are factor and addend of RLX_ACT_HARD_SIGMOID. block is 1 to 64, 0 (if not given)
 *		for plain layouts, -1 for channels last, where plain_y leaves y and the residual
 *		plain (if not given: they are not). out_dtype, if given f64, f32, f16 or
 *		bf16, is what y is rounded to, once and behind act; sums are as wide at least.
 * Gradient:	by the ops that it stands for
 * Source:	conv, add and the activation's op
 */
RLX_OP(fused_conv, "act(conv(x, w) + bias + residual)",
	IN(x) IN(w) OPT(bias) OPT(residual)
	ATTR(ints, stride)
	ATTR(ints, pad)
	ATTR(ints, dilation)
	ATTR_NZ(i64, groups, 1)
	ATTR(i32, act)
	ATTR(f32, act_lo)
	ATTR(f32, act_hi)
	ATTR(i32, block)
	ATTR(dtype, out_dtype)
	ATTR(bool, plain_y),
	RLX_T_COMPUTE | RLX_T_FUSED | RLX_T_NONFINITE_X | RLX_T_TAPERS)

/* The plain shape that a blocked x stands for; false if it cannot be blocked. */
static bool plain_x(const struct rlx_op_fused_conv *a, const struct rlx_type *x,
		    const struct rlx_type *w, struct rlx_type *out)
{
	int64_t groups = a->groups, c;

	*out = *x;
	if (x->rank != 5)
		return x->rank == 4;
	if (w->rank != 4 || __builtin_mul_overflow(w->dim[1], groups, &c) ||
	    x->dim[4] != a->block || x->dim[1] != c / a->block + !!(c % a->block))
		return false;
	*out = (struct rlx_type){ x->dtype, 4, { x->dim[0], c, x->dim[2], x->dim[3] } };
	return true;
}

/* The plain shapes that x and w channels last stand for; false if they do not lie so. */
static bool plain_last(const struct rlx_op_fused_conv *a, const struct rlx_type *x,
		       const struct rlx_type *w, struct rlx_type *px, struct rlx_type *pw)
{
	int64_t c = x->rank == 5 ? x->dim[4] : x->dim[1];

	if ((x->rank == 5 ? x->dim[1] != 1 : x->rank != 4) || w->rank != 5 || w->dim[1] != 1 ||
	    c < 1 || w->dim[0] < 1 ||	/* a block of 0 channels is none */
	    a->groups < 1 || c % a->groups || w->dim[4] < c / a->groups ||
	    (x->rank == 5 && w->dim[4] != c / a->groups))
		return false;
	*px = *x;
	if (x->rank == 5)
		*px = (struct rlx_type){ x->dtype, 4, { x->dim[0], c, x->dim[2], x->dim[3] } };
	*pw = (struct rlx_type){ w->dtype, 4, { w->dim[0], c / a->groups, w->dim[2],
						w->dim[3] } };
	return true;
}

static enum rlx_status fused_conv_shape(struct rlx_infer *q, struct rlx_type *y)
{
	const struct rlx_op_fused_conv *a = q->args;
	const struct op_window_args wa = { a->stride, a->pad, a->dilation, false };
	const struct rlx_type *types[4] = { q->in[0], q->in[1], q->in[2], q->in[3] };
	const struct rlx_type *const *given = q->in;
	struct rlx_type x;
	enum rlx_status st;
	struct op_conv c;

	struct rlx_type w;

	if (!a->block)
		return op_conv_infer(q, &wa, a->groups, &c, y);
	if (a->block == RLX_CHANNELS_LAST) {
		if (!plain_last(a, q->in[0], q->in[1], &x, &w))
			return op_fail(q, RLX_ESHAPE, "x and w do not lie channels last, or have "
				       "no channels");
		types[1] = &w;
	} else if (a->block < 1 || a->block > 64 || !plain_x(a, q->in[0], q->in[1], &x))
		return op_fail(q, RLX_ESHAPE, "block is %d, and x is not blocked so", a->block);
	types[0] = &x;
	q->in = types;
	st = op_conv_infer(q, &wa, a->groups, &c, y);
	q->in = given;
	return st;
}

static enum rlx_status fused_conv_infer(struct rlx_infer *q)
{
	const struct rlx_op_fused_conv *a = q->args;
	const struct rlx_type *bias = q->in[2], *res = q->in[3];
	struct rlx_type *y = &q->out[0];
	enum rlx_status st = op_act_infer(q, a->act, a->act_lo, a->act_hi);
	uint32_t k;

	for (k = 0; !st && k < 4; k++)
		if (q->in[k])
			st = op_need_float(q, k, false);
	if (!st)
		st = fused_conv_shape(q, y);
	if (st)
		return st;
	if (bias && (bias->rank != 1 || bias->dim[0] != y->dim[1]))
		return op_fail(q, RLX_ESHAPE, "the bias must be [%lld]",
			       (long long)y->dim[1]);
	if (a->plain_y && a->block != RLX_CHANNELS_LAST)
		return op_fail(q, RLX_EINVAL, "plain_y is for channels last, and block is %d",
			       a->block);
	if (a->block && !a->plain_y) {
		int64_t by = a->block > 0 ? a->block : y->dim[1];

		*y = (struct rlx_type){ y->dtype, 5, { y->dim[0],
			y->dim[1] / by + !!(y->dim[1] % by), y->dim[2], y->dim[3], by } };
	}
	if (res && (res->rank != y->rank ||
		    memcmp(res->dim, y->dim, y->rank * sizeof(y->dim[0]))))
		return op_fail(q, RLX_ESHAPE, "the residual has not the result's shape");
	y->dtype = rlx_dtype_promote(q->in[0]->dtype, q->in[1]->dtype);
	return op_infer_out_dtype(q, a->out_dtype);
}

static enum rlx_status fused_conv_expand(struct rlx_expand *q)
{
	const struct rlx_op_fused_conv *a = q->args;
	/* what is emitted may move the graph's own types */
	const struct rlx_type xt = op_type(q->g, q->in[0]), wt = op_type(q->g, q->in[1]);
	rlx_value x = q->in[0], w = q->in[1], y;
	enum rlx_dtype sum = q->out_type->dtype;
	struct rlx_type plain, plain_w;
	int32_t block = a->block;

	if (q->in[0].id && q->in[1].id)
		sum = rlx_dtype_promote(rlx_dtype_promote(xt.dtype, wt.dtype), sum);

	if (block == RLX_CHANNELS_LAST && plain_last(a, &xt, &wt, &plain, &plain_w)) {
		if (xt.rank == 5)
			x = rlx_emit(q->g, unblock_channels, .x = x, .channels = plain.dim[1]);
		w = rlx_emit(q->g, unblock_channels, .x = w, .channels = plain_w.dim[1]);
		block = a->plain_y ? 0 : (int32_t)wt.dim[0];
	} else if (block > 0 && xt.rank == 5 && plain_x(a, &xt, &wt, &plain)) {
		x = rlx_emit(q->g, unblock_channels, .x = x, .channels = plain.dim[1]);
	}
	if (a->out_dtype) {
		x = op_cast(q->g, x, sum);
		w = op_cast(q->g, w, sum);
	}
	y = rlx_emit(q->g, conv, .x = x, .w = w, .bias = q->in[2],
		     .stride = a->stride, .pad = a->pad, .dilation = a->dilation,
		     .groups = a->groups);
	if (block)
		y = rlx_emit(q->g, block_channels, .x = y, .block = block);
	if (q->in[3].id)
		y = rlx_emit(q->g, add, .a = y, .b = op_cast(q->g, q->in[3], sum));
	y = op_act_emit(q->g, y, a->act, a->act_lo, a->act_hi);
	q->out[0] = op_cast(q->g, y, q->out_type->dtype);
	return op_done(q->g);
}

static void fused_conv_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]) *
		   (double)shape_span(q->in[1], 1, q->in[1]->rank);
}

/* Operands of 16 bits, what is added and the result of f32; or a result of 16 bits. */
static bool sample_out_dtype(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_fused_conv *a = s->args;
	enum rlx_dtype dt = i & 1 ? RLX_BF16 : RLX_F16;

	a->act = RLX_ACT_RELU;
	a->out_dtype = RLX_F32;
	s->grad_tol = -1;
	s->in[2] = rlx_type(RLX_F32, 24);
	switch (i) {
	case 0:
		s->in[0] = rlx_type(dt, 2, 5, 7, 9);
		s->in[1] = rlx_type(dt, 24, 5, 3, 3);
		s->in[3] = rlx_type(RLX_F32, 2, 24, 7, 9);
		break;
	case 1:		/* one pixel: a product */
		s->in[0] = rlx_type(dt, 2, 16, 5, 8);
		s->in[1] = rlx_type(dt, 24, 16, 1, 1);
		s->in[3] = rlx_type(RLX_F32, 2, 24, 5, 8);
		a->pad = (struct rlx_ints){ 0 };
		break;
	case 2:		/* channels last, a residual of 16 bits */
		a->block = RLX_CHANNELS_LAST;
		s->in[0] = rlx_type(dt, 2, 1, 7, 9, 16);
		s->in[1] = rlx_type(dt, 24, 1, 3, 3, 16);
		s->in[3] = rlx_type(dt, 2, 1, 7, 9, 24);
		break;
	case 3:		/* and depthwise */
		a->block = RLX_CHANNELS_LAST;
		a->groups = 24;
		s->in[0] = s->in[3] = rlx_type(dt, 2, 1, 7, 9, 24);
		s->in[3].dtype = RLX_F32;
		s->in[1] = rlx_type(dt, 24, 1, 3, 3, 1);
		break;
	case 4:		/* rounded behind what is added */
		s->in[1] = rlx_type(RLX_F32, 24, 3, 3, 3);
		s->in[3] = rlx_type(RLX_F32, 2, 24, 7, 9);
		a->out_dtype = RLX_F16;
		s->tol = 1e-3;
		break;
	case 5:		/* channels last, a plain result */
		a->block = RLX_CHANNELS_LAST;
		a->plain_y = true;
		s->in[0] = rlx_type(dt, 2, 1, 7, 9, 16);
		s->in[1] = rlx_type(dt, 24, 1, 3, 3, 16);
		s->in[3] = rlx_type(dt, 2, 24, 7, 9);
		break;
	case 6:		/* of one pixel, between plain tensors */
		a->block = RLX_CHANNELS_LAST;
		a->plain_y = true;
		a->pad = (struct rlx_ints){ 0 };
		s->in[0] = rlx_type(RLX_F32, 2, 16, 5, 8);
		s->in[1] = rlx_type(RLX_F32, 24, 1, 1, 1, 16);
		s->in[3] = rlx_type(RLX_F32, 2, 24, 5, 8);
		break;
	default:
		return false;
	}
	return true;
}

static bool fused_conv_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_fused_conv *a = s->args;

	s->n_in = 4;
	s->tol = 1e-5;
	s->in[0] = rlx_type(RLX_F32, 2, 3, 7, 9);
	s->in[1] = rlx_type(RLX_F32, 5, 3, 3, 3);
	s->in[2] = rlx_type(RLX_F32, 5);
	a->pad = op_keep(s, RLX_INTS(1, 1, 1, 1));
	a->act = i < RLX_ACT_COUNT ? (int32_t)i : RLX_ACT_SILU;
	a->act_lo = i == RLX_ACT_HARD_SIGMOID ? 0.2f : 0;
	a->act_hi = i == RLX_ACT_HARD_SIGMOID ? 0.5f : 6;
	if (i > RLX_ACT_COUNT + 9)
		return sample_out_dtype(i - RLX_ACT_COUNT - 10, s);
	if (i & 1)
		s->in[3] = rlx_type(RLX_F32, 2, 5, 7, 9);
	if (i == RLX_ACT_COUNT) {	/* 1-D, no bias */
		s->in[0] = rlx_type(RLX_F32, 1, 4, 16);
		s->in[1] = rlx_type(RLX_F32, 6, 2, 3);
		s->in[2] = s->in[3] = (struct rlx_type){ 0 };
		a->pad = (struct rlx_ints){ 0 };
		a->stride = op_keep(s, RLX_INTS(2));
		a->groups = 2;
	} else if (i > RLX_ACT_COUNT + 6) {	/* channels last; x plain; depthwise */
		bool plain = i == RLX_ACT_COUNT + 8, depthwise = i == RLX_ACT_COUNT + 9;

		a->block = RLX_CHANNELS_LAST;
		a->groups = depthwise ? 24 : 1;
		s->in[0] = plain ? rlx_type(RLX_F32, 2, 3, 7, 9) :
			   rlx_type(RLX_F32, 2, 1, 7, 9, 24);
		s->in[1] = plain ? rlx_type(RLX_F32, 10, 1, 3, 3, 8) :
			   rlx_type(RLX_F32, 24, 1, 3, 3, depthwise ? 1 : 24);
		s->in[2] = rlx_type(RLX_F32, plain ? 10 : 24);
		s->in[3] = plain ? (struct rlx_type){ 0 } : rlx_type(RLX_F32, 2, 1, 7, 9, 24);
	} else if (i == RLX_ACT_COUNT + 6) {	/* one pixel: a product */
		s->in[0] = rlx_type(RLX_F32, 2, 8, 11, 16);
		s->in[1] = rlx_type(RLX_F32, 20, 8, 1, 1);
		s->in[2] = (struct rlx_type){ 0 };
		s->in[3] = rlx_type(RLX_F32, 2, 20, 11, 16);
		a->pad = (struct rlx_ints){ 0 };
	} else if (i > RLX_ACT_COUNT + 1) {	/* blocked, with and without a plain x */
		a->block = 16;
		s->in[0] = i & 1 ? rlx_type(RLX_F32, 2, 3, 7, 9) :
			   rlx_type(RLX_F32, 2, 2, 7, 9, 16);
		s->in[1] = i & 1 ? rlx_type(RLX_F32, 32, 3, 3, 3) :
			   rlx_type(RLX_F32, 32, 20, 3, 3);
		s->in[2] = rlx_type(RLX_F32, 32);
		s->in[3] = i > RLX_ACT_COUNT + 3 ? rlx_type(RLX_F32, 2, 2, 7, 9, 16) :
			   (struct rlx_type){ 0 };
	} else if (i > RLX_ACT_COUNT) {
		s->in[0].dim[0] = 0;
		s->in[3] = (struct rlx_type){ 0 };
	}
	if (i == RLX_ACT_CLIP || i == RLX_ACT_HARD_SIGMOID || i == RLX_ACT_RELU ||
	    i == RLX_ACT_HARD_SWISH)
		s->grad_tol = 2e-3;	/* a difference may cross a kink */
	return true;
}

static bool fused_conv_accept(struct rlx_match *m, void *args)
{
	const struct rlx_op_conv *c = rlx_match_node(m, "c")->args;
	struct rlx_op_fused_conv *a = args;

	a->x = rlx_match_value(m, "x");
	a->w = rlx_match_value(m, "w");
	a->bias = rlx_match_value(m, "b");
	a->residual = rlx_match_value(m, "r");
	a->stride = c->stride;
	a->pad = c->pad;
	a->dilation = c->dilation;
	a->groups = c->groups;
	return op_act_take(m, &a->act, &a->act_lo, &a->act_hi);
}

#define CB  "c:conv(x, w, b)"
#define C   "c:conv(x, w)"
#define CBR "add(c:conv(x, w, b), r)"
#define CR  "add(c:conv(x, w), r)"
#define ACTS(x) OP_ACT_PATTERNS(x, fused_conv_accept)
static const struct rlx_pattern fused_conv_patterns[] = {
	ACTS(CBR), ACTS(CR), ACTS(CB), ACTS(C),
	{ CBR, fused_conv_accept }, { CR, fused_conv_accept },
	{ CB, fused_conv_accept }, { C, fused_conv_accept },
	{ NULL, NULL },
};

static enum rlx_status fused_conv_batch(struct rlx_batching *q)
{
	return op_batch_merged(q, 1 | (q->in[3].id ? 1 << 3 : 0));	/* x and residual */
}

const struct rlx_op_impl rlx_op_fused_conv_impl = {
	.pattern = fused_conv_patterns,
	.infer = fused_conv_infer, .expand = fused_conv_expand,
	.cost = fused_conv_cost,
	.batch = fused_conv_batch,
};
RLX_SAMPLES(fused_conv, fused_conv_sample)
