// SPDX-License-Identifier: MIT
/*
 * Attention of one query at a time, its keys over a block or, split-KV (flash decoding), over
 * several blocks.
 *
 * Algorithm: eight lanes a key make scores of 64 keys, then threads across the width of a head
 * add up weighted values, with an online softmax from one 64 to the next. With ATTENTION_SPLIT each
 * block leaves (maximum, sum, values) of its part in scratch and a second pass merges the
 * parts in order, so that results do not depend on timing.
 *
 * Traffic: k and v once for each query and head that is not shared: right for single queries
 * (decode) and for types and sizes the tensor cores do not take, slow for prefill.
 * Source: Dao et al., "Flash-Decoding" (2023). Limits: heads up to 1,024 wide.
 */
#include "kernels/gpu/attention.h"

/*
 * For single queries (decoding) and for types and sizes the tensor cores do not take.
 * With ATTENTION_SPLIT a query's keys are split over gridDim.x / rows blocks: the first pass
 * leaves (largest score, sum, sums of values) of each part in scratch, the second one
 * puts them together in order.
 */
enum { KEYS = 64, GROUP = 8, MAX_DIM = 1024 };	/* keys of a step; lanes for one key */

struct part {
	float	max, sum;
	float	acc[MAX_DIM / 256];
};

struct row {
	int64_t	b, h, i, kv_head;
};

static DEV inline struct row row_at(const struct rlx_k_attention &a, int64_t r)
{
	struct row w;

	w.i = r % a.q_len;
	w.h = r / a.q_len % a.heads;
	w.b = r / a.q_len / a.heads;
	w.kv_head = w.h / (a.heads / a.kv_heads);
	return w;
}

/* Scores of keys [j0, j0 + n): eight lanes a key. */
static DEV inline void scores(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			      const struct row &w, float *q, int64_t j0, int n)
{
	const void *k = RLX_G_PTR(const void, a.k), *bias = RLX_G_PTR(const void, a.bias);
	float *s = q + MAX_DIM;
	int group = (int)threadIdx.x / GROUP, lane = (int)threadIdx.x % GROUP;

	for (int t = group; t < KEYS; t += 256 / GROUP) {
		int64_t j = j0 + t, at = w.b * a.k_stride[0] + w.kv_head * a.k_stride[1] +
					 j * a.k_stride[2];
		float v = 0;

		for (int d = lane; t < n && d < a.head_dim; d += GROUP)
			v += q[d] * load_float(k, at + d, a.kv_type);
		for (int m = GROUP / 2; m; m /= 2)
			v += warp_xor(v, m);
		if (lane)
			continue;
		if (t >= n) {
			s[t] = -INFINITY;
			continue;
		}
		v = capped(a, v);
		if (bias)
			v = biased(a, bias, w.b * a.bias_stride[0] + w.h * a.bias_stride[1] +
				   w.i * a.bias_stride[2] + j * a.bias_stride[3], v);
		s[t] = v;
	}
}

/*
 * Each column of the values belongs to thread column % 256; where there are fewer
 * columns several threads share one, each with its own keys: part_of() of them.
 */
static DEV inline int sharers(const struct rlx_k_attention &a)
{
	int n = 1;

	while (n < 8 && a.v_dim * n * 2 <= 256)
		n *= 2;
	return n;
}

static DEV inline void take(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			    const struct row &w, const float *s, struct part *p, int64_t j0)
{
	const void *v = RLX_G_PTR(const void, a.v);
	int share = sharers(a), wide = 256 / share, mine = (int)threadIdx.x / wide;
	int64_t v0 = w.b * a.v_stride[0] + w.kv_head * a.v_stride[1] + j0 * a.v_stride[2];
	float max = p->max, scale, sum = 0;

	for (int t = 0; t < KEYS; t++)
		max = op_max::of(max, s[t]);
	if (max == -INFINITY)	/* nothing to see so far */
		return;
	scale = p->max == -INFINITY ? 0 : fast_exp(p->max - max);
	for (int c = 0; c < MAX_DIM / 256; c++)
		p->acc[c] *= scale;
	for (int t = 0; t < KEYS; t++) {
		float e = s[t] == -INFINITY ? 0 : fast_exp(s[t] - max);

		sum += e;
		if (e == 0 || t % share != mine)
			continue;
		for (int c = 0; c < MAX_DIM / 256; c++) {
			int64_t d = (int)threadIdx.x % wide + c * 256;

			if (d < a.v_dim)
				p->acc[c] += e * load_float(v, v0 + t * a.v_stride[2] + d,
							    a.kv_type);
		}
	}
	p->sum = p->sum * scale + sum;
	p->max = max;
}

