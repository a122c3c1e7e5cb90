/* SPDX-License-Identifier: MIT */
/* Doubles as integers in the order that sorting gives them. Not a kernel family. */
#ifndef RLX_CPU_SORT_KEY_H
#define RLX_CPU_SORT_KEY_H

#include <stdint.h>

/* One zero, one NaN above all. */
static inline uint64_t rlx_k_sort_key(double x)
{
	uint64_t b;

	if (x != x)
		return UINT64_MAX;
	x += 0.0;
	__builtin_memcpy(&b, &x, 8);
	if (x == 0)
		b = 0;
	return b >> 63 ? ~b : b | (uint64_t)1 << 63;
}

#endif
