// SPDX-License-Identifier: MIT
/*
 * Triangles and what is solved by them, in double, by blocks: what is outside of a block is a
 * product, which is where the time goes, and is shared out in strips.
 */
#include "kernels/cpu/linalg_mat.h"

#ifndef RLX_V512
rlx_k_fn RLX_K(linalg);

enum { BLOCK = RLX_K_LINALG_BLOCK, NARROW = BLOCK / 4, STRIP = 64, SOLVE_REGS = 8 };

/* Rows [k, done) of @m, and columns [done, end) or rows, in strips */
struct rest {
	struct mat	m, t;
	int64_t		k, done, end, rows;
};

static inline uint64_t strips(int64_t n)
{
	return n > 0 ? (uint64_t)((n + STRIP - 1) / STRIP) : 0;
}

static void subtract(double *restrict y, const double *restrict x, double f, int64_t n)
{
	int64_t j = 0;

	for (; j + RLX_VLD <= n; j += RLX_VLD)
		vd_storeu(y + j, vd_loadu(y + j) - vd_loadu(x + j) * f);
	for (; j < n; j++)
		y[j] -= f * x[j];
}

static void swap(double *restrict a, double *restrict b, int64_t n)
{
	for (int64_t j = 0; j < n; j++) {
		double t = a[j];

		a[j] = b[j];
		b[j] = t;
	}
}

/* Column @k of L in p[n][BLOCK], rows swapped for the largest pivot, which swapped[k] tells. */
static bool pivot(struct mat p, int64_t n, int64_t k, int64_t end, int64_t *swapped)
{
	double *top = p.p + k * p.ld, t;
	int64_t best = k;

	for (int64_t i = k + 1; i < n; i++)
		if (fabs(p.p[i * p.ld + k]) > fabs(p.p[best * p.ld + k]))
			best = i;
	t = p.p[best * p.ld + k];
	if (t == 0 || !(fabs(t) < INFINITY))
		return false;
	swapped[k] = best;
	if (best != k)
		swap(top, p.p + best * p.ld, BLOCK);
	for (int64_t i = k + 1; i < n; i++) {
		double *r = p.p + i * p.ld;

		r[k] /= top[k];
		subtract(r + k + 1, top + k + 1, r[k], end - k - 1);
	}
	return true;
}

/* Rows [k, done) of a strip of columns become U's, and what is below is less their product. */
static void eliminate_strips(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct rest *e = ctx;
	const struct mat m = e->m;

	(void)worker;
	for (; begin < end; begin++) {
		int64_t at = e->done + (int64_t)begin * STRIP;
		int64_t n = e->end - at < STRIP ? e->end - at : STRIP;

		for (int64_t i = e->k + 1; i < e->done; i++)
			for (int64_t j = e->k; j < i; j++)
				subtract(m.p + i * m.ld + at, m.p + j * m.ld + at,
					 m.p[i * m.ld + j], n);
		RLX_K(mat_minus)(mat_at(m, e->done, at), mat_at(m, e->done, e->k),
				 mat_at(m, e->k, at), e->rows - e->done, n, e->done - e->k);
	}
}

static void eliminate(struct mat m, int64_t n, int64_t k, int64_t done, int64_t end,
		      const struct rlx_k_team *team)
{
	struct rest e = { .m = m, .k = k, .done = done, .end = end, .rows = n };

	mat_share(team, eliminate_strips, &e, strips(end - done));
}

/* Columns [k, end), which lie in p[n - k][BLOCK], in narrow blocks */
static bool factorise(struct mat p, int64_t n, int64_t end, int64_t *swapped)
{
	for (int64_t l = 0; l < end; l += NARROW) {
		int64_t done = l + NARROW < end ? l + NARROW : end;

		for (int64_t j = l; j < done; j++)
			if (!pivot(p, n, j, done, swapped))
				return false;
		eliminate(p, n, l, done, end, NULL);
	}
	return true;
}

