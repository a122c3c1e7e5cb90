// SPDX-License-Identifier: MIT
/* Matrix product of 8-bit integers. */
#include "ops/quant.h"

/*
 * Shapes:	a[.., m, k], b[.., k, n], a_scale and a_zp of 1 or m elements, b_scale and b_zp of
 *		1 or n, y_scale and y_zp of 1, bias of 1 or n -> y[.., m, n] as matmul
 * Dtypes:	a, b: u8 i8, each zp as its operand, y_zp u8 i8; scales: f64 f32 f16 bf16; bias:
 *		i32, or f32 where y is; y: i32, f32 with a_scale and b_scale (which go together),
 *		with y_scale as well that of y_zp, else of a
 * Does:	matmul of a - a_zp and b - b_zp plus an i32 bias, in an i32 accumulator, which
 *		wraps; times a_scale b_scale, plus an f32 bias; divided by y_scale, rounded, ties
 *		to even, plus y_zp, the end of the range beyond it. Zero points are 0 if not
 *		given.
 * Gradient:	none: it is a step function
 * Source:	ONNX QLinearMatMul-21, MatMulInteger-10
 */
RLX_OP(qmatmul, "(a - a_zp)(b - b_zp): i32; f32 with scales; u8 or i8 with y_scale as well",
	IN(a) IN(b) OPT(a_scale) OPT(a_zp) OPT(b_scale) OPT(b_zp) OPT(y_scale) OPT(y_zp) OPT(bias),
	RLX_T_COMPUTE | RLX_T_NODIFF | RLX_T_TIES)

static enum rlx_status qmatmul_infer(struct rlx_infer *q)
{
	const struct rlx_type *a = q->in[0], *b = q->in[1], *bias = q->in[8];
	struct rlx_type ba = *a, bb = *b, *y = &q->out[0];
	enum rlx_status st = op_requant_infer(q, 2);
	int64_t m, n;

	if (st)
		return st;
	if (a->rank < 2 || b->rank < 2 || a->dim[a->rank - 1] != b->dim[b->rank - 2])
		return op_fail(q, RLX_ESHAPE,
			       "ranks %u and %u of at least 2 with equal inner dims are needed",
			       a->rank, b->rank);
	ba.rank -= 2;
	bb.rank -= 2;
	if (!op_broadcast(&ba, &bb, y))
		return op_fail(q, RLX_ESHAPE, "the batch dimensions do not broadcast");
	m = y->dim[y->rank++] = a->dim[a->rank - 2];
	n = y->dim[y->rank++] = b->dim[b->rank - 1];
	st = op_quant_vector(q, 2, "a_scale", m);
	st = st ? st : op_quant_vector(q, 3, "a_zp", m);
	st = st ? st : op_quant_vector(q, 4, "b_scale", n);
	st = st ? st : op_quant_vector(q, 5, "b_zp", n);
	st = st ? st : op_quant_vector(q, 8, "bias", n);
	if (!st && bias && bias->dtype != RLX_I32 &&
	    !(bias->dtype == RLX_F32 && y->dtype == RLX_F32))
		st = op_fail(q, RLX_ETYPE, "the bias is %s; i32, or f32 with an f32 result",
			     rlx_dtype_name(bias->dtype));
	return st;
}

