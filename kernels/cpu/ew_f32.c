// SPDX-License-Identifier: MIT
/* Steps of elementwise programs on floats. */
#include <math.h>

#include "kernels/cpu/ew_step.h"
#include "kernels/simd/ew_rows.h"

#define UN(name, expr)	RLX_EW_UN(step_##name, vf, vf_u, expr)
#define BIN(name, expr)	RLX_EW_BIN(step_##name, vf, vf_u, expr)
#define TER(name, expr)	RLX_EW_TER(step_##name, vf, vf_u, expr)
#define L1(name, expr)	RLX_EW_LANES1(step_##name, float, expr)
#define L2(name, expr)	RLX_EW_LANES2(step_##name, float, expr)

static void pow_const(char *d, const struct rlx_ew_src *s, size_t nv, float y)
{
	const char *p = s[0].p;

	for (size_t k = 0; k < nv; k++) {
		vf_storeu(d + k * RLX_VB, pow_simple(vf_loadu(p), y));
		p += s[0].inc;
	}
}

RLX_EW_LANES2(pow_any, float, powf(x, y))

static void step_pow(char *d, const struct rlx_ew_src *s, size_t nv, int type)
{
	float y;

	memcpy(&y, s[1].p, 4);
	if (s[1].inc == 0 && rlx_k_ew_simple_power(y))
		pow_const(d, s, nv, y);
	else
		pow_any(d, s, nv, type);
}

RLX_EW_CAST(cast_any, RLX_EW_F32, float)
RLX_EW_UN(cast_f16, vf, vf_u, vf_from_f16(vf_to_f16(x)))
RLX_EW_UN(cast_bf16, vf, vf_u, vf_from_bf16(vf_to_bf16(x)))

static void step_cast(char *d, const struct rlx_ew_src *s, size_t nv, int type)
{
	rlx_ew_step_fn *to = type == RLX_F16 ? cast_f16 : type == RLX_BF16 ? cast_bf16 : cast_any;

	to(d, s, nv, type);
}

RLX_EW_F32_ROWS(UN, BIN, TER)
L1(tan, tanf(x))
L1(asin, asinf(x))
L1(acos, acosf(x))
L1(atan, atanf(x))
L1(sinh, sinhf(x))
L1(cosh, coshf(x))
L1(asinh, asinhf(x))
L1(acosh, acoshf(x))
L1(atanh, atanhf(x))
L1(exp2, exp2f(x))
L1(log2, log2f(x))
L2(mod, mod_floor(x, y))
L2(fmod, fmodf(x, y))
L2(atan2, atan2f(x, y))

/* clang-format off */
#define ROW(name, ...)	[RLX_EW_##name] = step_##name,
rlx_ew_step_fn *const RLX_K(ew_f32_steps)[RLX_EW_OP_COUNT] = {
	RLX_EW_F32_ROWS(ROW, ROW, ROW)
	ROW(cast) ROW(pow)
	ROW(tan) ROW(asin) ROW(acos) ROW(atan) ROW(sinh) ROW(cosh) ROW(asinh) ROW(acosh)
	ROW(atanh) ROW(exp2) ROW(log2) ROW(mod) ROW(fmod) ROW(atan2)
};
/* clang-format on */
