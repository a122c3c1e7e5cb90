// SPDX-License-Identifier: MIT
/* Resampling along any axes: nearest, linear and cubic, as ONNX Resize. */
#include "base/alloc.h"
#include "ops/batch.h"
#include "ops/emit.h"
#include "ops/resize_axis.h"

/*
 * Shapes:	x[d..] -> y[sizes]
 * Dtypes:	f64 f32 f16 bf16 and integers; y as x
 * Does:	resamples each axis to its size. scales say where elements lie, size / d if not
 *		given. mode RLX_RESIZE_NEAREST (if not given) takes what nearest says:
 *		RLX_NEAREST_ROUND_PREFER_FLOOR (if not given), ROUND_PREFER_CEIL, FLOOR, CEIL, or
 *		SIMPLE (floor growing, ceil shrinking); LINEAR and CUBIC weigh 2 and 4 neighbours,
 *		the latter by cubic_a. coord is one of enum rlx_coord,
 *		RLX_COORD_HALF_PIXEL if not given; TF_CROP_AND_RESIZE reads the part
 *		that roi names (all starts, then all ends, from 0 to 1) and gives extrapolation (0
 *		if not given) outside of x. Elsewhere neighbours outside are those at the end, or
 *		left out with exclude_outside. antialias widens the filter where an axis shrinks.
 *		Integers are truncated. NaN spreads by weights of 0, too, but along no axis that
 *		stays as it is: as long as it was and, if cropped, from 0 to 1.
 * Gradient:	dx = dy by the transposed weights, axis by axis
 * Source:	ONNX Resize-19; Keys 1981 for cubic weights
 */
RLX_OP(resize, "resample to 'sizes'; separable, with ONNX's coordinate and rounding modes",
	IN(x)
	ATTR(ints, sizes)
	ATTR(floats, scales)
	ATTR(i32, mode)
	ATTR(i32, coord)
	ATTR(i32, nearest)
	DEF(f32, cubic_a, -0.75f)
	ATTR(bool, exclude_outside)
	ATTR(bool, antialias)
	ATTR(f32, extrapolation)
	ATTR(floats, roi),
	RLX_T_REDUCTION)

static enum rlx_status check_lists(struct rlx_infer *q)
{
	const struct rlx_op_resize *a = q->args;
	uint32_t rank = q->in[0]->rank, i;

	if (a->sizes.n != rank || (a->scales.n && a->scales.n != rank) ||
	    (a->roi.n && a->roi.n != 2 * rank))
		return op_fail(q, RLX_EINVAL,
			       "%u sizes, %u scales, %u roi numbers; rank %u needs %u, %u, %u",
			       a->sizes.n, a->scales.n, a->roi.n, rank, rank, rank,
			       2 * rank);
	for (i = 0; i < rank; i++) {
		if (a->sizes.v[i] < 0 || (a->sizes.v[i] && !q->in[0]->dim[i]))
			return op_fail(q, RLX_ESHAPE, "axis %u of %lld cannot become %lld",
				       i, (long long)q->in[0]->dim[i],
				       (long long)a->sizes.v[i]);
		if (a->scales.n && !(a->scales.v[i] > 0 && isfinite(a->scales.v[i])))
			return op_fail(q, RLX_EINVAL, "scale %u is %g", i, a->scales.v[i]);
	}
	for (i = 0; i < a->roi.n; i++)
		if (!isfinite(a->roi.v[i]))
			return op_fail(q, RLX_EINVAL, "roi number %u is %g", i, a->roi.v[i]);
	if (a->coord == RLX_COORD_TF_CROP_AND_RESIZE && !a->roi.n)
		return op_fail(q, RLX_EINVAL, "tf_crop_and_resize needs a roi");
	return RLX_OK;
}

static enum rlx_status resize_infer(struct rlx_infer *q)
{
	const struct rlx_op_resize *a = q->args;
	enum rlx_status st = op_need_number(q, 0);
	uint32_t i;

	st = st ? st : op_need_enum(q, "mode", a->mode, RLX_RESIZE_CUBIC + 1);
	st = st ? st : op_need_enum(q, "coord", a->coord, RLX_COORD_TF_HALF_PIXEL_NN + 1);
	st = st ? st : op_need_enum(q, "nearest", a->nearest, RLX_NEAREST_SIMPLE + 1);
	if (!st && !isfinite(a->cubic_a))
		st = op_fail(q, RLX_EINVAL, "cubic_a is %g", (double)a->cubic_a);
	st = st ? st : check_lists(q);
	if (st)
		return st;
	q->out[0] = *q->in[0];
	for (i = 0; i < a->sizes.n; i++)
		q->out[0].dim[i] = a->sizes.v[i];
	return RLX_OK;
}