/* m becomes L and U; row i of it was row[i]. @panel: n BLOCK */
static bool lu(struct mat m, int64_t n, double *row, double *panel, int *sign,
	       const struct rlx_k_team *team)
{
	const struct mat p = { panel, BLOCK };
	int64_t swapped[BLOCK];

	*sign = 1;
	for (int64_t i = 0; i < n; i++)
		row[i] = (double)i;
	for (int64_t k = 0; k < n; k += BLOCK) {
		int64_t end = k + BLOCK < n ? k + BLOCK : n;
		const size_t width = (size_t)(end - k) * sizeof(double);

		for (int64_t i = k; i < n; i++)
			memcpy(p.p + (i - k) * BLOCK, m.p + i * m.ld + k, width);
		if (!factorise(p, n - k, end - k, swapped))
			return false;
		for (int64_t j = k; j < end; j++) {
			int64_t other = k + swapped[j - k];

			if (other == j)
				continue;
			swap(m.p + j * m.ld, m.p + other * m.ld, n);
			swap(row + j, row + other, 1);
			*sign = -*sign;
		}
		for (int64_t i = k; i < n; i++)
			memcpy(m.p + i * m.ld + k, p.p + (i - k) * BLOCK, width);
		eliminate(m, n, k, end, n, team);
	}
	return true;
}

struct solve {
	struct mat	m, b;
	int64_t		n, k;
	bool		upper, unit;
};

/* A block of @s: row l of those that are solved one after the other is row first + l step. */
struct block {
	const struct solve	*s;
	struct mat		b;
	int64_t			first, step, len;
};

RLX_INLINE const double *factors(const struct block *e, int64_t l)
{
	return e->s->m.p + (e->first + l * e->step) * e->s->m.ld + e->first;
}

/*
 * @v vectors of columns, of which the last ones may overlap, so that @columns are all; as many
 * rows at a time as there are registers for, behind the last one that one again.
 */
RLX_INLINE void solve_vectors(const struct block *e, double *b, int64_t columns, int v)
{
	const int rows = SOLVE_REGS / v;
	int64_t at[SOLVE_REGS];
	vd x[SOLVE_REGS];

	for (int c = 0; c < v; c++)
		at[c] = (c + 1) * RLX_VLD < columns ? c * RLX_VLD : columns - RLX_VLD;
	for (int64_t l = 0; l < e->len; l += rows) {
		const double *f[SOLVE_REGS];
		double *y[SOLVE_REGS];

		RLX_UNROLL
		for (int r = 0; r < rows; r++) {
			const int64_t i = l + r < e->len ? l + r : e->len - 1;

			f[r] = factors(e, i);
			y[r] = b + (e->first + i * e->step) * e->b.ld;
			RLX_UNROLL
			for (int c = 0; c < v; c++)
				x[r * v + c] = vd_loadu(y[r] + at[c]);
		}
		for (int64_t j = 0; j < l; j++) {
			const double *known = b + (e->first + j * e->step) * e->b.ld;

			RLX_UNROLL
			for (int c = 0; c < v; c++) {
				const vd t = vd_loadu(known + at[c]);

				RLX_UNROLL
				for (int r = 0; r < rows; r++)
					x[r * v + c] -= t * f[r][j * e->step];
			}
		}
		RLX_UNROLL
		for (int r = 0; r < rows; r++) {
			if (l + r == e->len)
				return;
			RLX_UNROLL
			for (int c = 0; c < v; c++) {
				RLX_UNROLL
				for (int q = 0; q < r; q++)
					x[r * v + c] -= x[q * v + c] * f[r][(l + q) * e->step];
				if (!e->s->unit)
					x[r * v + c] /= f[r][(l + r) * e->step];
			}
			RLX_UNROLL
			for (int c = 0; c < v; c++)
				vd_storeu(y[r] + at[c], x[r * v + c]);
		}
	}
}

/* Fewer columns than a vector has lanes */
static void solve_few(const struct block *e, int64_t columns)
{
	for (int64_t l = 0; l < e->len; l++)
		for (int64_t c = 0; c < columns; c++) {
			const double *f = factors(e, l);
			double *b = e->b.p + e->first * e->b.ld + c, x = b[l * e->step * e->b.ld];

			for (int64_t j = 0; j < l; j++)
				x -= b[j * e->step * e->b.ld] * f[j * e->step];
			b[l * e->step * e->b.ld] = e->s->unit ? x : x / f[l * e->step];
		}
}

