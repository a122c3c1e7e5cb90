// SPDX-License-Identifier: MIT
/* Steps of elementwise programs on doubles; rarer functions are libm's. */
#include <math.h>

#include "kernels/cpu/ew_step.h"
#include "kernels/simd/math_f64.h"

#define UN(name, expr)	RLX_EW_UN(name, vd, vd_u, expr)
#define BIN(name, expr)	RLX_EW_BIN(name, vd, vd_u, expr)
#define L1(name, expr)	RLX_EW_LANES1(name, double, expr)
#define L2(name, expr)	RLX_EW_LANES2(name, double, expr)

#define ONE		((vl)((vd){0} + 1.0))
#define BOOL(m)		((vd)((vl)(m) & ONE))
#define SEL(m, a, b)	vd_sel((m), (a), (b))

static double mod_floor(double x, double y)
{
	double r = fmod(x, y);

	if (r != 0 && (r < 0) != (y < 0))
		return r + y;
	return r == 0 ? copysign(0.0, y) : r;
}

RLX_INLINE vd clip01(vd x)
{
	return vd_most(vd_least(x, 0), 1);
}

/* x, but finite below 0: what these are times 0 at -inf is their limit, 0 */
RLX_INLINE vd vd_above(vd x)
{
	return vd_least(x, -1e100);
}

/* tanh(log(1 + e)) = ((1 + e)^2 - 1) / ((1 + e)^2 + 1), e = exp x, up to where it is 1 */
RLX_INLINE vd mish_of(vd x)
{
	vd e = vd_exp(vd_most(x, 40)), t = vd_fma(e, e, e + e);

	return vd_above(x) * (t / (t + 2.0));
}

RLX_INLINE vd gelu_tanh_of(vd x)
{
	return vd_above(x) / (vd_exp(-1.59576912160573071176 *
				     (x + 0.044715 * x * x * x)) + 1.0);
}

/* Of lanes for which a level may have an instruction: by vectors then. */
#define LANES(name, fn)							\
RLX_INLINE vd name(vd x)						\
{									\
	RLX_UNROLL							\
	for (size_t i = 0; i < RLX_VLD; i++)				\
		x[i] = fn(x[i]);					\
	return x;							\
}
LANES(sqrt_of, __builtin_sqrt)
LANES(floor_of, __builtin_floor)
LANES(ceil_of, __builtin_ceil)
LANES(round_of, __builtin_nearbyint)
LANES(trunc_of, __builtin_trunc)

RLX_EW_CAST(cast, RLX_EW_F64, double)

UN(copy, x)
UN(neg, -x)
UN(abs_, (vd)((vl)x & INT64_MAX))
UN(sign, SEL(x == x, BOOL(x > 0) - BOOL(x < 0), x))
UN(not_, BOOL(x == 0))
UN(relu, SEL(x < 0, (vd){ 0 }, x))
UN(recip, 1.0 / x)
UN(is_nan, BOOL(x != x))
UN(is_inf, BOOL((vd)((vl)x & INT64_MAX) == HUGE_VAL))
UN(exp_, vd_exp(x))
L1(exp2_, exp2(x))
UN(expm1_, vd_expm1(x))
UN(log_, vd_log(x))
L1(log2_, log2(x))
UN(log1p_, vd_log1p(x))
UN(sqrt_, sqrt_of(x))
UN(rsqrt, 1.0 / sqrt_of(x))
UN(sin_, vd_sin(x))
UN(cos_, vd_cos(x))
L1(tan_, tan(x))
L1(asin_, asin(x))
L1(acos_, acos(x))
L1(atan_, atan(x))
L1(sinh_, sinh(x))
L1(cosh_, cosh(x))
UN(tanh_, vd_tanh(x))
L1(asinh_, asinh(x))
L1(acosh_, acosh(x))
L1(atanh_, atanh(x))
UN(sigmoid, vd_sigmoid(x))
UN(softsign, vd_softsign(x))
UN(silu, vd_above(x) * vd_sigmoid(x))
UN(gelu, 0.5 * vd_above(x) * vd_erfc(-x * 0.70710678118654752440))
UN(gelu_tanh, gelu_tanh_of(x))
UN(erf_, vd_erf(x))
UN(ceil_, ceil_of(x))
UN(floor_, floor_of(x))
UN(round_, round_of(x))
UN(trunc_, trunc_of(x))
UN(softplus, vd_softplus(x))
UN(mish, mish_of(x))
UN(hard_sigmoid, clip01(0.2 * x + 0.5))
UN(hard_swish, vd_above(x) * clip01(x / 6.0 + 0.5))
BIN(add, x + y)
BIN(sub, x - y)
BIN(mul, x * y)
BIN(div_, x / y)
BIN(max, SEL((x > y) | (x != x), x, y))
BIN(min, SEL((x < y) | (x != x), x, y))
L2(pow_, pow(x, y))
L2(mod, mod_floor(x, y))
L2(fmod_, fmod(x, y))
L2(atan2_, atan2(x, y))
BIN(eq, BOOL(x == y))
BIN(ne, BOOL(x != y))
BIN(lt, BOOL(x < y))
BIN(le, BOOL(x <= y))
BIN(gt, BOOL(x > y))
BIN(ge, BOOL(x >= y))
BIN(and_, BOOL((x != 0) & (y != 0)))
BIN(or_, BOOL((x != 0) | (y != 0)))
BIN(xor_, BOOL((x != 0) ^ (y != 0)))
BIN(leaky, SEL(x >= 0, x, x * y))
RLX_EW_TER(where, vd, vd_u, SEL(x != 0, y, z))
RLX_EW_TER(fma_, vd, vd_u, vd_fma(x, y, z))

