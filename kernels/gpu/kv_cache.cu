// SPDX-License-Identifier: MIT
/*
 * Attention of one new row of each batch row over a KV cache that it joins (decode).
 *
 * Algorithm: a block has a part of the rows of one (batch row, key head): of each query head that
 * shares them some warps, which find the rows near once one of them has loaded them. In a warp
 * a few lanes have a row, 16 bytes each, and keep sums of their own with an online softmax, which
 * are merged at the end. Where there are several parts (split-KV) the block that is done last
 * merges those, in order. The code is kept short: it runs once, and is fetched like data.
 *
 * Tiles: as many parts as make 128 blocks, each with 64 rows of a full cache at least; the first
 * 24 KiB of keys and values are staged in shared memory, where possible before the preceding
 * launch has ended (PDL).
 * Traffic: the valid rows of the cache once for all heads that share them (grouped-query
 * attention), which is the bound; the new row is rotated (RoPE) and written on the way.
 * Source: Dao et al., "Flash-Decoding" (2023) for the split over blocks.
 * Limits: f16, bf16; heads of 16 to 256, by 8; up to 8 heads, of 1,024 in all, share keys. Prefill
 * goes by attention_mma.cu and its kin.
 */
#include "kernels/kv_cache.h"
#include "kernels/gpu/dialect.h"

/*
 * KV_CACHE_DIM: width of a head. KV_CACHE_GROUP: heads that share keys. KV_CACHE_PARTS: blocks
 * that share the rows of one.
 */
typedef rlx_t<KV_CACHE_TYPE> elem;
typedef elem::mem mem;

enum {
	DIM = KV_CACHE_DIM, SHARE = KV_CACHE_GROUP, PARTS = KV_CACHE_PARTS, THREADS = 256,
	WARPS = THREADS / RLX_WARP / SHARE < 1 ? 1 : THREADS / RLX_WARP / SHARE, /* of a head */
	HEADS = THREADS / RLX_WARP / WARPS,	/* that the block has at a time */
	V = 8,				/* elements of a load */
	NEED = DIM / V,			/* lanes that a row takes, and how many it gets */
	LANES = NEED <= 2 ? 2 : NEED <= 4 ? 4 : NEED <= 8 ? 8 : NEED <= 16 ? 16 : 32,
	STEP = RLX_WARP / LANES * WARPS,	/* rows at a time */
	AHEAD = 4,			/* rows of each lane at once */
	EACH = DIM + 2,			/* floats of a head's part in scratch */
	PAIRS = (SHARE + 1) * (DIM / 2), TURNS = (PAIRS + THREADS - 1) / THREADS,
	ROUND = AHEAD * STEP,		/* rows of all warps at once */
	/* rows that 24 KiB hold: beside a product's block there is room for no more */
	STAGED = 24576 / (4 * DIM) / ROUND * ROUND,
};

/* V elements as words. */
struct alignas(16) pack {
	uint32_t	w[V / 2];

	DEV float get(int e) const { return elem::get(mem{ (uint16_t)(w[e / 2] >> e % 2 * 16) }); }
};

/* Sums over some rows, of one head. */
struct sums {
	float	max, sum, acc[V];

	DEV void join(float max2, float sum2, const float *acc2)
	{
		float top = op_max::of(max, max2);
		float a = max == top ? 1 : fast_exp(max - top);
		float b = max2 == top ? 1 : fast_exp(max2 - top);

		max = top;
		sum = sum * a + sum2 * b;
		for (int i = 0; i < V; i++)
			acc[i] = acc[i] * a + acc2[i] * b;
	}
};

/* Where things are: looked up before the preceding launch has ended. */
struct places {
	const mem	*x;
	const void	*cos, *sin, *pos;
	mem		*cache, *out;

	DEV places(const struct rlx_k_kv_cache &a, const struct rlx_g_env &env)
	{
		x = RLX_G_PTR(const mem, a.x);
		cos = RLX_G_PTR(const void, a.cos);
		sin = RLX_G_PTR(const void, a.sin);
		pos = RLX_G_PTR(const void, a.pos);
		cache = RLX_G_PTR(mem, a.cache);
		out = RLX_G_PTR(mem, a.out);
	}
};

