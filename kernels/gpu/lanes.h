/* SPDX-License-Identifier: MIT */
/*
 * The order in which the CPU adds up along rows, for strict bits: sixteen lanes, of which halves
 * are met in the end (kernels/simd/wide.h). Sixteen threads, or a warp with two such sums side by
 * side, have them.
 */
#ifndef RLX_G_LANES_H
#define RLX_G_LANES_H

#include "kernels/gpu/dialect.h"
#include "kernels/simd/math.h"

struct ordered_sum {
	static DEV inline float start(void) { return 0; }
	static DEV inline float meet(float a, float b) { return a + b; }
};

/* The thread's lane of sixteen. */
static DEV inline int lane16(void)
{
	return (int)(threadIdx.x % 16);
}

/* Those of sixteen threads met; the first one has it, and of sums each. */
template <class OP> static DEV inline float fold16(float v)
{
#pragma unroll
	for (int m = 8; m; m /= 2)
		v = OP::meet(v, warp_xor(v, m));
	return v;
}

/* Neighbouring parts of @all, as evenly as may be, of team @team of a block's @teams. */
struct part_range {
	int64_t	from, to, each;
};

static DEV inline struct part_range part_range_of(int64_t all, int teams, int team)
{
	const int64_t of = (int64_t)gridDim.x * teams, each = (all + of - 1) / of;
	const int64_t from = ((int64_t)blockIdx.x * teams + team) * each, to = from + each;

	return { from < all ? from : all, to < all ? to : all, each };
}

/*
 * The sum of what @block finds of each of @blocks, as a warp's first thread has it, in their order
 * and in a double: by one warp, or by all of @WARPS, which take blocks in turns. Every thread gets
 * it.
 */
template <int WARPS, class F>
static DEV inline double sum_of_blocks(int64_t blocks, float *smem, F block)
{
	double sum = 0;

	for (int64_t b = 0; b < blocks; b += WARPS) {
		const int64_t mine = b + (WARPS > 1 ? warp_id() : 0);
		const float v = shuffle(mine < blocks ? block(mine) : 0.0f, 0);

		if (WARPS == 1) {
			sum += (double)v;
			continue;
		}
		if (lane_id() == 0)
			smem[warp_id()] = v;
		__syncthreads();
		for (int k = 0; k < WARPS && b + k < blocks; k++)
			sum += (double)smem[k];
		__syncthreads();
	}
	return sum;
}

#endif
