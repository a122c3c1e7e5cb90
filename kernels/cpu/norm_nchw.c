// SPDX-License-Identifier: MIT
/* Norms of [batch, channels, inner]: batch, group and local response norm. */
#include <math.h>

#include "kernels/kernel.h"
#include "kernels/cpu/moments.h"
#include "kernels/norm.h"
#include "kernels/simd/math.h"

rlx_k_fn RLX_K(channel_norm), RLX_K(group_norm), RLX_K(lrn);

struct affine {
	float	mean, scale, shift;
};

/*
 * y = (x - mean) * scale + shift. The mean in the shift would save an addition and lose
 * what x and the mean have in common only after it was scaled up.
 */
static void affine(float *y, const float *x, const struct affine *p, size_t n)
{
	const vf m = vf_set1(p->mean), a = vf_set1(p->scale), b = vf_set1(p->shift);
	size_t i = 0;

	for (; i + RLX_VL <= n; i += RLX_VL)
		vf_storeu(y + i, vf_fma(vf_loadu(x + i) - m, a, b));
	if (i < n)
		vf_storen(y + i, vf_fma(vf_loadn(x + i, n - i) - m, a, b), n - i);
}

void RLX_K(channel_norm)(const void *args, size_t begin, size_t end,
			 void *scratch)
{
	const struct rlx_k_channel_norm *a = args;
	const size_t n = (size_t)a->inner;

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		size_t c = u % (size_t)a->channels;
		struct affine p = { a->mean ? a->mean[c] : 0, a->scale ? a->scale[c] : 1,
				    a->shift ? a->shift[c] : 0 };

		if (a->var)
			p.scale /= sqrtf(a->var[c] + a->eps);
		affine(a->y + u * n, a->x + u * n, &p, n);
	}
}

void RLX_K(group_norm)(const void *args, size_t begin, size_t end,
		       void *scratch)
{
	const struct rlx_k_group_norm *a = args;
	const size_t per = (size_t)(a->channels / a->groups);
	const size_t inner = (size_t)a->inner;

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		size_t c0 = u % (size_t)a->groups * per;
		const float *x = a->x + u * per * inner;
		float *y = a->y + u * per * inner;
		float mean, rest, var, inv;

		moments(x, per * inner, &mean, &rest, &var);
		inv = 1 / sqrtf(var + a->eps);
		for (size_t c = 0; c < per; c++) {
			struct affine p = { mean, a->gamma ? a->gamma[c0 + c] * inv : inv,
					    a->beta ? a->beta[c0 + c] : 0 };

			p.shift -= rest * p.scale;
			affine(y + c * inner, x + c * inner, &p, inner);
		}
	}
}

/* d += sign * x^2, or d = 0 for sign 0 */
static void squares(float *d, const float *x, float sign, size_t n)
{
	for (size_t i = 0; i < n; i += RLX_VL) {
		vf v = vf_loadn(x + i, n - i);

		v = vf_fma(v * v, vf_set1(sign), vf_load(d + i));
		vf_store(d + i, v);
	}
}

static void lrn_apply(const struct rlx_k_lrn *a, float *y, const float *x,
		      const float *s, size_t n)
{
	const vf k = vf_set1(a->alpha / (float)a->size);

	/* by half of the power, twice: the whole may be beyond f32 where the result is not */
	for (size_t i = 0; i < n; i += RLX_VL) {
		vf base = vf_fma(vf_load(s + i), k, vf_set1(a->bias));
		vf p = a->beta == 0 ? vf_set1(1.0f) :	/* of infinity too */
			vf_exp(vf_log(base) * (-0.5f * a->beta));

		vf_storen(y + i, vf_loadn(x + i, n - i) * p * p, n - i);
	}
}

void RLX_K(lrn)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_lrn *a = args;
	const int64_t blocks = (a->inner + RLX_K_LRN_BLOCK - 1) /
			       RLX_K_LRN_BLOCK;
	const int64_t below = (a->size - 1) / 2, above = a->size / 2;
	float *s = scratch;

	for (size_t u = begin; u < end; u++) {
		int64_t b = (int64_t)u / blocks;
		int64_t at = (int64_t)u % blocks * RLX_K_LRN_BLOCK;
		int64_t left = a->inner - at;
		size_t n = (size_t)(left < RLX_K_LRN_BLOCK ? left :
				    RLX_K_LRN_BLOCK);
		int64_t base = b * a->channels * a->inner + at;

		for (int64_t c = 0; c < a->channels; c++) {
			memset(s, 0, RLX_K_LRN_BLOCK * sizeof(*s));
			for (int64_t k = c - below; k <= c + above; k++)
				if (k >= 0 && k < a->channels)
					squares(s, a->x + base + k * a->inner,
						1, n);
			lrn_apply(a, a->y + base + c * a->inner,
				  a->x + base + c * a->inner, s, n);
		}
	}
}
