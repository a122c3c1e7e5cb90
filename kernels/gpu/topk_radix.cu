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
 * RADIX_SELECT: only the k best are sorted. A launch for each digit, the highest first, counts that
 * digit of the elements that have the higher ones of the k-th best, which it finds in the counts
 * of the launches before; two more count what is better than the k-th best, and as good, in each
 * tile, and write the k best, those in the order they lie in and then these.
 *
 * Tiles: 256 threads with RADIX_ITEMS elements each; an item of 8 bytes (16) of each in shared
 * memory, and 9 KiB (5 with warps of 64).
 * Traffic: for each digit, of which a type has one a byte, the item of each element is read twice
 * and written once, by runs of a tile's elements with one digit; where the k best are selected,
 * their items, and x once for each digit and twice more.
 * Source: Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore GPUs"
 * (2009); ranks by ballots as in Ashkiani et al., "GPU Multisplit" (2016); selection as in Alabi et
 * al., "Fast k-selection algorithms for graphics processing units" (2012).
 * Limits: all types; lines below 2^32; 128 bytes of items a thread.
 */
#define RLX_G_BLOCKS	(RADIX_ITEMS < 16 ? 4 : 3)

#include "kernels/gpu/radix.h"

#define TILE	(256 * RADIX_ITEMS)
#define WARPS	(256 / WARP)
#define BYTES	((int)sizeof(mem))		/* digits */
#define AHEAD	(RADIX_SELECT ? BYTES + 3 : 0)	/* launches that select */

/* The k-th best of a line, as far as launches found its digits; so many as good are among the k. */
struct alignas(16) kth {
	uint64_t	key;		/* the best one is 0 */
	uint64_t	left;
};

/* Where things are. */
struct pass {
	int64_t		n;		/* of a line, that are sorted */
	const item	*from;		/* [lines][n]; NULL: the elements themselves */
	item		*to;		/* the same; NULL: the results */
	uint32_t	*before;	/* [lines][DIGITS][tiles]: of a digit, and in tiles before */
	uint32_t	*all;		/* [lines][DIGITS] */
	int		shift;
	int64_t		lines, tiles;
	/* of selection: of each digit of a line; what a tile has, better | as good << 16 */
	item		*best;		/* [lines][n] */
	struct kth	*known;		/* [lines][BYTES]: by its first digits */
	uint32_t	*digits;	/* [lines][BYTES][DIGITS] */
	uint32_t	*found;		/* [lines][x_tiles] */
	int64_t		x_tiles;
	/* smem */
	uint32_t	*counts;	/* [WARPS][DIGITS] */
	uint32_t	*sums;		/* [WARPS] */
	uint32_t	*to_line;	/* [DIGITS]: from places in the tile */
	item		*sorted;	/* [TILE] */
};

static DEV inline struct pass pass_of(const struct rlx_k_topk &a, const struct rlx_g_env &env)
{
	int digit = ((int)env.pass - AHEAD) / 3;
	struct pass p;
	item *half;

	p.lines = a.outer * a.inner;
	p.n = RADIX_SELECT ? a.k : a.n;
	p.tiles = (p.n + TILE - 1) / TILE;
	p.x_tiles = (a.n + TILE - 1) / TILE;
	p.shift = digit * 8;
	half = (item *)env.scratch + p.lines * p.n;
	p.from = !digit && !RADIX_SELECT ? NULL : digit % 2 ? (item *)env.scratch : half;
	p.to = digit == BYTES - 1 ? NULL : digit % 2 ? half : (item *)env.scratch;
	p.best = half;
	p.known = (struct kth *)(half + p.lines * p.n);
	p.before = RADIX_SELECT ? (uint32_t *)(p.known + p.lines * BYTES) : (uint32_t *)p.known;
	p.all = p.before + p.lines * DIGITS * p.tiles;
	p.digits = p.all + p.lines * DIGITS;
	p.found = p.digits + p.lines * BYTES * DIGITS;
	return p;
}

