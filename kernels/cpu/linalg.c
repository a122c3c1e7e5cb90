// SPDX-License-Identifier: MIT
/*
 * Factorisations and solutions in double, by blocks: what is outside of a block is a product,
 * which is where the time goes; it has tiles of four rows by two vectors.
 */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/linalg.h"
#include "kernels/simd/vec.h"

#ifndef RLX_V512
rlx_k_fn RLX_K(linalg);

enum { BLOCK = RLX_K_LINALG_BLOCK, NARROW = BLOCK / 4, WIDE = 2 * RLX_VLD };

/* Some matrix in memory. */
struct mat {
	double	*p;
	int64_t	ld;
};

static struct mat at(struct mat m, int64_t i, int64_t j)
{
	return (struct mat){ m.p + i * m.ld + j, m.ld };
}

RLX_INLINE void minus_tile(struct mat c, struct mat a, struct mat b, int64_t k, int rows, size_t n)
{
	const size_t more = n > RLX_VLD ? n - RLX_VLD : 0;
	vd s[4][2];

	RLX_UNROLL
	for (int i = 0; i < rows; i++) {
		s[i][0] = vd_loadn(c.p + i * c.ld, n);
		s[i][1] = more ? vd_loadn(c.p + i * c.ld + RLX_VLD, more) : vd_zero();
	}
	for (int64_t l = 0; l < k; l++) {
		vd x = vd_loadn(b.p + l * b.ld, n), y = more ? vd_loadn(b.p + l * b.ld + RLX_VLD,
									more) : vd_zero();

		RLX_UNROLL
		for (int i = 0; i < rows; i++) {
			s[i][0] -= x * a.p[i * a.ld + l];
			s[i][1] -= y * a.p[i * a.ld + l];
		}
	}
	RLX_UNROLL
	for (int i = 0; i < rows; i++) {
		vd_storen(c.p + i * c.ld, s[i][0], n);
		if (more)
			vd_storen(c.p + i * c.ld + RLX_VLD, s[i][1], more);
	}
}