static void one_element(struct rlx_eval *q, int64_t ai, int64_t bi, int64_t out)
{
	const struct rlx_type *ta = &q->in[0].type, *y = &q->out[0].type;
	int64_t n = y->dim[y->rank - 1], k = ta->dim[ta->rank - 1], p, sum = 0;
	int64_t row = out / n % y->dim[y->rank - 2], col = out % n;
	int64_t az = (int64_t)op_quant_get(&q->in[3], row, 0);
	int64_t bz = (int64_t)op_quant_get(&q->in[5], col, 0);
	double v;

	for (p = 0; p < k; p++)
		sum += (el_geti(&q->in[0], ai + p) - az) * (el_geti(&q->in[1], bi + p * n) - bz);
	if (op_has(&q->in[8]) && q->in[8].type.dtype == RLX_I32)
		sum += (int64_t)op_quant_get(&q->in[8], col, 0);
	if (!op_has(&q->in[2])) {
		el_seti(&q->out[0], out, sum);
		return;
	}
	v = op_quant_sum(sum) * op_quant_get(&q->in[2], row, 1) * op_quant_get(&q->in[4], col, 1);
	if (op_has(&q->in[8]) && q->in[8].type.dtype == RLX_F32)
		v += op_quant_get(&q->in[8], col, 0);
	if (op_has(&q->in[6]))
		v = rint(v / el_get(&q->in[6], 0)) + op_quant_get(&q->in[7], 0, 0);
	el_set(&q->out[0], out, v);
}

static enum rlx_status qmatmul_eval(struct rlx_eval *q)
{
	op_matmul_each(q, one_element);
	return RLX_OK;
}

/* Products of doubles are exact. */
static rlx_value of_doubles(struct rlx_expand *q)
{
	uint32_t m = op_type(q->g, q->in[0]).rank - 2, n = op_type(q->g, q->in[1]).rank - 1;
	rlx_value y = rlx_emit(q->g, matmul, .a = op_quant_exact(q->g, q->in[0], q->in[3], m),
			       .b = op_quant_exact(q->g, q->in[1], q->in[5], n));
	uint32_t rank = q->out_type->rank;
	bool whole = q->in[8].id && op_type(q->g, q->in[8]).dtype == RLX_I32;
	rlx_value bias = op_quant_along(q->g, q->in[8], rank - 1, rank, RLX_F64), s;

	if (whole)
		y = rlx_emit(q->g, add, .a = y, .b = bias);
	y = op_cast(q->g, op_cast(q->g, y, RLX_I64), RLX_I32);
	if (!q->in[2].id)
		return y;
	y = op_cast(q->g, y, RLX_F64);
	s = rlx_emit(q->g, mul, .a = op_quant_along(q->g, q->in[2], rank - 2, rank, RLX_F64),
		     .b = op_quant_along(q->g, q->in[4], rank - 1, rank, RLX_F64));
	y = rlx_emit(q->g, mul, .a = y, .b = s);
	if (bias.id && !whole)
		y = rlx_emit(q->g, add, .a = y, .b = bias);
	return op_cast(q->g, y, RLX_F32);
}

/* The product in f32, with f32 scales, is what kernels take; what they do not is exact. */
static enum rlx_status qmatmul_expand(struct rlx_expand *q)
{
	struct rlx_op_qmatmul a = {
		.a = q->in[0], .b = q->in[1], .a_scale = q->in[2], .a_zp = q->in[3],
		.b_scale = q->in[4], .b_zp = q->in[5], .bias = q->in[8],
	};
	bool scaled = a.a_scale.id, narrow = q->in[6].id;
	rlx_value y;

	if (scaled && (op_type(q->g, a.a_scale).dtype != RLX_F32 ||
		       op_type(q->g, a.b_scale).dtype != RLX_F32 || narrow)) {
		a.a_scale = op_cast(q->g, a.a_scale, RLX_F32);
		a.b_scale = op_cast(q->g, a.b_scale, RLX_F32);
		y = rlx_emit_raw(q->g, &rlx_op_qmatmul, &a, sizeof(a), __FILE__, __LINE__);
		q->out[0] = !narrow ? y :
			    op_quant_narrow(q->g, y, q->in[6], q->in[7], q->out_type->dtype);
	} else {
		q->out[0] = of_doubles(q);
	}
	return op_done(q->g);
}

static void qmatmul_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]) *
		   (double)q->in[0]->dim[q->in[0]->rank - 1];
}

