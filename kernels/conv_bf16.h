/* SPDX-License-Identifier: MIT */
/*
 * Convolution of bf16 with f32 sums, where the machine multiplies pairs of bf16: an
 * implicit GEMM of output pixels by output channels, whose K is input channels by taps.
 *
 * A unit's input goes through scratch once, padding filled in, so that 32 terms of K of
 * one output pixel lie side by side there: 32 channels of a tap, or, where channels are
 * few, 32 of what a row of taps reads. These are one step, which is one row of a tile of
 * A, 64 bytes; 16 output channels' weights of it are a tile of B. What a copy reads may be
 * plain or blocked as kernels/conv.h says, and so may the result be; 16 channels are a
 * block.
 */
#ifndef RLX_K_CONV_BF16_H
#define RLX_K_CONV_BF16_H

#include "kernels/kernel.h"
#include "rlx/act.h"

enum {
	RLX_CONV_BF16_BLOCK = 16,	/* channels of a block, columns of a tile */
	RLX_CONV_BF16_STEP = 32,	/* terms of a step */
	RLX_CONV_BF16_PIXELS = 16,	/* of a tile, most */
	/* bytes of a tile's sums by a pair of blocks */
	RLX_CONV_BF16_SUMS = 2 * RLX_CONV_BF16_PIXELS * RLX_CONV_BF16_BLOCK * 4,
};

/**
 * struct rlx_k_conv_bf16 - kernels conv_bf16 and conv_bf16_pack: 1-D (one row) and 2-D
 * convolution, y = act(conv(x, w) + bias + res)
 * @x: [n][ic] of bf16, blocked or (@x_plain) plain
 * @w: packed by conv_bf16_pack
 * @bias: [oc], or NULL; f32 or (@bias_bf16) bf16
 * @res: laid out as y, or NULL; may be y itself; bf16 or (@res_f32) f32
 * @y: [n][oc], blocked or (@y_plain) plain, bf16 or (@y_f32) f32; not x
 * @x_n, @y_n, @res_n: elements from one image to the next
 * @n .. @act_b: as in struct rlx_k_conv_c; with groups a blocked x needs ic / groups, and a
 *	blocked y oc / groups, to be multiples of the block
 * @turned: conv_bf16_pack reads weights of a transposed convolution, [ic][oc / groups][kh][kw],
 *	whose taps are in the other order
 *
 * One unit is a block of output pixels by some output channels. A sum's terms are added in
 * an order that depends on K and the level alone.
 */
struct rlx_k_conv_bf16 {
	const uint16_t	*x;
	const void	*w, *bias, *res;
	void		*y;
	size_t		x_n, y_n, res_n;
	size_t		n, ic, oc, groups;
	size_t		ih, iw, oh, ow;
	size_t		kh, kw, sh, sw, dh, dw, pt, pl;
	enum rlx_act	act;
	float		act_a, act_b;
	bool		x_plain, y_plain, bias_bf16, res_f32, y_f32, turned;
	/* derived by rlx_conv_bf16_init() */
	bool		by_row;		/* a step is a part of a row of taps, not of one tap */
	bool		rows_apart, cols_apart;	/* far taps: the copy has each by itself */
	size_t		row_steps;	/* steps of a row of taps, or else of a tap */
	size_t		steps, part;	/* of K; summed before the next tile's turn */
	size_t		width;		/* pixels of a tile */
	size_t		rows, cols;	/* output pixels of a unit */
	size_t		nrows, ncols;	/* units down, across */
	size_t		chunk, nchunk;	/* pairs of output blocks of a unit, units */
	size_t		ys, xs;		/* in the copy: from a row, a pixel of y to the next */
	size_t		yt, xt;		/* ... and from a tap to the next */
	size_t		in_rows, in_cols;	/* of the copy */
};

/* False: not this shape, or @isa is below RLX_ISA_V4X. */
bool rlx_conv_bf16_init(enum rlx_isa isa, struct rlx_k_conv_bf16 *a);
size_t rlx_conv_bf16_units(const struct rlx_k_conv_bf16 *a);
/* Bytes a thread needs, and bytes of packed weights. */
size_t rlx_conv_bf16_scratch(const struct rlx_k_conv_bf16 *a);
size_t rlx_conv_bf16_wsize(const struct rlx_k_conv_bf16 *a);

/* Blocks of output channels of a group. */
static inline size_t rlx_conv_bf16_blocks(const struct rlx_k_conv_bf16 *a)
{
	return (a->oc / a->groups + RLX_CONV_BF16_BLOCK - 1) / RLX_CONV_BF16_BLOCK;
}

/* Two blocks go together, where there are two: units of conv_bf16_pack, by group. */
static inline size_t rlx_conv_bf16_pairs(const struct rlx_k_conv_bf16 *a)
{
	return (rlx_conv_bf16_blocks(a) + 1) / 2;
}

/* Tiles across a unit of @cols pixels; all are as wide, the last one may reach past these. */
static inline size_t rlx_conv_bf16_across(const struct rlx_k_conv_bf16 *a, size_t cols)
{
	return (cols + a->width - 1) / a->width;
}

/* Rows of the copy that @rows output rows have. */
static inline size_t rlx_conv_bf16_rows(const struct rlx_k_conv_bf16 *a, size_t rows)
{
	return a->rows_apart ? rows * a->kh : (rows - 1) * a->sh + (a->kh - 1) * a->dh + 1;
}

/* Bytes of a pixel of the copy, of a row of pixels, and of all that it has. */
static inline size_t rlx_conv_bf16_pixel(const struct rlx_k_conv_bf16 *a)
{
	return (a->by_row ? a->row_steps : 1) * 2 * RLX_CONV_BF16_STEP;
}

static inline size_t rlx_conv_bf16_row(const struct rlx_k_conv_bf16 *a)
{
	return a->in_cols * rlx_conv_bf16_pixel(a);
}

static inline size_t rlx_conv_bf16_copy(const struct rlx_k_conv_bf16 *a)
{
	/* behind the last pixel's taps a block is written */
	return a->in_rows * rlx_conv_bf16_row(a) * (a->by_row ? 1 : a->row_steps) +
	       2 * RLX_CONV_BF16_BLOCK;
}

/* Scratch: where steps read, then floats of sums, then the copy. Bytes of the first two. */
static inline size_t rlx_conv_bf16_offsets(const struct rlx_k_conv_bf16 *a)
{
	return (a->steps * sizeof(ptrdiff_t) + 63) / 64 * 64;
}

/* Of all tiles of a unit by a pair of blocks where K has parts, or else of two at a time. */
static inline size_t rlx_conv_bf16_sums(const struct rlx_k_conv_bf16 *a)
{
	size_t tiles = a->part < a->steps ? a->rows * rlx_conv_bf16_across(a, a->cols) + 1 : 2;

	return tiles * RLX_CONV_BF16_SUMS;
}

#endif
