/* SPDX-License-Identifier: MIT */
/*
 * Pooling in the plain layout: lanes are columns of the output.
 *
 * The window's taps are folded from rows with the padding filled in, so that no column is
 * an edge: small windows tap by tap out of rows that several rows of the output read;
 * others first down the window's rows, then along what that leaves. A stride of two has
 * even and odd columns apart, which are then read one after the other; above that, what
 * is folded down is walked column by column.
 *
 * The includer defines PT, the type of elements, and of it: PT_MAX(a, b) of two vectors, and
 * PT_ABS(x) and PT_SQRT(x); where it is an integer, which has maxima alone, only PT_LEAST,
 * its least value.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/pool_taps.h"
#include "kernels/pool_layout.h"
#include "kernels/simd/vec.h"

#ifdef PT_LEAST
#define PT_NAN(x)	false
#define PT_KIND(a)	RLX_K_POOL_MAX
#define PT_MAX(a, b)	pv_greater(a, b)
#else
#define PT_FLOAT	1
#define PT_LEAST	(-INFINITY)
#define PT_NAN(x)	((x) != (x))
#define PT_KIND(a)	((a)->kind)
#endif

enum { PT_LANES = RLX_VB / sizeof(PT), GROUP = 4 };

typedef PT pv __attribute__((vector_size(RLX_VB)));
typedef PT pv_u __attribute__((vector_size(RLX_VB), aligned(sizeof(PT)), may_alias));

RLX_INLINE pv pv_loadu(const PT *p) { return *(const pv_u *)p; }
RLX_INLINE void pv_storeu(PT *p, pv x) { *(pv_u *)p = x; }
#ifndef PT_FLOAT
RLX_INLINE pv pv_greater(pv a, pv b)
{
	pv first = (pv)(a > b);

	return (a & first) | (b & ~first);
}
#endif

/* One output row: the window's outer taps, and where the row lies. */
struct row {
	const struct rlx_k_pool *a;
	const PT	*x;		/* the plane */
	PT		*y;
	ptrdiff_t	at[2];		/* window start in depth and height */
	size_t		span[2][2];	/* taps inside, likewise */
	size_t		counted;	/* their number as the average counts */
};

/* A call: the memory it folds in, and the taps as places there. */
struct fold {
	const struct rlx_k_pool *a;
	struct rlx_k_pool_layout l;
	size_t		*off;		/* of each tap from the first */
	PT		*rows;		/* those of the input, or what is folded down */
	PT		*flat;		/* one row before its columns are taken apart */
	PT		*counts;	/* columns' taps as the average counts them */
	PT		*y_end;		/* nothing is written from here on */
};

RLX_INLINE pv fold_two(pv a, pv b, const bool max)
{
	return max ? PT_MAX(a, b) : a + b;
}

/* Stores what of @v lies before @end. */
RLX_INLINE void store_upto(PT *y, pv v, const PT *end)
{
	if (y + PT_LANES <= end)
		pv_storeu(y, v);
	else if (y < end)
		memcpy(y, &v, (size_t)(end - y) * sizeof(PT));
}

/* @n vectors of y of the taps at @x. */
RLX_INLINE void fold_vectors(const struct fold *f, const PT *x, PT *y, const size_t n,
			     const bool max)
{
	pv acc[GROUP];
	size_t t, j;

	RLX_UNROLL
	for (j = 0; j < n; j++)
		acc[j] = pv_loadu(x + j * PT_LANES);
	for (t = 1; t < f->l.taps; t++) {
		const PT *from = x + f->off[t];

		RLX_UNROLL
		for (j = 0; j < n; j++)
			acc[j] = fold_two(acc[j], pv_loadu(from + j * PT_LANES), max);
	}
	RLX_UNROLL
	for (j = 0; j < n; j++)
		store_upto(y + j * PT_LANES, acc[j], f->y_end);
}

/* y[0, n) of the taps at @x; what follows y[n) is overwritten, if it is before the end. */
RLX_INLINE void fold_row(const struct fold *f, const PT *x, PT *y, size_t n, const bool max)
{
	size_t i = 0;

	for (; i + GROUP * PT_LANES <= n; i += GROUP * PT_LANES)
		fold_vectors(f, x + i, y + i, GROUP, max);
	for (; i + PT_LANES < n; i += 2 * PT_LANES)
		fold_vectors(f, x + i, y + i, 2, max);
	if (i < n)
		fold_vectors(f, x + i, y + i, 1, max);
}

