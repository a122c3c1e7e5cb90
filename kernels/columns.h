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

static inline size_t rlx_k_columns_taps(const struct rlx_k_columns *a)
{
	return a->k[0] * a->k[1] * a->k[2];
}

static inline size_t rlx_k_columns_places(const struct rlx_k_columns *a)
{
	return a->out[0] * a->out[1] * a->out[2];
}

#endif
