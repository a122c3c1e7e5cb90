/* SPDX-License-Identifier: MIT */
/* What lowering of pools and of their gradients share. */
#ifndef RLX_BACKENDS_POOL_H
#define RLX_BACKENDS_POOL_H

#include "backends/common/lower.h"
#include "kernels/pool.h"

/* A pool's lists, as the op has them: all but kernel may be empty. */
struct rlx_pool_lists {
	struct rlx_ints kernel, stride, pad, dilation;
};

/*
 * Fill in planes, sizes, strides and pads of @a for a pool of @x to @y over the first @nd spatial
 * dimensions. Returns the number of a window's taps.
 */
double rlx_lower_pool_geometry(struct rlx_k_pool *a, const struct rlx_type *x,
			       const struct rlx_type *y, size_t nd,
			       const struct rlx_pool_lists *w);

/*
 * Why a CPU has no kernel for a pool that puts so many of the input's rows by phase, to find
 * maxima's places, or 0; NULL: it has.
 */
const char *rlx_lower_pool_excess(const struct rlx_k_pool *a, size_t rows);

#endif
