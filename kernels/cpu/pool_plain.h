/* SPDX-License-Identifier: MIT */
/*
 * Pooling in the plain layout. The includer defines PT, the type of elements, and
 * PT_ABS(x) and PT_SQRT(x) of it.
 */
#include <math.h>

#include "kernels/cpu/pool_taps.h"
#include "kernels/pool.h"

/* One output row: the window's outer taps, and where the row lies. */
struct row {
	const struct rlx_k_pool *a;
	const PT	*x;		/* the plane */
	PT		*y;
	ptrdiff_t	at[2];		/* window start in depth and height */
	size_t		span[2][2];	/* taps inside, likewise */
	size_t		counted;	/* their number as the average counts */
};

/* Output columns whose tap @kx lies inside the input. */
static void columns(const struct rlx_k_pool *a, size_t kx, size_t *o0,
		    size_t *o1)
{
	ptrdiff_t s = (ptrdiff_t)a->s[2], w = (ptrdiff_t)a->in[2], n;
	ptrdiff_t off = (ptrdiff_t)(kx * a->d[2]) - (ptrdiff_t)a->p[2];

	*o0 = off < 0 ? (size_t)((-off + s - 1) / s) : 0;
	n = w > off ? (w - off + s - 1) / s : 0;
	*o1 = n < (ptrdiff_t)a->out[2] ? (size_t)n : a->out[2];
	if (*o0 > *o1)
		*o0 = *o1;
}

static void fold_max(PT *restrict y, const PT *restrict x, size_t n,
		     size_t s)
{
	size_t i;

	if (s == 1) {
		for (i = 0; i < n; i++)
			y[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i];
		return;
	}
	for (i = 0; i < n; i++)
		y[i] = x[i * s] > y[i] || x[i * s] != x[i * s] ? x[i * s] : y[i];
}

static void fold_sum(PT *restrict y, const PT *restrict x, size_t n,
		     size_t s)
{
	size_t i;

	if (s == 1) {
		for (i = 0; i < n; i++)
			y[i] += x[i];
		return;
	}
	for (i = 0; i < n; i++)
		y[i] += x[i * s];
}

/* The 1- and the 2-norm; row_norm() has the others. */
static void fold_lp(PT *restrict y, const PT *restrict x, size_t n,
		    size_t s, unsigned int lp)
{
	for (size_t i = 0; i < n; i++) {
		PT v = PT_ABS(x[i * s]);

		y[i] += lp == 1 ? v : v * v;
	}
}

/* Every tap over the whole row, one after the other. */
static void row_fold(const struct row *r)
{
	const struct rlx_k_pool *a = r->a;
	size_t kz, ky, kx, o0, o1;

	for (kz = r->span[0][0]; kz < r->span[0][1]; kz++)
		for (ky = r->span[1][0]; ky < r->span[1][1]; ky++)
			for (kx = 0; kx < a->k[2]; kx++) {
				size_t z = (size_t)(r->at[0] +
						    (ptrdiff_t)(kz * a->d[0]));
				size_t y = (size_t)(r->at[1] +
						    (ptrdiff_t)(ky * a->d[1]));
				const PT *x = r->x +
						 (z * a->in[1] + y) * a->in[2];
				size_t s = a->s[2];

				columns(a, kx, &o0, &o1);
				x += o0 * s + kx * a->d[2] - a->p[2];
				if (o0 == o1)
					continue;
				if (a->kind == RLX_K_POOL_MAX)
					fold_max(r->y + o0, x, o1 - o0, s);
				else if (a->kind == RLX_K_POOL_AVG)
					fold_sum(r->y + o0, x, o1 - o0, s);
				else
					fold_lp(r->y + o0, x, o1 - o0, s,
						a->lp);
			}
}

static void row_finish(const struct row *r)
{
	const struct rlx_k_pool *a = r->a;
	size_t i, span[2], count;

	if (a->kind == RLX_K_POOL_LP) {
		for (i = 0; i < a->out[2]; i++)
			r->y[i] = a->lp == 1 ? r->y[i] : PT_SQRT(r->y[i]);
		return;
	}
	for (i = 0; i < a->out[2]; i++) {
		ptrdiff_t at = (ptrdiff_t)(i * a->s[2]) - (ptrdiff_t)a->p[2];

		taps_inside(at, a->k[2], a->d[2], a->in[2] +
			    (a->include_pad ? a->p_end[2] : 0), span);
		count = r->counted *
			(a->include_pad ? span[1] : span[1] - span[0]);
		r->y[i] = count ? r->y[i] / (PT)count : 0;
	}
}

