// SPDX-License-Identifier: MIT
/* Selective scan: a channel a lane, its states one behind the other in the nearest cache. */
#include "kernels/kernel.h"
#include "kernels/simd/math.h"
#include "kernels/ssm.h"

rlx_k_fn RLX_K(selective_scan);

enum { CHANNELS = RLX_K_SSM_CHANNELS };

/* Element (lane, i) of rows of n to [i][CHANNELS], or back; lanes beyond are 0. */
static void transpose(float *t, float *rows, int64_t lanes, int64_t n, bool back)
{
	for (int64_t i = 0; i < n; i++)
		for (int64_t l = 0; l < CHANNELS; l++)
			if (back && l < lanes)
				rows[l * n + i] = t[i * CHANNELS + l];
			else if (!back)
				t[i * CHANNELS + l] = l < lanes ? rows[l * n + i] : 0;
}

/* Step @row of a vector of channels; @h and @a are [n][CHANNELS], there already at the lane. */
RLX_INLINE vf step(const struct rlx_k_selective_scan *k, int64_t row, float *h, const float *a,
		   vf delta, vf x)
{
	const float *b = (const float *)k->b + row * k->n, *c = (const float *)k->c + row * k->n;
	vf y = vf_zero(), in = delta * x;

	for (int64_t i = 0; i < k->n; i++) {
		vf s = vf_load(h + i * CHANNELS);

		s = vf_fma(vf_exp(delta * vf_load(a + i * CHANNELS)), s, in * b[i]);
		vf_store(h + i * CHANNELS, s);
		y = vf_fma(s, vf_set1(c[i]), y);
	}
	return y;
}

static void channels(const struct rlx_k_selective_scan *a, int64_t batch, int64_t from, float *t)
{
	const int64_t lanes = a->h - from < CHANNELS ? a->h - from : CHANNELS, n = a->n;
	const float *dx = a->delta, *xs = a->x, *ds = a->d, *zs = a->z;
	float *at = t, *ht = t + n * CHANNELS, *ys = a->y;

	transpose(at, (float *)a->a + from * n, lanes, n, false);
	if (a->state)
		transpose(ht, (float *)a->state + (batch * a->h + from) * n, lanes, n, false);
	else
		memset(ht, 0, (size_t)(n * CHANNELS) * sizeof(*ht));
	for (int64_t s = 0; s < a->steps; s++) {
		const int64_t row = batch * a->steps + s;

		for (int64_t l = 0; l < lanes; l += RLX_VL) {
			const int64_t i = row * a->h + from + l;
			const size_t k = (size_t)(lanes - l);
			vf delta = vf_loadn(dx + i, k), x = vf_loadn(xs + i, k), y, z;

			if (a->softplus)
				delta = vf_max(delta, vf_zero()) +
					vf_log1p(vf_exp_neg(-vf_abs(delta)));
			y = step(a, row, ht + l, at + l, delta, x);
			if (ds)
				y = vf_fma(vf_loadn(ds + from + l, k), x, y);
			if (zs) {
				z = vf_loadn(zs + i, k);
				y *= vf_silu(z);
			}
			vf_storen(ys + i, y, k);
		}
	}
	transpose(ht, (float *)a->last + (batch * a->h + from) * n, lanes, n, true);
}

void RLX_K(selective_scan)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_selective_scan *a = args;
	const int64_t pieces = (a->h + CHANNELS - 1) / CHANNELS;

	for (; begin < end; begin++)
		channels(a, (int64_t)begin / pieces, (int64_t)begin % pieces * CHANNELS, scratch);
}
