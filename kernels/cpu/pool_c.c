// SPDX-License-Identifier: MIT
/* Pooling in the blocked layout: lanes are channels. */
#include <math.h>

#include "kernels/cpu/pool_taps.h"
#include "kernels/pool.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(pool_c);

#define C	RLX_VL

/* One window; @x is its first tap inside, @ny by @nx of them. */
RLX_INLINE vf window(const struct rlx_k_pool *a, const float *x, size_t ny,
		     size_t nx, const bool max)
{
	vf acc = vf_set1(max ? -INFINITY : 0);

	for (size_t i = 0; i < ny; i++) {
		const float *p = x + i * a->d[1] * a->in[2] * C;

		for (size_t j = 0; j < nx; j++, p += a->d[2] * C)
			acc = max ? vf_max_nan(acc, vf_loadu(p)) :
				    acc + vf_loadu(p);
	}
	return acc;
}

static void row_run(const struct rlx_k_pool *a, const float *x, float *y,
		    size_t oy)
{
	ptrdiff_t iy = (ptrdiff_t)(oy * a->s[1]) - (ptrdiff_t)a->p[1], ix;
	size_t sy[2], sx[2], pad[2], ny, count, ox;

	taps_inside(iy, a->k[1], a->d[1], a->in[1] + a->p_end[1], pad);
	taps_inside(iy, a->k[1], a->d[1], a->in[1], sy);
	ny = sy[1] - sy[0];
	if (ny)
		x += ((size_t)iy + sy[0] * a->d[1]) * a->in[2] * C;
	for (ox = 0; ox < a->out[2]; ox++, y += C) {
		const float *p = x;
		vf v;

		ix = (ptrdiff_t)(ox * a->s[2]) - (ptrdiff_t)a->p[2];
		taps_inside(ix, a->k[2], a->d[2], a->in[2], sx);
		if (sx[1] > sx[0])
			p += ((size_t)ix + sx[0] * a->d[2]) * C;
		if (a->kind == RLX_K_POOL_MAX) {
			vf_storeu(y, window(a, p, ny, sx[1] - sx[0], true));
			continue;
		}
		v = window(a, p, ny, sx[1] - sx[0], false);
		count = ny * (sx[1] - sx[0]);
		if (a->include_pad) {
			taps_inside(ix, a->k[2], a->d[2],
				    a->in[2] + a->p_end[2], sx);
			count = pad[1] * sx[1];
		}
		vf_storeu(y, count ? v / (float)count : vf_zero());
	}
}

void RLX_K(pool_c)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_pool *a = args;

	(void)scratch;
	for (size_t u = begin; u < end; u++)
		row_run(a, a->x + u / a->out[1] * a->in[1] * a->in[2] * C,
			a->y + u * a->out[2] * C, u % a->out[1]);
}
