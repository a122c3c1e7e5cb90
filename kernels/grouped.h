/* SPDX-License-Identifier: MIT */
/* Rows that each choose a matrix. */
#ifndef RLX_K_GROUPED_H
#define RLX_K_GROUPED_H

#include "kernels/kernel.h"
#include "kernels/type.h"

#define RLX_K_GROUPED_COLS	32

/**
 * struct rlx_k_grouped - kernel grouped: y[i] = x[i] w[idx[i]]
 * @x, @w, @y:	[m][k], [experts][k][n] and [m][n], of @type, f32 or f64
 * @idx:	m of @idx_type, i32, i64 or u32; a negative one counts from the end
 * @bad:	set to 1 by an index out of range, whose row is left as it is
 * @live:	rows that carry data: others are neither looked at nor written
 *
 * One unit is RLX_K_GROUPED_COLS columns of one expert's rows: rlx_k_grouped_units(). Where
 * there is no expert one unit is left, which finds that no index refers to one.
 * Scratch: 0.
 */
struct rlx_k_grouped {
	const void	*x, *w, *idx;
	void		*y;
	int32_t		*bad;
	int64_t		m, n, k, experts, live;
	uint8_t		type, idx_type;
};

static inline size_t rlx_k_grouped_units(const struct rlx_k_grouped *a)
{
	return (size_t)((a->experts ? a->experts : 1) *
			((a->n + RLX_K_GROUPED_COLS - 1) / RLX_K_GROUPED_COLS));
}

#endif