/* The element that a tap adds: a number, or of the 1- and the 2-norm. */
RLX_INLINE PT tap_of(PT x, const unsigned int lp)
{
#ifdef PT_FLOAT
	return lp == 1 ? PT_ABS(x) : lp ? x * x : x;
#else
	(void)lp;
	return x;
#endif
}

RLX_INLINE void row_into(PT *restrict y, const PT *restrict x, size_t n, const unsigned int lp,
			 const bool first, const bool max)
{
	size_t i = 0;

	if (first && !lp) {
		memcpy(y, x, n * sizeof(*y));
		return;
	}
	for (; max && i + PT_LANES <= n; i += PT_LANES)
		pv_storeu(y + i, PT_MAX(pv_loadu(y + i), pv_loadu(x + i)));
	for (; i < n; i++) {
		PT v = tap_of(x[i], lp);

		y[i] = first ? v : !max ? y[i] + v : v > y[i] || PT_NAN(v) ? v : y[i];
	}
}

static void fill(PT *y, size_t n, PT v)
{
	for (size_t i = 0; i < n; i++)
		y[i] = v;
}

/* The input's row @x, or one folded into what @y has, with its padding. */
static void put_row(const struct fold *f, PT *y, const PT *x, bool first)
{
	const struct rlx_k_pool *a = f->a;
	PT none = PT_KIND(a) == RLX_K_POOL_MAX ? PT_LEAST : 0;
	size_t p = a->p[2], w = f->l.width, n;

	if (!x || p >= w) {
		if (first)
			fill(y, w, none);
		return;
	}
	n = a->in[2] < w - p ? a->in[2] : w - p;
	if (first) {
		fill(y, p, none);
		fill(y + p + n, w - p - n, none);
	}
	y += p;
	if (PT_KIND(a) == RLX_K_POOL_MAX)
		row_into(y, x, n, 0, first, true);
	else if (PT_KIND(a) == RLX_K_POOL_AVG)
		row_into(y, x, n, 0, first, false);
	else if (a->lp == 1)
		row_into(y, x, n, 1, first, false);
	else
		row_into(y, x, n, 2, first, false);
}

/* @n pairs of columns. */
static void take_apart(PT *restrict even, PT *restrict odd, const PT *restrict x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		even[i] = x[2 * i];
		odd[i] = x[2 * i + 1];
	}
}

/* Row @v of the input with its padding, as the taps want it. */
static void load_row(const struct fold *f, PT *y, const PT *plane, ptrdiff_t v)
{
	const struct rlx_k_pool *a = f->a;
	const PT *x = v >= 0 && v < (ptrdiff_t)a->in[1] ? plane + (size_t)v * a->in[2] : NULL;
	size_t half = f->l.width / 2, p = a->p[2], n = a->in[2], odd = p & 1;

	if (f->l.phases == 1) {
		put_row(f, y, x, true);
	} else if (!x || PT_KIND(a) == RLX_K_POOL_LP || p + n > f->l.width) {
		put_row(f, f->flat, x, true);
		take_apart(y, y + half, f->flat, half);
	} else {
		fill(y, f->l.width, PT_KIND(a) == RLX_K_POOL_MAX ? PT_LEAST : 0);
		if (odd && n)
			y[half + p / 2] = x[0];
		p += odd;
		n -= odd && n;
		take_apart(y + p / 2, y + half + p / 2, x + odd, n / 2);
		if (n & 1)
			y[(p + n) / 2] = x[odd + n - 1];
	}
}

/* The window's rows folded into one. */
static void fold_down(const struct fold *f, const struct row *r, PT *to)
{
	const struct rlx_k_pool *a = f->a;
	PT *y = f->l.phases == 1 ? to : f->flat;
	bool first = true;
	size_t kz, ky;

	for (kz = r->span[0][0]; kz < r->span[0][1]; kz++)
		for (ky = r->span[1][0]; ky < r->span[1][1]; ky++, first = false) {
			size_t z = (size_t)r->at[0] + kz * a->d[0];
			size_t v = (size_t)r->at[1] + ky * a->d[1];

			put_row(f, y, r->x + (z * a->in[1] + v) * a->in[2], first);
		}
	if (first)
		put_row(f, y, NULL, true);
	if (y != to)
		take_apart(to, to + f->l.width / 2, y, f->l.width / 2);
}