/* Two images as doubles, then the taps of one output. */
struct work {
	double	*from, *to, *w;
	int64_t	*at;
};

static void work_sizes(const struct rlx_op_resize *a, const struct rlx_type *x,
		       int64_t *image, int64_t *taps)
{
	struct rlx_type t = *x;
	struct op_resize_axis ax;
	uint32_t i;
	int64_t n;

	*image = rlx_type_count(x);
	*taps = 1;
	for (i = 0; i < x->rank; i++) {
		ax = op_resize_axis_of(a, x, i);
		t.dim[i] = ax.out;
		n = rlx_type_count(&t);
		*image = n < 0 ? INT64_MAX : n > *image ? n : *image;
		*taps = ax.taps > *taps ? ax.taps : *taps;
	}
}

static size_t resize_scratch(const struct rlx_infer *q)
{
	const struct rlx_op_resize *a = q->args;
	int64_t image, taps, bytes = 1;
	uint32_t i;

	if (!rlx_type_count(&q->out[0]))	/* other axes may be of any length */
		return 0;
	if (a->mode == RLX_RESIZE_NEAREST) {	/* a table per axis */
		for (i = 0; i < q->out[0].rank; i++)
			if (__builtin_add_overflow(bytes, q->out[0].dim[i], &bytes))
				return SIZE_MAX;
		return bytes > INT64_MAX / 8 ? SIZE_MAX : (size_t)bytes * 8;
	}
	work_sizes(a, q->in[0], &image, &taps);
	/* too much to count is too much to allocate */
	if (__builtin_add_overflow(image, taps, &bytes) ||
	    __builtin_mul_overflow(bytes, 2 * (int64_t)sizeof(double), &bytes))
		return SIZE_MAX;
	return (size_t)bytes;
}

static void one_axis(const struct rlx_op_resize *a, const struct op_resize_axis *x,
		     const struct work *b, int64_t pre, int64_t post)
{
	int64_t o, i, j, k;
	double sum;

	for (o = 0; o < x->out; o++) {
		op_resize_weights(a, x, o, b->w, b->at);
		for (i = 0; i < pre; i++)
			for (j = 0; j < post; j++) {
				sum = 0;
				for (k = 0; k < x->taps; k++)
					sum += b->w[k] *
					       b->from[(i * x->in + b->at[k]) * post + j];
				b->to[(i * x->out + o) * post + j] = sum;
			}
	}
}

static enum rlx_status eval_nearest(struct rlx_eval *q)
{
	const struct rlx_op_resize *a = q->args;
	const struct rlx_type *x = &q->in[0].type, *y = &q->out[0].type;
	int64_t *table[RLX_MAX_RANK], *next = q->scratch, s[RLX_MAX_RANK], off, o;
	struct op_resize_axis ax;
	struct op_walk w;
	uint32_t i;

	shape_dense(x, s);
	for (i = 0; i < x->rank; i++, next += y->dim[i - 1]) {
		table[i] = next;
		ax = op_resize_axis_of(a, x, i);
		for (o = 0; o < y->dim[i]; o++)
			next[o] = op_resize_outside(a, &ax, o) ? -1 :
				  ax.same ? o * s[i] : op_resize_nearest(a, &ax, o) * s[i];
	}
	op_walk_begin(&w, y, NULL, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		for (off = 0, i = 0; i < x->rank && off >= 0; i++)
			off = table[i][w.idx[i]] < 0 ? -1 : off + table[i][w.idx[i]];
		if (off < 0)
			el_set(&q->out[0], w.i, a->extrapolation);
		else
			el_copy(&q->out[0], w.i, &q->in[0], off);
	}
	return RLX_OK;
}

/* Some axis of output @idx lies outside the cropped region. */
static bool extrapolated(const struct rlx_op_resize *a, const struct rlx_type *x,
			 const int64_t *idx)
{
	struct op_resize_axis ax;
	uint32_t i;

	if (a->coord != RLX_COORD_TF_CROP_AND_RESIZE)
		return false;
	for (i = 0; i < x->rank; i++) {
		ax = op_resize_axis_of(a, x, i);
		if (op_resize_outside(a, &ax, idx[i]))
			return true;
	}
	return false;
}