static void solve_block(const struct block *e, int64_t k)
{
	enum { MOST = 4 * RLX_VLD };
	int64_t some;

	if (k < RLX_VLD)
		solve_few(e, k);
	for (int64_t c = 0; k >= RLX_VLD && c < k; c += some) {
		some = k - c < MOST ? k - c : MOST;
		if (k - c - some && k - c - some < RLX_VLD)	/* these are to be a vector */
			some -= RLX_VLD;
		/* the portable level is small: columns are solved for twice there */
		if (RLX_VB > 16 && some <= 2 * RLX_VLD)
			solve_vectors(e, e->b.p + c, some, 2);
		else
			solve_vectors(e, e->b.p + c, some, 4);
	}
}

static void solve_columns(const struct solve *s, struct mat b, int64_t k)
{
	const struct mat m = s->m;
	const int64_t n = s->n;

	for (int64_t done = 0; done < n; done += BLOCK) {
		int64_t len = n - done < BLOCK ? n - done : BLOCK;
		int64_t from = s->upper ? n - done - len : done, to = from + len;

		solve_block(&(struct block){ s, b, s->upper ? to - 1 : from, s->upper ? -1 : 1,
					     len }, k);
		if (s->upper)
			RLX_K(mat_minus)(b, mat_at(m, 0, from), mat_at(b, from, 0), from, k, len);
		else
			RLX_K(mat_minus)(mat_at(b, to, 0), mat_at(m, to, from), mat_at(b, from, 0),
					 n - to, k, len);
	}
}

static void solve_strips(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct solve *s = ctx;

	(void)worker;
	for (; begin < end; begin++) {
		int64_t at = (int64_t)begin * STRIP;

		solve_columns(s, mat_at(s->b, 0, at), s->k - at < STRIP ? s->k - at : STRIP);
	}
}

/* s.b[n][k] becomes the solution by the lower or the upper triangle of s.m */
static void triangle(struct solve s, bool upper, bool unit, const struct rlx_k_team *team)
{
	s.upper = upper;
	s.unit = unit;
	mat_share(team, solve_strips, &s, strips(s.k));
}

/*
 * The block at row k; the numbers above its diagonal are not read. By columns, which are rows of
 * @u: a row of the root at a time, and its products taken from those that follow.
 */
static bool small_root(struct mat m, int64_t k, int64_t end)
{
	const int64_t n = end - k;
	double u[BLOCK * BLOCK];

	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j <= i; j++)
			u[j * BLOCK + i] = m.p[(k + i) * m.ld + k + j];
	for (int64_t j = 0; j < n; j++) {
		double *r = u + j * BLOCK, by;

		if (!(r[j] > 0 && r[j] < INFINITY))
			return false;
		r[j] = sqrt(r[j]);
		by = 1 / r[j];
		for (int64_t i = j + 1; i < n; i++)
			r[i] *= by;
		for (int64_t i = j + 1; i < n; i++)
			subtract(u + i * BLOCK + i, r + i, r[i], n - i);
	}
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j <= i; j++)
			m.p[(k + i) * m.ld + k + j] = u[j * BLOCK + i];
	return true;
}

/* Rows of columns [k, done), by the root of the block, through t[BLOCK][n] */
static void root_rows(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct rest *e = ctx;
	const int64_t width = e->done - e->k;

	(void)worker;
	for (; begin < end; begin++) {
		int64_t at = e->done + (int64_t)begin * STRIP;
		int64_t rows = e->end - at < STRIP ? e->end - at : STRIP;
		const struct mat t = mat_at(e->t, 0, at), m = mat_at(e->m, at, e->k);

		RLX_K(mat_transpose)(t, m, rows, width);
		for (int64_t j = 0; j < width; j++) {
			const double *c = e->m.p + (e->k + j) * e->m.ld + e->k;

			for (int64_t l = 0; l < j; l++)
				subtract(t.p + j * t.ld, t.p + l * t.ld, c[l], rows);
			for (int64_t i = 0; i < rows; i++)
				t.p[j * t.ld + i] /= c[j];
		}
		RLX_K(mat_transpose)(m, t, width, rows);
	}
}

/* What is right of them, up to the diagonal */
static void root_rest(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct rest *e = ctx;

	(void)worker;
	for (; begin < end; begin++) {
		int64_t at = e->done + (int64_t)begin * STRIP;
		int64_t rows = e->end - at < STRIP ? e->end - at : STRIP;

		RLX_K(mat_minus)(mat_at(e->m, at, e->done), mat_at(e->m, at, e->k),
				 mat_at(e->t, 0, e->done), rows, at + rows - e->done,
				 e->done - e->k);
	}
}

