/* SPDX-License-Identifier: MIT */
/* Every other element of memory. */
#ifndef RLX_SIMD_EVENS_H
#define RLX_SIMD_EVENS_H

#include "kernels/simd/vec.h"

/* Every other 32-bit element from @p on, out of two vectors that are read whole. */
RLX_INLINE vi vi_evens(const void *p)
{
	const vi a = vi_loadu(p), b = vi_loadu((const char *)p + RLX_VB);

#if RLX_VL == 16
	return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26,
				       28, 30);
#elif RLX_VL == 8
	return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
	return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
}

#endif
