/* SPDX-License-Identifier: MIT */
/* Distinct slices. */
#ifndef RLX_K_UNIQUE_H
#define RLX_K_UNIQUE_H

#include "kernels/type.h"

/**
 * struct rlx_k_unique - kernel unique: the distinct ones of n slices of x
 * @x:		[pre, n, post]; slice k is all elements (.., k, ..)
 * @y:		[pre, count, post]: the slices from the smallest on, or, if @unsorted, as first
 *		met. NaN is above all numbers and equals itself, -0 equals 0.
 * @first:	[count]: where each stands first
 * @inverse:	[n]: which of y each slice is
 * @counts:	[count]: how often each comes; @only_count: one number, that of distinct slices,
 *		and nothing else is written
 * @bad:	set to 1 if they are not @count, and then nothing is written
 * @work:	rlx_k_unique_work() bytes
 *
 * Called twice. With @sort one unit sorts RLX_K_UNIQUE_BLOCK slices; there are
 * rlx_k_unique_units(). The second call, of one unit, merges them and finds the distinct ones.
 * Scratch: 0.
 */
#define RLX_K_UNIQUE_BLOCK	4096	/* a power of 4: sorted in an even number of passes */

struct rlx_k_unique {
	const void	*x;
	void		*y, *work;
	int64_t		*first, *inverse, *counts;
	int32_t		*bad;
	int64_t		pre, n, post, count;
	uint8_t		type;
	bool		unsorted, only_count, sort;
};

static inline size_t rlx_k_unique_units(const struct rlx_k_unique *a)
{
	return (size_t)((a->n + RLX_K_UNIQUE_BLOCK - 1) / RLX_K_UNIQUE_BLOCK);
}

/* Two arrays of slices to sort, each a key and a position, and keys of all elements. */
static inline uint64_t rlx_k_unique_work(const struct rlx_k_unique *a)
{
	return (uint64_t)a->n * (32 + 8 * (uint64_t)(a->pre * a->post));
}

#endif
