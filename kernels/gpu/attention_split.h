/* SPDX-License-Identifier: MIT */
/*
 * Split-KV of attention by tiles (attention_mma.cu, attention_wgmma.cu): where jobs are few,
 * several blocks share out the tiles of keys of each, and leave parts (attention_parts.h), which a
 * second pass merges. The launch has as many blocks as there are jobs, times the shares.
 */
#ifndef RLX_G_ATTENTION_SPLIT_H
#define RLX_G_ATTENTION_SPLIT_H

#include "kernels/gpu/attention_parts.h"
#include "kernels/gpu/attention_softmax.h"

/* ATTENTION_SPLIT: it is so. Shares of each job of @rows queries. */
static DEV inline uint32_t shares_of(const struct rlx_k_attention &a, int rows)
{
	return ATTENTION_SPLIT ? gridDim.x / jobs_of(a, (uint32_t)(a.batch * a.heads), rows) : 1;
}

/* What share @s of @n has of a job's tiles of keys; all behind them are seen by others. */
static DEV inline void take_share(struct job *w, int s, int n)
{
	int tiles = w->to > w->from ? w->to - w->from : 0, from = w->from;

	if (!ATTENTION_SPLIT)
		return;
	w->from = from + (int)((int64_t)tiles * s / n);
	w->to = from + (int)((int64_t)tiles * (s + 1) / n);
}

/* Where the parts of job @u begin, of @rows rows and @n of them. */
static DEV inline float *parts_of(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				  uint32_t u, int rows, int n)
{
	return (float *)env.scratch + (int64_t)u * n * rows * part_row(a);
}

/* A warp's rows, from @first of the part at @to on. */
static DEV inline void leave(const struct rlx_k_attention &a, const struct job &w,
			     const struct state &s, float *to, int first)
{
#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++) {
		int i = first + mma_c_row(r * SIDE);
		float sum = across_row<op_sum>(s.sum[r]), *row = to + i * part_row(a);

		if (w.first + i >= (int)a.q_len)
			continue;
		if (mma_c_col(0) == 0) {
			row[0] = s.max[r] * (PLAIN ? a.scale : 1);
			row[1] = sum;
		}
#pragma unroll
		for (int e = 0; e < HD / MMA_N * SIDE; e++) {
			int d = mma_c_col(0) + e / SIDE * MMA_N + e % SIDE;

			if (d < (int)a.v_dim)
				row[2 + d] = s.out[e / SIDE * MMA_C + r * SIDE + e % SIDE];
		}
	}
}

/* The @n parts of job @u, of @rows rows, by as many blocks, of which this is @i. */
static DEV inline void merge_job(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				 uint32_t u, int rows, int i, int n)
{
	const struct job w = job_at(a, env, heads_of(a, env), u, rows, 1);
	const float *from = parts_of(a, env, u, rows, n);
	int dim = (int)a.v_dim, each = part_threads(dim), threads = (int)blockDim.x;
	int left = (int)a.q_len - w.first, have = left < rows ? left : rows;

#pragma unroll 1
	for (int e = i * threads + (int)threadIdx.x; e < have * each; e += n * threads) {
		const int64_t at[] = { w.b, w.h, w.first + e / each };
		struct whole x(e % each, each, dim);

		merge_row(&x, from + e / each * part_row(a), (int64_t)rows * part_row(a), n);
		store_whole(a, env, at, x);
	}
}

#endif
