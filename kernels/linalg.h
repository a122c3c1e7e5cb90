/* SPDX-License-Identifier: MIT */
/* Dense linear algebra, a matrix at a time. */
#ifndef RLX_K_LINALG_H
#define RLX_K_LINALG_H

#include <math.h>

#include "kernels/type.h"

enum rlx_k_linalg_kind {
	RLX_K_CHOLESKY,		/* y[n][n] of the symmetric part of a, jitter on its diagonal */
	RLX_K_TRIANGULAR,	/* y[n][k] of a y = b by a triangle of a */
	RLX_K_SOLVE,		/* y[n][k] of a y = b by LU with partial pivoting */
	RLX_K_SLOGDET,		/* sign to y, logarithm to y2 */
	RLX_K_DET,		/* the product of the pivots to y */
	RLX_K_QR,		/* y[m][k] and y2[k][n] of a[m][n], k the smaller of m and n */
	RLX_K_EIGH,		/* y[n] and y2[n][n] of the symmetric part of a */
	RLX_K_SVD,		/* y[m][k], y2[k] and y3[k][n] of a[m][n] */
	RLX_K_LINALG_KINDS,
};

/* Who else works on one matrix: fn(ctx, begin, end, worker) for ranges of units. */
struct rlx_k_team {
	void	(*run)(void *pool, void (*fn)(void *ctx, uint64_t begin, uint64_t end,
					      unsigned int worker), void *ctx, uint64_t units);
	void	*pool;
};

/*
 * By blocks of 32 rows and columns, in double; what is in them is the same whoever of the team
 * does which part.
 *
 * CPU kernels: linalg, linalg_qr, linalg_eigh, linalg_svd. One unit is one matrix, of batch, and
 * has rlx_k_linalg_scratch() bytes of scratch; with a team one unit is all, and work that large.
 */
struct rlx_k_linalg {
	const void	*a, *b;
	void		*y, *y2, *y3;
	int32_t		*bad;		/* set where a matrix is singular or not positive definite */
	int64_t		batch, m, n, k;	/* m: n, where matrices are square */
	int64_t		a_step, b_step;	/* elements from a matrix to the next; 0: it is the same */
	double		jitter;
	uint8_t		kind;
	uint8_t		type;		/* a float type of 16 bits or more */
	uint8_t		upper, transposed, unit;
	const struct rlx_k_team *team;
	void		*work;
};

enum {
	RLX_K_LINALG_BLOCK = 32,
	RLX_K_LINALG_STRIP = 32,	/* columns of what rotations are applied to */
	RLX_K_LINALG_PARTS = 8,		/* of rows that are summed one by one */
	RLX_K_LINALG_ROTATIONS = 8192,	/* at most, that are applied together */
};

static inline size_t rlx_k_linalg_strips(size_t rows)
{
	return (rows + RLX_K_LINALG_STRIP - 1) / RLX_K_LINALG_STRIP;
}

/* Doubles for @k reflections of @m rows: their blocks, one more turned, and triangles. */
static inline size_t rlx_k_linalg_reflections(size_t m, size_t k)
{
	const size_t b = RLX_K_LINALG_BLOCK;

	return ((k + b - 1) / b + 1) * (m * b + b) + k + 3 * b * b;
}

static inline size_t rlx_k_linalg_rotations(size_t n)
{
	size_t all = 64 * n + 64;

	/* a sweep is n at most */
	return all < RLX_K_LINALG_ROTATIONS ? all : RLX_K_LINALG_ROTATIONS + n;
}

static inline size_t rlx_k_linalg_scratch(const struct rlx_k_linalg *a)
{
	const size_t m = (size_t)a->m, n = (size_t)a->n, less = m < n ? m : n;
	const size_t more = m < n ? n : m, strip = RLX_K_LINALG_STRIP;
	size_t all;

	switch (a->kind) {
	case RLX_K_QR:
		all = m * n + m * less + rlx_k_linalg_reflections(m, less);
		break;
	case RLX_K_EIGH:
		all = 2 * n * n + rlx_k_linalg_strips(n) * strip * n +
		      rlx_k_linalg_reflections(n, n) + 8 * n + 3 * rlx_k_linalg_rotations(n);
		break;
	case RLX_K_SVD:
		all = more * less + more * less + less * less +
		      (rlx_k_linalg_strips(more) + rlx_k_linalg_strips(less)) * strip * less +
		      rlx_k_linalg_reflections(more, less) + rlx_k_linalg_reflections(less, less) +
		      (16 + RLX_K_LINALG_PARTS) * more + 6 * rlx_k_linalg_rotations(less);
		break;
	default:
		all = n * (n + (size_t)a->k + 1 + RLX_K_LINALG_BLOCK);
	}
	return (all + 64) * sizeof(double);
}

/*
 * What makes factors unique, as libuser/ops says for eigh and svd: the number of the largest size
 * in a column, the first of those, is positive. This is it, of what came before and @x. The
 * diagonal of qr's triangle has no negative number.
 */
static inline double rlx_k_linalg_largest(double before, double x)
{
	return fabs(x) > fabs(before) ? x : before;
}

#endif
