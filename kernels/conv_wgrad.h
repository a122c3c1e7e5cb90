/* SPDX-License-Identifier: MIT */
/*
 * The gradient of a convolution in its weights, of bf16 with f32 sums, where the machine
 * multiplies pairs of bf16: for each tap a GEMM of x's channels by dy's, whose K is pixels.
 *
 * Pixels go through scratch in pieces, of some rows and columns of dy of one image. Both operands
 * lie on a grid there, at the pitch of what the taps of a row of dy read, so that a tap is a
 * shift: of x a row for each channel, which is one of a tile of A from any pixel on; of dy pairs of
 * pixels by channels, tiles of B, with zeros where the grid has no pixel of dy. Strides sort x by
 * phases, a grid for each.
 */
#ifndef RLX_K_CONV_WGRAD_H
#define RLX_K_CONV_WGRAD_H

#include "kernels/conv_bf16.h"

/**
 * struct rlx_k_conv_wgrad - kernels conv_wgrad, then conv_wgrad_sum: y[c][o][ky][kx] is the sum
 * over images and dy's pixels of dy[o][oy][ox] x[c][oy sh + ky dh - pt][ox sw + kx dw - pl]
 * @x, @dy: bf16, plain, or blocked as kernels/conv.h says, by 16 channels
 * @y: f32 with @y_f32, else bf16
 * @sums: rlx_conv_wgrad_sums() bytes between the kernels, 64-byte aligned
 * @x_n, @x_c, @x_g, @dy_n, @dy_c, @dy_g: elements from an image, channel of a group and group to
 *	the next; blocked, 16 channels are 16 times @x_c, and there is one group
 * @y_c, @y_o, @y_g: from a channel of x, of dy, a group to the next; a filter's taps lie together
 * @n, @ci, @co, @groups: images, channels of x and of dy in a group
 * @ih .. @pl: as in struct rlx_k_conv_c, of the convolution whose gradient it is
 *
 * A unit is some pairs of tiles by a part of the pieces. Parts are by the shape alone, and are
 * added in their order: so are a sum's terms.
 */
struct rlx_k_conv_wgrad {
	const uint16_t	*x, *dy;
	void		*y;
	float		*sums;
	size_t		x_n, x_c, x_g, dy_n, dy_c, dy_g, y_c, y_o, y_g;
	size_t		n, ci, co, groups;
	size_t		ih, iw, oh, ow;
	size_t		kh, kw, sh, sw, dh, dw, pt, pl;
	bool		x_blocked, dy_blocked, y_f32;
	/* derived by rlx_conv_wgrad_init() */
	size_t		width;			/* rows of a tile of A: channels of x */
	size_t		cpairs, opairs;		/* pairs of tiles of a group: of A, of B */
	size_t		yphases, xphases;	/* of x: that taps meet */
	size_t		yreach, xreach;		/* of the last tap: rows, pixels of a phase */
	size_t		rows, cols, nrows, ncols;	/* of a piece; pieces down, across */
	size_t		pitch, steps;		/* of the grid; 32 pixels of a piece */
	size_t		phase, line;		/* elements of a piece's phase; bytes of a row of A */
	size_t		batch;			/* pieces that scratch has */
	size_t		cchunk, nc, ochunk, no;	/* pairs of a unit, units */
	size_t		parts, part;		/* of all pieces; pieces of one */
};

/* False: not this shape, or @isa is below RLX_ISA_V4X. */
bool rlx_conv_wgrad_init(enum rlx_isa isa, struct rlx_k_conv_wgrad *a);

/* Of conv_wgrad, and of conv_wgrad_sum, which has one for each pair of A by each of B. */
static inline size_t rlx_conv_wgrad_units(const struct rlx_k_conv_wgrad *a)
{
	return a->parts * a->groups * a->nc * a->no;
}

static inline size_t rlx_conv_wgrad_sum_units(const struct rlx_k_conv_wgrad *a)
{
	return a->groups * a->cpairs * a->opairs;
}

static inline size_t rlx_conv_wgrad_sums(const struct rlx_k_conv_wgrad *a)
{
	return a->parts * rlx_conv_wgrad_sum_units(a) * a->kh * a->kw * 2 * RLX_CONV_BF16_SUMS;
}

/* Channels of x that scratch has, from a whole block on. */
static inline size_t rlx_conv_wgrad_lines(const struct rlx_k_conv_wgrad *a)
{
	return (a->cchunk * 2 * a->width + 2 * RLX_CONV_BF16_BLOCK - 1) / RLX_CONV_BF16_BLOCK *
	       RLX_CONV_BF16_BLOCK + (a->x_blocked ? RLX_CONV_BF16_BLOCK : 0);
}

/* Scratch: where steps read, 16 channels on the grid, A, B; bytes of each and of all. */
static inline size_t rlx_conv_wgrad_offsets(const struct rlx_k_conv_wgrad *a)
{
	return (a->batch * a->steps * sizeof(ptrdiff_t) + 63) / 64 * 64;
}

static inline size_t rlx_conv_wgrad_grid(const struct rlx_k_conv_wgrad *a)
{
	const size_t dy = a->batch * a->steps * RLX_CONV_BF16_STEP;

	return (a->phase > dy ? a->phase : dy) * RLX_CONV_BF16_BLOCK * 2;
}

static inline size_t rlx_conv_wgrad_pair(const struct rlx_k_conv_wgrad *a)
{
	return a->batch * a->steps * 2 * RLX_CONV_BF16_STEP * RLX_CONV_BF16_BLOCK * 2;
}

static inline size_t rlx_conv_wgrad_scratch(const struct rlx_k_conv_wgrad *a)
{
	return rlx_conv_wgrad_offsets(a) + rlx_conv_wgrad_grid(a) +
	       rlx_conv_wgrad_lines(a) * a->line + a->ochunk * rlx_conv_wgrad_pair(a);
}

/* Of conv_wgrad_sum: the taps of 16 filters, and those turned. */
static inline size_t rlx_conv_wgrad_sum_scratch(const struct rlx_k_conv_wgrad *a)
{
	return 2 * ((a->kh * a->kw + 15) / 16 * 16) * RLX_CONV_BF16_BLOCK * sizeof(float);
}

#endif
