/* SPDX-License-Identifier: MIT */
/*
 * Vector elementary functions in double precision. The error bounds stated hold what was
 * seen against long double over each function's range, at every level; NaN gives NaN,
 * denormals count, and the ends of the range give what libm gives.
 *
 * Coefficients are Chebyshev fits made for this file, lowest power first. Functions that
 * others call are calls here, too: a few registers are cheaper than their code many times.
 */
#ifndef RLX_SIMD_MATH_F64_H
#define RLX_SIMD_MATH_F64_H

#include <math.h>

#include "kernels/simd/vec.h"

#define RLX_VD_FN	static __attribute__((noinline, unused)) vd

RLX_INLINE vd vd_abs(vd x) { return (vd)((vl)x & INT64_MAX); }
RLX_INLINE vd vd_copysign(vd mag, vd sgn)
{
	return (vd)(((vl)sgn & INT64_MIN) | ((vl)mag & INT64_MAX));
}

/* NaN stays. */
RLX_INLINE vd vd_most(vd x, double most)
{
	return vd_min(vd_set1(most), x);
}

RLX_INLINE vd vd_least(vd x, double least)
{
	return vd_max(vd_set1(least), x);
}

RLX_INLINE vd vd_from_low(vul n)
{
	return (vd)(n + (vul)vd_set1(RLX_VD_MAGIC)) - RLX_VD_MAGIC;
}

/* c[0] + c[1] x + ... of n coefficients */
RLX_INLINE vd vd_poly(vd x, const double *c, int n)
{
	vd p = vd_set1(c[n - 1]);

	RLX_UNROLL
	for (int i = n - 2; i >= 0; i--)
		p = vd_fma(p, x, vd_set1(c[i]));
	return p;
}
/* The same of even n by powers of x^2: two chains, half as long each. */
RLX_INLINE vd vd_poly_even(vd x, const double *c, int n)
{
	vd z = x * x, p = vd_set1(c[n - 2]), q = vd_set1(c[n - 1]);

	RLX_UNROLL
	for (int i = n - 4; i >= 0; i -= 2) {
		p = vd_fma(p, z, vd_set1(c[i]));
		q = vd_fma(q, z, vd_set1(c[i + 1]));
	}
	return vd_fma(q, x, p);
}
#define RLX_VD_POLY(x, c)	vd_poly((x), (c), (int)(sizeof(c) / sizeof(*(c))))

/* x + lo = n ln 2 + r, n times the high part of ln 2 being exact; e^r - 1, and n. */
static const double rlx_vd_exp[] = {
	0x1.0000000000000p-1, 0x1.5555555555557p-3, 0x1.5555555555556p-5,
	0x1.11111111100dcp-7, 0x1.6c16c16c162d4p-10, 0x1.a01a01abe7fe1p-13,
	0x1.a01a01a6d889cp-16, 0x1.71de0231960ebp-19, 0x1.27e4db646b17ep-22,
	0x1.af4de97ca4194p-26, 0x1.1f730349868cep-29,
};

RLX_INLINE vd vd_exp_part(vd x, vd lo, vd *n)
{
	vd t = x * 0x1.71547652b82fep+0 + RLX_VD_MAGIC, k = t - RLX_VD_MAGIC, r;

	*n = k;
	r = vd_fma(k, vd_set1(-0x1.62e42fee00000p-1), x);
	r = vd_fma(k, vd_set1(-0x1.a39ef35793c76p-33), r) + lo;
	return vd_fma(r * r, RLX_VD_POLY(r, rlx_vd_exp), r);
}

/* e^(x + lo), lo being what x lost to rounding; 1 ulp, denormal results included */
RLX_VD_FN vd_exp_lo(vd x, vd lo)
{
	vd p, n;

	x = vd_least(vd_most(x, 710), -746);
	p = vd_exp_part(x, lo, &n) + 1.0;
	return vd_scale2(p, n);
}

RLX_INLINE vd vd_exp(vd x) { return vd_exp_lo(x, vd_zero()); }

/* e^x - 1 for -50 <= x <= 700; 2 ulp */
RLX_VD_FN vd_expm1_mid(vd x)
{
	vd n, p = vd_exp_part(x, vd_zero(), &n), s = vd_scale2(vd_set1(1), n);

	return vd_fma(p, s, s - 1.0);
}

/* 2 ulp */
RLX_INLINE vd vd_expm1(vd x)
{
	vd y = vd_expm1_mid(vd_least(vd_most(x, 700), -50));

	y = vd_sel(x > 700, vd_exp(x), y);
	return vd_sel(vd_abs(x) < 0x1p-54, x, y);
}

/*
 * x = 2^e (1 + f), 1 + f from sqrt 1/2 to sqrt 2; with s = f / (2 + f) log(1 + f) is
 * 2 s + s^3 R(s^2), written so that f goes in last; 1 ulp
 */
