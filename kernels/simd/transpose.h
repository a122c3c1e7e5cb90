/* SPDX-License-Identifier: MIT */
/*
 * Square transposes of 32-bit elements in registers: interleaving the two
 * halves of the rows as often as it takes to double one to RLX_VL.
 */
#ifndef RLX_SIMD_TRANSPOSE_H
#define RLX_SIMD_TRANSPOSE_H

#include "kernels/simd/vec.h"
#include "kernels/simd/zip.h"

#if RLX_VB == 64
#define RLX_ZIP_LO	RLX_ZIP_LO_16
#define RLX_ZIP_HI	RLX_ZIP_HI_16
#elif RLX_VB == 32
#define RLX_ZIP_LO	RLX_ZIP_LO_8
#define RLX_ZIP_HI	RLX_ZIP_HI_8
#else
#define RLX_ZIP_LO	RLX_ZIP_LO_4
#define RLX_ZIP_HI	RLX_ZIP_HI_4
#endif

RLX_INLINE void vi_transpose(vi r[RLX_VL])
{
	vi t[RLX_VL];
	int step, i;

	RLX_UNROLL
	for (step = 1; step < RLX_VL; step *= 2) {
		RLX_UNROLL
		for (i = 0; i < RLX_VL / 2; i++) {
			vi a = r[i], b = r[i + RLX_VL / 2];

			t[2 * i] = __builtin_shufflevector(a, b, RLX_ZIP_LO);
			t[2 * i + 1] = __builtin_shufflevector(a, b, RLX_ZIP_HI);
		}
		RLX_UNROLL
		for (i = 0; i < RLX_VL; i++)
			r[i] = t[i];
	}
}

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