/* The threads that share a column add up; the first one's acc is the column's. */
static DEV inline void gather_part(const struct rlx_k_attention &a, struct part *p, float *smem)
{
	int share = sharers(a), wide = 256 / share;

	if (share == 1)
		return;
	__syncthreads();
	smem[threadIdx.x] = p->acc[0];
	__syncthreads();
	p->acc[0] = 0;
	for (int i = 0; i < share; i++)
		p->acc[0] += smem[i * wide + (int)threadIdx.x % wide];
}

static DEV inline void store(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			     int64_t r, const struct part &p)
{
	struct row w = row_at(a, r);
	void *out = RLX_G_PTR(void, a.out);
	float *lse = RLX_G_PTR(float, a.lse);
	int64_t at = w.b * a.out_stride[0] + w.h * a.out_stride[1] + w.i * a.out_stride[2];
	float by = p.sum != 0 ? 1 / p.sum : 0;

	for (int c = 0; c < MAX_DIM / 256; c++) {
		int64_t d = (int)threadIdx.x + c * 256;

		if (d < a.v_dim)
			store_float(out, at + d, a.out_type, p.acc[c] * by);
	}
	if (lse && threadIdx.x == 0)
		lse[r] = p.sum != 0 ? p.max + logf(p.sum) : -INFINITY;
}

/* Part @s of @n of row @r. */
static DEV inline struct part attend(const struct rlx_k_attention &a,
				     const struct rlx_g_env &env, float *q, int64_t r, int s, int n)
{
	float *score = q + MAX_DIM, *smem = score + KEYS;
	const void *from = RLX_G_PTR(const void, a.q);
	struct part p = { -INFINITY, 0, {} };
	struct row w = row_at(a, r);
	int64_t lo, hi, each;

	keys_seen(a, RLX_G_PTR(const void, a.kv_lens), w.b, w.i, &lo, &hi);
	each = ((a.kv_len + n - 1) / n + KEYS - 1) / KEYS * KEYS;
	lo = lo > s * each ? lo : s * each;
	hi = hi < (s + 1) * each ? hi : (s + 1) * each;
	for (int64_t d = threadIdx.x; d < a.head_dim; d += 256)
		q[d] = a.scale * load_float(from, w.b * a.q_stride[0] + w.h * a.q_stride[1] +
					    w.i * a.q_stride[2] + d, a.q_type);
	__syncthreads();
	for (int64_t j = lo; j < hi; j += KEYS) {
		scores(a, env, w, q, j, hi - j < KEYS ? (int)(hi - j) : KEYS);
		__syncthreads();
		take(a, env, w, score, &p, j);
		__syncthreads();
	}
	gather_part(a, &p, smem);
	return p;
}

#if ATTENTION_SPLIT
static DEV inline void merge(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			     int64_t r, int splits)
{
	int64_t each = a.v_dim + 2;
	const float *from = (const float *)env.scratch + r * splits * each;
	struct part p = { -INFINITY, 0, {} };

	for (int s = 0; s < splits; s++)
		p.max = op_max::of(p.max, from[s * each]);
	for (int s = 0; s < splits; s++) {
		float scale = from[s * each] == -INFINITY ? 0 :
			      fast_exp(from[s * each] - p.max);

		p.sum += scale * from[s * each + 1];
		for (int c = 0; c < MAX_DIM / 256; c++) {
			int64_t d = (int)threadIdx.x + c * 256;

			if (d < a.v_dim)
				p.acc[c] += scale * from[s * each + 2 + d];
		}
	}
	store(a, env, r, p);
}
#endif

RLX_G_KERNEL(attention_split_kv, struct rlx_k_attention, 256)
{
	SHARED(float, q, [MAX_DIM + KEYS + 256]);	/* and scores, and smem */
	int64_t each = a.heads * a.q_len, rows = live_rows(env, a.batch) * each;

#if ATTENTION_SPLIT
	int splits = (int)(gridDim.x / (a.batch * each)), s = (int)(blockIdx.x % splits);
	int64_t r = blockIdx.x / splits;

	if (r >= rows)
		return;
	if (env.pass) {
		if (s == 0)
			merge(a, env, r, splits);
	} else {
		float *to = (float *)env.scratch + (r * splits + s) * (a.v_dim + 2);
		struct part p = attend(a, env, q, r, s, splits);

		if (threadIdx.x == 0) {
			to[0] = p.max;
			to[1] = p.sum;
		}
		for (int c = 0; c < MAX_DIM / 256; c++) {
			int64_t d = (int)threadIdx.x + c * 256;

			if (d < a.v_dim)
				to[2 + d] = p.acc[c];
		}
	}
#else
	for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
		store(a, env, r, attend(a, env, q, r, 0, 1));
		__syncthreads();
	}
#endif
}
