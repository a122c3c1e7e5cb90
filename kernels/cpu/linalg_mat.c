// SPDX-License-Identifier: MIT
/* Products and blocks of reflections in double. */
#include "kernels/cpu/linalg_mat.h"

#ifndef RLX_V512
/* A register tile is ROWS x WIDE; DEPTH rows of B are laid out one behind the other. */
enum { WIDE = 2 * RLX_VLD, ROWS = RLX_VB == 32 ? 6 : 4, DEPTH = 256, STRIP = 64 };

RLX_INLINE void minus_tile(struct mat c, struct mat a, struct mat b, int64_t k, int rows, size_t n)
{
	vd s[ROWS][2];

	RLX_UNROLL
	for (int i = 0; i < rows; i++)
		s[i][0] = s[i][1] = vd_zero();
	for (int64_t l = 0; l < k; l++) {
		vd x = vd_loadu(b.p + l * b.ld), y = vd_loadu(b.p + l * b.ld + RLX_VLD);

		RLX_UNROLL
		for (int i = 0; i < rows; i++) {
			s[i][0] += x * a.p[i * a.ld + l];
			s[i][1] += y * a.p[i * a.ld + l];
		}
	}
	RLX_UNROLL
	for (int i = 0; i < rows; i++) {
		double *p = c.p + i * c.ld;

		if (n >= WIDE) {
			vd_storeu(p, vd_loadu(p) - s[i][0]);
			vd_storeu(p + RLX_VLD, vd_loadu(p + RLX_VLD) - s[i][1]);
			continue;
		}
		vd_storen(p, vd_loadn(p, n) - s[i][0], n);
		if (n > RLX_VLD)
			vd_storen(p + RLX_VLD, vd_loadn(p + RLX_VLD, n - RLX_VLD) - s[i][1],
				  n - RLX_VLD);
	}
}

/* Columns of one tile */
static void minus_column(struct mat c, struct mat a, struct mat b, int64_t m, int64_t k, size_t n)
{
	int64_t i = 0;

	for (; i + ROWS <= m; i += ROWS)
		minus_tile(mat_at(c, i, 0), mat_at(a, i, 0), b, k, ROWS, n);
	if (i + ROWS / 2 <= m) {
		minus_tile(mat_at(c, i, 0), mat_at(a, i, 0), b, k, ROWS / 2, n);
		i += ROWS / 2;
	}
	for (; i < m; i++)
		minus_tile(mat_at(c, i, 0), mat_at(a, i, 0), b, k, 1, n);
}

void RLX_K(mat_minus)(struct mat c, struct mat a, struct mat b, int64_t m, int64_t n, int64_t k)
{
	_Alignas(64) double panel[DEPTH * WIDE];

	for (int64_t l = 0; l < k; l += DEPTH) {
		int64_t depth = k - l < DEPTH ? k - l : DEPTH;

		for (int64_t j = 0; j < n; j += WIDE) {
			const size_t left = (size_t)(n - j);
			const double *from = b.p + l * b.ld + j;

			if (left >= WIDE && m <= 2 * ROWS) {
				minus_column(mat_at(c, 0, j), mat_at(a, 0, l), mat_at(b, l, j), m, depth,
					     left);
				continue;
			}
			for (int64_t i = 0; i < depth; i++) {
				const double *p = from + i * b.ld;
				vd more = left > RLX_VLD ? vd_loadn(p + RLX_VLD, left - RLX_VLD) :
							   vd_zero();

				vd_storeu(panel + i * WIDE, vd_loadn(p, left));
				vd_storeu(panel + i * WIDE + RLX_VLD, more);
			}
			minus_column(mat_at(c, 0, j), mat_at(a, 0, l), (struct mat){ panel, WIDE },
				     m, depth, left);
		}
	}
}

void RLX_K(mat_transpose)(struct mat y, struct mat x, int64_t m, int64_t n)
{
	enum { STEP = 8 };

	for (int64_t i = 0; i < m; i += STEP)
		for (int64_t j = 0; j < n; j += STEP)
			for (int64_t c = j; c < j + STEP && c < n; c++)
				for (int64_t r = i; r < i + STEP && r < m; r++)
					y.p[c * y.ld + r] = x.p[r * x.ld + c];
}

void RLX_K(mat_scale)(double *x, double f, size_t n)
{
	for (size_t i = 0; f != 1 && i < n; i++)
		x[i] *= f;
}

