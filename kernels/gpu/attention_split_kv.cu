// SPDX-License-Identifier: MIT
/*
 * Attention of one query at a time, its keys over a block or, split-KV (flash decoding), over
 * several blocks.
 *
 * Algorithm: eight lanes a key make scores of 64 keys, then threads across the width of a head
 * add up weighted values, with an online softmax from one 64 to the next; where a head is narrower
 * than the block, several threads have a column, each with keys of its own. With
 * ATTENTION_SPLIT each block leaves (maximum, sum, values) of its part in scratch and a second
 * pass merges the parts in order, so that results do not depend on timing.
 *
 * Traffic: k and v once for each query and head that is not shared, by 16 bytes where rows begin
 * so, else by elements: right for single queries (decode) and for types and sizes the tensor cores
 * do not take, slow for prefill.
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
enum { GATHERED = 256 * 8 };			/* sums that threads of a column put together */

/* The thread's columns are threadIdx.x + c * 256. */
struct part {
	float	max, sum;
	float	acc[MAX_DIM / 256];
};

/* In shared memory. */
struct smem {
	float	q[MAX_DIM], score[KEYS], weight[KEYS], sums[GATHERED];
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

/* Elements that are read at once. */
template <class T, int N> struct alignas(N * sizeof(T)) run {
	T	v[N];
};

struct keys {
	int64_t	first;
	int	n;
};

/* Scores of some keys at @k: eight lanes a key. */
template <class T, int N>
static DEV inline void scores(const struct rlx_k_attention &a, const struct row &w,
			      struct smem *m, const T *k, const void *bias, struct keys s)
{
	int group = (int)threadIdx.x / GROUP, lane = (int)threadIdx.x % GROUP;

#pragma unroll
	for (int t = group; t < KEYS; t += 256 / GROUP) {
		const T *from = k + t * a.k_stride[2];
		float v = 0;

#pragma unroll (N == 1 ? 8 : 2)
		for (int d = lane * N; t < s.n && d < (int)a.head_dim; d += GROUP * N) {
			struct run<T, N> x = *(const struct run<T, N> *)(from + d);

#pragma unroll
			for (int e = 0; e < N; e++)
				v += m->q[d + e] * to_f32(x.v[e]);
		}
		for (int i = GROUP / 2; i; i /= 2)
			v += warp_xor(v, i);
		if (lane)
			continue;
		if (t >= s.n) {
			m->score[t] = -INFINITY;
			continue;
		}
		v = capped(a, v);
		if (bias)
			v = biased(a, bias, w.b * a.bias_stride[0] + w.h * a.bias_stride[1] +
				   w.i * a.bias_stride[2] + (s.first + t) * a.bias_stride[3], v);
		m->score[t] = v;
	}
}

/* The thread's columns of N values, their sums, and the keys of them: every @share-th. */
template <int N> struct columns_of {
	enum { SEVERAL = N == 1 ? MAX_DIM / 256 : 1 };	/* columns, 256 apart */
	int	columns, share, column, key;
	float	acc[N * SEVERAL];

	DEV columns_of(int64_t v_dim)
	{
		columns = (int)v_dim / N;
		share = columns && columns < 256 ? 256 / columns : 1;
		column = share > 1 ? (int)threadIdx.x % columns : (int)threadIdx.x;
		key = share > 1 ? (int)threadIdx.x / columns : 0;
#pragma unroll
		for (int c = 0; c < N * SEVERAL; c++)
			acc[c] = 0;
	}
};

/* Values of keys [v, v + n rows), by what the scores make of them. */
template <class T, int N>
static DEV inline void take(const struct rlx_k_attention &a, struct smem *m, const T *v, int n,
			    struct columns_of<N> &l, struct part *p)
{
	float max = p->max, scale, sum[4] = {};

#pragma unroll
	for (int t = 0; t < KEYS; t++)
		max = op_max::of(max, m->score[t]);
	if (max == -INFINITY)	/* nothing to see so far: so for all threads */
		return;
	if (threadIdx.x < KEYS)
		m->weight[threadIdx.x] = m->score[threadIdx.x] == -INFINITY ? 0 :
					 fast_exp(m->score[threadIdx.x] - max);
	__syncthreads();
	scale = p->max == -INFINITY ? 0 : fast_exp(p->max - max);
#pragma unroll
	for (int c = 0; c < N * l.SEVERAL; c++)
		l.acc[c] *= scale;
#pragma unroll
	for (int t = 0; t < KEYS; t++)
		sum[t % 4] += m->weight[t];
#pragma unroll 4
	for (int t = l.key; t < n && l.key < l.share; t += l.share) {
		float e = m->weight[t];

#pragma unroll
		for (int c = 0; c < l.SEVERAL; c++) {
			if (l.column + c * 256 >= l.columns)
				continue;
			struct run<T, N> x = *(const struct run<T, N> *)
					     (v + t * a.v_stride[2] + (l.column + c * 256) * N);

#pragma unroll
			for (int i = 0; i < N; i++)	/* no NaN of what is masked */
				l.acc[c * N + i] += e == 0 ? 0 : e * to_f32(x.v[i]);
		}
	}
	p->sum = p->sum * scale + (sum[0] + sum[1] + sum[2] + sum[3]);
	p->max = max;
}

/* The threads that share columns add up, in order. */
template <int N>
static DEV inline void gather_part(const struct rlx_k_attention &a, struct smem *m,
				   const struct columns_of<N> &l, struct part *p)
{
	int wide = (int)a.v_dim;

#pragma unroll
	for (int c = 0; c < l.SEVERAL; c++)
#pragma unroll
		for (int i = 0; i < N; i++)
			if (l.key < l.share && l.column + c * 256 < l.columns)
				m->sums[l.key * wide + (l.column + c * 256) * N + i] =
					l.acc[c * N + i];
	__syncthreads();
	for (int c = 0; c < MAX_DIM / 256; c++) {
		int d = (int)threadIdx.x + c * 256;

		p->acc[c] = 0;
		for (int i = 0; i < l.share && d < wide; i++)
			p->acc[c] += m->sums[i * wide + d];
	}
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

/* Keys [lo, hi) of row @w. */
template <class T, int N>
static DEV inline struct part attend_to(const struct rlx_k_attention &a,
					const struct rlx_g_env &env, struct smem *m,
					const struct row &w, int64_t lo, int64_t hi)
{
	const T *k = RLX_G_PTR(const T, a.k) + w.b * a.k_stride[0] + w.kv_head * a.k_stride[1];
	const T *v = RLX_G_PTR(const T, a.v) + w.b * a.v_stride[0] + w.kv_head * a.v_stride[1];
	const void *bias = RLX_G_PTR(const void, a.bias);
	struct part p = { -INFINITY, 0, {} };
	struct columns_of<N> l(a.v_dim);

	for (int64_t j = lo; j < hi; j += KEYS) {
		struct keys s = { j, hi - j < KEYS ? (int)(hi - j) : KEYS };

		scores<T, N>(a, w, m, k + j * a.k_stride[2], bias, s);
		__syncthreads();
		take<T, N>(a, m, v + j * a.v_stride[2], s.n, l, &p);
		__syncthreads();
	}
	gather_part<N>(a, m, l, &p);
	return p;
}

/* Do all rows of keys and values begin at 16 bytes, and end there? */
static DEV inline bool by_16(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			     int size)
{
	uint64_t odd = (uint64_t)RLX_G_PTR(const void, a.k) | (uint64_t)RLX_G_PTR(const void, a.v);

	for (int i = 0; i < 3; i++)
		odd |= (uint64_t)((a.k_stride[i] | a.v_stride[i]) * size);
	return (odd | (uint64_t)((a.head_dim | a.v_dim) * size)) % 16 == 0;
}

/* Part @s of @n of row @r. */
static DEV inline struct part attend(const struct rlx_k_attention &a,
				     const struct rlx_g_env &env, struct smem *m, int64_t r, int s,
				     int n)
{
	const void *from = RLX_G_PTR(const void, a.q);
	bool wide = by_16(a, env, a.kv_type == RLX_F32 ? 4 : 2);
	struct row w = row_at(a, r);
	int64_t lo, hi, each;

	keys_seen(a, RLX_G_PTR(const void, a.kv_lens), w.b, w.i, &lo, &hi);
	each = ((a.kv_len + n - 1) / n + KEYS - 1) / KEYS * KEYS;
	lo = lo > s * each ? lo : s * each;
	hi = hi < (s + 1) * each ? hi : (s + 1) * each;
	for (int64_t d = threadIdx.x; d < a.head_dim; d += 256)
		m->q[d] = a.scale * load_float(from, w.b * a.q_stride[0] + w.h * a.q_stride[1] +
					       w.i * a.q_stride[2] + d, a.q_type);
	__syncthreads();
	if (a.kv_type == RLX_F32)
		return wide ? attend_to<float, 4>(a, env, m, w, lo, hi) :
			      attend_to<float, 1>(a, env, m, w, lo, hi);
	if (a.kv_type == RLX_F16)
		return wide ? attend_to<f16, 8>(a, env, m, w, lo, hi) :
			      attend_to<f16, 1>(a, env, m, w, lo, hi);
	return wide ? attend_to<bf16, 8>(a, env, m, w, lo, hi) :
		      attend_to<bf16, 1>(a, env, m, w, lo, hi);
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
	SHARED(struct smem, m, [1]);
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
		struct part p = attend(a, env, m, r, s, splits);

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
		store(a, env, r, attend(a, env, m, r, 0, 1));
		__syncthreads();
	}
#endif
}
