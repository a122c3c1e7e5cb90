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
#include "kernels/gpu/attention.h"
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

/* Of rows line() and line() + 8 the queries. */
static DEV inline void load_queries(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				    const struct job &w, eight (&q)[2][KQ])
{
#pragma unroll
	for (int i = 0; i < 2; i++) {
		int r = line() + i * 8;
		const half *p = RLX_G_PTR(const half, a.q) + w.b * a.q_stride[0];

		if (r < w.rows)
			p += head_of(a, w, r) * a.q_stride[1] + query_of(a, w, r) * a.q_stride[2];
#pragma unroll
		for (int j = 0; j < KQ; j++) {
			half v[8] = {};

#pragma unroll
			for (int e = 0; e < 8; e++) {
				int d = j * 32 + part() * 8 + e;

				if (r < w.rows && d < (int)a.head_dim)
					v[e] = p[d];
			}
			memcpy(&q[i][j], v, sizeof(v));
		}
	}
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

/* Scores of row @o and keys from @key on to weights; @scale: of what was before. */
static DEV inline void soften(const struct rlx_k_attention &a, struct row *o,
			      float (&c)[TILES * MMA_C], int i, int key, float *scale)
{
	float max = o->max, some;

#pragma unroll
	for (int e = 0; e < TILES * 2; e++) {
		int at = key + e / 2 * MMA_N + part() * 2 + e % 2;
		float *s = &c[e / 2 * MMA_C + i * 2 + e % 2];

		*s = at >= o->lo && at < o->hi ? capped(a, *s * a.scale) : -INFINITY;
		if (a.bias && *s != -INFINITY)
			*s = biased(a, o->bias, at * a.bias_stride[3], *s);
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
		float *s = &c[e / 2 * MMA_C + i * 2 + e % 2];

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
	int key = w.lo / KEYS * KEYS + warp_id() * KEYS;
	eight q[2][KQ], k[TILES][KQ];

	load_keys(sk, w, key, k);
	load_queries(a, env, w, q);
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

/* An element of a row out of parts: the largest score, sums of weights and of weighted values. */
struct whole {
	float	max, sum, v;
};

/* What a part with the largest score @of has to be multiplied by. */
static DEV inline float part_scale(float max, float of)
{
	return of == -INFINITY ? 0 : fast_exp2((of - max) * 1.44269504f);
}

static DEV inline void store(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			     const struct job &w, int r, int d, const struct whole &x)
{
	int h = head_of(a, w, r), i = query_of(a, w, r);
	float *lse = RLX_G_PTR(float, a.lse);

	store_float(RLX_G_PTR(void, a.out), w.b * a.out_stride[0] + h * a.out_stride[1] +
		    i * a.out_stride[2] + d, a.out_type, x.sum != 0 ? x.v / x.sum : 0);
	if (lse && !d)
		lse[(w.b * a.heads + h) * a.q_len + i] = x.sum != 0 ? x.max + logf(x.sum) :
							 -INFINITY;
}

/* The block's warps together: to the result, or as a part, to @to. */
static DEV inline void merge_warps(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				   const struct job &w, const struct merged *m, float *to)
{
	int dim = (int)a.v_dim;

	for (int e = (int)threadIdx.x; e < w.rows * dim; e += THREADS) {
		int r = e / dim, d = e % dim;
		struct whole x = { -INFINITY, 0, 0 };

#pragma unroll
		for (int i = 0; i < WARPS; i++)
			x.max = fmaxf(x.max, m->max[i][r]);
#pragma unroll
		for (int i = 0; i < WARPS; i++) {
			float by = part_scale(x.max, m->max[i][r]);

			x.sum += by * m->sum[i][r];
			x.v += by * m->out[i][r][d];
		}
		if (!to) {
			store(a, env, w, r, d, x);
			continue;
		}
		to[r * (dim + 2) + 2 + d] = x.v;
		if (!d) {
			to[r * (dim + 2)] = x.max;
			to[r * (dim + 2) + 1] = x.sum;
		}
	}
}

/* The @n parts of job @w, from @from on, ROWS rows each; by as many blocks, of which this is @i. */
static DEV inline void merge_parts(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				   const struct job &w, const float *from, int i, int n)
{
	int dim = (int)a.v_dim, each = ROWS * (dim + 2);

	for (int e = i * THREADS + (int)threadIdx.x; e < w.rows * dim; e += n * THREADS) {
		const float *p = from + e / dim * (dim + 2);
		struct whole x = { -INFINITY, 0, 0 };

		for (int s = 0; s < n; s++)
			x.max = fmaxf(x.max, p[s * each]);
		for (int s = 0; s < n; s++) {
			float by = part_scale(x.max, p[s * each]);

			x.sum += by * p[s * each + 1];
			x.v += by * p[s * each + 2 + e % dim];
		}
		store(a, env, w, e / dim, e % dim, x);
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
	float *parts = (float *)env.scratch + (int64_t)u * n * ROWS * (a.v_dim + 2);
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
	merge_warps(a, env, w, m, n > 1 ? parts + s * ROWS * (a.v_dim + 2) : (float *)0);
#endif
}
