/* SPDX-License-Identifier: MIT */
/* The vector dialect for AVX2, FMA and F16C; included by vec.h alone. */
#ifndef RLX_SIMD_VEC_V3_H
#define RLX_SIMD_VEC_V3_H

#include <immintrin.h>

typedef vi vm;		/* all ones or all zeros by lane */

RLX_INLINE vm vm_and(vm a, vm b) { return a & b; }
RLX_INLINE vm vm_or(vm a, vm b) { return a | b; }
RLX_INLINE vm vm_not(vm a) { return ~a; }
RLX_INLINE unsigned int vm_bits(vm a)
{
	return (unsigned int)_mm256_movemask_ps((__m256)a);
}

RLX_INLINE int vm_any(vm a) { return vm_bits(a) != 0; }
RLX_INLINE int vm_all(vm a) { return vm_bits(a) == 255; }
RLX_INLINE vm vm_first(size_t n)
{
	const vi iota = { 0, 1, 2, 3, 4, 5, 6, 7 };

	return iota < (int32_t)(n < RLX_VL ? n : RLX_VL);
}

RLX_INLINE vf vf_loadn(const void *p, size_t n)
{
	return (vf)_mm256_maskload_ps(p, (__m256i)vm_first(n));
}

RLX_INLINE void vf_storen(void *p, vf x, size_t n)
{
	_mm256_maskstore_ps(p, (__m256i)vm_first(n), (__m256)x);
}

RLX_INLINE vi vi_loadn(const void *p, size_t n)
{
	return (vi)vf_loadn(p, n);
}

RLX_INLINE void vi_storen(void *p, vi x, size_t n)
{
	vf_storen(p, (vf)x, n);
}

RLX_INLINE vm vf_lt(vf a, vf b) { return a < b; }
RLX_INLINE vm vf_le(vf a, vf b) { return a <= b; }
RLX_INLINE vm vf_gt(vf a, vf b) { return a > b; }
RLX_INLINE vm vf_ge(vf a, vf b) { return a >= b; }
RLX_INLINE vm vf_eq(vf a, vf b) { return a == b; }
RLX_INLINE vm vf_ne(vf a, vf b) { return a != b; }
RLX_INLINE vm vi_eq(vi a, vi b) { return a == b; }
RLX_INLINE vm vi_lt(vi a, vi b) { return a < b; }
RLX_INLINE vm vi_gt(vi a, vi b) { return a > b; }
RLX_INLINE vf vf_sel(vm m, vf a, vf b)
{
	return (vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)m);
}

RLX_INLINE vi vi_sel(vm m, vi a, vi b)
{
	return (vi)vf_sel(m, (vf)a, (vf)b);
}

RLX_INLINE vf vf_fma(vf a, vf b, vf c)
{
	return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

RLX_INLINE vf vf_fnma(vf a, vf b, vf c)
{
	return (vf)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

RLX_INLINE vf vf_min(vf a, vf b)
{
	return (vf)_mm256_min_ps((__m256)a, (__m256)b);
}

RLX_INLINE vf vf_max(vf a, vf b)
{
	return (vf)_mm256_max_ps((__m256)a, (__m256)b);
}

RLX_INLINE vi vi_min(vi a, vi b)
{
	return (vi)_mm256_min_epi32((__m256i)a, (__m256i)b);
}

RLX_INLINE vi vi_max(vi a, vi b)
{
	return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

/*
 * Lower and higher half from two places. By intrinsics: of vectors that GCC puts together it loads
 * both halves, then has them wait for the one port that brings one up.
 */
RLX_INLINE vf vf_of_halves(const void *lo, const void *hi)
{
	return (vf)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(lo)),
					_mm_loadu_ps(hi), 1);
}

RLX_INLINE vf vf_sqrt(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }
RLX_INLINE vf vf_from_vi(vi x) { return (vf)_mm256_cvtepi32_ps((__m256i)x); }
RLX_INLINE vi vi_trunc(vf x) { return (vi)_mm256_cvttps_epi32((__m256)x); }
RLX_INLINE vi vi_round(vf x) { return (vi)_mm256_cvtps_epi32((__m256)x); }
RLX_INLINE vf vf_round(vf x)
{
	return (vf)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT |
				   _MM_FROUND_NO_EXC);
}

RLX_INLINE vf vf_floor(vf x) { return (vf)_mm256_floor_ps((__m256)x); }
RLX_INLINE vf vf_ceil(vf x) { return (vf)_mm256_ceil_ps((__m256)x); }
RLX_INLINE vf vf_trunc(vf x)
{
	return (vf)_mm256_round_ps((__m256)x, _MM_FROUND_TO_ZERO |
				   _MM_FROUND_NO_EXC);
}

/* In three steps, so that no factor overflows for |n| <= 300. */
RLX_INLINE vf vf_scale2(vf x, vf n)
{
	vi k = vi_trunc(n);
	vi a = k >> 2, b = k - 3 * a;
	vf fa = (vf)((a + 127) << 23);

	return x * fa * fa * fa * (vf)((b + 127) << 23);
}

RLX_INLINE vf vf_gather(const float *p, vi i)
{
	return (vf)_mm256_i32gather_ps(p, (__m256i)i, 4);
}

RLX_INLINE vi vi_gather(const int32_t *p, vi i)
{
	return (vi)_mm256_i32gather_epi32(p, (__m256i)i, 4);
}

