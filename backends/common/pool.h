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
 * Why a CPU has no kernel for a pool of this much @scratch, in bytes, of elements of @elem bytes;
 * NULL: it has. @argmax: maxima's places are wanted.
 */
const char *rlx_lower_pool_excess(const struct rlx_k_pool *a, bool argmax, size_t scratch,
				  size_t elem);

#endif
