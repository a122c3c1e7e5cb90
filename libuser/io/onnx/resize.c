// SPDX-License-Identifier: MIT
/* Resize of all opsets, and Upsample. */
#include <math.h>

#include "io/onnx/handlers.h"

/* What the node asks for, spread over all axes. */
struct resize {
	struct rlx_type	t;
	uint32_t	axis[RLX_MAX_RANK], n_axis;
	double		scale[RLX_MAX_RANK], roi[2 * RLX_MAX_RANK];
	int64_t		size[RLX_MAX_RANK];
	bool		scaled, has_roi;
};

static enum rlx_status pick_axes(struct onnx_op *q, struct resize *r)
{
	struct rlx_ints axes = onnx_attr_ints(q, "axes");
	enum rlx_status st = RLX_OK;
	uint32_t i;

	r->n_axis = axes.n ? axes.n : r->t.rank;
	if (r->n_axis > r->t.rank)
		return op_err(q, RLX_ESHAPE, "%u axes of a tensor of rank %u",
			      r->n_axis, r->t.rank);
	for (i = 0; !st && i < r->n_axis; i++)
		st = onnx_axis(q, axes.n ? axes.v[i] : i, r->t.rank,
			       &r->axis[i]);
	for (i = 0; i < r->t.rank; i++) {
		r->scale[i] = 1;
		r->size[i] = r->t.dim[i];
		r->roi[r->t.rank + i] = 1;
	}
	return st;
}

static enum rlx_status by_scales(struct onnx_op *q, struct resize *r,
				 const double *scale, uint32_t n)
{
	uint32_t i;

	if (n != r->n_axis)
		return op_err(q, RLX_ESHAPE, "%u scales for %u axes", n,
			      r->n_axis);
	r->scaled = true;
	for (i = 0; i < n; i++) {
		double len = (double)r->t.dim[r->axis[i]], out;

		/* A crop is resized, not the whole. */
		if (r->has_roi)
			len *= r->roi[r->t.rank + r->axis[i]] -
			       r->roi[r->axis[i]];
		/* In float, as everybody does: 0.7f * 10 is to be 7. */
		out = floor((double)((float)len * (float)scale[i]));
		if (!(scale[i] > 0) || !(out >= 0 && out < 1e15))
			return op_err(q, RLX_ERANGE, "scale %g", scale[i]);
		r->scale[r->axis[i]] = scale[i];
		r->size[r->axis[i]] = (int64_t)out;
	}
	return RLX_OK;
}

static enum rlx_status by_sizes(struct onnx_op *q, struct resize *r,
				const int64_t *size, uint32_t n)
{
	static const char *const policies[] = {
		"stretch", "not_larger", "not_smaller", NULL
	};
	int policy = onnx_attr_enum(q, "keep_aspect_ratio_policy", policies, 0);
	double keep = 0;
	uint32_t i;

	if (n != r->n_axis)
		return op_err(q, RLX_ESHAPE, "%u sizes for %u axes", n,
			      r->n_axis);
	if (!onnx_modest(q, (struct rlx_ints){ size, n }, ONNX_MOST_DIM))
		return RLX_ERANGE;
	for (i = 0; i < n; i++) {
		double k = (double)size[i] / (double)r->t.dim[r->axis[i]];

		if (policy && !(k >= 0 && k < 1e9))
			return op_err(q, RLX_ESHAPE, "size %lld of %lld",
				      (long long)size[i],
				      (long long)r->t.dim[r->axis[i]]);
		if (!i || (policy == 1 ? k < keep : k > keep))
			keep = k;
	}
	for (i = 0; i < n; i++)
		r->size[r->axis[i]] = policy ? (int64_t)floor(keep * (double)
			r->t.dim[r->axis[i]] + 0.5) : size[i];
	/* All axes share the scale that was kept. */
	for (i = 0; policy && i < n; i++)
		r->scale[r->axis[i]] = keep;
	r->scaled = policy;
	return RLX_OK;
}

static enum rlx_status take_roi(struct onnx_op *q, struct resize *r)
{
	const double *roi;
	enum rlx_status st;
	uint32_t n, i;

