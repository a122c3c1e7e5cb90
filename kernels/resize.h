/* SPDX-License-Identifier: MIT */
/*
 * Resizing along up to three axes by tables the caller makes: every output
 * position of an axis is a weighted sum of a few input positions. So nearest,
 * linear, cubic, antialiased and every coordinate convention are one kernel.
 */
#ifndef RLX_K_RESIZE_H
#define RLX_K_RESIZE_H

#include "kernels/kernel.h"

/**
 * struct rlx_k_resize_axis - how one axis is resized
 * @in, @out: its extent before and after
 * @taps: input positions for each output position, at least 1: nearest 1,
 *	linear 2, cubic 4; a weight of 0 multiplies too: NaN spreads
 * @index: [out][taps] input positions, each below @in; or index[i * taps] = -1:
 *	output position i lies outside, and gets the value `outside`
 * @weight: [out][taps]; NULL where taps is 1 and every weight is 1
 * @wide: resize_wide alone: the same in double, and @weight is NULL
 *
 * An axis that keeps its size has taps 1 and index i for i; @index may then be
 * NULL.
 */
struct rlx_k_resize_axis {
	size_t		in, out, taps;
	const int32_t	*index;
	const float	*weight;
	const double	*wide;
};

/**
 * struct rlx_k_resize - kernels resize_f32, resize_c, resize_nearest and resize_wide
 * @x: [planes][axis 0][axis 1][axis 2]; resize_c: each element is a block of
 *	channels (planes: images times blocks), in kernels/conv.h's sense
 * @y: likewise
 * @planes: what lies before the axes, as one
 * @axis: the innermost one last; unused leading ones: in, out, taps 1
 * @outside: see index above
 * @esize: resize_nearest alone: bytes of an element, 1, 2, 4 or 8. Its axes
 *	have taps 1, no weight and no -1.
 * @x_type, @type: of x and y in resize_wide alone, which takes f64 and integers: sums are
 *	in double, along axis 0, then 1, then 2, each in the order of its taps, and
 *	truncated for integers at the end
 * @fill: resize_wide alone: `outside` as an element of @type
 * @nearest: resize_wide alone: elements, of one type, are moved and go through no double
 *
 * One unit is one row of the output: units = planes * axis[0].out *
 * axis[1].out. Scratch: rlx_resize_scratch() (resize_nearest: 0; resize_wide:
 * rlx_resize_wide_scratch()).
 */
struct rlx_k_resize {
	const void	*x;
	void		*y;
	size_t		planes;
	struct rlx_k_resize_axis axis[3];
	float		outside;
	size_t		esize;
	uint64_t	fill;
	uint8_t		x_type, type;
	bool		nearest;
};

/* Bytes of lanes and weights for the outputs of axis 2 by two taps, a vector of them each. */
static inline size_t rlx_resize_near_bytes(const struct rlx_k_resize_axis *l, size_t lanes)
{
	return l->taps == 2 ? (l->out + lanes - 1) / lanes * 320 : 0;
}

/* Bytes: one input row of @lanes floats (resize_f32: 1, resize_c: the block), and those. */
static inline size_t rlx_resize_scratch(const struct rlx_k_resize *a,
					size_t lanes)
{
	const struct rlx_k_resize_axis *l = &a->axis[2];

	return l->in * lanes * sizeof(float) + (lanes == 1 ? rlx_resize_near_bytes(l, 16) : 0);
}

#define RLX_RESIZE_ROWS	4	/* input rows that resize_wide keeps as doubles */

/* Bytes: these, two sums of rows, and what vectors of doubles are made from. */
static inline size_t rlx_resize_wide_scratch(const struct rlx_k_resize *a)
{
	return (RLX_RESIZE_ROWS + 2) * a->axis[2].in * sizeof(double) +
	       rlx_resize_near_bytes(&a->axis[2], 8);
}

#endif
