// SPDX-License-Identifier: MIT
/*
 * Eigenvalues and eigenvectors of symmetric matrices: reflections to a tridiagonal one, implicit
 * QL with Wilkinson's shifts, whose rotations are listed and applied by strips.
 * Golub and Van Loan, Matrix Computations.
 */
#include <float.h>

#include "kernels/cpu/linalg_mat.h"

#ifndef RLX_V512
rlx_k_fn RLX_K(linalg_eigh);

enum { PART = 32 };	/* rows that are one unit */

/* A step of the reduction: rows and columns [at, n) less v w' + w v', and their product with u. */
struct step {
	struct mat	m;
	const double	*v, *w, *u;
	double		*p;
	int64_t		at, n;
};

static inline double sum(vd x)
{
	double s = 0;

	for (int i = 0; i < RLX_VLD; i++)
		s += x[i];
	return s;
}

/* Two rows of it, of which the second may be the first. */
static void step_rows(const struct step *t, int64_t i, int64_t i2)
{
	double *a = t->m.p + i * t->m.ld, *b = t->m.p + i2 * t->m.ld;
	const double va = t->v[i], wa = t->w[i], vb = t->v[i2], wb = t->w[i2];
	vd sa = vd_zero(), sb = vd_zero();
	int64_t j = t->at;
	double x = 0, y = 0;

	for (; j + RLX_VLD <= t->n; j += RLX_VLD) {
		vd v = vd_loadu(t->v + j), w = vd_loadu(t->w + j), u = vd_loadu(t->u + j);
		vd ra = vd_loadu(a + j) - w * va - v * wa, rb = vd_loadu(b + j) - w * vb - v * wb;

		vd_storeu(a + j, ra);
		vd_storeu(b + j, rb);
		sa += ra * u;
		sb += rb * u;
	}
	for (; j < t->n; j++) {
		double ra = a[j] - t->w[j] * va - t->v[j] * wa;
		double rb = b[j] - t->w[j] * vb - t->v[j] * wb;

		a[j] = ra;
		b[j] = rb;
		x += ra * t->u[j];
		y += rb * t->u[j];
	}
	t->p[i] = sum(sa) + x;
	t->p[i2] = sum(sb) + y;
}

static void step_parts(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct step *t = ctx;

	(void)worker;
	for (; begin < end; begin++) {
		int64_t i = t->at + (int64_t)begin * PART;
		int64_t to = i + PART < t->n ? i + PART : t->n;

		for (; i + 1 < to; i += 2)
			step_rows(t, i, i + 1);
		if (i < to)	/* both do the same to it */
			step_rows(t, i, i);
	}
}

struct ql {
	double		*d, *e;
	int64_t		n;
	struct rotations r;
	const struct strips *z;
	const struct rlx_k_team *team;
};

/*
 * m[n][n] becomes q->d, its diagonal, q->e beside it, and r, of rows [1, n): what step k makes of
 * m, and its product for the next one, are one pass over memory. @spare: 4 n
 */
static void reduce(struct mat m, struct ql *q, const struct reflections *r, double *spare)
{
	const int64_t n = q->n;
	struct step t = { .m = m, .v = spare, .w = spare + n, .u = spare + 2 * n,
			  .p = spare + 3 * n, .n = n };
	double *v = spare, *w = spare + n, *u = spare + 2 * n, rest, tau, by, dot, *x;

	memset(spare, 0, (size_t)(4 * n) * sizeof(double));
	reflections_clear(r);
	for (int64_t k = 0; k < n; k++) {
		x = m.p + k * m.ld;
		for (int64_t j = k; j < n; j++)
			x[j] -= v[k] * w[j] + w[k] * v[j];
		q->d[k] = x[k];
		if (k + 1 == n)
			break;
		rest = dot = 0;
		for (int64_t j = k + 2; j < n; j++)
			rest += x[j] * x[j];
		tau = reflect_make(x[k + 1], rest, q->e + k, &by);
		u[k + 1] = 1;
		for (int64_t j = k + 2; j < n; j++)
			u[j] = x[j] * by;
		if (k < r->k) {
			double *at = reflect_column(r, k);

			for (int64_t j = k + 1; j < n; j++, at += RLX_K_LINALG_BLOCK)
				*at = u[j];
			r->tau[k] = tau;
		}
		t.at = k + 1;
		mat_share(n - k > 256 ? q->team : NULL, step_parts, &t,
			  (uint64_t)((n - k - 1 + PART - 1) / PART));
		for (int64_t j = k + 1; j < n; j++)
			dot += t.p[j] * u[j];
		for (int64_t j = k + 1; j < n; j++) {
			w[j] = tau * (t.p[j] - tau * dot / 2 * u[j]);
			v[j] = u[j];
		}
	}
}