double RLX_K(mat_scale_of)(const double *x, size_t n)
{
	double most = 0, none = 0;
	int e;

	for (size_t i = 0; i < n; i++) {
		most = fabs(x[i]) > most ? fabs(x[i]) : most;
		none += x[i] * 0;	/* stays 0, or becomes NaN */
	}
	if (none != 0)
		return 0;
	if (most == 0 || (most > 0x1p-300 && most < 0x1p300))
		return 1;
	frexp(most, &e);
	return ldexp(1, -e > 1000 ? 1000 : -e);
}

/* t = the triangle of I - v t v' = H_j H_j+1 .., @at transposed of it, of the block at column j */
static void triangle(const struct reflections *r, int64_t j, int64_t width, bool transposed)
{
	enum { B = RLX_K_LINALG_BLOCK };
	const struct mat v = reflect_block(r, j), vt = { r->transposed, r->m - j };
	double *g = r->t, *t = g + B * B;

	RLX_K(mat_transpose)(vt, v, r->m - j, width);
	memset(g, 0, 2 * B * B * sizeof(*g));
	RLX_K(mat_minus)((struct mat){ g, B }, vt, v, width, width, r->m - j);
	for (int64_t c = 0; c < width; c++) {
		double tau = r->tau[j + c];

		for (int64_t i = 0; i < c; i++) {
			double s = 0;

			for (int64_t l = i; l < c; l++)
				s += (transposed ? t[l * B + i] : t[i * B + l]) * g[l * B + c];
			t[transposed ? c * B + i : i * B + c] = tau * s;	/* g is negative */
		}
		t[c * B + c] = tau;
	}
}

struct by {
	const struct reflections *r;
	struct mat	c;
	int64_t		j, n, width;
};

static void by_strips(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	enum { B = RLX_K_LINALG_BLOCK };
	const struct by *b = ctx;
	const struct mat v = reflect_block(b->r, b->j), vt = { b->r->transposed, b->r->m - b->j };
	const struct mat t = { b->r->t + B * B, B };
	_Alignas(64) double w[B * STRIP], y[B * STRIP];

	(void)worker;
	for (; begin < end; begin++) {
		int64_t at = (int64_t)begin * STRIP, n = b->n - at < STRIP ? b->n - at : STRIP;
		struct mat c = mat_at(b->c, 0, at);

		memset(w, 0, sizeof(w));
		memset(y, 0, sizeof(y));
		/* w = -v' c, y = t v' c, c -= v y */
		RLX_K(mat_minus)((struct mat){ w, STRIP }, vt, c, b->width, n, vt.ld);
		RLX_K(mat_minus)((struct mat){ y, STRIP }, t, (struct mat){ w, STRIP }, b->width, n,
				 b->width);
		RLX_K(mat_minus)(c, v, (struct mat){ y, STRIP }, vt.ld, n, b->width);
	}
}

void RLX_K(reflect_by)(const struct reflections *r, int64_t j, bool transposed, struct mat c,
		       int64_t n, const struct rlx_k_team *team)
{
	const int64_t b = RLX_K_LINALG_BLOCK;
	struct by by = { .r = r, .c = c, .j = j, .n = n, .width = r->k - j < b ? r->k - j : b };

	if (n <= 0)
		return;
	triangle(r, j, by.width, transposed);
	mat_share(team, by_strips, &by, (uint64_t)((n + STRIP - 1) / STRIP));
}

void RLX_K(reflect_form)(const struct reflections *r, struct mat q, int64_t n,
			 const struct rlx_k_team *team)
{
	const int64_t b = RLX_K_LINALG_BLOCK;

	for (int64_t i = 0; i < r->m; i++) {
		memset(q.p + i * q.ld, 0, (size_t)n * sizeof(double));
		if (i < n)
			q.p[i * q.ld + i] = 1;
	}
	for (int64_t j = (r->k - 1) / b * b; r->k && j >= 0; j -= b)
		RLX_K(reflect_by)(r, j, false, mat_at(q, j, j), n - j, team);
}

void RLX_K(linalg_load)(const struct rlx_k_linalg *a, const void *from, size_t at, double *to,
			size_t n)
{
	RLX_K(loader)(RLX_EW_F64, a->type)(to, (const char *)from +
			at * rlx_k_type_size((enum rlx_dtype)a->type), n);
}

void RLX_K(linalg_store)(const struct rlx_k_linalg *a, void *to, size_t at, const double *from,
			 size_t n)
{
	RLX_K(storer)(RLX_EW_F64, a->type)((char *)to +
			at * rlx_k_type_size((enum rlx_dtype)a->type), from, n);
}
#endif
