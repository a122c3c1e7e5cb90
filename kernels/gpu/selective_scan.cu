// SPDX-License-Identifier: MIT
/*
 * Mamba's selective scan, h = exp(delta a) h + delta x b and y = (sum of c h + d x) silu(z), in one
 * read of its operands.
 *
 * Algorithm: SCAN_LANES lanes have a channel, SCAN_STATES of its states each, in registers. A block
 * of 128 threads goes over its channels SCAN_STEPS steps at a time: all bring x and delta into
 * shared memory, softplus and delta x done once, then each channel's lanes walk the steps, and all
 * write the results, whose skip and gate are done there. The next steps' operands are on their way
 * meanwhile. Four steps' sums over lanes are folded at once.
 * Few channels: the steps are cut into chunks of a block each; a launch ahead finds the state
 * that each leaves behind when it begins with 0, and its sum of delta, as what a chunk does to the
 * state ahead is exp(a sum) alone; each block then folds those of the chunks before its own.
 * Bound: an exponential for each state and step, of which a multiprocessor does 16 a cycle; memory
 * next, with x, delta, z and y once.
 * Limits: f64, computed so, f32, f16 and bf16, in f32; states up to 2,048 a channel.
 */
/* Of few steps many blocks come after each other: more of these at a time hide more. */
#if SCAN_TYPE == 1	/* f64 */
#elif SCAN_STATES > 8 || SCAN_STEPS > 16	/* which have no room */
#elif SCAN_STEPS <= 4 * SCAN_LANES && SCAN_STEPS * SCAN_STATES <= 64
#define RLX_G_BLOCKS	6
#elif SCAN_STATES > 4
#define RLX_G_BLOCKS	4
#endif
#include "kernels/gpu/ssm_states.h"
#include "kernels/ssm.h"

typedef rlx_t<SCAN_TYPE> elem;
typedef elem::mem mem;
typedef elem::acc num;
typedef ssm_states<elem, SCAN_STATES, SCAN_VEC> run;

enum {
	THREADS = RLX_K_SSM_THREADS, LANES = SCAN_LANES, STATES = SCAN_STATES, STEPS = SCAN_STEPS,
	CHANNELS = THREADS / LANES, WIDTH = LANES * STATES, GROUP = STEPS < 4 ? STEPS : 4,
	EACH = (STEPS * CHANNELS + THREADS - 1) / THREADS,	/* of x that a thread brings */
	ROWS = (STEPS * WIDTH + THREADS - 1) / THREADS,		/* of b */
};

static DEV inline float decay(float delta, float a) { return fast_exp2(delta * a); }
static DEV inline double decay(double delta, double a) { return exp(delta * a); }
static DEV inline float rate(float a) { return a * 1.44269504f; }
static DEV inline double rate(double a) { return a; }
static DEV inline float soft(float x) { return (x < 0 ? 0 : x) + log1pf(expf(-fabsf(x))); }
static DEV inline double soft(double x) { return (x < 0 ? 0 : x) + log1p(exp(-fabs(x))); }
static DEV inline float gate(float z) { return z / (1 + expf(-z)); }
static DEV inline double gate(double z) { return z / (1 + exp(-z)); }

/* What a thread brings of some steps, as it lies in memory. */
struct tile {
	mem	x[EACH], delta[EACH], z[EACH], b[ROWS], c[ROWS];
};

/* What a block works on: steps [from, end) of the channels from @first on. */
struct work {
	const mem	*x, *delta, *b, *c, *z;
	mem		*y;
	int64_t		h, n, first, from, end;
	num		skip;		/* d of the channel that a thread brings and finishes */
	bool		softplus, skips;
};

/* What is shared: delta and delta x, sums, b and c of SCAN_STEPS steps. */
struct area {
	num	*in, *sum, *b, *c;
};

static DEV inline area area_of(unsigned char *p)
{
	num *at = (num *)p;

	return { at, at + 2 * STEPS * CHANNELS, at + 3 * STEPS * CHANNELS,
		 at + 3 * STEPS * CHANNELS + STEPS * WIDTH };
}

static DEV inline void bring(tile &t, const work &w, int64_t step)
{
	const int tid = (int)threadIdx.x;

#pragma unroll
	for (int i = 0; i < EACH; i++) {
		const int e = i * THREADS + tid, s = e / CHANNELS;
		const int64_t ch = w.first + e % CHANNELS;
		const bool in = s < STEPS && step + s < w.end && ch < w.h;
		const int64_t at = in ? (step + s) * w.h + ch : 0;

		t.x[i] = load_if(w.x + at, in);
		t.delta[i] = load_if(w.delta + at, in);
		t.z[i] = load_if(w.z + at, in && w.z);
	}
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		const int e = i * THREADS + tid, s = e / WIDTH, k = e % WIDTH;
		const bool in = s < STEPS && step + s < w.end && k < w.n;
		const int64_t at = in ? (step + s) * w.n + k : 0;

		t.b[i] = load_if(w.b + at, in);
		t.c[i] = load_if(w.c + at, in);
	}
}

