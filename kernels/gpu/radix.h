/* SPDX-License-Identifier: MIT */
/*
 * Steps of a stable radix sort by digits of eight bits, best first: those of a block into shared
 * memory. What topk_block.cu and topk_radix.cu have in common.
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

/* What the digits before a thread's have, each thread's having @own. A barrier is in it. */
static DEV inline uint32_t digit_start(uint32_t own, uint32_t *sums)
{
	uint32_t at = warp_scan<op_sum>(own);

	if (lane_id() == WARP - 1)
		sums[warp_id()] = at;
	__syncthreads();
	for (int w = 0; w < warp_id() && w < DIGITS / WARP; w++)
		at += sums[w];
	return at - own;
}

/* A lane's elements of a block's: @per of them, the @j-th at @first + @j WARP, of @n in all. */
struct run {
	int	first, per, n;

	DEV bool has(int j) const { return j < per && first + j * WARP < n; }
	DEV int within(int j) const { return has(j) ? first + j * WARP : n - 1; }
};

template <int LANES> static DEV inline struct run run_of(int n)
{
	const int per = (n + LANES - 1) / LANES;

	return { warp_id() * WARP * per + lane_id(), per, n };
}

/*
 * A block's items, by one digit, into @s; @counts is [WARPS][DIGITS], @sums [WARPS]. Of a thread's
 * digit, if it has one: where that begins. Ends with a barrier.
 */
template <int ITEMS, int WARPS, class X>
static DEV inline uint32_t sort_digit(const X *x, struct run r, int shift, uint32_t *counts,
				      uint32_t *sums, X *s)
{
	uint32_t *own = counts + warp_id() * DIGITS, *of = counts + threadIdx.x, all = 0, start;
	uint32_t rank[ITEMS / 2] = { 0 };	/* of 16 bits */
	const int warps = threadIdx.x < DIGITS ? WARPS : 0;

	for (int d = lane_id(); d < DIGITS; d += WARP)
		own[d] = 0;
	warp_sync();
#pragma unroll
	for (int j = 0; j < ITEMS; j++)
		if (j < r.per)
			rank[j / 2] |= rank_of(digit_of(x[j], shift), r.has(j), own) << j % 2 * 16;
	__syncthreads();
	for (int w = 0; w < warps; w++)
		all += of[w * DIGITS];
	start = digit_start(all, sums);
	for (int w = 0, at = (int)start; w < warps; w++) {
		int n = (int)of[w * DIGITS];

		of[w * DIGITS] = (uint32_t)at;
		at += n;
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < ITEMS; j++)
		if (r.has(j))
			s[own[digit_of(x[j], shift)] + (rank[j / 2] >> j % 2 * 16 & 0xffff)] = x[j];
	__syncthreads();
	return start;
}

#endif
