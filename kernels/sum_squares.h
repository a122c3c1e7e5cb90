/* SPDX-License-Identifier: MIT */
/* The sum of squares of several tensors. */
#ifndef RLX_K_SUM_SQUARES_H
#define RLX_K_SUM_SQUARES_H

#include "kernels/type.h"

/*
 * Kernel: sum_squares_all, of GPUs alone. y is the sum of squares of all elements of @n_part
 * tensors: of 32 of a thread in f32, then in f64. They are taken in chunks of
 * RLX_K_SQUARES_CHUNK, which begin at each tensor anew; there are @chunks.
 */
enum { RLX_K_SQUARES_PARTS = 64, RLX_K_SQUARES_CHUNK = 8192 };

struct rlx_k_squares_part {
	const void	*x;
	int64_t		n, first;	/* elements; which of all chunks its first one is */
	int32_t		type, pad;	/* enum rlx_dtype: f32, bf16 or f16 */
};

struct rlx_k_sum_squares_all {
	double		*y;
	int64_t		chunks;
	uint32_t	n_part, pad;
	struct rlx_k_squares_part part[RLX_K_SQUARES_PARTS];
};

#endif
