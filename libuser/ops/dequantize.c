// SPDX-License-Identifier: MIT
/* From quantised numbers back to floats. */
#include "ops/quant.h"

/*
 * Shapes:	x[..], scale[], [1] or, along axis, [d] -> y[..] like x; with block, scale is
 *		shaped as x but for ceil(d / block) on axis; zp as scale
 * Dtypes:	x: u8 i8 u16 i16 i32 f8e4m3 f8e5m2; zp as x; scale: f64 f32 f16 bf16; y as scale
 * Does:	(x - zp) scale, with the scale and zero point of the element's place on axis (0 if
 *		not given), or of its block of so many neighbours there. block 0: no blocks. zp is
 *		0 if not given. The difference of integers is exact.
 * Gradient:	by those two operations: to scale, and to x and zp where they are f8
 * Source:	ONNX DequantizeLinear-21, whose axis is 1 if not given
 */
RLX_OP(dequantize, "(x - zero point) * scale, in the scale's dtype",
	IN(x) IN(scale) OPT(zp)
	ATTR(i32, axis)
	ATTR(i64, block),
	RLX_T_MOVE | RLX_T_STEEP)

static enum rlx_status dequantize_infer(struct rlx_infer *q)
{
	const struct rlx_op_dequantize *a = q->args;
	enum rlx_status st = op_need_float(q, 1, false);

	if (!st)
		st = op_quant_infer(q, a->axis, a->block);
	if (st)
		return st;
	if (!op_quant_dtype(q->in[0]->dtype))
		return op_fail(q, RLX_ETYPE, "%s is no quantised dtype",
			       rlx_dtype_name(q->in[0]->dtype));
	if (q->in[2] && q->in[2]->dtype != q->in[0]->dtype)
		return op_fail(q, RLX_ETYPE, "the zero point is %s, x is %s",
			       rlx_dtype_name(q->in[2]->dtype),
			       rlx_dtype_name(q->in[0]->dtype));
	q->out[0] = *q->in[0];
	q->out[0].dtype = q->in[1]->dtype;
	return RLX_OK;
}

static enum rlx_status dequantize_eval(struct rlx_eval *q)
{
	const struct rlx_op_dequantize *a = q->args;
	const struct rlx_tensor *x = &q->in[0];
	int64_t n = rlx_type_count(&x->type), i, at;
	double zp;

	for (i = 0; i < n; i++) {
		at = op_quant_at(&x->type, &q->in[1].type, a->axis, a->block, i);
		zp = op_has(&q->in[2]) ? el_get(&q->in[2], at) : 0;
		el_set(&q->out[0], i, (el_get(x, i) - zp) * el_get(&q->in[1], at));
	}
	return RLX_OK;
}

static enum rlx_status dequantize_expand(struct rlx_expand *q)
{
	const struct rlx_op_dequantize *a = q->args;
	enum rlx_dtype dt = q->out_type->dtype, acc = op_acc_type(dt);
	bool whole = !rlx_dtype_is_float(op_type(q->g, q->in[0]).dtype);
	struct rlx_type shape = op_type(q->g, q->in[0]);
	rlx_value x = q->in[0], zp = q->in[2], scale;

	/* an i32 does not fit an f32: subtract in i64 first */
	x = op_cast(q->g, x, whole ? RLX_I64 : acc);
	if (zp.id)
		x = rlx_emit(q->g, sub, .a = x,
			     .b = op_quant_spread(q->g, op_cast(q->g, zp, whole ? RLX_I64 : acc),
						  &shape, a->axis, a->block));
	scale = op_quant_spread(q->g, op_cast(q->g, q->in[1], acc), &shape, a->axis, a->block);
	x = rlx_emit(q->g, mul, .a = op_cast(q->g, x, acc), .b = scale);
	q->out[0] = op_cast(q->g, x, dt);
	return op_done(q->g);
}

static bool dequantize_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_dequantize *a = s->args;
	enum rlx_dtype dt = RLX_I32;

	if (i > 9)
		return false;
	a->axis = 1;
	op_quant_sample(i < 9 ? i : 2, s, &a->axis, &a->block, &dt);
	dt = i < 9 ? dt : RLX_I32;
	s->in[0].dtype = dt;
	s->hi[0] = 100;
	s->lo[0] = rlx_dtype_is_signed(dt) || rlx_dtype_is_float(dt) ? -100 : 0;
	s->tol = 1e-6;
	return true;
}

const struct rlx_op_impl rlx_op_dequantize_impl = {
	.infer = dequantize_infer, .eval = dequantize_eval,
	.expand = dequantize_expand,
};
RLX_SAMPLES(dequantize, dequantize_sample)
