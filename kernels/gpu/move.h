/* SPDX-License-Identifier: MIT */
/*
 * What kernels that move or visit elements share: words of any size, the walk of a grid over
 * elements, division, indices.
 *
 * Elements that are only moved are words of their size, so five instances of a kernel serve all
 * types; a warp's words lie side by side, and 16 bytes a thread are the widest access there is.
 * line_first() and line_step() are the grid-stride loop. A place in a shape takes a division for
 * each dimension; 64-bit ones take several times as many instructions, so divide() uses 32 bits
 * where both numbers have no more. index_in() is the one rule for indices: those below 0 count from
 * the end, those out of range set *bad and are not followed.
 * Limits: words of 16 bytes want addresses at multiples of 16, which callers see to.
 */
#ifndef RLX_G_MOVE_H
#define RLX_G_MOVE_H

#include "kernels/gpu/dialect.h"
#include "kernels/move.h"

struct alignas(16) word16 { uint64_t a, b; };

template <int SIZE> struct word;
template <> struct word<1> { typedef uint8_t type; };
template <> struct word<2> { typedef uint16_t type; };
template <> struct word<4> { typedef uint32_t type; };
template <> struct word<8> { typedef uint64_t type; };
template <> struct word<16> { typedef struct word16 type; };

/* First element of this thread, and the step to its next one. */
static DEV inline int64_t line_first(void)
{
	return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static DEV inline int64_t line_step(void)
{
	return (int64_t)gridDim.x * blockDim.x;
}

/* i / n and i % n, by 32 bits where that does: 64 are slow on a GPU. */
static DEV inline int64_t divide(int64_t i, int64_t n, int64_t *rest)
{
	if (((uint64_t)i | (uint64_t)n) >> 32 == 0) {
		uint32_t q = (uint32_t)i / (uint32_t)n;

		*rest = (int64_t)((uint32_t)i - q * (uint32_t)n);
		return q;
	}
	*rest = i % n;
	return i / n;
}

/* Brings an index into [0, n) or says that it is out of range. */
static DEV inline bool index_in(int64_t *i, int64_t n, int32_t *bad)
{
	if (*i < 0)
		*i += n;
	if (*i >= 0 && *i < n)
		return true;
	if (bad)
		*bad = 1;
	return false;
}

#endif
