// SPDX-License-Identifier: MIT
/* Unpooling and sampling of images at given points. */
#include "io/onnx/handlers.h"

static int64_t at(struct rlx_ints v, uint32_t i, int64_t dflt)
{
	return i < v.n ? v.v[i] : dflt;
}

/*
 * The indices count in the tensor that was pooled, whose size is the default
 * output; a larger output is that tensor with zeros appended.
 */
enum rlx_status onnx_max_unpool(struct onnx_op *q)
{
	struct rlx_ints kernel = onnx_attr_ints(q, "kernel_shape");
	struct rlx_ints stride = onnx_attr_ints(q, "strides");
	struct rlx_ints pads = onnx_attr_ints(q, "pads"), shape;
	int64_t dim[RLX_MAX_RANK], more[2 * RLX_MAX_RANK] = { 0 };
	enum rlx_status st;
	struct rlx_type t;
	uint32_t i, n;
	rlx_value y;

	st = onnx_ints(q, 2, &shape.v, &shape.n);
	if (st)
		return st;
	t = onnx_type(q, onnx_in(q, 0));
	n = t.rank > 2 ? t.rank - 2 : 0;
	if (!n || kernel.n != n)
		return op_err(q, RLX_ESHAPE, "kernel_shape does not fit");
	if (!onnx_modest(q, kernel, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, stride, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, pads, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, shape, ONNX_MOST_DIM) ||
	    !onnx_modest(q, (struct rlx_ints){ t.dim, t.rank }, ONNX_MOST_DIM))
		return RLX_ERANGE;
	dim[0] = t.dim[0];
	dim[1] = t.dim[1];
	for (i = 0; i < n; i++)
		dim[2 + i] = (t.dim[2 + i] - 1) * at(stride, i, 1) +
			     kernel.v[i] - at(pads, i, 0) - at(pads, n + i, 0);
	y = E(q, max_unpool, .x = onnx_in(q, 0), .indices = onnx_in(q, 1),
	      .out_shape = { dim, t.rank });
	if (shape.n == t.rank) {
		for (i = 0; i < t.rank; i++)
			more[t.rank + i] = shape.v[i] - dim[i];
		y = E(q, pad, .x = y, .pads = { more, 2 * t.rank });
	}
	onnx_out(q, 0, y);
	return RLX_OK;
}

enum rlx_status onnx_roi_align(struct onnx_op *q)
{
	static const char *const modes[] = { "avg", "max", NULL };
	static const char *const coord[] = {
		"half_pixel", "output_half_pixel", NULL
	};

	onnx_out(q, 0, E(q, roi_align, .x = onnx_in(q, 0),
		.rois = onnx_in(q, 1), .batch_indices = onnx_in(q, 2),
		.out_h = onnx_attr_i(q, "output_height", 1),
		.out_w = onnx_attr_i(q, "output_width", 1),
		.sampling = onnx_attr_i(q, "sampling_ratio", 0),
		.spatial_scale = (float)onnx_attr_f(q, "spatial_scale", 1),
		.max_mode = onnx_attr_enum(q, "mode", modes, 0),
		.half_pixel = !onnx_attr_enum(q,
			"coordinate_transformation_mode", coord,
			q->opset < 16)));
	return RLX_OK;
}

enum rlx_status onnx_grid_sample(struct onnx_op *q)
{
	/* Old and new names alternate. */
	static const char *const modes[] = {
		"nearest", "bilinear", "linear", "bicubic", "cubic", NULL
	};
	static const int32_t mode[] = {
		RLX_RESIZE_NEAREST, RLX_RESIZE_LINEAR, RLX_RESIZE_LINEAR,
		RLX_RESIZE_CUBIC, RLX_RESIZE_CUBIC,
	};
	static const char *const pads[] = {
		"zeros", "border", "reflection", NULL
	};

	onnx_out(q, 0, E(q, grid_sample, .x = onnx_in(q, 0),
		.grid = onnx_in(q, 1),
		.mode = mode[onnx_attr_enum(q, "mode", modes, 1)],
		.padding = onnx_attr_enum(q, "padding_mode", pads, 0),
		.align_corners = onnx_attr_i(q, "align_corners", 0)));
	return RLX_OK;
}

enum rlx_status onnx_det(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, det, .x = onnx_in(q, 0)));
	return RLX_OK;
}
