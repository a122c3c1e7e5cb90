// SPDX-License-Identifier: MIT
/*
 * Attention by a warp's tensor cores: tiles of queries against tiles of keys, online softmax.
 *
 * Algorithm: a block has 4 warps (AMD: 2) with 16 queries each of one head, and goes over keys
 * 64 at a time: scores = q k^T in registers, the running maximum and sum of each row are
 * brought up to date, and the weights, rounded to the values' type, multiply the values. The
 * next keys and values arrive by asynchronous copies meanwhile.
 *
 * Tiles: 64 queries by 64 keys by the width of a head (filled up with zeros to 32, 64,
 * 96, 128 or 256).
 * Traffic: q, out once; k, v once for every 64 queries of a head, mostly from the L2. Scores
 * never lie in memory: O(len) bytes instead of O(len^2).
 *
 * Source: Dao et al., "FlashAttention" (2022) and "FlashAttention-2" (2023); the online
 * softmax is Milakov and Gimelshein's (2018). Limits: f16, bf16; heads up to 256 wide.
 */
#include "kernels/gpu/attention_softmax.h"

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

static DEV inline void attend(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			      const struct job &w, half *shared)
{
	int kv_head = w.h / (int)(a.heads / a.kv_heads), row = w.first + warp_id() * MMA_M;
	half *kv = shared + Q_HALVES, *smem = kv + 4 * KV_HALVES + warp_id() * MMA_M * LDP;
	struct rows q = rows_of(RLX_G_PTR(const void, a.q), a.q_stride, w.b, w.h, a.q_len,
				a.head_dim);
	struct rows k = rows_of(RLX_G_PTR(const void, a.k), a.k_stride, w.b, kv_head, w.len,
				a.head_dim);
	struct rows v = rows_of(RLX_G_PTR(const void, a.v), a.v_stride, w.b, kv_head, w.len,
				a.v_dim);
	const void *bias = RLX_G_PTR(const void, a.bias);
	struct state s;

	state_clear(&s);
	load_rows<ROWS>(shared, q, w.first);
	if (w.from < w.to) {
		load_rows<KEYS>(kv, k, w.from * KEYS);
		load_rows<KEYS>(kv + KV_HALVES, v, w.from * KEYS);
	}
	copy_commit();
	for (int t = w.from; t < w.to; t++) {
		half *now = kv + (t - w.from) % 2 * 2 * KV_HALVES;
		half *next = kv + (t - w.from + 1) % 2 * 2 * KV_HALVES;
		float c[TN * MMA_C] = {}, scale[LANE_ROWS];

		copy_wait<0>();
		__syncthreads();
		if (t + 1 < w.to) {
			load_rows<KEYS>(next, k, (t + 1) * KEYS);
			load_rows<KEYS>(next + KV_HALVES, v, (t + 1) * KEYS);
		}
		copy_commit();
#pragma unroll
		for (int d = 0; d < HD; d += MMA_K) {
			uint32_t fa[MMA_A], fb[MMA_B];

			mma_load_a(fa, shared + warp_id() * MMA_M * LD + d, LD, false);
#pragma unroll
			for (int j = 0; j < TN; j++) {
				mma_load_b(fb, now + j * MMA_N * LD + d, LD, false);
				mma<half>(c + j * MMA_C, fa, fb);
			}
		}
		if (!PLAIN)
			adjust(a, bias, w, c, row, t * KEYS);
		mask(a, w, c, row, t * KEYS);
		soften(&s, c, steepness(a), scale);
		rescale(&s, scale);
		weigh(&s, c, now + KV_HALVES, smem);
	}
	copy_wait<0>();
	store(a, env, w, s, row);
}

RLX_G_KERNEL(attention_mma, struct rlx_k_attention, THREADS)
{
	SHARED_DYNAMIC(shared);

	uint32_t heads = heads_of(a, env);

	for (uint32_t u = blockIdx.x; u < jobs_of(a, heads, ROWS); u += gridDim.x) {
		attend(a, env, job_at(a, env, heads, u, ROWS, KEYS), (half *)shared);
		__syncthreads();
	}
}
