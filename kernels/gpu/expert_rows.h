/* SPDX-License-Identifier: MIT */
/*
 * The first pass of grouped GEMM: rows sorted by the expert (matrix) that they chose, and the
 * list of tiles that this makes; later blocks take a tile each.
 *
 * Algorithm: a counting sort by one block. Rows are counted by atomics on a counter of each group;
 * one scan of counts and tiles, in the halves of a 64-bit word, gives where groups begin and lists
 * their tiles; then rows go to their places, again by atomics. The order within a group depends
 * on timing, no result does: each row's sum is its own.
 * Traffic: indices are read twice; 4 bytes a row and 8 a tile written. One multiprocessor works.
 * Limits: indices below 0 count from the end; those out of range set *bad and get no place.
 */
#ifndef RLX_G_EXPERT_ROWS_H
#define RLX_G_EXPERT_ROWS_H

#include "kernels/gpu/gemm_grouped.h"
#include "kernels/gpu/move.h"

/* EDGE: rows of a tile; THREADS: of a block */
template <int EDGE, int THREADS> struct expert_rows {
	const struct rlx_g_grouped	&a;
	int	*tiles, *end, *list, *tile;	/* see rlx_g_grouped_words() */

	DEV expert_rows(const struct rlx_g_grouped &all, const struct rlx_g_env &env)
		: a(all), tiles((int *)env.scratch), end(tiles + 1), list(end + all.groups),
		  tile(list + all.g.m) {}

	/* Calls @f with the matrix of each row that carries data, and the row. */
	template <class F> DEV void each_row(const struct rlx_g_env &env, F f) const
	{
		const void *idx = RLX_G_PTR(const void, a.idx);
		int32_t *bad = RLX_G_PTR(int32_t, a.bad);

		for (int64_t i = threadIdx.x; i < live_checked(env, a.live); i += THREADS) {
			int64_t at = load_index(idx, i, a.idx_type);

			if (index_in(&at, (int64_t)a.groups, bad))
				f(at, (int)i);
		}
		__syncthreads();
	}

	/* How many rows each group has becomes where it begins, and its tiles are listed. */
	DEV void lay_out(uint64_t *smem) const
	{
		uint64_t before = 0;	/* rows, and tiles above bit 32 */

		for (int64_t first = 0; first < (int64_t)a.groups; first += THREADS) {
			int64_t e = first + threadIdx.x;
			int rows = e < (int64_t)a.groups ? end[e] : 0;
			int n = (rows + EDGE - 1) / EDGE;
			uint64_t mine = (uint64_t)n << 32 | (uint32_t)rows;
			uint64_t at = warp_scan<op_sum>(mine);

			if (lane_id() == WARP - 1)
				smem[warp_id()] = at;
			__syncthreads();
			at += before - mine;
			for (int w = 0; w < THREADS / WARP; w++) {
				at += w < warp_id() ? smem[w] : 0;
				before += smem[w];
			}
			for (int i = 0; i < n; i++) {
				int *t = tile + 2 * ((at >> 32) + i);

				t[0] = (int)e;
				t[1] = (int)(uint32_t)at + i * EDGE;
			}
			if (e < (int64_t)a.groups)
				end[e] = (int)(uint32_t)at;
			__syncthreads();
		}
		if (threadIdx.x == 0)
			*tiles = (int)(before >> 32);
	}

	/* By one block; @smem: a word of 8 bytes for each warp. */
	DEV void sort(const struct rlx_g_env &env, uint64_t *smem) const
	{
		uint32_t *at = (uint32_t *)end;
		int *to = list;

		for (int64_t e = threadIdx.x; e < (int64_t)a.groups; e += THREADS)
			end[e] = 0;
		__syncthreads();
		each_row(env, [=](int64_t e, int) { atomic_add(at + e, 1u); });
		lay_out(smem);
		/* what was the begin of each group becomes its end */
		each_row(env, [=](int64_t e, int i) { to[atomic_add(at + e, 1u)] = i; });
	}

	/* The group of tile @t, its rows' numbers, and how many they are. */
	DEV int take(int64_t t, const int **rows, size_t *m) const
	{
		int group = tile[2 * t], first = tile[2 * t + 1], left = end[group] - first;

		*rows = list + first;
		*m = (size_t)(left < EDGE ? left : EDGE);
		return group;
	}

	/* Where its matrix is becomes g->b, if it lies apart; false: by another launch. */
	DEV bool find(int group, struct rlx_k_gemm *g) const
	{
		if (a.where)
			g->b = (const void *)a.where[group];
		return a.where ? g->b != 0 : !a.only || group == (int)a.only - 1;
	}
};

#endif
