// SPDX-License-Identifier: MIT
/* Convolution of 8-bit integers. */
#include "ops/quant.h"
#include "ops/window.h"

/*
 * Shapes:	x[n, c, in..], w[co, c / groups, k..], bias[co], x_scale and x_zp of 1 element,
 *		w_scale and w_zp of 1 or co, y_scale and y_zp of 1 -> y[n, co, out..] as conv
 * Dtypes:	x, w: u8 i8, each zp as its operand, y_zp u8 i8; scales: f64 f32 f16 bf16; bias:
 *		i32; y: i32, f32 with x_scale and w_scale (which go together), with y_scale as
 *		well that of y_zp, else of x
 * Does:	conv of x - x_zp and w - w_zp plus bias, in an i32 accumulator, which wraps; times
 *		x_scale w_scale; divided by y_scale, rounded, ties to even, plus y_zp, the end of
 *		the range beyond it. Padding counts as x_zp, that is 0. Zero points are 0 if not
 *		given; stride, pad and dilation as for conv.
 * Gradient:	none: it is a step function
 * Source:	ONNX QLinearConv-10, ConvInteger-10
 */
RLX_OP(qconv, "conv of (x - x_zp) and (w - w_zp): i32; f32 with scales; u8 or i8 with y_scale",
	IN(x) IN(w) OPT(bias) OPT(x_scale) OPT(x_zp) OPT(w_scale) OPT(w_zp) OPT(y_scale) OPT(y_zp)
	ATTR(ints, stride)
	ATTR(ints, pad)
	ATTR(ints, dilation)
	ATTR_NZ(i64, groups, 1),
	RLX_T_COMPUTE | RLX_T_NODIFF | RLX_T_TIES)

static enum rlx_status qconv_infer(struct rlx_infer *q)
{
	const struct rlx_op_qconv *a = q->args;
	const struct op_window_args wa = { a->stride, a->pad, a->dilation, false };
	const struct rlx_type *bias = q->in[2];
	enum rlx_status st = op_requant_infer(q, 3);
	struct op_conv c;
	int64_t co;

	if (!st)
		st = op_conv_infer(q, &wa, a->groups, &c, &q->out[0]);
	if (st)
		return st;
	co = q->out[0].dim[1];
	if (bias && (bias->dtype != RLX_I32 || bias->rank != 1 || bias->dim[0] != co))
		return op_fail(q, RLX_ESHAPE, "the bias must be i32[%lld]", (long long)co);
	st = op_quant_vector(q, 3, "x_scale", 1);
	st = st ? st : op_quant_vector(q, 4, "x_zp", 1);
	st = st ? st : op_quant_vector(q, 5, "w_scale", co);
	return st ? st : op_quant_vector(q, 6, "w_zp", co);
}

/* Sum of one window over the channels of one group; padding is x_zp, that is 0. */
static int64_t window_sum(const struct rlx_eval *q, const struct op_conv *c,
			  const int64_t at[5])
{
	const struct op_window *w = &c->w;
	int64_t per = c->ci / c->groups, g = at[1] / (c->co / c->groups);
	int64_t plane = w->in[0] * w->in[1] * w->in[2], taps, i, t, k, p[3], sum = 0;
	int64_t xz = (int64_t)op_quant_get(&q->in[4], 0, 0);
	int64_t wz = (int64_t)op_quant_get(&q->in[6], at[1], 0), off;
	uint32_t j;

	taps = w->k[0] * w->k[1] * w->k[2];
	for (t = 0; t < taps; t++) {
		bool inside = true;

		for (k = t, j = 3; j-- > 0; k /= w->k[j]) {
			p[j] = at[2 + j] * w->stride[j] - w->pad[j] + k % w->k[j] * w->dil[j];
			inside = inside && p[j] >= 0 && p[j] < w->in[j];
		}
		off = (p[0] * w->in[1] + p[1]) * w->in[2] + p[2];
		for (i = 0; inside && i < per; i++)
			sum += (el_geti(&q->in[0], ((at[0] * c->ci + g * per + i) *
						     plane + off)) - xz) *
			       (el_geti(&q->in[1], (at[1] * per + i) * taps + t) - wz);
	}
	return sum;
}

static enum rlx_status qconv_eval(struct rlx_eval *q)
{
	const struct rlx_op_qconv *a = q->args;
	const struct op_window_args wa = { a->stride, a->pad, a->dilation, false };
	struct rlx_type shape;
	struct op_conv c;
	struct op_walk w;
	int64_t sum;
	double v;

	op_conv_set(&c, &wa, a->groups, &q->in[0].type, &q->in[1].type, &q->out[0].type);
	shape = (struct rlx_type){ RLX_F64, 5, { c.n, c.co, c.w.out[0], c.w.out[1],
						 c.w.out[2] } };
	op_walk_begin(&w, &shape, NULL, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		sum = window_sum(q, &c, w.idx);
		if (op_has(&q->in[2]))
			sum += el_geti(&q->in[2], w.idx[1]);
		if (!op_has(&q->in[3])) {
			el_seti(&q->out[0], w.i, sum);
			continue;
		}
		v = op_quant_sum(sum) * op_quant_get(&q->in[3], 0, 1) *
		    op_quant_get(&q->in[5], w.idx[1], 1);
		if (op_has(&q->in[7]))
			v = rint(v / el_get(&q->in[7], 0)) + op_quant_get(&q->in[8], 0, 0);
		el_set(&q->out[0], w.i, v);
	}
	return RLX_OK;
}