/* What the block shares: the queries, the new row, and sums of its warps. */
struct smem {
	float	q[SHARE][DIM];
	pack	k[NEED], v[NEED];	/* elements of mem, for who writes them */
	float	acc[WARPS][SHARE][DIM], max[WARPS][SHARE], sum[WARPS][SHARE];
	pack	rows[2][STAGED ? STAGED * NEED : 1];	/* keys, values: the first ones */
	bool	last;
};

/*
 * What a thread has of the heads that are turned, the queries' and the key's: of head
 * i / (DIM / 2) elements that turn together, for i of threadIdx.x and every THREADS on.
 */
struct turned {
	float	c[TURNS], s[TURNS], u[TURNS], v[TURNS];

	DEV int first(const struct rlx_k_kv_cache &a, int i) const
	{
		return i % (DIM / 2) * (a.pairs ? 2 : 1);
	}

	DEV int second(const struct rlx_k_kv_cache &a, int i) const
	{
		return first(a, i) + (a.pairs ? 1 : DIM / 2);
	}

	DEV void angles(const struct rlx_k_kv_cache &a, const places &at, int64_t pos, bool there)
	{
#pragma unroll
		for (int k = 0; k < TURNS; k++) {
			int i = (int)threadIdx.x + k * THREADS;
			int64_t at_i = pos * (DIM / 2) + i % (DIM / 2);

			c[k] = 1;
			s[k] = 0;
			if (at.cos && there) {
				c[k] = load_float(at.cos, at_i, a.table_type);
				s[k] = load_float(at.sin, at_i, a.table_type);
			}
		}
	}

	/* @x: the first query of the block's, @key: the new one */
	DEV void load(const struct rlx_k_kv_cache &a, const mem *x, const mem *key)
	{
#pragma unroll
		for (int k = 0; k < TURNS; k++) {
			int i = (int)threadIdx.x + k * THREADS, g = i / (DIM / 2);
			const mem *p = g < SHARE ? x + g * DIM : key;

			if (i < PAIRS) {
				u[k] = elem::get(p[first(a, i)]);
				v[k] = elem::get(p[second(a, i)]);
			}
		}
	}

	DEV void store(const struct rlx_k_kv_cache &a, struct smem &m) const
	{
#pragma unroll
		for (int k = 0; k < TURNS; k++) {
			int i = (int)threadIdx.x + k * THREADS, g = i / (DIM / 2);
			float x = u[k] * c[k] - v[k] * s[k], y = v[k] * c[k] + u[k] * s[k];

			if (g < SHARE) {
				m.q[g][first(a, i)] = a.scale * x;
				m.q[g][second(a, i)] = a.scale * y;
			} else if (i < PAIRS) {
				((mem *)m.k)[first(a, i)] = elem::put(x);
				((mem *)m.k)[second(a, i)] = elem::put(y);
			}
		}
	}
};

/* Rows of the cache that a lane looks at, STEP apart; the new one is not among them. */
struct rows {
	const mem	*keys, *values;	/* this lane's elements of its next row */
	int64_t		stride;
	int		left;		/* rows from there on; none for lanes without elements */
	pack		k[AHEAD], v[AHEAD];

	DEV void load(void)
	{
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			load_words_any(k[i].w, keys + i * STEP * stride, i * STEP < left);
			load_words_any(v[i].w, values + i * STEP * stride, i * STEP < left);
		}
	}

	DEV void next(void)
	{
		left -= AHEAD * STEP;
		keys += AHEAD * STEP * stride;
		values += AHEAD * STEP * stride;
	}
};

static DEV inline float dot(const float *q, const pack &k)
{
	float score = 0;

#pragma unroll
	for (int e = 0; e < V; e++)
		score += q[e] * k.get(e);
#pragma unroll
	for (int l = LANES / 2; l; l /= 2)
		score += warp_xor(score, l);
	return score;
}

