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
#if SCAN_TYPE == 1	/* f64 */
#elif SCAN_STATES > 8	/* which have no room */
#elif SCAN_STEPS <= 16 && SCAN_STEPS <= 4 * SCAN_LANES && SCAN_STEPS * SCAN_STATES <= 64
/* Of few steps many blocks come after each other: more of these at a time hide more. */
#define RLX_G_BLOCKS	6
#elif SCAN_STEPS <= 32
#define RLX_G_BLOCKS	(SCAN_TYPE == 2 || SCAN_STATES > 4 ? 4 : 5)
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
	WIDE = SCAN_WIDE, ROW = SCAN_ROW,	/* elements of an access to x, to b */
	EACH = (STEPS * CHANNELS / WIDE + THREADS - 1) / THREADS,	/* that a thread makes */
	ROWS = (STEPS * WIDTH / ROW + THREADS - 1) / THREADS,
};

static DEV inline float decay(float delta, float a) { return fast_exp2(delta * a); }
static DEV inline double decay(double delta, double a) { return exp(delta * a); }
static DEV inline float rate(float a) { return a * 1.44269504f; }
static DEV inline double rate(double a) { return a; }

/* log(1 + e) / e of e from 0 to 1, fitted: off by 2^-24 of itself. */
static DEV inline float log1p_ratio(float e)
{
	float p = 0.00512610214f;

	p = fmaf(p, e, -0.0290740647f);
	p = fmaf(p, e, 0.0775160867f);
	p = fmaf(p, e, -0.136022476f);
	p = fmaf(p, e, 0.190768807f);
	p = fmaf(p, e, -0.24835399f);
	p = fmaf(p, e, 0.333181217f);
	p = fmaf(p, e, -0.49999445f);
	return fmaf(p, e, 1);
}

/* max(x, 0) + log(1 + exp(-|x|)), of which nothing branches; what rounding -|x| by log2(e) loses */
static DEV inline float soft(float x)
{
	const float m = -fminf(fabsf(x), 126), t = m * 1.44269504f;
	const float e = fast_exp2(t), more = fmaf(m, 1.44269504f, -t) + m * 1.92596299e-8f;

	return (x < 0 ? 0 : x) + e * fmaf(more, 0.693147181f, 1) * log1p_ratio(e);
}

static DEV inline double soft(double x) { return (x < 0 ? 0 : x) + log1p(exp(-fabs(x))); }
static DEV inline float gate(float z)
{
	return z * fast_reciprocal(1 + fast_exp2(-1.44269504f * z));
}

static DEV inline double gate(double z) { return z / (1 + exp(-z)); }

template <int N> struct alignas(N * sizeof(mem)) some {
	mem	v[N];
};

/* What a thread brings of some steps, as it lies in memory. */
struct tile {
	some<WIDE>	x[EACH], delta[EACH], z[EACH];
	some<ROW>	b[ROWS], c[ROWS];
};

/* What a block works on: steps [from, end) of the channels from @first on. */
struct work {
	const mem	*x, *delta, *b, *c, *z;
	mem		*y;
	int64_t		h, n, first, from, end;
	some<WIDE>	skip;		/* d of the channels that a thread brings and finishes */
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

/* @N numbers of shared memory, by up to 16 bytes. */
template <int N> struct piece_of {
	enum { EACH = N * sizeof(num) > 16 ? 16 / sizeof(num) : N };

	struct alignas(EACH * sizeof(num)) type {
		num	v[EACH];
	};
};

template <int N> static DEV inline void put_all(num *to, const num *v)
{
	typedef piece_of<N> piece;

#pragma unroll
	for (int i = 0; i < N; i += piece::EACH) {
		typename piece::type p;

#pragma unroll
		for (int j = 0; j < piece::EACH; j++)
			p.v[j] = v[i + j];
		*(typename piece::type *)(to + i) = p;
	}
}

template <int N> static DEV inline void get_all(num *v, const num *from)
{
	typedef piece_of<N> piece;

#pragma unroll
	for (int i = 0; i < N; i += piece::EACH) {
		const typename piece::type p = *(const typename piece::type *)(from + i);

#pragma unroll
		for (int j = 0; j < piece::EACH; j++)
			v[i + j] = p.v[j];
	}
}

/* The first of access @i to x, of the tile's steps by their channels; and of one to b. */
static DEV inline int own(int i) { return (i * THREADS + (int)threadIdx.x) * WIDE; }
static DEV inline int own_row(int i) { return (i * THREADS + (int)threadIdx.x) * ROW; }

static DEV inline void bring(tile &t, const work &w, int64_t step)
{
	const int left = (int)(w.end - step < STEPS ? w.end - step : STEPS);
	const int64_t ch = w.first + own(0) % CHANNELS, from = step * w.h + ch;

#pragma unroll
	for (int i = 0; i < EACH; i++) {
		const int s = own(i) / CHANNELS;
		const bool in = s < left && ch < w.h;
		const int64_t at = in ? from + s * w.h : 0;

		t.x[i] = load_or((const some<WIDE> *)(w.x + at), in, 0);
		t.delta[i] = load_or((const some<WIDE> *)(w.delta + at), in, 0);
		t.z[i] = load_or((const some<WIDE> *)(w.z + at), in && w.z, 0);
	}
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		const int s = own_row(i) / WIDTH, k = own_row(i) % WIDTH;
		const bool in = s < left && k < w.n;
		const int64_t at = in ? (step + s) * w.n + k : 0;

		t.b[i] = load_or((const some<ROW> *)(w.b + at), in, 0);
		t.c[i] = load_or((const some<ROW> *)(w.c + at), in, 0);
	}
}