static bool qmatmul_sample(unsigned int i, struct rlx_sample *s)
{
	uint32_t k;

	if (i >= 12)
		return false;
	s->n_in = 9;
	s->f32_only = true;
	s->in[0] = rlx_type(i & 1 ? RLX_I8 : RLX_U8, 5, 67);
	s->in[1] = rlx_type(i & 2 ? RLX_U8 : RLX_I8, 67, 9);
	s->in[3] = i == 1 ? rlx_type(s->in[0].dtype, 5) : rlx_scalar(s->in[0].dtype);
	s->in[5] = i == 2 ? rlx_type(s->in[1].dtype, 9) : rlx_scalar(s->in[1].dtype);
	if (i == 3)
		s->in[3] = s->in[5] = (struct rlx_type){ 0 };
	if (i >= 4) {
		s->in[2] = i == 4 ? rlx_type(RLX_F32, 5) : rlx_type(RLX_F32, 1);
		s->in[4] = i == 5 ? rlx_type(RLX_F32, 9) : rlx_scalar(RLX_F32);
		s->in[8] = rlx_type(i == 5 ? RLX_F32 : RLX_I32, 9);
	}
	if (i >= 6) {
		s->in[6] = rlx_scalar(RLX_F32);
		if (i != 7)
			s->in[7] = rlx_scalar(i == 6 ? RLX_U8 : RLX_I8);
	}
	if (i == 8) {	/* batches */
		s->in[0] = rlx_type(RLX_U8, 2, 1, 3, 4);
		s->in[1] = rlx_type(RLX_I8, 3, 4, 2);
		s->in[3] = rlx_scalar(RLX_U8);
		s->in[5] = rlx_scalar(RLX_I8);
		s->in[8] = (struct rlx_type){ 0 };
	}
	if (i == 11) {	/* batches that broadcast in turns */
		s->in[0] = rlx_type(RLX_I8, 2, 1, 3, 3, 5);
		s->in[1] = rlx_type(RLX_U8, 1, 2, 1, 5, 4);
		s->in[3] = rlx_scalar(RLX_I8);
		s->in[5] = rlx_scalar(RLX_U8);
		s->in[8] = (struct rlx_type){ 0 };
	} else if (i >= 9) {	/* one right-hand side, scales and zero points of rows */
		s->in[0] = rlx_type(RLX_I8, 2, 3, 5);
		s->in[1] = rlx_type(RLX_U8, 5, 4);
		s->in[2] = rlx_type(RLX_F32, i == 9 ? 3 : 1);
		s->in[3] = rlx_type(RLX_I8, i == 9 ? 3 : 1);
		s->in[4] = rlx_type(RLX_F32, i == 9 ? 1 : 4);
		s->in[5] = rlx_type(RLX_U8, i == 9 ? 1 : 4);
		s->in[6] = s->in[7] = s->in[8] = (struct rlx_type){ 0 };
	}
	for (k = 0; k < 8; k++) {
		s->hi[k] = k < 2 ? 127 : 20;
		s->lo[k] = s->in[k].dtype == RLX_I8 ? -s->hi[k] : 0;
	}
	for (k = 2; k < 7; k += 2) {
		s->lo[k] = 0.01;
		s->hi[k] = 0.02;
	}
	if (s->in[6].dtype) {
		/* powers of two: no rounding but the last one, so nothing may differ */
		s->lo[2] = s->hi[2] = s->lo[4] = s->hi[4] = 0x1p-6;
		s->lo[6] = s->hi[6] = 0.25;
	}
	s->lo[8] = -100;
	s->hi[8] = 100;
	s->tol = i < 4 ? 0 : 1e-6;
	return true;
}

const struct rlx_op_impl rlx_op_qmatmul_impl = {
	.infer = qmatmul_infer, .eval = qmatmul_eval, .cost = qmatmul_cost,
	.expand = qmatmul_expand,
};
RLX_SAMPLES(qmatmul, qmatmul_sample)