static void fold_along(const struct fold *f, const PT *x, PT *y)
{
	const struct rlx_k_pool *a = f->a;
	size_t i, k, d = a->d[2], n = a->out[2];
	const PT *from = x;

	if (a->s[2] <= 2) {
		if (PT_KIND(a) == RLX_K_POOL_MAX)
			fold_row(f, x, y, n, true);
		else
			fold_row(f, x, y, n, false);
		return;
	}
	for (i = 0; i < n; i++, from += a->s[2]) {
		PT acc = from[0];

		if (PT_KIND(a) == RLX_K_POOL_MAX)
			for (k = 1; k < a->k[2]; k++)
				acc = from[k * d] > acc || PT_NAN(from[k * d]) ?
				      from[k * d] : acc;
		else
			for (k = 1; k < a->k[2]; k++)
				acc += from[k * d];
		y[i] = acc;
	}
}

/* Columns' taps as the average counts them; a window of padding alone has 1, of zeros. */
static void count_columns(const struct fold *f)
{
	const struct rlx_k_pool *a = f->a;
	size_t i, span[2], n;

	for (i = 0; i < a->out[2]; i++) {
		taps_inside((ptrdiff_t)(i * a->s[2]) - (ptrdiff_t)a->p[2], a->k[2], a->d[2],
			    a->in[2] + (a->include_pad ? a->p_end[2] : 0), span);
		n = a->include_pad ? span[1] : span[1] - span[0];
		f->counts[i] = (PT)(n ? n : 1);
	}
}

static void finish_row(const struct fold *f, const struct row *r)
{
	size_t i, n = f->a->out[2];
	const PT *c = f->counts;
	PT *y = r->y, by = (PT)(r->counted ? r->counted : 1);

	if (PT_KIND(f->a) == RLX_K_POOL_AVG)
		for (i = 0; i < n; i++)
			y[i] /= by * c[i];
#ifdef PT_FLOAT
	else if (PT_KIND(f->a) == RLX_K_POOL_LP && f->a->lp == 2)
		for (i = 0; i < n; i++)
			y[i] = PT_SQRT(y[i]);
#endif
}

static int64_t index_of(const struct rlx_k_pool *a, const size_t v[3])
{
	if (a->column_major)
		return (int64_t)((v[2] * a->in[1] + v[1]) * a->in[0] + v[0]);
	return (int64_t)((v[0] * a->in[1] + v[1]) * a->in[2] + v[2]);
}

/* What comes of a tap of one output: @x, at @v of the plane. */
typedef void tap_fn(void *of, const size_t v[3], PT x);

RLX_INLINE void each_tap(const struct row *r, size_t i, tap_fn *fn, void *of)
{
	const struct rlx_k_pool *a = r->a;
	ptrdiff_t at = (ptrdiff_t)(i * a->s[2]) - (ptrdiff_t)a->p[2];
	size_t k[3], v[3], span[2];

	taps_inside(at, a->k[2], a->d[2], a->in[2], span);
	for (k[0] = r->span[0][0]; k[0] < r->span[0][1]; k[0]++)
		for (k[1] = r->span[1][0]; k[1] < r->span[1][1]; k[1]++)
			for (k[2] = span[0]; k[2] < span[1]; k[2]++) {
				v[0] = (size_t)r->at[0] + k[0] * a->d[0];
				v[1] = (size_t)r->at[1] + k[1] * a->d[1];
				v[2] = (size_t)at + k[2] * a->d[2];
				fn(of, v, r->x[(v[0] * a->in[1] + v[1]) * a->in[2] + v[2]]);
			}
}

struct max_at {
	const struct rlx_k_pool *a;
	int64_t	base;		/* of the plane */
	int64_t	where;
	PT	best;
};

/* The first of equals; NaN is the largest. */
RLX_INLINE void tap_max(void *of, const size_t v[3], PT x)
{
	struct max_at *m = of;

	if (m->where >= 0 && (PT_NAN(m->best) || !(x > m->best || PT_NAN(x))))
		return;
	m->best = x;
	m->where = m->base + index_of(m->a, v);
}

/* Maximum and where it was, pixel by pixel. */
static void row_index(const struct row *r, int64_t *index, int64_t base)
{
	size_t i;

	for (i = 0; i < r->a->out[2]; i++) {
		struct max_at m = { r->a, base, -1, PT_LEAST };

		each_tap(r, i, tap_max, &m);
		r->y[i] = m.best;
		index[i] = m.where;
	}
}

#ifdef PT_FLOAT
struct power_sum {
	double	lp, sum;
};

RLX_INLINE void tap_power(void *of, const size_t v[3], PT x)
{
	struct power_sum *s = of;

	(void)v;
	s->sum += pow(fabs((double)x), s->lp);
}

