// SPDX-License-Identifier: MIT
/*
 * Attention of few queries to many keys (decoding) by tensor cores, keys split over warps and,
 * split-KV (flash decoding), over blocks.
 *
 * Algorithm: up to 16 rows, the queries of all heads that share a head of keys (grouped-query
 * attention), are one tile of an MMA. A warp goes over keys 16 or 32 at a time, with an online
 * softmax of its own, and waits for nobody: keys and values come from memory straight into the
 * registers in which the tensor cores want them. A sum's terms may stand in any order, if both
 * operands have the same: so a lane's terms are eight neighbours of a row, 16 bytes. Of values its
 * eight neighbours are columns of eight products. The next keys are under way while the values of
 * these are. In the end warps are merged, by shared memory; with ATTENTION_SPLIT each block leaves
 * (maximum, sum, values) of its part in scratch and a second pass merges them in order, so that
 * results do not depend on timing.
 *
 * Traffic: k and v once for each 16 rows, by 16 bytes; nothing by shared memory on the way.
 * Source: Dao et al., "Flash-Decoding" (2023). Limits: f16, bf16; heads up to 128 wide, whose rows
 * begin at 16 bytes and end there (filled up with zeros to 32, 64 or 128); warps of 32 lanes.
 */
#include "kernels/gpu/attention_parts.h"
#include "kernels/gpu/attention_plan.h"
#include "kernels/gpu/mma.h"

typedef rlx_t<ATTENTION_TYPE>::mem half;

enum {
	HD = ATTENTION_WIDTH, ROWS = ATT_DECODE_ROWS, WARPS = ATT_DECODE_WARPS,
	THREADS = 32 * WARPS,
	KEYS = ATT_DECODE_KEYS(HD),	/* of a step of a warp */
	TILES = KEYS / MMA_N,		/* of scores */
	KQ = HD / 32,			/* runs of eight that a lane has of a key's or query's row */
	VN = HD > 32 ? 8 : 4,		/* columns of a value's row, side by side */
	KV = HD / 8 / VN,		/* runs of them */
	OUT = KV * VN * MMA_C,
};

#if RLX_WARP == 32
template <int N> struct alignas(4 * N) words { uint32_t w[N]; };
typedef words<4> eight;			/* elements */
typedef words<VN / 2> columns;

static DEV inline int part() { return lane_id() % 4; }
static DEV inline int line() { return lane_id() / 4; }

/* What a block works at: rows from @first on of those that share head @head of keys. */
struct job {
	int	b, head, first, rows, lo, hi;	/* keys [lo, hi) that any row sees */
};

static DEV inline int group_of(const struct rlx_k_attention &a)
{
	return (int)(a.heads / a.kv_heads);
}

/* Head and query of row @r. */
static DEV inline int head_of(const struct rlx_k_attention &a, const struct job &w, int r)
{
	return w.head * group_of(a) + (w.first + r) / (int)a.q_len;
}

static DEV inline int query_of(const struct rlx_k_attention &a, const struct job &w, int r)
{
	return (w.first + r) % (int)a.q_len;
}

/* Part @s of @n of job @u. */
static DEV inline struct job job_at(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				    int u, int s, int n)
{
	int rows = group_of(a) * (int)a.q_len, chunks = (rows + ROWS - 1) / ROWS, each;
	int64_t lo, hi, none;
	struct job w;

	w.first = u % chunks * ROWS;
	w.head = u / chunks % (int)a.kv_heads;
	w.b = u / chunks / (int)a.kv_heads;
	w.rows = rows - w.first < ROWS ? rows - w.first : ROWS;
	keys_seen(a, RLX_G_PTR(const void, a.kv_lens), w.b, 0, &lo, &none);
	keys_seen(a, RLX_G_PTR(const void, a.kv_lens), w.b, a.q_len - 1, &none, &hi);
	each = ((int)hi / n + KEYS) / KEYS * KEYS;
	w.lo = (int)lo > s * each ? (int)lo : s * each;
	w.hi = s + 1 < n && (int)hi > (s + 1) * each ? (s + 1) * each : (int)hi;
	return w;
}

/* ---- operands, as a lane has them ---- */

/* Eight elements of a query at @p, of which there are @left; zeros beyond. */
static DEV inline eight load_query(const half *p, int left, bool wide)
{
	eight to;
	half v[8] = {};

	if (wide) {
		load_words(to.w, p, left > 0);
		return to;
	}
#pragma unroll
	for (int e = 0; e < 8; e++)
		if (e < left)
			v[e] = p[e];
	memcpy(&to, v, sizeof(v));
	return to;
}