static DEV inline void spread(const tile &t, const work &w, const area &s)
{
	const int tid = (int)threadIdx.x;

#pragma unroll
	for (int i = 0; i < EACH; i++) {
		const int e = i * THREADS + tid;
		num delta = elem::get(t.delta[i]);

		if (w.softplus)
			delta = soft(delta);
		if (e < STEPS * CHANNELS) {
			s.in[2 * e] = delta;
			s.in[2 * e + 1] = delta * elem::get(t.x[i]);
		}
	}
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		const int e = i * THREADS + tid;

		if (e < STEPS * WIDTH) {
			s.b[e] = elem::get(t.b[i]);
			s.c[e] = elem::get(t.c[i]);
		}
	}
}

/* Of steps from @step on what their sums, @d x and the gate make. */
static DEV inline void finish(const tile &t, const work &w, const area &s, int64_t step)
{
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		const int e = i * THREADS + (int)threadIdx.x, k = e / CHANNELS;
		const int64_t ch = w.first + e % CHANNELS;
		num y;

		if (k >= STEPS || step + k >= w.end || ch >= w.h)
			continue;
		y = s.sum[e];
		if (w.skips)
			y += w.skip * elem::get(t.x[i]);
		if (w.z)
			y *= gate(elem::get(t.z[i]));
		w.y[(step + k) * w.h + ch] = elem::put(y);
	}
}

/*
 * Each of four numbers over the lanes of a channel: number (base) .. (base + result) of them are
 * in v[0] on, in the lanes of which *writes says so.
 */
static DEV inline int fold(num v[GROUP], int *base, bool *writes)
{
	int keep = GROUP;

	*base = 0;
	*writes = true;
#pragma unroll
	for (int m = 1; m < LANES; m *= 2) {
		const bool up = lane_id() & m;

		if (keep == 1) {
			v[0] += warp_xor(v[0], m);
			*writes = *writes && !up;
			continue;
		}
		keep /= 2;
#pragma unroll
		for (int i = 0; i < keep; i++) {
			num give = up ? v[i] : v[i + keep], own = up ? v[i + keep] : v[i];

			v[i] = own + warp_xor(give, m);
		}
		*base += up ? keep : 0;
	}
	return keep;
}

/* The states of a thread: how fast each decays, what it is, how many there are. */
struct states {
	num	a[STATES], h[STATES], sum;	/* sum of delta */
	int	n;
};

/* Steps k .. k + GROUP of the tile, of which the first @count are there if not ALL. */
template <bool ALL, bool Y>
static DEV inline void steps_of(states &st, const area &s, int k, int count)
{
	const int ch = (int)threadIdx.x / LANES, first = (int)threadIdx.x % LANES * STATES;
	num y[GROUP];
	int base, keep;
	bool writes;

#pragma unroll
	for (int u = 0; u < GROUP; u++) {
		const num *in = s.in + 2 * ((k + u) * CHANNELS + ch);
		const num *b = s.b + (k + u) * WIDTH + first, *c = s.c + (k + u) * WIDTH + first;
		num delta, dx;

		y[u] = 0;
		if (!ALL && u >= count)
			continue;
		delta = in[0];
		dx = in[1];
		if (!Y)
			st.sum += delta;
#pragma unroll
		for (int j = 0; j < STATES; j++) {
			if (SCAN_TAIL && j >= st.n)
				continue;
			st.h[j] = decay(delta, st.a[j]) * st.h[j] + dx * b[j];
			if (Y)
				y[u] += c[j] * st.h[j];
		}
	}
	if (!Y)
		return;
	keep = fold(y, &base, &writes);
#pragma unroll
	for (int i = 0; i < GROUP; i++)
		if (i < keep && writes)
			s.sum[(k + base + i) * CHANNELS + ch] = y[i];
}

/* @next: the first steps. */
template <bool Y>
static DEV inline void walk(states &st, const work &w, const area &s, tile &next)
{
	tile t;

	for (int64_t step = w.from; step < w.end; step += STEPS) {
		const int count = (int)(w.end - step < STEPS ? w.end - step : STEPS);

		t = next;
		spread(t, w, s);
		__syncthreads();
		if (step + STEPS < w.end)
			bring(next, w, step + STEPS);
		for (int k = 0; k + GROUP <= count; k += GROUP)
			steps_of<true, Y>(st, s, k, GROUP);
		if (count % GROUP)
			steps_of<false, Y>(st, s, count / GROUP * GROUP, count % GROUP);
		__syncthreads();
		if (Y)
			finish(t, w, s, step);
	}
}

/* Where chunk @chunk of a channel keeps its states, and its sum of delta. */
static DEV inline num *left_at(const struct rlx_k_selective_scan &a, const struct rlx_g_env &env,
			       int64_t chunk, int64_t line)
{
	return (num *)env.scratch + (chunk * a.batch * a.h + line) * a.n;
}

static DEV inline num *sum_at(const struct rlx_k_selective_scan &a, const struct rlx_g_env &env,
			      int64_t chunks, int64_t chunk, int64_t line)
{
	return (num *)env.scratch + chunks * a.batch * a.h * a.n + chunk * a.batch * a.h + line;
}

