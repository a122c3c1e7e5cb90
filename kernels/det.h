/* SPDX-License-Identifier: MIT */
/* Determinants. */
#ifndef RLX_K_DET_H
#define RLX_K_DET_H

#include "kernels/type.h"

/*
 * y[i] is the determinant of x[i], n x n, by LU with partial pivoting in double.
 *
 * CPU kernel: det. One unit is one matrix; there are batch. Scratch: 0.
 */
struct rlx_k_det {
	const void	*x;	/* [batch][n][n] */
	void		*y;	/* [batch] */
	int64_t		batch, n;
	uint8_t		type;	/* a float type of 16 bits or more */
	double		*work;	/* CPU alone: [batch][n][n] */
};

#endif
