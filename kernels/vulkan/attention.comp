// SPDX-License-Identifier: MIT
/*
 * Attention (struct rlx_k_attention): a subgroup for each query of each head.
 *
 * Algorithm: keys in blocks of a lane each: a lane has the score of its key; the maximum and
 * the sum go along (online softmax), and lanes have CHUNKS elements each of the result, to
 * which every key of the block adds its value.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lib.glsl"
#include "math.glsl"
#include "rows.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint Q_TYPE = 2;
layout(constant_id = 2) const uint KV_TYPE = 2;
layout(constant_id = 3) const uint OUT_TYPE = 2;
layout(constant_id = 4) const uint BIAS_TYPE = 0;	/* 0: none; f32, or bool: a mask */
layout(constant_id = 5) const uint LENS_TYPE = 0;	/* 0: none */
layout(constant_id = 6) const bool CAUSAL = false;
layout(constant_id = 7) const uint CHUNKS = 8;		/* of v_dim, by lanes */

/* The score of key @j, of @len, whose row is at @k, for query @i; -inf where it is not seen */
float score(const in attention_t a, const in uint64_t q, const in uint64_t k, const in ivec4 at,
	    const in int64_t len)
{
	const int64_t b = at.x, h = at.y, i = at.z, j = at.w;
	float s = 0.0;

	if (j >= len || (a.window > 0 && j <= i + a.q_offset - a.window))
		return -INFINITY;
	for (uint64_t d = 0; d < uint64_t(a.head_dim); d++)
		s += load_real(Q_TYPE, a.q, q + d) * load_real(KV_TYPE, a.k, k + d);
	s *= a.scale;
	if (a.softcap > 0.0)
		s = a.softcap * m_tanh(s / a.softcap);
	if (BIAS_TYPE != 0) {
		const uint64_t from = uint64_t(b * a.bias_stride[0] + h * a.bias_stride[1] +
					       i * a.bias_stride[2] + j * a.bias_stride[3]);

		if (BIAS_TYPE == F32)
			s += f32_p(a.bias + from * 4).v;
		else if (u8_p(a.bias + from).v == uint8_t(0))
			return -INFINITY;
	}
	return s;
}

void main()
{
	attention_t a = attention_t(push.args);
	const int64_t units = a.batch * a.heads * a.q_len, group = a.heads / a.kv_heads;

	for (int64_t u = int64_t(GROUP); u < units; u += int64_t(GROUPS)) {
		const int64_t i = u % a.q_len, bh = u / a.q_len, h = bh % a.heads, b = bh / a.heads;
		const int64_t kh = h / group;
		const uint64_t q = uint64_t(b * a.q_stride[0] + h * a.q_stride[1] +
					    i * a.q_stride[2]);
		const uint64_t k = uint64_t(b * a.k_stride[0] + kh * a.k_stride[1]);
		const uint64_t v = uint64_t(b * a.v_stride[0] + kh * a.v_stride[1]);
		const uint64_t o = uint64_t(b * a.out_stride[0] + h * a.out_stride[1] +
					    i * a.out_stride[2]);
		int64_t len = a.kv_len;
		float top = -INFINITY, sum = 0.0, acc[CHUNKS];

		if (LENS_TYPE != 0)
			len = min(len, load_index(LENS_TYPE, a.kv_lens, uint64_t(b)));
		if (CAUSAL)
			len = min(len, i + a.q_offset + 1);
		[[unroll]] for (uint c = 0; c < CHUNKS; c++)
			acc[c] = 0.0;
		for (int64_t first = 0; first < len; first += int64_t(THREADS)) {
			const int64_t j = first + int64_t(THREAD);
			const uint64_t kj = k + uint64_t(min(j, len - 1) * a.k_stride[2]);
			const float s = score(a, q, kj, ivec4(b, h, i, j), len);
			const float all = max_nan(row_max(s), top);

			if (all == -INFINITY)
				continue;

			const float p = m_exp(s - all), by = m_exp(top - all);

			sum = sum * by + subgroupAdd(p);
			top = all;
			[[unroll]] for (uint c = 0; c < CHUNKS; c++)
				acc[c] *= by;
			for (uint t = 0; t < THREADS && first + int64_t(t) < len; t++) {
				const float w = subgroupShuffle(p, t);
				const uint64_t row = v + uint64_t((first + int64_t(t)) * a.v_stride[2]);

				if (w == 0.0)
					continue;
				[[unroll]] for (uint c = 0; c < CHUNKS; c++) {
					const uint d = min(c * THREADS + THREAD, uint(a.v_dim) - 1);

					acc[c] += w * load_real(KV_TYPE, a.v, row + d);
				}
			}
		}
		[[unroll]] for (uint c = 0; c < CHUNKS; c++) {
			const uint d = c * THREADS + THREAD;

			if (d < uint(a.v_dim))
				store_real(OUT_TYPE, a.out_, o + d,
					   sum == 0.0 ? 0.0 : acc[c] / sum);
		}
		if (a.lse != 0 && THREAD == 0)
			f32_p(a.lse + uint64_t(u) * 4).v =
				sum == 0.0 ? -INFINITY : top + m_log(sum);
	}
}