/*
 * State @h behind steps whose deltas are @sum: 0 stays 0, and what is infinite so, also where the
 * decay over all of them overflows or underflows, as it does not in any one.
 */
static DEV inline num decayed(num h, num sum, num a)
{
	const bool stays = h == 0 || h - h != 0;

	return stays && sum - sum == 0 && a - a == 0 ? h : decay(sum, a) * h;
}

/* Channel @line's states ahead of @chunk, of @chunks; those ahead of all are there. */
static DEV inline void begin(states &st, const struct rlx_k_selective_scan &a,
			     const struct rlx_g_env &env, int64_t chunks, int64_t chunk,
			     int64_t line)
{
	const int first = (int)threadIdx.x % LANES * STATES;

	for (int64_t c = 0; st.n > 0 && c < chunk; c++) {
		const num *left = left_at(a, env, c, line) + first;
		const num sum = *sum_at(a, env, chunks, c, line);

#pragma unroll
		for (int j = 0; j < STATES; j++)
			if (j < st.n)
				st.h[j] = decayed(st.h[j], sum, st.a[j]) + left[j];
	}
}

/* The states behind all steps are those of @w's, if it has the last of them. */
static DEV inline void end(const states &st, const struct rlx_k_selective_scan &a,
			   const struct rlx_g_env &env, const work &w, int64_t line)
{
	run last;

#pragma unroll
	for (int j = 0; j < STATES; j++)
		last.put(j, st.h[j]);
	/* of several chunks the last that has steps */
	if (w.end == a.steps && (w.from < w.end || !w.from))
		last.store(ssm_ptr<mem>(a.last, env) + line * a.n +
			   threadIdx.x % LANES * STATES, st.n);
}

RLX_G_KERNEL_PDL(selective_scan, struct rlx_k_selective_scan, THREADS)
{
	SHARED_DYNAMIC(shared);
	const area s = area_of(shared);
	/* 32 bits count blocks, and divide in a tenth of the time that 64 take */
	const uint32_t groups = (uint32_t)((a.h + CHANNELS - 1) / CHANNELS);
	const uint32_t blocks = groups * (uint32_t)a.batch, chunks = gridDim.x / blocks;
	const uint32_t chunk = chunks > 1 ? blockIdx.x / blocks : 0;
	const uint32_t entry = (blockIdx.x - chunk * blocks) / groups;
	const int64_t group = blockIdx.x - chunk * blocks - entry * groups;
	const int64_t each = chunks > 1 ? ((a.steps + chunks - 1) / chunks + STEPS - 1) / STEPS *
			     STEPS : a.steps;
	const int64_t channel = group * CHANNELS + threadIdx.x / LANES;
	const int64_t line = entry * a.h + channel, row = entry * a.steps;
	const int64_t brought = group * CHANNELS + threadIdx.x % CHANNELS;
	const int first = (int)threadIdx.x % LANES * STATES;
	const bool ahead = chunks > 1 && !env.pass, skips = a.d && !ahead;
	const mem *rates = ssm_ptr<const mem>(a.a, env), *z = ssm_ptr<const mem>(a.z, env);
	const mem *d = ssm_ptr<const mem>(a.d, env), *from = ssm_ptr<const mem>(a.state, env);
	work w = { ssm_ptr<const mem>(a.x, env) + row * a.h,
		   ssm_ptr<const mem>(a.delta, env) + row * a.h,
		   ssm_ptr<const mem>(a.b, env) + row * a.n,
		   ssm_ptr<const mem>(a.c, env) + row * a.n, a.z && !ahead ? z + row * a.h : NULL,
		   ssm_ptr<mem>(a.y, env) + row * a.h, a.h, a.n, group * CHANNELS, chunk * each, 0,
		   0, a.softplus != 0, skips };
	states st;
	tile t;
	run held, rate_of;
	mem skip;

	w.end = w.from + each < a.steps ? w.from + each : a.steps;
	st.sum = 0;
	st.n = channel < a.h ? (int)(a.n - first < STATES ? a.n - first : STATES) : 0;
	pdl_wait();	/* no launch writes addresses */
	bring(t, w, w.from);
	skip = load_if(d + brought, skips && brought < a.h);
	rate_of.load(rates + channel * a.n + first, st.n);
	held.load(from + line * a.n + first, a.state && !ahead ? st.n : 0);
	w.skip = elem::get(skip);
#pragma unroll
	for (int j = 0; j < STATES; j++) {
		st.a[j] = rate(rate_of.get(j));
		st.h[j] = held.get(j);
	}
	if (ahead) {
		num *left = left_at(a, env, chunk, line) + first;

		walk<false>(st, w, s, t);
#pragma unroll
		for (int j = 0; j < STATES; j++)
			if (j < st.n)
				left[j] = st.h[j];
		if (!first && st.n > 0)
			*sum_at(a, env, chunks, chunk, line) = st.sum;
		return;
	}
	begin(st, a, env, chunks, chunk, line);
	walk<true>(st, w, s, t);
	end(st, a, env, w, line);
}
