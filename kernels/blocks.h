/* SPDX-License-Identifier: MIT */
/* Weights in blocks of few bits, which are read as they lie in a file: rlx/scheme.h. */
#ifndef RLX_K_BLOCKS_H
#define RLX_K_BLOCKS_H

#include "kernels/kernel.h"
#include "kernels/type.h"
#include "rlx/scheme.h"

/**
 * struct rlx_k_dequant_blocks - kernel dequant_blocks: y = the elements of blocks
 * @x: n / elements of a block of them, aligned to nothing
 * @y: n of @y_type, f32, f16 or bf16
 * @scheme: of the blocks
 *
 * One unit is RLX_K_BLOCKS_UNIT elements: rlx_k_dequant_blocks_units(). Scratch: 0.
 */
#define RLX_K_BLOCKS_UNIT	4096

struct rlx_k_dequant_blocks {
	const void	*x;
	void		*y;
	int64_t		 n;
	uint8_t		 scheme, y_type;
};

static inline size_t rlx_k_dequant_blocks_units(const struct rlx_k_dequant_blocks *a)
{
	return (size_t)((a->n + RLX_K_BLOCKS_UNIT - 1) / RLX_K_BLOCKS_UNIT);
}

/**
 * struct rlx_k_gemm_blocks - kernel gemm_blocks: y = x W'
 * @x, @y: [m][k] and [m][n]
 * @w: n rows of k / elements of a block of them, aligned to nothing
 *
 * One unit is RLX_K_BLOCKS_COLS rows of @w with up to RLX_K_BLOCKS_ROWS of @x:
 * rlx_k_gemm_blocks_units(). Weights are floats in registers for up to RLX_K_BLOCKS_FEW rows,
 * else in scratch, some columns of 256 elements at a time.
 */
#define RLX_K_BLOCKS_COLS	12
#define RLX_K_BLOCKS_ROWS	64
#define RLX_K_BLOCKS_FEW	4

struct rlx_k_gemm_blocks {
	const float	*x;
	float		*y;
	const void	*w;
	size_t		 m, n, k;
	uint8_t		 scheme;
};

static inline size_t rlx_k_gemm_blocks_units(const struct rlx_k_gemm_blocks *a)
{
	return (a->n + RLX_K_BLOCKS_COLS - 1) / RLX_K_BLOCKS_COLS *
	       ((a->m + RLX_K_BLOCKS_ROWS - 1) / RLX_K_BLOCKS_ROWS);
}

/* Of @m rows: columns as floats, and a vector of sums for each element of the result. */
static inline size_t rlx_k_blocks_scratch(size_t m)
{
	return m > RLX_K_BLOCKS_FEW ?
	       (size_t)RLX_K_BLOCKS_COLS * (RLX_BLOCK_MOST * sizeof(float) +
					    RLX_K_BLOCKS_ROWS * 64) : 0;
}

#endif
