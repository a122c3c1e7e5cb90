/* SPDX-License-Identifier: MIT */
/*
 * The vector dialect the CPU kernels are written in. One vector is RLX_VB bytes
 * (16 at base, 32 at v3, 64 at v4 and above) and has RLX_VL lanes of 32 bits.
 *
 *	vf, vi, vu	float, int32_t, uint32_t lanes: GCC vectors, so that
 *			+ - * / & | ^ << >> == need no function; a scalar operand
 *			is broadcast (x * 2.0f)
 *	vd		RLX_VLD = RLX_VL / 2 double lanes
 *	vm		a mask, opaque: made by vf_lt(), vi_eq() ..., used by
 *			vf_sel(), vi_sel(), vm_and() ...
 *
 * Loads and stores: _load/_store want RLX_VB alignment, _loadu/_storeu none,
 * _loadn/_storen touch the first n lanes only (0 <= n <= RLX_VL; lanes not
 * loaded are 0; n may be more than RLX_VL and then means all).
 *
 * vf_min and vf_max return the second operand when one is NaN, as x86 does.
 */
#ifndef RLX_SIMD_VEC_H
#define RLX_SIMD_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(RLX_ISA_v4) || defined(RLX_ISA_v4_vnni) || defined(RLX_ISA_v4x) || \
	defined(RLX_ISA_v4_amx)
#define RLX_V512	1
#define RLX_VB		64
#elif defined(RLX_ISA_v3)
#define RLX_V256	1
#define RLX_VB		32
#else
#define RLX_VB		16
#endif
#define RLX_VL		(RLX_VB / 4)
#define RLX_VLD		(RLX_VB / 8)

#define RLX_INLINE	static inline __attribute__((always_inline, unused))

/* before a for loop over registers: its trip count must be a constant */
#ifdef __clang__
#define RLX_UNROLL	_Pragma("clang loop unroll(full)")
#else
#define RLX_UNROLL	_Pragma("GCC unroll 32")
#endif

typedef float vf __attribute__((vector_size(RLX_VB)));
typedef int32_t vi __attribute__((vector_size(RLX_VB)));
typedef uint32_t vu __attribute__((vector_size(RLX_VB)));
typedef double vd __attribute__((vector_size(RLX_VB)));
typedef int64_t vl __attribute__((vector_size(RLX_VB)));
typedef uint64_t vul __attribute__((vector_size(RLX_VB)));
/* half as wide: 16-bit lanes that become or were 32-bit ones */
typedef int16_t vi16h __attribute__((vector_size(RLX_VB / 2)));
typedef uint16_t vu16h __attribute__((vector_size(RLX_VB / 2)));
/* a quarter: 8-bit lanes */
typedef int8_t vi8q __attribute__((vector_size(RLX_VL)));
typedef uint8_t vu8q __attribute__((vector_size(RLX_VL)));

/* unaligned and aliasing views for loads and stores */
typedef float vf_u __attribute__((vector_size(RLX_VB), aligned(4), may_alias));
typedef int32_t vi_u
	__attribute__((vector_size(RLX_VB), aligned(4), may_alias));
typedef double vd_u __attribute__((vector_size(RLX_VB), aligned(8), may_alias));
typedef float vf_a __attribute__((vector_size(RLX_VB), may_alias));
typedef int32_t vi_a __attribute__((vector_size(RLX_VB), may_alias));
typedef uint16_t vu16h_u
	__attribute__((vector_size(RLX_VB / 2), aligned(1), may_alias));