static DEV inline void spread(const tile &t, const work &w, const area &s)
{
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		num in[2 * WIDE];

#pragma unroll
		for (int v = 0; v < WIDE; v++) {
			num delta = elem::get(t.delta[i].v[v]);

			if (w.softplus)
				delta = soft(delta);
			in[2 * v] = delta;
			in[2 * v + 1] = delta * elem::get(t.x[i].v[v]);
		}
		if (own(i) < STEPS * CHANNELS)
			put_all<2 * WIDE>(s.in + 2 * own(i), in);
	}
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		num b[ROW], c[ROW];

#pragma unroll
		for (int v = 0; v < ROW; v++) {
			b[v] = elem::get(t.b[i].v[v]);
			c[v] = elem::get(t.c[i].v[v]);
		}
		if (own_row(i) < STEPS * WIDTH) {
			put_all<ROW>(s.b + own_row(i), b);
			put_all<ROW>(s.c + own_row(i), c);
		}
	}
}

/* Of steps from @step on what their sums, @d x and the gate make. */
static DEV inline void finish(const tile &t, const work &w, const area &s, int64_t step)
{
	const int left = (int)(w.end - step < STEPS ? w.end - step : STEPS);
	const int64_t ch = w.first + own(0) % CHANNELS, from = step * w.h + ch;

#pragma unroll
	for (int i = 0; i < EACH; i++) {
		const int k = own(i) / CHANNELS;
		some<WIDE> to;
		num y[WIDE];

		if (k >= left || ch >= w.h)
			continue;
		get_all<WIDE>(y, s.sum + own(i));
#pragma unroll
		for (int v = 0; v < WIDE; v++) {
			if (w.skips)
				y[v] += elem::get(w.skip.v[v]) * elem::get(t.x[i].v[v]);
			if (w.z)
				y[v] *= gate(elem::get(t.z[i].v[v]));
			to.v[v] = elem::put(y[v]);
		}
		store_whole((some<WIDE> *)(w.y + from + k * w.h), to);
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

#pragma unroll 4
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
	const int64_t brought = group * CHANNELS + own(0) % CHANNELS;
	const int first = (int)threadIdx.x % LANES * STATES;
	const bool ahead = chunks > 1 && !env.pass, skips = a.d && !ahead;
	const mem *rates = ssm_ptr<const mem>(a.a, env), *z = ssm_ptr<const mem>(a.z, env);
	const mem *d = ssm_ptr<const mem>(a.d, env), *from = ssm_ptr<const mem>(a.state, env);
	work w = { ssm_ptr<const mem>(a.x, env) + row * a.h,
		   ssm_ptr<const mem>(a.delta, env) + row * a.h,
		   ssm_ptr<const mem>(a.b, env) + row * a.n,
		   ssm_ptr<const mem>(a.c, env) + row * a.n, a.z && !ahead ? z + row * a.h : NULL,
		   ssm_ptr<mem>(a.y, env) + row * a.h, a.h, a.n, group * CHANNELS, chunk * each, 0,
		   {}, a.softplus != 0, skips };
	states st;
	tile t;
	run held, rate_of;

	w.end = w.from + each < a.steps ? w.from + each : a.steps;
	st.sum = 0;
	st.n = channel < a.h ? (int)(a.n - first < STATES ? a.n - first : STATES) : 0;
	pdl_wait();	/* no launch writes addresses */
	bring(t, w, w.from);
#pragma unroll
	for (int v = 0; v < WIDE; v++)
		w.skip.v[v] = load_if(d + brought + v, skips && brought < a.h);
	rate_of.load(rates + channel * a.n + first, st.n);
	held.load(from + line * a.n + first, a.state && !ahead ? st.n : 0);
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
