/* SPDX-License-Identifier: MIT */
/* Reductions over any set of axes, arg-reductions, and running sums. */
#ifndef RLX_K_REDUCE_H
#define RLX_K_REDUCE_H

#include "kernels/type.h"

enum rlx_k_reduce_op {
	RLX_K_REDUCE_SUM,
	RLX_K_REDUCE_MEAN,	/* of integers truncated */
	RLX_K_REDUCE_MAX,		/* NaN wins */
	RLX_K_REDUCE_MIN,
	RLX_K_REDUCE_PROD,
	RLX_K_REDUCE_OPS,
};

/*
 * Kernel: reduce. y, dense over the kept dimensions in order, is x, dense over
 * dim, reduced over those d with bit d of @axes set. f16, bf16 and fp8 accumulate
 * in f32, integers and bool wrap in 64 bits and then in their type, or in it.
 * f32 sums are folded in blocks, so the error grows with log n rather than n.
 * Over nothing: 0 for sums, 1 for prod, the lowest (max) or highest (min) value
 * of f32, f64, i64 or i32; the mean of nothing is NaN, integers have none.
 * Fill the upper members, call rlx_k_reduce_plan once; later only pointers may
 * change. There are rlx_k_reduce_units(); scratch is RLX_K_REDUCE_SCRATCH.
 * One unit is @per results (last axis reduced) or up to rlx_k_reduce_cols()
 * neighbouring ones.
 */
#define RLX_K_REDUCE_COLS	1024
#define RLX_K_ARGREDUCE_COLS	512
/* So many of a row's elements, of sixteen lanes, and of rows f32 adds up before a double does. */
#define RLX_K_REDUCE_RUN	4096
#define RLX_K_REDUCE_PART	128
#define RLX_K_REDUCE_FOLD	64	/* most of .fold */
#define RLX_K_REDUCE_SCRATCH	(7 * RLX_K_REDUCE_COLS * 8)

struct rlx_k_reduce {
	const void	*x;
	void		*y;
	int		rank;
	int64_t		dim[RLX_K_DIMS];
	uint32_t	axes;
	uint8_t		op, type;
	bool		squares;	/* of floats, and sums: what is added is squared */
	bool		strict;		/* results' bits do not hang on how many there are */
	const void	*by;		/* or times that; like x */
	const void	*centre;	/* it is less that, one for each result */
	void		*by_sum;	/* of @by alone, like y */
	/* set by rlx_k_reduce_plan */
	int64_t		n_out, n_red, per;
	int64_t		fold;		/* last axis kept: rows that are taken as one long one */
};

/*
 * Of @inner columns of each of @outer matrices of n rows as many as a unit takes: even shares of
 * @most or less, of four or so units at least where there is work for them.
 */
static inline int64_t rlx_k_even_cols(int64_t outer, int64_t n, int64_t inner, int64_t most)
{
	int64_t k = (inner + most - 1) / most, cols;

	if (outer < 4 && k < 4 && inner >= 256 && n * inner >= 32768)
		k = 4;
	cols = (inner + k - 1) / (k ? k : 1);
	return cols <= 64 ? 64 : (cols + 15) / 16 * 16;
}

/* Where the last axis is kept. */
static inline int64_t rlx_k_reduce_cols(const struct rlx_k_reduce *a)
{
	int64_t last = a->dim[a->rank - 1], outer = last ? a->n_out / last : 0;

	/* whether a unit has all columns, and folds rows, is not to hang on how many there are */
	return rlx_k_even_cols(a->strict && outer < 4 ? 4 : outer, a->n_red, last,
			       RLX_K_REDUCE_COLS);
}

/*
 * Rows of few columns are taken as fewer and longer ones, which are folded in the end: as many of 4
 * and 8 columns, blocks of channels, as of 16.
 */
static inline int64_t rlx_k_reduce_fold(const struct rlx_k_reduce *a)
{
	const int64_t last = a->dim[a->rank - 1], rows = a->rank > 1 ? a->dim[a->rank - 2] : 1;
	int64_t k = 1;

	if (a->axes >> (a->rank - 1) & 1 || !last || rlx_k_reduce_cols(a) < last)
		return 1;
	while (2 * k * (last < 16 ? 16 : last) <= RLX_K_REDUCE_COLS && 2 * k <= rows)
		k *= 2;
	return k;
}