RLX_INLINE vf vf_zero(void) { return (vf){ 0 }; }
RLX_INLINE vi vi_zero(void) { return (vi){ 0 }; }
RLX_INLINE vf vf_set1(float x) { return x - (vf){ 0 }; }
RLX_INLINE vi vi_set1(int32_t x) { return x + (vi){ 0 }; }
RLX_INLINE vf vf_load(const void *p) { return *(const vf_a *)p; }
RLX_INLINE vi vi_load(const void *p) { return *(const vi_a *)p; }
RLX_INLINE vf vf_loadu(const void *p) { return *(const vf_u *)p; }
RLX_INLINE vi vi_loadu(const void *p) { return *(const vi_u *)p; }
RLX_INLINE void vf_store(void *p, vf x) { *(vf_a *)p = x; }
RLX_INLINE void vi_store(void *p, vi x) { *(vi_a *)p = x; }
RLX_INLINE void vf_storeu(void *p, vf x) { *(vf_u *)p = x; }
RLX_INLINE void vi_storeu(void *p, vi x) { *(vi_u *)p = x; }

/* the same bits under another type */
RLX_INLINE vi vf_bits(vf x) { return (vi)x; }
RLX_INLINE vf vf_from_bits(vi x) { return (vf)x; }
RLX_INLINE float vf_lane0(vf x) { return x[0]; }
RLX_INLINE vi vi_shr(vi x, int n) { return (vi)((vu)x >> n); }	/* logical */

RLX_INLINE vd vd_zero(void) { return (vd){ 0 }; }
RLX_INLINE vd vd_set1(double x) { return x - (vd){ 0 }; }
RLX_INLINE vd vd_loadu(const void *p) { return *(const vd_u *)p; }
RLX_INLINE void vd_storeu(void *p, vd x) { *(vd_u *)p = x; }

/*
 * Added, it leaves a number of less than 2^51 rounded in the low bits, to nearest even. They
 * are unsigned, as what is computed of them: where a number is larger, or NaN, they wrap.
 */
#define RLX_VD_MAGIC	0x1.8p52
RLX_INLINE vul vd_low_bits(vd magic)
{
	return (vul)magic - (vul)vd_set1(RLX_VD_MAGIC);
}

/* 2^n for -1022 <= n <= 1023 */
RLX_INLINE vd vd_pow2(vul n)
{
	return (vd)((n + 1023) << 52);
}

/* x * 2^n by two halves of n, where nothing scales */
RLX_INLINE vd vd_scale2_halves(vd x, vd n)
{
	vul k = vd_low_bits(n + RLX_VD_MAGIC), half = ((k + 2048) >> 1) - 1024;

	return x * vd_pow2(half) * vd_pow2(k - half);
}

/*
 * What differs by level. Each header defines:
 *   vm: _and _or _not _any _all, vm_bits (bit i = lane i), vm_first(n)
 *   vf: _loadn _storen _fma(a,b,c)=a*b+c _fnma=c-a*b _min _max _sqrt _round
 *       (to even) _floor _ceil _trunc, _lt _le _gt _ge _eq _ne, _sel(m, a, b)
 *       = m ? a : b, _from_vi, _scale2(x, n) = x * 2^n for integral float n
 *   vi: _loadn _storen _min _max _eq _lt _gt _sel, vi_trunc(vf), vi_round(vf)
 *       (to even), vi_gather(int32_t *, vi), vf_gather(float *, vi)
 *   vf_permute(x, lanes), but at base
 *   vi_from_i8(vi8q), _u8, _i16(vi16h), _u16; vi_low_8(vi), vi_low_16: the low bits of lanes
 *   f16: vf_from_f16(vu16h), vf_to_f16(vf)
 *   vd: _loadn _storen _fma _min _max, _sel(m, a, b) with m of int64_t lanes, as what
 *       compares doubles gives, _scale2(x, n) = x * 2^n, -2048 < n < 2048, integral
 */
#if defined(RLX_V512)
#include "kernels/simd/vec_v4.h"
#elif defined(RLX_V256)
#include "kernels/simd/vec_v3.h"
#else
#include "kernels/simd/vec_base.h"
#endif

/*
 * Of single numbers, for loops that the compiler is to vectorize: rounded once where vectors are.
 * Nothing else is contracted, so that each level and compiler rounds where the code says.
 */
