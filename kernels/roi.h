/* SPDX-License-Identifier: MIT */
/* Regions of an image pooled to one size, which every device works out alike. */
#ifndef RLX_K_ROI_H
#define RLX_K_ROI_H

#ifndef DEV	/* device code has them without */
#include <math.h>
#endif

#include "kernels/type.h"

/*
 * Kernel: roi_align. Region @r of image batch[r] (rois: x0 y0 x1 y1, times @scale) is
 * cut into out[0] x out[1] bins, each the mean of its samples, or the largest of the
 * four weighted neighbours of any. @sampling samples along each axis; 0: one for each
 * pixel of the bin. A region that is no number, or absurdly far or large, sets *bad,
 * as does an image that is not there; what is written then is 0. Regions from @live on
 * carry no data and set nothing.
 * One unit is one channel of one region; there are regions * channels. Scratch: 0.
 */
struct rlx_k_roi_align {
	const void	*x;		/* [images][channels][in[0]][in[1]] */
	const void	*rois;		/* [regions][4] */
	const void	*batch;		/* [regions] */
	void		*y;		/* [regions][channels][out[0]][out[1]] */
	int32_t		*bad;
	int64_t		images, channels, regions, live, in[2], out[2], sampling;
	double		scale;
	bool		max, half_pixel;
	uint8_t		type, roi_type;	/* float types of 16 bits or more */
	uint8_t		batch_type;	/* i64, i32 or u32 */
};

/* One axis of a region. */
struct rlx_k_roi_span {
	double	start, bin;
	int64_t	steps;		/* samples of a bin */
};

/* The span from @from to @to along axis @d; false: not one to walk. */
static inline bool rlx_k_roi_span(const struct rlx_k_roi_align *a, int d, double from, double to,
				  struct rlx_k_roi_span *s)
{
	double off = a->half_pixel ? 0.5 : 0, size;

	from = from * a->scale - off;
	to = to * a->scale - off;
	size = to - from;
	if (!a->half_pixel && !(size >= 1))
		size = 1;	/* malformed regions are one pixel */
	if (!(fabs(from) < 1073741824.0) || !(fabs(size) < 1048576.0))
		return false;
	s->start = from;
	s->bin = size / (double)a->out[d];
	s->steps = a->sampling ? a->sampling : s->bin > 0 ? (int64_t)ceil(s->bin) : 0;
	return true;
}

static inline double rlx_k_roi_sample(const struct rlx_k_roi_span *s, int64_t bin, int64_t i)
{
	return s->start + ((double)bin + ((double)i + 0.5) / (double)s->steps) * s->bin;
}

/*
 * The samples of @bin that can lie on an axis of @n pixels, [range[0], range[1]): the
 * others count as zeros, and there may be very many of them.
 */
static inline void rlx_k_roi_range(const struct rlx_k_roi_span *s, int64_t bin, int64_t n,
				   int64_t range[2])
{
	double steps = (double)s->steps, at[2];

	range[0] = 0;
	range[1] = s->steps;
	if (!(s->bin > 0))
		return;
	for (int k = 0; k < 2; k++) {	/* where it enters and leaves, and one more */
		at[k] = (((k ? (double)n : -1) - s->start) / s->bin - (double)bin) * steps;
		at[k] = at[k] + (k ? 2 : -2);
		at[k] = at[k] < 0 ? 0 : at[k] > steps ? steps : at[k];
		range[k] = (int64_t)at[k];
	}
}

/* Two neighbouring pixels and their weights. */
struct rlx_k_roi_near {
	int64_t	at[2];
	double	w[2];
};

/*
 * The neighbours of @p among @n pixels; false: it lies off the image. What is there jumps to 0 a
 * pixel off it. Regions at round numbers have samples at just that place, which another order of
 * operations, a fused multiply-add or f32 round to either side of it: so it jumps a little behind
 * (as in ops/roi_align.c, which the gradient is of).
 */
static inline bool rlx_k_roi_near(double p, int64_t n, struct rlx_k_roi_near *near)
{
	double beyond = ((double)n + 1) / 1048576.0;

	if (p < -1 - beyond || p > (double)n + beyond)
		return false;
	p = p < 0 ? 0 : p;
	near->at[0] = (int64_t)p;
	if (near->at[0] >= n - 1) {
		near->at[0] = near->at[1] = n - 1;
		near->w[0] = 1;
		near->w[1] = 0;
		return true;
	}
	near->at[1] = near->at[0] + 1;
	near->w[1] = p - (double)near->at[0];
	near->w[0] = 1 - near->w[1];
	return true;
}

static inline size_t rlx_k_roi_align_units(const struct rlx_k_roi_align *a)
{
	return (size_t)(a->regions * a->channels);
}

#endif
