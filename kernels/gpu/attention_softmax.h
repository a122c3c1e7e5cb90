/* SPDX-License-Identifier: MIT */
/*
 * What attention by tensor cores is made of besides its products: which queries and
 * keys a block works at, and the softmax of a tile's scores as tiles come by.
 */
#ifndef RLX_G_ATTENTION_SOFTMAX_H
#define RLX_G_ATTENTION_SOFTMAX_H

#include "kernels/gpu/attention.h"
#include "kernels/gpu/attention_plan.h"
#include "kernels/gpu/mma.h"

/*
 * ATTENTION_TYPE: of q, k, v. ATTENTION_WIDTH: of a head, filled up with zeros: 32, 64, 96, 128,
 * 256. What makes scores more than scaled products: ATTENTION_CAP, ATTENTION_ADD: a bias to add,
 * ATTENTION_KEEP: one that says what to keep, ATTENTION_STEP: whose keys are not side by side;
 * ATTENTION_SCALE: any of these, or a scale of 0 or less.
 */
typedef rlx_t<ATTENTION_TYPE>::mem half;

#define PLAIN	!ATTENTION_SCALE
enum {
	HD = ATTENTION_WIDTH,
	SHARE = RLX_WARP == 32 ? 4 : 16,	/* lanes that hold one row of c */
	SIDE = RLX_WARP == 32 ? 2 : 1,		/* neighbours of a row in mma()'s c */
	LANE_ROWS = MMA_C / SIDE,
};

/* What a block works at: queries of one head of one row, and the keys they see. */
struct job {
	int	b, h, first;	/* first query */
	int	len;		/* keys that any of them sees end here */
	int	from, to;	/* tiles of keys */
};

/* The same in all lanes, which the compiler cannot know of what comes from memory. */
static DEV inline int same(int v)
{
	return shuffle(v, 0);
}

/* Heads of all that is attended to, each of which is a row of jobs. */
static DEV inline uint32_t heads_of(const struct rlx_k_attention &a, const struct rlx_g_env &env)
{
	return (uint32_t)(a.heads * live_rows(env, a.batch));
}

static DEV inline uint32_t jobs_of(const struct rlx_k_attention &a, uint32_t heads, int rows)
{
	return ((uint32_t)a.q_len + rows - 1) / rows * heads;
}

/* A window wider than positions go is none. */
static DEV inline int window_of(const struct rlx_k_attention &a)
{
	return a.window > 0 && a.window <= 1 << 30 ? (int)a.window : 0;
}

/*
 * Job @u of @rows queries and tiles of @keys keys, of @heads; launch.h sees that all are
 * small.
 */
static DEV inline struct job job_at(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				    uint32_t heads, uint32_t u, int rows, int keys)
{
	uint32_t per = ((uint32_t)a.q_len + rows - 1) / rows;
	int start, last;
	struct job w;

	/* causal: the last queries have the most to do and begin */
	w.first = (int)(a.causal ? per - 1 - u / heads : u % per) * rows;
	u = a.causal ? u % heads : u / per;
	w.h = (int)(u % (uint32_t)a.heads);
	w.b = (int)(u / (uint32_t)a.heads);
	w.len = (int)a.kv_len;
	if (a.kv_lens)
		w.len = same((int)keys_of(a, RLX_G_PTR(const void, a.kv_lens), w.b));
	last = (w.first + rows < (int)a.q_len ? w.first + rows : (int)a.q_len) + (int)a.q_offset;
	start = window_of(a) ? w.first + (int)a.q_offset - window_of(a) + 1 : 0;
	if (a.causal && last < w.len)
		w.len = last;
	w.from = start > 0 ? start / keys : 0;
	w.to = w.len > 0 ? (w.len + keys - 1) / keys : 0;
	return w;
}

/*
 * One warp's MMA_M queries: the running largest score and this lane's part of the sum
 * of each row that it has a part of, and the values. Row @r of a lane is mma_c_row(r *
 * SIDE); of a tile's scores, block j of MMA_N keys stands in c[j * MMA_C ..].
 */
struct state {
	float	max[LANE_ROWS], sum[LANE_ROWS];
	float	out[HD / MMA_N * MMA_C];
};

static DEV inline void state_clear(struct state *s)
{
#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++) {
		s->max[r] = -INFINITY;
		s->sum[r] = 0;
	}
