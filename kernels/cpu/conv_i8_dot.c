// SPDX-License-Identifier: MIT
/*
 * 8-bit convolution by dot products of four unsigned by four signed bytes.
 * The zero points come in afterwards, from sums of weights and of inputs.
 */
#include <immintrin.h>

#include "kernels/simd/vec.h"

#define DEPTH	4
typedef uint8_t i8_elem;

RLX_INLINE vi i8_dot(vi acc, vi x, vi w)
{
	return (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)x, (__m512i)w);
}

#include "kernels/cpu/conv_i8.h"
