// SPDX-License-Identifier: MIT
/* Between plain and blocked layouts. */
#include "kernels/conv.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(to_blocked_f32);
rlx_k_fn RLX_K(to_plain_f32);

#define C	RLX_VL

#ifdef __clang__
#define UNROLL	_Pragma("clang loop unroll(full)")
#else
#define UNROLL	_Pragma("GCC unroll 16")
#endif

/* a[0] b[0] a[1] b[1] ... of the lower and of the upper halves. */
#if RLX_VL == 16
#define ZIP_LO	0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define ZIP_HI	8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif RLX_VL == 8
#define ZIP_LO	0, 8, 1, 9, 2, 10, 3, 11
#define ZIP_HI	4, 12, 5, 13, 6, 14, 7, 15
#else
#define ZIP_LO	0, 4, 1, 5
#define ZIP_HI	2, 6, 3, 7
#endif

/*
 * Transpose C rows of C floats, rows @rs apart, into rows @rd apart. A stage
 * zips row i with row i + C / 2; that rotates the bits of (row, column) by
 * one, so after log2(C) stages row and column have changed places.
 */
RLX_INLINE void transpose(const float *s, size_t rs, float *d, size_t rd)
{
	vf t[16], u[16];

	UNROLL
	for (int i = 0; i < C; i++)
		t[i] = vf_loadu(s + (size_t)i * rs);
	UNROLL
	for (int w = C / 2; w; w /= 2) {
		UNROLL
		for (int i = 0; i < C / 2; i++) {
			u[2 * i] = __builtin_shufflevector(t[i], t[i + C / 2],
							   ZIP_LO);
			u[2 * i + 1] = __builtin_shufflevector(t[i],
							       t[i + C / 2],
							       ZIP_HI);
		}
		UNROLL
		for (int i = 0; i < C; i++)
			t[i] = u[i];
	}
	UNROLL
	for (int i = 0; i < C; i++)
		vf_storeu(d + (size_t)i * rd, t[i]);
}

/* @rows by @cols of a tile, both at most C, the rest read as 0. */
static void load_part(const float *s, size_t rs, size_t rows, size_t cols,
		      float *tmp)
{
	for (size_t i = 0; i < C; i++)
		vf_storeu(tmp + i * C, i < rows ? vf_loadn(s + i * rs, cols) :
						  vf_zero());
}

void RLX_K(to_blocked_f32)(const void *args, size_t begin, size_t end,
			   void *scratch)
{
	const struct rlx_k_reorder *a = args;
	size_t blocks = (a->channels + C - 1) / C;
	_Alignas(64) float tmp[C * C];

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		size_t n = u / blocks, b = u % blocks, p;
		size_t rows = a->channels - b * C;
		const float *s = a->src + n * a->src_n + b * C * a->pixels;
		float *d = a->dst + n * a->dst_n + b * C * a->pixels;

		rows = rows < C ? rows : C;
		for (p = 0; rows == C && p + C <= a->pixels; p += C)
			transpose(s + p, a->pixels, d + p * C, C);
		for (; p < a->pixels; p += C) {
			size_t cols = a->pixels - p < C ? a->pixels - p : C;

			load_part(s + p, a->pixels, rows, cols, tmp);
			transpose(tmp, C, tmp, C);
			for (size_t i = 0; i < cols; i++)
				vf_storeu(d + (p + i) * C,
					  vf_loadu(tmp + i * C));
		}
	}
}

void RLX_K(to_plain_f32)(const void *args, size_t begin, size_t end,
			 void *scratch)
{
	const struct rlx_k_reorder *a = args;
	size_t blocks = (a->channels + C - 1) / C;
	_Alignas(64) float tmp[C * C];

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		size_t n = u / blocks, b = u % blocks, p;
		size_t rows = a->channels - b * C;
		const float *s = a->src + n * a->src_n + b * C * a->pixels;
		float *d = a->dst + n * a->dst_n + b * C * a->pixels;

		rows = rows < C ? rows : C;
		for (p = 0; rows == C && p + C <= a->pixels; p += C)
			transpose(s + p * C, C, d + p, a->pixels);
		for (; p < a->pixels; p += C) {
			size_t cols = a->pixels - p < C ? a->pixels - p : C;

			load_part(s + p * C, C, cols, C, tmp);
			transpose(tmp, C, tmp, C);
			for (size_t i = 0; i < rows; i++)
				vf_storen(d + i * a->pixels + p,
					  vf_loadu(tmp + i * C), cols);
		}
	}
}
