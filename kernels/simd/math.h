/* SPDX-License-Identifier: MIT */
/*
 * Vector elementary functions in single precision. The error bounds stated are
 * the largest seen against double over each function's range, at every level;
 * NaN gives NaN, and the ends of the range give what libm gives.
 *
 * Coefficients are minimax fits made for this file (Lawson's iteration on the
 * error each function cares about, each coefficient rounded before the next
 * is fitted).
 *
 * GPUs compile the same source for strict bits, so that bits of a vector are seen otherwise by
 * functions alone.
 */
#ifndef RLX_SIMD_MATH_H
#define RLX_SIMD_MATH_H

#ifdef DEV	/* device code, where a vector has one lane: kernels/gpu/dialect.h came first */
#include "kernels/gpu/vec.h"
#else
#include <math.h>

#include "kernels/simd/vec.h"
#endif

/* fma with a constant addend: Horner's step */
#define RLX_H(p, x, c)	vf_fma((p), (x), vf_set1(c))

/* x 2^n for a whole n within [-126, 127] */
RLX_INLINE vf vf_scale2_normal(vf x, vf n)
{
#if defined(RLX_V512)
	return vf_scale2(x, n);
#else
	return x * vf_from_bits((vi_trunc(n) + 127) << 23);
#endif
}

/*
 * 2^r for |r| <= 1/2. Terms in pairs: a shorter chain than Horner's, so that more vectors
 * overlap.
 */
RLX_INLINE vf vf_exp2_frac(vf r)
{
	vf r2 = r * r, p, q;

	p = RLX_H(vf_set1(0x1.417284p-13f), r, 0x1.5f0976p-10f);
	q = RLX_H(vf_set1(0x1.3b2ddap-7f), r, 0x1.c6af7ap-5f);
	p = vf_fma(p, r2, q);
	q = RLX_H(vf_set1(0x1.ebfbdcp-3f), r, 0x1.62e430p-1f);
	p = vf_fma(p, r2, q);
	return RLX_H(p, r, 1.0f);
}

/* 2^z for z <= 1; below -150 it is 0. Relative error 2^-23. */
RLX_INLINE vf vf_exp2_neg(vf z)
{
	vf n;

	z = vf_max(vf_set1(-151.0f), z);
	n = vf_round(z);
	return vf_scale2(vf_exp2_frac(z - n), n);
}

/* 2^z; below -150 it is 0, from 128 on infinity */
RLX_INLINE vf vf_exp2(vf z)
{
	return vf_exp2_neg(vf_min(vf_set1(129.0f), z));
}

/* x = n ln 2 + r; the high part has few bits, so that n times it is exact. */
RLX_INLINE vf vf_exp_reduce(vf x, vf *n)
{
	*n = vf_round(x * 0x1.715476p0f);
	x = vf_fnma(*n, vf_set1(0x1.62e4p-1f), x);
	return vf_fnma(*n, vf_set1(0x1.7f7d1cp-20f), x);
}

/* e^x for x <= 89.5, or 0 where x < @least: 1 ulp; denormal results included */
RLX_INLINE vf vf_exp_above(vf x, const float least)
{
	vf n, r = vf_exp_reduce(vf_max(vf_set1(-105.0f), x), &n), p;

	p = RLX_H(vf_set1(0x1.6a4d6ep-10f), r, 0x1.123e58p-7f);
	p = RLX_H(p, r, 0x1.5558b8p-5f);
	p = RLX_H(p, r, 0x1.55548cp-3f);
	p = RLX_H(p, r, 0x1.fffffcp-2f);
	p = vf_fma(p * r, r, r) + 1.0f;
	if (least > -1e30f)
		p = vf_sel(vf_lt(x, vf_set1(least)), vf_zero(), p);
	return vf_scale2(p, n);
}

RLX_INLINE vf vf_exp_neg(vf x)
{
	return vf_exp_above(x, -1e30f);
}

/*
 * The same for x of which many may be below -104, whose power is 0: where a mask or a decay
 * asks for those, each underflow would take processors some hundred cycles.
 */
RLX_INLINE vf vf_exp_weight(vf x)
{
	return vf_exp_above(x, -104.0f);
}

/* 1 ulp; denormal results included */
RLX_INLINE vf vf_exp(vf x)
{
	return vf_exp_weight(vf_min(vf_set1(89.5f), x));
}