#pragma unroll
	for (int e = 0; e < HD / MMA_N * MMA_C; e++)
		s->out[e] = 0;
}

template <class OP> static DEV inline float across_row(float v)
{
	for (int m = SHARE / 2; m; m /= 2)
		v = OP::of(v, warp_xor(v, m));
	return v;
}

/* Where this lane's biases of each of its rows begin; a row that is none has another's. */
template <class T> struct bias_at {
	const T	*row[LANE_ROWS];
	int	left;		/* keys from there on */
	bool	one;		/* all rows have the same */
};

static DEV inline float with_bias(float s, float v) { return s + v; }
static DEV inline float with_bias(float s, uint8_t keep) { return keep ? s : -INFINITY; }

template <class T, int N>
static DEV inline void add_bias(float (&c)[N], const bias_at<T> &b, int64_t step)
{
#pragma unroll
	for (int e = 0; e < N / LANE_ROWS; e++) {
		int k = e / SIDE * MMA_N + e % SIDE;
		T v = {};

#pragma unroll
		for (int r = 0; r < LANE_ROWS; r++) {
			float *s = &c[e / SIDE * MMA_C + r * SIDE + e % SIDE];

			if (k < b.left && (!r || !b.one))
				v = b.row[r][k * step];
			*s = with_bias(*s, v);
		}
	}
}

template <class T, int N>
static DEV inline void bias_tile(const struct rlx_k_attention &a, const void *bias,
				 const struct job &w, float (&c)[N], int row, int key)
{
	int64_t step = ATTENTION_STEP ? a.bias_stride[3] : 1;
	bias_at<T> b;

	b.left = w.len - key - mma_c_col(0);
	b.one = a.bias_stride[2] == 0;
#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++) {
		int i = row + mma_c_row(r * SIDE), last = (int)a.q_len - 1;

		b.row[r] = (const T *)bias + w.b * a.bias_stride[0] + w.h * a.bias_stride[1] +
			   (i < last ? i : last) * a.bias_stride[2] +
			   (key + mma_c_col(0)) * step;
	}
	add_bias(c, b, step);
}

/* Scale, cap and bias: what a PLAIN kernel leaves to exp2() or does not have. */
template <int N>
static DEV inline void adjust(const struct rlx_k_attention &a, const void *bias,
			      const struct job &w, float (&c)[N], int row, int key)
{
#pragma unroll
	for (int e = 0; e < N; e++)
		c[e] *= a.scale;
	if (ATTENTION_CAP)
#pragma unroll
		for (int e = 0; e < N; e++)
			c[e] = capped(a, c[e]);
	if (ATTENTION_ADD)
		bias_tile<float>(a, bias, w, c, row, key);
	if (ATTENTION_KEEP)
		bias_tile<uint8_t>(a, bias, w, c, row, key);
}

/* Scores of @row's warp and keys from @key on: -inf for those that are not seen. */
template <int N>
static DEV inline void mask(const struct rlx_k_attention &a, const struct job &w,
			    float (&c)[N], int row, int key)
{
	const int keys = N / MMA_C * MMA_N;
	int at = row + (int)a.q_offset, window = window_of(a);

	if (key + keys <= w.len && (!a.causal || key + keys - 1 <= at) &&
	    (!window || key > at + MMA_M - 1 - window))
		return;
#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++) {
		/* seen: keys [lo, hi), counted from this lane's first */
		int mine = at + mma_c_row(r * SIDE), first = key + mma_c_col(0);
		int lo = (window ? mine - window + 1 : 0) - first;
		int hi = (a.causal && mine + 1 < w.len ? mine + 1 : w.len) - first;

#pragma unroll
		for (int e = 0; e < N / LANE_ROWS; e++) {
			int k = e / SIDE * MMA_N + e % SIDE;
			float *s = &c[e / SIDE * MMA_C + r * SIDE + e % SIDE];

			*s = k >= lo && k < hi ? *s : -INFINITY;
		}
	}
}

/* Of a score, in powers of two: with the scale, if that is still to come. */
static DEV inline float steepness(const struct rlx_k_attention &a)
{
	return (PLAIN ? a.scale : 1) * 1.44269504f;
}

/* exp() of @x less @max; the products of a PLAIN kernel are small enough to be scaled. */
static DEV inline float weight(float x, float max, float by)
{
	return fast_exp2(PLAIN ? x * by - max * by : (x - max) * by);
}

