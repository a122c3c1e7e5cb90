// SPDX-License-Identifier: MIT
/*
 * The k best of each line, in order, of long lines of which many are wanted: a radix sort.
 *
 * Algorithm: digits of eight bits, the lowest first, three launches each. A block counts the digits
 * of a tile; a warp for each digit adds up the counts of the tiles before; a block sorts its tile
 * by the digit in shared memory, and writes what lies together there together. Of a warp's lanes
 * those with one digit find each other by ballots, so ranks are in order and the sort is stable: of
 * equal keys the lower index comes first. The last digit writes the results.
 *
 * Tiles: 256 threads with RADIX_ITEMS elements each; an item of 8 bytes (16) of each in shared
 * memory, and 9 KiB (5 with warps of 64).
 * Traffic: for each digit, of which a type has one a byte, the item of each element is read twice
 * and written once, by runs of a tile's elements with one digit.
 * Source: Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore GPUs"
 * (2009); ranks by ballots as in Ashkiani et al., "GPU Multisplit" (2016).
 * Limits: all types; lines below 2^32; 128 bytes of items a thread.
 */
#define RLX_G_BLOCKS	(RADIX_ITEMS < 16 ? 4 : 3)

#include "kernels/gpu/radix.h"

#define TILE	(256 * RADIX_ITEMS)
#define WARPS	(256 / WARP)

/* Where things are. */
struct pass {
	const item	*from;		/* [lines][n]; NULL: the elements themselves */
	item		*to;		/* the same; NULL: the results */
	uint32_t	*before;	/* [lines][DIGITS][tiles]: of a digit, and in tiles before */
	uint32_t	*all;		/* [lines][DIGITS] */
	int		shift;
	int64_t		lines, tiles;
	/* smem */
	uint32_t	*counts;	/* [WARPS][DIGITS] */
	uint32_t	*sums;		/* [WARPS] */
	uint32_t	*to_line;	/* [DIGITS]: from places in the tile */
	item		*sorted;	/* [TILE] */
};

static DEV inline struct pass pass_of(const struct rlx_k_topk &a, const struct rlx_g_env &env)
{
	int digit = (int)env.pass / 3, last = (int)sizeof(mem) - 1;
	struct pass p;
	item *half;

	p.lines = a.outer * a.inner;
	p.tiles = (a.n + TILE - 1) / TILE;
	p.shift = digit * 8;
	half = (item *)env.scratch + p.lines * a.n;
	p.from = !digit ? NULL : digit % 2 ? (item *)env.scratch : half;
	p.to = digit == last ? NULL : digit % 2 ? half : (item *)env.scratch;
	p.before = (uint32_t *)(half + p.lines * a.n);
	p.all = p.before + p.lines * DIGITS * p.tiles;
	return p;
}

/* Element @i of line @l. */
static DEV inline item load(const struct rlx_k_topk &a, const struct pass &p,
			    const struct line &line, int64_t l, int64_t i)
{
	return p.from ? p.from[l * a.n + i] :
	       item::of(key_of(a, line.x[i * a.inner]), (uint32_t)i);
}

static DEV inline void count(const struct rlx_k_topk &a, const struct pass &p,
			     const struct line &line, int64_t l, int64_t t)
{
	uint32_t *counts = p.counts;

	counts[threadIdx.x] = 0;
	__syncthreads();
#pragma unroll
	for (int j = 0; j < RADIX_ITEMS; j++) {
		int64_t i = t * TILE + j * 256 + threadIdx.x;

		if (i < a.n)
			atomic_add(counts + digit_of(load(a, p, line, l, i), p.shift), 1u);
	}
	__syncthreads();
	p.before[(l * DIGITS + threadIdx.x) * p.tiles + t] = counts[threadIdx.x];
	__syncthreads();
}

/* Row @d of the counts, of a digit of a line: in tiles before, and of all. By a warp. */
static DEV inline void add_up(const struct pass &p, int64_t d)
{
	uint32_t *row = p.before + d * p.tiles, sum = 0;

	for (int64_t t = 0; t < p.tiles; t += WARP) {
		bool in = t + lane_id() < p.tiles;
		uint32_t own = in ? row[t + lane_id()] : 0, upto = warp_scan<op_sum>(own);

		if (in)
			row[t + lane_id()] = sum + upto - own;
		sum += shuffle(upto, WARP - 1);
	}
	if (lane_id() == 0)
		p.all[d] = sum;
}

/* A tile goes by shared memory, so that what lies together there is written by runs. */
static DEV inline void scatter(const struct rlx_k_topk &a, const struct rlx_g_env &env,
			       const struct pass &p, const struct line &line, int64_t l, int64_t t)
{
	const int64_t from = t * TILE, d = l * DIGITS + threadIdx.x;
	const struct run r = run_of<256>((int)(a.n - from < TILE ? a.n - from : TILE));
	const uint32_t all = p.all[d], before = p.before[d * p.tiles + t];
	item x[RADIX_ITEMS];
	uint32_t start;

#pragma unroll
	for (int j = 0; j < RADIX_ITEMS; j++)
		x[j] = load(a, p, line, l, from + r.within(j));
	start = digit_start(all, p.sums) + before;
	start -= sort_digit<RADIX_ITEMS, WARPS>(x, r, p.shift, p.counts, p.sums, p.sorted);
	p.to_line[threadIdx.x] = start;
	__syncthreads();
	for (int i = (int)threadIdx.x; i < r.n; i += 256) {
		const item y = p.sorted[i];
		uint32_t at = p.to_line[digit_of(y, p.shift)] + (uint32_t)i;

		if (p.to)
			p.to[l * a.n + at] = y;
		else if (at < a.k)
			put_result(a, env, line, at, y.at());
	}
	__syncthreads();
}

RLX_G_KERNEL(topk_radix, struct rlx_k_topk, 256)
{
	SHARED(uint32_t, counts, [WARPS * DIGITS]);
	SHARED(uint32_t, sums, [WARPS]);
	SHARED(uint32_t, to_line, [DIGITS]);
	SHARED(item, sorted, [TILE]);
	struct pass p = pass_of(a, env);

	p.counts = counts;
	p.sums = sums;
	p.to_line = to_line;
	p.sorted = sorted;
	if (env.pass % 3 == 1) {
		for (int64_t d = (int64_t)blockIdx.x * WARPS + warp_id(); d < p.lines * DIGITS;
		     d += (int64_t)gridDim.x * WARPS)
			add_up(p, d);
		return;
	}
	for (int64_t b = blockIdx.x; b < p.lines * p.tiles; b += gridDim.x) {
		int64_t l = b / p.tiles, t = b % p.tiles;
		const struct line line = line_of(a, env, l);

		if (env.pass % 3 == 0)
			count(a, p, line, l, t);
		else
			scatter(a, env, p, line, l, t);
	}
}
