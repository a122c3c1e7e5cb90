// SPDX-License-Identifier: MIT
/*
 * 8-bit convolution in pairs of 16-bit products; zero points are taken off
 * while values are widened.
 */
#include "kernels/simd/vec.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define DEPTH	2
typedef int16_t i8_elem;

RLX_INLINE vi i8_dot(vi acc, vi x, vi w)
{
#if defined(RLX_V512)
	vu p = (vu)_mm512_madd_epi16((__m512i)x, (__m512i)w);
#elif defined(RLX_V256)
	vu p = (vu)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#elif defined(__SSE2__)
	vu p = (vu)_mm_madd_epi16((__m128i)x, (__m128i)w);
#else
	vu p = (vu)((x << 16 >> 16) * (w << 16 >> 16)) +
	       (vu)((x >> 16) * (w >> 16));
#endif

	/* unsigned: sums may wrap */
	return (vi)((vu)acc + p);
}

#include "kernels/cpu/conv_i8.h"
