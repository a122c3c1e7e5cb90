/* SPDX-License-Identifier: MIT */
/*
 * What the kernels of pools share: where a window lies, what its elements fold into, how that ends.
 *
 * Dimensions are depth, height and width, each of which has a window. With POOL_CHANNELS the
 * innermost dimension of the arguments has none: it is the channels, POOL_CHANNELS of which a
 * thread has side by side. There is a depth if POOL_DEPTH. Positions have 32 bits unless POOL_WIDE.
 */
#ifndef RLX_G_POOL_H
#define RLX_G_POOL_H

#include "kernels/gpu/accumulate.h"
#include "kernels/gpu/move.h"
#include "kernels/pool.h"

enum {
	IS_MAX	= POOL_KIND == RLX_K_POOL_MAX,
	IS_AVG	= POOL_KIND == RLX_K_POOL_AVG,
	IS_LP	= POOL_KIND == RLX_K_POOL_LP,
	INDEX	= POOL_INDEX,
	LAST	= POOL_CHANNELS > 0,
	VEC	= LAST ? POOL_CHANNELS : 1,
};

template <bool WIDE> struct place_of { typedef int32_t type; };
template <> struct place_of<true> { typedef int64_t type; };
typedef place_of<POOL_WIDE>::type place;

/* Powers are summed in doubles: 20^35 is beyond f32, its root is not. Cf. pool_lossy(). */
template <bool POWERS> struct sum_of { typedef float type; };
template <> struct sum_of<true> { typedef double type; };
typedef sum_of<IS_LP>::type sum;

template <int N> struct alignas(N * sizeof(mem)) pool_vec { mem v[N]; };

/* What is read where nothing is: -infinity or 0 */
static DEV inline uint32_t pool_outside(void)
{
	return !IS_MAX ? 0 : ELEM_TYPE == RLX_F32 ? 0xff800000 :
	       ELEM_TYPE == RLX_F16 ? 0xfc00fc00 : 0xff80ff80;
}

static DEV inline place pool_divide(place i, place n, place *rest)
{
	if constexpr (POOL_WIDE) {
		int64_t r, q = divide(i, n, &r);

		*rest = (place)r;
		return (place)q;
	} else {
		uint32_t q = (uint32_t)i / (uint32_t)n;

		*rest = (place)((uint32_t)i - q * (uint32_t)n);
		return (place)q;
	}
}

/* One comparison, which rows have in common. */
static DEV inline bool pool_inside(place at, place n)
{
	return POOL_WIDE ? (uint64_t)at < (uint64_t)n : (uint32_t)at < (uint32_t)n;
}

/* Depth, height or width, by @i */
struct pool_dim {
	place	in, out, k, s, d, p, p_end;
};

static DEV inline struct pool_dim pool_dim_of(const struct rlx_k_pool &a, int i)
{
	int at = LAST ? i - 1 : i;

	if (at < 0 || (!i && !POOL_DEPTH))
		return pool_dim{ 1, 1, 1, 1, 1, 0, 0 };
	return pool_dim{ (place)a.in[at], (place)a.out[at], (place)a.k[at], (place)a.s[at],
			 (place)a.d[at], (place)a.p[at], (place)a.p_end[at] };
}

static DEV inline place pool_channels(const struct rlx_k_pool &a)
{
	return LAST ? (place)a.in[2] : 1;
}

/* Elements of a plane */
static DEV inline int64_t pool_size(const struct rlx_k_pool &a)
{
	return (int64_t)(a.in[0] * a.in[1] * a.in[2]);
}

/* Where tap 0 of a window lies; taps inside are [from, to), and so many count. */
struct pool_span {
	place	at, from, to, counted;
};

static DEV inline place pool_steps(place n, place d)
{
	return n <= 0 ? 0 : d == 1 ? n : (n + d - 1) / d;
}

