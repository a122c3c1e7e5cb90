// SPDX-License-Identifier: MIT
/* Quantisation to u8 over the range that the data has. */
#include "ops/emit.h"

/*
 * Shapes:	x[..] -> y[..] like x, scale[], zp[]
 * Dtypes:	x: f64 f32 f16 bf16; y: u8; scale: f32; zp: u8
 * Does:	the range of x, widened to hold 0, is cut into 255 steps of scale; zp = round(-low
 *		/ scale), y = round(x / scale) + zp within 0 to 255, ties to even, in f32. A range
 *		of one point, and an empty x, have scale 1. NaN has no say in the range and
 *		becomes 0, its lower end.
 * Gradient:	none: it is a step function
 * Source:	ONNX DynamicQuantizeLinear-11
 */
RLX_OP(dynamic_quantize, "u8 of x over [min(x, 0), max(x, 0)], its f32 scale and u8 zero point",
	IN(x),
	RLX_T_REDUCTION | RLX_T_NODIFF | RLX_T_TIES)

static enum rlx_status dynamic_quantize_infer(struct rlx_infer *q)
{
	enum rlx_status st = op_need_float(q, 0, false);

	q->n_out = 3;
	q->out[0] = *q->in[0];
	q->out[0].dtype = RLX_U8;
	q->out[1] = rlx_scalar(RLX_F32);
	q->out[2] = rlx_scalar(RLX_U8);
	return st;
}

/* In f32 like all that computes it: scale and ties decide every output. */
static enum rlx_status dynamic_quantize_eval(struct rlx_eval *q)
{
	const struct rlx_tensor *x = &q->in[0];
	int64_t n = rlx_type_count(&x->type), i;
	float lo = 0, hi = 0, scale, zp;

	for (i = 0; i < n; i++) {
		lo = fminf(lo, (float)el_get(x, i));
		hi = fmaxf(hi, (float)el_get(x, i));
	}
	scale = hi > lo ? (hi - lo) / 255 : 1;
	zp = rintf(fminf(fmaxf(0 - lo / scale, 0), 255));
	for (i = 0; i < n; i++)
		el_set(&q->out[0], i, (double)(rintf((float)el_get(x, i) / scale) + zp));
	el_set(&q->out[1], 0, (double)scale);
	el_set(&q->out[2], 0, (double)zp);
	return RLX_OK;
}

static bool dynamic_quantize_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_F32, 2, { 5, 33 } }, { RLX_F32, 1, { 1 } }, { RLX_F32, 1, { 0 } },
		{ RLX_F32, 0, { 0 } },
	};

	if (i >= sizeof(x) / sizeof(x[0]))
		return false;
	s->n_in = 1;
	s->in[0] = x[i];
	s->f32_only = true;
	s->tol = 0.005;		/* one step */
	s->lo[0] = i ? 0.5 : -3;
	s->hi[0] = 5;
	return true;
}

const struct rlx_op_impl rlx_op_dynamic_quantize_impl = {
	.infer = dynamic_quantize_infer, .eval = dynamic_quantize_eval,
};
RLX_SAMPLES(dynamic_quantize, dynamic_quantize_sample)
