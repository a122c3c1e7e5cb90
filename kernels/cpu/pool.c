// SPDX-License-Identifier: MIT
/* Pooling of floats, and the gradient of its maxima. */
#define PT		float
#define PT_LANE		int32_t
#define PT_ABS(x)	vf_abs(x)
#define PT_SQRT(x)	vf_sqrt(x)
#define PT_FMA(a, b, c)	vf_fma(a, b, c)
#define PT_FNMA(a, b, c)	vf_fnma(a, b, c)
#define PT_MAX(a, b)	vf_max_nan(a, b)
#include "kernels/cpu/pool_plain.h"
#include "kernels/cpu/pool_planes.h"
#include "kernels/cpu/max_pool_grad.h"

rlx_k_fn RLX_K(pool_f32), RLX_K(max_pool_grad_f32);

void RLX_K(pool_f32)(const void *args, size_t begin, size_t end, void *scratch)
{
	begin = pool_planes(args, begin, end, scratch);
	if (begin < end)
		pool_plain(args, begin, end, scratch);
}

void RLX_K(max_pool_grad_f32)(const void *args, size_t begin, size_t end, void *scratch)
{
	max_pool_grad(args, begin, end, scratch);
}
