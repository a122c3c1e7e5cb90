/* SPDX-License-Identifier: MIT */
/* The vector dialect for AVX-512 F, BW, DQ and VL; included by vec.h alone. */
#ifndef RLX_SIMD_VEC_V4_H
#define RLX_SIMD_VEC_V4_H

#include <immintrin.h>

typedef __mmask16 vm;

RLX_INLINE vm vm_and(vm a, vm b) { return a & b; }
RLX_INLINE vm vm_or(vm a, vm b) { return a | b; }
RLX_INLINE vm vm_not(vm a) { return (vm)~a; }
RLX_INLINE unsigned int vm_bits(vm a) { return a; }
RLX_INLINE int vm_any(vm a) { return a != 0; }
RLX_INLINE int vm_all(vm a) { return a == 0xffff; }
RLX_INLINE vm vm_first(size_t n)
{
	return n < 16 ? (vm)((1u << n) - 1) : (vm)0xffff;
}

RLX_INLINE vf vf_loadn(const void *p, size_t n)
{
	return (vf)_mm512_maskz_loadu_ps(vm_first(n), p);
}

RLX_INLINE void vf_storen(void *p, vf x, size_t n)
{
	_mm512_mask_storeu_ps(p, vm_first(n), (__m512)x);
}

RLX_INLINE vi vi_loadn(const void *p, size_t n)
{
	return (vi)_mm512_maskz_loadu_epi32(vm_first(n), p);
}

RLX_INLINE void vi_storen(void *p, vi x, size_t n)
{
	_mm512_mask_storeu_epi32(p, vm_first(n), (__m512i)x);
}

RLX_INLINE vu16h vu16h_loadn(const void *p, size_t n)
{
	return (vu16h)_mm256_maskz_loadu_epi16(vm_first(n), p);
}

RLX_INLINE void vu16h_storen(void *p, vu16h x, size_t n)
{
	_mm256_mask_storeu_epi16(p, vm_first(n), (__m256i)x);
}

#define RLX_VF_CMP(name, op)						\
RLX_INLINE vm name(vf a, vf b)						\
{									\
	return _mm512_cmp_ps_mask((__m512)a, (__m512)b, op);		\
}
RLX_VF_CMP(vf_lt, _CMP_LT_OQ)
RLX_VF_CMP(vf_le, _CMP_LE_OQ)
RLX_VF_CMP(vf_gt, _CMP_GT_OQ)
RLX_VF_CMP(vf_ge, _CMP_GE_OQ)
RLX_VF_CMP(vf_eq, _CMP_EQ_OQ)
RLX_VF_CMP(vf_ne, _CMP_NEQ_UQ)
#undef RLX_VF_CMP

RLX_INLINE vm vi_eq(vi a, vi b)
{
	return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b);
}

RLX_INLINE vm vi_lt(vi a, vi b)
{
	return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b);
}

RLX_INLINE vm vi_gt(vi a, vi b)
{
	return _mm512_cmpgt_epi32_mask((__m512i)a, (__m512i)b);
}

RLX_INLINE vf vf_sel(vm m, vf a, vf b)
{
	return (vf)_mm512_mask_blend_ps(m, (__m512)b, (__m512)a);
}

RLX_INLINE vi vi_sel(vm m, vi a, vi b)
{
	return (vi)_mm512_mask_blend_epi32(m, (__m512i)b, (__m512i)a);
}

