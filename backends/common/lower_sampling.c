// SPDX-License-Identifier: MIT
/* Images read at places that are data: grid_sample and roi_align. */
#include "backends/common/lower.h"
#include "kernels/grid.h"
#include "kernels/roi.h"

enum rlx_status rlx_lower_grid_sample(struct rlx_lower *lo)
{
	static const uint8_t padding[] = {
		[RLX_GRID_ZEROS] = RLX_K_GRID_ZEROS, [RLX_GRID_BORDER] = RLX_K_GRID_BORDER,
		[RLX_GRID_REFLECTION] = RLX_K_GRID_REFLECTION,
	};
	const struct rlx_op_grid_sample *op = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *y = rlx_lower_out(lo, 0);
	struct rlx_k_grid_sample *a = rlx_lower_args(lo, sizeof(*a));
	double reads = 1;
	uint32_t d;

	a->images = x->dim[0];
	a->channels = x->dim[1];
	a->places = shape_span(y, 2, y->rank);
	a->nd = (uint8_t)(x->rank - 2);
	a->taps = op->mode == RLX_RESIZE_NEAREST ? 1 : op->mode == RLX_RESIZE_LINEAR ? 2 : 4;
	for (d = 0; d < a->nd; d++) {
		a->in[d] = x->dim[2 + d];
		reads *= a->taps;
	}
	a->padding = padding[op->padding];
	a->align_corners = op->align_corners;
	a->type = (uint8_t)x->dtype;
	a->grid_type = (uint8_t)rlx_lower_in(lo, 1)->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->grid, 1, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_grid_sample, rlx_k_grid_sample_units(a),
			      (double)rlx_type_count(y) * reads * 8, 0);
}

enum rlx_status rlx_lower_roi_align(struct rlx_lower *lo)
{
	const struct rlx_op_roi_align *op = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *y = rlx_lower_out(lo, 0);
	struct rlx_k_roi_align *a = rlx_lower_args(lo, sizeof(*a));

	a->images = x->dim[0];
	a->channels = x->dim[1];
	a->regions = y->dim[0];
	a->in[0] = x->dim[2];
	a->in[1] = x->dim[3];
	a->out[0] = op->out_h;
	a->out[1] = op->out_w;
	a->sampling = op->sampling;
	a->scale = (double)op->spatial_scale;
	a->max = op->max_mode;
	a->half_pixel = op->half_pixel;
	a->type = (uint8_t)x->dtype;
	a->roi_type = (uint8_t)rlx_lower_in(lo, 1)->dtype;
	a->batch_type = (uint8_t)rlx_lower_in(lo, 2)->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->rois, 1, 0);
	rlx_lower_ref_in(lo, &a->batch, 2, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, a->regions);
	rlx_lower_extent(lo, a->regions, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_roi_align, rlx_k_roi_align_units(a),
			      (double)rlx_type_count(y) * 100, 0);
}