/* c[m][n] -= a[m][k] b[k][n] */
static void minus(struct mat c, struct mat a, struct mat b, int64_t m, int64_t n, int64_t k)
{
	for (int64_t j = 0; j < n; j += WIDE) {
		size_t left = (size_t)(n - j);
		int64_t i = 0;

		for (; left >= WIDE && i + 4 <= m; i += 4)
			minus_tile(at(c, i, j), at(a, i, 0), at(b, 0, j), k, 4, WIDE);
		for (; i < m; i++)
			minus_tile(at(c, i, j), at(a, i, 0), at(b, 0, j), k, 1, left);
	}
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

/* Column @k of L, rows swapped for the largest pivot; columns up to @end follow at once. */
static bool pivot(struct mat m, int64_t n, int64_t k, int64_t end, double *row, int *sign)
{
	double *top = m.p + k * m.ld, t;
	int64_t p = k;

	for (int64_t i = k + 1; i < n; i++)
		if (fabs(m.p[i * m.ld + k]) > fabs(m.p[p * m.ld + k]))
			p = i;
	t = m.p[p * m.ld + k];
	if (t == 0 || !(fabs(t) < INFINITY))
		return false;
	if (p != k) {
		swap(top, m.p + p * m.ld, n);
		t = row[k];
		row[k] = row[p];
		row[p] = t;
		*sign = -*sign;
	}
	for (int64_t i = k + 1; i < n; i++) {
		double *r = m.p + i * m.ld;

		r[k] /= top[k];
		subtract(r + k + 1, top + k + 1, r[k], end - k - 1);
	}
	return true;
}

/* Rows [k, done) of columns [done, end) become U's, and what is below is less their product. */
static void eliminate(struct mat m, int64_t n, int64_t k, int64_t done, int64_t end)
{
	for (int64_t i = k + 1; i < done; i++)
		for (int64_t j = k; j < i; j++)
			subtract(m.p + i * m.ld + done, m.p + j * m.ld + done, m.p[i * m.ld + j],
				 end - done);
	minus(at(m, done, done), at(m, done, k), at(m, k, done), n - done, end - done, done - k);
}

/* m becomes L and U; row i of it was row[i]. In blocks of columns, and in narrow ones of these. */
static bool lu(struct mat m, int64_t n, double *row, int *sign)
{
	*sign = 1;
	for (int64_t i = 0; i < n; i++)
		row[i] = (double)i;
	for (int64_t k = 0; k < n; k += BLOCK) {
		int64_t end = k + BLOCK < n ? k + BLOCK : n;

		for (int64_t l = k; l < end; l += NARROW) {
			int64_t done = l + NARROW < end ? l + NARROW : end;

			for (int64_t j = l; j < done; j++)
				if (!pivot(m, n, j, done, row, sign))
					return false;
			eliminate(m, n, l, done, end);
		}
		eliminate(m, n, k, end, n);
	}
	return true;
}

/* Row i of b[..][k] less what rows [from, to) of the solution give. */
static void solve_row(struct mat m, struct mat b, int64_t i, int64_t from, int64_t to, int64_t k)
{
	for (int64_t j = from; j < to; j++)
		subtract(b.p + i * b.ld, b.p + j * b.ld, m.p[i * m.ld + j], k);
}

/* b[n][k] becomes the solution by the lower or the upper triangle of m */
static void triangle(struct mat m, struct mat b, int64_t n, int64_t k, bool upper, bool unit)
{
	for (int64_t done = 0; done < n; done += BLOCK) {
		int64_t len = n - done < BLOCK ? n - done : BLOCK;
		int64_t from = upper ? n - done - len : done, to = from + len;

		for (int64_t l = 0; l < len; l++) {
			int64_t i = upper ? to - 1 - l : from + l;

			if (upper)
				solve_row(m, b, i, i + 1, to, k);
			else
				solve_row(m, b, i, from, i, k);
			for (int64_t j = 0; !unit && j < k; j++)
				b.p[i * b.ld + j] /= m.p[i * m.ld + i];
		}
		if (upper)
			minus(b, at(m, 0, from), at(b, from, 0), from, k, len);
		else
			minus(at(b, to, 0), at(m, to, from), at(b, from, 0), n - to, k, len);
	}
}

/* m's lower triangle becomes L; @t[BLOCK][n] is for columns as rows. */
static bool cholesky(struct mat m, int64_t n, double *t)
{
	const struct mat turned = { t, n };

	for (int64_t k = 0; k < n; k += BLOCK) {
		int64_t end = k + BLOCK < n ? k + BLOCK : n;

		for (int64_t i = k; i < n; i++) {
			double *r = m.p + i * m.ld;

			for (int64_t j = k; j < end && j <= i; j++) {
				const double *c = m.p + j * m.ld;
				double s = r[j];

				for (int64_t l = k; l < j; l++)
					s -= r[l] * c[l];
				if (i == j && !(s > 0 && s < INFINITY))
					return false;
				r[j] = i == j ? sqrt(s) : s / c[j];
				t[(j - k) * n + i] = r[j];
			}
		}
		for (int64_t i = end; i < n; i += BLOCK) {
			int64_t rows = n - i < BLOCK ? n - i : BLOCK;

			minus(at(m, i, end), at(m, i, k), at(turned, 0, end), rows, i + rows - end,
			      end - k);
		}
	}
	return true;
}

static bool one(const struct rlx_k_linalg *a, size_t u, double *work)
{
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type), n = (size_t)a->n;
	const size_t k = (size_t)a->k;
	rlx_convert_fn *load = RLX_K(loader)(RLX_EW_F64, a->type);
	rlx_convert_fn *store = RLX_K(storer)(RLX_EW_F64, a->type);
	const char *b = (const char *)a->b + u * (size_t)a->b_step * size;
	struct mat m = { work, a->n }, y = { work + n * n, a->k };
	double *row = y.p + n * k, *spare = row + n, logs[2] = { 1, 0 };
	int sign;

	load(m.p, (const char *)a->a + u * (size_t)a->a_step * size, n * n);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++) {
			double lo = m.p[i * n + j], hi = m.p[j * n + i];
			bool mean = a->kind == RLX_K_CHOLESKY;

			m.p[i * n + j] = mean ? (lo + hi) / 2 : a->transposed ? hi : lo;
			m.p[j * n + i] = mean ? 0 : a->transposed ? lo : hi;
		}
	switch (a->kind) {
	case RLX_K_CHOLESKY:
		for (size_t i = 0; i < n; i++)
			m.p[i * n + i] += a->jitter;
		if (!cholesky(m, a->n, spare))
			return false;
		for (size_t i = 0; i < n; i++)	/* products reach beyond the triangle */
			memset(m.p + i * n + i + 1, 0, (n - i - 1) * sizeof(double));
		store((char *)a->y + u * n * n * size, m.p, n * n);
		return true;
	case RLX_K_TRIANGULAR:
		load(y.p, b, n * k);
		triangle(m, y, a->n, a->k, a->upper != a->transposed, a->unit);
		break;
	case RLX_K_SOLVE:
		if (!lu(m, a->n, row, &sign))
			return false;
		for (size_t i = 0; i < n; i++)
			load(y.p + i * k, b + (size_t)row[i] * k * size, k);
		triangle(m, y, a->n, a->k, false, true);
		triangle(m, y, a->n, a->k, true, false);
		break;
	default:
		if (lu(m, a->n, row, &sign))
			for (size_t i = 0; i < n; i++) {
				sign = m.p[i * n + i] < 0 ? -sign : sign;
				logs[1] += log(fabs(m.p[i * n + i]));
			}
		else
			logs[1] = -INFINITY;
		logs[0] = logs[1] > -INFINITY ? sign : 0;
		store((char *)a->y + u * size, &logs[0], 1);
		store((char *)a->y2 + u * size, &logs[1], 1);
		return true;
	}
	store((char *)a->y + u * n * k * size, y.p, n * k);
	return true;
}

void RLX_K(linalg)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_linalg *a = args;

	for (; begin < end; begin++)
		if (!one(a, begin, scratch))
			__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
}
#endif
