/* SPDX-License-Identifier: MIT */
/* Which taps of a pooling window lie inside the input. */
#ifndef RLX_CPU_POOL_TAPS_H
#define RLX_CPU_POOL_TAPS_H

#include <stddef.h>

/* Taps [k0, k1) of a window that starts at @at and stay below @limit. */
static inline void taps_inside(ptrdiff_t at, size_t k, size_t d, size_t limit,
			       size_t span[2])
{
	ptrdiff_t step = (ptrdiff_t)d, n;

	/* nearly all are whole, and a division takes longer than a tap */
	if (at >= 0 && (size_t)at + (k - 1) * d < limit) {
		span[0] = 0;
		span[1] = k;
		return;
	}
	span[0] = at < 0 ? (size_t)((-at + step - 1) / step) : 0;
	n = (ptrdiff_t)limit > at ?
	    ((ptrdiff_t)limit - at + step - 1) / step : 0;
	span[1] = n < (ptrdiff_t)k ? (size_t)n : k;
	if (span[0] > span[1])
		span[0] = span[1];
}

#endif
