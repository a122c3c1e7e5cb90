// SPDX-License-Identifier: MIT
/* Images from columns, and grids to sample images at. */
#include "io/onnx/handlers.h"

static int64_t at(struct rlx_ints v, uint32_t i, int64_t dflt)
{
	return i < v.n ? v.v[i] : dflt;
}

/*
 * Columns summed into an image: the transposed convolution with, for each place
 * of the block, a kernel that is one there and zero elsewhere.
 */
enum rlx_status onnx_col2im(struct onnx_op *q)
{
	struct rlx_ints image, block, stride = onnx_attr_ints(q, "strides");
	struct rlx_ints pads = onnx_attr_ints(q, "pads");
	struct rlx_ints dil = onnx_attr_ints(q, "dilations");
	int64_t dim[RLX_MAX_RANK], kdim[RLX_MAX_RANK], extra[RLX_MAX_RANK];
	int64_t taps = 1, len, c;
	enum rlx_status st;
	struct rlx_type t;
	rlx_value x, w;
	uint32_t i;

	st = onnx_ints(q, 1, &image.v, &image.n);
	if (!st)
		st = onnx_ints(q, 2, &block.v, &block.n);
	if (st)
		return st;
	x = onnx_in(q, 0);
	t = onnx_type(q, x);
	if (!image.n || image.n > 3 || block.n != image.n || t.rank != 3)
		return op_err(q, RLX_ESHAPE, "an image of %u dims, a block of "
			      "%u, columns of rank %u", image.n, block.n,
			      t.rank);
	if (!onnx_modest(q, image, ONNX_MOST_DIM) ||
	    !onnx_modest(q, block, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, stride, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, pads, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, dil, ONNX_MOST_ATTR))
		return RLX_ERANGE;
	for (i = 0; i < block.n; i++) {
		int64_t s = at(stride, i, 1), span, room;

		span = at(dil, i, 1) * (block.v[i] - 1) + 1;
		room = image.v[i] + at(pads, i, 0) + at(pads, block.n + i, 0) -
		       span;
		if (s < 1 || block.v[i] < 1 || room < 0 ||
		    __builtin_mul_overflow(taps, block.v[i], &taps))
			return op_err(q, RLX_ESHAPE, "the block does not fit "
				      "dim %u of the image", i);
		len = room / s + 1;
		dim[2 + i] = len;
		kdim[2 + i] = block.v[i];
		extra[i] = room - (len - 1) * s;
	}
	c = t.dim[1] / taps;
	dim[0] = t.dim[0];
	dim[1] = kdim[0] = c * taps;
	kdim[1] = 1;
	x = onnx_reshape(q, x, block.n + 2, dim);
	w = E(q, eq, .a = E(q, iota, .type = rlx_type(RLX_I64, taps, 1),
			    .axis = 0, .start = 0, .step = 1),
	      .b = E(q, iota, .type = rlx_type(RLX_I64, 1, taps), .axis = 1,
		     .start = 0, .step = 1));
	w = E(q, tile, .x = E(q, cast, .x = w, .to = t.dtype),
	      .repeats = RLX_INTS(c, 1));
	w = onnx_reshape(q, w, block.n + 2, kdim);
	onnx_out(q, 0, E(q, conv_transpose, .x = x, .w = w, .stride = stride,
			 .pad = pads, .dilation = dil,
			 .output_pad = { extra, block.n }, .groups = c));
	return RLX_OK;
}

/* n places from -1 to 1, or the middles of n cells. */
static rlx_value places(struct onnx_op *q, int64_t n, bool corners,
			enum rlx_dtype dt)
{
	struct rlx_type t = rlx_type(RLX_F64, n);
	double start = corners ? -1 : 1 / (double)n - 1;
	double step = corners ? n > 1 ? 2 / (double)(n - 1) : 0 : 2 / (double)n;

	return E(q, cast, .x = E(q, iota, .type = t, .start = n > 1 ? start : 0,
				 .step = step), .to = dt);
}

/* theta [N, d, d+1] and a size -> [N, spatial.., d]: theta (x, y(, z), 1) */
enum rlx_status onnx_affine_grid(struct onnx_op *q)
{
	bool corners = onnx_attr_i(q, "align_corners", 0);
	int64_t dim[RLX_MAX_RANK], one[RLX_MAX_RANK], points = 1;
	struct rlx_ints size;
	rlx_value theta, v, grid[4];
	enum rlx_status st;
	enum rlx_dtype dt;
	uint32_t i, k, d;

	st = onnx_ints(q, 1, &size.v, &size.n);
	if (st)
		return st;
	if (size.n < 4 || size.n > 5)
		return op_err(q, RLX_ESHAPE, "%u sizes, not 4 or 5", size.n);
	d = size.n - 2;
	theta = onnx_in(q, 0);
	dt = onnx_type(q, theta).dtype;
	for (i = 0; i < d; i++) {
		dim[i] = size.v[2 + i];
		if (dim[i] < 1 || __builtin_mul_overflow(points, dim[i],
							 &points))
			return op_err(q, RLX_ESHAPE, "size %lld",
				      (long long)dim[i]);
	}
	dim[d] = 1;
	/* x runs along the last spatial dim. */
	for (i = 0; i < d; i++) {
		for (k = 0; k <= d; k++)
			one[k] = k == d - 1 - i ? dim[k] : 1;
		v = places(q, dim[d - 1 - i], corners, dt);
		v = onnx_reshape(q, v, d + 1, one);
		grid[i] = E(q, expand, .x = v, .shape = { dim, d + 1 });
	}
	grid[d] = E(q, expand, .x = onnx_num(q, dt, 1), .shape = { dim,
								   d + 1 });
	v = E(q, concat, .axis = (int32_t)d, .xs = { grid, d + 1 });
	v = E(q, reshape, .x = v, .shape = RLX_INTS(1, points, d + 1));
	theta = E(q, transpose, .x = theta, .perm = RLX_INTS(0, 2, 1));
	v = E(q, matmul, .a = v, .b = theta);
	one[0] = size.v[0];
	for (i = 0; i < d; i++)
		one[1 + i] = dim[i];
	one[1 + d] = d;
	onnx_out(q, 0, onnx_reshape(q, v, d + 2, one));
	return RLX_OK;
}
