// SPDX-License-Identifier: MIT
/*
 * The gated delta rule step by step, S = e^g S + k u' with u = beta (v - e^g S' k), and
 * y = scale S' q.
 *
 * Algorithm: columns of S, one for each value, do not depend on each other. DELTA_LANES lanes have
 * DELTA_COLS columns, DELTA_KEYS keys of each, in registers. A block of 128 threads brings q and k
 * of DELTA_STEPS steps into shared memory, with k q of each. Then, step by step, S' k and S' q are
 * folded over lanes at once: y is scale (e^g S' q + k q u), of the S ahead of the step. The next
 * steps' operands are on their way meanwhile.
 * Bound: the latency of a step, a product and a fold over lanes, where heads are few, else FMAs
 * and what shared memory gives; q and k are read by the blocks of all columns of a head.
 * Source: Yang, Kautz and Hatamizadeh 2025 (Gated Delta Networks).
 * Limits: f64, computed so, f32, f16 and bf16, in f32; keys up to 2,048. gated_delta_chunks.cu has
 * many steps of f16 and bf16, on tensor cores.
 */
#include "kernels/gpu/ssm_states.h"
#include "kernels/ssm.h"

typedef rlx_t<DELTA_TYPE> elem;
typedef elem::mem mem;
typedef elem::acc num;
typedef ssm_states<elem, DELTA_COLS, DELTA_VEC> run;

enum {
	THREADS = RLX_K_SSM_THREADS, LANES = DELTA_LANES, KEYS = DELTA_KEYS, COLS = DELTA_COLS,
	STEPS = DELTA_STEPS, TEAMS = THREADS / LANES, VALUES = TEAMS * COLS, PER = 4,
	WIDTH = LANES * KEYS,
	EACH = (STEPS * WIDTH + THREADS - 1) / THREADS,		/* of k that a thread brings */
	ROWS = (STEPS * VALUES + THREADS - 1) / THREADS,	/* of v */
};

static DEV inline float power(float x) { return expf(x); }
static DEV inline double power(double x) { return exp(x); }

/* What a thread brings of some steps, as it lies in memory. */
struct tile {
	mem	q[EACH], k[EACH], v[ROWS], g, beta;
};

/* A block's head and entry: its first step's operands, and how far the next step's are. */
struct work {
	const mem	*q, *k, *v, *g, *beta;
	mem		*y;
	int64_t		keys, values, heads, steps, dk, first, count;	/* columns, of dv */
};

/* What is shared, of the steps of a tile; rates: e^g, beta, k q of each */
struct area {
	num	*q, *k, *v, *rates;
};

static DEV inline area area_of(unsigned char *p)
{
	num *at = (num *)p;

	return { at, at + STEPS * WIDTH, at + 2 * STEPS * WIDTH,
		 at + 2 * STEPS * WIDTH + STEPS * VALUES };
}

static DEV inline void bring(tile &t, const work &w, int64_t step)
{
	const int tid = (int)threadIdx.x;
	const bool one = tid < STEPS && step + tid < w.steps;

#pragma unroll
	for (int i = 0; i < EACH; i++) {
		const int e = i * THREADS + tid, s = e / WIDTH, key = e % WIDTH;
		const bool in = s < STEPS && step + s < w.steps && key < w.dk;
		const int64_t at = in ? (step + s) * w.keys + key : 0;

		t.q[i] = load_if(w.q + at, in);
		t.k[i] = load_if(w.k + at, in);
	}
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		const int e = i * THREADS + tid, s = e / VALUES, col = e % VALUES;
		const bool in = s < STEPS && step + s < w.steps && col < w.count;

		t.v[i] = load_if(w.v + (in ? (step + s) * w.values + col : 0), in);
	}
	t.g = load_if(w.g + (one ? (step + tid) * w.heads : 0), one);
	t.beta = load_if(w.beta + (one ? (step + tid) * w.heads : 0), one);
}

static DEV inline void spread(const tile &t, const area &s)
{
	const int tid = (int)threadIdx.x;

#pragma unroll
	for (int i = 0; i < EACH; i++) {
		const int e = i * THREADS + tid;

		if (e < STEPS * WIDTH) {
			s.q[e] = elem::get(t.q[i]);
			s.k[e] = elem::get(t.k[i]);
		}
	}
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		const int e = i * THREADS + tid;

		if (e < STEPS * VALUES)
			s.v[e] = elem::get(t.v[i]);
	}
	if (tid < STEPS) {
		s.rates[3 * tid] = power(elem::get(t.g));
		s.rates[3 * tid + 1] = elem::get(t.beta);
	}
}

/* Over the lanes of a column, in all of them. */
static DEV inline num over_lanes(num v)
{
#pragma unroll
	for (int m = 1; m < LANES; m *= 2)
		v += warp_xor(v, m);
	return v;
}

/* The @i-th key of a thread: four lie side by side, and those of neighbouring lanes. */
static DEV inline int key_of(int i)
{
	return i / PER * PER * LANES + (int)threadIdx.x % LANES * PER + i % PER;
}

