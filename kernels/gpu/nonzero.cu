// SPDX-License-Identifier: MIT
/*
 * Coordinates of the elements that are not zero, in row-major order (stream compaction).
 *
 * Algorithm: count, then write. First launch: each block counts those of its part. Second: each
 * block adds up the counts before its own, then goes over its part again 256 at a time: a ballot
 * gives an element's rank in its warp, shared memory that of the warp. Two launches instead of one
 * with decoupled look-back: no block waits for another, at the price of reading x twice.
 * Tiles: up to 1,024 blocks of 256 threads, each a run of the elements.
 * Traffic: x twice, 8 bytes x rank written for each one found, by scattered but rising places.
 * Limits: all types; the number found must be `count`, else *bad is set and y means nothing.
 */
#include "kernels/gpu/move.h"
#include "kernels/nonzero.h"

typedef rlx_t<NONZERO_TYPE> type;	/* of the elements */

/* This block's part: whole rounds of its threads. */
struct part {
	int64_t	from, to;
};

static DEV inline struct part part_of(const struct rlx_k_nonzero &a)
{
	int64_t rounds = (a.n + 255) / 256, each = (rounds + gridDim.x - 1) / gridDim.x;
	struct part p = { blockIdx.x * each * 256, (blockIdx.x + 1) * each * 256 };

	if (p.to > a.n)
		p.to = a.n;
	return p;
}

static DEV inline bool is_set(const type::mem *x, int64_t i, int64_t end)
{
	return i < end && type::get(x[i]) != 0;
}

static DEV inline int ones_of(uint64_t bits)
{
	int n = 0;

	for (; bits; bits &= bits - 1)
		n++;
	return n;
}

static DEV inline void put(const struct rlx_k_nonzero &a, int64_t *y, int64_t slot, int64_t i)
{
	for (int d = a.rank - 1; d >= 0; d--) {
		int64_t at;

		i = divide(i, a.dim[d], &at);
		y[d * a.count + slot] = at;
	}
}

/* The part's elements go to slots from @slot on. */
static DEV inline void write_part(const struct rlx_k_nonzero &a, const type::mem *x, int64_t *y,
				  struct part p, int64_t slot, int *smem)
{
	for (int64_t k = p.from; k < p.to; k += 256) {
		int64_t i = k + threadIdx.x, at = slot;
		bool set = is_set(x, i, p.to);
		uint64_t all = warp_ballot(set);

		if (lane_id() == 0)
			smem[warp_id()] = ones_of(all);
		__syncthreads();
		for (int w = 0; w < 256 / WARP; w++) {
			at += w < warp_id() ? smem[w] : 0;
			slot += smem[w];
		}
		at += ones_of(all & (((uint64_t)1 << lane_id()) - 1));
		if (set && at < a.count)
			put(a, y, at, i);
		__syncthreads();
	}
}

RLX_G_KERNEL(nonzero, struct rlx_k_nonzero, 256)
{
	SHARED(int64_t, sums, [MAX_WARPS]);
	SHARED(int, smem, [MAX_WARPS]);
	const type::mem *x = RLX_G_PTR(const type::mem, a.x);
	int64_t *count = (int64_t *)env.scratch, sum = 0, before = 0;
	struct part p = part_of(a);

	if (env.pass == 0) {
		for (int64_t i = p.from + threadIdx.x; i < p.to; i += 256)
			sum += is_set(x, i, p.to);
		sum = block_reduce<op_sum>(sum, sums);
		if (threadIdx.x == 0)
			count[blockIdx.x] = sum;
		return;
	}
	for (int64_t b = threadIdx.x; b < gridDim.x; b += 256) {
		sum += count[b];
		before += b < blockIdx.x ? count[b] : 0;
	}
	sum = block_reduce<op_sum>(sum, sums);
	before = block_reduce<op_sum>(before, sums);
	if (sum != a.count && blockIdx.x == 0 && threadIdx.x == 0)
		*RLX_G_PTR(int32_t, a.bad) = 1;
	write_part(a, x, RLX_G_PTR(int64_t, a.y), p, before, smem);
}