/* Parts of a column of uncut rows that know nothing of each other; of products, one. */
static inline int64_t rlx_k_reduce_parts(const struct rlx_k_reduce *a)
{
	const int64_t rows = a->rank > 1 ? a->dim[a->rank - 2] : 1;

	if (a->op == RLX_K_REDUCE_PROD || rows != a->n_red || rows <= RLX_K_REDUCE_PART)
		return 1;
	return (rows / a->fold + (rows % a->fold > 0) + RLX_K_REDUCE_PART - 1) / RLX_K_REDUCE_PART;
}

static inline void rlx_k_reduce_plan(struct rlx_k_reduce *a)
{
	uint32_t axes = 0;
	int n = 0;

	a->n_out = a->n_red = 1;
	for (int d = 0; d < a->rank; d++) {
		uint32_t bit = a->axes >> d & 1;
		bool same = n > 0 && (axes >> (n - 1) & 1) == bit;

		if (bit)
			a->n_red *= a->dim[d];
		else
			a->n_out *= a->dim[d];
		if (a->dim[d] == 1)
			continue;
		if (same) {
			a->dim[n - 1] *= a->dim[d];
			continue;
		}
		a->dim[n] = a->dim[d];
		axes |= bit << n;
		n++;
	}
	if (n == 0) {
		a->dim[0] = 1;
		n = 1;
	}
	a->rank = n;
	a->axes = axes;
	a->per = a->n_red < 16384 ? 16384 / (a->n_red ? a->n_red : 1) : 1;
	a->fold = rlx_k_reduce_fold(a);
}

/*
 * Units from @u on, before @end, that a kernel whose columns know nothing of each other takes
 * as one: neighbours of one matrix, with @most columns together. Long rows are fetched ahead of
 * where short pieces of them are not.
 */
static inline size_t rlx_k_joined_cols(size_t u, size_t end, int64_t cols, int64_t inner,
				       int64_t most)
{
	const size_t blocks = (size_t)((inner + cols - 1) / cols), left = blocks - u % blocks;
	const size_t few = cols < most ? (size_t)(most / cols) : 1;
	const size_t n = end - u < left ? end - u : left;

	return n < few ? n : few;
}

static inline size_t rlx_k_reduce_units(const struct rlx_k_reduce *a)
{
	int64_t last = a->dim[a->rank - 1], cols = rlx_k_reduce_cols(a);

	if (a->n_out == 0)
		return 0;
	if (a->axes >> (a->rank - 1) & 1)
		return (size_t)((a->n_out + a->per - 1) / a->per);
	return (size_t)(a->n_out / last * ((last + cols - 1) / cols));
}

/*
 * Kernel: argreduce. x is [outer, n, inner], idx is [outer, inner]: the index
 * along n of the largest (or smallest) value; NaN beats all. Of equals the
 * first, or the last if @last. n is at least 1. One unit is one
 * (outer, up to rlx_k_argreduce_cols() inner); there are rlx_k_argreduce_units().
 * Scratch: RLX_K_REDUCE_SCRATCH.
 */
struct rlx_k_argreduce {
	const void	*x;
	void		*idx;
	int64_t		outer, n, inner;
	uint8_t		type, idx_type;		/* idx: i64 or i32 */
	bool		min, last;
};

static inline int64_t rlx_k_argreduce_cols(const struct rlx_k_argreduce *a)
{
	return rlx_k_even_cols(a->outer, a->n, a->inner, RLX_K_ARGREDUCE_COLS);
}

static inline size_t rlx_k_argreduce_units(const struct rlx_k_argreduce *a)
{
	int64_t cols = rlx_k_argreduce_cols(a);

	return (size_t)(a->outer * ((a->inner + cols - 1) / cols));
}

/*
 * Kernel: scan. Running sums or products of [outer, n, inner] along n; at i
 * over j <= i, j < i if @exclusive, from the other end if @reverse. f32 and
 * f16 and bf16 accumulate in f64, integers wrap. x and y may be the same memory. One
 * unit is one (outer, up to rlx_k_scan_cols() inner); there are
 * rlx_k_scan_units(). Scratch: RLX_K_REDUCE_SCRATCH.
 */
#define RLX_K_SCAN_COLS	2048

struct rlx_k_scan {
	const void	*x;
	void		*y;
	int64_t		outer, n, inner;
	uint8_t		type;
	bool		prod, exclusive, reverse;
	bool		strict;		/* one addition after the other */
};

static inline int64_t rlx_k_scan_cols(const struct rlx_k_scan *a)
{
	return rlx_k_even_cols(a->outer, a->n, a->inner, RLX_K_SCAN_COLS);
}

static inline size_t rlx_k_scan_units(const struct rlx_k_scan *a)
{
	int64_t cols = rlx_k_scan_cols(a);

	return (size_t)(a->outer * ((a->inner + cols - 1) / cols));
}

#endif
