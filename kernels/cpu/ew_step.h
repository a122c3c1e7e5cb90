/* SPDX-License-Identifier: MIT */
/* What ew.c and the step tables ew_f32.c, ew_f64.c and ew_int.c share. */
#ifndef RLX_CPU_EW_STEP_H
#define RLX_CPU_EW_STEP_H

#include "kernels/cpu/convert.h"
#include "kernels/kernel.h"
#include "kernels/ew.h"
#include "kernels/simd/vec.h"

/* An operand: vector k is at p + k * inc; inc is RLX_VB, or 0 for a splat. */
struct rlx_ew_src {
	const char	*p;
	size_t		inc;
};

/*
 * One step over nv vectors; dst may be one of the sources. type: what a cast is to; other
 * steps get the class.
 */
typedef void rlx_ew_step_fn(char *dst, const struct rlx_ew_src *src, size_t nv,
			    int type);

/* By op; NULL where the class lacks it. */
extern rlx_ew_step_fn *const RLX_K(ew_f32_steps)[RLX_EW_OP_COUNT];
extern rlx_ew_step_fn *const RLX_K(ew_f64_steps)[RLX_EW_OP_COUNT];
extern rlx_ew_step_fn *const RLX_K(ew_int_steps)[RLX_EW_OP_COUNT];

/* Bodies: V is a vector type with unaligned view U; x, y, z the operands. */
#define RLX_EW_UN(name, V, U, expr)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	const char *p = s[0].p;						\
									\
	for (size_t k = 0; k < nv; k++) {				\
		const V x = *(const U *)p;				\
									\
		*(U *)(d + k * RLX_VB) = (expr);			\
		p += s[0].inc;						\
	}								\
}

#define RLX_EW_BIN(name, V, U, expr)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	const char *p = s[0].p, *q = s[1].p;				\
	const size_t pi = s[0].inc, qi = s[1].inc;			\
									\
	for (size_t k = 0; k < nv; k++) {				\
		const V x = *(const U *)p, y = *(const U *)q;		\
									\
		*(U *)(d + k * RLX_VB) = (expr);			\
		p += pi;						\
		q += qi;						\
	}								\
}

#define RLX_EW_TER(name, V, U, expr)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	const char *p = s[0].p, *q = s[1].p, *r = s[2].p;		\
	const size_t pi = s[0].inc, qi = s[1].inc, ri = s[2].inc;	\
									\
	for (size_t k = 0; k < nv; k++) {				\
		const V x = *(const U *)p, y = *(const U *)q;		\
		const V z = *(const U *)r;				\
									\
		*(U *)(d + k * RLX_VB) = (expr);			\
		p += pi;						\
		q += qi;						\
		r += ri;						\
	}								\
}

/*
 * Lane by lane, for what has no vector form: x, y are scalars of type E. A call for
 * each lane, not one after another: that were a third of these files.
 */
#ifdef __clang__
#define RLX_EW_EACH	_Pragma("clang loop unroll(disable)")
#else
#define RLX_EW_EACH	_Pragma("GCC unroll 1")
#endif

#define RLX_EW_LANES1(name, E, expr)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	for (size_t k = 0; k < nv; k++) {				\
		E t[RLX_VB / sizeof(E)];				\
									\
		memcpy(t, s[0].p + k * s[0].inc, RLX_VB);		\
		RLX_EW_EACH						\
		for (size_t l = 0; l < RLX_VB / sizeof(E); l++) {	\
			const E x = t[l];				\
									\
			t[l] = (expr);					\
		}							\
		memcpy(d + k * RLX_VB, t, RLX_VB);			\
	}								\
}

#define RLX_EW_LANES2(name, E, expr)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	for (size_t k = 0; k < nv; k++) {				\
		E t[RLX_VB / sizeof(E)], u[RLX_VB / sizeof(E)];		\
									\
		memcpy(t, s[0].p + k * s[0].inc, RLX_VB);		\
		memcpy(u, s[1].p + k * s[1].inc, RLX_VB);		\
		RLX_EW_EACH						\
		for (size_t l = 0; l < RLX_VB / sizeof(E); l++) {	\
			const E x = t[l], y = u[l];			\
									\
			t[l] = (expr);					\
		}							\
		memcpy(d + k * RLX_VB, t, RLX_VB);			\
	}								\
}