#if defined(__FMA__) || defined(__aarch64__)
#define RLX_HAS_FMA	1
RLX_INLINE float f_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
RLX_INLINE double d_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
RLX_INLINE float f_fma(float a, float b, float c) { return a * b + c; }
RLX_INLINE double d_fma(double a, double b, double c) { return a * b + c; }
#endif

RLX_INLINE vf vf_abs(vf x) { return (vf)((vi)x & 0x7fffffff); }
RLX_INLINE vf vf_neg(vf x) { return -x; }
RLX_INLINE vf vf_copysign(vf mag, vf sgn)
{
	const vi top = vi_set1(INT32_MIN);

	return (vf)(((vi)sgn & top) | ((vi)mag & ~top));
}

RLX_INLINE vf vf_clamp(vf x, vf lo, vf hi)
{
	return vf_min(vf_max(x, lo), hi);
}

RLX_INLINE vm vf_isnan(vf x) { return vf_ne(x, x); }
/* NaN in either gives NaN */
RLX_INLINE vf vf_max_nan(vf a, vf b)
{
	return vf_sel(vf_isnan(a), a, vf_max(a, b));
}

RLX_INLINE vf vf_min_nan(vf a, vf b)
{
	return vf_sel(vf_isnan(a), a, vf_min(a, b));
}

/* Across the lanes, in a fixed tree order. */
#define RLX_V_FOLD(name, vec, elem, step)				\
RLX_INLINE elem name(vec x)						\
{									\
	elem t[RLX_VB / sizeof(elem)];					\
	size_t i, w;							\
									\
	memcpy(t, &x, sizeof(t));					\
	for (w = RLX_VB / sizeof(elem) / 2; w; w /= 2)			\
		for (i = 0; i < w; i++)					\
			t[i] = step(t[i], t[i + w]);			\
	return t[0];							\
}
#define RLX_STEP_ADD(a, b)	((a) + (b))
#define RLX_STEP_MAX(a, b)	((a) > (b) ? (a) : (b))
#define RLX_STEP_MIN(a, b)	((a) < (b) ? (a) : (b))
#ifndef RLX_V512
RLX_V_FOLD(vf_hsum, vf, float, RLX_STEP_ADD)
RLX_V_FOLD(vf_hmax, vf, float, RLX_STEP_MAX)
RLX_V_FOLD(vf_hmin, vf, float, RLX_STEP_MIN)
RLX_V_FOLD(vi_hsum, vi, int32_t, RLX_STEP_ADD)
RLX_V_FOLD(vi_hmax, vi, int32_t, RLX_STEP_MAX)
RLX_V_FOLD(vi_hmin, vi, int32_t, RLX_STEP_MIN)
#endif
RLX_V_FOLD(vd_hsum, vd, double, RLX_STEP_ADD)

/* The sums of four vectors each. */
#if defined(RLX_V256) || defined(RLX_V512)
RLX_INLINE void vf_hsum4(const vf *x, float *sum)
{
	_mm_storeu_ps(sum, vf_hsums(x[0], x[1], x[2], x[3]));
}

RLX_INLINE void vd_hsum4(const vd *x, double *sum)
{
	_mm256_storeu_pd(sum, vd_hsums(x[0], x[1], x[2], x[3]));
}
#else
RLX_INLINE void vf_hsum4(const vf *x, float *sum)
{
	for (int i = 0; i < 4; i++)
		sum[i] = vf_hsum(x[i]);
}

RLX_INLINE void vd_hsum4(const vd *x, double *sum)
{
	for (int i = 0; i < 4; i++)
		sum[i] = vd_hsum(x[i]);
}
#endif