	st = onnx_floats(q, 1, &roi, &n);
	if (st || !n)
		return st;
	if (n != 2 * r->n_axis)
		return op_err(q, RLX_ESHAPE, "roi has %u elements for %u axes",
			      n, r->n_axis);
	r->has_roi = true;
	for (i = 0; i < r->n_axis; i++) {
		r->roi[r->axis[i]] = roi[i];
		r->roi[r->t.rank + r->axis[i]] = roi[r->n_axis + i];
	}
	return RLX_OK;
}

static const char *const modes[] = { "nearest", "linear", "cubic", NULL };

enum rlx_status onnx_resize(struct onnx_op *q)
{
	/* In the order of enum rlx_coord and enum rlx_nearest. */
	static const char *const coords[] = {
		"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
		"align_corners", "asymmetric", "tf_crop_and_resize",
		"tf_half_pixel_for_nn", NULL
	};
	static const char *const nearest[] = {
		"round_prefer_floor", "round_prefer_ceil", "floor", "ceil",
		"simple", NULL
	};
	int coord = onnx_attr_enum(q, "coordinate_transformation_mode", coords,
				   0);
	struct resize r = { 0 };
	const double *scale;
	const int64_t *size;
	uint32_t n_scale, n_size;
	enum rlx_status st;

	onnx_attr_of(q, "keep_aspect_ratio_policy");
	st = onnx_floats(q, 2, &scale, &n_scale);
	if (!st)
		st = onnx_ints(q, 3, &size, &n_size);
	if (st)
		return st;
	r.t = onnx_type(q, onnx_in(q, 0));
	st = pick_axes(q, &r);
	if (!st && coord == RLX_COORD_TF_CROP_AND_RESIZE)
		st = take_roi(q, &r);
	if (!st && n_scale)
		st = by_scales(q, &r, scale, n_scale);
	else if (!st)
		st = by_sizes(q, &r, size, n_size);
	if (st)
		return st;
	onnx_out(q, 0, E(q, resize, .x = onnx_in(q, 0),
		.sizes = { r.size, r.t.rank },
		.scales = { r.scale, r.scaled ? r.t.rank : 0 },
		.mode = onnx_attr_enum(q, "mode", modes, 0), .coord = coord,
		.nearest = onnx_attr_enum(q, "nearest_mode", nearest, 0),
		.cubic_a = (float)onnx_attr_f(q, "cubic_coeff_a", -0.75),
		.exclude_outside = onnx_attr_i(q, "exclude_outside", 0),
		.antialias = onnx_attr_i(q, "antialias", 0),
		.extrapolation = (float)onnx_attr_f(q, "extrapolation_value",
						    0),
		.roi = { r.roi, r.has_roi ? 2 * r.t.rank : 0 }));
	return RLX_OK;
}

/* Upsample, and Resize of opset 10: asymmetric coordinates, floor. */
enum rlx_status onnx_upsample(struct onnx_op *q)
{
	static const char *const old[] = {
		"nearest", "linear", "bilinear", NULL
	};
	int mode = onnx_attr_enum(q, "mode", old, 0);
	struct rlx_floats scale = { 0 };
	struct resize r = { 0 };
	enum rlx_status st = RLX_OK;

	if (onnx_has(q, "scales"))
		scale = onnx_attr_floats(q, "scales");
	else
		st = onnx_floats(q, 1, &scale.v, &scale.n);
	if (st)
		return st;
	r.t = onnx_type(q, onnx_in(q, 0));
	st = pick_axes(q, &r);
	if (!st)
		st = by_scales(q, &r, scale.v, scale.n);
	if (st)
		return st;
	onnx_out(q, 0, E(q, resize, .x = onnx_in(q, 0),
		.sizes = { r.size, r.t.rank },
		.scales = { r.scale, r.t.rank },
		.mode = mode ? RLX_RESIZE_LINEAR : RLX_RESIZE_NEAREST,
		.coord = RLX_COORD_ASYMMETRIC,
		.nearest = RLX_NEAREST_FLOOR));
	return RLX_OK;
}
