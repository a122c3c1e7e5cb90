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
 *		malformed ones too. Places more than a pixel off the image are 0; those at just
 *		a pixel, up to roundings, are not. A negative image counts from the end.
 * Errors:	RLX_ERANGE for an image that is not there, and a region whose start is not within
 *		2^30 pixels or whose size is not below 2^20, as NaN is not. RLX_ESHAPE if the
 *		images are empty and there are regions.
 * Gradient:	of the same read as a gather and a sum of products, or the largest: to x and rois.
 *		Without sampling, when regions tell how many places there are, RLX_ENOSUP
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
	RLX_T_REDUCTION | RLX_T_STEPPED)

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

/* How far behind the last place that counts, which roundings move, 0 begins: kernels/roi.h. */
static double beyond(int64_t n)
{
	return ((double)n + 1) / 1048576.0;
}

/* The two neighbours of a coordinate; false if it lies off the image. */
static bool neighbours(double p, int64_t n, int64_t at[2], double w[2])
{
	if (p < -1 - beyond(n) || p > (double)n + beyond(n))
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

/* ---- the same as a graph, for gradients: how many places there are is known ---- */

static rlx_value column(struct rlx_graph *g, rlx_value x, int64_t k)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(1), .starts = RLX_INTS(k),
			.ends = RLX_INTS(k + 1));
}

/* Where @x is below @least that, which has no slope. */
static rlx_value at_least(struct rlx_graph *g, rlx_value x, double least)
{
	rlx_value to = op_const_like(g, x, least);

	return rlx_emit(g, where, .cond = rlx_emit(g, lt, .a = x, .b = to), .a = to, .b = x);
}

/* span_of() and sample_at(): [r, places] along an axis. */
static rlx_value places(struct rlx_graph *g, const struct rlx_op_roi_align *a, rlx_value rois,
			uint32_t axis)
{
	int64_t out = axis ? a->out_h : a->out_w;
	double step = 1 / (double)a->sampling, off = a->half_pixel ? 0.5 : 0;
	struct rlx_type t = rlx_type(op_type(g, rois).dtype, 1, out * a->sampling);
	rlx_value from, size, at;

	from = op_add_const(g, op_mul_const(g, column(g, rois, axis), a->spatial_scale), -off);
	size = op_add_const(g, op_mul_const(g, column(g, rois, 2 + axis), a->spatial_scale), -off);
	size = rlx_emit(g, sub, .a = size, .b = from);
	if (!a->half_pixel)
		size = at_least(g, size, 1);
	at = rlx_emit(g, iota, .type = t, .axis = 1, .start = step / 2, .step = step);
	at = rlx_emit(g, mul, .a = op_mul_const(g, size, 1 / (double)out), .b = at);
	return rlx_emit(g, add, .a = from, .b = at);
}

/* neighbours() of places @p: positions and weights of two, [r, out, sampling * 2]. */
static void emit_neighbours(struct rlx_graph *g, rlx_value p, int64_t n, int64_t out,
			    rlx_value *out_at, rlx_value *out_w)
{
	struct rlx_type t = op_type(g, p), two = rlx_type(t.dtype, 2);
	int64_t dim[3] = { t.dim[0], out, out ? t.dim[1] / out * 2 : 0 };
	rlx_value last, low, there, none;

	p = op_reshape(g, p, (int64_t[]){ t.dim[0], t.dim[1], 1 }, 3);
	last = op_const_like(g, p, (double)(n - 1));
	none = op_const_like(g, p, 0);
	there = rlx_emit(g, bit_and,
			 .a = rlx_emit(g, ge, .a = p, .b = op_const_like(g, p, -1 - beyond(n))),
			 .b = rlx_emit(g, le, .a = p,
				       .b = op_const_like(g, p, (double)n + beyond(n))));
	p = rlx_emit(g, where, .cond = there, .a = at_least(g, p, 0), .b = none);
	/* from the last element on there is no second one */
	low = rlx_emit(g, floor, .x = p);
	p = rlx_emit(g, where, .cond = rlx_emit(g, lt, .a = low, .b = last),
		     .a = rlx_emit(g, sub, .a = p, .b = low), .b = none);
	p = rlx_emit(g, mul, .a = p, .b = rlx_emit(g, iota, .type = two, .start = -1, .step = 2));
	p = rlx_emit(g, add, .a = p, .b = rlx_emit(g, iota, .type = two, .start = 1, .step = -1));
	p = rlx_emit(g, where, .cond = there, .a = p, .b = none);
	low = rlx_emit(g, add, .a = low, .b = rlx_emit(g, iota, .type = two));
	low = rlx_emit(g, min, .a = low, .b = last);
	*out_at = op_reshape(g, op_cast(g, low, RLX_I64), dim, 3);
	*out_w = op_reshape(g, p, dim, 3);
}

