// SPDX-License-Identifier: MIT
/*
 * The k best of each line, in order; with k the line's length it is the sort.
 *
 * Algorithm: tiles of 2,048 elements are sorted whole in shared memory by a bitonic network; runs
 * are then merged two by two, a launch for each doubling and one for the results: an item's place
 * is its own plus its rank in the other run, by binary search; places from k on are dropped. Keys
 * are integers in the order of the values, equal ones go by index, so the sort is stable.
 *
 * Tiles: a block of 256 threads a tile, 16 KiB of shared memory, 32 of elements of 64 bits.
 * Traffic: x once; of lines longer than a tile an item of 8 bytes (16) written for each of the
 * first k of a run, and for each doubling about log2 of that number of reads of an item. A small k
 * makes the merges cheap, not the sort of the tiles: there topk_select.cu is chosen.
 * Source: Batcher, "Sorting networks and their applications" (1968); the merge by ranks is that
 * of Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore GPUs" (2009).
 * Limits: all types; lines below 2^32; longer than a tile, scratch for two items an element.
 */
#include "kernels/gpu/order.h"

/* TOPK_MERGES: a line has more than one tile. */
#define TILE	2048	/* elements: RLX_G_TOPK_TILE of the launch */

/* Tile @t of line @l: sorted into the scratch, or, if it is all, to the results. */
static DEV inline void sort_tile(const struct rlx_k_topk &a, const struct rlx_g_env &env,
				 int64_t l, int64_t t, item *s)
{
	const struct line line = line_of(a, env, l);
	item *to = (item *)env.scratch + l * a.n + t * TILE;
	int64_t from = t * TILE;
	int n = (int)(a.n - from < TILE ? a.n - from : TILE), smem = 1;
	int keep = (int)(n < a.k ? n : a.k);

	while (smem < n)
		smem *= 2;
	for (int i = (int)threadIdx.x; i < smem; i += 256)
		s[i] = i < n ? item::of(key_of(a, line.x[(from + i) * a.inner]),
					(uint32_t)(from + i)) : no_item();
	__syncthreads();
	bitonic_sort(s, smem, 256);
	for (int i = (int)threadIdx.x; i < keep; i += 256) {
		if (TOPK_MERGES)
			to[i] = s[i];
		else
			put_result(a, env, line, i, s[i].at());
	}
	__syncthreads();
}

/* How many of the @n items at @p, in order, are better than @x. */
static DEV inline int64_t rank_in(const item *p, int64_t n, item x)
{
	int64_t lo = 0;

	while (n) {
		int64_t half = n / 2;

		if (p[lo + half].better_than(x)) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo;
}

static DEV inline int64_t kept(const struct rlx_k_topk &a, int64_t run, int64_t width)
{
	int64_t n = a.n - run * width;

	n = n < width ? n : width;
	return n < a.k ? n : a.k;
}

/* An item's place in two runs of @width merged is its own plus its rank in the other. */
static DEV inline void merge(const struct rlx_k_topk &a, const item *from, item *to,
			     int64_t e, int64_t width)
{
	int64_t run = e / width, i = e % width, other = run ^ 1;

	if (i >= kept(a, run, width))
		return;
	if (other * width < a.n)
		i += rank_in(from + other * width, kept(a, other, width), from[e]);
	if (i < a.k)
		to[run / 2 * 2 * width + i] = from[e];
}

RLX_G_KERNEL(topk, struct rlx_k_topk, 256)
{
	SHARED(item, s, [TILE]);
	int64_t lines = a.outer * a.inner, tiles = (a.n + TILE - 1) / TILE;
	int64_t width = (int64_t)TILE << (env.pass ? env.pass - 1 : 0);
	item *half = (item *)env.scratch + lines * a.n;
	item *from = env.pass & 1 ? (item *)env.scratch : half;
	item *to = env.pass & 1 ? half : (item *)env.scratch;
	bool last = width >= a.n;	/* one run is left */

	for (int64_t b = blockIdx.x; b < lines * tiles; b += gridDim.x) {
		int64_t l = b / tiles, t = b % tiles;

		if (!env.pass) {
			sort_tile(a, env, l, t, s);
			continue;
		}
		for (int64_t i = t * TILE + threadIdx.x; i < (t + 1) * TILE && i < a.n;
		     i += 256) {
			if (!last)
				merge(a, from + l * a.n, to + l * a.n, i, width);
			else if (i < a.k)
				put_result(a, env, line_of(a, env, l), i,
					   (int64_t)from[l * a.n + i].at());
		}
	}
}
