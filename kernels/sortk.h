/* SPDX-License-Identifier: MIT */
/* Top-k and sorting. */
#ifndef RLX_K_SORTK_H
#define RLX_K_SORTK_H

#include "kernels/type.h"

/*
 * Kernel: topk. x is [outer, n, inner]; values and idx are [outer, k, inner]:
 * the k largest (or smallest) along n, best first, of equals the smaller index
 * first. k = n sorts. NaN counts as larger than every number, -0 as smaller
 * than +0 only in the sense that both compare equal (the smaller index first).
 * n < 2^32. values or idx may be NULL. One unit is one (outer, inner); there
 * are outer * inner. Scratch: rlx_k_topk_scratch().
 */
struct rlx_k_topk {
	const void	*x;
	void		*values;
	void		*idx;			/* i64 or i32 */
	int64_t		outer, n, inner, k;
	uint8_t		type, idx_type;
	bool		smallest;
};

static inline size_t rlx_k_topk_scratch(const struct rlx_k_topk *a)
{
	return (size_t)(a->n + 1) * 2 * 16;
}

/* Selection: candidates of a line that are put in order, of which k stay; a power of two. */
static inline int64_t rlx_k_topk_capacity(const struct rlx_k_topk *a)
{
	int64_t want = a->k + a->k / 3 + 8, room = 32;

	want = want < a->n ? want : a->n;
	while (room < want)
		room *= 2;
	return room;
}

#endif
