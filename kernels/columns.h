/* SPDX-License-Identifier: MIT */
/*
 * Convolutions as GEMMs (im2col), in double: the elements that a window's taps see as
 * rows of a matrix, and back.
 */
#ifndef RLX_K_COLUMNS_H
#define RLX_K_COLUMNS_H

#include "kernels/kernel.h"

/**
 * struct rlx_k_columns - kernels im2col_f64 and col2im_f64
 * @image:	doubles [n][channels][in...]
 * @columns:	doubles [n][channels][k...][out...]: what each tap of a window over the
 *		image sees at each of its places; 0 beside the image
 * @bias:	col2im_f64: one for each channel, or NULL
 * @n, @channels: images, channels of all groups
 * @in, @out, @k, @s, @d, @p: depth, height, width of image, places, window, stride,
 *		dilation, padding before; unused leading ones are 1 (padding 0)
 *
 * im2col_f64 fills columns; one unit is one tap of one channel: n * channels * taps.
 * col2im_f64 adds up, for each element of the image, what columns have for it, and its
 * bias; one unit is one channel of one image: n * channels. Scratch: 0.
 */
struct rlx_k_columns {
	double		*image, *columns;
	const double	*bias;
	size_t		n, channels;
	size_t		in[3], out[3], k[3], s[3], d[3], p[3];
};

/**
 * struct rlx_k_conv_f64 - kernel conv_f64: the convolution itself, without columns
 * @c:	@image is x, or y if @transposed, and @columns the other of them; @channels are the
 *	image's; @bias is of y's channels
 * @w:	[oc][ic / groups][k...]; transposed: [ic][oc / groups][k...]
 * @groups, @others: of channels; channels of all groups of what @columns points to
 * @transposed:	taps spread x over y
 * @rows: rows of y (of its depth and height) in one unit; transposed: not looked at, it is all
 *
 * Each tap of each channel is added to rows of y that stay in the L1 cache, in the order of
 * channels and taps. What columns cost, each element written and read for each tap, a GEMM does
 * not make up for whose A is one row (one channel of y a group) or, transposed, one column (one
 * channel of x). One unit is a run of rows of one channel of
 * one image: rlx_k_conv_f64_units(). Scratch: with a stride in width a channel of the image, in
 * which elements a stride apart lie side by side: rlx_k_conv_f64_scratch().
 */
struct rlx_k_conv_f64 {
	struct rlx_k_columns	c;
	const double		*w;
	size_t			groups, others, rows;
	bool			transposed;
};

static inline size_t rlx_k_conv_f64_units(const struct rlx_k_conv_f64 *a)
{
	if (a->transposed)
		return a->c.n * a->c.channels;
	return a->c.n * a->others * ((a->c.out[0] * a->c.out[1] + a->rows - 1) / a->rows);
}

static inline uint64_t rlx_k_conv_f64_scratch(const struct rlx_k_conv_f64 *a)
{
	size_t s = a->c.s[2], n = (a->c.in[2] + s - 1) / s * s;

	return s > 1 ? (uint64_t)a->c.in[0] * a->c.in[1] * n * sizeof(double) : 0;
}

static inline size_t rlx_k_columns_taps(const struct rlx_k_columns *a)
{
	return a->k[0] * a->k[1] * a->k[2];
}

static inline size_t rlx_k_columns_places(const struct rlx_k_columns *a)
{
	return a->out[0] * a->out[1] * a->out[2];
}

#endif
