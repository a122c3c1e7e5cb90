// SPDX-License-Identifier: MIT
/* Linear quantisation, per tensor, per axis or per block. */
#include "ops/quant.h"

/*
 * Shapes:	x[..], scale[], [1] or, along axis, [d] -> y[..] like x; with block, scale is
 *		shaped as x but for ceil(d / block) on axis; zp as scale
 * Dtypes:	x: f64 f32 f16 bf16 and integers; scale: f64 f32 f16 bf16; y: u8 i8 u16 i16 i32
 *		f8e4m3 f8e5m2, the dtype 'to', else that of zp, else u8; zp as y
 * Does:	round(x / scale) + zp, ties to even, the end of the range beyond it, 0 for NaN in
 *		integers; to f8 the quotient is rounded once, to f8. The quotient is one of f32,
 *		of f64 if x is f64, since it decides ties. axis (0 if not given) and block (0: no
 *		blocks) say which scale is whose, as for dequantize.
 * Gradient:	none: it is a step function; fake_quantize has one
 * Source:	ONNX QuantizeLinear-21, whose axis is 1 if not given
 */
RLX_OP(quantize, "saturate(round(x / scale) + zero point), ties to even",
	IN(x) IN(scale) OPT(zp)
	ATTR(i32, axis)
	ATTR(dtype, to)
	ATTR(i64, block),
	RLX_T_MOVE | RLX_T_NODIFF | RLX_T_TIES)

static enum rlx_status quantize_infer(struct rlx_infer *q)
{
	const struct rlx_op_quantize *a = q->args;
	const struct rlx_type *zp = q->in[2];
	enum rlx_dtype to = a->to ? a->to : zp ? zp->dtype : RLX_U8;
	enum rlx_status st = op_need_number(q, 0);

	if (!st)
		st = op_need_float(q, 1, false);
	if (!st)
		st = op_quant_infer(q, a->axis, a->block);
	if (st)
		return st;
	if (!op_quant_dtype(to))
		return op_fail(q, RLX_ETYPE, "cannot quantise to %s", rlx_dtype_name(to));
	if (zp && zp->dtype != to)
		return op_fail(q, RLX_ETYPE, "the zero point is %s, the result %s",
			       rlx_dtype_name(zp->dtype), rlx_dtype_name(to));
	q->out[0] = *q->in[0];
	q->out[0].dtype = to;
	return RLX_OK;
}

/*
 * The quotient is taken in f32 unless x is f64: it decides ties, so that all
 * backends must divide alike.
 */
static enum rlx_status quantize_eval(struct rlx_eval *q)
{
	const struct rlx_op_quantize *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *y = &q->out[0];
	bool f8 = rlx_dtype_is_float(y->type.dtype), wide = x->type.dtype == RLX_F64;
	int64_t n = rlx_type_count(&x->type), i, at;
	double v, zp;

	for (i = 0; i < n; i++) {
		at = op_quant_at(&x->type, &q->in[1].type, a->axis, a->block, i);
		zp = op_has(&q->in[2]) ? el_get(&q->in[2], at) : 0;
		if (wide)
			v = el_get(x, i) / el_get(&q->in[1], at);
		else
			v = (double)((float)el_get(x, i) / (float)el_get(&q->in[1], at));
		el_set(y, i, (f8 ? v : rint(v)) + zp);
	}
	return RLX_OK;
}

/* The quotient as it is told; integers are added up in f64, which holds them and a zero point. */
static enum rlx_status quantize_expand(struct rlx_expand *q)
{
	const struct rlx_op_quantize *a = q->args;
	struct rlx_type t = op_type(q->g, q->in[0]);
	enum rlx_dtype dt = t.dtype == RLX_F64 ? RLX_F64 : RLX_F32, to = q->out_type->dtype, acc;
	bool whole = !rlx_dtype_is_float(to);
	rlx_value scale = op_cast(q->g, q->in[1], dt), zp = q->in[2], v;

	v = rlx_emit(q->g, div, .a = op_cast(q->g, q->in[0], dt),
		     .b = op_quant_spread(q->g, scale, &t, a->axis, a->block));
	acc = whole ? RLX_F64 : dt;
	if (whole)
		v = op_cast(q->g, rlx_emit(q->g, round, .x = v), acc);
	if (zp.id)
		v = rlx_emit(q->g, add, .a = v,
			     .b = op_quant_spread(q->g, op_cast(q->g, zp, acc), &t, a->axis,
						  a->block));
	q->out[0] = op_cast(q->g, v, to);
	return op_done(q->g);
}

static bool quantize_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_quantize *a = s->args;

	s->f32_only = true;
	s->tol = 0.005;		/* one step: backends may divide through a reciprocal */
	a->axis = 1;
	switch (i) {
	case 9:
		a->to = RLX_I32;
		s->n_in = 2;
		s->in[0] = rlx_type(RLX_F32, 3, 4);
		s->in[1] = rlx_scalar(RLX_F32);
		s->lo[1] = 0.02;
		s->hi[1] = 0.1;
		return true;
	default:
		return op_quant_sample(i, s, &a->axis, &a->block, &a->to);
	}
}

const struct rlx_op_impl rlx_op_quantize_impl = {
	.infer = quantize_infer, .eval = quantize_eval, .expand = quantize_expand,
};
RLX_SAMPLES(quantize, quantize_sample)
