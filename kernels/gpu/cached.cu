// SPDX-License-Identifier: MIT
// Attention of one new row over a cache that it joins: decoding.
#include "kernels/cached.h"
#include "kernels/gpu/dialect.h"

/*
 * A block has a part of the rows of one (batch row, key head): of each head that shares
 * them some waves, which find the rows near once one of them has loaded them. In a wave
 * a few lanes have a row, 16 bytes each, and keep sums of their own, which are put
 * together at the end. Where there are several parts the block that is done last puts
 * those together. The code is kept short: it runs once, and is fetched like data.
 *
 * RLX_K0: the type. RLX_K1: width of a head. RLX_K2: heads that share keys.
 * RLX_K3: parts.
 */
typedef rlx_t<RLX_K0> elem;
typedef elem::mem mem;

enum {
	DIM = RLX_K1, SHARE = RLX_K2, PARTS = RLX_K3, THREADS = 256,
	WAVES = THREADS / RLX_WAVE / SHARE < 1 ? 1 : THREADS / RLX_WAVE / SHARE, /* of a head */
	HEADS = THREADS / RLX_WAVE / WAVES,	/* that the block has at a time */
	V = 8,				/* elements of a load */
	NEED = DIM / V,			/* lanes that a row takes, and how many it gets */
	LANES = NEED <= 2 ? 2 : NEED <= 4 ? 4 : NEED <= 8 ? 8 : NEED <= 16 ? 16 : 32,
	STEP = RLX_WAVE / LANES * WAVES,	/* rows at a time */
	AHEAD = 4,			/* rows of each lane at once */
	EACH = DIM + 2,			/* floats of a head's part in scratch */
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

/* Where things are: looked up before the launch ahead has ended. */
struct places {
	const mem	*x;
	const void	*cos, *sin, *pos;
	mem		*cache, *out;

