/* SPDX-License-Identifier: MIT */
/* The largest or smallest value of a row, which reductions and arg-reductions share. */
#ifndef RLX_CPU_ROW_END_H
#define RLX_CPU_ROW_END_H

#include "kernels/kernel.h"

/* By class (enum rlx_k_ew_class): @f of f32, @d of f64, @i of i64. */
union rlx_value_of {
	float		f;
	double		d;
	uint64_t	i;
};

/* Of each of @rows rows of n values of a class the largest, or the smallest; NaN if one is. */
void RLX_K(row_end)(int cls, void *to, const void *x, size_t rows, size_t n, bool min);
/* n of u64, with the top bit turned over: in the order of i64; and back. */
void RLX_K(load_turned)(void *restrict dst, const void *restrict src, size_t n);

#endif