/* @left as of lane 0 of those that have a row together. */
static DEV inline void take(const struct rows &w, int left, const float *q, struct sums *s)
{
	float score[AHEAD], top = s->max, by;

#pragma unroll
	for (int i = 0; i < AHEAD; i++) {
		score[i] = dot(q, w.k[i]);
		score[i] = i * STEP < left ? score[i] : -INFINITY;
		top = op_max::of(top, score[i]);
	}
	if (top == -INFINITY)	/* none of these rows is there */
		return;
	by = s->max == -INFINITY ? 0 : fast_exp(s->max - top);
	s->max = top;
	s->sum *= by;
#pragma unroll
	for (int e = 0; e < V; e++)
		s->acc[e] *= by;
#pragma unroll
	for (int i = 0; i < AHEAD; i++) {
		float p = score[i] == -INFINITY ? 0 : fast_exp(score[i] - top);

		s->sum += p;
#pragma unroll
		for (int e = 0; e < V; e++)
			s->acc[e] += p * w.v[i].get(e);
	}
}

/* Sums of the warp's rows, of head @h, for finish(). */
static DEV inline void gather(struct smem &m, struct sums *s, int h, int warp)
{
	int lane = lane_id() % LANES;

#pragma unroll
	for (int w = LANES; w < RLX_WARP; w *= 2) {
		float max = warp_xor(s->max, w), sum = warp_xor(s->sum, w), acc[V];

#pragma unroll
		for (int e = 0; e < V; e++)
			acc[e] = warp_xor(s->acc[e], w);
		if (max != -INFINITY)
			s->join(max, sum, acc);
	}
	if (lane_id() >= NEED)
		return;
#pragma unroll
	for (int e = 0; e < V; e++)
		m.acc[warp][h][lane * V + e] = s->acc[e];
	if (lane == 0) {
		m.max[warp][h] = s->max;
		m.sum[warp][h] = s->sum;
	}
}

/*
 * Two columns of N parts of a head, which lie @step floats from part to part: the largest
 * score, the sum of weights, and sums by weight. Volatile: read from memory, not from
 * what this processor saw there before.
 */
struct merged {
	float	max, sum, acc[2];

	template <int N> DEV void take(const float *max_at, const float *sum_at,
				       const float *acc_at, int step, int acc_step)
	{
		float m[N], n[N], v[N][2];
		uint64_t u;

#pragma unroll
		for (int i = 0; i < N; i++) {
			m[i] = ((const volatile float *)max_at)[i * step];
			n[i] = ((const volatile float *)sum_at)[i * step];
			u = *(const volatile uint64_t *)(acc_at + i * acc_step);
			v[i][0] = bits_f32((uint32_t)u);
			v[i][1] = bits_f32((uint32_t)(u >> 32));
		}
		max = -INFINITY;
		sum = acc[0] = acc[1] = 0;
#pragma unroll
		for (int i = 0; i < N; i++)
			max = op_max::of(max, m[i]);
#pragma unroll
		for (int i = 0; i < N; i++) {
			float by = m[i] == -INFINITY ? 0 : fast_exp(m[i] - max);

			sum += by * n[i];
			acc[0] += by * v[i][0];
			acc[1] += by * v[i][1];
		}
	}

	DEV void store(mem *out) const
	{
		float by = sum != 0 ? fast_reciprocal(sum) : 0;

		out[0] = elem::put(acc[0] * by);
		out[1] = elem::put(acc[1] * by);
	}
};

/* Is this the last of the PARTS blocks to come here? What they wrote can be seen then. */
static DEV inline bool is_last(const struct rlx_g_env &env, struct smem &m, int64_t pair)
{
	__syncthreads();
	if (threadIdx.x == 0) {
		memory_fence();
		m.last = atomic_add(env.zeros + pair, 1) == PARTS - 1;
		memory_fence();
		if (m.last)
			env.zeros[pair] = 0;
	}
	__syncthreads();
	return m.last;
}

