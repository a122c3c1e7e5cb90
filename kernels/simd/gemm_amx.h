/* SPDX-License-Identifier: MIT */
/*
 * GEMM by AMX tiles: up to two tiles of A times two of B, four tiles of sums; where
 * all rows fit one tile, one of A times four of B. Packed panels are what
 * gemm_tile.h would read, K padded to whole steps: a step is sixteen groups, a tile of
 * A 64 bytes of its rows, a tile of B sixteen rows of half a panel.
 *
 * All tiles of a block's rows are alike high, so that one shape serves: the last one
 * begins further up where rows do not divide, sums some rows again and leaves them. The
 * sums of many rows go through K in parts, so that a part of the panel stays in the
 * first-level cache; where a part ends depends on K alone.
 *
 * The includer defines
 *	GT_T			type of a sum
 *	GX_KINDS		how many kinds of product there are
 *	GX_DP(kind, c, a, b)	a tile's product, for a constant kind
 *	gx_kind(g)		the kind of this product, a function declared before
 */
#include "kernels/gemm.h"
#include "kernels/simd/tile_grid.h"

#define GD_NR		32
#include "kernels/simd/gemm_pack.h"

enum {
	GX_COLS = 16,				/* of a tile of sums */
	GX_ROW = GD_NR * 4,			/* bytes of a row of a panel */
	GX_STEP = TILE_ROWS * GX_ROW,		/* bytes of a step of a panel */
	GX_AHEAD = 4 * GX_STEP,			/* prefetched before use */
};
/* Steps of a part of K: 32 KiB of a panel. */
#ifndef GX_PART
#define GX_PART		16
#endif
#define GT_NV		(GD_NR / RLX_VL)
#define GT_V		vf
#define GT_VB		vi
#define GT_FLAT_MR	TILE_ROWS
#define GD_ISA		RLX_ISA_V4_AMX
#define GD_BROW		(GT_NV * sizeof(vi))
#define GD_ROWS(g)	rlx_k_gemm_low_rows(g, GD_ISA)
#define GD_SUMS(rows)	rlx_k_gemm_low_sums(rows, GD_ISA)
#define GD_OWN_PANELS

/*
 * @a, @lda:	one or two tiles of A at this part of K, bytes between rows
 * @b, @skip:	the panel there, bytes from a panel to the next
 * @ldb, @k:	as in gemm_tile.h
 * @steps:	of this part
 * @from, @ldf:	sums to go on from, by tile row; NULL: 0
 * @c, @ldc:	where sums go, by tile row, bytes between rows
 * @next:	what to prefetch for each step: @lines of it, and of the panel behind
 *		where there are two
 */
struct gt {
	const char	*a[2], *b;
	size_t		lda, ldb, skip, k, steps;
	const char	*from[2];
	char		*c[2];
	size_t		ldf, ldc;
	const char	*next;
	size_t		lines;
};

/* With more than two tiles of B sums 2 and 3 are theirs, and 5 is B's. */
RLX_INLINE void gt_run(const struct gt *t, const int kind, const int na, const int nb)
{
	const char *a = t->a[0], *a1 = t->a[1], *b = t->b, *next = t->next, *from = t->from[0];
	const size_t skip = t->skip, lines = t->lines;
	const int two = nb < 2 ? nb : 2;
	size_t steps, i;

	tile_grid_load(from, t->from[1], TILE_COLSB, t->ldf, na, two);
	if (from && nb > 2)
		TILE_LOAD(2, from + 2 * TILE_COLSB, t->ldf);
	if (from && nb > 3)
		TILE_LOAD(3, from + 3 * TILE_COLSB, t->ldf);
	for (steps = t->steps; steps; steps--) {
#define GT_DP(c, a, b)	GX_DP(kind, c, a, b)
		TILE_GRID_STEP(GT_DP, na, two, a, a1, t->lda, b, b + TILE_COLSB, GX_ROW);
#undef GT_DP
		if (nb > 2) {
			TILE_LOAD(5, b + skip, GX_ROW);
			GX_DP(kind, 2, 4, 5);
		}
		if (nb > 3) {
			TILE_LOAD(6, b + skip + TILE_COLSB, GX_ROW);
			GX_DP(kind, 3, 4, 6);
		}
		for (i = 0; i < lines; i++)
			__builtin_prefetch(next + i * 64, 0, 2);
		for (i = 0; nb > 2 && i < lines; i++)
			__builtin_prefetch(next + skip + i * 64, 0, 2);
		a += TILE_COLSB;
		a1 += TILE_COLSB;
		b += GX_STEP;
		next += GX_STEP;
	}
	tile_grid_store(t->c[0], t->c[1], TILE_COLSB, t->ldc, na, two);
	if (nb > 2)
		TILE_STORE(2, t->c[0] + 2 * TILE_COLSB, t->ldc);
	if (nb > 3)
		TILE_STORE(3, t->c[0] + 3 * TILE_COLSB, t->ldc);
}

#define GX_GRID(kind, na, nb)						\
static void gt_##kind##_##na##nb(const struct gt *t)			\
{									\
	gt_run(t, kind, na, nb);					\
}
#define GX_GRIDS(kind)							\
	GX_GRID(kind, 1, 1) GX_GRID(kind, 1, 2) GX_GRID(kind, 1, 3)	\
	GX_GRID(kind, 1, 4) GX_GRID(kind, 2, 1) GX_GRID(kind, 2, 2)
#define GX_RUNS(kind)							\
	{ { gt_##kind##_11, gt_##kind##_12, gt_##kind##_13, gt_##kind##_14 }, \
	  { gt_##kind##_21, gt_##kind##_22, NULL, NULL } },

GX_GRIDS(0)
#if GX_KINDS > 1
GX_GRIDS(1) GX_GRIDS(2) GX_GRIDS(3)
#endif

/* by kind, tiles of A and tiles of B */
static void (*const gt_runs[GX_KINDS][2][4])(const struct gt *) = {
	GX_RUNS(0)
#if GX_KINDS > 1
	GX_RUNS(1) GX_RUNS(2) GX_RUNS(3)
#endif
};

/* Tiles that @rows take, and the rows of each. */
static inline size_t gx_tiles(size_t rows)
{
	return (rows + TILE_ROWS - 1) / TILE_ROWS;
}

static inline size_t gx_high(size_t rows)
{
	size_t n = gx_tiles(rows);

	return (rows + n - 1) / n;
}
