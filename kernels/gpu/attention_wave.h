/* SPDX-License-Identifier: MIT */
/*
 * Attention to few keys: a wave for each head and 16 queries has all scores in
 * registers at once, and no wave waits for another.
 */
#ifndef RLX_G_ATTENTION_WAVE_H
#define RLX_G_ATTENTION_WAVE_H

#include "kernels/gpu/attention.h"
#include "kernels/gpu/mma.h"

/*
 * HALF: of q, k, v and the weights. HD: width of a head, filled up with zeros to 32, 64,
 * 96 or 128. KEYS: of a head, filled up to 16, 32 or 64. MORE: there is a bias or a cap.
 */
template <class HALF, int HD, int KEYS, bool MORE> struct attention_wave {
	enum {
		STEPS = HD / 32, TN = KEYS / MMA_N, TV = HD / MMA_N, QUERIES = MMA_A / 2,
		SHARE = RLX_WAVE == 32 ? 4 : 16,	/* lanes that hold one row of c */
		LDV = HD + 8, LDP = KEYS + 8,
		ROOM = KEYS * LDV + MMA_M * LDP,	/* halves of a wave's shared memory */
	};

	/* A head of one batch row; @wide: its rows may be read by 16 bytes. */
	struct head {
		const HALF	*p;
		int64_t		stride;
		int		n, dim;
		bool		wide;

		DEV void set(const void *at, const int64_t *by, int64_t b, int64_t h,
			     int64_t rows, int64_t width)
		{
			p = (const HALF *)at + b * by[0] + h * by[1];
			stride = by[2];
			n = (int)rows;
			dim = (int)width;
			wide = ((uint64_t)p | (uint64_t)(stride * 2) |
				(uint64_t)(width * 2)) % 16 == 0;
		}

		/* Elements [c, c + 8) of row @r, zeros where there are none. */
		DEV void load_eight(uint32_t *to, int r, int c) const
		{
			const HALF *from = p + r * stride + c;
			HALF v[8] = {};

			if (wide) {
				load_words(to, from, r < n && c < dim);
				return;
			}
			for (int i = 0; i < 8; i++)
				if (r < n && c + i < dim)
					v[i] = from[i];
			memcpy(to, v, sizeof(v));
		}
	};

	/* What a wave works at: a head of row @b, queries from @first on. */
	struct job {
		int64_t		b, h, first, len;	/* keys of this row */
		const void	*bias;
		struct head	q, k, v;
	};

	static DEV struct job job_at(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				     uint32_t row, uint32_t h, int64_t first)
	{
		uint32_t kv = h / ((uint32_t)a.heads / (uint32_t)a.kv_heads);
		struct job w = { row, h, first, a.kv_len, RLX_G_PTR(const void, a.bias) };

		w.q.set(RLX_G_PTR(const void, a.q), a.q_stride, row, h, a.q_len, a.head_dim);
		w.k.set(RLX_G_PTR(const void, a.k), a.k_stride, row, kv, a.kv_len, a.head_dim);
		w.v.set(RLX_G_PTR(const void, a.v), a.v_stride, row, kv, a.kv_len, a.v_dim);
		return w;
	}

	/* The values into shared memory, behind the wave's back where that can be. */
	static DEV void load_values(HALF *to, const struct head &v)
	{
#pragma unroll
		for (int i = lane_id(); i < KEYS * HD / 8; i += WAVE) {
			int r = i / (HD / 8), c = i % (HD / 8) * 8;
			bool there = r < v.n && c < v.dim;

			if (v.wide)
				copy_async(to + r * LDV + c, there ? v.p + r * v.stride + c : v.p,
					   16, there ? 16 : 0);
			else
				v.load_eight((uint32_t *)(to + r * LDV + c), r, c);
		}
		copy_commit();
	}

	/* s = q k' by eights of a head's width, in the order that both have them in. */
	static DEV void products(const struct job &w, float (*s)[MMA_C])
	{
		int at = (WAVE == 32 ? lane_id() % 4 : lane_id() / 16) * 8;
		uint32_t a[STEPS][QUERIES][4], b[STEPS][TN][4];

#pragma unroll
		for (int d = 0; d < STEPS; d++) {
#pragma unroll
			for (int i = 0; i < QUERIES; i++)
				w.q.load_eight(a[d][i], (int)w.first + mma_a_row(2 * i),
					       d * 32 + at);
#pragma unroll
			for (int j = 0; j < TN; j++)
				w.k.load_eight(b[d][j], j * MMA_N + mma_b_col(0), d * 32 + at);
		}
#pragma unroll
		for (int d = 0; d < STEPS; d++)
#pragma unroll
			for (int p = 0; p < 4; p += 2) {
				uint32_t fa[MMA_A];

#pragma unroll
				for (int i = 0; i < MMA_A; i++)
					fa[i] = a[d][i % QUERIES][p + i / QUERIES];
#pragma unroll
				for (int j = 0; j < TN; j++)
					mma<HALF>(s[j], fa, &b[d][j][p]);
			}
	}

	static DEV float score(const struct rlx_k_attention &a, const struct job &w, int64_t i,
			       int64_t k, float s)
	{
		s *= a.scale;
		if (!MORE)
			return s;
		s = capped(a, s);
		return !w.bias ? s : biased(a, w.bias, w.b * a.bias_stride[0] +
					    w.h * a.bias_stride[1] + i * a.bias_stride[2] +
					    k * a.bias_stride[3], s);
	}

	/* v[e], of row mma_c_row(e), from all the lanes that hold that row. */
	template <class OP> static DEV void across_row(float *v)
	{
#pragma unroll
		for (int e = 0; e < MMA_C; e++)
			for (int m = SHARE / 2; m; m /= 2)
				v[e] = OP::of(v[e], wave_xor(v[e], m));
		/* a lane of 32 has two of a row */
#pragma unroll
		for (int e = 0; RLX_WAVE == 32 && e < MMA_C; e += 2)
			v[e] = v[e + 1] = OP::of(v[e], v[e + 1]);
	}

	/* Scores to weights; @sum: of each of the lane's rows. */
	static DEV void weigh(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			      const struct job &w, float (*s)[MMA_C], float *sum)
	{
		float *lse = RLX_G_PTR(float, a.lse), max[MMA_C];

#pragma unroll
		for (int e = 0; e < MMA_C; e++) {
			int64_t i = w.first + mma_c_row(e), lo, hi;

			max[e] = -INFINITY;
			keys_seen(a, 0, w.b, i, &lo, &hi);
			hi = hi < w.len ? hi : w.len;
#pragma unroll
			for (int j = 0; j < TN; j++) {
				int64_t k = j * MMA_N + mma_c_col(e);

				s[j][e] = i < a.q_len && k >= lo && k < hi ?
					  score(a, w, i, k, s[j][e]) : -INFINITY;
				max[e] = op_max::of(max[e], s[j][e]);
			}
		}
		across_row<op_max>(max);
#pragma unroll
		for (int e = 0; e < MMA_C; e++) {
			sum[e] = 0;
#pragma unroll
			for (int j = 0; j < TN; j++) {
				s[j][e] = s[j][e] == -INFINITY ? 0 : fast_exp(s[j][e] - max[e]);
				sum[e] += s[j][e];
			}
		}
		across_row<op_sum>(sum);
#pragma unroll
		for (int e = 0; e < MMA_C; e++)
			if (lse && lane_id() % SHARE == 0 && w.first + mma_c_row(e) < a.q_len)
				lse[(w.b * a.heads + w.h) * a.q_len + w.first + mma_c_row(e)] =
					sum[e] != 0 ? max[e] + logf(sum[e]) : -INFINITY;
	}

	/* What MMA_K keys from @k0 on weigh, as a. */
	static DEV void take_weights(uint32_t *fa, const float (*s)[MMA_C], const HALF *weights,
				     int k0)
	{
		if constexpr (MMA_A == 4) {	/* c of two products is a of the next */
#pragma unroll
			for (int i = 0; i < MMA_A; i++) {
				const float *c = s[k0 / MMA_N + i / 2] + i % 2 * 2;

				fa[i] = pack_halves<HALF>(c[0], c[1]);
			}
		} else {
			mma_load_a(fa, weights + k0, LDP, false);
		}
	}

	/* One job: put(query, column of the head, what comes out). @room: the wave's own. */
	template <class PUT>
	static DEV void attend(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			       struct job &w, HALF *room, PUT put)
	{
		const void *lens = RLX_G_PTR(const void, a.kv_lens);
		HALF *weights = room + KEYS * LDV;
		float s[TN][MMA_C] = {}, y[TV][MMA_C] = {}, sum[MMA_C];

		if (lens)
			w.len = keys_of(a, lens, w.b);
		w.v.n = (int)w.len;	/* what stands beyond may be NaN */
		load_values(room, w.v);
		products(w, s);
		weigh(a, env, w, s, sum);
#pragma unroll
		for (int j = 0; j < TN && MMA_A != 4; j++)
#pragma unroll
			for (int e = 0; e < MMA_C; e++)
				weights[mma_c_row(e) * LDP + j * MMA_N + mma_c_col(e)] =
					from_f32<HALF>(s[j][e]);
		copy_wait<0>();
		wave_sync();
#pragma unroll
		for (int e = 0; e < MMA_C; e++)
			sum[e] = sum[e] != 0 ? 1 / sum[e] : 0;
#pragma unroll
		for (int k0 = 0; k0 < KEYS; k0 += MMA_K) {
			uint32_t fa[MMA_A];

			take_weights(fa, s, weights, k0);
#pragma unroll
			for (int j = 0; j < TV; j++) {
				uint32_t fb[MMA_B];

				mma_load_b(fb, room + k0 * LDV + j * MMA_N, LDV, true);
				mma<HALF>(y[j], fa, fb);
			}
		}
#pragma unroll
		for (int j = 0; j < TV; j++)
#pragma unroll
			for (int e = 0; e < MMA_C; e++) {
				int64_t i = w.first + mma_c_row(e), d = j * MMA_N + mma_c_col(e);

				if (i < a.q_len && d < a.v_dim)
					put(i, d, y[j][e] * sum[e]);
			}
	}
};

#endif
