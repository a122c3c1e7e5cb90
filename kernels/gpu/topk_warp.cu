// SPDX-License-Identifier: MIT
/*
 * The k best of each line, in order, of lines that fit the registers of a warp's lanes.
 *
 * Algorithm: TOPK_LANES threads have a line, TOPK_ITEMS elements each, element j of lane i being
 * the line's (j TOPK_LANES + i)-th. A bitonic network sorts it: pairs of one lane meet in its
 * registers, the others by shuffles, so that nothing waits for a block. The first k are written.
 * Tiles: blocks of 256 threads, 256 / TOPK_LANES lines at a time; no shared memory.
 * Traffic: x once, and again what is written.
 * Source: Batcher, "Sorting networks and their applications" (1968).
 * Limits: all types; lines up to TOPK_LANES x TOPK_ITEMS, both powers of two, 32 lanes at most.
 */
#include "kernels/gpu/order.h"

#define LANES	TOPK_LANES
#define ITEMS	TOPK_ITEMS
#define LINES	(256 / LANES)

/* The better of two if @first, else the other. */
static DEV inline item one_of(item own, item other, bool first)
{
	return other.better_than(own) == first ? other : own;
}

/* Pairs @step lanes apart, in runs of @size that alternate in direction. */
static DEV inline void meet_lanes(item *s, int lane, int step, int size)
{
#pragma unroll
	for (int j = 0; j < ITEMS; j++) {
		bool up = (j * LANES + lane) & size, upper = lane & step;

		s[j] = one_of(s[j], s[j].of_lane_xor(step), up == upper);
	}
}

/* Pairs that one lane has. */
template <int STEP> static DEV inline void meet_items(item *s, int size)
{
#pragma unroll
	for (int j = 0; j < ITEMS; j++) {
		item p = s[j], q = s[j ^ STEP];
		bool up = j * LANES & size;

		if (j & STEP)
			continue;
		s[j] = one_of(p, q, !up);
		s[j ^ STEP] = one_of(q, p, up);
	}
}

static DEV inline void sort(item *s, int lane)
{
	for (int size = 2; size <= LANES * ITEMS; size *= 2) {
		if (ITEMS >= 16 && size >= 16 * LANES)
			meet_items<ITEMS >= 16 ? 8 : 0>(s, size);
		if (ITEMS >= 8 && size >= 8 * LANES)
			meet_items<ITEMS >= 8 ? 4 : 0>(s, size);
		if (ITEMS >= 4 && size >= 4 * LANES)
			meet_items<ITEMS >= 4 ? 2 : 0>(s, size);
		if (ITEMS >= 2 && size >= 2 * LANES)
			meet_items<ITEMS >= 2 ? 1 : 0>(s, size);
		for (int step = size / 2 < LANES ? size / 2 : LANES / 2; step; step /= 2)
			meet_lanes(s, lane, step, size);
	}
}

RLX_G_KERNEL(topk_warp, struct rlx_k_topk, 256)
{
	int64_t lines = a.outer * a.inner;
	int lane = (int)threadIdx.x % LANES;

	/* all lanes of a warp go through as many turns */
	for (int64_t b = (int64_t)blockIdx.x * LINES; b < lines; b += (int64_t)gridDim.x * LINES) {
		int64_t l = b + threadIdx.x / LANES;
		bool there = l < lines;
		const struct line line = line_of(a, env, there ? l : 0);
		item s[ITEMS];

#pragma unroll
		for (int j = 0; j < ITEMS; j++) {
			int at = j * LANES + lane;

			s[j] = there && at < a.n ?
			       item::of(key_of(a, line.x[at * a.inner]), (uint32_t)at) : no_item();
		}
		sort(s, lane);
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
			if (there && j * LANES + lane < a.k)
				put_result(a, env, line, j * LANES + lane, s[j].at());
	}
}
