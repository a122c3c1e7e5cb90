/* SPDX-License-Identifier: MIT */
/*
 * Rows of A times B by columns as dot products along vectors of K, for gemm_drive.h, which
 * says what GD_DOT, gd_dot_a() and gd_dot_b() are. Where rows are few, each column of B is
 * read from memory once, and nothing is copied.
 */
#include "kernels/simd/wide.h"

/*
 * A sum has RLX_WIDE vectors, so that each level adds the same numbers in the same order. Rows at
 * a time, if the includer has no number, and by @rows of them columns, no more than GD_DOT_COLS:
 * as many sums as registers hold.
 */
#define GD_DOT_COLS	4
#ifdef RLX_V512
#define GD_DOT_AT(rows)	GD_DOT_COLS
#elif RLX_WIDE > 1
#define GD_DOT_AT(rows)	((rows) < 2 ? GD_DOT_COLS : 2)
#else
#define GD_DOT_AT(rows)	((rows) < 4 ? GD_DOT_COLS : 2)
#endif
#ifdef GD_DOT_ROWS
#elif defined(RLX_V512)
#define GD_DOT_ROWS	6
#elif RLX_WIDE > 1
#define GD_DOT_ROWS	3
#else
#define GD_DOT_ROWS	4
#endif

/* Bytes from row to row and from column to column; sums go @row and @col apart. */
struct gd_dot {
	const char	*a, *b;
	size_t		lda, ldb, cols, k, part;
	GT_T		*out;
	size_t		row, col;
};

typedef GT_V gd_acc[GD_DOT_ROWS][GD_DOT_COLS][RLX_WIDE];

/* Sums of the elements [@k, @k + @n), no more than RLX_WIDE vectors have. */
RLX_INLINE void gd_dot_step(const struct gd_dot *p, const char *const b[GD_DOT_COLS], size_t k,
			    size_t n, const int rows, gd_acc acc)
{
	const int cols = GD_DOT_AT(rows);

	RLX_UNROLL
	for (size_t w = 0; w < RLX_WIDE; w++) {
		const size_t at = w * GD_DOT, left = n > at ? n - at : 0;
		const size_t part = left < GD_DOT ? left : GD_DOT;
		GT_VB av[GD_DOT_ROWS];

		RLX_UNROLL
		for (int i = 0; i < rows; i++)
			av[i] = gd_dot_a(p->a + (size_t)i * p->lda, k + at, part);
		RLX_UNROLL
		for (int j = 0; j < cols; j++) {
			GT_VB bv = gd_dot_b(b[j], k + at, part);

			RLX_UNROLL
			for (int i = 0; i < rows; i++)
				acc[i][j][w] = GT_STEP(acc[i][j][w], av[i], bv);
		}
	}
}

/* A sum's vectors as one: halves of lanes are added up. */
RLX_INLINE GT_V gd_dot_fold(GT_V acc[RLX_WIDE])
{
	RLX_UNROLL
	for (int half = RLX_WIDE / 2; half; half /= 2)
		RLX_UNROLL
		for (int w = 0; w < half; w++)
			acc[w] += acc[w + half];
	return acc[0];
}

/* Four sums, also as they lie in memory. */
typedef GT_T gd_four __attribute__((vector_size(4 * sizeof(GT_T))));
typedef gd_four gd_four_u __attribute__((aligned(sizeof(GT_T))));

/* Sums of the part from @k on, which are added to @sum, column by column. */
RLX_INLINE void gd_dot_part(const struct gd_dot *p, const char *const b[GD_DOT_COLS], size_t k,
			    const int rows, const int cols, gd_four *sum)
{
	const size_t end = p->k - k < p->part ? p->k : k + p->part;
	gd_acc acc = { { { { 0 } } } };

	for (; end - k >= GD_DOT * RLX_WIDE; k += GD_DOT * RLX_WIDE)
		gd_dot_step(p, b, k, GD_DOT * RLX_WIDE, rows, acc);
	if (k < end)
		gd_dot_step(p, b, k, end - k, rows, acc);
	RLX_UNROLL
	for (int i = 0; i < rows * cols; i += 4) {
		GT_V four[4];
		gd_four_u sums = { 0 };

		RLX_UNROLL
		for (int q = 0; q < 4; q++)
			four[q] = i + q < rows * cols ?
				  gd_dot_fold(acc[(i + q) % rows][(i + q) / rows]) : (GT_V){ 0 };
		GD_DOT_SUMS(four, (GT_T *)&sums);
		sum[i / 4] += sums;
	}
}