/* Element @i of line @l. */
static DEV inline item load(const struct rlx_k_topk &a, const struct pass &p,
			    const struct line &line, int64_t l, int64_t i)
{
	return p.from ? p.from[l * p.n + i] :
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

		if (i < p.n)
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
	const struct run r = run_of<256>((int)(p.n - from < TILE ? p.n - from : TILE));
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
			p.to[l * p.n + at] = y;
		else if (at < a.k)
			put_result(a, env, line, at, y.at());
	}
	__syncthreads();
}

/* ---- selection ---- */

static DEV inline key_type worse(const struct rlx_k_topk &a, mem x)
{
	return ~key_of(a, x) & most_key<mem>();
}

/* Its first @known digits, of which launches before found all but one. Ends with a barrier. */
static DEV inline struct kth find_kth(const struct rlx_k_topk &a, const struct pass &p, int64_t l,
				      int64_t t, int known)
{
	struct kth k = { 0, (uint64_t)a.k };
	uint32_t own, start;

	if (!known)
		return k;
	if (known > 1)
		k = p.known[l * BYTES + known - 2];
	own = p.digits[(l * BYTES + known - 1) * DIGITS + threadIdx.x];
	start = digit_start(own, p.sums);
	if (start < k.left && k.left <= start + own) {
		p.to_line[0] = threadIdx.x;
		p.to_line[1] = start;
	}
	__syncthreads();
	k.key |= (uint64_t)p.to_line[0] << 8 * (BYTES - known);
	k.left -= p.to_line[1];
	if (!t && threadIdx.x == 0)
		p.known[l * BYTES + known - 1] = k;
	__syncthreads();
	return k;
}

/* Digit @d of a tile's elements that have the @d digits ahead of it of the k-th best. */
static DEV inline void count_digit(const struct rlx_k_topk &a, const struct pass &p,
				   const struct line &line, int64_t l, int64_t t, int d)
{
	const struct kth k = find_kth(a, p, l, t, d);
	const int shift = 8 * (BYTES - 1 - d);
	mem x[RADIX_ITEMS];

	p.counts[threadIdx.x] = 0;
	__syncthreads();
#pragma unroll
	for (int j = 0; j < RADIX_ITEMS; j++) {
		int64_t i = t * TILE + j * 256 + threadIdx.x;

		x[j] = line.x[(i < a.n ? i : a.n - 1) * a.inner];
	}
#pragma unroll
	for (int j = 0; j < RADIX_ITEMS; j++) {
		const key_type key = worse(a, x[j]), other = key ^ (key_type)k.key;

		/* in two steps, as the first digit has none ahead */
		if (t * TILE + j * 256 + threadIdx.x < a.n && !(other >> shift >> 8))
			atomic_add(p.counts + (key >> shift & (DIGITS - 1)), 1u);
	}
	__syncthreads();
	if (p.counts[threadIdx.x])
		atomic_add(p.digits + (l * BYTES + d) * DIGITS + threadIdx.x,
			   p.counts[threadIdx.x]);
	__syncthreads();
}

/*
 * What a tile has that is better than the k-th best, and as good: how many, or, at @put, into the
 * list of the k best, each behind those of the tiles and the elements before.
 */