/* e^x - 1 for |x| < 88; 2 ulp */
RLX_INLINE vf vf_expm1_mid(vf x)
{
	vf n, r, p, s;

	r = vf_exp_reduce(x, &n);
	p = RLX_H(vf_set1(0x1.6ba49ap-10f), r, 0x1.122a72p-7f);
	p = RLX_H(p, r, 0x1.5556f0p-5f);
	p = RLX_H(p, r, 0x1.5554aep-3f);
	p = RLX_H(p, r, 0x1.fffffep-2f);
	p = vf_fma(p * r, r, r);
	s = vf_from_bits((vi_trunc(n) + 127) << 23);
	return vf_fma(p, s, s - 1.0f);
}

/* 2 ulp */
RLX_INLINE vf vf_expm1(vf x)
{
	vf lo = vf_max(vf_set1(-87.0f), x);
	vf y = vf_expm1_mid(vf_min(vf_set1(87.0f), lo));

	y = vf_sel(vf_gt(x, vf_set1(87.0f)), vf_exp(x), y);
	return vf_sel(vf_lt(vf_abs(x), vf_set1(0x1p-25f)), x, y);
}

/* log of the mantissa in [sqrt 1/2, sqrt 2), then e ln 2 in two parts; 1 ulp */
RLX_INLINE vf vf_log(vf x)
{
	const vf inf = vf_set1(INFINITY);
	vm den = vf_lt(x, vf_set1(0x1p-126f));
	vf m = vf_sel(den, x * 0x1p24f, x);
	vi b = (vi)((vu)vf_bits(m) - 0x3f3504f3);
	vf e = vf_from_vi(b >> 23) + vf_sel(den, vf_set1(-24.0f), vf_zero());
	vf f = vf_from_bits((b & 0x7fffff) + 0x3f3504f3) - 1.0f;
	vf f2 = f * f, p, y;

	p = RLX_H(vf_set1(0x1.147610p-4f), f, -0x1.de02bep-4f);
	p = RLX_H(p, f, 0x1.e6bf3ap-4f);
	p = RLX_H(p, f, -0x1.fc2886p-4f);
	p = RLX_H(p, f, 0x1.233ba8p-3f);
	p = RLX_H(p, f, -0x1.555c46p-3f);
	p = RLX_H(p, f, 0x1.99a476p-3f);
	p = RLX_H(p, f, -0x1.000006p-2f);
	p = RLX_H(p, f, 0x1.555548p-2f);
	y = vf_fma(p * f, f2, e * 0x1.7f7d1cp-20f);
	y = vf_fma(vf_set1(-0.5f), f2, y) + f;
	y = vf_fma(e, vf_set1(0x1.62e4p-1f), y);
	y = vf_sel(vf_eq(x, inf), inf, y);
	y = vf_sel(vf_eq(x, vf_zero()), -inf, y);
	return vf_sel(vf_ge(x, vf_zero()), y, vf_set1(NAN));
}

/* of one number, the same bits as a lane's */
RLX_INLINE float vf_exp1(float x) { return vf_lane0(vf_exp(vf_set1(x))); }
RLX_INLINE float vf_log1(float x) { return vf_lane0(vf_log(vf_set1(x))); }

/* log(1 + x): what rounding 1 + x lost is put back; 2 ulp */
RLX_INLINE vf vf_log1p(vf x)
{
	vf u = x + 1.0f;
	vf y = vf_log(u) - ((u - 1.0f) - x) / u;

	y = vf_sel(vf_lt(vf_abs(x), vf_set1(0x1p-25f)), x, y);
	y = vf_sel(vf_eq(u, vf_zero()), vf_set1(-INFINITY), y);
	return vf_sel(vf_eq(x, vf_set1(INFINITY)), x, y);
}

/* t / (t + 2) with t = e^2|x| - 1 loses nothing near 0; 2 ulp */
RLX_INLINE vf vf_tanh(vf x)
{
	vf a = vf_min(vf_set1(10.0f), vf_abs(x));
	vf t = vf_expm1_mid(a + a);
	vf y = vf_copysign(t / (t + 2.0f), x);

	y = vf_sel(vf_lt(a, vf_set1(0x1p-13f)), x, y);
	return vf_sel(vf_isnan(x), x, y);
}

/* 2 ulp; never through an overflow, so that tiny results stay */
RLX_INLINE vf vf_sigmoid(vf x)
{
	vf e = vf_exp_neg(-vf_abs(x));

	return vf_sel(vf_lt(x, vf_zero()), e, vf_set1(1.0f)) / (e + 1.0f);
}

