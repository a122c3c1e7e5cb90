// SPDX-License-Identifier: MIT
/*
 * The k best of each line, in order; with k the line's length it is the sort.
 *
 * Algorithm: tiles of 2,048 elements are sorted whole in shared memory by a bitonic network; runs
 * are then merged two by two, a launch for each doubling and one for the results: an item's place
 * is its own plus its rank in the other run, by binary search; places from k on are dropped. Keys
 * are 64-bit integers in the order of the values, equal ones go by index, so the sort is stable.
 *
 * Tiles: a block of 256 threads a tile, 24 KiB of shared memory.
 * Traffic: x once; of lines longer than a tile 16 bytes written for each of the first k of a run,
 * and for each doubling about log2 of that number of reads of 16 bytes each. A small k makes the
 * merges cheap, not the sort of the tiles.
 * Source: Batcher, "Sorting networks and their applications" (1968); the merge by ranks is that
 * of Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore GPUs" (2009).
 * Limits: all types; lines below 2^32; longer than a tile, 32 bytes of scratch an element.
 */
#include "kernels/gpu/accumulate.h"
#include "kernels/sortk.h"

/* TOPK_MERGES: a line has more than one tile. */
#define TILE	2048	/* elements: RLX_G_TOPK_TILE of the launch */

/* The better one has the larger key, of equals the smaller index. */
struct item {
	uint64_t	key;
	uint64_t	at;
};

static DEV inline bool better(uint64_t key, uint64_t at, uint64_t key2, uint64_t at2)
{
	return key > key2 || (key == key2 && at < at2);
}

/* Doubles in their order as integers; one zero, one NaN above all. */
static DEV inline uint64_t key_of(double x)
{
	uint64_t b;

	if (x != x)
		return ~0ull;
	if (x == 0)
		return 1ull << 63;
	memcpy(&b, &x, 8);
	return b >> 63 ? ~b : b | 1ull << 63;
}

static DEV inline uint64_t key_at(const struct rlx_k_topk &a, const mem *x, int64_t i)
{
	elem::acc v = elem::get(x[i]);
	uint64_t key = IS_FLOAT ? key_of((double)v) :
		       (uint64_t)v ^ (ELEM_TYPE == RLX_U64 ? 0 : 1ull << 63);

	return a.smallest ? ~key : key;
}

/* Result @i of line @l is element @at of it. */
static DEV inline void put_result(const struct rlx_k_topk &a, const struct rlx_g_env &env,
				  int64_t l, int64_t i, int64_t at)
{
	int64_t o = l / a.inner, c = l % a.inner, to = (o * a.k + i) * a.inner + c;
	const mem *x = RLX_G_PTR(const mem, a.x);
	mem *values = RLX_G_PTR(mem, a.values);
	void *idx = RLX_G_PTR(void, a.idx);

	if (values)
		values[to] = x[(o * a.n + at) * a.inner + c];
	if (idx && a.idx_type == RLX_I32)
		((int32_t *)idx)[to] = (int32_t)at;
	else if (idx)
		((int64_t *)idx)[to] = at;
}

/* Best first, of the power of two @n of them; the worst items fill up. */
static DEV inline void bitonic_sort(uint64_t *key, uint32_t *at, int n)
{
	for (int size = 2; size <= n; size *= 2)
		for (int step = size / 2; step; step /= 2) {
			for (int t = (int)threadIdx.x; t < n / 2; t += 256) {
				int i = t / step * step * 2 + t % step, j = i + step;
				bool up = !(i & size);

				if (better(key[j], at[j], key[i], at[i]) == up) {
					uint64_t k = key[i];
					uint32_t p = at[i];

					key[i] = key[j];
					at[i] = at[j];
					key[j] = k;
					at[j] = p;
				}
			}
			__syncthreads();
		}
}

/* Tile @t of line @l: sorted into the scratch, or, if it is all, to the results. */
static DEV inline void sort_tile(const struct rlx_k_topk &a, const struct rlx_g_env &env,
				 int64_t l, int64_t t, uint64_t *key, uint32_t *at)
{
	const mem *x = RLX_G_PTR(const mem, a.x) + l / a.inner * a.n * a.inner + l % a.inner;
	struct item *to = (struct item *)env.scratch + l * a.n + t * TILE;
	int64_t from = t * TILE;
	int n = (int)(a.n - from < TILE ? a.n - from : TILE), smem = 1;
	int keep = (int)(n < a.k ? n : a.k);

	while (smem < n)
		smem *= 2;
	for (int i = (int)threadIdx.x; i < smem; i += 256) {
		key[i] = i < n ? key_at(a, x, (from + i) * a.inner) : 0;
		at[i] = i < n ? (uint32_t)(from + i) : ~0u;
	}
	__syncthreads();
	bitonic_sort(key, at, smem);
	for (int i = (int)threadIdx.x; i < keep; i += 256) {
		if (TOPK_MERGES)
			to[i] = { key[i], at[i] };
		else
			put_result(a, env, l, i, at[i]);
	}
	__syncthreads();
}

/* How many of the @n items at @p, in order, are better than @x. */
static DEV inline int64_t rank_in(const struct item *p, int64_t n, struct item x)
{
	int64_t lo = 0;

	while (n) {
		int64_t half = n / 2;

		if (better(p[lo + half].key, p[lo + half].at, x.key, x.at)) {
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
static DEV inline void merge(const struct rlx_k_topk &a, const struct item *from,
			     struct item *to, int64_t e, int64_t width)
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
	SHARED(uint64_t, key, [TILE]);
	SHARED(uint32_t, at, [TILE]);
	int64_t lines = a.outer * a.inner, tiles = (a.n + TILE - 1) / TILE;
	int64_t width = (int64_t)TILE << (env.pass ? env.pass - 1 : 0);
	struct item *half = (struct item *)env.scratch + lines * a.n;
	struct item *from = env.pass & 1 ? (struct item *)env.scratch : half;
	struct item *to = env.pass & 1 ? half : (struct item *)env.scratch;
	bool last = width >= a.n;	/* one run is left */

	for (int64_t b = blockIdx.x; b < lines * tiles; b += gridDim.x) {
		int64_t l = b / tiles, t = b % tiles;

		if (!env.pass) {
			sort_tile(a, env, l, t, key, at);
			continue;
		}
		for (int64_t i = t * TILE + threadIdx.x; i < (t + 1) * TILE && i < a.n;
		     i += 256) {
			if (!last)
				merge(a, from + l * a.n, to + l * a.n, i, width);
			else if (i < a.k)
				put_result(a, env, l, i, (int64_t)from[l * a.n + i].at);
		}
	}
}
