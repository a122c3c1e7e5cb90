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
 * One unit, as each comparison may depend on those before. Scratch: 0.
 */
struct rlx_k_unique {
	const void	*x;
	void		*y, *work;
	int64_t		*first, *inverse, *counts;
	int32_t		*bad;
	int64_t		pre, n, post, count;
	uint8_t		type;
	bool		unsorted, only_count;
};

/* Two arrays of slices to sort, each a key and a position, and keys of all elements. */
static inline uint64_t rlx_k_unique_work(const struct rlx_k_unique *a)
{
	return (uint64_t)a->n * (32 + 8 * (uint64_t)(a->pre * a->post));
}

#endif