/* Of rows line() and line() + 8 the queries. */
static DEV inline void load_queries(const struct rlx_k_attention &a, const half *from,
				    const struct job &w, bool wide, eight (&q)[2][KQ])
{
#pragma unroll
	for (int i = 0; i < 2; i++) {
		int r = line() + i * 8, dim = r < w.rows ? (int)a.head_dim : 0;
		const half *p = from + w.b * a.q_stride[0];

		if (r < w.rows)
			p += head_of(a, w, r) * a.q_stride[1] + query_of(a, w, r) * a.q_stride[2];
#pragma unroll
		for (int j = 0; j < KQ; j++)
			q[i][j] = load_query(p + j * 32 + part() * 8, dim - j * 32 - part() * 8,
					     wide);
	}
}

/* Do all queries begin at 16 bytes, as their ends do? */
static DEV inline bool queries_wide(const struct rlx_k_attention &a, const half *from)
{
	int64_t odd = a.q_stride[0] | a.q_stride[1] | a.q_stride[2];

	return ((uint64_t)from | (uint64_t)(odd * 2)) % 16 == 0;
}

/* Rows of keys or values of a head, from this lane's first element on. */
struct source {
	const half	*p;
	int64_t		stride;
	int		dim;		/* elements from there to a row's end */
};

static DEV inline struct source source_of(const half *p, const int64_t *stride,
					  const struct job &w, int64_t dim, int skip)
{
	return source{ p + w.b * stride[0] + w.head * stride[1] + skip, stride[2],
		       (int)dim - skip };
}

/* Keys from @key on: of each eight line()'s. */
static DEV inline void load_keys(const struct source &s, const struct job &w, int key,
				 eight (&k)[TILES][KQ])
{
#pragma unroll
	for (int t = 0; t < TILES; t++) {
		int at = key + t * MMA_N + line();

#pragma unroll
		for (int j = 0; j < KQ; j++) {
			k[t][j] = eight{};
			if (at >= w.lo && at < w.hi && j * 32 < s.dim)
				k[t][j] = *(const eight *)(s.p + at * s.stride + j * 32);
		}
	}
}

/* Values of keys from @key on: of each 16 those that this lane has weights of. */
static DEV inline void load_values(const struct source &s, const struct job &w, int key,
				   columns (&v)[TILES * 2][KV])
{
#pragma unroll
	for (int t = 0; t < TILES * 2; t++) {
		int at = key + t / 2 * 8 + part() * 2 + t % 2;

#pragma unroll
		for (int j = 0; j < KV; j++) {
			v[t][j] = columns{};
			if (at >= w.lo && at < w.hi && j * 8 * VN < s.dim)
				v[t][j] = *(const columns *)(s.p + at * s.stride + j * 8 * VN);
		}
	}
}

/* ---- MMA ---- */

static DEV inline void multiply_keys(float (&c)[TILES * MMA_C], const eight (&q)[2][KQ],
				     const eight (&k)[TILES][KQ])
{
#pragma unroll
	for (int i = 0; i < TILES * MMA_C; i++)
		c[i] = 0;
#pragma unroll
	for (int j = 0; j < KQ; j++)
#pragma unroll
		for (int h = 0; h < 4; h += 2) {
			const uint32_t fa[MMA_A] = { q[0][j].w[h], q[1][j].w[h], q[0][j].w[h + 1],
						     q[1][j].w[h + 1] };

#pragma unroll
			for (int t = 0; t < TILES; t++)
				mma<half>(c + t * MMA_C, fa, &k[t][j].w[h]);
		}
}

/* Element @e of two rows as a word. */
static DEV inline uint32_t pair(const columns &low, const columns &high, int e)
{
	uint32_t l = low.w[e / 2], h = high.w[e / 2];

	return e % 2 ? l >> 16 | (h & 0xffff0000) : (l & 0xffff) | h << 16;
}

static DEV inline void multiply_values(float (&out)[OUT], const float (&c)[TILES * MMA_C],
				       const columns (&v)[TILES * 2][KV])
{
#pragma unroll
	for (int t = 0; t < TILES; t += 2) {
		uint32_t fa[MMA_A];

#pragma unroll
		for (int i = 0; i < MMA_A; i++)
			fa[i] = pack_halves<half>(c[t * MMA_C + 2 * i], c[t * MMA_C + 2 * i + 1]);
#pragma unroll
		for (int j = 0; j < KV; j++)
#pragma unroll
			for (int e = 0; e < VN; e++) {
				const uint32_t fb[MMA_B] = {
					pair(v[t * 2][j], v[t * 2 + 1][j], e),
					pair(v[t * 2 + 2][j], v[t * 2 + 3][j], e) };

				mma<half>(out + (j * VN + e) * MMA_C, fa, fb);
			}
	}
}