static int64_t index_of(const struct rlx_k_pool *a, const size_t v[3])
{
	if (a->column_major)
		return (int64_t)((v[2] * a->in[1] + v[1]) * a->in[0] + v[0]);
	return (int64_t)((v[0] * a->in[1] + v[1]) * a->in[2] + v[2]);
}

/* Maximum and where it was, pixel by pixel. */
static void row_index(const struct row *r, int64_t *index, int64_t base)
{
	const struct rlx_k_pool *a = r->a;
	size_t i, k[3], v[3], span[2];

	for (i = 0; i < a->out[2]; i++) {
		ptrdiff_t at = (ptrdiff_t)(i * a->s[2]) - (ptrdiff_t)a->p[2];
		PT best = -INFINITY, x;
		int64_t where = -1;

		taps_inside(at, a->k[2], a->d[2], a->in[2], span);
		for (k[0] = r->span[0][0]; k[0] < r->span[0][1]; k[0]++)
			for (k[1] = r->span[1][0]; k[1] < r->span[1][1]; k[1]++)
				for (k[2] = span[0]; k[2] < span[1]; k[2]++) {
					v[0] = (size_t)r->at[0] + k[0] * a->d[0];
					v[1] = (size_t)r->at[1] + k[1] * a->d[1];
					v[2] = (size_t)at + k[2] * a->d[2];
					x = r->x[(v[0] * a->in[1] + v[1]) *
						 a->in[2] + v[2]];
					if (where >= 0 && best == best &&
					    !(x > best) && x == x)
						continue;
					if (where >= 0 && best != best)
						continue;
					best = x;
					where = base + index_of(a, v);
				}
		r->y[i] = best;
		index[i] = where;
	}
}

/* Norms above the second, pixel by pixel: 20^35 is beyond f32, its root is not. */
static void row_norm(const struct row *r)
{
	const struct rlx_k_pool *a = r->a;
	size_t i, k[3], v[3], span[2];

	for (i = 0; i < a->out[2]; i++) {
		ptrdiff_t at = (ptrdiff_t)(i * a->s[2]) - (ptrdiff_t)a->p[2];
		double sum = 0;

		taps_inside(at, a->k[2], a->d[2], a->in[2], span);
		for (k[0] = r->span[0][0]; k[0] < r->span[0][1]; k[0]++)
			for (k[1] = r->span[1][0]; k[1] < r->span[1][1]; k[1]++)
				for (k[2] = span[0]; k[2] < span[1]; k[2]++) {
					v[0] = (size_t)r->at[0] + k[0] * a->d[0];
					v[1] = (size_t)r->at[1] + k[1] * a->d[1];
					v[2] = (size_t)at + k[2] * a->d[2];
					v[0] = (v[0] * a->in[1] + v[1]) * a->in[2] + v[2];
					sum += pow(fabs((double)r->x[v[0]]), a->lp);
				}
		r->y[i] = (PT)pow(sum, 1.0 / a->lp);
	}
}

static void pool_plain(const struct rlx_k_pool *a, size_t begin, size_t end)
{
	size_t rows = a->out[0] * a->out[1], u, i, j;
	size_t plane = a->in[0] * a->in[1] * a->in[2];
	struct row r = { .a = a };

	for (u = begin; u < end; u++) {
		size_t p = u / rows, o[2] = { u % rows / a->out[1],
					      u % rows % a->out[1] };
		PT init = a->kind == RLX_K_POOL_MAX ? -INFINITY : 0;

		r.x = (const PT *)a->x + p * plane;
		r.y = (PT *)a->y + u * a->out[2];
		r.counted = 1;
		for (j = 0; j < 2; j++) {
			size_t pad[2];

			r.at[j] = (ptrdiff_t)(o[j] * a->s[j]) -
				  (ptrdiff_t)a->p[j];
			taps_inside(r.at[j], a->k[j], a->d[j], a->in[j],
				    r.span[j]);
			taps_inside(r.at[j], a->k[j], a->d[j],
				    a->in[j] + a->p_end[j], pad);
			r.counted *= a->include_pad ? pad[1] :
				     r.span[j][1] - r.span[j][0];
		}
		if (a->index && a->kind == RLX_K_POOL_MAX) {
			row_index(&r, a->index + u * a->out[2],
				  (int64_t)(p * plane));
			continue;
		}
		if (a->kind == RLX_K_POOL_LP && a->lp > 2) {
			row_norm(&r);
			continue;
		}
		for (i = 0; i < a->out[2]; i++)
			r.y[i] = init;
		row_fold(&r);
		if (a->kind != RLX_K_POOL_MAX)
			row_finish(&r);
	}
}
