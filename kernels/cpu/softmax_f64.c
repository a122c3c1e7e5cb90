// SPDX-License-Identifier: MIT
/* Softmax of doubles; functions are libm's. */
#include <math.h>

#include "kernels/kernel.h"
#include "kernels/softmax.h"

rlx_k_fn RLX_K(softmax_f64);

/* Elements of a row lie @step apart. A NaN makes the sum NaN, so max may miss it. */
static void row(double *y, const double *x, size_t n, size_t step, bool log_of)
{
	double max = -INFINITY, sum = 0, e;
	size_t i;

	for (i = 0; i < n * step; i += step)
		max = x[i] > max ? x[i] : max;
	for (i = 0; i < n * step; i += step) {
		e = exp(x[i] - max);
		sum += e;
		if (!log_of)
			y[i] = e;
	}
	e = log_of ? log(sum) : sum;
	for (i = 0; i < n * step; i += step)
		y[i] = log_of ? x[i] - max - e : y[i] / e;
}

void RLX_K(softmax_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_softmax *a = args;
	const size_t inner = (size_t)a->inner, n = (size_t)a->n;

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		size_t at = u / inner * n * inner + u % inner;

		row((double *)a->y + at, (const double *)a->x + at, n, inner, a->log);
	}
}