/* Norms above the second, pixel by pixel: 20^35 is beyond f32, its root is not. */
static void row_norm(const struct row *r)
{
	size_t i;

	for (i = 0; i < r->a->out[2]; i++) {
		struct power_sum s = { r->a->lp, 0 };

		each_tap(r, i, tap_power, &s);
		r->y[i] = (PT)pow(s.sum, 1.0 / r->a->lp);
	}
}
#endif

/* Which of the window's outer taps output row @o has. */
static void row_taps(struct row *r, const size_t o[2])
{
	const struct rlx_k_pool *a = r->a;
	size_t j, pad[2];

	r->counted = 1;
	for (j = 0; j < 2; j++) {
		r->at[j] = (ptrdiff_t)(o[j] * a->s[j]) - (ptrdiff_t)a->p[j];
		taps_inside(r->at[j], a->k[j], a->d[j], a->in[j], r->span[j]);
		taps_inside(r->at[j], a->k[j], a->d[j], a->in[j] + a->p_end[j], pad);
		r->counted *= a->include_pad ? pad[1] : r->span[j][1] - r->span[j][0];
	}
}

/* Output rows [@o[1], + @n) of plane @r->x, each tap out of rows that are loaded once. */
static void band_run(const struct fold *f, struct row *r, size_t o[2], size_t n)
{
	const struct rlx_k_pool *a = f->a;
	size_t s = a->s[1], span = (a->k[1] - 1) * a->d[1] + 1, i;
	ptrdiff_t at = (ptrdiff_t)(o[1] * s) - (ptrdiff_t)a->p[1];

	for (i = 0; i < (n - 1) * s + span; i++)
		if (i % s < span)
			load_row(f, f->rows + i * f->l.row, r->x, at + (ptrdiff_t)i);
	for (i = 0; i < n; i++, o[1]++, r->y += a->out[2]) {
		fold_along(f, f->rows + i * s * f->l.row, r->y);
		if (PT_KIND(a) != RLX_K_POOL_AVG) {
			finish_row(f, r);
			continue;
		}
		row_taps(r, o);
		finish_row(f, r);
	}
}

/* One output row. */
static void row_run(const struct fold *f, struct row *r, const size_t o[2], size_t at, size_t base)
{
	const struct rlx_k_pool *a = f->a;

	row_taps(r, o);
	if (a->index && PT_KIND(a) == RLX_K_POOL_MAX) {
		row_index(r, a->index + at, (int64_t)base);
		return;
	}
#ifdef PT_FLOAT
	if (PT_KIND(a) == RLX_K_POOL_LP && a->lp > 2) {
		row_norm(r);
		return;
	}
#endif
	fold_down(f, r, f->rows);
	fold_along(f, f->rows, r->y);
	finish_row(f, r);
}

/* With a band the taps of all its window's rows. */
static void find_taps(struct fold *f)
{
	const struct rlx_k_pool *a = f->a;
	size_t t, half = f->l.width / 2;

	for (t = 0; t < f->l.taps; t++) {
		size_t x = t % a->k[2] * a->d[2];

		f->off[t] = t / a->k[2] * a->d[1] * f->l.row +
			    (f->l.phases == 1 ? x : x % 2 * half + x / 2);
	}
}

static void pool_plain(const struct rlx_k_pool *a, size_t begin, size_t end, void *scratch)
{
	size_t rows = a->out[0] * a->out[1], plane = a->in[0] * a->in[1] * a->in[2], u, n;
	struct fold f = { .a = a, .l = rlx_k_pool_layout(a), .off = scratch };
	struct row r = { .a = a };

	f.rows = (PT *)(f.off + f.l.taps);
	f.flat = f.rows + f.l.rows * f.l.row;
	f.counts = f.flat + f.l.row;
	f.y_end = (PT *)a->y + end * a->out[2];
	find_taps(&f);
	if (PT_KIND(a) == RLX_K_POOL_AVG)
		count_columns(&f);
	for (u = begin; u < end; u += n) {
		size_t p = u / rows, o[2] = { u % rows / a->out[1], u % rows % a->out[1] };

		r.x = (const PT *)a->x + p * plane;
		r.y = (PT *)a->y + u * a->out[2];
		n = a->out[1] - o[1] < f.l.band ? a->out[1] - o[1] : f.l.band;
		n = n < end - u ? n : end - u;
		if (f.l.band) {
			band_run(&f, &r, o, n);
			continue;
		}
		n = 1;
		row_run(&f, &r, o, u * a->out[2], p * plane);
	}
}
