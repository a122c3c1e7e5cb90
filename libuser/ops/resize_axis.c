// SPDX-License-Identifier: MIT
/* Which inputs, by which weights, make an output along one axis of resize. */
#include <math.h>

#include "ops/resize_axis.h"

struct op_resize_axis op_resize_axis_of(const struct rlx_op_resize *a,
					const struct rlx_type *x, uint32_t i)
{
	struct op_resize_axis ax = { .in = x->dim[i], .out = a->sizes.v[i] };
	double s;

	ax.scale = a->scales.n ? a->scales.v[i] : ax.in ? (double)ax.out / (double)ax.in : 1;
	if (a->roi.n) {
		ax.roi[0] = a->roi.v[i];
		ax.roi[1] = a->roi.v[x->rank + i];
	}
	ax.same = ax.in == ax.out && ax.scale == 1 &&
		  (a->coord != RLX_COORD_TF_CROP_AND_RESIZE ||
		   (ax.roi[0] == 0 && ax.roi[1] == 1));
	ax.taps = a->mode == RLX_RESIZE_CUBIC ? 4 : 2;
	if (a->antialias && ax.scale < 1) {
		s = floor(-(double)(ax.taps / 2) / ax.scale) + 1;
		ax.taps = s < -0x1p40 ? INT64_C(1) << 41 : 2 - 2 * (int64_t)s;
	}
	return ax;
}

/* The type that coordinates are computed in: double, or float where that is @narrow. */
static double as(bool narrow, double x)
{
	return narrow ? (double)(float)x : x;
}

/* (o + 1/2) / scale - 1/2, or without the last */
static double half_pixel(const struct op_resize_axis *x, double p, bool narrow, double less)
{
	return as(narrow, as(narrow, (p + 0.5) / as(narrow, x->scale)) - less);
}

/*
 * Where output @o lies in the input. One operation of two floats in double, rounded, is
 * that operation in float.
 */
static double source(const struct rlx_op_resize *a, const struct op_resize_axis *x,
		     int64_t o, bool narrow)
{
	double scale = as(narrow, x->scale), wide = as(narrow, scale * (double)x->in);
	double in = (double)x->in, p = (double)o, from, to;

	switch (a->coord) {
	case RLX_COORD_ALIGN_CORNERS:
		return wide == 1 || x->out == 1 ? 0 : as(narrow, p * (in - 1) / (wide - 1));
	case RLX_COORD_ASYMMETRIC:
		return as(narrow, p / scale);
	case RLX_COORD_TF_CROP_AND_RESIZE:
		from = as(narrow, x->roi[0]);
		to = as(narrow, x->roi[1]);
		if (x->out == 1)
			return as(narrow, as(narrow, 0.5 * as(narrow, from + to)) * (in - 1));
		p = as(narrow, as(narrow, p * as(narrow, to - from)) * (in - 1));
		return as(narrow, as(narrow, from * (in - 1)) +
			  as(narrow, p / as(narrow, wide - 1)));
	case RLX_COORD_PYTORCH_HALF_PIXEL:
		return x->out == 1 ? 0 : half_pixel(x, p, narrow, 0.5);
	case RLX_COORD_HALF_PIXEL_SYMMETRIC:
		p = half_pixel(x, p, narrow, 0);
		p = as(narrow, as(narrow, in / 2 *
		       as(narrow, 1 - as(narrow, (double)x->out / wide))) + p);
		return as(narrow, p - 0.5);
	case RLX_COORD_TF_HALF_PIXEL_NN:
		return half_pixel(x, p, narrow, 0);
	default:
		return half_pixel(x, p, narrow, 0.5);
	}
}

/*
 * Neighbours are picked by coordinates in float: where they fall on an element, or half
 * way between two, as the quotient of two sizes often does, f64 lies a little beside it, and
 * runtimes agree on what f32 gives. It does not count the elements of very long axes.
 */
static bool by_float(const struct rlx_op_resize *a, const struct op_resize_axis *x)
{
	return a->mode == RLX_RESIZE_NEAREST && x->in < 1 << 22 && x->out < 1 << 22;
}

bool op_resize_outside(const struct rlx_op_resize *a, const struct op_resize_axis *x,
		       int64_t o)
{
	double at;

	if (a->coord != RLX_COORD_TF_CROP_AND_RESIZE || x->same)
		return false;
	at = source(a, x, o, by_float(a, x));
	return at < 0 || at > (double)(x->in - 1);
}

static int64_t clamp(double at, int64_t n)
{
	/* NaN too is 0 */
	return !(at > 0) ? 0 : at > (double)(n - 1) ? n - 1 : (int64_t)at;
}

int64_t op_resize_nearest(const struct rlx_op_resize *a, const struct op_resize_axis *x,
			  int64_t o)
{
	double at = source(a, x, o, by_float(a, x));

	switch (a->nearest) {
	case RLX_NEAREST_ROUND_PREFER_FLOOR: at = ceil(at - 0.5); break;
	case RLX_NEAREST_ROUND_PREFER_CEIL: at = floor(at + 0.5); break;
	case RLX_NEAREST_FLOOR: at = floor(at); break;
	case RLX_NEAREST_CEIL: at = ceil(at); break;
	default: at = x->scale < 1 ? ceil(at) : floor(at); break;
	}
	return clamp(at, x->in);
}

static double kernel(const struct rlx_op_resize *a, double d)
{
	double k = (double)a->cubic_a;

	d = fabs(d);
	if (a->mode == RLX_RESIZE_LINEAR)
		return d < 1 ? 1 - d : 0;
	if (d <= 1)
		return ((k + 2) * d - (k + 3)) * d * d + 1;
	return d < 2 ? ((k * d - 5 * k) * d + 8 * k) * d - 4 * k : 0;
}

/*
 * At an edge many taps may be one input, and sums in floats would add up errors. The weight of
 * all is parted into powers of two of it, the last one a half: such sums are exact. None is 0
 * on that account, for an infinite input times that is no number.
 */
static void join_taps(double *w, const int64_t *at, int64_t taps)
{
	int64_t i, end, k;
	double sum;

	for (i = 0; i < taps; i = end) {
		for (end = i, sum = 0; end < taps && at[end] == at[i]; end++)
			sum += w[end];
		for (k = end - 1; k > i && k >= end - 32; k--) {
			sum /= 2;
			w[k] = sum;
		}
		/* what is left of very many does not count */
		for (sum /= (double)(k - i + 1); k >= i; k--)
			w[k] = sum;
	}
}

void op_resize_weights(const struct rlx_op_resize *a, const struct op_resize_axis *x,
		       int64_t o, double *w, int64_t *at)
{
	bool out = op_resize_outside(a, x, o);
	double pos = source(a, x, o, false), base = ceil(pos) - 1, sum = 0;
	double shrink = a->antialias && x->scale < 1 ? x->scale : 1;
	int64_t i;

	for (i = 0; i < x->taps; i++) {
		double p = base + (double)(i - (x->taps / 2 - 1));

		at[i] = clamp(p, x->in);
		w[i] = kernel(a, (p - pos) * shrink);
		if (out ||
		    (a->exclude_outside && (p < 0 || p > (double)(x->in - 1))))
			w[i] = 0;
		sum += w[i];
	}
	if ((a->exclude_outside || shrink < 1) && sum != 0)
		for (i = 0; i < x->taps; i++)
			w[i] /= sum;
	join_taps(w, at, x->taps);
}
