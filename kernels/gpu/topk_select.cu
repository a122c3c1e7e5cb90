// SPDX-License-Identifier: MIT
/*
 * The k best of each line, in order, where k is far below the line's length.
 *
 * Algorithm: a block keeps a tile of the line's keys in registers and looks for a threshold that k
 * of them reach, and not many more. A first one comes of the threads' best keys: what k of those
 * reach, k elements do. Where too many do, all keys are counted, and where even equal ones are too
 * many, by place: each time by bisection, so that no values take more than some tens of steps. What
 * reaches it is gathered in shared memory and put in order, few items by counting for each the
 * better ones, more by a bitonic network. Of lines longer than a tile each tile's k best are the
 * elements of the next launch, until one tile is left.
 *
 * Tiles: TOPK_LANES threads, each with TOPK_ITEMS elements; beside them in shared memory
 * rlx_k_topk_capacity() items of 8 bytes (16 of elements of 64 bits).
 * Traffic: x once; of longer lines 4 bytes written and, with the element, read for each of a
 * tile's k.
 * Limits: all types; k up to half a tile, but any k where the line is no longer than its room.
 */
#define RLX_G_BLOCKS	(TOPK_LANES < 1024 ? 1024 / TOPK_LANES : 1)

#include "kernels/gpu/order.h"

#define TILE	(TOPK_LANES * TOPK_ITEMS)
#define WARPS	(TOPK_LANES / WARP)

/* A part of a line, and what a block knows of it. */
struct tile {
	struct line	line;
	const uint32_t	*ids;		/* the tile's elements; NULL: those from @from on */
	int64_t		from;
	int		n, k;		/* of the tile, and those of it that are wanted */
	uint32_t	*to;		/* where to; NULL: it is all of the line */
	/* smem */
	item		*found;
	int		room;		/* so many items */
	uint32_t	*count;		/* of them, for each of two turns */
	int		*counts;	/* of block_count(), its turn being */
	int		turn;
	key_type	*keys;		/* one of each warp */
};

/*
 * Those chosen are as good or better. Equal ones are in the tile in the order of their indices, in
 * later launches too: tiles' best are written in order, one tile's behind the other's. So what
 * chooses among them, and sorts, takes their places in the tile.
 */
struct threshold {
	key_type	key;
	int		at;
};

static DEV inline int64_t index_of(const struct tile &t, int i)
{
	return t.ids ? t.ids[i] : t.from + i;
}

/* Element @j of this thread. */
static DEV inline int own(int j)
{
	return j * TOPK_LANES + (int)threadIdx.x;
}

/* Over the block. Two turns share no memory, so there is one barrier in each. */
static DEV inline int block_count(struct tile *t, int v)
{
	int *smem = t->counts + t->turn % 2 * MAX_WARPS;

	v = warp_count(v);
	if (WARPS == 1)
		return v;
	if (lane_id() == 0)
		smem[warp_id()] = v;
	__syncthreads();
	v = 0;
	for (int w = 0; w < WARPS; w++)
		v += smem[w];
	t->turn++;
	return v;
}

/* What is behind the tile's end has the worst key; nobody counts keys of 0. */
template <bool LISTED> static DEV inline void load_keys(const struct rlx_k_topk &a,
							 const struct tile &t, key_type *key)
{
	mem x[TOPK_ITEMS];

#pragma unroll
	for (int j = 0; j < TOPK_ITEMS; j++) {
		int i = own(j) < t.n ? own(j) : t.n - 1;

		x[j] = t.line.x[(LISTED ? t.ids[i] : t.from + i) * a.inner];
	}
#pragma unroll
	for (int j = 0; j < TOPK_ITEMS; j++)
		key[j] = own(j) < t.n ? key_of(a, x[j]) : 0;
}

/*
 * A key from @lo on that @least of the block's, or some more, up to @most, reach, if there is one:
 * @lo is, with true. Of each thread there are N keys. At least @least reach @lo, none is above @hi.
 */
template <int N> static DEV inline bool bisect(struct tile *t, const key_type *key, key_type *lo,
					       key_type hi, int least, int most)
{
	while (*lo < hi) {
		key_type gap = hi - *lo, mid = *lo + gap / 2 + (gap & 1);
		int n = 0;

#pragma unroll
		for (int j = 0; j < N; j++)
			n += key[j] >= mid;
		n = block_count(t, n);
		if (n < least) {
			hi = mid - 1;
			continue;
		}
		*lo = mid;
		if (n <= most)
			return true;
	}
	return false;
}

static DEV inline bool is_chosen(const struct tile &t, key_type key, int j, struct threshold from)
{
	return key > from.key || (key == from.key && own(j) <= from.at);
}

/* Too many are as good as @key: where the first ones of them end, with @least to @most chosen. */
static DEV inline int bisect_places(struct tile *t, const key_type *keys, key_type key, int least,
				    int most)
{
	struct threshold from = { key, 0 };
	int lo = 0, hi = t->n - 1;

	for (;;) {
		int n = 0;

		from.at = (lo + hi) / 2;
#pragma unroll
		for (int j = 0; j < TOPK_ITEMS; j++)
			n += is_chosen(*t, keys[j], j, from);
		n = block_count(t, n);
		if (n >= least && n <= most)
			return from.at;
		if (n < least)
			lo = from.at + 1;
		else
			hi = from.at - 1;
	}
}

