// SPDX-License-Identifier: MIT
/*
 * Linear recurrences, y_t = a_t y_(t-1) + x_t along an axis, from either end.
 *
 * Algorithm: what some steps do to the y ahead of them is (product of a, y from 0), and two such
 * pairs join to one. SCAN_LINES 0: a thread has SCAN_VEC columns, which lie side by side, some
 * steps' operands under way at a time. SCAN_LINES 1, for few columns: a block has a line, 1,024
 * steps at a time, four a thread, joined by shuffles (Hillis and Steele), then over warps.
 * Few lines or columns: the steps are cut into chunks of a block each; a launch ahead finds the
 * pair of each, and blocks then join those of the chunks before their own.
 * Bound: memory; a, x and y once, a and x twice where there are chunks.
 * Source: Blelloch, "Prefix sums and their applications" (1990).
 * Limits: f64, f32, f16 and bf16, computed in f64 like running sums: a product of many a overflows
 * no sooner than what it is made for.
 */
#include "kernels/gpu/ssm_states.h"
#include "kernels/ssm.h"

typedef rlx_t<SCAN_TYPE> elem;
typedef elem::mem mem;
typedef double num;

typedef ssm_states<elem, SCAN_VEC, SCAN_VEC> run;

enum {
	THREADS = RLX_K_LINEAR_SCAN_THREADS, VEC = SCAN_VEC, UNDER_WAY = VEC > 1 ? 4 : 8,
	ITEMS = 4,
};

#define MOST	1.7976931348623157e308	/* of a double */
#define LEAST	4.9406564584124654e-324

/* y behind = a times y ahead + y */
struct pair {
	num	a, y;
};

static DEV inline bool is_far(num a)
{
	return fabs(a) == MOST || fabs(a) == LEAST;
}

/*
 * Of factors: MOST once it overflows, LEAST once it underflows, with its sign, until one is 0. It
 * would be infinite, of which 0 makes NaN, be that a factor behind or the y ahead; or 0, of which
 * an infinite y ahead makes NaN.
 */
static DEV inline num product(num a, num b)
{
	const num p = a * b;
	num size = fabs(p);

	if (size > LEAST && size < MOST && !is_far(a) && !is_far(b))
		return p;
	if (a == 0 || b == 0 || !(fabs(a) <= MOST) || !(fabs(b) <= MOST))
		return p;
	size = is_far(a) ? fabs(a) : is_far(b) ? fabs(b) : size < 1 ? LEAST : MOST;
	return (a < 0) == (b < 0) ? size : -size;
}

static DEV inline pair step(pair ahead, pair in)
{
	return { product(ahead.a, in.a), in.a * ahead.y + in.y };
}

/* The same of many steps, whose product may have been too large, or too small. */
static DEV inline pair then(pair first, pair second)
{
	num y = second.a * first.y;

	if (fabs(second.a) == MOST && first.y != 0)
		y *= INFINITY;
	if (fabs(second.a) == LEAST && fabs(first.y) <= MOST)
		y = 0;
	return { product(first.a, second.a), y + second.y };
}

/* A double rounds once to a narrow float. */
static DEV inline mem put(num y)
{
	return elem::put((elem::acc)(sizeof(mem) == 2 ? (num)f64_to_odd(y) : y));
}

static DEV inline pair shuffle_pair(pair p, int from)
{
	return { shuffle(p.a, from), shuffle(p.y, from) };
}

/* Of this thread's pair and those of the lanes below. */
static DEV inline pair warp_join(pair p)
{
	for (int d = 1; d < WARP; d *= 2) {
		pair below = shuffle_pair(p, lane_id() < d ? lane_id() : lane_id() - d);

		if (lane_id() >= d)
			p = then(below, p);
	}
	return p;
}

static DEV inline pair nothing(void)
{
	return { 1, 0 };
}

/* A line's operands: element @t of it at @base + @t * @step, for @t of [from, end). */
struct line {
	const mem	*a, *x;
	mem		*y;
	int64_t		base, step, from, end;
};

static DEV inline pair load(const line &l, int64_t t)
{
	const bool in = t < l.end;
	const int64_t at = in ? l.base + t * l.step : 0;
	const mem a = load_if(l.a + at, in), x = load_if(l.x + at, in);

	return { in ? elem::get(a) : 1, in ? elem::get(x) : 0 };
}

