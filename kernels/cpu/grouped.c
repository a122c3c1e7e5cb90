// SPDX-License-Identifier: MIT
/* A product in which each row has its own matrix: an expert's rows together. */
#include <string.h>

#include "kernels/cpu/index_at.h"
#include "kernels/grouped.h"

rlx_k_fn RLX_K(grouped);

enum { ROWS = 4, COLS = RLX_K_GROUPED_COLS };

/* Up to ROWS rows that chose the matrix at @w, times up to COLS of its columns. */
#define PRODUCT(T)							\
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
				sum[r][j] += x[r][k] * b[j];		\
	}								\
	for (r = 0; r < rows; r++)					\
		memcpy((T *)a->y + row[r] * a->n + col, sum[r],	\
		       (size_t)cols * sizeof(T));			\
}
PRODUCT(float)
PRODUCT(double)

static void some_rows(const struct rlx_k_grouped *a, const int64_t *row, int rows, int64_t e,
		      int64_t col)
{
	int64_t cols = a->n - col < COLS ? a->n - col : COLS, at = e * a->k * a->n + col;

	if (a->type == RLX_F64)
		rows_double(a, row, rows, (const double *)a->w + at, col, cols);
	else
		rows_float(a, row, rows, (const float *)a->w + at, col, cols);
}

void RLX_K(grouped)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_grouped *a = args;
	size_t panels = (size_t)((a->n + COLS - 1) / COLS);

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		int64_t e = (int64_t)(u / panels), col = (int64_t)(u % panels) * COLS;
		int64_t row[ROWS], i;
		int n = 0;

		for (i = 0; i < a->live; i++) {
			if (rlx_k_index_at(a->idx, a->idx_type, (size_t)i, a->experts,
					   a->bad) != e)
				continue;
			row[n++] = i;
			if (n == ROWS)
				some_rows(a, row, n, e, col);
			n %= ROWS;
		}
		if (n)
			some_rows(a, row, n, e, col);
	}
}
