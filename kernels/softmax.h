/* SPDX-License-Identifier: MIT */
/* Softmax and its logarithm. */
#ifndef RLX_K_SOFTMAX_H
#define RLX_K_SOFTMAX_H

#include "kernels/type.h"

/*
 * Kernel: softmax. x and y are [outer, n, inner], normalised along n; inner is
 * 1 for the last axis. A row whose values are all -inf, or which has NaN,
 * gives NaN. x and y may be the same memory if their types have one size.
 * One unit is one row (inner 1), else one (outer, block of RLX_K_SOFTMAX_COLS
 * inner positions); there are rlx_k_softmax_units().
 * Scratch: rlx_k_softmax_scratch().
 *
 * Kernel: softmax_f64, the same of doubles. One unit is one row, wherever it lies: there
 * are outer * inner. Scratch: 0.
 */
#define RLX_K_SOFTMAX_COLS	64

struct rlx_k_softmax {
	const void	*x;
	void		*y;
	int64_t		outer, n, inner;
	uint8_t		x_type, y_type;	/* f32, bf16, f16 */
	bool		log;
};

static inline size_t rlx_k_softmax_units(const struct rlx_k_softmax *a)
{
	return (size_t)(a->outer * ((a->inner + RLX_K_SOFTMAX_COLS - 1) /
				    RLX_K_SOFTMAX_COLS));
}

/* A row, or a block of columns, as floats. */
static inline size_t rlx_k_softmax_scratch(const struct rlx_k_softmax *a)
{
	size_t cols = a->inner == 1 ? 1 : RLX_K_SOFTMAX_COLS;

	return ((size_t)a->n * cols + 32) * sizeof(float);
}

#endif