/* ---- softmax ---- */

/* One of the lane's two rows: keys [lo, hi) that it sees, its biases; what it came to. */
struct row {
	int		lo, hi;
	const void	*bias;
	float		max, sum;
};

static DEV inline void row_begin(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				 const struct job &w, int r, struct row *o)
{
	int64_t lo, hi;

	o->max = -INFINITY;
	o->sum = 0;
	o->lo = o->hi = 0;
	o->bias = 0;
	if (r >= w.rows)
		return;
	keys_seen(a, RLX_G_PTR(const void, a.kv_lens), w.b, query_of(a, w, r), &lo, &hi);
	o->lo = (int)lo > w.lo ? (int)lo : w.lo;
	o->hi = (int)hi < w.hi ? (int)hi : w.hi;
	if (a.bias)
		o->bias = RLX_G_PTR(const char, a.bias) +
			  (w.b * a.bias_stride[0] + head_of(a, w, r) * a.bias_stride[1] +
			   query_of(a, w, r) * a.bias_stride[2]) *
				  (a.bias_type == RLX_F32 ? 4 : 1);
}

/* Element @e of row @i of the lane in its tiles' scores, and its key, counted from the step's. */
static DEV inline int score_of(int i, int e) { return e / 2 * MMA_C + i * 2 + e % 2; }
static DEV inline int key_of(int e) { return e / 2 * MMA_N + part() * 2 + e % 2; }

/* What is rare stands by itself: code that is skipped as a whole is not fetched. */
static DEV inline void finish_scores(const struct rlx_k_attention &a, const struct row &o,
				     float (&c)[TILES * MMA_C], int i, int key)
{
#pragma unroll
	for (int e = 0; e < TILES * 2; e++)
		c[score_of(i, e)] *= a.scale;
	if (a.softcap > 0)
#pragma unroll
		for (int e = 0; e < TILES * 2; e++)
			c[score_of(i, e)] = capped(a, c[score_of(i, e)]);
	if (a.bias)
#pragma unroll
		for (int e = 0; e < TILES * 2; e++)
			if (key + key_of(e) >= o.lo && key + key_of(e) < o.hi)
				c[score_of(i, e)] = biased(a, o.bias,
							   (key + key_of(e)) * a.bias_stride[3],
							   c[score_of(i, e)]);
}

/* Scores of row @o and keys from @key on to weights; @scale: of what was before. */
static DEV inline void soften(const struct rlx_k_attention &a, struct row *o,
			      float (&c)[TILES * MMA_C], int i, int key, float *scale)
{
	float max = o->max, some;

	finish_scores(a, *o, c, i, key);
#pragma unroll
	for (int e = 0; e < TILES * 2; e++) {
		int at = key + key_of(e);
		float *s = &c[score_of(i, e)];

		*s = at >= o->lo && at < o->hi ? *s : -INFINITY;
		max = fmaxf(max, *s);
	}
	max = fmaxf(max, warp_xor(max, 1));
	max = fmaxf(max, warp_xor(max, 2));
	some = max == -INFINITY ? 0 : max;	/* nothing seen so far */
	*scale = fast_exp2((o->max - some) * 1.44269504f);
	o->max = max;
	o->sum *= *scale;
#pragma unroll
	for (int e = 0; e < TILES * 2; e++) {
		float *s = &c[score_of(i, e)];

		*s = fast_exp2((*s - some) * 1.44269504f);
		o->sum += *s;
	}
}

/* The keys of this warp. */
static DEV inline void attend(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			      const struct job &w, struct row (&row)[2], float (&out)[OUT])
{
	struct source sk = source_of(RLX_G_PTR(const half, a.k), a.k_stride, w, a.head_dim,
				     part() * 8);
	struct source sv = source_of(RLX_G_PTR(const half, a.v), a.v_stride, w, a.v_dim,
				     line() * VN);
	const half *from = RLX_G_PTR(const half, a.q);
	int key = w.lo / KEYS * KEYS + warp_id() * KEYS;
	eight q[2][KQ], k[TILES][KQ];

	load_keys(sk, w, key, k);
	if (queries_wide(a, from))	/* apart, so that the other's code is not fetched */
		load_queries(a, from, w, true, q);
	else
		load_queries(a, from, w, false, q);
	for (; key < w.hi; key += WARPS * KEYS) {
		float c[TILES * MMA_C], scale[2];
		columns v[TILES * 2][KV];

		load_values(sv, w, key, v);
		multiply_keys(c, q, k);
		load_keys(sk, w, key + WARPS * KEYS, k);
#pragma unroll
		for (int i = 0; i < 2; i++)
			soften(a, &row[i], c, i, key, &scale[i]);
#pragma unroll
		for (int e = 0; e < OUT; e++)
			out[e] *= scale[e % MMA_C / 2];
		multiply_values(out, c, v);
	}
}