/* A thread's columns from @p on; WRITE: to memory. */
template <bool WRITE> static DEV inline void columns(const line &l, pair *p)
{
	for (int64_t t = l.from; t < l.end; t += UNDER_WAY) {
		run a[UNDER_WAY], x[UNDER_WAY], y;

#pragma unroll
		for (int i = 0; i < UNDER_WAY; i++) {
			const int64_t at = l.base + (t + i) * l.step;

			a[i].load(l.a + at, t + i < l.end ? VEC : 0);
			x[i].load(l.x + at, t + i < l.end ? VEC : 0);
		}
#pragma unroll
		for (int i = 0; i < UNDER_WAY; i++) {
			if (t + i >= l.end)
				break;
#pragma unroll
			for (int c = 0; c < VEC; c++) {
				p[c] = step(p[c], { a[i].get(c), x[i].get(c) });
				y.part[0].v[c] = put(p[c].y);
			}
			if (WRITE)
				y.store(l.y + l.base + (t + i) * l.step, VEC);
		}
	}
}

/* The same of a block's line. */
template <bool WRITE> static DEV inline pair whole_line(const line &l, pair p, pair *smem)
{
	for (int64_t t = l.from; t < l.end; t += THREADS * ITEMS) {
		const int64_t first = t + (int64_t)threadIdx.x * ITEMS;
		pair in[ITEMS], all, before, ahead = nothing();

#pragma unroll
		for (int i = 0; i < ITEMS; i++) {
			in[i] = load(l, first + i);
			all = i ? step(all, in[i]) : in[i];
		}
		all = warp_join(all);
		before = shuffle_pair(all, lane_id() ? lane_id() - 1 : 0);
		if (lane_id() == WARP - 1)
			smem[warp_id()] = all;
		__syncthreads();
		for (int w = 0; w < THREADS / WARP; w++) {
			if (w == warp_id())
				ahead = p;
			p = then(p, smem[w]);
		}
		__syncthreads();
		if (lane_id())
			ahead = then(ahead, before);
#pragma unroll
		for (int i = 0; WRITE && i < ITEMS; i++) {
			ahead = step(ahead, in[i]);
			if (first + i < l.end)
				l.y[l.base + (first + i) * l.step] = put(ahead.y);
		}
	}
	return p;
}

RLX_G_KERNEL_PDL(linear_scan, struct rlx_k_linear_scan, THREADS)
{
	SHARED(pair, smem, [MAX_WARPS]);
	const int64_t all = a.outer * a.inner, threads = all / VEC;
	const int64_t blocks = SCAN_LINES ? all : (threads + THREADS - 1) / THREADS;
	/* 32 bits count blocks, and divide in a tenth of the time that 64 take */
	const uint32_t chunks = gridDim.x / (uint32_t)blocks;
	const uint32_t chunk = chunks > 1 ? blockIdx.x / (uint32_t)blocks : 0;
	const int64_t each = chunks > 1 ? (a.n + chunks - 1) / chunks : a.n;
	const int64_t block = blockIdx.x - (int64_t)chunk * blocks;
	const int64_t at = SCAN_LINES ? block : (block * THREADS + threadIdx.x) * VEC;
	const int64_t outer = all >> 32 ? at / a.inner : (uint32_t)at / (uint32_t)a.inner;
	const mem *from = ssm_ptr<const mem>(a.initial, env);
	pair *left = (pair *)env.scratch, p[VEC];
	line l = { ssm_ptr<const mem>(a.a, env), ssm_ptr<const mem>(a.x, env),
		   ssm_ptr<mem>(a.y, env), outer * (a.n - 1) * a.inner + at, a.inner, chunk * each,
		   0 };
	run first;

	pdl_wait();	/* no launch writes addresses */
	if (at >= all)
		return;
	l.end = l.from + each < a.n ? l.from + each : a.n;
	if (a.reverse) {
		l.base += (a.n - 1) * a.inner;
		l.step = -a.inner;
	}
#pragma unroll
	for (int c = 0; c < VEC; c++)
		p[c] = nothing();
	if (chunks > 1 && !env.pass) {
		if (SCAN_LINES)
			*p = whole_line<false>(l, *p, smem);
		else
			columns<false>(l, p);
#pragma unroll
		for (int c = 0; c < VEC; c++)
			if (!SCAN_LINES || !threadIdx.x)
				left[chunk * all + at + c] = p[c];
		return;
	}
	first.load(from + at, a.initial ? VEC : 0);
#pragma unroll
	for (int c = 0; c < VEC; c++) {
		p[c].y = first.get(c);
		for (int64_t k = 0; k < chunk; k++)
			p[c] = then(p[c], left[k * all + at + c]);
	}
	if (SCAN_LINES)
		whole_line<true>(l, *p, smem);
	else
		columns<true>(l, p);
}
