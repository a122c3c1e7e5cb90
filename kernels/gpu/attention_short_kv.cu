// SPDX-License-Identifier: MIT
/*
 * Attention to up to 64 keys: a job is 16 queries of a head, and a block of 64 threads has a warp
 * for each of two jobs (AMD's warps of 64: one). What a job does stands in attention_short_kv.h,
 * which small-M GEMMs with attention as their prologue use too.
 *
 * Algorithm: all scores of a job are in registers at once, so the softmax needs no running maximum
 * and no warp waits for another; values go through the warp's own part of shared memory.
 * Traffic: q and out once; k and v once for every 16 queries of a head, after the first time
 * mostly from the L2.
 * Limits: f16 or bf16; heads up to 128 wide, filled up with zeros by 32; keys filled up to 16, 32
 * or 64. Rows that do not begin at multiples of 16 bytes are read by elements.
 */
#include "kernels/gpu/attention_short_kv.h"

/*
 * ATTENTION_TYPE: of q, k, v; ATTENTION_WIDTH: of a head; ATTENTION_KEYS: room for so many;
 * ATTENTION_MASKED: there is a bias, a cap or keys that not all queries see.
 */
typedef rlx_t<ATTENTION_TYPE>::mem half;
typedef attention_short_kv<half, ATTENTION_WIDTH, ATTENTION_KEYS, ATTENTION_MASKED, true> short_kv;

enum { WARPS = 64 / RLX_WARP };

RLX_G_KERNEL(attention_short_kv, struct rlx_k_attention, 64)
{
	SHARED_DYNAMIC(shared);
	uint32_t tiles = (uint32_t)((a.q_len + MMA_M - 1) / MMA_M), heads = (uint32_t)a.heads;
	uint32_t n = (uint32_t)live_rows(env, a.batch) * heads * tiles;
	half *smem = (half *)shared + warp_id() * short_kv::SMEM;
	void *out = RLX_G_PTR(void, a.out);

	for (uint32_t i = blockIdx.x * WARPS + (uint32_t)warp_id(); i < n;
	     i += gridDim.x * WARPS) {
		short_kv::job w = short_kv::job_at(a, env, i / tiles / heads, i / tiles % heads,
					 i % tiles * MMA_M);
		int64_t to = w.b * a.out_stride[0] + w.h * a.out_stride[1];

		short_kv::attend(a, env, w, smem, [&](int q, int d, int n, float y, float z) {
			int64_t at = to + q * a.out_stride[2] + d;

			store_float(out, at, ATTENTION_OUT_TYPE, y);
			if (n > 1)
				store_float(out, at + 1, ATTENTION_OUT_TYPE, z);
		});
		warp_sync();
	}
}