static DEV inline struct pool_span pool_span_of(const struct rlx_k_pool &a,
						const struct pool_dim &m, place o, place k, place d)
{
	struct pool_span w;
	place most;

	w.at = o * m.s - m.p;
	w.from = pool_steps(-w.at, d);
	w.to = pool_steps(m.in - w.at, d);
	w.to = w.to < k ? w.to : k;
	w.from = w.from < w.to ? w.from : w.to;
	most = pool_steps(m.in + m.p_end - w.at, d);
	w.counted = !a.include_pad ? w.to - w.from : most < k ? most : k;
	return w;
}

/* What elements fold into, and of the largest where it lies in its plane; -1: nowhere. */
struct pool_cell {
	sum	v;
	place	at;
};

static DEV inline struct pool_cell pool_none(void)
{
	return pool_cell{ IS_MAX ? -INFINITY : (sum)0, -1 };
}

static DEV inline double pool_power(double x, unsigned int n)
{
	double y = 1;

	for (; n; n >>= 1, x *= x)
		y *= n & 1 ? x : 1;
	return y;
}

/* An element at @at. */
static DEV inline struct pool_cell pool_cell_of(const struct rlx_k_pool &a, mem x, place at)
{
	float v = elem::get(x);

	if constexpr (IS_LP)
		return pool_cell{ (sum)pool_power(fabsf(v), a.lp), at };
	return pool_cell{ v, at };
}

/* @y lies behind @x, so that of equals @x stays; a NaN is the largest. */
static DEV inline struct pool_cell pool_join(struct pool_cell x, struct pool_cell y)
{
	if constexpr (!IS_MAX)
		return pool_cell{ x.v + y.v, -1 };
	if constexpr (!INDEX)
		return pool_cell{ max_nan((float)x.v, (float)y.v), -1 };
	bool more = y.at >= 0 && (x.at < 0 || y.v > x.v || (y.v != y.v && x.v == x.v));

	return more ? y : x;
}

/* In any order. */
static DEV inline struct pool_cell pool_join_any(struct pool_cell x, struct pool_cell y)
{
	bool turn = INDEX && y.at >= 0 && y.at < x.at;

	return turn ? pool_join(y, x) : pool_join(x, y);
}

static DEV inline mem pool_result(const struct rlx_k_pool &a, struct pool_cell c, place counted)
{
	float v = (float)c.v;

	if (IS_AVG)
		v = counted > 0 ? v / (float)counted : 0;
	if (IS_LP)
		v = a.lp == 1 ? (float)c.v : a.lp == 2 ? (float)sqrt((double)c.v) :
		    (float)pow((double)c.v, 1.0 / a.lp);
	return elem::put(v);
}

/*
 * Is @v what is left of powers of which some are beyond double, or below it? Up to the sixth
 * none of an f32 is.
 */
static DEV inline bool pool_lossy(const struct rlx_k_pool &a, sum v)
{
	return IS_LP && a.lp > 6 && (v < 0x1p-900 || v == INFINITY);
}

/*
 * The norm of a window by the largest magnitude. @each calls what it is given with each element
 * of the thread's share, @most and @total put the shares' numbers together for all threads.
 */
template <class EACH, class MOST, class TOTAL>
static DEV inline mem pool_norm(const struct rlx_k_pool &a, EACH each, MOST most, TOTAL total)
{
	double by, powers = 0;
	float top = 0;

	each([&](mem x) { top = max_nan(fabsf(elem::get(x)), top); });
	by = most(top);
	each([&](mem x) { powers += pool_power(fabsf(elem::get(x)) / by, a.lp); });
	powers = total(powers);
	return elem::put((float)(by > 0 && by < INFINITY ? by * pow(powers, 1.0 / a.lp) : by));
}

/* The index of place @at of plane @plane, channel @c. */
static DEV inline int64_t pool_index(const struct rlx_k_pool &a, place at, int64_t plane, place c)
{
	place i = LAST ? at * (place)a.in[2] + c : at, x, y;

	if (at < 0)
		return -1;
	if (a.column_major) {
		i = pool_divide(i, (place)a.in[2], &x);
		i = pool_divide(i, (place)a.in[1], &y);
		i = (x * (place)a.in[1] + y) * (place)a.in[0] + i;
	}
	return plane * pool_size(a) + i;
}

#endif
