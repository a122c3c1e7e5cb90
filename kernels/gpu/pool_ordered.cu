// SPDX-License-Identifier: MIT
/*
 * Maxima and means of f32 windows with strict bits: the CPU's folds in the CPU's order.
 *
 * Algorithm: a thread for each output, which folds columns of its window down and then those along
 * the row, padding's too, as kernels/cpu/pool_plain.h does; over blocks of channels (POOL_BLOCKED)
 * row by row what lies inside, as pool_c.c does. Traffic: a window's elements for each output,
 * neighbours' from the L1; y once.
 * Limits: f32; no indices, no norms. A thread for each output also where windows are large.
 */
#include "kernels/gpu/dialect.h"
#include "kernels/gpu/move.h"
#include "kernels/pool.h"
#include "kernels/simd/math.h"

enum { IS_MAX = POOL_KIND == RLX_K_POOL_MAX };

/* A window in one dimension: taps [from, to) of it are inside, and so many count. */
struct span {
	int64_t	at, from, to, counted;

	DEV span(const struct rlx_k_pool &a, int i, int64_t o)
		: at(o * (int64_t)a.s[i] - (int64_t)a.p[i])
	{
		const int64_t k = (int64_t)a.k[i];
		int64_t most = steps((int64_t)(a.in[i] + a.p_end[i]) - at, (int64_t)a.d[i]);

		from = steps(-at, (int64_t)a.d[i]);
		to = steps((int64_t)a.in[i] - at, (int64_t)a.d[i]);
		to = to < k ? to : k;
		from = from < to ? from : to;
		counted = !a.include_pad ? to - from : most < k ? most : k;
	}

	static DEV int64_t steps(int64_t n, int64_t d) { return n > 0 ? (n + d - 1) / d : 0; }
};

static DEV inline float fold_two(float acc, float v)
{
	return IS_MAX ? vf_max_nan(acc, v) : acc + v;
}

/* pool_c.c: @x is the lane's first pixel, @size channels apart. */
static DEV inline float blocked(const struct rlx_k_pool &a, const float *x, const struct span &h,
				const struct span &w, int64_t size)
{
	float acc = IS_MAX ? -INFINITY : 0;
	int64_t counted = h.counted * w.counted;

	for (int64_t i = h.from; i < h.to; i++)
		for (int64_t j = w.from; j < w.to; j++) {
			int64_t row = h.at + i * (int64_t)a.d[0], col = w.at + j * (int64_t)a.d[1];

			acc = fold_two(acc, x[(row * (int64_t)a.in[1] + col) * size]);
		}
	return IS_MAX ? acc : counted ? acc / (float)counted : 0;
}

/* The window's rows of the column @x folded into one. */
static DEV inline float column(const struct rlx_k_pool &a, const float *x, const struct span &d,
			       const struct span &h)
{
	float acc = IS_MAX ? -INFINITY : 0;

	for (int64_t i = d.from; i < d.to; i++)
		for (int64_t j = h.from; j < h.to; j++) {
			int64_t at = (d.at + i * (int64_t)a.d[0]) * (int64_t)a.in[1] +
				     h.at + j * (int64_t)a.d[1];
			float v = x[at * (int64_t)a.in[2]];

			acc = i == d.from && j == h.from ? v : fold_two(acc, v);
		}
	return acc;
}

/* v / c by 1 / c, put right: mean_of() of pool_plain.h */
static DEV inline float mean_of(float v, float c)
{
	float by = 1 / c, q = v * by, rest = fmaf(-q, c, v), y = fmaf(rest, by, q);

	return rest - rest == 0 ? y : q;
}

static DEV inline float plain(const struct rlx_k_pool &a, const float *x, const struct span &d,
			      const struct span &h, const struct span &w)
{
	int64_t rows = d.counted * h.counted;
	float acc = 0;

	for (int64_t t = 0; t < (int64_t)a.k[2]; t++) {
		float v = IS_MAX ? -INFINITY : 0;

		if (t >= w.from && t < w.to)
			v = column(a, x + w.at + t * (int64_t)a.d[2], d, h);
		acc = t ? fold_two(acc, v) : v;
	}
	return IS_MAX ? acc : mean_of(acc, (float)(w.counted ? w.counted : 1) *
					   (float)(rows ? rows : 1));
}

RLX_G_KERNEL(pool_ordered, struct rlx_k_pool, 256)
{
	const int64_t size = (int64_t)(a.in[0] * a.in[1] * a.in[2]);
	const int64_t n = (int64_t)(a.planes * a.out[0] * a.out[1] * a.out[2]);
	const float *from = RLX_G_PTR(const float, a.x);
	float *y = RLX_G_PTR(float, a.y);

	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t o[3], plane = i;

		for (int d = 2; d >= 0; d--)
			plane = divide(plane, (int64_t)a.out[d], &o[d]);
		const float *x = from + plane * size;
		const struct span d(a, 0, o[0]), h(a, 1, o[1]), w(a, 2, o[2]);

		y[i] = POOL_BLOCKED ? blocked(a, x + o[2], d, h, (int64_t)a.in[2]) :
				      plain(a, x, d, h, w);
	}
}
