// SPDX-License-Identifier: MIT
/*
 * Attention of f32 in the CPU's order (kernels/cpu/attention_many.c), for strict bits.
 *
 * Algorithm: a block of 128 threads has 16 queries of the heads that share one key head, and goes
 * over keys 64 at a time, from a multiple of 64 on whatever the queries see. A score is one
 * multiply-add after the other along the head; the tile's largest score corrects what there was,
 * weights are added up from the first key to the last, and so is what they weigh of values. A
 * weight of 0 takes nothing, were the value infinite.
 * Traffic: q and out once, k and v once for 16 queries: k 32 numbers of a head at a time by shared
 * memory, v from where it is.
 * Limits: f32. Keys are not split over blocks: few queries of long rows keep few multiprocessors
 * busy.
 */
#include "kernels/gpu/attention.h"
#include "kernels/gpu/attention_plan.h"
#include "kernels/simd/math.h"

enum { ROWS = ATT_ORDERED_ROWS, KEYS = RLX_K_ATT_KEYS, THREADS = 128, DEEP = 32,
       PER = ROWS * KEYS / THREADS };		/* scores of a thread, which has one key */

/* What threads share of the block's queries. */
struct shared {
	float	k[KEYS][DEEP + 1], q[DEEP][ROWS], p[KEYS][ROWS];
	float	max[ROWS], sum[ROWS], fix[ROWS], base[ROWS];
	int64_t	head[ROWS], query[ROWS], lo[ROWS], hi[ROWS];
};

struct job {
	const struct rlx_k_attention	&a;
	const float	*q, *k, *v;
	const void	*bias;
	float		*o;			/* [ROWS][v_dim] */
	shared		&s;
	int64_t		b, kvh, len;		/* keys of the row */
	int		rows, t, key, half;	/* of the thread: its key of a tile, its queries */

	/* Scores of a tile: products with the head, 32 numbers of it at a time. */
	DEV void scores(int64_t at)
	{
		float acc[PER];

		for (int i = 0; i < PER; i++)
			acc[i] = 0;
		for (int64_t d = 0; d < a.head_dim; d += DEEP) {
			const int n = a.head_dim - d < DEEP ? (int)(a.head_dim - d) : DEEP;

			__syncthreads();
			for (int i = t; i < KEYS * DEEP; i += THREADS) {
				const int j = i / DEEP, e = i % DEEP;

				s.k[j][e] = at + j < len && e < n ?
					k[(at + j) * a.k_stride[2] + d + e] : 0.0f;
			}
			for (int i = t; i < ROWS * DEEP; i += THREADS) {
				const int r = i / DEEP, e = i % DEEP;

				s.q[e][r] = r < rows && e < n ?
					q[s.head[r] * a.q_stride[1] + s.query[r] * a.q_stride[2] +
					  d + e] * a.scale : 0.0f;
			}
			__syncthreads();
			for (int e = 0; e < n; e++)
				for (int i = 0; i < PER; i++)
					acc[i] = fmaf(s.k[key][e], s.q[e][half * PER + i], acc[i]);
		}
		for (int i = 0; i < PER; i++)
			s.p[key][half * PER + i] = limited(acc[i], half * PER + i, at + key);
	}

	/* Score @x of query @r and key @j, capped, biased, and -inf where it is not to be seen. */
	DEV float limited(float x, int r, int64_t j) const
	{
		if (a.softcap > 0)
			x = vf_tanh(x * (1 / a.softcap)) * a.softcap;
		if (r >= rows || j < s.lo[r] || j >= s.hi[r])
			return -INFINITY;
		if (!bias)
			return x;
		return biased(a, bias, b * a.bias_stride[0] + s.head[r] * a.bias_stride[1] +
			      s.query[r] * a.bias_stride[2] + j * a.bias_stride[3], x);
	}

	/* Scores to weights, and what they add up to. */
	DEV void soften(void)
	{
		__syncthreads();
		if (t < ROWS) {
			float m = s.max[t];

			for (int j = 0; j < KEYS; j++)
				m = vf_max(s.p[j][t], m);
			s.base[t] = m == -INFINITY ? 0.0f : m;
			s.fix[t] = vf_exp(s.max[t] - s.base[t]);
			s.max[t] = m;
		}
		__syncthreads();
		for (int i = 0; i < PER; i++) {
			float &x = s.p[key][half * PER + i];

			x = vf_exp(x - s.base[half * PER + i]);
		}
		__syncthreads();
		if (t < ROWS) {
			float sum = 0;

			for (int j = 0; j < KEYS; j++)
				sum += s.p[j][t];
			s.sum[t] = fmaf(s.sum[t], s.fix[t], sum);
		}
	}

