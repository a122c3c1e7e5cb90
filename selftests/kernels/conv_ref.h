/* SPDX-License-Identifier: MIT */
/* Convolutions of any shape in double, and random shapes, for tests of kernels. */
#ifndef RLX_TEST_CONV_REF_H
#define RLX_TEST_CONV_REF_H

#include "kernels/conv.h"
#include "selftests/kernels/kernel_test.h"

static inline double conv_act_ref(enum rlx_act act, double a, double b, double x)
{
	switch (act) {
	case RLX_ACT_RELU:	return fmax(x, 0);
	case RLX_ACT_CLIP:	return fmin(fmax(x, a), b);
	case RLX_ACT_HARD_SIGMOID: return fmin(fmax(a * x + b, 0), 1);
	case RLX_ACT_HARD_SWISH: return x * fmin(fmax(x / 6 + 0.5, 0), 1);
	case RLX_ACT_SIGMOID:	return 1 / (1 + exp(-x));
	case RLX_ACT_SILU:	return x / (1 + exp(-x));
	case RLX_ACT_TANH:	return tanh(x);
	case RLX_ACT_GELU:	return x / 2 * (1 + erf(x / sqrt(2)));
	case RLX_ACT_GELU_TANH:
		return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
	default:		return x;
	}
}

struct conv_data {
	float	*x, *w, *bias, *res;
	double	*y, *mag;	/* result, and the sum of absolute terms */
	size_t	nx, nw, ny;
};

static inline size_t conv_volume(const size_t d[3])
{
	return d[0] * d[1] * d[2];
}

/* Add what input pixel @i gives output pixel @o through tap @k, if anything. */
static inline bool conv_meets(const struct rlx_k_conv_nd *a, const size_t i[3],
		  const size_t o[3], const size_t k[3])
{
	for (int j = 0; j < 3; j++) {
		/* the strided side's coordinate, and the other's */
		size_t s = a->transposed ? i[j] : o[j];
		size_t f = a->transposed ? o[j] : i[j];

		if (s * a->s[j] + k[j] * a->d[j] != f + a->p[j])
			return false;
	}
	return true;
}

#define CONV_EACH(v, dims)							\
	for (v[0] = 0; v[0] < (dims)[0]; v[0]++)			\
		for (v[1] = 0; v[1] < (dims)[1]; v[1]++)		\
			for (v[2] = 0; v[2] < (dims)[2]; v[2]++)

/* The input pixel that tap @k brings to output @o; false if there is none. */
static inline bool conv_source(const struct rlx_k_conv_nd *a, const size_t o[3],
		   const size_t k[3], size_t i[3])
{
	for (int j = 0; j < 3; j++) {
		ptrdiff_t at;

		if (a->transposed) {
			at = (ptrdiff_t)(o[j] + a->p[j]) -
			     (ptrdiff_t)(k[j] * a->d[j]);
			if (at % (ptrdiff_t)a->s[j])
				return false;
			at /= (ptrdiff_t)a->s[j];
		} else {
			at = (ptrdiff_t)(o[j] * a->s[j] + k[j] * a->d[j]) -
			     (ptrdiff_t)a->p[j];
		}
		if (at < 0 || at >= (ptrdiff_t)a->in[j])
			return false;
		i[j] = (size_t)at;
	}
	CHECK(conv_meets(a, i, o, k));
	return true;
}

static inline size_t conv_flat(const size_t v[3], const size_t dims[3])
{
	return (v[0] * dims[1] + v[1]) * dims[2] + v[2];
}

static inline void conv_reference(const struct rlx_k_conv_nd *a, struct conv_data *d, size_t n,
		      size_t oc)
{
	size_t icg = a->ic / a->groups, ocg = a->oc / a->groups, g = oc / ocg;
	size_t taps = conv_volume(a->k), o[3], k[3], i[3], ci;

	CONV_EACH(o, a->out) {
		size_t at = (n * a->oc + oc) * conv_volume(a->out) + conv_flat(o, a->out);
		double sum = a->bias ? d->bias[oc] : 0, mag = fabs(sum), x, w;

		CONV_EACH(k, a->k) {
			if (!conv_source(a, o, k, i))
				continue;
			for (ci = 0; ci < icg; ci++) {
				x = d->x[(n * a->ic + g * icg + ci) *
					 conv_volume(a->in) + conv_flat(i, a->in)];
				w = d->w[(a->transposed ?
					  (g * icg + ci) * ocg + oc % ocg :
					  oc * icg + ci) * taps +
					 conv_flat(k, a->k)];
				sum += x * w;
				mag += fabs(x * w);
			}
		}
		if (a->res)
			sum += d->res[at];
		d->y[at] = conv_act_ref(a->act, (double)a->act_a, (double)a->act_b, sum);
		d->mag[at] = mag + 1;
	}
}

static inline void conv_shape_random(struct rlx_k_conv_nd *a, bool transposed, uint64_t *s)
{
	size_t dims = kt_pick(s, 1, 3), j;

	do {
		*a = (struct rlx_k_conv_nd){
			.n = kt_pick(s, 1, 2), .groups = kt_pick(s, 1, 3),
			.act = kt_pick(s, 0, 1), .transposed = transposed,
		};
		a->ic = a->groups * kt_pick(s, 1, 20);
		a->oc = a->groups * kt_pick(s, 1, 30);
		for (j = 0; j < 3; j++) {
			bool used = j + dims >= 3;
			size_t span, full, after;

			a->in[j] = used ? kt_pick(s, 1, dims == 3 ? 6 : 14) : 1;
			a->k[j] = used ? kt_pick(s, 1, 4) : 1;
			a->s[j] = used ? kt_pick(s, 1, 3) : 1;
			a->d[j] = used ? kt_pick(s, 1, 2) : 1;
			a->p[j] = used ? kt_pick(s, 0, 2) : 0;
			after = used ? kt_pick(s, 0, 2) : 0;
			span = (a->k[j] - 1) * a->d[j] + 1;
			full = a->in[j] + a->p[j] + after;
			if (transposed) {
				full = (a->in[j] - 1) * a->s[j] + span + after;
				a->out[j] = full > a->p[j] ? full - a->p[j] : 0;
			} else {
				a->out[j] = full < span ? 0 :
					    (full - span) / a->s[j] + 1;
			}
		}
	} while (!conv_volume(a->out));
}

/* All images and channels. */
static inline void conv_reference_all(const struct rlx_k_conv_nd *a, struct conv_data *d)
{
	for (size_t n = 0; n < a->n; n++)
		for (size_t oc = 0; oc < a->oc; oc++)
			conv_reference(a, d, n, oc);
}

#endif
