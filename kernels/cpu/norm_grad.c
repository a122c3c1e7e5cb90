// SPDX-License-Identifier: MIT
/* Gradients of layer and RMS norm: of rows, and sums over rows for gamma and beta. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/moments.h"
#include "kernels/norm.h"

rlx_k_fn RLX_K(norm_grad), RLX_K(norm_grad_sums);

/* One row as floats; d = dy gamma, xh = (x - mean) inv. */
struct row {
	const float	*x, *dy, *gamma;	/* gamma: NULL if there is none */
	float		*dgamma, *dbeta;	/* sums of rows so far */
	vf		 mean, inv;
};

static const float *as_floats(const void *v, int type, float *buf, size_t n)
{
	if (!v || type == RLX_F32)
		return v;
	RLX_K(loader)(RLX_EW_F32, type)(buf, v, n);
	return buf;
}

/* The vector at element @i, of which @n are left. */
struct part {
	vf	d, xh;
};

RLX_INLINE struct part part_at(const struct row *r, size_t i, size_t n, bool gamma, bool sums)
{
	const vf dy = vf_loadn(r->dy + i, n);
	struct part p = { .xh = (vf_loadn(r->x + i, n) - r->mean) * r->inv };

	if (sums) {
		vf_storen(r->dgamma + i, vf_fma(dy, p.xh, vf_loadn(r->dgamma + i, n)), n);
		vf_storen(r->dbeta + i, dy + vf_loadn(r->dbeta + i, n), n);
	}
	p.d = gamma ? dy * vf_loadn(r->gamma + i, n) : dy;
	return p;
}

/* The same of a whole vector, without masks. */
RLX_INLINE struct part whole_at(const struct row *r, size_t i, bool gamma, bool sums)
{
	const vf dy = vf_loadu(r->dy + i);
	struct part p = { .xh = (vf_loadu(r->x + i) - r->mean) * r->inv };

	if (sums) {
		vf_storeu(r->dgamma + i, vf_fma(dy, p.xh, vf_loadu(r->dgamma + i)));
		vf_storeu(r->dbeta + i, dy + vf_loadu(r->dbeta + i));
	}
	p.d = gamma ? dy * vf_loadu(r->gamma + i) : dy;
	return p;
}

/* Sums of d and d xh over elements [@i, @end), up to a block. */
RLX_INLINE void sum_block(const struct row *r, size_t i, size_t end, bool gamma, double sum[2])
{
	vw s = vw_set1(0), q = s;
	struct part p;

	for (; i + RLX_WL <= end; i += RLX_WL)
		RLX_EACH_WIDE(w) {
			p = whole_at(r, i + w * RLX_VL, gamma, true);
			s.v[w] += p.d;
			q.v[w] = vf_fma(p.d, p.xh, q.v[w]);
		}
	if (i < end)
		RLX_EACH_WIDE(w) {
			const size_t n = vw_left(end - i, w);

			p = part_at(r, i + w * RLX_VL, n, gamma, true);
			s.v[w] += vf_sel(vm_first(n), p.d, vf_zero());
			q.v[w] = vf_sel(vm_first(n), vf_fma(p.d, p.xh, q.v[w]), q.v[w]);
		}
	sum[0] += (double)vw_hsum(s);
	sum[1] += (double)vw_hsum(q);
}

/* dx = inv (d - mean[0] - xh mean[1]) */
RLX_INLINE void write_row(const struct row *r, float *dx, size_t n, bool gamma,
			  const float mean[2])
{
	const vf m = vf_set1(mean[0]), k = vf_set1(mean[1]);
	struct part p;
	size_t i = 0;

	for (; i + RLX_VL <= n; i += RLX_VL) {
		p = whole_at(r, i, gamma, false);
		vf_storeu(dx + i, r->inv * vf_fnma(p.xh, k, p.d - m));
	}
	if (i < n) {
		p = part_at(r, i, n - i, gamma, false);
		vf_storen(dx + i, r->inv * vf_fnma(p.xh, k, p.d - m), n - i);
	}
}

