// SPDX-License-Identifier: MIT
/* Softmax of doubles: rows by vectors along them, other lines by vectors of lines. */
#include <math.h>

#include "kernels/kernel.h"
#include "kernels/simd/math_f64.h"
#include "kernels/softmax.h"

rlx_k_fn RLX_K(softmax_f64);

/* The greater; a NaN in y makes the sum NaN later, so this may miss it. */
RLX_INLINE vd greater(vd x, vd y)
{
	return vd_sel(y > x, y, x);
}

/* What is beyond a row's end: -inf, of which e^ is 0. */
RLX_INLINE vd load_row(const double *x, size_t n)
{
	vd v = vd_set1(-INFINITY);

	if (n >= RLX_VLD)
		return vd_loadu(x);
	memcpy(&v, x, n * sizeof(*x));
	return v;
}

static double row_max(const double *x, size_t n)
{
	vd m = vd_set1(-INFINITY);
	double t[RLX_VLD];

	for (size_t i = 0; i < n; i += RLX_VLD)
		m = greater(m, load_row(x + i, n - i));
	vd_storeu(t, m);
	for (size_t i = 1; i < RLX_VLD; i++)
		t[0] = t[i] > t[0] ? t[i] : t[0];
	return t[0];
}

static void row(double *y, const double *x, size_t n, bool log_of)
{
	const double max = row_max(x, n);
	vd s = vd_zero(), by;

	for (size_t i = 0; i < n; i += RLX_VLD) {
		vd e = vd_exp(load_row(x + i, n - i) - max);

		s += e;
		if (!log_of)
			vd_storen(y + i, e, n - i);
	}
	by = vd_set1(vd_hsum(s));
	if (log_of)
		by = vd_log(by);
	for (size_t i = 0; i < n; i += RLX_VLD)
		vd_storen(y + i, log_of ? vd_loadn(x + i, n - i) - max - by :
					  vd_loadn(y + i, n - i) / by, n - i);
}

/* Up to RLX_VLD lines side by side, their elements @step apart. */
static void lines(double *y, const double *x, size_t n, size_t step, size_t wide, bool log_of)
{
	vd max = vd_set1(-INFINITY), s = vd_zero();

	for (size_t i = 0; i < n * step; i += step)
		max = greater(max, vd_loadn(x + i, wide));
	for (size_t i = 0; i < n * step; i += step) {
		vd e = vd_exp(vd_loadn(x + i, wide) - max);

		s += e;
		if (!log_of)
			vd_storen(y + i, e, wide);
	}
	if (log_of)
		s = vd_log(s);
	for (size_t i = 0; i < n * step; i += step)
		vd_storen(y + i, log_of ? vd_loadn(x + i, wide) - max - s :
					  vd_loadn(y + i, wide) / s, wide);
}

void RLX_K(softmax_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_softmax *a = args;
	const size_t inner = (size_t)a->inner, n = (size_t)a->n;
	size_t wide;

	(void)scratch;
	for (size_t u = begin; u < end; u += wide) {
		size_t at = u / inner * n * inner + u % inner;
		const double *x = (const double *)a->x + at;
		double *y = (double *)a->y + at;

		wide = inner - u % inner < end - u ? inner - u % inner : end - u;
		wide = wide < RLX_VLD ? wide : RLX_VLD;
		if (inner == 1)
			row(y, x, n, a->log);
		else
			lines(y, x, n, inner, wide, a->log);
	}
}