/* The sums in i32, times what makes numbers of them. */
static void scaled(struct rlx_expand *q, struct rlx_op_qconv sums)
{
	rlx_value xs = op_quant_along(q->g, q->in[3], 0, 0, RLX_F32), y;
	rlx_value ws = op_quant_along(q->g, q->in[5], 1, q->out_type->rank, RLX_F32);

	y = rlx_emit_raw(q->g, &rlx_op_qconv, &sums, sizeof(sums), __FILE__, __LINE__);
	y = rlx_emit(q->g, mul, .a = op_cast(q->g, y, RLX_F32),
		     .b = rlx_emit(q->g, mul, .a = xs, .b = ws));
	q->out[0] = !q->in[7].id ? y :
		    op_quant_narrow(q->g, y, q->in[7], q->in[8], q->out_type->dtype);
}

/* Sums without scales are what kernels take; else they are of doubles, which are exact. */
static enum rlx_status qconv_expand(struct rlx_expand *q)
{
	struct rlx_op_qconv a = *(const struct rlx_op_qconv *)q->args;
	rlx_value y;

	if (q->in[3].id) {
		a.x = q->in[0];
		a.w = q->in[1];
		a.bias = q->in[2];
		a.x_zp = q->in[4];
		a.w_zp = q->in[6];
		a.x_scale = a.w_scale = a.y_scale = a.y_zp = RLX_NONE;
		scaled(q, a);
		return op_done(q->g);
	}
	y = rlx_emit(q->g, conv, .x = op_quant_exact(q->g, q->in[0], q->in[4], 0),
		     .w = op_quant_exact(q->g, q->in[1], q->in[6], 0), .stride = a.stride,
		     .pad = a.pad, .dilation = a.dilation, .groups = a.groups);
	y = op_cast(q->g, y, RLX_I64);
	if (q->in[2].id)
		y = rlx_emit(q->g, add, .a = y,
			     .b = op_quant_along(q->g, q->in[2], 1, q->out_type->rank, RLX_I64));
	q->out[0] = op_cast(q->g, y, RLX_I32);
	return op_done(q->g);
}

static void qconv_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]) *
		   (double)shape_span(q->in[1], 1, q->in[1]->rank);
}

static bool qconv_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_qconv *a = s->args;
	uint32_t k;

	if (i >= 6)
		return false;
	s->n_in = 9;
	s->f32_only = true;
	s->in[0] = rlx_type(i & 1 ? RLX_I8 : RLX_U8, 2, 4, 7, 6);
	s->in[1] = rlx_type(i & 2 ? RLX_U8 : RLX_I8, 6, i == 2 ? 2 : 4, 3, 3);
	a->groups = i == 2 ? 2 : 1;
	a->pad = op_keep(s, RLX_INTS(1, 0, 1, 2));
	a->stride = op_keep(s, RLX_INTS(1, 2));
	if (i != 1) {
		s->in[4] = rlx_scalar(s->in[0].dtype);
		s->in[6] = i == 3 ? rlx_type(s->in[1].dtype, 6) : rlx_scalar(s->in[1].dtype);
	}
	if (i >= 2) {
		s->in[2] = rlx_type(RLX_I32, 6);
		s->in[3] = rlx_scalar(RLX_F32);
		s->in[5] = i < 4 ? rlx_type(RLX_F32, 6) : rlx_scalar(RLX_F32);
	}
	if (i >= 3) {
		s->in[7] = rlx_scalar(RLX_F32);
		s->in[8] = rlx_scalar(i == 4 ? RLX_I8 : RLX_U8);
	}
	if (i == 5) {	/* 1-D */
		s->in[0] = rlx_type(RLX_I8, 1, 3, 11);
		s->in[1] = rlx_type(RLX_I8, 6, 3, 4);
		s->in[4].dtype = s->in[6].dtype = RLX_I8;
		a->pad = op_keep(s, RLX_INTS(2, 1));
		a->stride = op_keep(s, RLX_INTS(3));
	}
	for (k = 0; k < 9; k++) {
		s->hi[k] = k < 2 ? 127 : 20;
		s->lo[k] = s->in[k].dtype == RLX_I8 ? -s->hi[k] : 0;
	}
	for (k = 3; k < 7; k += 2) {
		s->lo[k] = 0.01;
		s->hi[k] = 0.02;
	}
	if (s->in[7].dtype) {
		/* powers of two: no rounding but the last one, so nothing may differ */
		s->lo[3] = s->hi[3] = s->lo[5] = s->hi[5] = 0x1p-6;
		s->lo[7] = s->hi[7] = 0.25;
	}
	s->lo[2] = -100;
	s->hi[2] = 100;
	s->tol = i < 2 ? 0 : 1e-6;
	return true;
}

const struct rlx_op_impl rlx_op_qconv_impl = {
	.infer = qconv_infer, .eval = qconv_eval, .cost = qconv_cost,
	.expand = qconv_expand,
};
RLX_SAMPLES(qconv, qconv_sample)
