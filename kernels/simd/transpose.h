/* SPDX-License-Identifier: MIT */
/*
 * Square transposes in registers: interleaving the two halves of the rows as
 * often as it takes to double one to the number of lanes. Of 32 bytes no
 * instruction interleaves whole vectors: their halves are brought where they
 * belong, then each half is a square of half as many rows.
 */
#ifndef RLX_SIMD_TRANSPOSE_H
#define RLX_SIMD_TRANSPOSE_H

#include "kernels/simd/vec.h"
#include "kernels/simd/zip.h"

#if RLX_VB == 32
enum { RLX_TRANSPOSE_PARTS = 2 };
#define RLX_TRANSPOSE_LO_8	0, 8, 1, 9, 4, 12, 5, 13
#define RLX_TRANSPOSE_HI_8	2, 10, 3, 11, 6, 14, 7, 15
#define RLX_TRANSPOSE_LO_4	0, 4, 2, 6
#define RLX_TRANSPOSE_HI_4	1, 5, 3, 7
#define RLX_TRANSPOSE_32(half)	RLX_TRANSPOSE_##half##_8
#define RLX_TRANSPOSE_64(half)	RLX_TRANSPOSE_##half##_4
#define RLX_HALVES_LO_8		0, 1, 2, 3, 8, 9, 10, 11
#define RLX_HALVES_HI_8		4, 5, 6, 7, 12, 13, 14, 15
#define RLX_HALVES_LO_4		0, 1, 4, 5
#define RLX_HALVES_HI_4		2, 3, 6, 7
#define RLX_HALVES_32(half)	RLX_HALVES_##half##_8
#define RLX_HALVES_64(half)	RLX_HALVES_##half##_4
#else
enum { RLX_TRANSPOSE_PARTS = 1 };
#define RLX_TRANSPOSE_32	RLX_ZIP_32
#define RLX_TRANSPOSE_64	RLX_ZIP_64
#define RLX_HALVES_32		RLX_ZIP_32
#define RLX_HALVES_64		RLX_ZIP_64
#endif

/* name_halves(): of rows whose halves are where they belong. */
#define RLX_TRANSPOSE(name, V, n, zip, halves)					\
RLX_INLINE void name##_halves(V r[n])						\
{										\
	const int m = (n) / RLX_TRANSPOSE_PARTS;				\
	V t[n];									\
										\
	RLX_UNROLL								\
	for (int step = 1; step < m; step *= 2) {				\
		RLX_UNROLL							\
		for (int i = 0; i < (n) / 2; i++) {				\
			const int at = i / (m / 2) * m + i % (m / 2);		\
			V a = r[at], b = r[at + m / 2];				\
										\
			t[2 * i] = __builtin_shufflevector(a, b, zip(LO));	\
			t[2 * i + 1] = __builtin_shufflevector(a, b, zip(HI));	\
		}								\
		RLX_UNROLL							\
		for (int i = 0; i < (n); i++)					\
			r[i] = t[i];						\
	}									\
}										\
RLX_INLINE void name(V r[n])							\
{										\
	const int m = (n) / RLX_TRANSPOSE_PARTS;				\
										\
	RLX_UNROLL								\
	for (int i = 0; m < (n) && i < m; i++) {				\
		V a = r[i], b = r[(i + m) % (n)];				\
										\
		r[i] = __builtin_shufflevector(a, b, halves(LO));		\
		r[(i + m) % (n)] = __builtin_shufflevector(a, b, halves(HI));	\
	}									\
	name##_halves(r);							\
}
RLX_TRANSPOSE(vi_transpose, vi, RLX_VL, RLX_TRANSPOSE_32, RLX_HALVES_32)
RLX_TRANSPOSE(vf_transpose, vf, RLX_VL, RLX_TRANSPOSE_32, RLX_HALVES_32)
RLX_TRANSPOSE(vd_transpose, vd, RLX_VLD, RLX_TRANSPOSE_64, RLX_HALVES_64)

/*
 * dst[j][i] = src[i][j] for i < ni and j < nj; strides in bytes. Where i is at
 * or past ni up to the next multiple of RLX_VL, dst gets zeros.
 */
static __attribute__((unused))
void vi_transpose_block(const char *src, size_t lds, char *dst, size_t ldd,
			size_t ni, size_t nj)
{
	size_t i, j, y;

	for (i = 0; i < ni; i += RLX_VL) {
		size_t h = ni - i < RLX_VL ? ni - i : RLX_VL;

		for (j = 0; j < nj; j += RLX_VL) {
			size_t w = nj - j < RLX_VL ? nj - j : RLX_VL;
			const char *s = src + i * lds + j * 4;
			char *d = dst + j * ldd + i * 4;
			vi r[RLX_VL];

			RLX_UNROLL
			for (y = 0; y < RLX_VL; y++)
				r[y] = y < h ? vi_loadn(s + y * lds, w) :
				       vi_zero();
			vi_transpose(r);
			RLX_UNROLL
			for (y = 0; y < RLX_VL; y++)
				if (y < w)
					vi_storeu(d + y * ldd, r[y]);
		}
	}
}

#endif
