/* SPDX-License-Identifier: MIT */
/*
 * The coordinate rules of resize along one axis, for its evaluation and for the
 * tables of backends: both must take the same elements.
 */
#ifndef RLX_OPS_RESIZE_AXIS_H
#define RLX_OPS_RESIZE_AXIS_H

#include "ir/opdef.h"

/* Sizes and scale; @taps is how many inputs one output may read. */
struct op_resize_axis {
	int64_t	in, out, taps;
	double	scale, roi[2];
	bool	same;		/* output = input: as long, or a crop to all of it; no weights */
};

struct op_resize_axis op_resize_axis_of(const struct rlx_op_resize *a,
					const struct rlx_type *x, uint32_t i);
/* Output @o lies outside a cropped region: it gets the extrapolation value. */
bool op_resize_outside(const struct rlx_op_resize *a, const struct op_resize_axis *x,
		       int64_t o);
/* The input that output @o is in mode nearest. */
int64_t op_resize_nearest(const struct rlx_op_resize *a, const struct op_resize_axis *x,
			  int64_t o);
/*
 * Otherwise weights w[0..taps) of output @o and the inputs at[] they belong to,
 * clamped into the input; those of one input share its weight by powers of two, so that sums of
 * them are exact. All zero if the output lies outside.
 */
void op_resize_weights(const struct rlx_op_resize *a, const struct op_resize_axis *x,
		       int64_t o, double *w, int64_t *at);

#endif