/* clang-format off */
rlx_ew_step_fn *const RLX_K(ew_f64_steps)[RLX_EW_OP_COUNT] = {
	[RLX_EW_copy] = copy, [RLX_EW_cast] = cast, [RLX_EW_neg] = neg,
	[RLX_EW_abs] = abs_, [RLX_EW_sign] = sign, [RLX_EW_not_] = not_,
	[RLX_EW_exp] = exp_, [RLX_EW_log] = log_, [RLX_EW_sqrt] = sqrt_,
	[RLX_EW_rsqrt] = rsqrt, [RLX_EW_recip] = recip, [RLX_EW_sin] = sin_,
	[RLX_EW_cos] = cos_, [RLX_EW_tan] = tan_, [RLX_EW_asin] = asin_,
	[RLX_EW_acos] = acos_, [RLX_EW_atan] = atan_, [RLX_EW_sinh] = sinh_,
	[RLX_EW_cosh] = cosh_, [RLX_EW_tanh] = tanh_,
	[RLX_EW_asinh] = asinh_, [RLX_EW_acosh] = acosh_,
	[RLX_EW_atanh] = atanh_, [RLX_EW_sigmoid] = sigmoid,
	[RLX_EW_silu] = silu, [RLX_EW_gelu] = gelu,
	[RLX_EW_gelu_tanh] = gelu_tanh, [RLX_EW_relu] = relu,
	[RLX_EW_erf] = erf_, [RLX_EW_ceil] = ceil_, [RLX_EW_floor] = floor_,
	[RLX_EW_round] = round_, [RLX_EW_trunc] = trunc_,
	[RLX_EW_softplus] = softplus, [RLX_EW_softsign] = softsign,
	[RLX_EW_mish] = mish, [RLX_EW_hard_sigmoid] = hard_sigmoid,
	[RLX_EW_hard_swish] = hard_swish, [RLX_EW_is_nan] = is_nan,
	[RLX_EW_is_inf] = is_inf, [RLX_EW_exp2] = exp2_,
	[RLX_EW_log2] = log2_, [RLX_EW_expm1] = expm1_,
	[RLX_EW_log1p] = log1p_, [RLX_EW_add] = add, [RLX_EW_sub] = sub,
	[RLX_EW_mul] = mul, [RLX_EW_div] = div_, [RLX_EW_max] = max,
	[RLX_EW_min] = min, [RLX_EW_pow] = pow_, [RLX_EW_mod] = mod,
	[RLX_EW_fmod] = fmod_, [RLX_EW_atan2] = atan2_, [RLX_EW_eq] = eq,
	[RLX_EW_ne] = ne, [RLX_EW_lt] = lt, [RLX_EW_le] = le,
	[RLX_EW_gt] = gt, [RLX_EW_ge] = ge, [RLX_EW_and_] = and_,
	[RLX_EW_or_] = or_, [RLX_EW_xor_] = xor_, [RLX_EW_leaky] = leaky,
	[RLX_EW_where] = where, [RLX_EW_fma] = fma_,
};
/* clang-format on */
