/* SPDX-License-Identifier: MIT */
/*
 * Steps of a stable radix sort by digits of eight bits, best first: ranks within a warp, and where
 * a block's digits go. What topk_block.cu and topk_radix.cu have in common.
 */
#ifndef RLX_G_RADIX_H
#define RLX_G_RADIX_H

#include "kernels/gpu/order.h"

#define DIGITS	256

typedef key_of_width<(WARP > 32)>::type lane_mask;

/* The largest key has the least digits. */
template <class X> static DEV inline uint32_t digit_of(X x, int shift)
{
	return (uint32_t)(~x.order() >> shift) & (DIGITS - 1);
}

/* The lanes that have this one's digit. */
static DEV inline lane_mask alike(uint32_t digit, bool in)
{
	lane_mask m = (lane_mask)warp_ballot(in);

#pragma unroll
	for (int b = 0; b < 8; b++) {
		bool bit = digit >> b & 1;
		lane_mask v = (lane_mask)warp_ballot(bit);

		m &= bit ? v : ~v;
	}
	return m;
}

/* Rank among this warp's elements of the digit so far, of which @counts has the number. */
static DEV inline uint32_t rank_of(uint32_t digit, bool in, uint32_t *counts)
{
	lane_mask same = alike(digit, in);
	int before = count_bits(same & (((lane_mask)1 << lane_id()) - 1));
	int first = count_bits((same & (0 - same)) - 1) % WARP;
	uint32_t base = 0;

	if (in && !before) {
		base = counts[digit];
		counts[digit] = base + (uint32_t)count_bits(same);
	}
	warp_sync();
	return shuffle(base, first) + (uint32_t)before;
}

/*
 * Where each warp's first one of each digit goes, into @counts, [WARPS][DIGITS], which has how many
 * a warp has: a thread a digit, of which the line has @own, @before of them elsewhere and before
 * all of the block's. @sums has room for WARPS. Begins behind a barrier and ends with one.
 */
template <int WARPS> static DEV inline void place_digits(uint32_t *counts, uint32_t *sums,
							 uint32_t own, uint32_t before)
{
	uint32_t at = warp_scan<op_sum>(own);

	if (lane_id() == WARP - 1)
		sums[warp_id()] = at;
	__syncthreads();
	at += before - own;
	for (int w = 0; w < warp_id() && w < DIGITS / WARP; w++)
		at += sums[w];
	for (int w = 0; w < WARPS && threadIdx.x < DIGITS; w++) {
		uint32_t n = counts[w * DIGITS + threadIdx.x];

		counts[w * DIGITS + threadIdx.x] = at;
		at += n;
	}
	__syncthreads();
}

#endif
