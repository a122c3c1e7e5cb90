/* SPDX-License-Identifier: MIT */
/*
 * What pointwise ops do to floats: a row each, for the CPU's vectors, and for GPUs, which compile
 * them for one number (kernels/gpu/vec.h), so that strict bits are the same ones. The others are
 * libm's: kernels/cpu/ew_f32.c.
 */
#ifndef RLX_SIMD_EW_ROWS_H
#define RLX_SIMD_EW_ROWS_H

#include "kernels/simd/math.h"

RLX_INLINE vf truth(vm m)
{
	return vf_sel(m, vf_set1(1.0f), vf_zero());
}

RLX_INLINE vm isset(vf x)
{
	return vf_ne(x, vf_zero());
}

RLX_INLINE vf sign_of(vf x)
{
	vf one = vf_copysign(vf_set1(1.0f), x);

	return vf_sel(vm_or(vf_lt(x, vf_zero()), vf_gt(x, vf_zero())), one, x);
}

RLX_INLINE vf softplus_of(vf x)
{
	return vf_max(vf_zero(), x) + vf_log1p(vf_exp(-vf_abs(x)));
}

/*
 * tanh(log(1 + e)) = ((1 + e)^2 - 1) / ((1 + e)^2 + 1), e = exp x, up to where it is 1;
 * -inf times its 0 is to be 0.
 */
RLX_INLINE vf mish_of(vf x)
{
	vf e = vf_exp(vf_min(vf_set1(20.0f), x));
	vf t = vf_fma(e, e, e + e);

	return vf_max(vf_set1(-1e30f), x) * (t / (t + 2.0f));
}

RLX_INLINE vf clip01(vf x)
{
	return vf_min(vf_set1(1.0f), vf_max(vf_zero(), x));
}

/* x to one of the powers that need no powf. */
RLX_INLINE vf pow_simple(vf x, float y)
{
	const vf inf = vf_set1(INFINITY);
	vf r;

	if (y == 1.0f)
		return x;
	if (y == 2.0f)
		return x * x;
	if (y == 3.0f)
		return x * x * x;
	if (y == -1.0f)
		return 1.0f / x;
	/* unlike sqrt: +0 of -0, inf of -inf */
	r = vf_sel(vf_eq(x, -inf), inf, vf_sqrt(x) + 0.0f);
	return y == 0.5f ? r : 1.0f / r;
}

/* fmod is exact; only where the signs differ is the divisor added. */
RLX_INLINE float mod_floor(float x, float y)
{
	float r = fmodf(x, y);

	if (r != 0 && (r < 0) != (y < 0))
		return r + y;
	return r == 0 ? vf_lane0(vf_copysign(vf_zero(), vf_set1(y))) : r;
}

/* UN(op, of x), BIN(op, of x and y), TER(op, of x, y and z): ops of kernels/ew.h */
/* clang-format off */
#define RLX_EW_F32_ROWS(UN, BIN, TER)					\
	UN(copy, x)							\
	UN(neg, -x)							\
	UN(abs, vf_abs(x))						\
	UN(sign, sign_of(x))						\
	UN(not_, truth(vf_eq(x, vf_zero())))				\
	UN(exp, vf_exp(x))						\
	UN(log, vf_log(x))						\
	UN(sqrt, vf_sqrt(x))						\
	UN(rsqrt, 1.0f / vf_sqrt(x))					\
	UN(recip, 1.0f / x)						\
	UN(sin, vf_sin(x))						\
	UN(cos, vf_cos(x))						\
	UN(tanh, vf_tanh(x))						\
	UN(sigmoid, vf_sigmoid(x))					\
	UN(silu, vf_silu(x))						\
	UN(gelu, vf_gelu_erf(x))					\
	UN(gelu_tanh, vf_gelu_tanh(x))					\
	UN(relu, vf_max(vf_zero(), x))					\
	UN(erf, vf_erf(x))						\
	UN(ceil, vf_ceil(x))						\
	UN(floor, vf_floor(x))						\
	UN(round, vf_round(x))						\
	UN(trunc, vf_trunc(x))						\
	UN(softplus, softplus_of(x))					\
	UN(softsign, vf_softsign(x))					\
	UN(mish, mish_of(x))						\
	UN(hard_sigmoid, clip01(x * 0.2f + 0.5f))			\
	UN(hard_swish, vf_hard_swish(x))				\
	UN(is_nan, truth(vf_isnan(x)))					\
	UN(is_inf, truth(vf_eq(vf_abs(x), vf_set1(INFINITY))))		\
	UN(expm1, vf_expm1(x))						\
	UN(log1p, vf_log1p(x))						\
	BIN(add, x + y)							\
	BIN(sub, x - y)							\
	BIN(mul, x * y)							\
	BIN(div, x / y)							\
	BIN(max, vf_max_nan(x, y))					\
	BIN(min, vf_min_nan(x, y))					\
	BIN(eq, truth(vf_eq(x, y)))					\
	BIN(ne, truth(vf_ne(x, y)))					\
	BIN(lt, truth(vf_lt(x, y)))					\
	BIN(le, truth(vf_le(x, y)))					\
	BIN(gt, truth(vf_gt(x, y)))					\
	BIN(ge, truth(vf_ge(x, y)))					\
	BIN(and_, truth(vm_and(isset(x), isset(y))))			\
	BIN(or_, truth(vm_or(isset(x), isset(y))))			\
	BIN(xor_, truth(vf_ne(truth(isset(x)), truth(isset(y)))))	\
	BIN(leaky, vf_sel(vf_ge(x, vf_zero()), x, x * y))		\
	TER(where, vf_sel(isset(x), y, z))				\
	TER(fma, vf_fma(x, y, z))
/* clang-format on */

#endif
