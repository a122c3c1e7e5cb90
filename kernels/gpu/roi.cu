// SPDX-License-Identifier: MIT
/*
 * Regions of an image pooled to one size (RoI align).
 *
 * Algorithm: a thread a bin of a channel of a region: it samples the bin at a grid of points, each
 * by bilinear interpolation of four pixels, and takes their mean, or the largest product of pixel
 * and weight. Spans and samples are worked out in f64 by the same code as on the CPU
 * (kernels/roi.h); only points that can lie inside the image are visited.
 * Traffic: y once; four pixels a point, mostly from caches, as bins of a region lie side by side;
 * the region's four numbers by each thread.
 * Source: He et al., "Mask R-CNN" (2017); semantics of ONNX RoiAlign.
 * Limits: float types of 16 bits or more, sums in the type's accumulator; an image number out of
 * range or a region that is not finite sets *bad and gives zeros.
 */
#include "kernels/gpu/move.h"
#include "kernels/roi.h"

typedef rlx_t<ROI_TYPE> type;	/* of the elements */

/* A region: its image and its spans, y first. */
struct region {
	int64_t			image;
	struct rlx_k_roi_span	s[2];
};

static DEV inline type::acc pool_bin(const struct rlx_k_roi_align &a, const struct region &r,
				     const type::mem *x, const int64_t *bin)
{
	double all = (double)r.s[0].steps * (double)r.s[1].steps;
	int64_t range[2][2];
	type::acc sum = 0, top;

	for (int d = 0; d < 2; d++)
		rlx_k_roi_range(&r.s[d], bin[d], a.in[d], range[d]);
	/* samples beyond the range are zeros */
	top = (double)(range[0][1] - range[0][0]) * (double)(range[1][1] - range[1][0]) < all ||
	      all == 0 ? 0 : -INFINITY;
	for (int64_t i = range[0][0]; i < range[0][1]; i++) {
		struct rlx_k_roi_near near[2];
		bool in = rlx_k_roi_near(rlx_k_roi_sample(&r.s[0], bin[0], i), a.in[0], &near[0]);

		for (int64_t j = range[1][0]; j < range[1][1]; j++) {
			if (!in || !rlx_k_roi_near(rlx_k_roi_sample(&r.s[1], bin[1], j), a.in[1],
						   &near[1])) {
				top = top < 0 ? 0 : top;
				continue;
			}
			for (int k = 0; k < 4; k++) {
				int64_t at = near[0].at[k >> 1] * a.in[1] + near[1].at[k & 1];
				type::acc v = type::get(x[at]) *
					      (type::acc)(near[1].w[k & 1] * near[0].w[k >> 1]);

				sum += v;
				top = v > top ? v : top;
			}
		}
	}
	return a.max ? top : sum / (type::acc)(all > 0 ? all : 1);
}

RLX_G_KERNEL(roi_align, struct rlx_k_roi_align, 256)
{
	const type::mem *x = RLX_G_PTR(const type::mem, a.x);
	const void *rois = RLX_G_PTR(const void, a.rois), *batch = RLX_G_PTR(const void, a.batch);
	type::mem *y = RLX_G_PTR(type::mem, a.y);
	int32_t *bad = RLX_G_PTR(int32_t, a.bad);
	int64_t n = live_rows(env, a.regions) * a.channels * a.out[0] * a.out[1];
	int64_t live = live_checked(env, a.live);

	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t bin[2], c, at = divide(divide(i, a.out[1], &bin[1]), a.out[0], &bin[0]);
		struct region r;

		at = divide(at, a.channels, &c);
		r.image = load_index(batch, at, a.batch_type);
		y[i] = type::put(0);
		if (!index_in(&r.image, a.images, at < live ? bad : (int32_t *)0))
			continue;
		if (!rlx_k_roi_span(&a, 0, load_real(rois, 4 * at + 1, a.roi_type),
				    load_real(rois, 4 * at + 3, a.roi_type), &r.s[0]) ||
		    !rlx_k_roi_span(&a, 1, load_real(rois, 4 * at, a.roi_type),
				    load_real(rois, 4 * at + 2, a.roi_type), &r.s[1])) {
			if (at < live)
				*bad = 1;
			continue;
		}
		y[i] = type::put(pool_bin(a, r, x + (r.image * a.channels + c) * a.in[0] * a.in[1],
					  bin));
	}
}
