// SPDX-License-Identifier: MIT
/* Steps of elementwise programs on floats. */
#include <math.h>

#include "kernels/cpu/ew_step.h"
#include "kernels/simd/math.h"

#define UN(name, expr)	RLX_EW_UN(name, vf, vf_u, expr)
#define BIN(name, expr)	RLX_EW_BIN(name, vf, vf_u, expr)
#define L1(name, expr)	RLX_EW_LANES1(name, float, expr)
#define L2(name, expr)	RLX_EW_LANES2(name, float, expr)

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

/* fmod is exact; only where the signs differ is the divisor added. */
static float mod_floor(float x, float y)
{
	float r = fmodf(x, y);

	if (r != 0 && (r < 0) != (y < 0))
		return r + y;
	return r == 0 ? copysignf(0.0f, y) : r;
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

static void pow_const(char *d, const struct rlx_ew_src *s, size_t nv, float y)
{
	const char *p = s[0].p;

	for (size_t k = 0; k < nv; k++) {
		vf_storeu(d + k * RLX_VB, pow_simple(vf_loadu(p), y));
		p += s[0].inc;
	}
}

L2(pow_any, powf(x, y))

static void pow_(char *d, const struct rlx_ew_src *s, size_t nv, int type)
{
	float y;

	memcpy(&y, s[1].p, 4);
	if (s[1].inc == 0 && (y == 1.0f || y == 2.0f || y == 3.0f ||
			      y == -1.0f || y == 0.5f || y == -0.5f))
		pow_const(d, s, nv, y);
	else
		pow_any(d, s, nv, type);
}

RLX_EW_CAST(cast_any, RLX_EW_F32, float)
UN(cast_f16, vf_from_f16(vf_to_f16(x)))
UN(cast_bf16, vf_from_bf16(vf_to_bf16(x)))

static void cast(char *d, const struct rlx_ew_src *s, size_t nv, int type)
{
	rlx_ew_step_fn *to = type == RLX_F16 ? cast_f16 : type == RLX_BF16 ? cast_bf16 : cast_any;

	to(d, s, nv, type);
}

UN(copy, x)
UN(neg, -x)
UN(abs_, vf_abs(x))
UN(sign, sign_of(x))
UN(not_, truth(vf_eq(x, vf_zero())))
UN(exp_, vf_exp(x))
UN(log_, vf_log(x))
UN(sqrt_, vf_sqrt(x))
UN(rsqrt, 1.0f / vf_sqrt(x))
UN(recip, 1.0f / x)
UN(sin_, vf_sin(x))
UN(cos_, vf_cos(x))
L1(tan_, tanf(x))
L1(asin_, asinf(x))
L1(acos_, acosf(x))
L1(atan_, atanf(x))
L1(sinh_, sinhf(x))
L1(cosh_, coshf(x))
UN(tanh_, vf_tanh(x))
L1(asinh_, asinhf(x))
L1(acosh_, acoshf(x))
L1(atanh_, atanhf(x))
UN(sigmoid, vf_sigmoid(x))
UN(silu, vf_silu(x))
UN(gelu, vf_gelu_erf(x))
UN(gelu_tanh, vf_gelu_tanh(x))
UN(relu, vf_max(vf_zero(), x))
UN(erf_, vf_erf(x))
UN(ceil_, vf_ceil(x))
UN(floor_, vf_floor(x))
UN(round_, vf_round(x))
UN(trunc_, vf_trunc(x))
UN(softplus, softplus_of(x))
UN(softsign, vf_softsign(x))
UN(mish, mish_of(x))
UN(hard_sigmoid, clip01(x * 0.2f + 0.5f))
UN(hard_swish, vf_hard_swish(x))
UN(is_nan, truth(vf_isnan(x)))
UN(is_inf, truth(vf_eq(vf_abs(x), vf_set1(INFINITY))))
L1(exp2_, exp2f(x))
L1(log2_, log2f(x))
UN(expm1_, vf_expm1(x))
UN(log1p_, vf_log1p(x))
BIN(add, x + y)
BIN(sub, x - y)
BIN(mul, x * y)
BIN(div_, x / y)
BIN(max, vf_max_nan(x, y))
BIN(min, vf_min_nan(x, y))
L2(mod, mod_floor(x, y))
L2(fmod_, fmodf(x, y))
L2(atan2_, atan2f(x, y))
BIN(eq, truth(vf_eq(x, y)))
BIN(ne, truth(vf_ne(x, y)))
BIN(lt, truth(vf_lt(x, y)))
BIN(le, truth(vf_le(x, y)))
BIN(gt, truth(vf_gt(x, y)))
BIN(ge, truth(vf_ge(x, y)))
BIN(and_, truth(vm_and(isset(x), isset(y))))
BIN(or_, truth(vm_or(isset(x), isset(y))))
BIN(xor_, truth(vf_ne(truth(isset(x)), truth(isset(y)))))
BIN(leaky, vf_sel(vf_ge(x, vf_zero()), x, x * y))
RLX_EW_TER(where, vf, vf_u, vf_sel(isset(x), y, z))
RLX_EW_TER(fma_, vf, vf_u, vf_fma(x, y, z))

rlx_ew_step_fn *const RLX_K(ew_f32_steps)[RLX_EW_OP_COUNT] = {
	RLX_EW_REAL_STEPS
};