/* Those of @cols columns from @j on; behind the last it is taken again. */
RLX_INLINE void gd_dot_some(const struct gd_dot *p, size_t j, const int rows, const int cols)
{
	const int fours = (rows * cols + 3) / 4;
	gd_four sum[GD_DOT_ROWS * GD_DOT_COLS / 4] = { { 0 } };
	const GT_T *from = (const GT_T *)sum;
	GT_T *out = p->out + j * p->col;
	const char *b[GD_DOT_COLS];
	int i, q;

	RLX_UNROLL
	for (q = 0; q < cols; q++)
		b[q] = p->b + (j + q < p->cols ? j + q : j) * p->ldb;
	for (size_t k = 0; k < p->k; k += p->part)
		gd_dot_part(p, b, k, rows, cols, sum);
	if (rows * cols % 4 == 0 && p->row == 1 && p->col == (size_t)rows) {
		RLX_UNROLL
		for (i = 0; i < fours; i++)
			((gd_four_u *)out)[i] = sum[i];
		return;
	}
	for (q = 0; q < cols; q++)
		for (i = 0; i < rows; i++)
			out[(size_t)i * p->row + (size_t)q * p->col] = from[q * rows + i];
}

#define GD_DOT_FN(rows)							\
static void gd_dot_##rows(const struct gd_dot *given)			\
{									\
	const struct gd_dot p = *given;	/* which stores do not change */ \
									\
	for (size_t j = 0; j < p.cols; j += GD_DOT_AT(rows))		\
		gd_dot_some(&p, j, rows, GD_DOT_AT(rows));		\
}
GD_DOT_FN(1)
GD_DOT_FN(2)
#if GD_DOT_ROWS > 2
GD_DOT_FN(3)
#endif
#if GD_DOT_ROWS > 3
GD_DOT_FN(4)
#endif
#if GD_DOT_ROWS > 4
GD_DOT_FN(5)
GD_DOT_FN(6)
#endif

/* By rows. */
static void (*const gd_dot_fns[])(const struct gd_dot *) = {
	NULL, gd_dot_1, gd_dot_2,
#if GD_DOT_ROWS > 2
	gd_dot_3,
#endif
#if GD_DOT_ROWS > 3
	gd_dot_4,
#endif
#if GD_DOT_ROWS > 4
	gd_dot_5, gd_dot_6,
#endif
};

/* The block's rows times @cols columns from @col on. */
static void gd_dots(struct gd *d, size_t col, size_t cols)
{
	const bool turned = d->turned || d->rows == 1;
	size_t groups = (d->rows + GD_DOT_ROWS - 1) / GD_DOT_ROWS, i = 0, y;
	size_t ldb = d->g->ldb * gd_b_size(d->g);
	GT_T *out = d->turned ? d->turned : d->tile;
	struct gd_dot p = {
		.b = d->b + col * ldb, .lda = d->lda, .ldb = ldb, .cols = cols,
		.k = d->g->k, .part = d->part,
		.row = turned ? 1 : GD_NR, .col = turned ? d->rows : 1,
	};

	for (y = 0; y < groups; y++) {
		size_t rows = d->rows * (y + 1) / groups - i;

		p.a = d->a + i * d->lda;
		p.out = out + i * p.row;
		gd_dot_fns[rows](&p);
		i += rows;
	}
	d->ldt = GD_NR;
	if (d->turned)
		gd_finish_turned(d, 0, d->rows, col, cols);
	else
		gd_finish(d, 0, d->rows, col, cols);
}
