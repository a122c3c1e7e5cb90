/* SPDX-License-Identifier: MIT */
/* Rows that each choose a matrix. */
#ifndef RLX_K_GROUPED_H
#define RLX_K_GROUPED_H

#include "kernels/kernel.h"
#include "kernels/type.h"

/* Columns of a unit of kernel grouped, and the most rows that are multiplied by them at once. */
#define RLX_K_GROUPED_COLS	32
#define RLX_K_GROUPED_ROWS	64

/**
 * struct rlx_k_grouped - kernels grouped and grouped_blocks: y[i] = x[i] w[idx[i]]
 * @x, @y:	[m][k] and [m][n], of @type, f32 or f64; of grouped_blocks f32
 * @w:		of each of @experts [k][n] of @type; of grouped_blocks what @w of gemm_blocks is
 * @idx:	m of @idx_type, i32, i64 or u32; a negative one counts from the end
 * @bad:	set to 1 by an index out of range, whose row is left as it is
 * @live:	rows that carry data: others are neither looked at nor written
 * @scheme:	of grouped_blocks
 *
 * One unit is some columns of one expert, RLX_K_GROUPED_COLS or RLX_K_BLOCKS_COLS, with all rows
 * that chose it: rlx_k_grouped_units(). Where there is no expert those of one are left, which find
 * that no index refers to one. Scratch: 0; of grouped_blocks rlx_k_blocks_scratch().
 */
struct rlx_k_grouped {
	const void	*x, *w, *idx;
	void		*y;
	int32_t		*bad;
	int64_t		m, n, k, experts, live;
	uint8_t		type, idx_type, scheme;
};

/* Units of @cols columns. */
static inline size_t rlx_k_grouped_units(const struct rlx_k_grouped *a, int64_t cols)
{
	return (size_t)((a->experts ? a->experts : 1) * ((a->n + cols - 1) / cols));
}

#endif
