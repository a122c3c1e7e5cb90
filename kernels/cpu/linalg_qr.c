// SPDX-License-Identifier: MIT
/* Orthonormal columns and a triangle, by Householder's reflections in blocks. */
#include "kernels/cpu/linalg_mat.h"

#ifndef RLX_V512
rlx_k_fn RLX_K(linalg_qr);

/* Columns [j, j + width) of x become a block of reflections and R's columns. */
static void panel(const struct reflections *r, struct mat x, int64_t j, int64_t width)
{
	enum { B = RLX_K_LINALG_BLOCK };
	const struct mat v = reflect_block(r, j);
	const int64_t rows = r->m - j;
	double w[B], beta, by;

	for (int64_t i = 0; i < rows; i++) {
		memcpy(v.p + i * B, x.p + (j + i) * x.ld + j, (size_t)width * sizeof(double));
		memset(v.p + i * B + width, 0, (size_t)(B - width) * sizeof(double));
	}
	for (int64_t c = 0; c < width; c++) {
		double rest = 0, tau;

		for (int64_t i = c + 1; i < rows; i++)
			rest += v.p[i * B + c] * v.p[i * B + c];
		tau = r->tau[j + c] = reflect_make(v.p[c * B + c], rest, &beta, &by);
		memcpy(w, v.p + c * B, sizeof(w));
		for (int64_t i = c + 1; i < rows; i++) {
			double f = v.p[i * B + c] *= by;

			for (int64_t l = 0; l < B; l++)
				w[l] += f * v.p[i * B + l];
		}
		memset(w, 0, (size_t)(c + 1) * sizeof(double));
		for (int64_t l = c + 1; l < width; l++)
			v.p[c * B + l] -= w[l] *= tau;
		for (int64_t i = c + 1; i < rows; i++) {
			const double f = v.p[i * B + c];

			for (int64_t l = 0; l < B; l++)
				v.p[i * B + l] -= f * w[l];
		}
		v.p[c * B + c] = beta;
	}
	for (int64_t i = 0; i < width && i < rows; i++) {
		memcpy(x.p + (j + i) * x.ld + j + i, v.p + i * B + i,
		       (size_t)(width - i) * sizeof(double));
		memset(v.p + i * B + i, 0, (size_t)(width - i) * sizeof(double));
		v.p[i * B + i] = 1;
	}
}

static bool one(const struct rlx_k_linalg *a, size_t u, double *work)
{
	const int64_t m = a->m, n = a->n, k = m < n ? m : n;
	const struct mat x = { work, n }, q = { work + m * n, k };
	const struct reflections r = reflections_at(q.p + m * k, m, k);
	double scale;

	RLX_K(linalg_load)(a, a->a, u * (size_t)(m * n), x.p, (size_t)(m * n));
	scale = RLX_K(mat_scale_of)(x.p, (size_t)(m * n));
	RLX_K(mat_scale)(x.p, scale ? scale : NAN, (size_t)(m * n));
	for (int64_t j = 0; scale && j < k; j += RLX_K_LINALG_BLOCK) {
		int64_t width = k - j < RLX_K_LINALG_BLOCK ? k - j : RLX_K_LINALG_BLOCK;

		panel(&r, x, j, width);
		RLX_K(reflect_by)(&r, j, true, mat_at(x, j, j + width), n - j - width, a->team);
	}
	if (scale)
		RLX_K(reflect_form)(&r, q, k, a->team);
	else
		for (int64_t i = 0; i < m * k; i++)
			q.p[i] = NAN;
	for (int64_t i = 0; i < k; i++) {
		double sign = x.p[i * n + i] < 0 ? -1 : 1;

		memset(x.p + i * n, 0, (size_t)i * sizeof(double));
		RLX_K(mat_scale)(x.p + i * n + i, sign / (scale ? scale : 1), (size_t)(n - i));
		for (int64_t l = 0; sign < 0 && l < m; l++)
			q.p[l * k + i] = -q.p[l * k + i];
	}
	RLX_K(linalg_store)(a, a->y, u * (size_t)(m * k), q.p, (size_t)(m * k));
	RLX_K(linalg_store)(a, a->y2, u * (size_t)(k * n), x.p, (size_t)(k * n));
	return true;
}

void RLX_K(linalg_qr)(const void *args, size_t begin, size_t end, void *scratch)
{
	linalg_each(args, begin, end, scratch, one);
}
#endif
