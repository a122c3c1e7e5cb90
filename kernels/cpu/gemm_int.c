// SPDX-License-Identifier: MIT
/* GEMM of integers, modulo the result's range. */
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/type.h"

rlx_k_fn RLX_K(gemm_int);

/* columns of a block, products at once, elements of a's rows held */
enum { COLS = 512, STEP = 4, HELD = 64 };

/* Elements [0, n) of any integer type as one of @T, by their low bits. */
#define WIDEN_AS(T, type, of)						\
	do {								\
		const type *s = p;					\
									\
		for (i = 0; i < n; i++)					\
			d[i] = (T)(of s[i]);				\
	} while (0)

/* The low @size bytes of n numbers of @wide bytes. */
static void narrow(char *to, const void *from, size_t wide, size_t size, size_t n)
{
	const uint32_t *s = from;
	size_t i;

	if (size == wide)
		memcpy(to, from, n * size);
	else if (size == 2)
		for (i = 0; i < n; i++)
			((uint16_t *)(void *)to)[i] = (uint16_t)s[i];
	else
		for (i = 0; i < n; i++)
			((uint8_t *)to)[i] = (uint8_t)s[i];
}

/*
 * Up to RLX_K_GEMM_INT_ROWS rows times COLS columns, with sums of @T, STEP lines of b at a
 * time; what is held of a's last piece from the one before meets lines of 0.
 */
#define PRODUCT(T)							\
static void widen_##T(T *restrict d, const void *restrict p, int type, size_t n) \
{									\
	size_t i;							\
									\
	switch (type) {							\
	case RLX_I8:	WIDEN_AS(T, int8_t, ); return;			\
	case RLX_U8:	WIDEN_AS(T, uint8_t, ); return;			\
	case RLX_BOOL: WIDEN_AS(T, uint8_t, !!); return;		\
	case RLX_I16:	WIDEN_AS(T, int16_t, ); return;			\
	case RLX_U16:	WIDEN_AS(T, uint16_t, ); return;			\
	case RLX_I32:	WIDEN_AS(T, int32_t, ); return;			\
	case RLX_U32:	WIDEN_AS(T, uint32_t, ); return;			\
	default:	WIDEN_AS(T, uint64_t, ); return;			\
	}								\
}									\
									\
static void add_##T(T (*restrict sum)[COLS], T (*restrict line)[COLS],	\
		    const T *restrict x, size_t rows, size_t cols)	\
{									\
	for (size_t r = 0; r < rows; r++, x += HELD) {			\
		const T x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];	\
		T *restrict s = sum[r];					\
									\
		for (size_t j = 0; j < cols; j++)			\
			s[j] += (x0 * line[0][j] + x1 * line[1][j]) +	\
				(x2 * line[2][j] + x3 * line[3][j]);	\
	}								\
}									\
									\
static void block_##T(const struct rlx_k_gemm *g, const char *a, const char *b, \
		      char *c, size_t rows, size_t cols)		\
{									\
	size_t as = rlx_k_type_size(g->a_type);				\
	size_t bs = rlx_k_type_size(g->b_type);				\
	size_t cs = rlx_k_type_size(g->c_type), k, r, j;		\
	T sum[RLX_K_GEMM_INT_ROWS][COLS], line[STEP][COLS];		\
	T x[RLX_K_GEMM_INT_ROWS][HELD] = { 0 };				\
									\
	for (r = 0; r < rows; r++)					\
		memset(sum[r], 0, cols * sizeof(T));			\
	for (k = 0; k < g->k; k += STEP) {				\
		size_t n = g->k - k < STEP ? g->k - k : STEP;		\
									\
		for (j = 0; j < STEP; j++)				\
			if (j < n)					\
				widen_##T(line[j], b + (k + j) * g->ldb * bs, \
					  (int)g->b_type, cols);		\
			else						\
				memset(line[j], 0, cols * sizeof(T));	\
		for (r = 0; r < rows && k % HELD == 0; r++)		\
			widen_##T(x[r], a + (r * g->lda + k) * as, (int)g->a_type, \
				  g->k - k < HELD ? g->k - k : HELD);	\
		add_##T(sum, line, x[0] + k % HELD, rows, cols);	\
	}								\
	for (r = 0; r < rows; r++, c += g->ldc * cs)			\
		narrow(c, sum[r], sizeof(T), cs, cols);			\
}
PRODUCT(uint32_t)
PRODUCT(uint64_t)

void RLX_K(gemm_int)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_gemm *g = args;
	size_t blocks = rlx_k_gemm_int_blocks(g), in = g->batch[1] ? g->batch[1] : 1;
	size_t as = rlx_k_type_size(g->a_type);
	size_t bs = rlx_k_type_size(g->b_type);
	size_t cs = rlx_k_type_size(g->c_type);

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		size_t x = u / blocks / in, y = u / blocks % in;
		size_t row = u % blocks * RLX_K_GEMM_INT_ROWS, rows = g->m - row, j;
		const char *a = (const char *)g->a + (x * g->a_step[0] + y * g->a_step[1] +
						      row * g->lda) * as;
		const char *b = (const char *)g->b + (x * g->b_step[0] + y * g->b_step[1]) * bs;
		char *c = (char *)g->c + (x * g->c_step[0] + y * g->c_step[1] +
					  row * g->ldc) * cs;

		rows = rows < RLX_K_GEMM_INT_ROWS ? rows : RLX_K_GEMM_INT_ROWS;
		for (j = 0; j < g->n; j += COLS) {
			size_t cols = g->n - j < COLS ? g->n - j : COLS;

			if (cs == 8)
				block_uint64_t(g, a, b + j * bs, c + j * cs, rows, cols);
			else
				block_uint32_t(g, a, b + j * bs, c + j * cs, rows, cols);
		}
	}
}
