// SPDX-License-Identifier: MIT
/* Clamping of slices, as ONNX has it. */
#include "ops/op.h"
#include "ops/slice_axis.h"

/*
 * Along an axis of @d elements; @step is not 0. Backwards a start in front of the axis
 * is its first element, where numpy takes none.
 */
static struct op_slice_axis axis_of(int64_t start, int64_t end, int64_t step, int64_t d)
{
	struct op_slice_axis r = { 0, step, 0 };
	int64_t top = step > 0 ? d : d - 1, low = step > 0 ? 0 : -1;

	if (step == INT64_MIN)
		r.step = step = -INT64_MAX;
	if (!d)
		return r;
	start = start < 0 ? start + d : start;
	end = end < 0 ? end + d : end;
	start = start < 0 ? 0 : start > top ? top : start;
	end = end < low ? low : end > top ? top : end;
	if (step > 0 && end > start)
		r.n = (end - start - 1) / step + 1;
	else if (step < 0 && end < start)
		r.n = (start - end - 1) / -step + 1;
	r.start = r.n ? start : 0;
	return r;
}

void op_slice_axes(const struct rlx_op_slice *a, const struct rlx_type *x,
		   struct op_slice_axis out[RLX_MAX_RANK])
{
	uint32_t i, ax = 0;

	for (i = 0; i < x->rank; i++)
		out[i] = (struct op_slice_axis){ 0, 1, x->dim[i] };
	for (i = 0; i < a->starts.n; i++) {
		if (!op_axis(a->axes.n ? a->axes.v[i] : i, x->rank, &ax))
			continue;
		out[ax] = axis_of(a->starts.v[i], a->ends.v[i], a->steps.n ? a->steps.v[i] : 1,
				  x->dim[ax]);
	}
}