/* Partial 16-bit lanes. */
RLX_INLINE vu16h vu16h_loadu(const void *p) { return *(const vu16h_u *)p; }
RLX_INLINE void vu16h_storeu(void *p, vu16h x) { *(vu16h_u *)p = x; }
#ifndef RLX_V512
RLX_INLINE vu16h vu16h_loadn(const void *p, size_t n)
{
	uint16_t t[RLX_VL] = { 0 };

	if (n >= RLX_VL)
		return vu16h_loadu(p);
	memcpy(t, p, n * sizeof(*t));
	return vu16h_loadu(t);
}

RLX_INLINE void vu16h_storen(void *p, vu16h x, size_t n)
{
	uint16_t t[RLX_VL];

	if (n >= RLX_VL) {
		vu16h_storeu(p, x);
		return;
	}
	vu16h_storeu(t, x);
	memcpy(p, t, n * sizeof(*t));
}
#endif

/* bf16 is the upper half of an f32; to nearest even, NaN stays NaN. */
RLX_INLINE vf vf_from_bf16(vu16h x)
{
	/* by name: gcc 12 converts halves of a vector apart and joins them */
#if defined(RLX_V512)
	return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)x), 16);
#elif defined(RLX_V256)
	return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)x), 16);
#else
	return (vf)(__builtin_convertvector(x, vu) << 16);
#endif
}

RLX_INLINE vu16h vf_to_bf16(vf x)
{
	vu b = (vu)x;
	vi r = (vi)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
	vi q = (vi)(b >> 16) | 0x40;

	return __builtin_convertvector((vu)vi_sel(vf_isnan(x), q, r), vu16h);
}

#define RLX_V_HALF(f)							\
RLX_INLINE vf vf_loadu_##f(const void *p)				\
{									\
	return vf_from_##f(vu16h_loadu(p));				\
}									\
RLX_INLINE vf vf_loadn_##f(const void *p, size_t n)			\
{									\
	return vf_from_##f(vu16h_loadn(p, n));				\
}									\
RLX_INLINE void vf_storeu_##f(void *p, vf x)				\
{									\
	vu16h_storeu(p, vf_to_##f(x));					\
}									\
RLX_INLINE void vf_storen_##f(void *p, vf x, size_t n)			\
{									\
	vu16h_storen(p, vf_to_##f(x), n);				\
}
RLX_V_HALF(bf16)
RLX_V_HALF(f16)

/* 8- and 16-bit integers to and from 32-bit lanes; stores saturate. */
#define RLX_V_NARROW(t, ctype, bits, vec, lo, hi)			\
RLX_INLINE vi vi_loadu_##t(const void *p)				\
{									\
	vec q;								\
									\
	memcpy(&q, p, sizeof(q));					\
	return vi_from_##t(q);						\
}									\
RLX_INLINE vi vi_loadn_##t(const void *p, size_t n)			\
{									\
	vec q = { 0 };							\
									\
	memcpy(&q, p, (n < RLX_VL ? n : RLX_VL) * sizeof(ctype));	\
	return vi_from_##t(q);						\
}									\
RLX_INLINE vec vi_sat_##t(vi x)						\
{									\
	return (vec)vi_low_##bits(vi_min(vi_max(x, vi_set1(lo)), vi_set1(hi)));	\
}									\
RLX_INLINE void vi_storeu_##t(void *p, vi x)				\
{									\
	vec q = vi_sat_##t(x);						\
									\
	memcpy(p, &q, sizeof(q));					\
}									\
RLX_INLINE void vi_storen_##t(void *p, vi x, size_t n)			\
{									\
	vec q = vi_sat_##t(x);						\
									\
	memcpy(p, &q, (n < RLX_VL ? n : RLX_VL) * sizeof(ctype));	\
}
RLX_V_NARROW(i8, int8_t, 8, vi8q, INT8_MIN, INT8_MAX)
RLX_V_NARROW(u8, uint8_t, 8, vu8q, 0, UINT8_MAX)
RLX_V_NARROW(i16, int16_t, 16, vi16h, INT16_MIN, INT16_MAX)
RLX_V_NARROW(u16, uint16_t, 16, vu16h, 0, UINT16_MAX)

#endif