/* Scores to weights against the new largest score; @scale: for all that was before. */
template <int N>
static DEV inline void soften(struct state *s, float (&c)[N], float by, float *scale)
{
#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++) {
		float max = s->max[r], some;

#pragma unroll
		for (int e = 0; e < N / LANE_ROWS; e++)
			max = fmaxf(max, c[e / SIDE * MMA_C + r * SIDE + e % SIDE]);
		max = across_row<op_max>(max);
		some = max == -INFINITY ? 0 : max;	/* nothing seen so far */
		scale[r] = weight(s->max[r], some, by);
		s->max[r] = max;
		s->sum[r] *= scale[r];
#pragma unroll
		for (int e = 0; e < N / LANE_ROWS; e++) {
			float *x = &c[e / SIDE * MMA_C + r * SIDE + e % SIDE];

			*x = weight(*x, some, by);
			s->sum[r] += *x;
		}
	}
}

static DEV inline void rescale(struct state *s, const float *scale)
{
#pragma unroll
	for (int e = 0; e < HD / MMA_N * MMA_C; e++)
		s->out[e] *= scale[e % MMA_C / SIDE];
}

/* The weights of N scores as f16 or bf16; c of two products is a of the next. */
template <int N> static DEV inline void pack_weights(uint32_t (&p)[N / 2], const float (&c)[N])
{
#pragma unroll
	for (int i = 0; i < N / 2; i++)
		p[i] = pack_halves<half>(c[2 * i], c[2 * i + 1]);
}

typedef rlx_t<ATTENTION_OUT_TYPE> out_type;

/* May rows of the result be written by 16 bytes? */
#define WIDE_OUT	(SIDE == 2 && sizeof(out_type::mem) == 2)
static DEV inline bool rows_wide(const struct rlx_k_attention &a, const void *out)
{
	int64_t odd = a.out_stride[0] | a.out_stride[1] | a.out_stride[2] | a.v_dim;

	return WIDE_OUT && ((uint64_t)out | (uint64_t)(odd * 2)) % 16 == 0;
}

/* One of a lane's rows so: of each four blocks four lanes get one each. All lanes are to call. */
static DEV inline void store_wide(out_type::mem *to, const struct state &s, int r, float by,
				  int dim)
{
	struct alignas(16) eight { uint32_t w[4]; };

	if constexpr (WIDE_OUT)
#pragma unroll
		for (int j = 0; j < HD / MMA_N; j += 4) {
			int d = (j + lane_id() % 4) * MMA_N;
			struct eight v;

#pragma unroll
			for (int i = 0; i < 4; i++) {
				const float *x = &s.out[(j + i) * MMA_C + r * SIDE];

				v.w[i] = pack_halves<out_type::mem>(x[0] * by, x[1] * by);
			}
			exchange(v.w);
			if (d < dim)
				*(struct eight *)(to + d) = v;
		}
}

static DEV inline void store(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			     const struct job &w, const struct state &s, int row)
{
	out_type::mem *out = RLX_G_PTR(out_type::mem, a.out);
	float *lse = RLX_G_PTR(float, a.lse);
	bool wide = rows_wide(a, out);

#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++) {
		int i = row + mma_c_row(r * SIDE);
		int64_t at = w.b * a.out_stride[0] + w.h * a.out_stride[1] +
			     i * a.out_stride[2];
		float sum = across_row<op_sum>(s.sum[r]), by = sum != 0 ? 1 / sum : 0;

		if (wide)
			store_wide(out + at, s, r, by, i < a.q_len ? (int)a.v_dim : 0);
		if (i >= a.q_len)
			continue;
#pragma unroll
		for (int e = 0; e < HD / MMA_N * SIDE; e++) {
			int d = mma_c_col(0) + e / SIDE * MMA_N + e % SIDE;

			if (!wide && d < a.v_dim)
				out[at + d] = out_type::put(s.out[e / SIDE * MMA_C + r * SIDE +
								  e % SIDE] * by);
		}
		if (lse && mma_c_col(0) == 0)
			lse[(int64_t)(w.b * a.heads + w.h) * a.q_len + i] = sum != 0 ?
				s.max[r] * (PLAIN ? a.scale : 1) + logf(sum) : -INFINITY;
	}
}

#endif
