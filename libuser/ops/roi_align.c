// SPDX-License-Identifier: MIT
/* Regions of an image pooled to one size. */
#include "ops/emit.h"

/*
 * Shapes:	x[n, c, h, w], rois[r, 4], batch_indices[r] -> y[r, c, out_h, out_w]
 * Dtypes:	x, rois: f64 f32 f16 bf16; batch_indices: i32 i64 u32; y as x
 * Does:	region r (x1 y1 x2 y2, times spatial_scale) of its image is cut into bins, each
 *		read bilinearly at sampling by sampling places; 0: as many as the bin has pixels,
 *		rounded up. y is their mean, with max_mode the largest weighted neighbour.
 *		half_pixel moves regions by -0.5; without it they are at least one pixel wide,
 *		malformed ones too. Places more than a pixel off the image are 0. A negative image
 *		counts from the end.
 * Errors:	RLX_ERANGE for an image that is not there, and a region whose start is not within
 *		2^30 pixels or whose size is not below 2^20, as NaN is not. RLX_ESHAPE if the
 *		images are empty and there are regions.
 * Gradient:	none yet: RLX_ENOSUP
 * Source:	He et al. 2017 (Mask R-CNN); ONNX RoiAlign-16
 */
RLX_OP(roi_align, "x[n, c, h, w] pooled over rois[r, 4] (x1 y1 x2 y2) of image batch_indices[r]",
	IN(x) IN(rois) IN(batch_indices)
	REQ(i64, out_h, "the height of a result")
	REQ(i64, out_w, "its width")
	ATTR(i64, sampling)
	DEF(f32, spatial_scale, 1)
	ATTR(bool, max_mode)
	ATTR(bool, half_pixel),
	RLX_T_REDUCTION)

static enum rlx_status roi_align_infer(struct rlx_infer *q)
{
	const struct rlx_op_roi_align *a = q->args;
	const struct rlx_type *x = q->in[0], *r = q->in[1], *b = q->in[2];
	enum rlx_status st = op_need_float(q, 0, false);

	st = st ? st : op_need_float(q, 1, false);
	st = st ? st : op_need_index(q, 2);
	st = st ? st : op_need_rank(q, 0, 4, 4);
	if (st)
		return st;
	if (r->rank != 2 || r->dim[1] != 4 || b->rank != 1 || b->dim[0] != r->dim[0])
		return op_fail(q, RLX_ESHAPE, "rois [r, 4] and batch_indices [r] are needed");
	if (a->out_h < 1 || a->out_w < 1 || a->sampling < 0 || a->sampling > 4096 ||
	    !isfinite(a->spatial_scale))
		return op_fail(q, RLX_EINVAL,
			       "out_h %lld, out_w %lld, sampling %lld, spatial_scale %g",
			       (long long)a->out_h, (long long)a->out_w,
			       (long long)a->sampling, (double)a->spatial_scale);
	if (r->dim[0] && (!x->dim[2] || !x->dim[3]))
		return op_fail(q, RLX_ESHAPE, "the images are empty");
	q->out[0] = rlx_type(x->dtype, r->dim[0], x->dim[1], a->out_h, a->out_w);
	return RLX_OK;
}

/* One axis of a region. */
struct span {
	double	start, bin;
	int64_t	steps;
};

static enum rlx_status span_of(const struct rlx_eval *q, int64_t r, uint32_t axis,
			       struct span *s)
{
	const struct rlx_op_roi_align *a = q->args;
	int64_t out = axis ? a->out_h : a->out_w;
	double off = a->half_pixel ? 0.5 : 0, from, to, size;

	from = el_get(&q->in[1], r * 4 + axis) * a->spatial_scale - off;
	to = el_get(&q->in[1], r * 4 + 2 + axis) * a->spatial_scale - off;
	size = to - from;
	if (!a->half_pixel && !(size >= 1))
		size = 1;	/* malformed regions are one pixel */
	s->start = from;
	s->bin = size / (double)out;
	/* not a number or absurd: refuse rather than walk for ever */
	if (!(fabs(from) < 0x1p30) || !(fabs(size) < 0x1p20))
		return op_fail(q, RLX_ERANGE, "region %lld runs from %g over %g pixels",
			       (long long)r, from, size);
	s->steps = a->sampling ? a->sampling : s->bin > 0 ? (int64_t)ceil(s->bin) : 0;
	return RLX_OK;
}