/* ---- what warps and blocks came to ---- */

struct merged {
	float	max[WARPS][ROWS], sum[WARPS][ROWS];
	float	out[WARPS][ROWS][HD + 4];
};

static DEV inline void leave(struct merged *m, const struct row (&row)[2],
			     const float (&out)[OUT])
{
#pragma unroll
	for (int i = 0; i < 2; i++) {
		int r = line() + i * 8;
		float sum = row[i].sum + warp_xor(row[i].sum, 1);

		sum += warp_xor(sum, 2);
		if (!part()) {
			m->max[warp_id()][r] = row[i].max;
			m->sum[warp_id()][r] = sum;
		}
#pragma unroll
		for (int e = 0; e < KV * VN * 2; e++)
			m->out[warp_id()][r][e / 2 / VN * 8 * VN + (part() * 2 + e % 2) * VN +
					     e / 2 % VN] = out[e / 2 * MMA_C + i * 2 + e % 2];
	}
}

static DEV inline void store(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			     const struct job &w, int r, const struct whole &x)
{
	const int64_t at[] = { w.b, head_of(a, w, r), query_of(a, w, r) };

	store_whole(a, env, at, x);
}

/* The block's warps together: to the result, or as a part, to @to. */
static DEV inline void merge_warps(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				   const struct job &w, const struct merged *m, float *to)
{
	int dim = (int)a.v_dim, each = part_threads(dim);

#pragma unroll 1
	for (int e = (int)threadIdx.x; e < w.rows * each; e += THREADS) {
		int r = e / each;
		struct whole x(e % each, each, dim);

#pragma unroll
		for (int i = 0; i < WARPS; i++)
			x.max = fmaxf(x.max, m->max[i][r]);
#pragma unroll
		for (int i = 0; i < WARPS; i++)
			x.add(m->max[i][r], m->sum[i][r], m->out[i][r]);
		if (to)
			leave_row(to + r * part_row(a), x);
		else
			store(a, env, w, r, x);
	}
}

/* The @n parts of job @w, from @from on, ROWS rows each; by as many blocks, of which this is @i. */
static DEV inline void merge_parts(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				   const struct job &w, const float *from, int i, int n)
{
	int dim = (int)a.v_dim, each = part_threads(dim);

#pragma unroll 1
	for (int e = i * THREADS + (int)threadIdx.x; e < w.rows * each; e += n * THREADS) {
		struct whole x(e % each, each, dim);

		merge_row(&x, from + e / each * part_row(a), ROWS * part_row(a), n);
		store(a, env, w, e / each, x);
	}
}
#endif

RLX_G_KERNEL(attention_decode, struct rlx_k_attention, THREADS)
{
#if RLX_WARP == 32
	SHARED(struct merged, m, [1]);
	int chunks = (group_of(a) * (int)a.q_len + ROWS - 1) / ROWS;
	int jobs = (int)live_rows(env, a.batch) * (int)a.kv_heads * chunks;
	int all = (int)(a.batch * a.kv_heads) * chunks, n = (int)gridDim.x / all;
	int u = (int)blockIdx.x / n, s = (int)blockIdx.x % n;
	float *parts = (float *)env.scratch + (int64_t)u * n * ROWS * part_row(a);
	struct job w;

	if (u >= jobs)
		return;
	w = job_at(a, env, u, s, n);
	if (env.pass) {
		merge_parts(a, env, w, parts, s, n);
		return;
	}
	struct row row[2];
	float out[OUT] = {};

	row_begin(a, env, w, line(), &row[0]);
	row_begin(a, env, w, line() + 8, &row[1]);
	attend(a, env, w, row, out);
	leave(m, row, out);
	__syncthreads();
	merge_warps(a, env, w, m, n > 1 ? parts + s * ROWS * part_row(a) : (float *)0);
#endif
}