/* y[r, h, k] and x[r, w, l] as [r h w, k l]: their sum, or product. */
static rlx_value outer(struct rlx_graph *g, rlx_value y, rlx_value x, bool product)
{
	struct rlx_type a = op_type(g, y), b = op_type(g, x);

	y = op_reshape(g, y, (int64_t[]){ a.dim[0], a.dim[1], 1, a.dim[2], 1 }, 5);
	x = op_reshape(g, x, (int64_t[]){ a.dim[0], 1, b.dim[1], 1, b.dim[2] }, 5);
	y = product ? rlx_emit(g, mul, .a = y, .b = x) : rlx_emit(g, add, .a = y, .b = x);
	return op_reshape(g, y, (int64_t[]){ a.dim[0] * a.dim[1] * b.dim[1], a.dim[2] * b.dim[2] },
			  2);
}

/* Positions of all that a bin reads, the images behind each other, and weights: [bins, taps]. */
static void emit_taps(struct rlx_expand *q, rlx_value rois, rlx_value *out_at, rlx_value *out_w)
{
	const struct rlx_op_roi_align *a = q->args;
	const struct rlx_type x = op_type(q->g, q->in[0]), r = op_type(q->g, rois);
	struct rlx_graph *g = q->g;
	rlx_value at[2], w[2], image = op_cast(g, q->in[2], RLX_I64);

	emit_neighbours(g, places(g, a, rois, 0), x.dim[3], a->out_w, &at[0], &w[0]);
	emit_neighbours(g, places(g, a, rois, 1), x.dim[2], a->out_h, &at[1], &w[1]);
	image = rlx_emit(g, where, .a = op_add_const(g, image, (double)x.dim[0]), .b = image,
			 .cond = rlx_emit(g, lt, .a = image, .b = op_const_like(g, image, 0)));
	image = op_mul_const(g, image, (double)(x.dim[2] * x.dim[3]));
	image = op_reshape(g, image, (int64_t[]){ r.dim[0], 1, 1 }, 3);
	at[1] = rlx_emit(g, add, .a = op_mul_const(g, at[1], (double)x.dim[3]), .b = image);
	*out_at = outer(g, at[1], at[0], false);
	*out_w = outer(g, w[1], w[0], true);
}

static enum rlx_status roi_align_grad_expand(struct rlx_expand *q)
{
	const struct rlx_op_roi_align *a = q->args;
	const struct rlx_type x = op_type(q->g, q->in[0]), rt = op_type(q->g, q->in[1]);
	enum rlx_dtype dt = op_acc_type(rlx_dtype_promote(x.dtype, rt.dtype));
	int64_t n = x.dim[0], c = x.dim[1], in = x.dim[2] * x.dim[3], bins, taps;
	struct rlx_graph *g = q->g;
	rlx_value at, w, v;

	if (!a->sampling) {
		rlx_graph_fail(g, RLX_ENOSUP, "roi_align has a gradient only with sampling above "
			       "0: else the regions tell how often it reads");
		return op_done(g);
	}
	emit_taps(q, op_cast(g, q->in[1], dt), &at, &w);
	bins = op_type(g, w).dim[0];
	taps = op_type(g, w).dim[1];
	v = op_reshape(g, op_cast(g, q->in[0], dt), (int64_t[]){ n, c, in }, 3);
	v = op_reshape(g, op_transpose(g, v, RLX_INTS(0, 2, 1)), (int64_t[]){ n * in, c }, 2);
	v = rlx_emit(g, gather, .x = v, .indices = at);
	if (a->max_mode) {
		w = op_reshape(g, w, (int64_t[]){ bins, taps, 1 }, 3);
		v = op_reduce_span(g, rlx_emit(g, mul, .a = v, .b = w), RLX_REDUCE_MAX, 1, 2);
	} else {
		w = op_reshape(g, w, (int64_t[]){ bins, 1, taps }, 3);
		v = op_mul_const(g, rlx_emit(g, matmul, .a = w, .b = v),
				 1 / (double)(a->sampling * a->sampling));
	}
	v = op_reshape(g, v, (int64_t[]){ rt.dim[0], a->out_h, a->out_w, c }, 4);
	q->out[0] = op_cast(g, op_transpose(g, v, RLX_INTS(0, 3, 1, 2)), x.dtype);
	return op_done(g);
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
	s->grad_tol = i & 1 ? 0 : -1;
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
	.infer = roi_align_infer, .eval = roi_align_eval,
	.grad_expand = roi_align_grad_expand, .bad_data = roi_align_bad_data,
	.cost = roi_align_cost,
};
RLX_SAMPLES(roi_align, roi_align_sample)