/* The worst and best of the threads' best keys, over the block. */
static DEV inline void best_keys(const struct tile &t, const key_type *key, key_type *own_best,
				 key_type *lo, key_type *hi)
{
	key_type best = key[0];

#pragma unroll
	for (int j = 1; j < TOPK_ITEMS; j++)
		best = key[j] > best ? key[j] : best;
	*own_best = best;
	*hi = block_reduce<op_max>(best, t.keys);
	*lo = ~block_reduce<op_max>(~best, t.keys);
}

/* Those chosen, by their places, in any order; how many, of which as many are there as fit. */
static DEV inline int gather(const struct tile &t, const key_type *key, struct threshold from,
			     uint32_t *count)
{
	uint32_t mine = 0, n = 0;

	if (threadIdx.x == 0)
		*count = 0;
	__syncthreads();
#pragma unroll
	for (int j = 0; j < TOPK_ITEMS; j++) {
		bool chosen = is_chosen(t, key[j], j, from);

		mine |= (uint32_t)chosen << j;
		n += chosen;
	}
	if (n)
		n = atomic_add(count, n);
#pragma unroll
	for (int j = 0; j < TOPK_ITEMS; j++)
		if (mine >> j & 1) {
			if (n < (uint32_t)t.room)
				t.found[n] = item::of(key[j], (uint32_t)own(j));
			n++;
		}
	__syncthreads();
	return (int)*count;
}

/* As many as there is room for, the k best of the tile among them. */
static DEV inline int choose(struct tile *t, const key_type *key)
{
	struct threshold from = { 0, t->n - 1 };
	key_type best, hi = 0;
	int k = t->k;

	if (t->n > t->room) {
		best_keys(*t, key, &best, &from.key, &hi);
		if (k <= TOPK_LANES)
			bisect<1>(t, &best, &from.key, hi, k, k + k / 8);
		else
			from.key = 0;
	}
	for (int turn = 0;; turn++) {
		int n = gather(*t, key, from, t->count + turn);

		if (n <= t->room)
			return n;
		if (!bisect<TOPK_ITEMS>(t, key, &from.key, hi, k, t->room))
			from.at = bisect_places(t, key, from.key, k, t->room);
	}
}

/* Item @x is the @i-th best of the tile. */
static DEV inline void put(const struct rlx_k_topk &a, const struct rlx_g_env &env,
			   const struct tile &t, int i, item x)
{
	int64_t at = index_of(t, (int)x.at());

	if (t.to)
		t.to[i] = (uint32_t)at;
	else
		put_result(a, env, t.line, i, at);
}

/* Elements that are left of @n by a launch. */
static DEV inline int64_t left_of(int64_t n, int64_t k)
{
	int64_t rest = n % TILE;

	return n / TILE * k + (rest < k ? rest : k);
}

RLX_G_KERNEL(topk_select, struct rlx_k_topk, TOPK_LANES)
{
	SHARED(int, counts, [2 * MAX_WARPS]);
	SHARED(uint32_t, count, [2]);
	SHARED(key_type, smem, [MAX_WARPS]);
	SHARED_DYNAMIC(shared);
	int64_t lines = a.outer * a.inner, n = a.n, tiles, left;
	uint32_t *half = (uint32_t *)env.scratch + lines * left_of(a.n, a.k);
	const uint32_t *ids = env.pass % 2 ? (uint32_t *)env.scratch : half;
	uint32_t *to = env.pass % 2 ? half : (uint32_t *)env.scratch;
	int room = (int)rlx_k_topk_capacity(&a);
	key_type key[TOPK_ITEMS];

	for (uint32_t p = 0; p < env.pass; p++)
		n = left_of(n, a.k);
	left = left_of(n, a.k);
	tiles = (n + TILE - 1) / TILE;
	for (int64_t b = blockIdx.x; b < lines * tiles; b += gridDim.x) {
		int64_t l = tiles == 1 ? b : b / tiles, i = b - l * tiles, rest = n - i * TILE;
		struct tile t;

		t.line = line_of(a, env, l);
		t.ids = env.pass ? ids + l * n + i * TILE : NULL;
		t.from = i * TILE;
		t.n = (int)(rest < TILE ? rest : TILE);
		t.to = tiles > 1 ? to + l * left + i * a.k : NULL;
		t.found = (item *)shared;
		t.room = room;
		t.count = count;
		t.counts = counts;
		t.turn = 0;
		t.keys = smem;
		t.k = (int)(a.k < t.n ? a.k : t.n);
		if (env.pass)
			load_keys<true>(a, t, key);
		else
			load_keys<false>(a, t, key);
		put_best<TOPK_LANES>(t.found, choose(&t, key), t.k, [&](int i, item x) {
			put(a, env, t, i, x);
		});
	}
}
