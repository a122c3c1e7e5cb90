// SPDX-License-Identifier: MIT
/*
 * Singular values and vectors: reflections from both sides to a bidiagonal matrix, and implicit
 * QR with shifts, whose rotations are listed and applied by strips. Golub and Reinsch 1970.
 */
#include <float.h>

#include "kernels/cpu/linalg_mat.h"

#ifndef RLX_V512
rlx_k_fn RLX_K(linalg_svd);

enum { PARTS = RLX_K_LINALG_PARTS };

/*
 * A step of the reduction: rows (k, m) less v w' and less their product with u times tau u', and
 * then the sums over rows of their number at k + 1 times all, from there on: one pass over memory.
 * Each part of the rows has sums of its own.
 */
struct step {
	struct mat	a;
	const double	*w, *u, *v;	/* v: 32 numbers from one to the next, of rows (k, m) */
	double		tau, *sums;
	int64_t		k, m, n;
};

static inline double sum(vd x)
{
	double s = 0;

	for (int i = 0; i < RLX_VLD; i++)
		s += x[i];
	return s;
}

static void step_row(const struct step *t, double *row, double v, double *sums)
{
	const int64_t from = t->k + 1;
	int64_t j = from;
	vd dot = vd_zero();
	double z = 0;

	for (; j + RLX_VLD <= t->n; j += RLX_VLD) {
		vd x = vd_loadu(row + j) - vd_loadu(t->w + j) * v;

		vd_storeu(row + j, x);
		dot += x * vd_loadu(t->u + j);
	}
	for (; j < t->n; j++)
		z += (row[j] -= t->w[j] * v) * t->u[j];
	z = (z + sum(dot)) * t->tau;
	row[from] -= z * t->u[from];
	v = row[from];
	sums[from] += v * v;
	for (j = from + 1; j + RLX_VLD <= t->n; j += RLX_VLD) {
		vd x = vd_loadu(row + j) - vd_loadu(t->u + j) * z;

		vd_storeu(row + j, x);
		vd_storeu(sums + j, vd_loadu(sums + j) + x * v);
	}
	for (; j < t->n; j++) {
		row[j] -= z * t->u[j];
		sums[j] += v * row[j];
	}
}

static void step_parts(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct step *t = ctx;
	const int64_t rows = t->m - t->k - 1, each = (rows + PARTS - 1) / PARTS;

	(void)worker;
	for (; begin < end; begin++) {
		double *sums = t->sums + (int64_t)begin * t->n;
		int64_t i = (int64_t)begin * each, to = i + each < rows ? i + each : rows;

		memset(sums, 0, (size_t)t->n * sizeof(double));
		for (; i < to; i++)
			step_row(t, t->a.p + (t->k + 1 + i) * t->a.ld,
				 t->v[i * RLX_K_LINALG_BLOCK], sums);
	}
}

/* Few rows are one part; the first one has the sums then. */
static void add_parts(struct step *t, const struct rlx_k_team *team)
{
	const bool few = t->m - t->k < 8 * PARTS;

	if (few) {
		double *sums = t->sums;

		memset(sums, 0, (size_t)t->n * sizeof(double));
		for (int64_t i = 0; i < t->m - t->k - 1; i++)
			step_row(t, t->a.p + (t->k + 1 + i) * t->a.ld,
				 t->v[i * RLX_K_LINALG_BLOCK], sums);
		return;
	}
	mat_share((t->m - t->k) * (t->n - t->k) > 65536 ? team : NULL, step_parts, t, PARTS);
	for (int64_t p = 1; p < PARTS; p++)
		for (int64_t j = t->k + 1; j < t->n; j++)
			t->sums[j] += t->sums[p * t->n + j];
}

/* The reflection of row k's columns (k, n), to u, and e[k] */
static void right(struct step *t, const struct reflections *r, double *row, double *u, double *e)
{
	const int64_t k = t->k, n = t->n;
	double rest = 0, by, *at;

	t->tau = 0;
	if (k + 1 == n)
		return;
	for (int64_t j = k + 2; j < n; j++)
		rest += row[j] * row[j];
	t->tau = reflect_make(row[k + 1], rest, e + k, &by);
	u[k + 1] = 1;
	for (int64_t j = k + 2; j < n; j++)
		u[j] = row[j] * by;
	if (k >= r->k)
		return;
	r->tau[k] = t->tau;
	at = reflect_column(r, k);
	for (int64_t j = k + 1; j < n; j++, at += RLX_K_LINALG_BLOCK)
		*at = u[j];
}

struct qr {
	double		*s, *e;
	struct rotations u, v;
	const struct strips *zu, *zv;
	const struct rlx_k_team *team;
};

