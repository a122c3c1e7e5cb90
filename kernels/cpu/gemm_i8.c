// SPDX-License-Identifier: MIT
/*
 * Integer GEMM without byte dot products: bytes widen to 16 bits and
 * multiply in pairs, which cannot saturate.
 */
#include "kernels/simd/vec.h"

#if !defined(RLX_V512) && !defined(RLX_V256) && defined(__SSE2__)
#include <emmintrin.h>
#endif

/* lanes of c plus a.low * b.low + a.high * b.high */
RLX_INLINE vi step_i16(vi c, vi a, vi b)
{
#if defined(RLX_V512)
	return c + (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(RLX_V256)
	return c + (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
	return c + (vi)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
	return c + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

/* a pair where it lies, in rows of 16-bit elements */
typedef int32_t pair_a __attribute__((aligned(2), may_alias));

#define GT_A		pair_a
#define GT_T		int32_t
#define GT_V		vi
#define GT_L		RLX_VL
#define GT_NV		2
#define GT_BV		sizeof(vi)
#define GT_STEP(c, a, b) step_i16(c, a, b)
#define GT_BCAST(x)	vi_set1(x)
#define GT_LOAD(p)	vi_loadu(p)
#define GT_LOADB(p)	vi_loadu(p)
#define GT_STORE(p, v)	vi_storeu(p, v)
#include "kernels/simd/gemm_level.h"
#include "kernels/simd/gemm_tile.h"

typedef int16_t gi_a;
#define GI_G		2
#define GI_BITS		16
#define GI_DIRECT(g, rows)	false
#define GI_A_OFF(q)	((void)(q), 0)
#define GI_B_OFF(q)	((void)(q), 0)
#include "kernels/simd/gemm_int.h"

GD_KERNEL(gemm_i8)
GD_PACK_KERNEL(gemm_i8_pack, rlx_k_gemm_i8_pack)