RLX_INLINE vf vf_fma(vf a, vf b, vf c)
{
	return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

RLX_INLINE vf vf_fnma(vf a, vf b, vf c)
{
	return (vf)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

RLX_INLINE vf vf_min(vf a, vf b)
{
	return (vf)_mm512_min_ps((__m512)a, (__m512)b);
}

RLX_INLINE vf vf_max(vf a, vf b)
{
	return (vf)_mm512_max_ps((__m512)a, (__m512)b);
}

RLX_INLINE vi vi_min(vi a, vi b)
{
	return (vi)_mm512_min_epi32((__m512i)a, (__m512i)b);
}

RLX_INLINE vi vi_max(vi a, vi b)
{
	return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

RLX_INLINE vf vf_sqrt(vf x) { return (vf)_mm512_sqrt_ps((__m512)x); }
RLX_INLINE vf vf_from_vi(vi x) { return (vf)_mm512_cvtepi32_ps((__m512i)x); }
RLX_INLINE vi vi_trunc(vf x) { return (vi)_mm512_cvttps_epi32((__m512)x); }
RLX_INLINE vi vi_round(vf x) { return (vi)_mm512_cvtps_epi32((__m512)x); }
RLX_INLINE vf vf_round(vf x)
{
	return (vf)_mm512_roundscale_ps((__m512)x, 8);
}

RLX_INLINE vf vf_floor(vf x)
{
	return (vf)_mm512_roundscale_ps((__m512)x, 9);
}

RLX_INLINE vf vf_ceil(vf x)
{
	return (vf)_mm512_roundscale_ps((__m512)x, 10);
}

RLX_INLINE vf vf_trunc(vf x)
{
	return (vf)_mm512_roundscale_ps((__m512)x, 11);
}

RLX_INLINE vf vf_scale2(vf x, vf n)
{
	return (vf)_mm512_scalef_ps((__m512)x, (__m512)n);
}

RLX_INLINE vf vf_gather(const float *p, vi i)
{
	return (vf)_mm512_i32gather_ps((__m512i)i, p, 4);
}

RLX_INLINE vi vi_gather(const int32_t *p, vi i)
{
	return (vi)_mm512_i32gather_epi32((__m512i)i, p, 4);
}

RLX_INLINE vf vf_from_f16(vu16h h)
{
	return (vf)_mm512_cvtph_ps((__m256i)h);
}

RLX_INLINE vu16h vf_to_f16(vf x)
{
	return (vu16h)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT |
				      _MM_FROUND_NO_EXC);
}

RLX_INLINE float vf_hsum(vf x) { return _mm512_reduce_add_ps((__m512)x); }

/* Sums of four vectors, each as the fold of vec.h has it: of halves, again and again. */
RLX_INLINE __m128 vf_hsums(vf a, vf b, vf c, vf d)
{
	const __m512i first = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
	const __m512 ab = _mm512_shuffle_f32x4((__m512)a, (__m512)b, 0x44) +
			  _mm512_shuffle_f32x4((__m512)a, (__m512)b, 0xee);
	const __m512 cd = _mm512_shuffle_f32x4((__m512)c, (__m512)d, 0x44) +
			  _mm512_shuffle_f32x4((__m512)c, (__m512)d, 0xee);
	const __m512 four = _mm512_shuffle_f32x4(ab, cd, 0x88) +
			    _mm512_shuffle_f32x4(ab, cd, 0xdd);
	const __m512 two = four + _mm512_permute_ps(four, 0x4e);
	const __m512 x = two + _mm512_permute_ps(two, 0xb1);

	return _mm512_castps512_ps128(_mm512_permutexvar_ps(first, x));
}

RLX_INLINE __m256d vd_hsums(vd a, vd b, vd c, vd d)
{
	const __m512i first = _mm512_set_epi64(0, 0, 0, 0, 6, 4, 2, 0);
	const __m512d ab = _mm512_shuffle_f64x2((__m512d)a, (__m512d)b, 0x44) +
			   _mm512_shuffle_f64x2((__m512d)a, (__m512d)b, 0xee);
	const __m512d cd = _mm512_shuffle_f64x2((__m512d)c, (__m512d)d, 0x44) +
			   _mm512_shuffle_f64x2((__m512d)c, (__m512d)d, 0xee);
	const __m512d two = _mm512_shuffle_f64x2(ab, cd, 0x88) +
			    _mm512_shuffle_f64x2(ab, cd, 0xdd);
	const __m512d x = two + _mm512_permute_pd(two, 0x55);

	return _mm512_castpd512_pd256(_mm512_permutexvar_pd(first, x));
}

RLX_INLINE float vf_hmax(vf x) { return _mm512_reduce_max_ps((__m512)x); }
RLX_INLINE float vf_hmin(vf x) { return _mm512_reduce_min_ps((__m512)x); }
RLX_INLINE int32_t vi_hsum(vi x)
{
	return _mm512_reduce_add_epi32((__m512i)x);
}

RLX_INLINE int32_t vi_hmax(vi x)
{
	return _mm512_reduce_max_epi32((__m512i)x);
}

RLX_INLINE int32_t vi_hmin(vi x)
{
	return _mm512_reduce_min_epi32((__m512i)x);
}

/* Lane i is lane at[i] of x. */
RLX_INLINE vf vf_permute(vf x, vi at)
{
	return (vf)_mm512_permutexvar_ps((__m512i)at, (__m512)x);
}

/* Lane i is lane at[i] of x, or from RLX_VL on of y. */
RLX_INLINE vf vf_permute2(vf x, vf y, vi at)
{
	return (vf)_mm512_permutex2var_ps((__m512)x, (__m512i)at, (__m512)y);
}

RLX_INLINE vd vd_permute(vd x, vl at)
{
	return (vd)_mm512_permutexvar_pd((__m512i)at, (__m512d)x);
}

/* Likewise, from RLX_VLD on. */
RLX_INLINE vd vd_permute2(vd x, vd y, vl at)
{
	return (vd)_mm512_permutex2var_pd((__m512d)x, (__m512i)at, (__m512d)y);
}

RLX_INLINE vd vd_fma(vd a, vd b, vd c)
{
	return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}

RLX_INLINE vd vd_sel(vl m, vd a, vd b)
{
	return (vd)_mm512_mask_blend_pd(_mm512_movepi64_mask((__m512i)m), (__m512d)b, (__m512d)a);
}

RLX_INLINE vd vd_min(vd a, vd b) { return (vd)_mm512_min_pd((__m512d)a, (__m512d)b); }
RLX_INLINE vd vd_max(vd a, vd b) { return (vd)_mm512_max_pd((__m512d)a, (__m512d)b); }
RLX_INLINE vd vd_scale2(vd x, vd n)
{
	return (vd)_mm512_scalef_pd((__m512d)x, (__m512d)n);
}

RLX_INLINE vd vd_loadn(const void *p, size_t n)
{
	const __mmask8 m = (__mmask8)vm_first(n < 8 ? n : 8);

	return (vd)_mm512_maskz_loadu_pd(m, p);
}

RLX_INLINE void vd_storen(void *p, vd x, size_t n)
{
	const __mmask8 m = (__mmask8)vm_first(n < 8 ? n : 8);

	_mm512_mask_storeu_pd(p, m, (__m512d)x);
}

/* By name: of a conversion gcc 12 makes one of each lane, or of halves that it joins. */
RLX_INLINE vi vi_from_i8(vi8q x) { return (vi)_mm512_cvtepi8_epi32((__m128i)x); }
RLX_INLINE vi vi_from_u8(vu8q x) { return (vi)_mm512_cvtepu8_epi32((__m128i)x); }
RLX_INLINE vi vi_from_i16(vi16h x) { return (vi)_mm512_cvtepi16_epi32((__m256i)x); }
RLX_INLINE vi vi_from_u16(vu16h x) { return (vi)_mm512_cvtepu16_epi32((__m256i)x); }
RLX_INLINE vu8q vi_low_8(vi x) { return (vu8q)_mm512_cvtepi32_epi8((__m512i)x); }
RLX_INLINE vu16h vi_low_16(vi x) { return (vu16h)_mm512_cvtepi32_epi16((__m512i)x); }

#endif