	DEV places(const struct rlx_k_cached &a, const struct rlx_g_env &env)
	{
		x = RLX_G_PTR(const mem, a.x);
		cos = RLX_G_PTR(const void, a.cos);
		sin = RLX_G_PTR(const void, a.sin);
		pos = RLX_G_PTR(const void, a.pos);
		cache = RLX_G_PTR(mem, a.cache);
		out = RLX_G_PTR(mem, a.out);
	}
};

/* Element @d of the head at @x, turned by the angles of row @pos. */
static DEV inline float turned(const struct rlx_k_cached &a, const places &at, const mem *x,
			       int d, int64_t pos)
{
	int other = a.pairs ? d ^ 1 : d < DIM / 2 ? d + DIM / 2 : d - DIM / 2;
	int i = a.pairs ? d / 2 : d % (DIM / 2);
	bool second = a.pairs ? d & 1 : d >= DIM / 2;
	float u = elem::get(x[d]), v = elem::get(x[other]), c, s;

	if (!at.cos)
		return u;
	c = load_float(at.cos, pos * (DIM / 2) + i, a.table_type);
	s = load_float(at.sin, pos * (DIM / 2) + i, a.table_type);
	return second ? u * c + v * s : u * c - v * s;
}

/* What the block shares: the queries, the new row, and sums of its waves. */
struct room {
	float	q[SHARE][DIM];
	pack	k[NEED], v[NEED];	/* elements of mem, for who writes them */
	float	acc[WAVES][SHARE][DIM], max[WAVES][SHARE], sum[WAVES][SHARE];
	bool	last;
};

static DEV inline void prepare(const struct rlx_k_cached &a, const places &at, struct room &m,
			       int64_t b, int64_t h, int64_t pos)
{
	const mem *x = at.x + b * (a.heads + 2 * a.kv_heads) * DIM;
	const mem *k = x + (a.heads + h) * DIM, *v = k + a.kv_heads * DIM;

	x += h * SHARE * DIM;
	/* the new key is one more head that is turned */
#pragma unroll 1
	for (int i = (int)threadIdx.x; i < (SHARE + 1) * DIM; i += THREADS) {
		int g = i / DIM, d = i % DIM;
		float y = turned(a, at, g < SHARE ? x + g * DIM : k, d, pos);

		if (g < SHARE)
			m.q[g][d] = a.scale * y;
		else
			((mem *)m.k)[d] = elem::put(y);
	}
	for (int i = (int)threadIdx.x; i < NEED; i += THREADS)
		m.v[i] = ((const pack *)v)[i];
	__syncthreads();
}

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
			load_words(k[i].w, keys + i * STEP * stride, i * STEP < left);
			load_words(v[i].w, values + i * STEP * stride, i * STEP < left);
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
		score += wave_xor(score, l);
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

/* Sums of the wave's rows, of head @h, for finish(). */
static DEV inline void gather(struct room &m, struct sums *s, int h, int wave)
{
	int lane = lane_id() % LANES;

#pragma unroll
	for (int w = LANES; w < RLX_WAVE; w *= 2) {
		float max = wave_xor(s->max, w), sum = wave_xor(s->sum, w), acc[V];

#pragma unroll
		for (int e = 0; e < V; e++)
			acc[e] = wave_xor(s->acc[e], w);
		if (max != -INFINITY)
			s->join(max, sum, acc);
	}
	if (lane_id() >= NEED)
		return;
#pragma unroll
	for (int e = 0; e < V; e++)
		m.acc[wave][h][lane * V + e] = s->acc[e];
	if (lane == 0) {
		m.max[wave][h] = s->max;
		m.sum[wave][h] = s->sum;
	}
}

/* A column of N parts of a head, which lie @step floats from part to part. */
template <int N, class P>
static DEV inline void merge(P max, P sum, P acc, int64_t step, int64_t acc_step, float *out)
{
	float top = -INFINITY, m[N], n[N], v[N];

	out[1] = out[2] = 0;
#pragma unroll
	for (int i = 0; i < N; i++) {
		m[i] = max[i * step];
		n[i] = sum[i * step];
		v[i] = acc[i * acc_step];
	}
#pragma unroll
	for (int i = 0; i < N; i++)
		top = op_max::of(top, m[i]);
#pragma unroll
	for (int i = 0; i < N; i++) {
		float by = m[i] == -INFINITY ? 0 : fast_exp(m[i] - top);

		out[1] += by * n[i];
		out[2] += by * v[i];
	}
	out[0] = top;
}

/* Is this the last of the PARTS blocks to come here? What they wrote can be seen then. */
static DEV inline bool is_last(const struct rlx_g_env &env, struct room &m, int64_t pair)
{
	memory_fence();
	__syncthreads();
	if (threadIdx.x == 0) {
		m.last = atomic_add(env.zeros + pair, 1) == PARTS - 1;
		if (m.last)
			env.zeros[pair] = 0;
	}
	__syncthreads();
	memory_fence();
	return m.last;
}

/* What the block found, with what the others did. */
static DEV inline void finish(const places &at, const struct rlx_g_env &env, struct room &m,
			      int64_t pair, int part)
{
	/* volatile: read from memory, not from what this processor saw there before */
	volatile float *scratch = (float *)env.scratch + pair * PARTS * SHARE * EACH;
	volatile float *mine = scratch + part * SHARE * EACH;
	mem *out = at.out + pair * SHARE * DIM;
	float r[3];

#pragma unroll 1
	for (int i = (int)threadIdx.x; i < SHARE * DIM; i += THREADS) {
		int g = i / DIM, d = i % DIM;

		merge<WAVES>(&m.max[0][g], &m.sum[0][g], &m.acc[0][g][d], SHARE, SHARE * DIM, r);
		if (PARTS == 1) {
			out[i] = elem::put(r[1] != 0 ? r[2] / r[1] : 0);
			continue;
		}
		mine[g * EACH + 2 + d] = r[2];
		if (d == 0) {
			mine[g * EACH] = r[0];
			mine[g * EACH + 1] = r[1];
		}
	}
	if (PARTS == 1 || !is_last(env, m, pair))
		return;
#pragma unroll 1
	for (int i = (int)threadIdx.x; i < SHARE * DIM; i += THREADS) {
		volatile float *from = scratch + i / DIM * EACH;

		merge<PARTS>(from, from + 1, from + 2 + i % DIM, SHARE * EACH, SHARE * EACH, r);
		out[i] = elem::put(r[1] != 0 ? r[2] / r[1] : 0);
	}
}

/* Which rows of the cache a part has, if the new one is @pos. */
struct share { int64_t lo, hi; };

static DEV inline struct share share_of(int64_t pos, int part)
{
	int64_t each = pos / PARTS + 1, lo = part * each;

	return { lo, lo + each };
}

/* The new row, which shared memory has; the first lanes of one wave take it. */
static DEV inline void take_new(const struct room &m, const float *q, struct sums *s)
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

RLX_G_KERNEL_EARLY(cached, struct rlx_k_cached, THREADS)
{
	SHARED(struct room, shared, [1]);
	struct room &m = *shared;
	int pair = (int)blockIdx.x / PARTS, part = (int)(blockIdx.x % PARTS);
	int b = pair / (int)a.kv_heads, h = pair % (int)a.kv_heads, lane = lane_id() % LANES;
	int wave = wave_id() / HEADS, first = wave * (RLX_WAVE / LANES) + lane_id() / LANES;
	int64_t stride = a.kv_heads * DIM;
	const places at(a, env);
	mem *keys = at.cache + (b * a.rows * a.kv_heads + h) * DIM;
	mem *values = keys + a.batch * a.rows * stride;
	/* of the step before, perhaps: good enough to say what is wanted soon */
	int64_t pos = load_index(at.pos, b, a.pos_type);
	struct share mine = share_of(pos, part);
	bool ok;

#pragma unroll 1
	for (int64_t r = mine.lo + (int)threadIdx.x; pos >= 0 && pos < a.rows && r < mine.hi;
	     r += THREADS)
		for (int i = 0; i < DIM; i += 128 / (int)sizeof(mem)) {
			bring(keys + r * stride + i);
			bring(values + r * stride + i);
		}
	launch_wait();
	pos = load_index(at.pos, b, a.pos_type);
	ok = pos >= 0 && pos < a.rows && (!a.cos || pos < a.positions);
	if (!ok && threadIdx.x == 0)
		*RLX_G_PTR(int32_t, a.bad) = 1;
	mine = share_of(ok ? pos : 0, part);

	bool last = ok && mine.lo <= pos && pos < mine.hi;	/* this part has the new row */
	int n = !ok ? 0 : (int)((mine.hi < pos ? mine.hi : pos) - mine.lo), left = n - first;
	struct rows w = { keys + (mine.lo + first) * stride + lane * V,
			  values + (mine.lo + first) * stride + lane * V, stride,
			  lane < NEED ? left : 0, {}, {} };
	const struct rows begin = w;

	w.load();
	prepare(a, at, m, b, h, ok ? pos : 0);
	if (last && (int)threadIdx.x < 2 * NEED)
		*(pack *)(((int)threadIdx.x < NEED ? keys : values) + pos * stride +
			  (int)threadIdx.x % NEED * V) =
			(int)threadIdx.x < NEED ? m.k[threadIdx.x] : m.v[threadIdx.x - NEED];
#pragma unroll 1
	for (int g = wave_id() % HEADS; g < SHARE; g += HEADS) {
		struct sums s = { -INFINITY, 0, {} };
		float q[V];

		if (SHARE > HEADS && g >= HEADS) {	/* the rows once more */
			w = begin;
			w.load();
		}
#pragma unroll
		for (int e = 0; e < V; e++)
			q[e] = lane < NEED ? m.q[g][lane * V + e] : 0;
#pragma unroll 1
		for (int r = 0; r < n; r += AHEAD * STEP) {
			take(w, left - r, q, &s);
			w.next();
			w.load();
		}
		if (last && wave == 0)
			take_new(m, q, &s);
		gather(m, &s, g, wave);
	}
	__syncthreads();
	finish(at, env, m, pair, part);
}
