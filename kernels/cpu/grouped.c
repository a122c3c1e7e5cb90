// SPDX-License-Identifier: MIT
/* A product in which each row has its own matrix: an expert's rows together. */
#include <string.h>

#include "kernels/cpu/expert_rows.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(grouped);

enum { ROWS = 4, COLS = RLX_K_GROUPED_COLS };

/* Up to ROWS rows that chose the matrix at @w, times up to COLS of its columns. */
#define PRODUCT(T, FMA)							\
static void rows_##T(const struct rlx_k_grouped *a, const int64_t *row, int rows, \
		     const T *w, int64_t col, int64_t cols)		\
{									\
	const T *x[ROWS];						\
	T sum[ROWS][COLS] = { { 0 } }, line[COLS] = { 0 };		\
	int r, j;							\
									\
	for (r = 0; r < ROWS; r++)					\
		x[r] = (const T *)a->x + row[r < rows ? r : 0] * a->k;	\
	for (int64_t k = 0; k < a->k; k++, w += a->n) {			\
		const T *b = w;						\
									\
		if (cols < COLS)					\
			b = memcpy(line, w, (size_t)cols * sizeof(T));	\
		for (r = 0; r < ROWS; r++)				\
			for (j = 0; j < COLS; j++)			\
				sum[r][j] = FMA(x[r][k], b[j], sum[r][j]); \
	}								\
	for (r = 0; r < rows; r++)					\
		memcpy((T *)a->y + row[r] * a->n + col, sum[r],	\
		       (size_t)cols * sizeof(T));			\
}
PRODUCT(float, f_fma)
PRODUCT(double, d_fma)

static void some_rows(const struct rlx_k_grouped *a, const int64_t *row, int rows, int64_t e,
		      int64_t col)
{
	int64_t cols = a->n - col < COLS ? a->n - col : COLS, at = e * a->k * a->n + col;

	if (a->type == RLX_F64)
		rows_double(a, row, rows, (const double *)a->w + at, col, cols);
	else
		rows_float(a, row, rows, (const float *)a->w + at, col, cols);
}

/* A panel of columns is in a cache near by while all rows are multiplied by it. */
static void multiply(const struct rlx_k_grouped *a, const struct rlx_k_chosen *c, void *scratch)
{
	(void)scratch;
	for (int64_t col = c->col; col < c->last; col += COLS)
		for (int r = 0; r < c->n; r += ROWS)
			some_rows(a, c->row + r, c->n - r < ROWS ? c->n - r : ROWS, c->e, col);
}

void RLX_K(grouped)(const void *args, size_t begin, size_t end, void *scratch)
{
	rlx_k_each_expert(args, begin, end, COLS, multiply, scratch);
}
