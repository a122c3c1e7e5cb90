// SPDX-License-Identifier: MIT
/* Layer and RMS norm of rows, with the residual addition in front of them. */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/moments.h"
#include "kernels/norm.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(norm);

struct rows {
	const float	*gamma, *beta, *bias;	/* as floats, or NULL */
	float		*row;
};

/* v as floats: itself if it is that already, else converted into buf */
static const float *as_floats(const void *v, int type, float *buf, size_t n)
{
	if (!v || type == RLX_F32)
		return v;
	RLX_K(loader)(RLX_EW_F32, type)(buf, v, n);
	return buf;
}

static void add(float *d, const float *x, const float *y, size_t n)
{
	size_t i = 0;

	for (; i + RLX_VL <= n; i += RLX_VL)
		vf_storeu(d + i, vf_loadu(x + i) + vf_loadu(y + i));
	if (i < n)
		vf_storen(d + i, vf_loadn(x + i, n - i) +
				 vf_loadn(y + i, n - i), n - i);
}

/* What is left of a row is loaded with a mask, whole vectors without. */
RLX_INLINE vf some(const float *x, size_t left)
{
	return left < RLX_VL ? vf_loadn(x, left) : vf_loadu(x);
}

/* The vector at element @i, @left from the end; what is absent is no factor 1: -0 stays -0. */
RLX_INLINE vf scaled_at(const float *x, const float *gamma, const float *beta, const vf by[3],
			size_t i, size_t left)
{
	const vf v = vf_fma(some(x + i, left) - by[0], by[1], by[2]);

	if (gamma && beta)
		return vf_fma(v, some(gamma + i, left), some(beta + i, left));
	if (gamma)
		return v * some(gamma + i, left);
	return beta ? v + some(beta + i, left) : v;
}

RLX_INLINE void scale_by(float *y, const float *x, const float *gamma, const float *beta,
			 const vf by[3], size_t n)
{
	size_t i = 0;

	for (; i + RLX_VL <= n; i += RLX_VL)
		vf_storeu(y + i, scaled_at(x, gamma, beta, by, i, RLX_VL));
	if (i < n)
		vf_storen(y + i, scaled_at(x, gamma, beta, by, i, n - i), n - i);
}

/* (x - mean[0] - mean[1]) * inv * gamma + beta; the two common forms by themselves. */
static void scale(float *y, const float *x, const struct rows *r, const float mean[2], float inv,
		  size_t n)
{
	const vf by[3] = { vf_set1(mean[0]), vf_set1(inv), vf_set1(-mean[1] * inv) };

	if (r->gamma && r->beta)
		scale_by(y, x, r->gamma, r->beta, by, n);
	else if (r->gamma)
		scale_by(y, x, r->gamma, NULL, by, n);
	else
		scale_by(y, x, NULL, r->beta, by, n);
}

static const float *input_row(const struct rlx_k_norm *a, const struct rows *r,
			      size_t u)
{
	const size_t n = (size_t)a->n;
	const size_t xs = rlx_k_type_size((enum rlx_dtype)a->x_type);
	const size_t rs = rlx_k_type_size((enum rlx_dtype)a->residual_type);
	const float *x = as_floats((const char *)a->x + u * n * xs, a->x_type,
				   r->row, n);
	const char *res = a->residual;

	if (res) {
		const char *p = res + u * (size_t)a->residual_stride * rs;
		float t[256];

		for (size_t i = 0; i < n; i += 256) {
			size_t k = n - i < 256 ? n - i : 256;
			const float *q = as_floats(p + i * rs,
						   a->residual_type, t, k);

			add(r->row + i, x + i, q, k);
		}
		x = r->row;
	}
	if (r->bias) {
		add(r->row, x, r->bias, n);
		x = r->row;
	}
	if (a->sum)
		RLX_K(storer)(RLX_EW_F32, a->x_type)(
			(char *)a->sum + u * n * xs, x, n);
	return x;
}

void RLX_K(norm)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_norm *a = args;
	const size_t n = (size_t)a->n, pad = (n + 31) / 32 * 32;
	const size_t ys = rlx_k_type_size((enum rlx_dtype)a->y_type);
	float *buf = scratch;
	struct rows r = { .row = buf };

	r.gamma = as_floats(a->gamma, a->param_type, buf + pad, n);
	r.beta = as_floats(a->beta, a->param_type, buf + 2 * pad, n);
	r.bias = as_floats(a->bias, a->param_type, buf + 3 * pad, n);
	for (size_t u = begin; u < end; u++) {
		const float *x = input_row(a, &r, u);
		float mean[2] = { 0, 0 }, var, inv;
		char *y = (char *)a->y + u * n * ys;
		float *to = a->y_type == RLX_F32 ? (float *)(void *)y : r.row;

		if (a->rms)
			var = mean_square(x, n);
		else
			moments(x, n, &mean[0], &mean[1], &var);
		inv = 1 / sqrtf(var + a->eps);
		if (a->mean)
			a->mean[u] = mean[0];
		if (a->inv)
			a->inv[u] = inv;
		scale(to, x, &r, mean, inv, n);
		if (to == r.row && n)
			RLX_K(storer)(RLX_EW_F32, a->y_type)(y, to, n);
	}
}