/* erf = 1 - e^P with P = log(erfc |x|), of which P / |x| is smooth; 3 ulp */
RLX_INLINE vf vf_erf(vf x)
{
	vf t = vf_min(vf_set1(4.0f), vf_abs(x)), p;

	p = RLX_H(vf_set1(0x1.3b0250p-17f), t, -0x1.f28ab2p-14f);
	p = RLX_H(p, t, 0x1.4e2994p-11f);
	p = RLX_H(p, t, -0x1.b744ccp-10f);
	p = RLX_H(p, t, 0x1.637a12p-13f);
	p = RLX_H(p, t, 0x1.39b7cap-6f);
	p = RLX_H(p, t, -0x1.a4f8c4p-4f);
	p = RLX_H(p, t, -0x1.45f300p-1f);
	p = RLX_H(p, t, -0x1.06eba8p-3f);
	p = vf_fma(p, t, -t);
	return vf_sel(vf_isnan(x), x, vf_copysign(-vf_expm1_mid(p), x));
}

/*
 * The normal distribution's Phi(-u) = 2^P(u) for u >= 0: right to 1e-8 of 1 and
 * rounding; beyond u = 5 it falls faster than it should, from 3e-7 to 0. The
 * gelu built on such powers is right to 1.2e-7 of max(1, |x|), and to 4 ulp for
 * x > -1; its small negative tail has fewer good digits, as has silu's: 1e-5.
 */
RLX_INLINE vf vf_phi_neg(vf u)
{
	vf u2 = u * u, p, q;

	p = RLX_H(vf_set1(-0x1.7d7648p-19f), u, 0x1.4b0acap-15f);
	q = RLX_H(vf_set1(-0x1.874d02p-13f), u, -0x1.1d1a74p-13f);
	p = vf_fma(p, u2, q);
	q = RLX_H(vf_set1(0x1.ced284p-8f), u, -0x1.ae0a82p-5f);
	p = vf_fma(p, u2, q);
	q = RLX_H(vf_set1(-0x1.d63ac2p-2f), u, -0x1.26aed4p+0f);
	p = vf_fma(p, u2, q);
	return vf_exp2_neg(RLX_H(p, u, -1.0f));
}

/* x Phi(x) = x (1 + erf(x / sqrt 2)) / 2, as max(x, 0) - |x| Phi(-|x|) */
RLX_INLINE vf vf_gelu_erf(vf x)
{
	/* beyond 16 Phi is 0, and what is infinite times 0 is not a number */
	vf u = vf_min(vf_set1(16.0f), vf_abs(x));

	return vf_fnma(u, vf_phi_neg(u), vf_max(vf_zero(), x));
}

/*
 * x / (1 + e^-x): from 22 on it is x, from -111 down 0, as at -inf. What is below 2^-64 of x
 * is scaled behind the quotient, so that tiny results stay, and are rounded once.
 */
RLX_INLINE vf vf_silu(vf x)
{
	vf y = vf_max(vf_set1(-128.0f), x), u = vf_min(vf_set1(22.0f), y);
	vf n = vf_round(u * 0x1.715476p0f);
	vf r = vf_fma(u, vf_set1(0x1.715476p0f), -n);
	vf m = vf_max(vf_set1(-64.0f), n);
	vf t = vf_scale2_normal(vf_exp2_frac(-r), -m);

	return vf_scale2_normal(y / (t + 1.0f), n - m);
}

/*
 * x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, tanh through 2^z; -inf / inf is to be
 * the limit, 0
 */
RLX_INLINE vf vf_gelu_tanh(vf x)
{
	vf z = vf_fma(x * x, vf_set1(0.10294324f), vf_set1(2.3022082f));

	return vf_max(vf_set1(-1e30f), x) / (vf_exp2(-(x * z)) + 1.0f);
}

/* x clip(x / 6 + 1 / 2, 0, 1) */
RLX_INLINE vf vf_hard_swish(vf x)
{
	vf t = vf_fma(x, vf_set1(1.0f / 6.0f), vf_set1(0.5f));

	/* from -3 down it is 0, at -inf as well */
	x = vf_max(vf_set1(-3.0f), x);
	return x * vf_min(vf_set1(1.0f), vf_max(vf_zero(), t));
}

/* x / (1 + |x|), +-1 at infinity */
RLX_INLINE vf vf_softsign(vf x)
{
	vf a = vf_min(vf_set1(1e30f), vf_abs(x));

	return vf_copysign(a / (a + 1.0f), x);
}