static DEV inline void choose(const struct rlx_k_topk &a, const struct pass &p,
			      const struct line &line, int64_t l, int64_t t, bool put)
{
	const struct kth k = find_kth(a, p, l, t, BYTES);
	const key_type bound = (key_type)k.key;
	const uint32_t left = (uint32_t)k.left;
	const int64_t from = t * TILE;
	const struct run r = run_of<256>((int)(a.n - from < TILE ? a.n - from : TILE));
	const lane_mask below = ((lane_mask)1 << lane_id()) - 1;
	uint32_t better = 0, equal = 0, *sum = p.counts + DIGITS;
	mem x[RADIX_ITEMS];

	if (threadIdx.x < 2)
		sum[threadIdx.x] = 0;
	__syncthreads();
	for (int64_t i = threadIdx.x; put && i < t; i += 256) {
		better += p.found[l * p.x_tiles + i] & 0xffff;
		equal += p.found[l * p.x_tiles + i] >> 16;
	}
	if (better)
		atomic_add(sum, better);
	if (equal)
		atomic_add(sum + 1, equal);
	better = equal = 0;
#pragma unroll
	for (int j = 0; j < RADIX_ITEMS; j++)
		x[j] = line.x[(from + r.within(j)) * a.inner];
#pragma unroll
	for (int j = 0; j < RADIX_ITEMS; j++) {
		better += count_bits((lane_mask)warp_ballot(r.has(j) && worse(a, x[j]) < bound));
		equal += count_bits((lane_mask)warp_ballot(r.has(j) && worse(a, x[j]) == bound));
	}
	if (lane_id() == 0)
		p.counts[warp_id()] = better | equal << 16;
	__syncthreads();
	better = equal = 0;
	for (int w = 0; w < (put ? warp_id() : WARPS); w++) {
		better += p.counts[w] & 0xffff;
		equal += p.counts[w] >> 16;
	}
	if (!put && threadIdx.x == 0)
		p.found[l * p.x_tiles + t] = better | equal << 16;
	better += sum[0];
	equal += sum[1];
#pragma unroll
	for (int j = 0; put && j < RADIX_ITEMS; j++) {
		const key_type key = worse(a, x[j]);
		const lane_mask b = (lane_mask)warp_ballot(r.has(j) && key < bound);
		const lane_mask e = (lane_mask)warp_ballot(r.has(j) && key == bound);
		const uint32_t after = equal + (uint32_t)count_bits(e & below);
		uint32_t at = better + (uint32_t)count_bits(b & below);

		if (key == bound)
			at = (uint32_t)a.k - left + after;
		if (r.has(j) && (key < bound || (key == bound && after < left)) && at < a.k)
			p.best[l * p.n + at] = item::of(key_of(a, x[j]),
							(uint32_t)(from + r.first + j * WARP));
		better += (uint32_t)count_bits(b);
		equal += (uint32_t)count_bits(e);
	}
	__syncthreads();
}

/* Launch @pass of those ahead of the sort. */
static DEV inline void select_best(const struct rlx_k_topk &a, const struct rlx_g_env &env,
				   const struct pass &p, int pass)
{
	if (!pass) {
		for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
		     i < p.lines * BYTES * DIGITS; i += (int64_t)gridDim.x * 256)
			p.digits[i] = 0;
		return;
	}
	for (int64_t b = blockIdx.x; b < p.lines * p.x_tiles; b += gridDim.x) {
		int64_t l = b / p.x_tiles, t = b % p.x_tiles;
		const struct line line = line_of(a, env, l);

		if (pass <= BYTES)
			count_digit(a, p, line, l, t, pass - 1);
		else
			choose(a, p, line, l, t, pass > BYTES + 1);
	}
}

RLX_G_KERNEL(topk_radix, struct rlx_k_topk, 256)
{
	SHARED(uint32_t, counts, [WARPS * DIGITS]);	/* two rows at least */
	SHARED(uint32_t, sums, [WARPS]);
	SHARED(uint32_t, to_line, [DIGITS]);
	SHARED(item, sorted, [TILE]);
	struct pass p = pass_of(a, env);

	p.counts = counts;
	p.sums = sums;
	p.to_line = to_line;
	p.sorted = sorted;
	if (RADIX_SELECT && env.pass < AHEAD) {
		select_best(a, env, p, (int)env.pass);
		return;
	}
	if ((env.pass - AHEAD) % 3 == 1) {
		for (int64_t d = (int64_t)blockIdx.x * WARPS + warp_id(); d < p.lines * DIGITS;
		     d += (int64_t)gridDim.x * WARPS)
			add_up(p, d);
		return;
	}
	for (int64_t b = blockIdx.x; b < p.lines * p.tiles; b += gridDim.x) {
		int64_t l = b / p.tiles, t = b % p.tiles;
		const struct line line = line_of(a, env, l);

		if ((env.pass - AHEAD) % 3 == 0)
			count(a, p, line, l, t);
		else
			scatter(a, env, p, line, l, t);
	}
}
