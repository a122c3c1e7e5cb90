// SPDX-License-Identifier: MIT
/* Rounding to a few bits and back by a step that is learned. */
#include "ops/quant.h"

/*
 * Shapes:	x[..], s[] or [1], or [d] with d on axis -> y[..] like x
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	clamp(round(z), -q, q) s with z = x / s and q = 2^(bits - 1) - 1; s is at least
 *		1e-12; ties are rounded to even, NaN becomes the lower end. s is one step, or one
 *		for each place on axis (0 if not given).
 * Gradient:	dx = dy where |z| <= q, else 0; ds = grad_scale sum(dy psi) with psi = round(z) - z
 *		there and q sign(z) elsewhere. grad_scale is 1 if not given; the paper's is 1 /
 *		sqrt(n q).
 * Source:	Esser et al. 2020, Learned Step Size Quantization
 */
RLX_OP(fake_quantize_lsq, "clamp(round(x / s), -qmax, qmax) s with gradients to x and to s",
	IN(x) IN(s)
	REQ(i32, bits, "the bits to round to, 2 to 16")
	ATTR(i32, axis)
	ATTR_NZ(f32, grad_scale, 1),
	RLX_T_REDUCTION | RLX_T_STEPPED | RLX_T_TIES)

static enum rlx_status fake_quantize_lsq_infer(struct rlx_infer *q)
{
	const struct rlx_op_fake_quantize_lsq *a = q->args;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_float(q, 0, false);
	uint32_t ax = 0;

	st = st ? st : op_need_float(q, 1, false);
	st = st ? st : op_need_real(q, "grad_scale", a->grad_scale, -INFINITY);
	if (!st && rlx_type_count(q->in[1]) != 1)
		st = op_infer_axis(q, a->axis, x->rank, &ax);
	if (!st)
		st = op_quant_vector(q, 1, "s", x->rank ? x->dim[ax] : 1);
	if (!st && (a->bits < 2 || a->bits > 16))
		st = op_fail(q, RLX_EINVAL, "bits is %d, 2 to 16 are taken", a->bits);
	return st ? st : op_infer_same(q);
}

/* s where it broadcasts over x, in the dtype of sums. */
static rlx_value step(struct rlx_graph *g, const struct rlx_op_fake_quantize_lsq *a, rlx_value s,
		      const struct rlx_type *x)
{
	s = op_quant_spread(g, op_cast(g, s, op_acc_type(x->dtype)), x, a->axis, 0);
	return op_fake_step(g, s);
}

static enum rlx_status fake_quantize_lsq_expand(struct rlx_expand *q)
{
	const struct rlx_op_fake_quantize_lsq *a = q->args;
	struct rlx_type t = *q->out_type;
	rlx_value s = step(q->g, a, q->in[1], &t);
	rlx_value x = op_cast(q->g, q->in[0], op_acc_type(t.dtype));

	q->out[0] = op_cast(q->g, op_fake_round(q->g, x, s, a->bits), t.dtype);
	return op_done(q->g);
}

static enum rlx_status fake_quantize_lsq_vjp(struct rlx_grad *q)
{
	const struct rlx_op_fake_quantize_lsq *a = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type t = op_type(g, q->in[0]);
	enum rlx_dtype acc = op_acc_type(t.dtype);
	rlx_value dy = op_cast(g, q->d_out[0], acc), s = step(g, a, q->in[1], &t), z, psi, out, in;
	double most = op_fake_most(a->bits);

	z = rlx_emit(g, div, .a = op_cast(g, q->in[0], acc), .b = s);
	in = rlx_emit(g, le, .a = rlx_emit(g, abs, .x = z), .b = op_const_like(g, z, most));
	q->d_in[0] = op_cast(g, rlx_emit(g, where, .cond = in, .a = dy,
					 .b = op_const_like(g, dy, 0)), t.dtype);
	psi = rlx_emit(g, sub, .a = rlx_emit(g, round, .x = z), .b = z);
	out = op_mul_const(g, rlx_emit(g, sign, .x = z), most);
	psi = rlx_emit(g, where, .cond = in, .a = psi, .b = out);
	psi = op_unbroadcast(g, rlx_emit(g, mul, .a = dy, .b = psi), s);
	psi = op_mul_const(g, psi, a->grad_scale);
	q->d_in[1] = op_reshape_like(g, op_cast(g, psi, op_type(g, q->in[1]).dtype), q->in[1]);
	return op_done(g);
}

static bool fake_quantize_lsq_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_fake_quantize_lsq *a = s->args;

	if (i > 2)
		return false;
	s->n_in = 2;
	s->in[0] = rlx_type(RLX_F32, i == 2 ? 0 : 5, 7);
	s->in[1] = i ? rlx_type(RLX_F32, 7) : rlx_type(RLX_F32);
	s->lo[1] = 0.3;
	s->hi[1] = 0.6;
	s->f32_only = true;		/* where x / s is rounded otherwise, y jumps */
	s->tol = 1e-6;
	s->grad_tol = -1;		/* it is none of a function that jumps */
	a->bits = i ? 3 : 2;
	a->axis = -1;
	return true;
}

const struct rlx_op_impl rlx_op_fake_quantize_lsq_impl = {
	.infer = fake_quantize_lsq_infer, .expand = fake_quantize_lsq_expand,
	.vjp = fake_quantize_lsq_vjp,
};
RLX_SAMPLES(fake_quantize_lsq, fake_quantize_lsq_sample)
