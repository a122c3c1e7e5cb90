/* SPDX-License-Identifier: MIT */
/* Attention by tensor cores: tiles of queries against tiles of keys, online softmax. */
#ifndef RLX_G_ATTENTION_MMA_H
#define RLX_G_ATTENTION_MMA_H

#include "kernels/gpu/attention.h"
#include "kernels/gpu/mma.h"

/*
 * RLX_K1: type of q, k, v; RLX_K2: width of a head, filled up with zeros: 32, 64, 96,
 * 128, 256, plus 1024 if there is a bias or a cap; RLX_K3: type of the result.
 */
typedef rlx_t<RLX_K1>::mem half;

#define PLAIN	(RLX_K2 < 1024)
enum {
	HD = RLX_K2 & 1023, LD = HD + 8,
	THREADS = 128, WAVES = THREADS / RLX_WAVE, ROWS = WAVES * MMA_M,
	KEYS = 64, TN = KEYS / MMA_N, TV = HD / MMA_N,
	SHARE = RLX_WAVE == 32 ? 4 : 16,	/* lanes that hold one row of c */
	LDP = KEYS + 8,
	Q_HALVES = ROWS * LD, KV_HALVES = KEYS * LD,
};

/* Rows of a head in memory; @wide: to be read by 16 bytes. */
struct rows {
	const half	*p;
	int64_t		stride, n, dim;
	bool		wide;
};

/* Rows [first, first + COUNT), zeros beyond the last and beyond dim. */
template <int COUNT>
static DEV inline void load_rows(half *to, const struct rows &m, int64_t first)
{
#pragma unroll 4
	for (int i = (int)threadIdx.x; i < COUNT * HD / 8; i += THREADS) {
		int r = i / (HD / 8), c = i % (HD / 8) * 8;
		int64_t left = m.dim - c;
		int n = first + r >= m.n || left <= 0 ? 0 : left < 8 ? (int)left : 8;
		const half *from = n ? m.p + (first + r) * m.stride + c : m.p;

		if (m.wide) {
			copy_async(to + r * LD + c, from, 16, n * 2);
			continue;
		}
		for (int e = 0; e < 8; e++)
			to[r * LD + c + e] = e < n ? from[e] : half{};
	}
}

static DEV inline struct rows rows_of(const void *p, const int64_t *stride, const int64_t *at)
{
	struct rows m;

	m.p = (const half *)p + at[0] * stride[0] + at[1] * stride[1];
	m.stride = stride[2];
	m.n = m.dim = 0;
	m.wide = ((uint64_t)m.p | (uint64_t)(m.stride * 2)) % 16 == 0;
	return m;
}

/* One wave's rows: the running largest score and sum of each, and the values. */
struct state {
	float	max[MMA_C], sum[MMA_C];	/* of row mma_c_row(e) */
	float	out[TV][MMA_C];
};

static DEV inline float across_row_max(float v)
{
	for (int m = SHARE / 2; m; m /= 2)
		v = op_max::of(v, wave_xor(v, m));
	return v;
}

static DEV inline float across_row_sum(float v)
{
	for (int m = SHARE / 2; m; m /= 2)
		v += wave_xor(v, m);
	return v;
}

/* What a block works at. */
struct job {
	const void	*bias, *lens;
	int64_t		b, h, first, len;	/* first query; keys of this row */
	struct rows	q, k, v;
};

/* Scores of a tile from products: scaled, biased, -inf where nothing is seen. */
static DEV inline void mask(const struct rlx_k_attention &a, const struct job &w,
			    float (*c)[MMA_C], int64_t row, int64_t key)
{
	int64_t at = row + a.q_offset, least = at, most = at + MMA_M - 1;
	bool all = key + KEYS <= w.len && (!a.causal || key + KEYS - 1 <= least) &&
		   (a.window <= 0 || key > most - a.window);

#pragma unroll
	for (int j = 0; j < TN; j++)
#pragma unroll
		for (int e = 0; e < MMA_C; e++) {
			int64_t i = row + mma_c_row(e), k = key + j * MMA_N + mma_c_col(e);
			float s = c[j][e] * a.scale;

			if (!PLAIN) {
				s = capped(a, s);
				if (w.bias && k < w.len && i < a.q_len)
					s = biased(a, w.bias, w.b * a.bias_stride[0] +
						   w.h * a.bias_stride[1] +
						   i * a.bias_stride[2] +
						   k * a.bias_stride[3], s);
			}
			if (!all && (k >= w.len || (a.causal && k > i + a.q_offset) ||
				     (a.window > 0 && k <= i + a.q_offset - a.window)))
				s = -INFINITY;
			c[j][e] = s;
		}
}

