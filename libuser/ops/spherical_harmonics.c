// SPDX-License-Identifier: MIT
/* Colours that depend on where they are seen from. */
#include "ops/emit.h"

/*
 * Shapes:	directions[n, 3], coeffs[n, c, 3], c 1, 4, 9 or 16 -> y[n, 3]
 * Dtypes:	f64 f32 f16 bf16; y as coeffs
 * Does:	0.5 + the sum of real spherical harmonics of degree 0 to 3 (as many as there are
 *		coefficients) of the direction, which is divided by its length, times coefficients;
 *		computed in f32 or f64. Their signs are those of Kerbl et al.; colours below 0 stay.
 *		A direction of no length is NaN but for c = 1.
 * Gradient:	by those operations: to both
 * Source:	Kerbl et al. 2023 (3D Gaussian splatting)
 */
RLX_OP(spherical_harmonics, "0.5 + spherical harmonics of directions times coeffs[n, c, 3]",
	IN(directions) IN(coeffs),
	RLX_T_REDUCTION)

static enum rlx_status spherical_harmonics_infer(struct rlx_infer *q)
{
	const struct rlx_type *d = q->in[0], *c = q->in[1];
	enum rlx_status st = op_need_float(q, 0, false);

	st = st ? st : op_need_float(q, 1, false);
	st = st ? st : op_need_rank(q, 0, 2, 2);
	st = st ? st : op_need_rank(q, 1, 3, 3);
	if (st)
		return st;
	if (d->dim[1] != 3 || c->dim[2] != 3 || c->dim[0] != d->dim[0] ||
	    (c->dim[1] != 1 && c->dim[1] != 4 && c->dim[1] != 9 && c->dim[1] != 16))
		return op_fail(q, RLX_ESHAPE, "directions [n, 3] and coeffs [n, 1, 4, 9 or 16, 3] "
			       "are needed, not [%lld, %lld] and [%lld, %lld, %lld]",
			       (long long)d->dim[0], (long long)d->dim[1], (long long)c->dim[0],
			       (long long)c->dim[1], (long long)c->dim[2]);
	q->out[0] = rlx_type(c->dtype, c->dim[0], 3);
	return RLX_OK;
}

/* A term of a harmonic: factor x^i y^j z^k. */
struct term {
	double	factor;
	uint8_t	of, i, j, k;	/* of which harmonic */
};

static const struct term terms[] = {
	{ 0.28209479177387814, 0, 0, 0, 0 },
	{ -0.4886025119029199, 1, 0, 1, 0 }, { 0.4886025119029199, 2, 0, 0, 1 },
	{ -0.4886025119029199, 3, 1, 0, 0 },
	{ 1.0925484305920792, 4, 1, 1, 0 }, { -1.0925484305920792, 5, 0, 1, 1 },
	{ 0.6307831305050401, 6, 0, 0, 2 }, { -0.31539156525252005, 6, 2, 0, 0 },
	{ -0.31539156525252005, 6, 0, 2, 0 }, { -1.0925484305920792, 7, 1, 0, 1 },
	{ 0.5462742152960396, 8, 2, 0, 0 }, { -0.5462742152960396, 8, 0, 2, 0 },
	{ -1.7701307697799304, 9, 2, 1, 0 }, { 0.5900435899266435, 9, 0, 3, 0 },
	{ 2.890611442640554, 10, 1, 1, 1 },
	{ -1.8281831978578629, 11, 0, 1, 2 }, { 0.4570457994644657, 11, 2, 1, 0 },
	{ 0.4570457994644657, 11, 0, 3, 0 },
	{ 0.7463526651802308, 12, 0, 0, 3 }, { -1.1195289977703462, 12, 2, 0, 1 },
	{ -1.1195289977703462, 12, 0, 2, 1 },
	{ -1.8281831978578629, 13, 1, 0, 2 }, { 0.4570457994644657, 13, 3, 0, 0 },
	{ 0.4570457994644657, 13, 1, 2, 0 },
	{ 1.445305721320277, 14, 2, 0, 1 }, { -1.445305721320277, 14, 0, 2, 1 },
	{ -0.5900435899266435, 15, 3, 0, 0 }, { 1.7701307697799304, 15, 1, 2, 0 },
};

/* @v times @by so many times; @v without id is 1. */
static rlx_value times(struct rlx_graph *g, rlx_value v, rlx_value by, int n)
{
	for (; n; n--)
		v = v.id ? rlx_emit(g, mul, .a = v, .b = by) : by;
	return v;
}

static enum rlx_status spherical_harmonics_expand(struct rlx_expand *q)
{
	struct rlx_graph *g = q->g;
	struct rlx_type t = op_type(g, q->in[1]);
	enum rlx_dtype acc = op_acc_type(t.dtype);
	rlx_value d = op_cast(g, q->in[0], acc), axis[3], y[16] = { { 0 } }, v;
	struct rlx_type one = rlx_type(acc, t.dim[0], 1);
	uint32_t i;

	v = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = d, .b = d), .axes = RLX_INTS(1),
		     .keep_dims = true);
	d = rlx_emit(g, div, .a = d, .b = rlx_emit(g, sqrt, .x = v));
	for (i = 0; i < 3; i++)
		axis[i] = rlx_emit(g, slice, .x = d, .axes = RLX_INTS(1), .starts = RLX_INTS(i),
				   .ends = RLX_INTS(i + 1));
	for (i = 0; i < sizeof(terms) / sizeof(terms[0]) && terms[i].of < t.dim[1]; i++) {
		v = times(g, (rlx_value){ 0 }, axis[0], terms[i].i);
		v = times(g, times(g, v, axis[1], terms[i].j), axis[2], terms[i].k);
		v = v.id ? op_mul_const(g, v, terms[i].factor) : op_fill(g, &one, terms[i].factor);
		y[terms[i].of] = y[terms[i].of].id ?
			rlx_emit(g, add, .a = y[terms[i].of], .b = v) : v;
	}
	v = t.dim[1] == 1 ? y[0] : rlx_emit(g, concat, .axis = 1,
					    .xs = { y, (uint32_t)t.dim[1] });
	v = op_reshape(g, v, (int64_t[]){ t.dim[0], t.dim[1], 1 }, 3);
	v = rlx_emit(g, mul, .a = op_cast(g, q->in[1], acc), .b = v);
	v = rlx_emit(g, reduce, .x = v, .axes = RLX_INTS(1));
	q->out[0] = op_cast(g, op_add_const(g, v, 0.5), t.dtype);
	return op_done(g);
}

static bool spherical_harmonics_sample(unsigned int i, struct rlx_sample *s)
{
	static const int64_t count[] = { 1, 4, 9, 16, 4 };

	if (i > 4)
		return false;
	s->n_in = 2;
	s->in[0] = rlx_type(RLX_F32, i == 4 ? 0 : 7, 3);
	s->in[1] = rlx_type(RLX_F32, s->in[0].dim[0], count[i], 3);
	s->lo[0] = 0.25;	/* what is near 0 has no direction to speak of */
	s->hi[0] = 2;
	s->tol = 1e-5;
	return true;
}

const struct rlx_op_impl rlx_op_spherical_harmonics_impl = {
	.infer = spherical_harmonics_infer, .expand = spherical_harmonics_expand,
};
RLX_SAMPLES(spherical_harmonics, spherical_harmonics_sample)