static const double rlx_vd_log[] = {
	0x1.5555555555555p-1, 0x1.9999999999a38p-2, 0x1.2492492476c87p-2,
	0x1.c71c720160b47p-3, 0x1.745cf901605f7p-3, 0x1.3b1c360763b8ap-3,
	0x1.0fbe83c2cbcf3p-3, 0x1.0c04595972ab8p-3,
};

RLX_VD_FN vd_log(vd x)
{
	const vl den = x < 0x1p-1022;
	const vul root = (vul)vd_set1(0x1.6a09e667f3bcdp-1);
	const vd inf = vd_set1(INFINITY);
	vul b = (vul)vd_sel(den, x * 0x1p54, x) - root;
	vd e = vd_from_low(((b + (1ULL << 62)) >> 52) - 1024);
	vd f = (vd)((b & 0xfffffffffffff) + root) - 1.0, s = f / (f + 2.0), z = s * s, h, y;

	e += vd_sel(den, vd_set1(-54), vd_zero());
	h = f * f * 0.5;
	y = vd_fma(s, vd_fma(z, RLX_VD_POLY(z, rlx_vd_log), h), e * 0x1.a39ef35793c76p-33);
	y = vd_fma(e, vd_set1(0x1.62e42fee00000p-1), f - (h - y));
	y = vd_sel(x == inf, inf, y);
	y = vd_sel(x == 0, -inf, y);
	return vd_sel(x >= 0, y, vd_set1(NAN));
}

/* log(1 + x): what rounding 1 + x lost is put back; 2 ulp */
RLX_VD_FN vd_log1p(vd x)
{
	vd u = x + 1.0, y = vd_log(u) - ((u - 1.0) - x) / u;

	y = vd_sel(vd_abs(x) < 0x1p-54, x, y);
	y = vd_sel(u == 0, vd_set1(-INFINITY), y);
	return vd_sel(x == vd_set1(INFINITY), x, y);
}

/*
 * log(1 + e) for 0 <= e <= 1, of which e above sqrt 2 - 1 is taken as log 2 more than what
 * is half as large; 2 ulp
 */
RLX_INLINE vd vd_log1p_unit(vd e)
{
	const vl high = e > 0x1.a827999fcef32p-2;
	vd f = vd_sel(high, e * 0.5 - 0.5, e), s = f / (f + 2.0), z = s * s, h = f * f * 0.5, y;

	y = vd_fma(s, vd_fma(z, RLX_VD_POLY(z, rlx_vd_log), h),
		   vd_sel(high, vd_set1(0x1.a39ef35793c76p-33), vd_zero()));
	return vd_sel(high, vd_set1(0x1.62e42fee00000p-1), vd_zero()) + (f - (h - y));
}

/* max(x, 0) + log(1 + e^-|x|); 2 ulp */
RLX_VD_FN vd_softplus(vd x)
{
	return vd_least(x, 0) + vd_log1p_unit(vd_exp(-vd_abs(x)));
}

/* t / (t + 2) with t = e^2|x| - 1 loses nothing near 0; 3 ulp */
RLX_VD_FN vd_tanh(vd x)
{
	vd a = vd_most(vd_abs(x), 22), t = vd_expm1_mid(a + a);

	return vd_sel(a < 0x1p-28, x, vd_copysign(t / (t + 2.0), x));
}

/* 1 / (1 + e^-x), never through an overflow, so that tiny results stay; 3 ulp */
RLX_INLINE vd vd_sigmoid(vd x)
{
	vd e = vd_exp(-vd_abs(x));

	return vd_sel(x < 0, e, vd_set1(1)) / (e + 1.0);
}

/* x / (1 + |x|), +-1 at infinity */
RLX_INLINE vd vd_softsign(vd x)
{
	vd a = vd_most(vd_abs(x), 1e300);

	return vd_copysign(a / (a + 1.0), x);
}

/*
 * erfc(a) for 0 <= a: e^(-a^2) / (1 + 2 a) times what varies little in (a - 4) / (a + 4).
 * a^2 goes in two parts, the first exact; 2 ulp
 */
static const double rlx_vd_erfc[24] = {
	0x1.3ba5916e9fd7fp+0, -0x1.1df1ad154a28fp-3, 0x1.f7f5df66fd6a7p-7,
	0x1.16ecefcfa540ep-4, -0x1.9ddb23c3e8874p-4, 0x1.7fee004e112c3p-4,
	-0x1.0fb06dfe56142p-4, 0x1.3079edf6aa5a8p-5, -0x1.096238828c1cbp-6,
	0x1.49c6727af5d87p-8, -0x1.8d4a9c3d62797p-11, -0x1.a1df1e2a70512p-13,
	0x1.3be068698b9ccp-13, -0x1.9959f4cc5a01cp-16, -0x1.788ca4d342b82p-17,
	0x1.7f2d5af276b00p-18, 0x1.3b713b970cad2p-22, -0x1.bb2bbabb02ec5p-21,
	0x1.40eafd5947706p-24, 0x1.d8b4353ca5555p-24, -0x1.353a87be1712dp-26,
	-0x1.e432644b5660ap-27, 0x1.00cd8e2f991c3p-29, 0x1.5b62d008c2d94p-30,
};