/* The two neighbours of a coordinate; false if it lies off the image. */
static bool neighbours(double p, int64_t n, int64_t at[2], double w[2])
{
	if (p < -1 || p > (double)n)
		return false;
	p = p < 0 ? 0 : p;
	at[0] = (int64_t)p;
	if (at[0] >= n - 1) {
		at[0] = at[1] = n - 1;
		w[0] = 1;
		w[1] = 0;
		return true;
	}
	at[1] = at[0] + 1;
	w[1] = p - (double)at[0];
	w[0] = 1 - w[1];
	return true;
}

/* Where sample @i of @bin lies. */
static double sample_at(const struct span *s, int64_t bin, int64_t i)
{
	return s->start + ((double)bin + ((double)i + 0.5) / (double)s->steps) * s->bin;
}

static double one_bin(const struct rlx_eval *q, int64_t plane, const struct span s[2],
		      const int64_t bin[2])
{
	const struct rlx_op_roi_align *a = q->args;
	const struct rlx_type *x = &q->in[0].type;
	/* samples off the image are zeros; of them there may be very many */
	double sum = 0, top = -INFINITY, w[2][2], v;
	int64_t iy, ix, n = s[0].steps * s[1].steps, at[2][2], k;

	for (iy = 0; iy < s[1].steps; iy++) {
		if (!neighbours(sample_at(&s[1], bin[1], iy), x->dim[2], at[1], w[1])) {
			top = fmax(top, 0);
			continue;
		}
		for (ix = 0; ix < s[0].steps; ix++) {
			if (!neighbours(sample_at(&s[0], bin[0], ix), x->dim[3], at[0], w[0])) {
				top = fmax(top, 0);
				continue;
			}
			for (k = 0; k < 4; k++) {
				v = w[0][k & 1] * w[1][k >> 1] *
				    el_get(&q->in[0], (plane * x->dim[2] + at[1][k >> 1]) *
					   x->dim[3] + at[0][k & 1]);
				sum += v;
				top = fmax(top, v);
			}
		}
	}
	if (!n)
		top = 0;
	return a->max_mode ? top : sum / (double)(n ? n : 1);
}

static enum rlx_status roi_align_eval(struct rlx_eval *q)
{
	const struct rlx_op_roi_align *a = q->args;
	int64_t r, c, k, img, ch = q->in[0].type.dim[1], per = a->out_h * a->out_w;
	struct span s[2];
	enum rlx_status st;

	for (r = 0; r < q->out[0].type.dim[0]; r++) {
		st = op_index(q, el_geti(&q->in[2], r), q->in[0].type.dim[0], &img);
		st = st ? st : span_of(q, r, 0, &s[0]);
		st = st ? st : span_of(q, r, 1, &s[1]);
		if (st)
			return st;
		for (c = 0; c < ch; c++)
			for (k = 0; k < per; k++)
				el_set(&q->out[0], (r * ch + c) * per + k,
				       one_bin(q, img * ch + c, s,
					       (int64_t[]){ k % a->out_w, k / a->out_w }));
	}
	return RLX_OK;
}

/* Samples by their number; where the regions' sizes make it, as if they were one. */
static void roi_align_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_op_roi_align *a = q->args;
	double n = a->sampling ? (double)a->sampling : 1;

	c->flops = (double)rlx_type_count(&q->out[0]) * n * n * 8;
}

static bool roi_align_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_roi_align *a = s->args;

	if (i > 4)
		return false;
	s->n_in = 3;
	s->f32_only = true;	/* coordinates need their bits */
	s->grad_tol = -1;
	s->tol = 1e-5;
	s->in[0] = rlx_type(RLX_F32, 2, 3, 9, 8);
	s->in[1] = rlx_type(RLX_F32, i == 4 ? 0 : 5, 4);
	s->in[2] = rlx_type(RLX_I64, i == 4 ? 0 : 5);
	s->lo[1] = -2;
	s->hi[1] = 18;
	a->out_h = 3;
	a->out_w = i == 1 ? 1 : 2;
	a->sampling = i & 1 ? 2 : 0;
	a->spatial_scale = 0.5f;
	a->max_mode = i & 2;
	a->half_pixel = i == 1 || i == 2;
	return true;
}

static void roi_align_bad_data(const void *args, char *text, size_t size)
{
	snprintf(text, size, "an image is not there, or a region is not near one");
}

const struct rlx_op_impl rlx_op_roi_align_impl = {
	.infer = roi_align_infer, .eval = roi_align_eval, .bad_data = roi_align_bad_data,
	.cost = roi_align_cost, .sample = roi_align_sample,
};
