// SPDX-License-Identifier: MIT
/*
 * Resizing by tables: of each axis the host has worked out which input positions an output position
 * reads (taps) and what they weigh: nearest 1, linear 2, cubic 4, antialiased more.
 *
 * Algorithm: a thread an output element sums up taps0 x taps1 x taps2 inputs, axis by axis, in
 * order; by a tap of weight 0 NaN spreads as well. resize_nearest copies an element as a word of
 * RESIZE_SIZE bytes.
 * Traffic: y once; x once for each output that reads it, mostly from caches; tables (8 bytes a tap)
 * too. Not done axis by axis with a result in between: more multiply-adds, fewer launches.
 * Limits: [planes] and up to 3 axes; resize_f32 f32 alone, resize_nearest elements of 1, 2, 4 or 8
 * bytes.
 */
#include "kernels/gpu/move.h"
#include "kernels/resize.h"

struct tables {
	const int32_t	*index[3];
	const float	*weight[3];
};

static DEV inline struct tables tables_of(const struct rlx_k_resize &a,
					  const struct rlx_g_env &env)
{
	struct tables t;

	for (int d = 0; d < 3; d++) {
		t.index[d] = RLX_G_PTR(const int32_t, a.axis[d].index);
		t.weight[d] = RLX_G_PTR(const float, a.axis[d].weight);
	}
	return t;
}

static DEV inline int64_t tap(const struct rlx_k_resize &a, const struct tables &t, int d,
			      int64_t o, int64_t k)
{
	return t.index[d] ? t.index[d][o * (int64_t)a.axis[d].taps + k] : o;
}

static DEV inline float weight(const struct rlx_k_resize &a, const struct tables &t, int d,
			       int64_t o, int64_t k)
{
	return t.weight[d] ? t.weight[d][o * (int64_t)a.axis[d].taps + k] : 1;
}

/* Where output element @i lies: the plane, and the position along each axis. */
static DEV inline int64_t position(const struct rlx_k_resize &a, int64_t i, int64_t *o)
{
	for (int d = 2; d >= 0; d--)
		i = divide(i, (int64_t)a.axis[d].out, &o[d]);
	return i;
}

static DEV inline int64_t elements(const struct rlx_k_resize &a, bool out)
{
	int64_t n = (int64_t)a.planes;

	for (int d = 0; d < 3; d++)
		n *= (int64_t)(out ? a.axis[d].out : a.axis[d].in);
	return n;
}

#ifdef RLX_KERNEL_resize_f32
/* All taps count, so that NaN spreads by one of weight 0 as well. */
static DEV inline float weighted(const struct rlx_k_resize &a, const struct tables &t,
				 const float *x, const int64_t *o)
{
	float s = 0;

	for (int64_t i = 0; i < (int64_t)a.axis[0].taps; i++)
		for (int64_t j = 0; j < (int64_t)a.axis[1].taps; j++) {
			float w = weight(a, t, 0, o[0], i) * weight(a, t, 1, o[1], j), line = 0;
			int64_t at = tap(a, t, 0, o[0], i) * (int64_t)a.axis[1].in +
				     tap(a, t, 1, o[1], j);

			for (int64_t k = 0; k < (int64_t)a.axis[2].taps; k++)
				line += weight(a, t, 2, o[2], k) *
					x[at * (int64_t)a.axis[2].in + tap(a, t, 2, o[2], k)];
			s += w * line;
		}
	return s;
}

RLX_G_KERNEL(resize_f32, struct rlx_k_resize, 256)
{
	struct tables t = tables_of(a, env);
	const float *x = RLX_G_PTR(const float, a.x);
	float *y = RLX_G_PTR(float, a.y);
	int64_t n = elements(a, true), plane = elements(a, false) / (int64_t)a.planes;

	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t o[3], p = position(a, i, o);
		bool in = true;

		for (int d = 0; d < 3; d++)
			in = in && tap(a, t, d, o[d], 0) >= 0;
		y[i] = in ? weighted(a, t, x + p * plane, o) : a.outside;
	}
}
#else
RLX_G_KERNEL(resize_nearest, struct rlx_k_resize, 256)
{
	typedef word<RESIZE_SIZE>::type elem;
	struct tables t = tables_of(a, env);
	const elem *x = RLX_G_PTR(const elem, a.x);
	elem *y = RLX_G_PTR(elem, a.y);
	int64_t n = elements(a, true);

	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t o[3], at = position(a, i, o);

		for (int d = 0; d < 3; d++)
			at = at * (int64_t)a.axis[d].in + tap(a, t, d, o[d], 0);
		y[i] = x[at];
	}
}
#endif