static enum rlx_status resize_eval(struct rlx_eval *q)
{
	const struct rlx_op_resize *a = q->args;
	struct rlx_type t = q->in[0].type;
	struct work b = { .from = q->scratch };
	int64_t image, taps, i;
	struct op_resize_axis ax;
	struct op_walk w;
	uint32_t d;
	double *swap;

	if (!rlx_type_count(&q->out[0].type))
		return RLX_OK;
	if (a->mode == RLX_RESIZE_NEAREST)
		return eval_nearest(q);
	work_sizes(a, &t, &image, &taps);
	b.to = b.from + image;
	b.w = b.to + image;
	b.at = (int64_t *)(b.w + taps);
	for (i = 0; i < rlx_type_count(&t); i++)
		b.from[i] = el_get(&q->in[0], i);
	for (d = 0; d < t.rank; d++) {
		ax = op_resize_axis_of(a, &q->in[0].type, d);
		if (ax.same)
			continue;
		one_axis(a, &ax, &b, shape_span(&t, 0, d), shape_span(&t, d + 1, t.rank));
		t.dim[d] = ax.out;
		swap = b.from;
		b.from = b.to;
		b.to = swap;
	}
	op_walk_begin(&w, &t, NULL, NULL, NULL);
	for (; !w.done; op_walk_next(&w))
		el_set(&q->out[0], w.i, extrapolated(a, &q->in[0].type, w.idx) ?
		       (double)a->extrapolation : b.from[w.i]);
	return RLX_OK;
}

/* One axis as a constant matrix [in, out]: what multiplies the gradient. */
static rlx_value matrix(struct rlx_graph *g, const struct rlx_op_resize *a,
			const struct op_resize_axis *x, enum rlx_dtype dt)
{
	double *m = rlx_calloc((size_t)x->in, (size_t)x->out * sizeof(*m));
	double *w = rlx_calloc((size_t)x->taps, sizeof(*w) + sizeof(int64_t));
	int64_t *at = (int64_t *)(w + x->taps), o, k;
	rlx_value v = RLX_NONE;

	for (o = 0; m && w && o < x->out; o++) {
		if (a->mode == RLX_RESIZE_NEAREST) {
			if (!op_resize_outside(a, x, o))
				m[op_resize_nearest(a, x, o) * x->out + o] = 1;
			continue;
		}
		op_resize_weights(a, x, o, w, at);
		for (k = 0; k < x->taps; k++)
			m[at[k] * x->out + o] += w[k];
	}
	if (m && w)
		v = op_cast(g, rlx_constant(g, rlx_type(RLX_F64, x->in, x->out), m), dt);
	rlx_free(w);
	rlx_free(m);
	return v;
}

static enum rlx_status resize_vjp(struct rlx_grad *q)
{
	const struct rlx_op_resize *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), t = op_type(q->g, q->out[0]);
	rlx_value d = q->d_out[0], m;
	struct op_resize_axis ax;
	uint32_t i;

	if (!rlx_type_count(&x) || !rlx_type_count(&t)) {
		q->d_in[0] = op_zeros_like(q->g, q->in[0]);
		return op_done(q->g);
	}
	for (i = 0; i < x.rank; i++) {
		ax = op_resize_axis_of(a, &x, i);
		if (ax.same)
			continue;
		m = matrix(q->g, a, &ax, x.dtype);
		if (!m.id)
			return op_done(q->g) ? op_done(q->g) : RLX_ENOMEM;
		d = rlx_emit(q->g, matmul, .a = m, .b = op_fold3(q->g, d, i));
		t.dim[i] = ax.in;
		d = op_reshape(q->g, d, t.dim, t.rank);
	}
	q->d_in[0] = d;
	return op_done(q->g);
}

static void sample_modes(unsigned int i, struct rlx_sample *s, struct rlx_op_resize *a)
{
	int64_t h = i & 1 ? 4 : 13, w = i & 2 ? 3 : 9;

	s->in[0] = rlx_type(RLX_F32, 1, 2, 7, 5);
	a->sizes = op_keep(s, RLX_INTS(1, 2, h, w));
	a->mode = (int32_t)(i % 3);
	a->coord = (int32_t)(i / 3 % 7);
	a->nearest = (int32_t)(i % 5);
	if (i & 4)
		a->scales = op_keep_floats(s, RLX_FLOATS(1, 1, ((double)h + 0.3) / 7,
							 ((double)w + 0.2) / 5));
	if (a->mode && !(i & 8))
		a->antialias = i & 1;
	a->exclude_outside = a->mode == RLX_RESIZE_CUBIC && i & 16;
	if (a->coord == RLX_COORD_TF_CROP_AND_RESIZE) {
		a->roi = op_keep_floats(s, RLX_FLOATS(0, 0, 0.1, -0.2, 1, 1, 0.8, 1.1));
		a->extrapolation = 0.5f;
	}
}

