// SPDX-License-Identifier: MIT
/* Pooling of doubles, and the gradient of its maxima. */
#include <math.h>

#define PT		double
#define PT_LANE		int64_t
#define PT_ABS(x)	abs_of(x)
#define PT_SQRT(x)	root_of(x)
#define PT_FMA(a, b, c)	vd_fma(a, b, c)
#define PT_FNMA(a, b, c)	vd_fma(-(a), b, c)
#define PT_MAX(a, b)	max_nan(a, b)
#include "kernels/simd/vec.h"

typedef int64_t vl __attribute__((vector_size(RLX_VB)));

/* NaN in either gives NaN. */
RLX_INLINE vd max_nan(vd a, vd b)
{
	vl first = (a > b) | (a != a);

	return (vd)(((vl)a & first) | ((vl)b & ~first));
}

RLX_INLINE vd root_of(vd x)
{
	for (size_t i = 0; i < RLX_VB / sizeof(double); i++)
		x[i] = sqrt(x[i]);
	return x;
}

RLX_INLINE vd abs_of(vd x)
{
	return (vd)((vl)x & INT64_MAX);
}

#include "kernels/cpu/pool_plain.h"
#include "kernels/cpu/max_pool_grad.h"

rlx_k_fn RLX_K(pool_f64), RLX_K(max_pool_grad_f64);

void RLX_K(pool_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	pool_plain(args, begin, end, scratch);
}

void RLX_K(max_pool_grad_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	max_pool_grad(args, begin, end, scratch);
}