/* c and s of f, g, and what becomes of f */
static double givens(double f, double g, double *c, double *s)
{
	double t = sqrt(f * f + g * g);

	if (fabs(f) < MAT_LEAST && fabs(g) < MAT_LEAST)
		t = hypot(f, g);
	*c = t > 0 ? f / t : 1;
	*s = t > 0 ? g / t : 0;
	return t;
}

/* s[p - 1] is 0: so becomes what is above it. */
static void empty_column(struct qr *q, int64_t k, int64_t p)
{
	double f = q->e[p - 2], c, s;

	q->e[p - 2] = 0;
	for (int64_t j = p - 2; j >= k; j--) {
		q->s[j] = givens(q->s[j], f, &c, &s);
		if (j != k) {
			f = -s * q->e[j - 1];
			q->e[j - 1] *= c;
		}
		rotations_add(&q->v, j, p - 1, c, s);
	}
}

/* s[k - 1] is 0: so becomes what is beside it. */
static void empty_row(struct qr *q, int64_t k, int64_t p)
{
	double f = q->e[k - 1], c, s;

	q->e[k - 1] = 0;
	for (int64_t j = k; j < p; j++) {
		q->s[j] = givens(q->s[j], f, &c, &s);
		f = -s * q->e[j];
		q->e[j] *= c;
		rotations_add(&q->u, j, k - 1, c, s);
	}
}

static double shift(const double *s, const double *e, int64_t k, int64_t p, double *g)
{
	double of = fmax(fmax(fabs(s[p - 1]), fabs(s[p - 2])), fabs(e[p - 2])), b, c, by = 0;
	double last, before, top;

	of = fmax(of, fmax(fabs(s[k]), fabs(e[k])));
	last = s[p - 1] / of;
	before = s[p - 2] / of;
	top = s[k] / of;
	b = ((before + last) * (before - last) + e[p - 2] / of * (e[p - 2] / of)) / 2;
	c = last * (e[p - 2] / of) * (last * (e[p - 2] / of));
	if (b != 0 || c != 0)
		by = c / (b + (b < 0 ? -sqrt(b * b + c) : sqrt(b * b + c)));
	*g = top * (e[k] / of);
	return (top + last) * (top - last) + by;
}

static void sweep(struct qr *q, int64_t k, int64_t p)
{
	double *s = q->s, *e = q->e, g, c, sn, t, f = shift(s, e, k, p, &g);

	for (int64_t j = k; j + 1 < p; j++) {
		t = givens(f, g, &c, &sn);
		if (j != k)
			e[j - 1] = t;
		f = c * s[j] + sn * e[j];
		e[j] = c * e[j] - sn * s[j];
		g = sn * s[j + 1];
		s[j + 1] *= c;
		rotations_add(&q->v, j, j + 1, c, sn);
		s[j] = givens(f, g, &c, &sn);
		f = c * e[j] + sn * s[j + 1];
		s[j + 1] = c * s[j + 1] - sn * e[j];
		g = sn * e[j + 1];
		e[j + 1] *= c;
		rotations_add(&q->u, j, j + 1, c, sn);
	}
	e[p - 2] = f;
}

/* Where the block that ends before p begins, negligible numbers made 0. */
static int64_t block_from(struct qr *q, int64_t p)
{
	int64_t k = p - 2;

	for (; k >= 0; k--)
		if (fabs(q->e[k]) <= MAT_LEAST + DBL_EPSILON / 2 *
				     (fabs(q->s[k]) + fabs(q->s[k + 1]))) {
			q->e[k] = 0;
			break;
		}
	return k + 1;
}

/* The last number of [k, p) that is negligible, made 0; else k - 1 */
static int64_t zero_in(struct qr *q, int64_t k, int64_t p)
{
	for (int64_t i = p - 1; i >= k; i--) {
		double beside = (i + 1 < p ? fabs(q->e[i]) : 0) + (i > k ? fabs(q->e[i - 1]) : 0);

		if (fabs(q->s[i]) <= MAT_LEAST + DBL_EPSILON / 2 * beside) {
			q->s[i] = 0;
			return i;
		}
	}
	return k - 1;
}

/* s becomes the singular values, of any sign; false: not found, which nobody has seen */
static bool iterate(struct qr *q, int64_t n)
{
	int64_t tries = 0;

	for (int64_t p = n; p > 0;) {
		int64_t k = block_from(q, p), zero;

		if (k == p - 1) {
			p--;
			tries = 0;
			continue;
		}
		if (tries++ == 256)
			return false;
		if (q->u.n + p > q->u.room || q->v.n + p > q->v.room) {
			RLX_K(rotations_flush)(&q->u, q->zu, q->team);
			RLX_K(rotations_flush)(&q->v, q->zv, q->team);
		}
		zero = zero_in(q, k, p);
		if (zero == p - 1)
			empty_column(q, k, p);
		else if (zero >= k)
			empty_row(q, zero + 1, p);
		else
			sweep(q, k, p);
	}
	RLX_K(rotations_flush)(&q->u, q->zu, q->team);
	RLX_K(rotations_flush)(&q->v, q->zv, q->team);
	return true;
}