/* Scores become weights against the new largest score. */
static DEV inline void soften(struct state *s, float (*c)[MMA_C])
{
#pragma unroll
	for (int e = 0; e < MMA_C; e++) {
		float max = s->max[e], scale;

		/* CUDA's c has two neighbours of one row: both see the same here */
#pragma unroll
		for (int j = 0; j < TN; j++) {
			max = op_max::of(max, c[j][e]);
			if (RLX_WAVE == 32)
				max = op_max::of(max, c[j][e ^ 1]);
		}
		max = across_row_max(max);
		scale = s->max[e] == -INFINITY ? 0 : fast_exp(s->max[e] - max);
		s->max[e] = max;
#pragma unroll
		for (int t = 0; t < TV; t++)
			s->out[t][e] *= scale;
		s->sum[e] *= scale;
	}
#pragma unroll
	for (int e = 0; e < MMA_C; e++)
#pragma unroll
		for (int j = 0; j < TN; j++) {
			c[j][e] = c[j][e] == -INFINITY ? 0 : fast_exp(c[j][e] - s->max[e]);
			s->sum[e] += c[j][e];
		}
}

static DEV inline uint32_t pack(float x, float y)
{
	return two_halves(from_f32<half>(x).u, from_f32<half>(y).u);
}

/* out += weights times values; @room: the wave's, for lanes to trade weights. */
static DEV inline void weigh(struct state *s, const float (*c)[MMA_C], const half *v,
			     half *room)
{
#if RLX_WAVE == 64
#pragma unroll
	for (int j = 0; j < TN; j++)
#pragma unroll
		for (int e = 0; e < MMA_C; e++)
			room[mma_c_row(e) * LDP + j * MMA_N + mma_c_col(e)] =
				from_f32<half>(c[j][e]);
	wave_sync();
#endif
#pragma unroll
	for (int k = 0; k < KEYS; k += MMA_K) {
		uint32_t fa[MMA_A], fb[MMA_B];

#if RLX_WAVE == 64
		mma_load_a(fa, room + k, LDP, false);
#else
		/* c of two products is a of the next: the layouts agree */
		fa[0] = pack(c[k / 8][0], c[k / 8][1]);
		fa[1] = pack(c[k / 8][2], c[k / 8][3]);
		fa[2] = pack(c[k / 8 + 1][0], c[k / 8 + 1][1]);
		fa[3] = pack(c[k / 8 + 1][2], c[k / 8 + 1][3]);
#endif
#pragma unroll
		for (int t = 0; t < TV; t++) {
			mma_load_b(fb, v + k * LD + t * MMA_N, LD, true);
			mma<half>(s->out[t], fa, fb);
		}
	}
#if RLX_WAVE == 64
	wave_sync();
#endif
}

static DEV inline void store(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			     const struct job &w, struct state *s, int64_t row)
{
	typedef rlx_t<RLX_K3> type;
	type::mem *out = RLX_G_PTR(type::mem, a.out);
	float *lse = RLX_G_PTR(float, a.lse);

#pragma unroll
	for (int e = 0; e < MMA_C; e++) {
		int64_t i = row + mma_c_row(e);
		int64_t at = w.b * a.out_stride[0] + w.h * a.out_stride[1] +
			     i * a.out_stride[2];
		float sum = s->sum[e], by;

		/* two neighbours of one row hold halves of its sum in CUDA's layout */
		if (RLX_WAVE == 32)
			sum += s->sum[e ^ 1];
		sum = across_row_sum(sum);
		by = sum != 0 ? 1 / sum : 0;
		if (i >= a.q_len)
			continue;
#pragma unroll
		for (int t = 0; t < TV; t++) {
			int64_t d = t * MMA_N + mma_c_col(e);

			if (d < a.v_dim)
				out[at + d] = type::put(s->out[t][e] * by);
		}
		if (lse && mma_c_col(e) == 0)
			lse[(w.b * a.heads + w.h) * a.q_len + i] =
				sum != 0 ? s->max[e] + logf(sum) : -INFINITY;
	}
}

