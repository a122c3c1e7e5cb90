// SPDX-License-Identifier: MIT
/*
 * The k best of each line, in order, of lines that fit a block's shared memory: a radix sort.
 *
 * Algorithm: digits of eight bits, the lowest first. A warp has a run of the line in its lanes'
 * registers, and ranks it by ballots, those of a digit in the order they lie in; the warps' counts
 * added up, digits first, say where each goes in shared memory, of which each warp takes its run
 * again. Every digit keeps the order of equal ones, so of equal keys the lower index comes first.
 *
 * Tiles: a block of TOPK_LANES threads a line, with up to TOPK_ITEMS elements each; an item of 4
 * bytes for elements of 16 bits or less, 8 for those of 32 and 16 for those of 64, and 1 KiB of
 * counts for each warp.
 * Traffic: x once, and again, from near caches, what is written.
 * Source: Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore GPUs"
 * (2009); ranks by ballots as in Ashkiani et al., "GPU Multisplit" (2016).
 * Limits: all types; lines up to TOPK_LANES x TOPK_ITEMS, 65,536 at most; 256 threads at least.
 */
#define RLX_G_BLOCKS	(1024 / TOPK_LANES)

#include "kernels/gpu/radix.h"

#define WARPS	(TOPK_LANES / WARP)

/* A key of 16 bits and the index. */
struct narrow_item {
	uint32_t	bits;

	DEV uint32_t at() const { return bits & 0xffff; }
	DEV uint32_t order(void) const { return bits >> 16; }
	static DEV narrow_item of(key_type key, uint32_t at)
	{
		return { (uint32_t)key << 16 | at };
	}
};

template <bool NARROW> struct held_of { typedef item type; };
template <> struct held_of<true> { typedef narrow_item type; };
typedef held_of<(sizeof(mem) <= 2)>::type held;

static DEV inline void load_run(const struct rlx_k_topk &a, struct line line, struct run r,
				held *x)
{
	mem v[TOPK_ITEMS];

	/* all are under way before the first is waited for */
#pragma unroll
	for (int j = 0; j < TOPK_ITEMS; j++)
		v[j] = line.x[r.within(j) * a.inner];
#pragma unroll
	for (int j = 0; j < TOPK_ITEMS; j++)
		x[j] = held::of(key_of(a, v[j]), (uint32_t)(r.first + j * WARP));
}

RLX_G_KERNEL(topk_block, struct rlx_k_topk, TOPK_LANES)
{
	SHARED_DYNAMIC(shared);
	uint32_t *sums = (uint32_t *)shared, *counts = sums + MAX_WARPS;
	held *s = (held *)(counts + WARPS * DIGITS), x[TOPK_ITEMS];
	const struct run r = run_of<TOPK_LANES>((int)a.n);

	for (int64_t l = blockIdx.x; l < a.outer * a.inner; l += gridDim.x) {
		const struct line line = line_of(a, env, l);

		load_run(a, line, r, x);
		for (int shift = 0;; shift += 8) {
			sort_digit<TOPK_ITEMS, WARPS>(x, r, shift, counts, sums, s);
			if (shift + 8 == 8 * (int)sizeof(mem))
				break;
#pragma unroll
			for (int j = 0; j < TOPK_ITEMS; j++)
				if (r.has(j))
					x[j] = s[r.first + j * WARP];
		}
		for (int i = (int)threadIdx.x; i < a.k; i += TOPK_LANES)
			put_result(a, env, line, i, s[i].at());
		__syncthreads();
	}
}