/* One sweep from row @m up to @l; the list has room for it. */
static void sweep(struct ql *q, int64_t l, int64_t m)
{
	double *d = q->d, *e = q->e;
	double g = (d[l + 1] - d[l]) / (2 * e[l]), r = sqrt(g * g + 1), s = 1, c = 1, p = 0;

	if (!(r < INFINITY))
		r = fabs(g);
	g = d[m] - d[l] + e[l] / (g + (g < 0 ? -r : r));
	for (int64_t i = m - 1; i >= l; i--) {
		double f = s * e[i], b = c * e[i], t;

		r = sqrt(f * f + g * g);
		e[i + 1] = r;
		if (r == 0) {
			d[i + 1] -= p;
			e[m] = 0;
			return;
		}
		t = 1 / r;
		s = f * t;
		c = g * t;
		g = d[i + 1] - p;
		t = (d[i] - g) * s + 2 * c * b;
		p = s * t;
		d[i + 1] = g + p;
		g = c * t - b;
		rotations_add(&q->r, i + 1, i, c, s);
	}
	d[l] -= p;
	e[l] = g;
	e[m] = 0;
}

/* d becomes the eigenvalues; false: none found, which nobody has seen. */
static bool iterate(struct ql *q)
{
	for (int64_t l = 0; l < q->n; l++)
		for (int tries = 0;; tries++) {
			int64_t m = l;

			while (m + 1 < q->n && fabs(q->e[m]) > MAT_LEAST + DBL_EPSILON / 2 *
						(fabs(q->d[m]) + fabs(q->d[m + 1])))
				m++;
			if (m == l)
				break;
			if (tries == 128)
				return false;
			if (q->r.n + m - l > q->r.room)
				RLX_K(rotations_flush)(&q->r, q->z, q->team);
			sweep(q, l, m);
		}
	RLX_K(rotations_flush)(&q->r, q->z, q->team);
	return true;
}

/* order[i]: where the i-th smallest of d is; those are few, or nearly in order */
static void ascend(const double *d, int64_t *order, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		int64_t j = i;

		for (; j > 0 && d[order[j - 1]] > d[i]; j--)
			order[j] = order[j - 1];
		order[j] = i;
	}
}

/* The symmetric part of input @u; NaN, if there is one, to all. Return: its scale */
static double load(const struct rlx_k_linalg *a, size_t u, struct mat m)
{
	const int64_t n = a->n;
	double scale;

	RLX_K(linalg_load)(a, a->a, u * (size_t)(n * n), m.p, (size_t)(n * n));
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < i; j++)
			m.p[i * n + j] = m.p[j * n + i] = m.p[i * n + j] / 2 + m.p[j * n + i] / 2;
	scale = RLX_K(mat_scale_of)(m.p, (size_t)(n * n));
	RLX_K(mat_scale)(m.p, scale ? scale : NAN, (size_t)(n * n));
	return scale;
}

static bool one(const struct rlx_k_linalg *a, size_t u, double *work)
{
	const int64_t n = a->n, k = n > 2 ? n - 2 : 0;
	const struct mat m = { work, n }, q = { work + n * n, n };
	struct strips z = { .p = q.p + n * n, .n = n, .columns = n };
	double *d = z.p + strips_count(&z) * RLX_K_LINALG_STRIP * n, *e = d + n, *spare = e + n;
	int64_t *order = (int64_t *)(spare + 4 * n);
	double *by = (double *)(order + n), *list = by + n;
	struct ql ql = { .d = d, .e = e, .n = n, .z = &z, .team = a->team, .r = {
		.list = (struct rotation *)list,
		.room = (int64_t)rlx_k_linalg_rotations((size_t)n) } };
	struct reflections r = reflections_at(list + 3 * ql.r.room, n - 1, k);
	double scale = load(a, u, m);
	bool ok = scale != 0;

	if (ok) {
		reduce(m, &ql, &r, spare);
		e[n - 1] = 0;
		memset(q.p, 0, (size_t)(n * n) * sizeof(double));
		q.p[0] = 1;
		RLX_K(reflect_form)(&r, mat_at(q, n > 1, n > 1), n - 1, a->team);
		q.p[0] = 1;
		RLX_K(strips_from)(&z, q, a->team);
		ok = iterate(&ql);
	}
	ascend(d, order, ok ? n : 0);
	for (int64_t i = 0; i < n; i++)
		spare[i] = ok ? d[order[i]] / scale : NAN;
	if (ok) {
		strips_signs(&z, by);
		for (int64_t i = 0; i < n; i++)
			e[i] = by[order[i]];
		RLX_K(strips_to)(&z, q, order, e, a->team);
	}
	RLX_K(mat_scale)(q.p, ok ? 1 : NAN, (size_t)(n * n));
	RLX_K(linalg_store)(a, a->y, u * (size_t)n, spare, (size_t)n);
	RLX_K(linalg_store)(a, a->y2, u * (size_t)(n * n), q.p, (size_t)(n * n));
	return true;
}

void RLX_K(linalg_eigh)(const void *args, size_t begin, size_t end, void *scratch)
{
	linalg_each(args, begin, end, scratch, one);
}
#endif
