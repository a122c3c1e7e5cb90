/* SPDX-License-Identifier: MIT */
/*
 * Square transposes in registers: interleaving the two halves of the rows as
 * often as it takes to double one to the number of lanes.
 */
#ifndef RLX_SIMD_TRANSPOSE_H
#define RLX_SIMD_TRANSPOSE_H

#include "kernels/simd/vec.h"
#include "kernels/simd/zip.h"

#define RLX_TRANSPOSE(name, V, n, zip)						\
RLX_INLINE void name(V r[n])							\
{										\
	V t[n];									\
										\
	RLX_UNROLL								\
	for (int step = 1; step < (n); step *= 2) {				\
		RLX_UNROLL							\
		for (int i = 0; i < (n) / 2; i++) {				\
			V a = r[i], b = r[i + (n) / 2];				\
										\
			t[2 * i] = __builtin_shufflevector(a, b, zip(LO));	\
			t[2 * i + 1] = __builtin_shufflevector(a, b, zip(HI));	\
		}								\
		RLX_UNROLL							\
		for (int i = 0; i < (n); i++)					\
			r[i] = t[i];						\
	}									\
}
RLX_TRANSPOSE(vi_transpose, vi, RLX_VL, RLX_ZIP_32)
RLX_TRANSPOSE(vf_transpose, vf, RLX_VL, RLX_ZIP_32)
RLX_TRANSPOSE(vd_transpose, vd, RLX_VLD, RLX_ZIP_64)

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
