/* SPDX-License-Identifier: MIT */
/* Do two ranges of memory have a byte in common? */
#ifndef RLX_BASE_OVERLAP_H
#define RLX_BASE_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

/* @na bytes at @a, @nb at @b; NULL is nowhere. */
static inline bool rlx_overlap(const void *a, uint64_t na, const void *b, uint64_t nb)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return x && y && na && nb && (x < y ? y - x < na : x - y < nb);
}

#endif
