/* SPDX-License-Identifier: MIT */
/*
 * Attention to few keys: a warp for each head and 16 queries has all scores in
 * registers at once, and no warp waits for another.
 */
#ifndef RLX_G_ATTENTION_SHORT_KV_H
#define RLX_G_ATTENTION_SHORT_KV_H

#include "kernels/gpu/attention.h"
#include "kernels/gpu/mma.h"

/*
 * HALF: of q, k, v and the weights. HD: width of a head, filled up with zeros to 32, 64,
 * 96 or 128. KEYS: of a head, filled up to 16, 32 or 64. MORE: there is a bias or a cap, or
 * queries do not see all keys. ANY: rows may lie so that they cannot be read by 16 bytes.
 */
template <class HALF, int HD, int KEYS, bool MORE, bool ANY> struct attention_short_kv {
	enum {
		STEPS = HD / 32, TN = KEYS / MMA_N, TV = HD / MMA_N, QUERIES = MMA_A / 2,
		SHARE = RLX_WARP == 32 ? 4 : 16,	/* lanes that hold one row of c */
		LDV = HD + 8, LDP = KEYS + 8,
		SMEM = KEYS * LDV + MMA_M * LDP,	/* elements of shared memory a warp */
	};

	/* A head of one batch row; @wide: its rows may be read by 16 bytes. */
	struct head {
		const HALF	*p;
		int		stride, n, dim;
		bool		wide;

		DEV void set(const void *at, const int64_t *by, int64_t b, int64_t h,
			     int64_t rows, int64_t width)
		{
			p = (const HALF *)at + b * by[0] + h * by[1];
			stride = (int)by[2];	/* launch_attention.h sees to that */
			n = (int)rows;
			dim = (int)width;
			wide = !ANY || ((uint64_t)p | (uint64_t)(stride * 2) |
				(uint64_t)(width * 2)) % 16 == 0;
		}

		/* Elements [c, c + 8) of row @r, zeros where there are none. */
		template <bool WIDE> DEV void load_eight(uint32_t *to, int r, int c) const
		{
			const HALF *from = p + (int64_t)r * stride + c;
			HALF v[8] = {};

			if (WIDE) {
				load_words(to, from, r < n && c < dim);
				return;
			}
			for (int i = 0; i < 8; i++)
				if (r < n && c + i < dim)
					v[i] = from[i];
			memcpy(to, v, sizeof(v));
		}
	};

	/* What a warp works at: a head of row @b, queries from @first on. */
	struct job {
		int		b, h, first, len;	/* keys of this row */
		const void	*bias, *lens;
		struct head	q, k, v;
	};

	static DEV struct job job_at(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				     uint32_t row, uint32_t h, uint32_t first)
	{
		uint32_t kv = h / ((uint32_t)a.heads / (uint32_t)a.kv_heads);
		struct job w = { (int)row, (int)h, (int)first, (int)a.kv_len,
				 RLX_G_PTR(const void, a.bias), RLX_G_PTR(const void, a.kv_lens) };

		w.q.set(RLX_G_PTR(const void, a.q), a.q_stride, row, h, a.q_len, a.head_dim);
		w.k.set(RLX_G_PTR(const void, a.k), a.k_stride, row, kv, a.kv_len, a.head_dim);
		w.v.set(RLX_G_PTR(const void, a.v), a.v_stride, row, kv, a.kv_len, a.v_dim);
		return w;
	}

	/* The values into shared memory, behind the warp's back where that can be. */
	static DEV void load_values(HALF *to, const struct head &v)
	{
		if (ANY && !v.wide) {
#pragma unroll 4
			for (int i = lane_id(); i < KEYS * HD / 8; i += WARP) {
				int r = i / (HD / 8), c = i % (HD / 8) * 8;

				v.template load_eight<false>((uint32_t *)(to + r * LDV + c), r, c);
			}
			return;
		}
#pragma unroll
		for (int i = lane_id(); i < KEYS * HD / 8; i += WARP) {
			int r = i / (HD / 8), c = i % (HD / 8) * 8;
			bool there = r < v.n && c < v.dim;

			copy_async(to + r * LDV + c, there ? v.p + (int64_t)r * v.stride + c : v.p,
				   16, there ? 16 : 0);
		}
		copy_commit();
	}

	/* Zeros instead of values from row @len on: what stands there may be NaN. */
	static DEV void cut(HALF *to, int len)
	{
		for (int i = len * LDV + lane_id(); i < KEYS * LDV; i += WARP)
			to[i] = HALF{};
	}

	/* Of 32 of a head's width the queries and keys of a lane, by eights. */
	template <bool WIDE> struct step {
		uint32_t	a[QUERIES][4], b[TN][4];

		DEV void load(const struct job &w, int d)
		{
			d += (WARP == 32 ? lane_id() % 4 : lane_id() / 16) * 8;
#pragma unroll
			for (int i = 0; i < QUERIES; i++)
				w.q.template load_eight<WIDE>(
					a[i], (int)w.first + mma_a_row(2 * i), d);
#pragma unroll
			for (int j = 0; j < TN; j++)
				w.k.template load_eight<WIDE>(b[j], j * MMA_N + mma_b_col(0), d);
		}

		DEV void multiply(float (*s)[MMA_C]) const
		{
#pragma unroll
			for (int p = 0; p < 4; p += 2) {
				uint32_t fa[MMA_A];

#pragma unroll
				for (int i = 0; i < MMA_A; i++)
					fa[i] = a[i % QUERIES][p + i / QUERIES];
#pragma unroll
				for (int j = 0; j < TN; j++)
					mma<HALF>(s[j], fa, &b[j][p]);
			}
		}
	};

	/*
	 * s = q k' by eights of a head's width, in the order that both have them in; and how
	 * many keys the row has, which comes on its way. Rows that lie anyhow have code of their
	 * own, which is slow and small: what is skipped as a whole is not fetched.
	 */
	static DEV void products(const struct rlx_k_attention &all, struct job &w,
				 float (*s)[MMA_C])
	{
		step<true> o[STEPS];

		if (w.lens)
			w.len = (int)keys_of(all, w.lens, w.b);
		if (ANY && !(w.q.wide && w.k.wide)) {
#pragma unroll 1
			for (int d = 0; d < STEPS; d++) {
				step<false> one;

				one.load(w, d * 32);
				one.multiply(s);
			}
			return;
		}
#pragma unroll
		for (int d = 0; d < STEPS; d++)
			o[d].load(w, d * 32);
#pragma unroll
		for (int d = 0; d < STEPS; d++)
			o[d].multiply(s);
	}

	/* Scores of products: scaled, and with what is rare, each by itself for the same reason. */
	static DEV void finish(const struct rlx_k_attention &a, const struct job &w,
			       float (*s)[MMA_C])
	{
#pragma unroll
		for (int i = 0; i < TN * MMA_C; i++)
			s[i / MMA_C][i % MMA_C] *= a.scale;
		if (MORE && a.softcap > 0)
#pragma unroll
			for (int i = 0; i < TN * MMA_C; i++)
				s[i / MMA_C][i % MMA_C] = capped(a, s[i / MMA_C][i % MMA_C]);
		if (MORE && w.bias)
#pragma unroll
			for (int e = 0; e < MMA_C; e++)
				add_bias(a, w, s, e);
	}

	/* To what a lane has of row mma_c_row(@e), where there are scores. */
	static DEV void add_bias(const struct rlx_k_attention &a, const struct job &w,
				 float (*s)[MMA_C], int e)
	{
		int i = w.first + mma_c_row(e);
		int64_t at = w.b * a.bias_stride[0] + w.h * a.bias_stride[1] +
			     i * a.bias_stride[2];

#pragma unroll
		for (int j = 0; j < TN; j++) {
			int k = j * MMA_N + mma_c_col(e);

			if (i < w.q.n && k < w.len)
				s[j][e] = biased(a, w.bias, at + k * a.bias_stride[3], s[j][e]);
		}
	}

	/* v[e], of row mma_c_row(e), from all the lanes that hold that row. */
	template <class OP> static DEV void across_row(float *v)
	{
		enum { OWN = RLX_WARP == 32 ? 2 : 1 };	/* of a row that a lane has */

#pragma unroll
		for (int e = 0; OWN > 1 && e < MMA_C; e += OWN)
			v[e] = OP::of(v[e], v[e + OWN - 1]);
		for (int m = SHARE / 2; m; m /= 2)
#pragma unroll
			for (int e = 0; e < MMA_C; e += OWN)
				v[e] = OP::of(v[e], warp_xor(v[e], m));
#pragma unroll
		for (int e = 0; OWN > 1 && e < MMA_C; e += OWN)
			v[e + OWN - 1] = v[e];
	}

	/* Scores that count, others are -INFINITY; @max: of each of the lane's rows. */
	static DEV void limit(const struct rlx_k_attention &a, const struct job &w,
			      float (*s)[MMA_C], float *max)
	{
		finish(a, w, s);
#pragma unroll
		for (int e = 0; e < MMA_C; e++) {
			int64_t lo = 0, hi = w.len;
			int i = w.first + mma_c_row(e);

			max[e] = -INFINITY;
			if (MORE)
				keys_seen(a, 0, w.b, i, &lo, &hi);
#pragma unroll
			for (int j = 0; j < TN; j++) {
				int k = j * MMA_N + mma_c_col(e);
				bool seen = k < w.len;

				if (MORE)
					seen = seen && i < w.q.n && k >= lo && k < hi;
				s[j][e] = seen ? s[j][e] : -INFINITY;
				max[e] = op_max::of(max[e], s[j][e]);
			}
		}
		across_row<op_max>(max);
	}

	/* Scores to weights; @sum: of each of the lane's rows. */
	static DEV void weigh(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			      const struct job &w, float (*s)[MMA_C], float *sum)
	{
		float *lse = RLX_G_PTR(float, a.lse), max[MMA_C];

		limit(a, w, s, max);
#pragma unroll
		for (int e = 0; e < MMA_C; e++) {
			float from = max[e] == -INFINITY ? 0 : max[e];	/* no key: all 0 */

			sum[e] = 0;
#pragma unroll
			for (int j = 0; j < TN; j++) {
				s[j][e] = fast_exp(s[j][e] - from);
				sum[e] += s[j][e];
			}
		}
		across_row<op_sum>(sum);
		if (!ANY || !lse || lane_id() % SHARE)
			return;
#pragma unroll
		for (int e = 0; e < MMA_C; e++)
			if (w.first + mma_c_row(e) < w.q.n)
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

	/*
	 * One job: put(query, column of the head, 1 or 2 there, what comes out of them).
	 * @smem: the warp's own.
	 */
	template <class PUT>
	static DEV void attend(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			       struct job &w, HALF *smem, PUT put)
	{
		HALF *weights = smem + KEYS * LDV;
		float s[TN][MMA_C] = {}, y[TV][MMA_C] = {}, sum[MMA_C];

		load_values(smem, w.v);
		products(a, w, s);
		weigh(a, env, w, s, sum);
#pragma unroll
		for (int j = 0; j < TN && MMA_A != 4; j++)
#pragma unroll
			for (int e = 0; e < MMA_C; e++)
				weights[mma_c_row(e) * LDP + j * MMA_N + mma_c_col(e)] =
					from_f32<HALF>(s[j][e]);
		copy_wait<0>();
		warp_sync();
		if (w.len < w.v.n) {
			cut(smem, w.len);
			warp_sync();
		}
#pragma unroll
		for (int e = 0; e < MMA_C; e++)
			sum[e] = sum[e] != 0 ? fast_reciprocal(sum[e]) : 0;
#pragma unroll
		for (int k0 = 0; k0 < KEYS; k0 += MMA_K) {
			uint32_t fa[MMA_A];

			take_weights(fa, s, weights, k0);
#pragma unroll
			for (int j = 0; j < TV; j++) {
				uint32_t fb[MMA_B];

				mma_load_b(fb, smem + k0 * LDV + j * MMA_N, LDV, true);
				mma<HALF>(y[j], fa, fb);
			}
		}
		give(w, y, sum, put);
	}

	/* What comes out, of which a lane of 32 has two neighbours. */
	template <class PUT>
	static DEV void give(const struct job &w, const float (*y)[MMA_C], const float *sum,
			     PUT put)
	{
		enum { OWN = RLX_WARP == 32 ? 2 : 1 };

#pragma unroll
		for (int j = 0; j < TV; j++)
#pragma unroll
			for (int e = 0; e < MMA_C; e += OWN) {
				int i = w.first + mma_c_row(e), d = j * MMA_N + mma_c_col(e);
				int n = OWN > 1 && d + 1 < w.v.dim ? 2 : 1;

				if (i < w.q.n && d < w.v.dim)
					put(i, d, n, y[j][e] * sum[e],
					    y[j][e + OWN - 1] * sum[e]);
			}
	}
};

#endif