/* What one matrix needs, in the order in which it lies in scratch; more rows than columns */
struct svd {
	int64_t			m, n;
	struct mat		a, u, v;
	struct strips		zu, zv;
	struct reflections	rows, columns;
	double			*e, *s, *left, *right, *spare;	/* spare: (2 + PARTS) n */
	int64_t			*order;
	struct qr		q;
};

static void lay_out(struct svd *d, const struct rlx_k_linalg *a, double *p)
{
	const bool wide = a->m < a->n;
	const int64_t m = wide ? a->n : a->m, n = wide ? a->m : a->n;
	const int64_t room = (int64_t)rlx_k_linalg_rotations((size_t)n);
	const int64_t strip = RLX_K_LINALG_STRIP;

	*d = (struct svd){ .m = m, .n = n, .a = { p, n }, .u = { p + m * n, n },
			   .v = { p + 2 * m * n, n } };
	p = d->v.p + n * n;
	/* rotations of few columns, and a product, where there are many rows */
	d->zu = (struct strips){ .p = p, .n = n, .columns = m > n + n / 2 ? n : m };
	p += (m + strip - 1) / strip * strip * n;
	d->zv = (struct strips){ .p = p, .n = n, .columns = n };
	p += (n + strip - 1) / strip * strip * n;
	d->rows = reflections_at(p, m, n);
	p += rlx_k_linalg_reflections((size_t)m, (size_t)n);
	d->columns = reflections_at(p, n - 1, n > 2 ? n - 2 : 0);
	p += rlx_k_linalg_reflections((size_t)n, (size_t)n);
	d->q = (struct qr){ .s = p, .e = p + n, .zu = &d->zu, .zv = &d->zv, .team = a->team,
		.u = { .list = (struct rotation *)(p + 8 * n), .room = room },
		.v = { .list = (struct rotation *)(p + 8 * n + 3 * room), .room = room } };
	d->s = p + 2 * n;
	d->left = p + 3 * n;
	d->right = p + 4 * n;
	d->order = (int64_t *)(p + 5 * n);
	d->e = d->q.e;
	d->spare = p + 8 * n + 6 * room;
}

/* order[i]: where the i-th largest is; s: their sizes in that order; right: 1, or -1 */
static void descend(struct svd *d, double scale)
{
	for (int64_t i = 0; i < d->n; i++) {
		int64_t j = i;

		for (; j > 0 && fabs(d->q.s[d->order[j - 1]]) < fabs(d->q.s[i]); j--)
			d->order[j] = d->order[j - 1];
		d->order[j] = i;
	}
	for (int64_t i = 0; i < d->n; i++) {
		double s = d->q.s[d->order[i]];

		d->s[i] = fabs(s) / scale;
		d->left[i] = 1;
		d->right[i] = s < 0 ? -1 : 1;
	}
}

/* a[m][n], n <= m, becomes q.s, q.e above it, and reflections of rows, and of columns [1, n). */
static void reduce(struct svd *f, const struct rlx_k_team *team)
{
	const struct mat a = f->a;
	const int64_t m = f->m, n = f->n;
	const struct reflections *rows = &f->rows;
	double *w = f->spare, *u = w + n, *sums = w + 2 * n, *d = f->q.s, by, *at;
	struct step t = { .a = a, .w = w, .u = u, .sums = sums, .m = m, .n = n };

	memset(f->spare, 0, (size_t)(2 + PARTS) * (size_t)n * sizeof(double));
	reflections_clear(rows);
	reflections_clear(&f->columns);
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++)
			sums[j] += a.p[i * a.ld] * a.p[i * a.ld + j];
	for (int64_t k = 0; k < n; k++) {
		double *row = a.p + k * a.ld, first = row[k], tau;

		/* of the sum of all squares, of which the first one may be nearly all */
		tau = by = 0;
		d[k] = first;
		if (k + 1 < m && sums[k] >= MAT_LEAST * MAT_LEAST) {
			d[k] = first < 0 ? sqrt(sums[k]) : -sqrt(sums[k]);
			by = 1 / (first - d[k]);
			tau = (d[k] - first) / d[k];
		}
		rows->tau[k] = tau;
		at = reflect_column(rows, k);
		at[0] = 1;
		for (int64_t i = k + 1; i < m; i++)
			at[(i - k) * RLX_K_LINALG_BLOCK] = a.p[i * a.ld + k] * by;
		for (int64_t j = k + 1; j < n; j++) {
			w[j] = tau * (row[j] + (sums[j] - first * row[j]) * by);
			row[j] -= w[j];
		}
		t.k = k;
		t.v = at + RLX_K_LINALG_BLOCK;
		right(&t, &f->columns, row, u, f->e);
		if (k + 1 < n)
			add_parts(&t, team);
	}
}