/* Through memory of the type that a cast is to; E is the class's. */
#define RLX_EW_CAST(name, cls, E)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	const size_t lanes = RLX_VB / sizeof(E);			\
	rlx_convert_fn *store = RLX_K(storer)(cls, type);		\
	rlx_convert_fn *load = RLX_K(loader)(cls, type);		\
	E v[RLX_VB / sizeof(E)];					\
	uint64_t raw[RLX_VB / sizeof(E)];				\
									\
	for (size_t k = 0; k < nv; k++) {				\
		memcpy(v, s[0].p + k * s[0].inc, RLX_VB);		\
		store(raw, v, lanes);					\
		load(v, raw, lanes);					\
		memcpy(d + k * RLX_VB, v, RLX_VB);			\
	}								\
}

/* clang-format off */
/* The table of the two real classes: each has a step of these names. */
#define RLX_EW_REAL_STEPS						\
	[RLX_EW_copy] = copy, [RLX_EW_cast] = cast, [RLX_EW_neg] = neg,	\
	[RLX_EW_abs] = abs_, [RLX_EW_sign] = sign, [RLX_EW_not_] = not_,	\
	[RLX_EW_exp] = exp_, [RLX_EW_log] = log_, [RLX_EW_sqrt] = sqrt_,	\
	[RLX_EW_rsqrt] = rsqrt, [RLX_EW_recip] = recip, [RLX_EW_sin] = sin_,	\
	[RLX_EW_cos] = cos_, [RLX_EW_tan] = tan_, [RLX_EW_asin] = asin_,	\
	[RLX_EW_acos] = acos_, [RLX_EW_atan] = atan_, [RLX_EW_sinh] = sinh_,	\
	[RLX_EW_cosh] = cosh_, [RLX_EW_tanh] = tanh_,			\
	[RLX_EW_asinh] = asinh_, [RLX_EW_acosh] = acosh_,		\
	[RLX_EW_atanh] = atanh_, [RLX_EW_sigmoid] = sigmoid,		\
	[RLX_EW_silu] = silu, [RLX_EW_gelu] = gelu,			\
	[RLX_EW_gelu_tanh] = gelu_tanh, [RLX_EW_relu] = relu,		\
	[RLX_EW_erf] = erf_, [RLX_EW_ceil] = ceil_, [RLX_EW_floor] = floor_,	\
	[RLX_EW_round] = round_, [RLX_EW_trunc] = trunc_,		\
	[RLX_EW_softplus] = softplus, [RLX_EW_softsign] = softsign,	\
	[RLX_EW_mish] = mish, [RLX_EW_hard_sigmoid] = hard_sigmoid,	\
	[RLX_EW_hard_swish] = hard_swish, [RLX_EW_is_nan] = is_nan,	\
	[RLX_EW_is_inf] = is_inf, [RLX_EW_exp2] = exp2_,		\
	[RLX_EW_log2] = log2_, [RLX_EW_expm1] = expm1_,			\
	[RLX_EW_log1p] = log1p_, [RLX_EW_add] = add, [RLX_EW_sub] = sub,	\
	[RLX_EW_mul] = mul, [RLX_EW_div] = div_, [RLX_EW_max] = max,	\
	[RLX_EW_min] = min, [RLX_EW_pow] = pow_, [RLX_EW_mod] = mod,	\
	[RLX_EW_fmod] = fmod_, [RLX_EW_atan2] = atan2_, [RLX_EW_eq] = eq,	\
	[RLX_EW_ne] = ne, [RLX_EW_lt] = lt, [RLX_EW_le] = le,		\
	[RLX_EW_gt] = gt, [RLX_EW_ge] = ge, [RLX_EW_and_] = and_,	\
	[RLX_EW_or_] = or_, [RLX_EW_xor_] = xor_, [RLX_EW_leaky] = leaky,	\
	[RLX_EW_where] = where, [RLX_EW_fma] = fma_,
/* clang-format on */

#endif
