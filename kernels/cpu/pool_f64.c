// SPDX-License-Identifier: MIT
/* Pooling of doubles. */
#define PT		double
#define PT_ABS(x)	fabs(x)
#define PT_SQRT(x)	sqrt(x)
#include "kernels/cpu/pool_plain.h"

rlx_k_fn RLX_K(pool_f64);

void RLX_K(pool_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	(void)scratch;
	pool_plain(args, begin, end);
}
