// SPDX-License-Identifier: MIT
/* Determinants by LU, a matrix at a time; at the base level alone, where nothing is contracted. */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/det.h"

rlx_k_fn RLX_K(det);

static void subtract(double *restrict y, const double *restrict x, double f, int64_t n)
{
	for (int64_t j = 0; j < n; j++)
		y[j] -= f * x[j];
}

static double one_det(double *m, int64_t n)
{
	double det = 1, t;

	for (int64_t k = 0; k < n; k++) {
		double *row = m + k * n;
		int64_t p = k, i;

		for (i = k + 1; i < n; i++)
			if (fabs(m[i * n + k]) > fabs(m[p * n + k]))
				p = i;
		if (m[p * n + k] == 0)
			return 0;
		for (i = k; p != k && i < n; i++) {
			t = row[i];
			row[i] = m[p * n + i];
			m[p * n + i] = t;
		}
		det *= p != k ? -row[k] : row[k];
		for (i = k + 1; i < n; i++)
			subtract(m + i * n + k + 1, row + k + 1, m[i * n + k] / row[k], n - k - 1);
	}
	return det;
}

void RLX_K(det)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_det *a = args;
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type), all = (size_t)(a->n * a->n);
	rlx_convert_fn *load = RLX_K(loader)(RLX_EW_F64, a->type);
	rlx_convert_fn *store = RLX_K(storer)(RLX_EW_F64, a->type);

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		double *m = a->work + u * all, det;

		load(m, (const char *)a->x + u * all * size, all);
		det = one_det(m, a->n);
		store((char *)a->y + u * size, &det, 1);
	}
}