/* What the block found, with what the others did. */
static DEV inline void finish(const places &at, const struct rlx_g_env &env, struct smem &m,
			      int64_t pair, int part)
{
	float *scratch = (float *)env.scratch + pair * PARTS * SHARE * EACH;
	float *mine = scratch + part * SHARE * EACH;
	mem *out = at.out + pair * SHARE * DIM;
	struct merged r;

#pragma unroll 1
	for (int i = (int)threadIdx.x * 2; i < SHARE * DIM; i += THREADS * 2) {
		int g = i / DIM, d = i % DIM;

		r.take<WARPS>(&m.max[0][g], &m.sum[0][g], &m.acc[0][g][d], SHARE, SHARE * DIM);
		if (PARTS == 1) {
			r.store(out + i);
			continue;
		}
		mine[g * EACH + 2 + d] = r.acc[0];
		mine[g * EACH + 3 + d] = r.acc[1];
		if (d == 0) {
			mine[g * EACH] = r.max;
			mine[g * EACH + 1] = r.sum;
		}
	}
	if (PARTS == 1 || !is_last(env, m, pair))
		return;
#pragma unroll 1
	for (int i = (int)threadIdx.x * 2; i < SHARE * DIM; i += THREADS * 2) {
		const float *from = scratch + i / DIM * EACH;

		r.take<PARTS>(from, from + 1, from + 2 + i % DIM, SHARE * EACH, SHARE * EACH);
		r.store(out + i);
	}
}

/* The new row, which shared memory has; the first lanes of one warp take it. */
static DEV inline void take_new(const struct smem &m, const float *q, struct sums *s)
{
	bool mine = lane_id() < NEED;
	pack k = mine ? m.k[lane_id()] : pack{}, v = mine ? m.v[lane_id()] : pack{};
	float score = dot(q, k), y[V];

#pragma unroll
	for (int e = 0; e < V; e++)
		y[e] = v.get(e);
	if (lane_id() < LANES)
		s->join(score, 1, y);
}

/* What a block has to do: a part of the rows of one (batch row, key head). */
struct job {
	const struct rlx_k_kv_cache &a;
	const places	at;
	int		pair, part, b, n;	/* n: rows of the cache beside the new one */
	int64_t		stride, pos, lo;	/* lo: the first of these rows */
	mem		*keys, *values;
	const mem	*x, *key, *value;	/* of the new row: the first query, key, value */
	bool		ok, last;		/* last: the part has the new row */

	DEV job(const struct rlx_k_kv_cache &args, const struct rlx_g_env &env)
		: a(args), at(args, env)
	{
		int64_t wide = a.heads + 2 * a.kv_heads;
		int h;

		pair = (int)blockIdx.x / PARTS;
		part = (int)(blockIdx.x % PARTS);
		b = pair / (int)a.kv_heads;
		h = pair % (int)a.kv_heads;
		stride = a.kv_heads * DIM;
		keys = at.cache + (b * a.rows * a.kv_heads + h) * DIM;
		values = keys + a.batch * a.rows * stride;
		x = at.x + (b * wide + h * SHARE) * DIM;
		key = at.x + (b * wide + a.heads + h) * DIM;
		value = key + stride;
	}

	/* The new row is to be row @p. */
	DEV void look(int64_t p)
	{
		int64_t each, hi;

		pos = p;
		ok = pos >= 0 && pos < a.rows && (!at.cos || pos < a.positions);
		each = ok ? pos / PARTS + 1 : 0;
		lo = part * each;
		hi = lo + each;
		last = lo <= pos && pos < hi;
		n = (int)((hi < pos ? hi : pos) - lo);
		n = ok && n > 0 ? n : 0;
	}

	/* The first rows to shared memory. */
	DEV void stage(struct smem &m) const
	{
		const mem *k = keys + lo * stride, *v = values + lo * stride;

#pragma unroll 1
		for (int i = (int)threadIdx.x; i < STAGED * NEED && i / NEED < n; i += THREADS) {
			int64_t from = i / NEED * stride + i % NEED * V;

			copy_async(m.rows[0] + i, k + from, 16, 16);
			copy_async(m.rows[1] + i, v + from, 16, 16);
		}
		copy_commit();
	}