RLX_VD_FN vd_erfc_pos(vd a)
{
	vd hi, p, e;

	a = vd_most(a, 28);
	hi = (vd)((vl)a & ~0x7ffffffLL);
	e = vd_exp_lo(-hi * hi, (hi - a) * (hi + a));
	p = vd_poly_even((a - 4.0) / (a + 4.0), rlx_vd_erfc, 24);
	return p / vd_fma(a, vd_set1(2), vd_set1(1)) * e;
}

/* x + x P(x^2) below 3/4; 2 ulp */
static const double rlx_vd_erf[] = {
	0x1.06eba8214db69p-3, -0x1.812746b0379e0p-2, 0x1.ce2f21a0424c3p-4,
	-0x1.b82ce31257412p-6, 0x1.565bcd03657c0p-8, -0x1.c02db1220cfe6p-11,
	0x1.f9a2afa3a8f86p-14, -0x1.f4c5debf1228ap-17, 0x1.b90ecd4aeec12p-20,
	-0x1.564f71bbc0d35p-23, 0x1.8a312cb07e6ccp-27,
};

RLX_VD_FN vd_erf(vd x)
{
	vd a = vd_abs(x), z = vd_most(a * a, 1);
	vd y = vd_fma(x, RLX_VD_POLY(z, rlx_vd_erf), x);

	return vd_sel(a < 0.75, y, vd_copysign(1.0 - vd_erfc_pos(a), x));
}

RLX_INLINE vd vd_erfc(vd x)
{
	vd y = vd_erfc_pos(vd_abs(x));

	return vd_sel(x < 0, 2.0 - y, y);
}

/*
 * x = n pi/2 + r, pi/2 in three parts, of which two have products that are exact up to |x| of
 * 2^20, and what r loses to rounding is put back; beyond, libm, lane by lane: what a lane
 * becomes hangs on its own x alone, as in math.h.
 */
static const double rlx_vd_sin[] = {
	-0x1.5555555555555p-3, 0x1.1111111110ba5p-7, -0x1.a01a019e80693p-13,
	0x1.71de379252004p-19, -0x1.ae60069e53ef1p-26, 0x1.5e098556d302ep-33,
};
static const double rlx_vd_cos[] = {
	0x1.5555555555555p-5, -0x1.6c16c16c16960p-10, 0x1.a01a019f4d0edp-16,
	-0x1.27e4fa15bd814p-22, 0x1.1eeb66b683028p-29, -0x1.907c0e63adbb6p-37,
};

RLX_INLINE vd vd_trig(vd x, int shift)
{
	vd t = x * 0x1.45f306dc9c883p-1 + RLX_VD_MAGIC, n = t - RLX_VD_MAGIC;
	vd near, hi, lo, r, z, s, c, h, w;
	vul q = vd_low_bits(t) + (uint64_t)shift;

	near = vd_fma(n, vd_set1(-0x1.921fb54400000p+0), x);
	hi = vd_fma(n, vd_set1(-0x1.0b4611a600000p-34), near);
	lo = vd_fma(n, vd_set1(-0x1.0b4611a600000p-34), near - hi);
	lo = vd_fma(n, vd_set1(-0x1.3198a2e037073p-69), lo);
	r = hi + lo;
	lo += hi - r;
	z = r * r;
	h = z * 0.5;
	w = 1.0 - h;
	s = r + vd_fma(z * RLX_VD_POLY(z, rlx_vd_sin), r, lo * w);
	c = w + vd_fma(z * z, RLX_VD_POLY(z, rlx_vd_cos), ((1.0 - w) - h) - r * lo);
	s = vd_sel((q & 1) == 0, s, c);
	return (vd)((vul)s ^ ((q & 2) << 62));
}

#define RLX_VD_TRIG(name, libm, shift)					\
RLX_VD_FN name(vd x)							\
{									\
	vl far = ~(vl)(vd_abs(x) <= 0x1p20);				\
	vd y = vd_trig(x, shift);					\
									\
	for (size_t i = 0; i < RLX_VLD; i++)				\
		if (far[i])						\
			y[i] = libm(x[i]);				\
	return y;							\
}
/* 1 ulp */
RLX_VD_TRIG(vd_cos, cos, 1)
RLX_VD_TRIG(vd_sin_any, sin, 0)
RLX_INLINE vd vd_sin(vd x)
{
	return vd_sel(vd_abs(x) < 0x1p-27, x, vd_sin_any(x));	/* -0, too */
}

#endif
