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
#include "kernels/gpu/dialect.h"
#include "kernels/ssm.h"

typedef rlx_t<SCAN_TYPE> elem;
typedef elem::mem mem;
typedef elem::acc num;

enum {
	THREADS = RLX_K_SSM_THREADS, LANES = SCAN_LANES, STATES = SCAN_STATES, STEPS = SCAN_STEPS,
	CHANNELS = THREADS / LANES, WIDTH = LANES * STATES, GROUP = 4,
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
	const mem	*x, *delta, *b, *c, *d, *z;
	mem		*y;
	int64_t		h, n, first, from, end;
	bool		softplus;
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
		if (w.z)
			t.z[i] = load_if(w.z + at, in);
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
		if (w.d)
			y += elem::get(w.d[ch]) * elem::get(t.x[i]);
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

template <bool Y>
static DEV inline void walk(states &st, const work &w, const area &s)
{
	tile t, next;

	bring(next, w, w.from);
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
 * State @h behind steps whose deltas are @sum: 0 stays 0, also where the decay over all of them
 * overflows, as it does not in any one.
 */
static DEV inline num decayed(num h, num sum, num a)
{
	return h == 0 && sum - sum == 0 && a - a == 0 ? h : decay(sum, a) * h;
}

/* Channel @line's states ahead of @chunk, of @chunks. */
static DEV inline void begin(states &st, const struct rlx_k_selective_scan &a,
			     const struct rlx_g_env &env, int64_t chunks, int64_t chunk,
			     int64_t line)
{
	const mem *from = RLX_G_PTR(const mem, a.state);
	const int first = (int)threadIdx.x % LANES * STATES;

#pragma unroll
	for (int j = 0; j < STATES; j++)
		st.h[j] = from && j < st.n ? elem::get(from[line * a.n + first + j]) : 0;
	for (int64_t c = 0; st.n > 0 && c < chunk; c++) {
		const num *left = left_at(a, env, c, line) + first;
		const num sum = *sum_at(a, env, chunks, c, line);

#pragma unroll
		for (int j = 0; j < STATES; j++)
			if (j < st.n)
				st.h[j] = decayed(st.h[j], sum, st.a[j]) + left[j];
	}
}

RLX_G_KERNEL(selective_scan, struct rlx_k_selective_scan, THREADS)
{
	SHARED_DYNAMIC(shared);
	const area s = area_of(shared);
	const int64_t groups = (a.h + CHANNELS - 1) / CHANNELS, blocks = groups * a.batch;
	const int64_t chunks = gridDim.x / blocks, chunk = blockIdx.x / blocks;
	const int64_t entry = blockIdx.x % blocks / groups;
	const int64_t each = ((a.steps + chunks - 1) / chunks + STEPS - 1) / STEPS * STEPS;
	const int64_t channel = blockIdx.x % groups * CHANNELS + threadIdx.x / LANES;
	const int64_t line = entry * a.h + channel, row = entry * a.steps;
	const int first = (int)threadIdx.x % LANES * STATES;
	const mem *rates = RLX_G_PTR(const mem, a.a), *z = RLX_G_PTR(const mem, a.z);
	const bool ahead = chunks > 1 && !env.pass;
	work w = { RLX_G_PTR(const mem, a.x) + row * a.h,
		   RLX_G_PTR(const mem, a.delta) + row * a.h, RLX_G_PTR(const mem, a.b) + row * a.n,
		   RLX_G_PTR(const mem, a.c) + row * a.n, RLX_G_PTR(const mem, a.d),
		   z && !ahead ? z + row * a.h : NULL, RLX_G_PTR(mem, a.y) + row * a.h, a.h, a.n,
		   blockIdx.x % groups * CHANNELS, chunk * each, 0, a.softplus != 0 };
	states st;

	w.end = w.from + each < a.steps ? w.from + each : a.steps;
	st.sum = 0;
	st.n = channel < a.h ? (int)(a.n - first < STATES ? a.n - first : STATES) : 0;
#pragma unroll
	for (int j = 0; j < STATES; j++)
		st.a[j] = j < st.n ? rate(elem::get(rates[channel * a.n + first + j])) : 0;
	if (ahead) {
		num *left = left_at(a, env, chunk, line) + first;

#pragma unroll
		for (int j = 0; j < STATES; j++)
			st.h[j] = 0;
		walk<false>(st, w, s);
		for (int j = 0; j < st.n; j++)
			left[j] = st.h[j];
		if (!first && st.n > 0)
			*sum_at(a, env, chunks, chunk, line) = st.sum;
		return;
	}
	begin(st, a, env, chunks, chunk, line);
	walk<true>(st, w, s);
	if (w.end == a.steps && w.from <= w.end) {
		mem *last = RLX_G_PTR(mem, a.last) + line * a.n + first;

		/* of several chunks the last that has steps */
		if (w.from < w.end || !chunk)
			for (int j = 0; j < st.n; j++)
				last[j] = elem::put(st.h[j]);
	}
}