RLX_INLINE void one_row(const struct row *r, float *dx, size_t n, bool gamma, bool rms)
{
	double sum[2] = { 0, 0 };
	size_t i;

	for (i = 0; i < n; i += MOMENTS_BLOCK)
		sum_block(r, i, n - i < MOMENTS_BLOCK ? n : i + MOMENTS_BLOCK, gamma, sum);
	write_row(r, dx, n, gamma, (float[2]){ rms ? 0 : (float)(sum[0] / (double)n),
					       (float)(sum[1] / (double)n) });
}

static void unit(const struct rlx_k_norm_grad *a, size_t u, struct row *r, float *buf)
{
	const size_t n = (size_t)a->n, pad = (n + 31) / 32 * 32;
	const size_t xs = rlx_k_type_size((enum rlx_dtype)a->x_type);
	const size_t ys = rlx_k_type_size((enum rlx_dtype)a->dy_type);
	const int64_t first = (int64_t)u * a->block;
	const int64_t end = a->rows - first < a->block ? a->rows : first + a->block;

	r->dgamma = a->partial + u * 2 * n;
	r->dbeta = r->dgamma + n;
	memset(r->dgamma, 0, 2 * n * sizeof(float));
	for (int64_t row = first; row < end; row++) {
		char *to = (char *)a->dx + (size_t)row * n * xs;
		float *dx = a->x_type == RLX_F32 ? (float *)(void *)to : buf + 2 * pad;

		r->x = as_floats((const char *)a->x + (size_t)row * n * xs, a->x_type, buf, n);
		r->dy = as_floats((const char *)a->dy + (size_t)row * n * ys, a->dy_type,
				  buf + pad, n);
		r->mean = vf_set1(a->rms ? 0 : a->mean[row]);
		r->inv = vf_set1(a->rms ? 1 / sqrtf(mean_square(r->x, n) + a->eps) : a->inv[row]);
		if (r->gamma)
			one_row(r, dx, n, true, a->rms);
		else
			one_row(r, dx, n, false, a->rms);
		if (a->x_type != RLX_F32)
			RLX_K(storer)(RLX_EW_F32, a->x_type)(to, dx, n);
	}
}

void RLX_K(norm_grad)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_norm_grad *a = args;
	const size_t n = (size_t)a->n, pad = (n + 31) / 32 * 32;
	float *buf = scratch;
	struct row r = { .gamma = as_floats(a->gamma, a->param_type, buf + 3 * pad, n) };

	for (size_t u = begin; u < end; u++)
		unit(a, u, &r, buf);
}

/* Of a unit's @n columns from @first on; along rows of partial, which may be pages apart. */
static void add_up(const struct rlx_k_norm_grad *a, size_t first, size_t n)
{
	const size_t units = rlx_k_norm_grad_units(a), dim = (size_t)a->n;
	float sum[RLX_K_NORM_GRAD_COLS] = { 0 };

	for (size_t u = 0; u < units; u++) {
		const float *p = a->partial + u * 2 * dim + first;
		size_t i = 0;

		for (; i + RLX_VL <= n; i += RLX_VL)
			vf_storeu(sum + i, vf_loadu(sum + i) + vf_loadu(p + i));
		for (; i < n; i++)
			sum[i] += p[i];
	}
	for (size_t i = 0; i < n; i++) {
		const size_t c = first + i;
		float *y = c < dim ? a->dgamma : a->dbeta;

		if (y)
			y[c < dim ? c : c - dim] = sum[i];
	}
}

void RLX_K(norm_grad_sums)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_norm_grad *a = args;
	const size_t width = 2 * (size_t)a->n;

	(void)scratch;
	for (; begin < end; begin++) {
		const size_t first = begin * RLX_K_NORM_GRAD_COLS, left = width - first;

		add_up(a, first, left < RLX_K_NORM_GRAD_COLS ? left : RLX_K_NORM_GRAD_COLS);
	}
}