/* u[m][n] and v[n][n] of the a that is there */
static bool factorise(struct svd *d, double scale, const struct rlx_k_team *team)
{
	const int64_t m = d->m, n = d->n;

	reduce(d, team);
	d->e[n - 1] = 0;
	RLX_K(reflect_form)(&d->rows, d->u, n, team);
	memset(d->v.p, 0, (size_t)(n * n) * sizeof(double));
	RLX_K(reflect_form)(&d->columns, mat_at(d->v, n > 1, n > 1), n - 1, team);
	d->v.p[0] = 1;
	if (d->zu.columns == m) {
		RLX_K(strips_from)(&d->zu, d->u, team);
	} else {
		memset(d->a.p, 0, (size_t)(n * n) * sizeof(double));
		for (int64_t i = 0; i < n; i++)
			d->a.p[i * n + i] = 1;
		RLX_K(strips_from)(&d->zu, d->a, team);
	}
	RLX_K(strips_from)(&d->zv, d->v, team);
	if (!iterate(&d->q, n))
		return false;
	descend(d, scale);
	RLX_K(strips_to)(&d->zv, d->v, d->order, d->right, team);
	if (d->zu.columns == m) {
		RLX_K(strips_to)(&d->zu, d->u, d->order, d->left, team);
		return true;
	}
	RLX_K(mat_scale)(d->left, -1, (size_t)n);
	RLX_K(strips_to)(&d->zu, d->a, d->order, d->left, team);
	memset(d->zu.p, 0, (size_t)(m * n) * sizeof(double));
	RLX_K(mat_minus)((struct mat){ d->zu.p, n }, d->u, d->a, m, n, n);
	d->u.p = d->zu.p;
	return true;
}

static void scale_columns(struct mat x, int64_t m, int64_t n, const double *by)
{
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++)
			x.p[i * n + j] *= by[j];
}

/* The signs of linalg.h; what belongs to a singular value of 0 becomes 0, on the longer side. */
static void settle(struct svd *d, bool wide)
{
	const struct mat of = wide ? d->v : d->u;

	memset(d->left, 0, (size_t)d->n * sizeof(double));
	for (int64_t i = 0; i < (wide ? d->n : d->m); i++)
		for (int64_t j = 0; j < d->n; j++)
			d->left[j] = rlx_k_linalg_largest(d->left[j], of.p[i * d->n + j]);
	for (int64_t j = 0; j < d->n; j++) {
		d->left[j] = d->left[j] < 0 ? -1 : 1;
		d->right[j] = d->left[j];
		if (d->s[j] == 0)
			*(d->m > d->n ? d->left + j : d->right + j) = 0;
	}
	/* left: of what is u, or vh where it is wide and longer */
	scale_columns(d->u, d->m, d->n, d->left);
	scale_columns(d->v, d->n, d->n, d->right);
}

static bool one(const struct rlx_k_linalg *a, size_t u, double *work)
{
	const bool wide = a->m < a->n;
	const size_t all = (size_t)(a->m * a->n);
	struct svd d;
	double scale;

	lay_out(&d, a, work);
	RLX_K(linalg_load)(a, a->a, u * all, wide ? d.u.p : d.a.p, all);
	if (wide)
		RLX_K(mat_transpose)(d.a, (struct mat){ d.u.p, a->n }, a->m, a->n);
	scale = RLX_K(mat_scale_of)(d.a.p, all);
	RLX_K(mat_scale)(d.a.p, scale, all);
	if (scale != 0 && factorise(&d, scale, a->team)) {
		settle(&d, wide);
	} else {
		for (size_t i = 0; i < all; i++)
			d.u.p[i] = NAN;
		for (int64_t i = 0; i < d.n * d.n; i++)
			d.v.p[i] = d.s[i % d.n] = NAN;
	}
	if (wide) {
		RLX_K(mat_transpose)((struct mat){ d.a.p, d.m }, d.u, d.m, d.n);
		d.u = d.v;
		d.v = d.a;
	} else {
		RLX_K(mat_transpose)((struct mat){ d.a.p, d.n }, d.v, d.n, d.n);
		d.v = d.a;
	}
	RLX_K(linalg_store)(a, a->y, u * (size_t)(a->m * d.n), d.u.p, (size_t)(a->m * d.n));
	RLX_K(linalg_store)(a, a->y2, u * (size_t)d.n, d.s, (size_t)d.n);
	RLX_K(linalg_store)(a, a->y3, u * (size_t)(d.n * a->n), d.v.p, (size_t)(d.n * a->n));
	return true;
}

void RLX_K(linalg_svd)(const void *args, size_t begin, size_t end, void *scratch)
{
	linalg_each(args, begin, end, scratch, one);
}
#endif