	/* What @n keys from @at on give; @first: there was nothing yet. */
	DEV void values(int64_t at, int n, bool first)
	{
		for (int64_t d = t; d < a.v_dim; d += THREADS) {
			float acc[ROWS];

			for (int r = 0; r < ROWS; r++)
				acc[r] = first ? 0.0f : s.fix[r] * o[r * a.v_dim + d];
			for (int j = 0; j < n; j++) {
				const float x = v[(at + j) * a.v_stride[2] + d];

				for (int r = 0; r < ROWS; r++)
					acc[r] = s.p[j][r] == 0 ? acc[r] :
						fmaf(x, s.p[j][r], acc[r]);
			}
			for (int r = 0; r < ROWS; r++)
				o[r * a.v_dim + d] = acc[r];
		}
	}

	DEV void results(float *out, float *lse, bool none)
	{
		__syncthreads();
		if (t < rows && lse)
			lse[(b * a.heads + s.head[t]) * a.q_len + s.query[t]] =
				s.max[t] + vf_log(s.sum[t]);
		for (int r = 0; r < rows; r++) {
			const float inv = s.sum[r] == 0 ? 0.0f : 1 / s.sum[r];

			for (int64_t d = t; d < a.v_dim; d += THREADS)
				out[b * a.out_stride[0] + s.head[r] * a.out_stride[1] +
				    s.query[r] * a.out_stride[2] + d] =
					(none ? 0.0f : o[r * a.v_dim + d]) * inv;
		}
	}
};

/* The block's @row-th query and those behind it: which they are, what they see. */
static DEV inline void begin(job &w, int64_t row, const void *lens)
{
	shared &s = w.s;
	const int r = w.t;

	__syncthreads();
	if (r < ROWS) {
		s.head[r] = w.kvh * (w.a.heads / w.a.kv_heads) + (row + r) / w.a.q_len;
		s.query[r] = (row + r) % w.a.q_len;
		s.max[r] = -INFINITY;
		s.sum[r] = 0;
		keys_seen(w.a, lens, w.b, s.query[r], &s.lo[r], &s.hi[r]);
		if (r >= w.rows)
			s.lo[r] = s.hi[r] = 0;
	}
	__syncthreads();
}

RLX_G_KERNEL(attention_ordered, struct rlx_k_attention, THREADS)
{
	SHARED(shared, s, [1]);
	SHARED_DYNAMIC(raw);
	const void *lens = RLX_G_PTR(const void, a.kv_lens);
	const int64_t all = a.heads / a.kv_heads * a.q_len, blocks = (all + ROWS - 1) / ROWS;
	const int64_t jobs = live_rows(env, a.batch) * a.kv_heads * blocks;

	for (int64_t n = blockIdx.x; n < jobs; n += gridDim.x) {
		const int64_t row = n % blocks * ROWS, h = n / blocks % a.kv_heads;
		const int64_t b = n / blocks / a.kv_heads;
		const int t = (int)threadIdx.x;
		int64_t lo = INT64_MAX, hi = 0;
		job w = { a, RLX_G_PTR(const float, a.q) + b * a.q_stride[0],
			  RLX_G_PTR(const float, a.k) + b * a.k_stride[0] + h * a.k_stride[1],
			  RLX_G_PTR(const float, a.v) + b * a.v_stride[0] + h * a.v_stride[1],
			  RLX_G_PTR(const void, a.bias), (float *)raw, s[0], b, h,
			  keys_of(a, lens, b), (int)(all - row < ROWS ? all - row : ROWS), t,
			  t % KEYS, t / KEYS };
		bool first = true;

		begin(w, row, lens);
		for (int r = 0; r < w.rows; r++) {
			lo = s[0].lo[r] < lo ? s[0].lo[r] : lo;
			hi = s[0].hi[r] > hi ? s[0].hi[r] : hi;
		}
		for (int64_t at = lo - lo % KEYS; at < hi; at += KEYS, first = false) {
			w.scores(at);
			w.soften();
			w.values(at, (int)(hi - at < KEYS ? hi - at : KEYS), first);
		}
		w.results(RLX_G_PTR(float, a.out), RLX_G_PTR(float, a.lse), first);
	}
}
