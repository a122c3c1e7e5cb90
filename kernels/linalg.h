/* SPDX-License-Identifier: MIT */
/* Dense linear algebra, a matrix at a time. */
#ifndef RLX_K_LINALG_H
#define RLX_K_LINALG_H

#include "kernels/type.h"

enum rlx_k_linalg_kind {
	RLX_K_CHOLESKY,		/* y[n][n] of the symmetric part of a, jitter on its diagonal */
	RLX_K_TRIANGULAR,	/* y[n][k] of a y = b by a triangle of a */
	RLX_K_SOLVE,		/* y[n][k] of a y = b by LU with partial pivoting */
	RLX_K_SLOGDET,		/* sign to y, logarithm to y2 */
};

/*
 * By blocks of 32 rows and columns, in double.
 *
 * CPU kernel: linalg. One unit is one matrix; there are batch. Scratch: rlx_k_linalg_scratch().
 */
struct rlx_k_linalg {
	const void	*a, *b;
	void		*y, *y2;
	int32_t		*bad;		/* set where a matrix is singular or not positive definite */
	int64_t		batch, n, k;
	int64_t		a_step, b_step;	/* elements from a matrix to the next; 0: it is the same */
	double		jitter;
	uint8_t		kind;
	uint8_t		type;		/* a float type of 16 bits or more */
	uint8_t		upper, transposed, unit;
};

enum { RLX_K_LINALG_BLOCK = 32 };

static inline size_t rlx_k_linalg_scratch(const struct rlx_k_linalg *a)
{
	size_t n = (size_t)a->n;

	return (n * (n + (size_t)a->k + 1 + RLX_K_LINALG_BLOCK) + 16) * sizeof(double);
}

#endif
