/* SPDX-License-Identifier: MIT */
/*
 * Which elements a slice takes along each axis: for its shape, its evaluation, its
 * gradient and the copies of backends, which must all take the same.
 */
#ifndef RLX_OPS_SLICE_AXIS_H
#define RLX_OPS_SLICE_AXIS_H

#include "ir/opdef.h"

/*
 * Elements start, start + step ... along one axis, @n of them, all within it.
 * Where @n is 0, so is @start.
 */
struct op_slice_axis {
	int64_t	start, step, n;
};

/* Of all axes of @x; @a has passed the op's type rule. */
void op_slice_axes(const struct rlx_op_slice *a, const struct rlx_type *x,
		   struct op_slice_axis out[RLX_MAX_RANK]);

#endif
