/* SPDX-License-Identifier: MIT */
/*
 * Grouped GEMM (mixture of experts), y[m] = x[m] B[idx[m]]: arguments, and what lies where in
 * scratch, for the launch and for the kernels (gemm_mma.cu, gemm_simt.cu).
 *
 * Which expert has how many rows is known on the device alone, so the host launches for the worst
 * case: of tiles of EDGE rows there are m / EDGE + min(groups, m) at most, since each group that
 * has rows ends with at most one tile that is not full. Blocks beyond the tiles that there are
 * find nothing to do.
 * Where matrices lie apart, a launch multiplies those that it is told of: by a table, or one alone.
 * Scratch: 4 bytes x (1 + groups + m + 2 tiles), written by the first launch (expert_rows.h).
 * Limits: m and groups below 2^30; one expert for each row.
 */
#ifndef RLX_G_GEMM_GROUPED_H
#define RLX_G_GEMM_GROUPED_H

#include "kernels/gemm.h"

/**
 * struct rlx_g_grouped - y[m] = x[m] b[idx[m]]
 * @g: all rows; b_step[0]: from one matrix to the next
 * @idx: m numbers of matrices, those below 0 from the end
 * @bad: set to 1 if one is out of range; such rows are not written
 * @live: rows that carry data, the first ones; the others are left as they are
 * @groups: matrices
 * @where: NULL, or where each one is; 0: another launch multiplies by it. Without either g.b_step
 *	is looked at
 * @only: 0, or 1 + that which is at g.b: another launch multiplies by the others
 * @idx_type: enum rlx_dtype: i64, i32, u32
 */
struct rlx_g_grouped {
	struct rlx_k_gemm	g;
	const void		*idx;
	int32_t			*bad;
	int64_t			live;
	uint64_t		groups;
	const uint64_t		*where;
	uint32_t		only;
	uint8_t			idx_type;
};

/* Tiles of @edge rows at most. */
static inline uint64_t rlx_g_grouped_tiles(const struct rlx_g_grouped *a, uint64_t edge)
{
	return a->g.m / edge + (a->groups < a->g.m ? a->groups : a->g.m);
}

/*
 * Words of scratch: how many tiles there are, the end of each group in the list, the list
 * of all rows by group, and for each tile its group and where in the list it begins.
 */
static inline uint64_t rlx_g_grouped_words(const struct rlx_g_grouped *a, uint64_t edge)
{
	return 1 + a->groups + a->g.m + 2 * rlx_g_grouped_tiles(a, edge);
}

#endif
