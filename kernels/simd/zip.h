/* SPDX-License-Identifier: MIT */
/*
 * Lanes of two vectors that take turns, for __builtin_shufflevector(): of their lower and of their
 * higher halves, by the number of lanes; RLX_ZIP_32(LO) and RLX_ZIP_64(HI) by their bits, in
 * vectors of this level.
 */
#ifndef RLX_SIMD_ZIP_H
#define RLX_SIMD_ZIP_H

#include "kernels/simd/vec.h"

#define RLX_ZIP_LO_2	0, 2
#define RLX_ZIP_HI_2	1, 3
#define RLX_ZIP_LO_4	0, 4, 1, 5
#define RLX_ZIP_HI_4	2, 6, 3, 7
#define RLX_ZIP_LO_8	0, 8, 1, 9, 2, 10, 3, 11
#define RLX_ZIP_HI_8	4, 12, 5, 13, 6, 14, 7, 15
#define RLX_ZIP_LO_16	0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define RLX_ZIP_HI_16	8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

#if RLX_VB == 64
#define RLX_ZIP_32(half)	RLX_ZIP_##half##_16
#define RLX_ZIP_64(half)	RLX_ZIP_##half##_8
#elif RLX_VB == 32
#define RLX_ZIP_32(half)	RLX_ZIP_##half##_8
#define RLX_ZIP_64(half)	RLX_ZIP_##half##_4
#else
#define RLX_ZIP_32(half)	RLX_ZIP_##half##_4
#define RLX_ZIP_64(half)	RLX_ZIP_##half##_2
#endif

#endif