static bool resize_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_resize *a = s->args;

	s->n_in = 1;
	s->tol = 1e-5;
	if (i < 42) {
		sample_modes(i, s, a);
		return true;
	}
	switch (i) {
	case 42:	/* 1-D and 5-D */
		s->in[0] = rlx_type(RLX_F32, 11);
		a->sizes = op_keep(s, RLX_INTS(1));
		a->mode = RLX_RESIZE_LINEAR;
		return true;
	case 43:
		s->in[0] = rlx_type(RLX_F32, 1, 1, 2, 3, 2);
		a->sizes = op_keep(s, RLX_INTS(1, 1, 4, 3, 5));
		a->mode = RLX_RESIZE_LINEAR;
		a->coord = RLX_COORD_ALIGN_CORNERS;
		return true;
	case 44:
		s->in[0] = rlx_type(RLX_U8, 2, 3);
		s->hi[0] = 255;
		a->sizes = op_keep(s, RLX_INTS(4, 6));
		a->coord = RLX_COORD_ASYMMETRIC;
		a->nearest = RLX_NEAREST_FLOOR;
		return true;
	case 45:
		s->in[0] = rlx_type(RLX_F32, 0, 3);
		a->sizes = op_keep(s, RLX_INTS(0, 6));
		return true;
	case 46:
		s->in[0] = rlx_type(RLX_F32, 1, 1);
		a->sizes = op_keep(s, RLX_INTS(3, 0));
		a->mode = RLX_RESIZE_CUBIC;
		return true;
	case 47: case 48:	/* channels last, as many as a vector or two have */
		s->in[0] = rlx_type(RLX_F32, 2, 4, 3, i == 47 ? 8 : 16);
		a->sizes = op_keep(s, RLX_INTS(2, 5, 6, s->in[0].dim[3]));
		a->mode = i == 47 ? RLX_RESIZE_NEAREST : RLX_RESIZE_LINEAR;
		return true;
	case 49: case 50:
		s->in[0] = rlx_type(RLX_F32, 2, 4, 3, i == 49 ? 16 : 8);
		a->sizes = op_keep(s, RLX_INTS(2, 3, 7, s->in[0].dim[3]));
		a->mode = i == 49 ? RLX_RESIZE_NEAREST : RLX_RESIZE_CUBIC;
		return true;
	case 51: case 52:	/* more axes than a kernel takes */
		s->in[0] = rlx_type(RLX_F32, 2, 3, 1, 2, 3);
		a->sizes = op_keep(s, RLX_INTS(3, 2, 3, 3, 2));
		a->mode = i == 51 ? RLX_RESIZE_NEAREST : RLX_RESIZE_LINEAR;
		return true;
	}
	return false;
}

/* The batch axis stays as long as it is, and whole. */
static enum rlx_status resize_batch(struct rlx_batching *q)
{
	struct rlx_op_resize a = *(const struct rlx_op_resize *)q->args;
	uint32_t rank = q->type->rank;
	int64_t sizes[RLX_MAX_RANK + 1] = { q->n };
	double scales[RLX_MAX_RANK + 1] = { 1 }, roi[2 * RLX_MAX_RANK + 2] = { 0 };

	memcpy(sizes + 1, q->out_type->dim, rank * sizeof(sizes[0]));
	a.sizes = (struct rlx_ints){ sizes, rank + 1 };
	if (a.scales.n) {
		memcpy(scales + 1, a.scales.v, rank * sizeof(scales[0]));
		a.scales = (struct rlx_floats){ scales, rank + 1 };
	}
	if (a.roi.n) {
		memcpy(roi + 1, a.roi.v, rank * sizeof(roi[0]));
		roi[rank + 1] = 1;
		memcpy(roi + rank + 2, a.roi.v + rank, rank * sizeof(roi[0]));
		a.roi = (struct rlx_floats){ roi, 2 * rank + 2 };
	}
	q->to[0] = q->in[0].id;
	return op_batch_emit(q, &a);
}

const struct rlx_op_impl rlx_op_resize_impl = {
	.infer = resize_infer, .scratch = resize_scratch, .eval = resize_eval,
	.vjp = resize_vjp,
	.batch = resize_batch,
};
RLX_SAMPLES(resize, resize_sample)
