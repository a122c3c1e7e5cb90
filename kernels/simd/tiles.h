/* SPDX-License-Identifier: MIT */
/*
 * Square transposes in registers. rlx_tr_<n>_<bits>(v) transposes n vectors of n
 * lanes in place: log2(n) stages, each exchanging the off-diagonal blocks of
 * pairs of rows. RLX_TR_F32 floats is the side of the tile for this level.
 */
#ifndef RLX_SIMD_TILES_H
#define RLX_SIMD_TILES_H

#include "kernels/simd/vec.h"

/* Row a keeps its lanes without bit h and takes b's; row b the other way. */
#define RLX_TR_A_4_2	0, 1, 4, 5
#define RLX_TR_B_4_2	2, 3, 6, 7
#define RLX_TR_A_4_1	0, 4, 2, 6
#define RLX_TR_B_4_1	1, 5, 3, 7
#define RLX_TR_A_8_4	0, 1, 2, 3, 8, 9, 10, 11
#define RLX_TR_B_8_4	4, 5, 6, 7, 12, 13, 14, 15
#define RLX_TR_A_8_2	0, 1, 8, 9, 4, 5, 12, 13
#define RLX_TR_B_8_2	2, 3, 10, 11, 6, 7, 14, 15
#define RLX_TR_A_8_1	0, 8, 2, 10, 4, 12, 6, 14
#define RLX_TR_B_8_1	1, 9, 3, 11, 5, 13, 7, 15
#define RLX_TR_A_16_8	0, 1, 2, 3, 4, 5, 6, 7, \
			16, 17, 18, 19, 20, 21, 22, 23
#define RLX_TR_B_16_8	8, 9, 10, 11, 12, 13, 14, 15, \
			24, 25, 26, 27, 28, 29, 30, 31
#define RLX_TR_A_16_4	0, 1, 2, 3, 16, 17, 18, 19, \
			8, 9, 10, 11, 24, 25, 26, 27
#define RLX_TR_B_16_4	4, 5, 6, 7, 20, 21, 22, 23, \
			12, 13, 14, 15, 28, 29, 30, 31
#define RLX_TR_A_16_2	0, 1, 16, 17, 4, 5, 20, 21, \
			8, 9, 24, 25, 12, 13, 28, 29
#define RLX_TR_B_16_2	2, 3, 18, 19, 6, 7, 22, 23, \
			10, 11, 26, 27, 14, 15, 30, 31
#define RLX_TR_A_16_1	0, 16, 2, 18, 4, 20, 6, 22, \
			8, 24, 10, 26, 12, 28, 14, 30
#define RLX_TR_B_16_1	1, 17, 3, 19, 5, 21, 7, 23, \
			9, 25, 11, 27, 13, 29, 15, 31

#define RLX_TR_STAGE(V, v, n, h)					\
	RLX_UNROLL					\
	for (int i = 0; i < (n); i++)					\
		if (!(i & (h))) {					\
			V a = v[i], b = v[i + (h)];			\
									\
			v[i] = __builtin_shufflevector(a, b,		\
						RLX_TR_A_##n##_##h);	\
			v[i + (h)] = __builtin_shufflevector(a, b,	\
						RLX_TR_B_##n##_##h);	\
		}

#define RLX_TR_TYPE(bits, n)						\
typedef uint##bits##_t rlx_v##n##x##bits				\
	__attribute__((vector_size((bits) / 8 * (n))));			\
typedef uint##bits##_t rlx_v##n##x##bits##_u				\
	__attribute__((vector_size((bits) / 8 * (n)), aligned(1), may_alias));

RLX_TR_TYPE(8, 16)
RLX_TR_TYPE(16, 8)
RLX_TR_TYPE(32, 4)
RLX_TR_TYPE(32, 8)
RLX_TR_TYPE(32, 16)
RLX_TR_TYPE(64, 4)

/*
 * dst[j * dst_ld + i] = src[i * src_ld + j] for i, j < n; strides in bytes.
 */
#define RLX_TR_TILE(bits, n, STAGES)					\
RLX_INLINE void rlx_tr_##n##_##bits(char *dst, ptrdiff_t dst_ld,	\
				    const char *src, ptrdiff_t src_ld)	\
{									\
	rlx_v##n##x##bits v[n];						\
									\
	RLX_UNROLL					\
	for (int i = 0; i < (n); i++)					\
		v[i] = *(const rlx_v##n##x##bits##_u *)(src + i * src_ld); \
	STAGES(rlx_v##n##x##bits, v)					\
	RLX_UNROLL					\
	for (int i = 0; i < (n); i++)					\
		*(rlx_v##n##x##bits##_u *)(dst + i * dst_ld) = v[i];	\
}
#define RLX_TR_4(V, v)							\
	RLX_TR_STAGE(V, v, 4, 2) RLX_TR_STAGE(V, v, 4, 1)
#define RLX_TR_8(V, v)							\
	RLX_TR_STAGE(V, v, 8, 4) RLX_TR_STAGE(V, v, 8, 2)		\
	RLX_TR_STAGE(V, v, 8, 1)
#define RLX_TR_16(V, v)							\
	RLX_TR_STAGE(V, v, 16, 8) RLX_TR_STAGE(V, v, 16, 4)		\
	RLX_TR_STAGE(V, v, 16, 2) RLX_TR_STAGE(V, v, 16, 1)

RLX_TR_TILE(8, 16, RLX_TR_16)
RLX_TR_TILE(16, 8, RLX_TR_8)
RLX_TR_TILE(64, 4, RLX_TR_4)
#if defined(RLX_V512)
#define RLX_TR_F32	16
RLX_TR_TILE(32, 16, RLX_TR_16)
#define rlx_tr_f32	rlx_tr_16_32
#elif defined(RLX_V256)
#define RLX_TR_F32	8
RLX_TR_TILE(32, 8, RLX_TR_8)
#define rlx_tr_f32	rlx_tr_8_32
#else
#define RLX_TR_F32	4
RLX_TR_TILE(32, 4, RLX_TR_4)
#define rlx_tr_f32	rlx_tr_4_32
#endif

#endif
