// SPDX-License-Identifier: MIT
/* Rounding to a few bits and back by a step that is learned. */
#include "ops/emit.h"

/*
 * Shapes:	x[..], s[] or [1], with per_axis [d], d on axis -> y[..] like x
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	clamp(round(z), -q, q) s with z = x / s and q = 2^(bits - 1) - 1; s is at least
 *		1e-12; ties are rounded to even. per_axis has a step for each place on axis (0 if
 *		not given), else there is one.
 * Gradient:	dx = dy where |z| <= q, else 0; ds = grad_scale sum(dy psi) with psi = round(z) - z
 *		there and q sign(z) elsewhere. grad_scale is 1 if not given; the paper's is 1 /
 *		sqrt(n q).
 * Source:	Esser et al. 2020, Learned Step Size Quantization
 */
RLX_OP(fake_quantize_lsq, "clamp(round(x / s), -qmax, qmax) s with gradients to x and to s",
	IN(x) IN(s)
	REQ(i32, bits, "the bits to round to, 2 to 16")
	ATTR(i32, axis)
	ATTR(bool, per_axis)
	ATTR_NZ(f32, grad_scale, 1),
	RLX_T_REDUCTION)

static enum rlx_status fake_quantize_lsq_infer(struct rlx_infer *q)
{
	const struct rlx_op_fake_quantize_lsq *a = q->args;
	const struct rlx_type *x = q->in[0], *s = q->in[1];
	enum rlx_status st = op_need_float(q, 0, false);
	int64_t want = 1;
	uint32_t ax = 0;

	st = st ? st : op_need_float(q, 1, false);
	st = st ? st : op_need_real(q, "grad_scale", a->grad_scale, -INFINITY);
	if (!st && a->per_axis)
		st = op_infer_axis(q, a->axis, x->rank, &ax);
	if (st)
		return st;
	if (a->bits < 2 || a->bits > 16)
		return op_fail(q, RLX_EINVAL, "bits is %d, 2 to 16 are taken", a->bits);
	if (a->per_axis)
		want = x->dim[ax];
	if (s->rank > 1 || rlx_type_count(s) != want || (a->per_axis && !s->rank))
		return op_fail(q, RLX_ESHAPE, "s must be [%lld]%s", (long long)want,
			       a->per_axis ? "" : " or a scalar");
	return op_infer_same(q);
}

/* s where it broadcasts over x, at least 1e-12, in @acc. */
static rlx_value step(struct rlx_graph *g, const struct rlx_op_fake_quantize_lsq *a,
		      const struct rlx_type *x, rlx_value s, enum rlx_dtype acc)
{
	int64_t dim[RLX_MAX_RANK] = { 0 };
	uint32_t i, ax = 0;

	for (i = 0; i < x->rank; i++)
		dim[i] = 1;
	if (a->per_axis) {
		op_axis(a->axis, x->rank, &ax);
		dim[ax] = x->dim[ax];
	}
	s = op_reshape(g, op_cast(g, s, acc), dim, x->rank);
	return rlx_emit(g, max, .a = s, .b = op_const_like(g, s, 1e-12));
}

static double most(const struct rlx_op_fake_quantize_lsq *a)
{
	return (double)((1 << (a->bits - 1)) - 1);
}

static enum rlx_status fake_quantize_lsq_expand(struct rlx_expand *q)
{
	const struct rlx_op_fake_quantize_lsq *a = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type t = *q->out_type;
	enum rlx_dtype acc = op_acc_type(t.dtype);
	rlx_value s = step(g, a, &t, q->in[1], acc), z;

	z = rlx_emit(g, div, .a = op_cast(g, q->in[0], acc), .b = s);
	z = rlx_emit(g, min, .a = rlx_emit(g, round, .x = z), .b = op_const_like(g, z, most(a)));
	z = rlx_emit(g, max, .a = z, .b = op_const_like(g, z, -most(a)));
	q->out[0] = op_cast(g, rlx_emit(g, mul, .a = z, .b = s), t.dtype);
	return op_done(g);
}

static enum rlx_status fake_quantize_lsq_vjp(struct rlx_grad *q)
{
	const struct rlx_op_fake_quantize_lsq *a = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type t = op_type(g, q->in[0]);
	enum rlx_dtype acc = op_acc_type(t.dtype);
	rlx_value dy = op_cast(g, q->d_out[0], acc), s = step(g, a, &t, q->in[1], acc), z, psi, out;
	rlx_value inside;

	z = rlx_emit(g, div, .a = op_cast(g, q->in[0], acc), .b = s);
	inside = rlx_emit(g, le, .a = rlx_emit(g, abs, .x = z), .b = op_const_like(g, z, most(a)));
	q->d_in[0] = op_cast(g, rlx_emit(g, where, .cond = inside, .a = dy,
					 .b = op_const_like(g, dy, 0)), t.dtype);
	psi = rlx_emit(g, sub, .a = rlx_emit(g, round, .x = z), .b = z);
	out = op_mul_const(g, rlx_emit(g, sign, .x = z), most(a));
	psi = rlx_emit(g, where, .cond = inside, .a = psi, .b = out);
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
	a->per_axis = i;
	return true;
}

const struct rlx_op_impl rlx_op_fake_quantize_lsq_impl = {
	.infer = fake_quantize_lsq_infer, .expand = fake_quantize_lsq_expand,
	.vjp = fake_quantize_lsq_vjp, .sample = fake_quantize_lsq_sample,
};
