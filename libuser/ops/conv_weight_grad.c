// SPDX-License-Identifier: MIT
/* The gradient of a convolution in its weights, as blocked layouts have it. */
#include "ops/emit.h"
#include "ops/window.h"

/*
 * Shapes:	x[n, ci, h, w] and dy[n, co, oh, ow], each plain or as block_channels gives it ->
 *		y[co, ci, kh, kw], which shape says
 * Dtypes:	x, dy: f64 f32 f16 bf16; y as both promoted, or out_dtype
 * Does:	the gradient of conv(x, w) with stride, pad and dilation in w of that shape, where
 *		dy is that of its result. out_dtype, if given f64, f32, f16 or bf16, is what y is
 *		rounded to, once; sums are as wide at least.
 * Errors:	RLX_ESHAPE if dy is not what conv makes of x.
 * Gradient:	by the ops that it stands for
 * Source:	conv, its derivative
 */
RLX_OP(conv_weight_grad, "gradient in w of conv(x, w), of blocked tensors or plain ones",
	IN(x) IN(dy)
	ATTR(ints, shape)
	ATTR(ints, stride)
	ATTR(ints, pad)
	ATTR(ints, dilation)
	ATTR(dtype, out_dtype),
	RLX_T_COMPUTE | RLX_T_FUSED)

/* @t of so many channels as a plain type; false: it is none. */
static bool plain_of(const struct rlx_type *t, int64_t channels, struct rlx_type *out)
{
	*out = *t;
	if (t->rank == 4)
		return t->dim[1] == channels;
	if (t->rank != 5 || t->dim[4] < 1 ||
	    t->dim[1] != channels / t->dim[4] + !!(channels % t->dim[4]))
		return false;
	*out = (struct rlx_type){ t->dtype, 4, { t->dim[0], channels, t->dim[2], t->dim[3] } };
	return true;
}

static enum rlx_status conv_weight_grad_infer(struct rlx_infer *q)
{
	const struct rlx_op_conv_weight_grad *a = q->args;
	const struct op_window_args wa = { a->stride, a->pad, a->dilation, false };
	struct rlx_type x, dy, y, w = { q->in[0]->dtype, 4, { 0 } };
	const struct rlx_type *types[2] = { &x, &w };
	const struct rlx_type *const *given = q->in;
	enum rlx_status st = op_need_float(q, 0, false);
	struct op_conv c;
	uint32_t i;

	if (!st)
		st = op_need_float(q, 1, false);
	if (st)
		return st;
	for (i = 0; i < a->shape.n && i < 4; i++)
		w.dim[i] = a->shape.v[i];
	if (a->shape.n != 4 || w.dim[0] < 1 || w.dim[1] < 1)
		return op_fail(q, RLX_EINVAL, "shape must be [co, ci, kh, kw]");
	if (!rlx_type_count(q->in[0]) || !rlx_type_count(q->in[1]))
		return op_fail(q, RLX_ESHAPE, "there are no images or pixels");
	if (!plain_of(q->in[0], w.dim[1], &x) || !plain_of(q->in[1], w.dim[0], &dy))
		return op_fail(q, RLX_ESHAPE, "x or dy has not the channels that shape says");
	q->in = types;
	st = op_conv_infer(q, &wa, 1, &c, &y);
	q->in = given;
	if (st)
		return st;
	for (i = 0; i < 4; i++)
		if (y.dim[i] != dy.dim[i])
			return op_fail(q, RLX_ESHAPE, "dy's dimension %u is %lld; conv gives %lld",
				       i, (long long)dy.dim[i], (long long)y.dim[i]);
	w.dtype = rlx_dtype_promote(q->in[0]->dtype, q->in[1]->dtype);
	q->out[0] = w;
	return op_infer_out_dtype(q, a->out_dtype);
}

static enum rlx_status conv_weight_grad_expand(struct rlx_expand *q)
{
	const struct rlx_op_conv_weight_grad *a = q->args;
	const struct op_window_args wa = { a->stride, a->pad, a->dilation, false };
	const struct rlx_type to = *q->out_type;
	rlx_value in[2] = { q->in[0], q->in[1] };
	enum rlx_dtype sum = to.dtype;
	uint32_t i;

	for (i = 0; i < 2; i++)
		sum = rlx_dtype_promote(sum, op_type(q->g, in[i]).dtype);
	for (i = 0; i < 2; i++) {
		if (op_type(q->g, in[i]).rank == 5)
			in[i] = rlx_emit(q->g, unblock_channels, .x = in[i],
					 .channels = to.dim[!i]);
		if (a->out_dtype)
			in[i] = op_cast(q->g, in[i], sum);
	}
	q->out[0] = op_cast(q->g, op_conv_weight_grad(q->g, in[0], in[1], &to, 1, &wa), to.dtype);
	return op_done(q->g);
}

static void conv_weight_grad_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_type *dy = q->in[1];

	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]) * (double)dy->dim[0] *
		   (double)(dy->dim[2] * dy->dim[3]);
}

static bool conv_weight_grad_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_conv_weight_grad *a = s->args;
	const bool half = i > 3;

	s->n_in = 2;
	s->tol = half ? 1e-2 : 1e-5;
	a->pad = op_keep(s, RLX_INTS(1, 1, 1, 1));
	a->shape = op_keep(s, RLX_INTS(20, 5, 3, 3));
	s->in[0] = rlx_type(RLX_F32, 3, 5, 9, 11);
	s->in[1] = rlx_type(RLX_F32, 3, 20, 9, 11);
	switch (i) {
	case 0:
		break;
	case 1:		/* blocked both */
	case 4:
		s->in[0] = rlx_type(RLX_F32, 3, 1, 9, 11, 16);
		s->in[1] = rlx_type(RLX_F32, 3, 2, 9, 11, 16);
		break;
	case 2:		/* with strides and dilation, what is left over is not read */
	case 5:
		a->stride = op_keep(s, RLX_INTS(2, 3));
		a->dilation = op_keep(s, RLX_INTS(2, 1));
		s->in[1] = rlx_type(RLX_F32, 3, 2, 4, 4, 16);
		break;
	case 3:		/* one tap */
		a->pad = (struct rlx_ints){ 0 };
		a->shape = op_keep(s, RLX_INTS(20, 5, 1, 1));
		break;
	case 6:		/* of 16 bits to f32 */
		s->in[0] = rlx_type(RLX_F32, 3, 1, 9, 11, 16);
		s->in[1] = rlx_type(RLX_F32, 3, 2, 9, 11, 16);
		break;
	case 7:
		a->stride = op_keep(s, RLX_INTS(2, 2));
		s->in[0] = rlx_type(RLX_F32, 3, 1, 9, 11, 16);
		s->in[1] = rlx_type(RLX_F32, 3, 20, 5, 6);
		break;
	default:
		return false;
	}
	if (i > 5) {
		a->out_dtype = RLX_F32;
		s->tol = 1e-5;
	}
	if (half)
		s->in[0].dtype = s->in[1].dtype = RLX_BF16;
	s->grad_tol = half ? -1 : 0;
	return true;
}

const struct rlx_op_impl rlx_op_conv_weight_grad_impl = {
	.infer = conv_weight_grad_infer, .expand = conv_weight_grad_expand,
	.cost = conv_weight_grad_cost,
};
RLX_SAMPLES(conv_weight_grad, conv_weight_grad_sample)