/* k q of each step of a tile, which the teams share out; all lanes of a warp go along. */
static DEV inline void products(const area &s)
{
	for (int t = 0; t < STEPS; t += TEAMS) {
		const int step = t + (int)threadIdx.x / LANES, at = step < STEPS ? step : 0;
		num sum = 0;

#pragma unroll
		for (int i = 0; i < KEYS; i++)
			sum += s.q[at * WIDTH + key_of(i)] * s.k[at * WIDTH + key_of(i)];
		sum = over_lanes(sum);
		if (step < STEPS && threadIdx.x % LANES == 0)
			s.rates[3 * step + 2] = sum;
	}
}

/* One step of a thread's columns; what it gives lies where v of it was. */
static DEV inline void step_of(num (*state)[KEYS], const area &s, int t, num scale)
{
	const num *rates = s.rates + 3 * t, *q = s.q + t * WIDTH, *k = s.k + t * WIDTH;
	const int first = (int)threadIdx.x / LANES * COLS;
	num x[COLS], y[COLS], key[KEYS];

#pragma unroll
	for (int c = 0; c < COLS; c++)
		x[c] = y[c] = 0;
#pragma unroll
	for (int i = 0; i < KEYS; i++) {
		const num query = q[key_of(i)];

		key[i] = k[key_of(i)];
#pragma unroll
		for (int c = 0; c < COLS; c++) {
			x[c] += state[c][i] * key[i];
			y[c] += state[c][i] * query;
		}
	}
#pragma unroll
	for (int c = 0; c < COLS; c++) {
		num u = over_lanes(x[c]);
		const num sum = over_lanes(y[c]), v = s.v[t * VALUES + first + c];

		u = rates[1] * (v - rates[0] * u);
#pragma unroll
		for (int i = 0; i < KEYS; i++)
			state[c][i] = rates[0] * state[c][i] + key[i] * u;
		y[c] = scale * (rates[0] * sum + rates[2] * u);
	}
	warp_sync();	/* all lanes have v */
	if (threadIdx.x % LANES)
		return;
#pragma unroll
	for (int c = 0; c < COLS; c++)
		s.v[t * VALUES + first + c] = y[c];
}

static DEV inline void finish(const work &w, const area &s, int64_t step)
{
	for (int i = 0; i < ROWS; i++) {
		const int e = i * THREADS + (int)threadIdx.x, t = e / VALUES, col = e % VALUES;

		if (t < STEPS && step + t < w.steps && col < w.count)
			w.y[(step + t) * w.values + col] = elem::put(s.v[e]);
	}
}

RLX_G_KERNEL_PDL(gated_delta_net, struct rlx_k_gated_delta, THREADS)
{
	SHARED_DYNAMIC(shared);
	const area s = area_of(shared);
	/* 32 bits count blocks, and divide in a tenth of the time that 64 take */
	const uint32_t blocks = (uint32_t)((a.dv + VALUES - 1) / VALUES);
	const uint32_t heads = (uint32_t)a.hv, of = blockIdx.x / blocks;
	const int64_t entry = of / heads, head = of % heads;
	const int64_t key_head = (uint32_t)head / (heads / (uint32_t)a.hk);
	const int64_t first = (int64_t)(blockIdx.x % blocks) * VALUES, row = entry * a.steps;
	const int64_t values = (row * a.hv + head) * a.dv + first;
	const int64_t keys = (row * a.hk + key_head) * a.dk, rates = row * a.hv + head;
	const int64_t column = threadIdx.x / LANES * COLS;
	const int64_t at = (entry * a.hv + head) * a.dk * a.dv + first + column;
	const mem *from = ssm_ptr<const mem>(a.state, env) + at;
	mem *last = ssm_ptr<mem>(a.last, env) + at;
	const work w = { ssm_ptr<const mem>(a.q, env) + keys, ssm_ptr<const mem>(a.k, env) + keys,
			 ssm_ptr<const mem>(a.v, env) + values,
			 ssm_ptr<const mem>(a.g, env) + rates,
			 ssm_ptr<const mem>(a.beta, env) + rates, ssm_ptr<mem>(a.y, env) + values,
			 a.hk * a.dk, a.hv * a.dv, a.hv, a.steps, a.dk, first,
			 a.dv - first < VALUES ? a.dv - first : VALUES };
	const int count = (int)(w.count - column < COLS ? w.count - column : COLS);
	num state[COLS][KEYS];
	run held[KEYS];
	tile t;

	pdl_wait();	/* no launch writes addresses */
	bring(t, w, 0);
#pragma unroll
	for (int i = 0; i < KEYS; i++)
		held[i].load(from + key_of(i) * a.dv, a.state && key_of(i) < a.dk ? count : 0);
#pragma unroll
	for (int i = 0; i < KEYS; i++)
#pragma unroll
		for (int c = 0; c < COLS; c++)
			state[c][i] = held[i].get(c);
	for (int64_t step = 0; step < a.steps; step += STEPS) {
		const int here = (int)(a.steps - step < STEPS ? a.steps - step : STEPS);

		spread(t, s);
		__syncthreads();
		if (step + STEPS < a.steps)
			bring(t, w, step + STEPS);
		products(s);
		__syncthreads();
		for (int i = 0; i < here; i++)
			step_of(state, s, i, (num)a.scale);
		__syncthreads();
		finish(w, s, step);
		__syncthreads();
	}
#pragma unroll
	for (int i = 0; i < KEYS; i++) {
#pragma unroll
		for (int c = 0; c < COLS; c++)
			held[i].put(c, state[c][i]);
		held[i].store(last + key_of(i) * a.dv, key_of(i) < a.dk ? count : 0);
	}
}
