// SPDX-License-Identifier: MIT
/* Pooling in the plain layout, and global pooling. */
#define PT		float
#define PT_ABS(x)	fabsf(x)
#define PT_SQRT(x)	sqrtf(x)
#include "kernels/cpu/pool_plain.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(pool_f32);
rlx_k_fn RLX_K(global_pool_f32);

void RLX_K(pool_f32)(const void *args, size_t begin, size_t end, void *scratch)
{
	(void)scratch;
	pool_plain(args, begin, end);
}

/* Four vectors at a time; partial sums in lanes keep the rounding small. */
static float plane_fold(const float *x, size_t n, bool max)
{
	const vf init = vf_set1(max ? -INFINITY : 0);
	vf acc[4] = { init, init, init, init };
	size_t i, j;

	for (i = 0; i + 4 * RLX_VL <= n; i += 4 * RLX_VL)
		for (j = 0; j < 4; j++) {
			vf v = vf_loadu(x + i + j * RLX_VL);

			acc[j] = max ? vf_max_nan(acc[j], v) : acc[j] + v;
		}
	for (; i + RLX_VL <= n; i += RLX_VL) {
		vf v = vf_loadu(x + i);

		acc[0] = max ? vf_max_nan(acc[0], v) : acc[0] + v;
	}
	if (!max) {
		acc[1] += vf_loadn(x + i, n - i);
		return vf_hsum((acc[0] + acc[1]) + (acc[2] + acc[3])) /
			(float)n;
	}
	acc[0] = vf_max_nan(vf_max_nan(acc[0], acc[1]),
			    vf_max_nan(acc[2], acc[3]));
	if (vm_any(vf_isnan(acc[0])))
		return NAN;
	for (acc[1] = acc[0]; i < n; i++)
		acc[1] = vf_max_nan(acc[1], vf_set1(x[i]));
	return vm_any(vf_isnan(acc[1])) ? NAN : vf_hmax(acc[1]);
}

void RLX_K(global_pool_f32)(const void *args, size_t begin, size_t end,
			    void *scratch)
{
	const struct rlx_k_global_pool *a = args;

	(void)scratch;
	for (size_t u = begin; u < end; u++)
		a->y[u] = plane_fold(a->x + u * a->pixels, a->pixels,
				     a->kind == RLX_K_POOL_MAX);
}
