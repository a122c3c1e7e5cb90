// SPDX-License-Identifier: MIT
/* Regions pooled to one size, a channel of a region at a time, in double. */
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/index_at.h"
#include "kernels/roi.h"

rlx_k_fn RLX_K(roi_align);

/* A region: its image and its spans, y first. */
struct region {
	int64_t			image;
	struct rlx_k_roi_span	s[2];
};

static bool find_region(const struct rlx_k_roi_align *a, int64_t r, struct region *to)
{
	const int64_t size = (int64_t)rlx_k_type_size((enum rlx_dtype)a->roi_type);
	double v[4];

	to->image = rlx_k_index_at(a->batch, a->batch_type, (size_t)r, a->images,
				   r < a->live ? a->bad : NULL);
	if (to->image < 0)
		return false;
	RLX_K(loader)(RLX_EW_F64, a->roi_type)(v, (const char *)a->rois + 4 * r * size, 4);
	if (rlx_k_roi_span(a, 0, v[1], v[3], &to->s[0]) &&
	    rlx_k_roi_span(a, 1, v[0], v[2], &to->s[1]))
		return true;
	if (r < a->live)
		__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
	return false;
}

/* One bin of a channel whose pixels begin at @x. */
static double pool_bin(const struct rlx_k_roi_align *a, const struct region *r, const char *x,
		       const int64_t bin[2])
{
	const int64_t size = (int64_t)rlx_k_type_size((enum rlx_dtype)a->type);
	rlx_convert_fn *load = RLX_K(loader)(RLX_EW_F64, a->type);
	double all = (double)r->s[0].steps * (double)r->s[1].steps, sum = 0, top, v;
	struct rlx_k_roi_near near[2];
	int64_t range[2][2], i, j;

	for (int d = 0; d < 2; d++)
		rlx_k_roi_range(&r->s[d], bin[d], a->in[d], range[d]);
	/* samples beyond the range are zeros */
	top = (double)(range[0][1] - range[0][0]) * (double)(range[1][1] - range[1][0]) < all ||
	      all == 0 ? 0 : -INFINITY;
	for (i = range[0][0]; i < range[0][1]; i++)
		for (j = range[1][0]; j < range[1][1]; j++) {
			if (!rlx_k_roi_near(rlx_k_roi_sample(&r->s[0], bin[0], i), a->in[0],
					    &near[0]) ||
			    !rlx_k_roi_near(rlx_k_roi_sample(&r->s[1], bin[1], j), a->in[1],
					    &near[1])) {
				top = top < 0 ? 0 : top;
				continue;
			}
			for (int k = 0; k < 4; k++) {
				int64_t at = near[0].at[k >> 1] * a->in[1] + near[1].at[k & 1];

				load(&v, x + at * size, 1);
				v *= near[1].w[k & 1] * near[0].w[k >> 1];
				sum += v;
				top = v > top ? v : top;
			}
		}
	return a->max ? top : sum / (all > 0 ? all : 1);
}

void RLX_K(roi_align)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_roi_align *a = args;
	const int64_t size = (int64_t)rlx_k_type_size((enum rlx_dtype)a->type);
	const int64_t pixels = a->in[0] * a->in[1], bins = a->out[0] * a->out[1];
	rlx_convert_fn *store = RLX_K(storer)(RLX_EW_F64, a->type);

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		int64_t c = (int64_t)u % a->channels;
		char *y = (char *)a->y + (int64_t)u * bins * size;
		struct region r;

		if (!find_region(a, (int64_t)u / a->channels, &r)) {
			memset(y, 0, (size_t)(bins * size));
			continue;
		}
		for (int64_t i = 0; i < bins; i++) {
			const char *x = (const char *)a->x +
					(r.image * a->channels + c) * pixels * size;
			double v = pool_bin(a, &r, x, (int64_t[2]){ i / a->out[1],
								    i % a->out[1] });

			store(y + i * size, &v, 1);
		}
	}
}