/*
 * x = n pi/2 + r with pi/2 in four parts, the first three short enough for
 * their products to be exact up to |x| of 8192; beyond, lane by lane by as many bits of 2 / pi
 * as it takes: what a lane becomes hangs on its own x alone, not on where in a vector or beside
 * what it lies.
 */
RLX_INLINE vf vf_trig_reduce(vf x, vi *quadrant)
{
	vf n = vf_round(x * 0x1.45f306p-1f);

	*quadrant = vi_trunc(n);
	x = vf_fnma(n, vf_set1(0x1.92p0f), x);
	x = vf_fnma(n, vf_set1(0x1.fb4p-12f), x);
	x = vf_fnma(n, vf_set1(0x1.444p-24f), x);
	return vf_fnma(n, vf_set1(0x1.68c234p-39f), x);
}

/*
 * The same of one number beyond 8192: bits of x and of 2 / pi are multiplied as whole numbers, of
 * which what is below four quadrants counts. NaN of what is not finite. M. Payne and R. Hanek,
 * "Radian Reduction for Trigonometric Functions" (1983).
 */
RLX_INLINE float trig_reduce_large(float x, int32_t *quadrant)
{
	const uint32_t pi[8] = { 0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599,
				 0x3c439041, 0xfe5163ab };
	uint32_t u, m, at, bit, w[3], i;
	uint64_t turn;
	float r;

	memcpy(&u, &x, 4);
	*quadrant = 0;
	if ((u >> 23 & 0xff) == 0xff)
		return x - x;
	m = (u & 0x7fffff) | 0x800000;
	at = (u >> 23 & 0xff) - 120;	/* the first bit that counts: two ahead of the point's */
	bit = at % 32;
	for (i = 0; i < 3; i++)
		w[i] = pi[at / 32 + i] << bit |
		       (bit ? pi[at / 32 + i + 1] >> (32 - bit) : 0);
	turn = ((uint64_t)(m * w[0]) << 32) + (uint64_t)m * w[1] + ((uint64_t)m * w[2] >> 32);
	*quadrant = (int32_t)((turn + (1ull << 61)) >> 62);
	turn -= (uint64_t)*quadrant << 62;
	r = (float)((double)(int64_t)turn * 0x1.921fb54442d18p-62);
	if (!(u >> 31))
		return r;
	*quadrant = -*quadrant;
	return -r;
}

RLX_INLINE vf vf_trig_poly(vf r, vi q)
{
	vf z = r * r, s, c;
	vi odd = q & 1;

	s = RLX_H(vf_set1(-0x1.991e08p-13f), z, 0x1.1106cap-7f);
	s = RLX_H(s, z, -0x1.555544p-3f);
	s = vf_fma(s * z, r, r);
	c = RLX_H(vf_set1(0x1.99de6ep-16f), z, -0x1.6c0c14p-10f);
	c = RLX_H(c, z, 0x1.55554ap-5f);
	c = vf_fma(c * z, z, vf_fma(z, vf_set1(-0.5f), vf_set1(1.0f)));
	s = vf_sel(vi_eq(odd, vi_zero()), s, c);
	return vf_from_bits(vf_bits(s) ^ ((q & 2) << 30));
}

#ifdef DEV
RLX_INLINE void vf_trig_large(vf x, vf *r, vi *q)
{
	*r = trig_reduce_large(x, q);
}
#else
static __attribute__((noinline, unused)) void vf_trig_large(vf x, vf *r, vi *q)
{
	for (size_t i = 0; i < RLX_VL; i++) {
		int32_t quadrant;
		float rest;

		if (__builtin_fabsf(x[i]) <= 8192.0f)
			continue;
		rest = trig_reduce_large(x[i], &quadrant);
		(*r)[i] = rest;
		(*q)[i] = quadrant;
	}
}
#endif

#define RLX_V_TRIG(name, shift)						\
RLX_INLINE vf name(vf x)						\
{									\
	vi q;								\
	vf r = vf_trig_reduce(x, &q);					\
									\
	if (!vm_all(vf_le(vf_abs(x), vf_set1(8192.0f))))		\
		vf_trig_large(x, &r, &q);				\
	return vf_trig_poly(r, q + (shift));				\
}
/* 2 ulp */
RLX_V_TRIG(vf_sin, 0)
RLX_V_TRIG(vf_cos, 1)

#endif