RLX_INLINE vf vf_from_f16(vu16h h)
{
	return (vf)_mm256_cvtph_ps((__m128i)h);
}

RLX_INLINE vu16h vf_to_f16(vf x)
{
	return (vu16h)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
}

/* Lane i is lane at[i] of x. */
RLX_INLINE vf vf_permute(vf x, vi at)
{
	return (vf)_mm256_permutevar8x32_ps((__m256)x, (__m256i)at);
}

/* Lane i is lane at[i] of x, or of y where the sign of at[i] is set: at[i] modulo the lanes. */
RLX_INLINE vf vf_permute2(vf x, vf y, vi at)
{
	return (vf)_mm256_blendv_ps((__m256)vf_permute(x, at), (__m256)vf_permute(y, at),
				    (__m256)at);
}

/* The same of doubles by halves: at[i] is 2 k, and 2 k + 1 above, for lane k. */
RLX_INLINE vd vd_permute(vd x, vl at)
{
	return (vd)_mm256_permutevar8x32_ps((__m256)x, (__m256i)at);
}

RLX_INLINE vd vd_permute2(vd x, vd y, vl at)
{
	return (vd)_mm256_blendv_pd((__m256d)vd_permute(x, at), (__m256d)vd_permute(y, at),
				    (__m256d)at);
}

RLX_INLINE vd vd_fma(vd a, vd b, vd c)
{
	return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}

RLX_INLINE vd vd_sel(vl m, vd a, vd b)
{
	return (vd)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)m);
}

RLX_INLINE vd vd_min(vd a, vd b) { return (vd)_mm256_min_pd((__m256d)a, (__m256d)b); }
RLX_INLINE vd vd_max(vd a, vd b) { return (vd)_mm256_max_pd((__m256d)a, (__m256d)b); }
RLX_INLINE vd vd_scale2(vd x, vd n) { return vd_scale2_halves(x, n); }

RLX_INLINE vd vd_loadn(const void *p, size_t n)
{
	const __m256i m = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(
				(__m256i)vm_first(n < 4 ? n : 4)));

	return (vd)_mm256_maskload_pd(p, m);
}

RLX_INLINE void vd_storen(void *p, vd x, size_t n)
{
	const __m256i m = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(
				(__m256i)vm_first(n < 4 ? n : 4)));

	_mm256_maskstore_pd(p, m, (__m256d)x);
}

/* Sums of four vectors, each as the fold of vec.h has it: of halves, again and again. */
RLX_INLINE __m128 vf_hsums(vf a, vf b, vf c, vf d)
{
	const __m256 ab = _mm256_permute2f128_ps((__m256)a, (__m256)b, 0x20) +
			  _mm256_permute2f128_ps((__m256)a, (__m256)b, 0x31);
	const __m256 cd = _mm256_permute2f128_ps((__m256)c, (__m256)d, 0x20) +
			  _mm256_permute2f128_ps((__m256)c, (__m256)d, 0x31);
	const __m256 two = _mm256_unpacklo_ps(ab, cd) + _mm256_unpackhi_ps(ab, cd);
	const __m256 x = two + _mm256_permute_ps(two, 0x4e);

	return _mm_unpacklo_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
}

RLX_INLINE __m256d vd_hsums(vd a, vd b, vd c, vd d)
{
	const __m256d ab = _mm256_permute2f128_pd((__m256d)a, (__m256d)b, 0x20) +
			   _mm256_permute2f128_pd((__m256d)a, (__m256d)b, 0x31);
	const __m256d cd = _mm256_permute2f128_pd((__m256d)c, (__m256d)d, 0x20) +
			   _mm256_permute2f128_pd((__m256d)c, (__m256d)d, 0x31);

	return _mm256_permute4x64_pd(_mm256_unpacklo_pd(ab, cd) + _mm256_unpackhi_pd(ab, cd),
				     0xd8);
}

/* By name: of a conversion gcc 12 makes one of each lane, or of halves that it joins. */
RLX_INLINE vi vi_from_i8(vi8q x)
{
	return (vi)_mm256_cvtepi8_epi32(_mm_cvtsi64_si128((long long)x));
}

RLX_INLINE vi vi_from_u8(vu8q x)
{
	return (vi)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)x));
}

RLX_INLINE vi vi_from_i16(vi16h x) { return (vi)_mm256_cvtepi16_epi32((__m128i)x); }
RLX_INLINE vi vi_from_u16(vu16h x) { return (vi)_mm256_cvtepu16_epi32((__m128i)x); }

RLX_INLINE vu8q vi_low_8(vi x)
{
	const __m256i q = _mm256_shuffle_epi8((__m256i)x, _mm256_set1_epi32(0x0c080400));
	const __m128i a = _mm256_castsi256_si128(q), b = _mm256_extracti128_si256(q, 1);

	return (vu8q)_mm_cvtsi128_si64(_mm_unpacklo_epi32(a, b));
}

RLX_INLINE vu16h vi_low_16(vi x)
{
	const __m256i q = _mm256_shuffle_epi8((__m256i)x, _mm256_set1_epi64x(0x0d0c090805040100));
	const __m128i a = _mm256_castsi256_si128(q), b = _mm256_extracti128_si256(q, 1);

	return (vu16h)_mm_unpacklo_epi64(a, b);
}

#endif