/* m's lower triangle becomes L; @t[BLOCK][n] is for columns as rows. */
static bool cholesky(struct mat m, int64_t n, double *t, const struct rlx_k_team *team)
{
	for (int64_t k = 0; k < n; k += BLOCK) {
		int64_t done = k + BLOCK < n ? k + BLOCK : n;
		struct rest e = { .m = m, .t = { t, n }, .k = k, .done = done, .end = n };

		if (!small_root(m, k, done))
			return false;
		mat_share(team, root_rows, &e, strips(n - done));
		mat_share(team, root_rest, &e, strips(n - done));
	}
	return true;
}

/* Matrix @u, of which a triangle or the symmetric part counts, whole: below the diagonal, then. */
static void load(const struct rlx_k_linalg *a, size_t u, double *m)
{
	const size_t n = (size_t)a->n;
	const bool mean = a->kind == RLX_K_CHOLESKY;

	RLX_K(linalg_load)(a, a->a, u * (size_t)a->a_step, m, n * n);
	for (size_t i = 0; (mean || a->transposed) && i < n; i++)
		for (size_t j = 0; j < i; j++) {
			double lo = m[i * n + j], hi = m[j * n + i];

			m[i * n + j] = mean ? (lo + hi) / 2 : hi;
			m[j * n + i] = mean ? 0 : lo;
		}
	for (size_t i = 0; mean && i < n; i++)
		m[i * n + i] += a->jitter;
}

/* The product of the diagonal of L U, or its sign and logarithm; @ok: there is one */
static void store_det(const struct rlx_k_linalg *a, size_t u, const double *m, int sign, bool ok)
{
	const size_t n = (size_t)a->n;
	double det = ok ? sign : 0, log_of = ok ? 0 : -INFINITY;

	for (size_t i = 0; ok && i < n; i++) {
		double x = m[i * n + i];

		if (a->kind == RLX_K_DET) {
			det *= x;
		} else {
			det = x < 0 ? -det : det;
			log_of += log(fabs(x));
		}
	}
	RLX_K(linalg_store)(a, a->y, u, &det, 1);
	if (a->kind == RLX_K_SLOGDET)
		RLX_K(linalg_store)(a, a->y2, u, &log_of, 1);
}

static bool one(const struct rlx_k_linalg *a, size_t u, double *work)
{
	const size_t n = (size_t)a->n, k = (size_t)a->k;
	struct mat m = { work, a->n }, y = { work + n * n, a->k };
	double *row = y.p + n * k, *spare = row + n;
	const struct solve s = { .m = m, .b = y, .n = a->n, .k = a->k };
	bool ok = true;
	int sign;

	load(a, u, m.p);
	switch (a->kind) {
	case RLX_K_CHOLESKY:
		if (!cholesky(m, a->n, spare, a->team))
			return false;
		for (size_t i = 0; i < n; i++)	/* products reach beyond the triangle */
			memset(m.p + i * n + i + 1, 0, (n - i - 1) * sizeof(double));
		RLX_K(linalg_store)(a, a->y, u * n * n, m.p, n * n);
		return true;
	case RLX_K_TRIANGULAR:
		RLX_K(linalg_load)(a, a->b, u * (size_t)a->b_step, y.p, n * k);
		triangle(s, a->upper != a->transposed, a->unit, a->team);
		break;
	case RLX_K_SOLVE:
		if (!lu(m, a->n, row, spare, &sign, a->team))
			return false;
		for (size_t i = 0; i < n; i++)
			RLX_K(linalg_load)(a, a->b, u * (size_t)a->b_step + (size_t)row[i] * k,
					   y.p + i * k, k);
		triangle(s, false, true, a->team);
		triangle(s, true, false, a->team);
		break;
	default:
		ok = lu(m, a->n, row, spare, &sign, a->team);
		store_det(a, u, m.p, sign, ok);
		return true;
	}
	RLX_K(linalg_store)(a, a->y, u * n * k, y.p, n * k);
	return true;
}

void RLX_K(linalg)(const void *args, size_t begin, size_t end, void *scratch)
{
	linalg_each(args, begin, end, scratch, one);
}
#endif