/* Tiles of keys that some query of the block sees: [*from, *to). */
static DEV inline void tiles_of(const struct rlx_k_attention &a, const struct job &w,
				int64_t *from, int64_t *to)
{
	int64_t last = w.first + ROWS < a.q_len ? w.first + ROWS : a.q_len, end = w.len;
	int64_t start = a.window > 0 ? w.first + a.q_offset - a.window + 1 : 0;

	if (a.causal && last + a.q_offset < end)
		end = last + a.q_offset;
	*from = start > 0 ? start / KEYS : 0;
	*to = end > 0 ? (end + KEYS - 1) / KEYS : 0;
}

static DEV inline void attend(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			      const struct job &w, half *shared)
{
	half *kv = shared + Q_HALVES, *room = kv + 4 * KV_HALVES + wave_id() * MMA_M * LDP;
	int64_t row = w.first + wave_id() * MMA_M, from, to;
	const half *q = shared + wave_id() * MMA_M * LD;
	struct state s = {};

	for (int e = 0; e < MMA_C; e++)
		s.max[e] = -INFINITY;
	tiles_of(a, w, &from, &to);
	load_rows<ROWS>(shared, w.q, w.first);
	if (from < to) {
		load_rows<KEYS>(kv, w.k, from * KEYS);
		load_rows<KEYS>(kv + KV_HALVES, w.v, from * KEYS);
	}
	copy_commit();
	for (int64_t t = from; t < to; t++) {
		half *k = kv + (t - from) % 2 * 2 * KV_HALVES;
		half *next = kv + (t - from + 1) % 2 * 2 * KV_HALVES;
		float c[TN][MMA_C] = {};

		copy_wait<0>();
		__syncthreads();
		if (t + 1 < to) {
			load_rows<KEYS>(next, w.k, (t + 1) * KEYS);
			load_rows<KEYS>(next + KV_HALVES, w.v, (t + 1) * KEYS);
		}
		copy_commit();
#pragma unroll
		for (int d = 0; d < HD; d += MMA_K) {
			uint32_t fa[MMA_A], fb[MMA_B];

			mma_load_a(fa, q + d, LD, false);
#pragma unroll
			for (int j = 0; j < TN; j++) {
				mma_load_b(fb, k + j * MMA_N * LD + d, LD, false);
				mma<half>(c[j], fa, fb);
			}
		}
		mask(a, w, c, row, t * KEYS);
		soften(&s, c);
		weigh(&s, c, k + KV_HALVES, room);
	}
	copy_wait<0>();
	store(a, env, w, &s, row);
}

RLX_G_KERNEL(attention, struct rlx_k_attention, THREADS)
{
	SHARED_DYNAMIC(shared);
	int64_t per = (a.q_len + ROWS - 1) / ROWS, units = per * a.heads * a.batch;
	struct job w;

	w.bias = RLX_G_PTR(const void, a.bias);
	w.lens = RLX_G_PTR(const void, a.kv_lens);
	for (int64_t u = blockIdx.x; u < units; u += gridDim.x) {
		int64_t at[2];

		/* causal: the last queries have the most to do and begin */
		w.first = (per - 1 - u % per) * ROWS;
		w.h = u / per % a.heads;
		w.b = u / per / a.heads;
		w.len = a.kv_len;
		if (w.lens) {
			int64_t n = load_index(w.lens, w.b, a.lens_type);

			w.len = n < w.len ? n : w.len;
		}
		at[0] = w.b;
		at[1] = w.h;
		w.q = rows_of(RLX_G_PTR(const void, a.q), a.q_stride, at);
		at[1] = w.h / (a.heads / a.kv_heads);
		w.k = rows_of(RLX_G_PTR(const void, a.k), a.k_stride, at);
		w.v = rows_of(RLX_G_PTR(const void, a.v), a.v_stride, at);
		w.q.n = a.q_len;
		w.k.n = w.v.n = a.kv_len;
		w.q.dim = w.k.dim = a.head_dim;
		w.v.dim = a.v_dim;
		attend(a, env, w, (half *)shared);
		__syncthreads();
	}
}

#endif
