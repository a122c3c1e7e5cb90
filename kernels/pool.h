/* SPDX-License-Identifier: MIT */
/*
 * Pooling kernels: plain layout in one to three dimensions, blocked layout
 * (kernels/conv.h) in two. A window that lies wholly in the padding gives
 * -infinity (of integers the least) for max and 0 for the others. NaN in a window gives NaN.
 */
#ifndef RLX_K_POOL_H
#define RLX_K_POOL_H

#include "kernels/kernel.h"

/**
 * enum rlx_k_pool_kind - what a window becomes
 * @RLX_K_POOL_MAX: its largest element
 * @RLX_K_POOL_AVG: sum / count; see include_pad
 * @RLX_K_POOL_LP:  (sum of |x|^lp)^(1/lp)
 */
enum rlx_k_pool_kind {
	RLX_K_POOL_MAX,
	RLX_K_POOL_AVG,
	RLX_K_POOL_LP,
};

/**
 * struct rlx_k_pool - kernels pool_f32, pool_f64, pool_i64, pool_u64 (plain) and pool_c (blocked)
 * @x: pool_f32: plain [planes][in...]; pool_c: blocked, planes is n * blocks
 * @y: likewise [planes][out...]. pool_f64: both are of double; pool_i64, pool_u64: of such
 *	integers, and @kind is RLX_K_POOL_MAX
 * @index: plain with RLX_K_POOL_MAX: where each maximum came from, or NULL;
 *	counts elements of the whole of @x; the first of equals; -1 for a window
 *	wholly in the padding; on a CPU
 *	a plane and the reach of a window's row then have less than 2^31 elements
 * @planes: images times channels, or for pool_c times blocks
 * @in, @out, @k, @s, @d, @p: depth, height, width of input, output, window,
 *	stride, dilation, padding before; unused leading ones are 1 (padding 0).
 *	pool_c: depth is 1
 * @p_end: padding after; only the average with @include_pad looks at it
 * @kind: pool_c: RLX_K_POOL_MAX or RLX_K_POOL_AVG
 * @lp: the exponent of RLX_K_POOL_LP, 1 or more
 * @include_pad: the average counts padding (but nothing beyond @p_end, where
 *	rounding up may have put the last window), else input elements only
 * @type: enum rlx_dtype of x and y on a GPU: f32, bf16 or f16; elsewhere not read
 * @column_major: @index counts a plane's elements with the first dimension
 *	fastest (ONNX storage_order 1)
 * @blocked: on a GPU with strict bits: the innermost dimension is a block of channels, which the
 *	CPU gives to pool_c
 *
 * Out may be anything: windows are cut at the input's edge. One unit is one
 * output row: units = planes * out[0] * out[1]. Scratch: plain
 * rlx_k_pool_scratch() (kernels/pool_layout.h), blocked 0.
 */
struct rlx_k_pool {
	const float	*x;
	float		*y;
	int64_t		*index;
	size_t		planes;
	size_t		in[3], out[3], k[3], s[3], d[3], p[3], p_end[3];
	enum rlx_k_pool_kind kind;
	unsigned int	lp;
	bool		include_pad, column_major, blocked;
	uint8_t		type;
};

/**
 * struct rlx_k_max_pool_grad - kernels max_pool_grad_f32, max_pool_grad_f64 (plain, a CPU's)
 * @pool: x and the geometry of the pool, whose kind is RLX_K_POOL_MAX; y and index are not read
 * @dy: as the pool's y
 * @dx: as its x: each dy is added where the maximum of its window was, the first of equals
 *
 * max_pool_grad_f64: all are of double. A plane has less than 2^31 elements. One unit is one
 * plane. Scratch: rlx_k_max_pool_grad_scratch() (kernels/pool_layout.h).
 */
struct rlx_k_max_pool_grad {
	struct rlx_k_pool pool;
	const float	*dy;
	float		*dx;
};

#endif
