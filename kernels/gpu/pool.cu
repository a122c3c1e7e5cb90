// SPDX-License-Identifier: MIT
/*
 * Pooling of plain layouts (largest, average, LP norm), and global pooling.
 *
 * Algorithm: pool_f32: a thread an output goes over the window, cut at the image's edges
 * beforehand, in order. LP sums are f64: 20^35 is beyond f32, its root is not. Global: a warp a
 * plane, lanes apart by a warp, then a tree.
 * Traffic: y once; x once for each window that holds it, mostly from caches after the first time,
 * as neighbouring threads have neighbouring windows. Global: x once, which is the
 * bound. The place of the largest (8 bytes) is written if asked for.
 * Limits: up to 3 dimensions, any stride, dilation and padding; pool_f32 f32, f16 and bf16,
 * computed in f32; global f32 alone. A NaN is the largest.
 */
#include "kernels/gpu/move.h"
#include "kernels/pool.h"

struct window {
	int64_t	start[3], from[3], to[3];	/* first tap; taps inside [from, to) */
	int64_t	counted;
};

static DEV inline struct window window_at(const struct rlx_k_pool &a, const int64_t *o)
{
	struct window w;

	w.counted = 1;
	for (int d = 0; d < 3; d++) {
		int64_t step = (int64_t)a.d[d], in = (int64_t)a.in[d], k = (int64_t)a.k[d];
		int64_t at = o[d] * (int64_t)a.s[d] - (int64_t)a.p[d], end;

		w.start[d] = at;
		w.from[d] = at < 0 ? (-at + step - 1) / step : 0;
		end = in > at ? (in - at + step - 1) / step : 0;
		w.to[d] = end < k ? end : k;
		if (w.from[d] > w.to[d])
			w.from[d] = w.to[d];
		if (a.include_pad) {
			int64_t most = in + (int64_t)a.p_end[d] - at;

			most = most > 0 ? (most + step - 1) / step : 0;
			w.counted *= most < k ? most : k;
		} else {
			w.counted *= w.to[d] - w.from[d];
		}
	}
	return w;
}

/* In doubles: 20^35 is beyond f32, its root is not. */
static DEV inline double power(double x, unsigned int n)
{
	double y = 1;

	for (; n; n >>= 1, x *= x)
		y *= n & 1 ? x : 1;
	return y;
}

RLX_G_KERNEL(pool_f32, struct rlx_k_pool, 256)
{
	const void *all = RLX_G_PTR(const void, a.x);
	void *y = RLX_G_PTR(void, a.y);
	int64_t *index = RLX_G_PTR(int64_t, a.index);
	int64_t plane = (int64_t)(a.in[0] * a.in[1] * a.in[2]);
	int64_t n = (int64_t)(a.planes * a.out[0] * a.out[1] * a.out[2]);

	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t o[3], c = i, best = -1;
		float v = a.kind == RLX_K_POOL_MAX ? -INFINITY : 0;
		double norm = 0;
		struct window w;

		for (int d = 2; d >= 0; d--)
			c = divide(c, (int64_t)a.out[d], &o[d]);
		w = window_at(a, o);
		for (int64_t z = w.from[0]; z < w.to[0]; z++)
			for (int64_t r = w.from[1]; r < w.to[1]; r++)
				for (int64_t k = w.from[2]; k < w.to[2]; k++) {
					int64_t p[3] = { w.start[0] + z * (int64_t)a.d[0],
							 w.start[1] + r * (int64_t)a.d[1],
							 w.start[2] + k * (int64_t)a.d[2] };
					int64_t at = (p[0] * (int64_t)a.in[1] + p[1]) *
						     (int64_t)a.in[2] + p[2];
					float x = load_float(all, c * plane + at, a.type);

					if (a.kind == RLX_K_POOL_MAX) {
						bool more = x > v || best < 0 ||
							    (x != x && v == v);

						if (a.column_major)
							at = (p[2] * (int64_t)a.in[1] + p[1]) *
							     (int64_t)a.in[0] + p[0];
						best = more ? c * plane + at : best;
						v = more ? x : v;
					} else if (a.kind == RLX_K_POOL_AVG) {
						v += x;
					} else {
						norm += power(fabsf(x), a.lp);
					}
				}
		if (a.kind == RLX_K_POOL_AVG)
			v = w.counted > 0 ? v / (float)w.counted : 0;
		if (a.kind == RLX_K_POOL_LP)
			v = a.lp == 1 ? (float)norm : a.lp == 2 ? (float)sqrt(norm) :
			    (float)pow(norm, 1.0 / a.lp);
		store_float(y, i, a.type, v);
		if (index && a.kind == RLX_K_POOL_MAX)
			index[i] = best;
	}
}
