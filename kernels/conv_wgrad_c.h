/* SPDX-License-Identifier: MIT */
/*
 * The gradient of a convolution in its weights, of blocked f32: for each tap a GEMM of x's channels
 * by dy's, whose K is pixels. A block of x's channels is broadcast one by one, two blocks of dy's
 * are vectors; both lie as tiles read them, and a tap is a shift of x, so that nothing is copied.
 *
 * Pixels go by in pieces of dy, small enough to stay in L1 for all taps. A piece's sums are made in
 * registers and then added to those before them, which bounds how roundings add up.
 */
#ifndef RLX_K_CONV_WGRAD_C_H
#define RLX_K_CONV_WGRAD_C_H

#include "kernels/conv.h"

/**
 * struct rlx_k_conv_wgrad_c - kernels conv_wgrad_c, then conv_wgrad_c_sum: y[o][c][ky][kx] is the
 * sum over images and dy's pixels of dy[o][oy][ox] x[c][oy sh + ky dh - pt][ox sw + kx dw - pl]
 * @x, @dy: blocked by rlx_conv_block() channels as kernels/conv.h says
 * @y: plain
 * @sums: rlx_conv_wgrad_c_sums() bytes between the kernels, 64-byte aligned
 * @n, @ci, @co: images, channels of x and of dy
 * @ih .. @pl: as in struct rlx_k_conv_c, of the convolution whose gradient it is
 *
 * A unit is a block of x by a pair of blocks of dy, of one part of the pieces. Parts are by the
 * shape alone, and are added in their order: so are a sum's terms.
 */
struct rlx_k_conv_wgrad_c {
	const float	*x, *dy;
	float		*y, *sums;
	size_t		n, ci, co;
	size_t		ih, iw, oh, ow;
	size_t		kh, kw, sh, sw, dh, dw, pt, pl;
	/* derived by rlx_conv_wgrad_c_init() */
	size_t		block;			/* channels of one */
	size_t		xblocks, dyblocks, dypairs;
	size_t		rows, cols, nrows, ncols;	/* of a piece; pieces down, across */
	size_t		parts, part;		/* of all pieces; pieces of one */
};

/* False: not this shape. */
bool rlx_conv_wgrad_c_init(enum rlx_isa isa, struct rlx_k_conv_wgrad_c *a);

/* Of conv_wgrad_c, and of conv_wgrad_c_sum, which has one for each block by each. */
static inline size_t rlx_conv_wgrad_c_units(const struct rlx_k_conv_wgrad_c *a)
{
	return a->parts * a->xblocks * a->dypairs;
}

static inline size_t rlx_conv_wgrad_c_sum_units(const struct rlx_k_conv_wgrad_c *a)
{
	return a->xblocks * a->dyblocks;
}

/* Floats of one part's sums of a block by a block: of dy's, for each tap and channel of x. */
static inline size_t rlx_conv_wgrad_c_square(const struct rlx_k_conv_wgrad_c *a)
{
	return a->kh * a->kw * a->block * a->block;
}

static inline size_t rlx_conv_wgrad_c_sums(const struct rlx_k_conv_wgrad_c *a)
{
	return a->parts * rlx_conv_wgrad_c_sum_units(a) * rlx_conv_wgrad_c_square(a) *
	       sizeof(float);
}

/* Scratch of conv_wgrad_c_sum: the taps of one channel by a block, and those turned. */
static inline size_t rlx_conv_wgrad_c_sum_scratch(const struct rlx_k_conv_wgrad_c *a)
{
	return 2 * ((a->kh * a->kw + a->block - 1) / a->block * a->block) * a->block *
	       sizeof(float);
}

#endif
