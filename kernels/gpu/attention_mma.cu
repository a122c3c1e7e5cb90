// SPDX-License-Identifier: MIT
/*
 * Attention by a warp's tensor cores: tiles of queries against tiles of keys, online softmax.
 *
 * Algorithm: a block has 4 warps (AMD: 2) with 16 queries each of one head, and goes over keys
 * 64 at a time: scores = q k^T in registers, the running maximum and sum of each row are
 * brought up to date, and the weights, rounded to the values' type, multiply the values. The
 * next keys and values arrive by asynchronous copies meanwhile. Warps beyond the last query only
 * load. Where blocks are few, several share out the keys of one (attention_split.h).
 *
 * Tiles: 64 queries by 64 keys by the width of a head (filled up with zeros to 32, 64,
 * 96, 128 or 256).
 * Traffic: q, out once; k, v once for every 64 queries of a head, mostly from the L2. Scores
 * never lie in memory: O(len) bytes instead of O(len^2).
 *
 * Source: Dao et al., "FlashAttention" (2022) and "FlashAttention-2" (2023); the online
 * softmax is Milakov and Gimelshein's (2018). Limits: f16, bf16; heads up to 256 wide.
 */
#include "kernels/gpu/attention_split.h"

enum {
	LD = HD + 8,
	THREADS = 128, WARPS = THREADS / RLX_WARP, ROWS = WARPS * MMA_M,
	KEYS = 64, TN = KEYS / MMA_N, TV = HD / MMA_N,
	LDP = KEYS + 8,
	Q_HALVES = ROWS * LD, KV_HALVES = KEYS * LD,
};

#include "kernels/gpu/attention_rows.h"

/* out += weights times values; @smem: the warp's, for lanes to trade weights. */
static DEV inline void weigh(struct state *s, const float (&c)[TN * MMA_C], const half *v,
			     half *smem)
{
#if RLX_WARP == 64
#pragma unroll
	for (int e = 0; e < TN * MMA_C; e++)
		smem[mma_c_row(e % MMA_C) * LDP + e / MMA_C * MMA_N + mma_c_col(e % MMA_C)] =
			from_f32<half>(c[e]);
	warp_sync();
#else
	uint32_t p[TN * MMA_C / 2];

	pack_weights(p, c);
#endif
#pragma unroll
	for (int k = 0; k < KEYS; k += MMA_K) {
		uint32_t fb[MMA_B];
#if RLX_WARP == 64
		uint32_t fa[MMA_A];

		mma_load_a(fa, smem + k, LDP, false);
#else
		/* c of two products is a of the next: the layouts agree */
		const uint32_t *fa = &p[k / 4];
#endif
#pragma unroll
		for (int t = 0; t < TV; t++) {
			mma_load_b(fb, v + k * LD + t * MMA_N, LD, true);
			mma<half>(s->out + t * MMA_C, fa, fb);
		}
	}
#if RLX_WARP == 64
	warp_sync();
#endif
}

/* Where a warp has what is its own: queries, shared memory for weights; its first row. */
struct warp_at {
	const half	*q;
	half		*smem;
	const void	*bias;
	int		row;
};

/* A tile of keys, from @key on, at @now, its values behind it. */
static DEV inline void attend_tile(const struct rlx_k_attention &a, const struct job &w,
				   const struct warp_at &at, struct state *s, const half *now,
				   int key)
{
	float c[TN * MMA_C] = {}, scale[LANE_ROWS];

#pragma unroll
	for (int d = 0; d < HD; d += MMA_K) {
		uint32_t fa[MMA_A], fb[MMA_B];

		mma_load_a(fa, at.q + d, LD, false);
#pragma unroll
		for (int j = 0; j < TN; j++) {
			mma_load_b(fb, now + j * MMA_N * LD + d, LD, false);
			mma<half>(c + j * MMA_C, fa, fb);
		}
	}
	if (!PLAIN)
		adjust(a, at.bias, w, c, at.row, key);
	mask(a, w, c, at.row, key);
	soften(s, c, steepness(a), scale);
	rescale(s, scale);
	weigh(s, c, now + KV_HALVES, at.smem);
}

/* The block's keys: into a row of @s each lane's queries. */
static DEV inline void attend(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			      const struct job &w, half *shared, struct state *s)
{
	int kv_head = w.h / (int)(a.heads / a.kv_heads), first = warp_id() * MMA_M;
	half *kv = shared + Q_HALVES;
	const struct warp_at at = { shared + first * LD, kv + 4 * KV_HALVES + first * LDP,
				    RLX_G_PTR(const void, a.bias), w.first + first };
	struct rows q = rows_of(RLX_G_PTR(const void, a.q), a.q_stride, w.b, w.h, a.q_len,
				a.head_dim);
	struct rows k = rows_of(RLX_G_PTR(const void, a.k), a.k_stride, w.b, kv_head, w.len,
				a.head_dim);
	struct rows v = rows_of(RLX_G_PTR(const void, a.v), a.v_stride, w.b, kv_head, w.len,
				a.v_dim);

	state_clear(s);
	load_rows<ROWS>(shared, q, w.first);
	if (w.from < w.to) {
		load_rows<KEYS>(kv, k, w.from * KEYS);
		load_rows<KEYS>(kv + KV_HALVES, v, w.from * KEYS);
	}
	copy_commit();
	for (int t = w.from; t < w.to; t++) {
		half *now = kv + (t - w.from) % 2 * 2 * KV_HALVES;
		half *next = kv + (t - w.from + 1) % 2 * 2 * KV_HALVES;

		copy_wait<0>();
		__syncthreads();
		if (t + 1 < w.to) {
			load_rows<KEYS>(next, k, (t + 1) * KEYS);
			load_rows<KEYS>(next + KV_HALVES, v, (t + 1) * KEYS);
		}
		copy_commit();
		if (at.row < (int)a.q_len)
			attend_tile(a, w, at, s, now, t * KEYS);
	}
	copy_wait<0>();
}

RLX_G_KERNEL(attention_mma, struct rlx_k_attention, THREADS)
{
	SHARED_DYNAMIC(shared);
	uint32_t heads = heads_of(a, env), n = shares_of(a, ROWS), share = blockIdx.x % n;

	for (uint32_t u = blockIdx.x / n; u < jobs_of(a, heads, ROWS); u += gridDim.x / n) {
		struct job w = job_at(a, env, heads, u, ROWS, KEYS);
		struct state s;

		if (ATTENTION_SPLIT && env.pass) {
			merge_job(a, env, u, ROWS, (int)share, (int)n);
			continue;
		}
		take_share(&w, (int)share, (int)n);
		attend(a, env, w, (half *)shared, &s);
		if (ATTENTION_SPLIT)
			leave(a, w, s, parts_of(a, env, u * n + share, ROWS, 1),
			      warp_id() * MMA_M);
		else
			store(a, env, w, s, w.first + warp_id() * MMA_M);
		__syncthreads();
	}
}