	/* Those from @first on into the cache. */
	DEV void prefetch_rows(int first) const
	{
#pragma unroll 1
		for (int r = first + (int)threadIdx.x; r < n; r += THREADS)
			for (int i = 0; i < DIM; i += 128 / (int)sizeof(mem)) {
				prefetch_l2(keys + (lo + r) * stride + i);
				prefetch_l2(values + (lo + r) * stride + i);
			}
	}
};

/*
 * All that the block reads, some of it before the preceding launch has ended: pos may be that
 * of the step before then, whose rows are not the ones that are wanted.
 */
static DEV inline void begin(struct job &j, struct smem &m)
{
	int64_t guess = load_index_before_wait(j.at.pos, j.b, j.a.pos_type), pos = guess;
	struct turned t = {};

#pragma unroll 1
	for (int late = 0; late < 2; late++) {
		if (late) {
			pdl_wait();
			pos = load_index_again(j.at.pos, j.b, j.a.pos_type);
			t.load(j.a, j.x, j.key);
			if ((int)threadIdx.x < NEED)
				m.v[threadIdx.x] = ((const pack *)j.value)[threadIdx.x];
			if (j.a.settled && pos == guess)
				break;
			copy_wait<0>();	/* they go where the right ones will */
		}
		j.look(pos);
		if (late || j.a.settled) {
			t.angles(j.a, j.at, pos, j.ok);
			j.stage(m);
		}
		if (!late)
			j.prefetch_rows(j.a.settled ? STAGED : 0);
	}
	t.store(j.a, m);
	copy_wait<0>();
	__syncthreads();
}

/* One head's sums over the rows, by the warps that have it. */
static DEV inline void attend(const struct job &j, struct smem &m, int g)
{
	int lane = lane_id() % LANES, warp = warp_id() / HEADS;
	int first = warp * (RLX_WARP / LANES) + lane_id() / LANES, left = j.n - first;
	struct rows w = { (const mem *)m.rows[0] + first * DIM + lane * V,
			  (const mem *)m.rows[1] + first * DIM + lane * V, DIM,
			  lane < NEED ? left : 0, {}, {} };
	struct sums s = { -INFINITY, 0, {} };
	float q[V];

#pragma unroll
	for (int e = 0; e < V; e++)
		q[e] = lane < NEED ? m.q[g][lane * V + e] : 0;
#pragma unroll 1
	for (int r = 0; r < j.n; r += ROUND) {
		if (r == STAGED) {	/* the others are where they were */
			w.keys = j.keys + (j.lo + r + first) * j.stride + lane * V;
			w.values = j.values + (j.lo + r + first) * j.stride + lane * V;
			w.stride = j.stride;
		}
		w.load();
		take(w, left - r, q, &s);
		w.next();
	}
	if (j.last && warp == 0)
		take_new(m, q, &s);
	gather(m, &s, g, warp);
}

RLX_G_KERNEL_PDL(kv_cache, struct rlx_k_kv_cache, THREADS)
{
	SHARED(struct smem, shared, [1]);
	struct smem &m = *shared;
	struct job j(a, env);

	begin(j, m);
	if (!j.ok && threadIdx.x == 0 && j.pair / a.kv_heads < live_checked(env, a.live))
		*RLX_G_PTR(int32_t, a.bad) = 1;
	if (j.last && (int)threadIdx.x < 2 * NEED) {
		int i = (int)threadIdx.x % NEED;
		bool key = (int)threadIdx.x < NEED;

		*(pack *)((key ? j.keys : j.values) + j.pos * j.stride + i * V) =
			key ? m.k[i] : m.v[i];
	}
#pragma unroll 1
	for (int g = warp_id() % HEADS; g < SHARE; g += HEADS)
		attend(j, m, g);
	__syncthreads();
	finish(j.at, env, m, j.pair, j.part);
}
