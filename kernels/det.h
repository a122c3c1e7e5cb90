/* SPDX-License-Identifier: MIT */
/* Determinants. GPU only. */
#ifndef RLX_K_DET_H
#define RLX_K_DET_H

#include "kernels/type.h"

/* y[i] is the determinant of x[i], n x n, by LU with partial pivoting in double. */
struct rlx_k_det {
	const void	*x;	/* [batch][n][n] */
	void		*y;	/* [batch] */
	int64_t		batch, n;
	uint8_t		type;	/* a float type of 16 bits or more */
};

#endif
