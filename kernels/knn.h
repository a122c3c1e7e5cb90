/* SPDX-License-Identifier: MIT */
/* Nearest neighbours, of candidates for them. */
#ifndef RLX_K_KNN_H
#define RLX_K_KNN_H

#include "kernels/type.h"

enum {
	RLX_K_KNN_THREADS	= 128,
	RLX_K_KNN_MOST		= 4096,		/* candidates of a row */
	RLX_K_KNN_TERMS		= 6,
};

/*
 * GPU kernel: knn. Of row i of x the @k nearest of its candidates, the rows near[i] of y, the
 * nearest first, ties to the lower id, a distance of NaN as infinity. With @self y is x, and row i
 * is point first + i, which is no neighbour of itself. With @near NULL distance[i] is the square of
 * row i's length, and nothing else is read.
 * With @split that is written alone, of x in f32: each number as RLX_K_KNN_TERMS of bf16, of which
 * those of the @left operand and of the other multiply and add up to the product of two numbers.
 */
struct rlx_k_knn {
	const void	*x, *y;		/* [rows][d], [][d] */
	const int32_t	*near;		/* [rows][kept] */
	float		*distance;	/* [rows][k] */
	int32_t		*ids;		/* [rows][k] */
	void		*split;		/* [rows][RLX_K_KNN_TERMS][d] */
	int64_t		rows, first, d, kept, k;
	uint8_t		type;		/* of x and y: f32, f16 or bf16 */
	bool		product;	/* distances are -x y; else |x - y|^2, or with @root |x - y| */
	bool		root, self, left;
};

#endif
