// SPDX-License-Identifier: MIT
/* Non-maximum suppression of boxes, and how many are left. */
#include "ops/emit.h"

/*
 * Shapes:	boxes[b, n, 4], scores[b, c, n] -> y[count, 3]
 * Dtypes:	boxes, scores: f64 f32 f16 bf16; y: i64
 * Does:	for each batch and class: boxes from the highest score on, equal ones by number,
 *		are kept if their intersection over union with no box kept before is above iou (0
 *		if not given), until max_per_class are; 0 keeps none. With use_score only scores
 *		above score are looked at. A box is two opposite corners in any order, with center
 *		its middle and sizes (x, y, w, h). y has batch, class and number of each box kept,
 *		in that order and by score. A box without an area overlaps none. count is how many
 *		are kept in all, as shapes do not depend on data: nms_count finds it.
 * Errors:	RLX_ERANGE if another number of boxes is kept.
 * Gradient:	none: the result is numbers of boxes
 * Source:	ONNX NonMaxSuppression-11
 */
RLX_OP(nms, "i64 [count, 3]: batch, class and box of what suppression leaves, best first",
	IN(boxes) IN(scores)
	ATTR(i64, max_per_class)
	ATTR(f32, iou)
	ATTR(f32, score)
	ATTR(bool, use_score)
	ATTR(bool, center)
	ATTR(i64, count),
	RLX_T_MOVE | RLX_T_NODIFF)

/*
 * Shapes:	boxes[b, n, 4], scores[b, c, n] -> y[]
 * Dtypes:	boxes, scores: f64 f32 f16 bf16; y: i64
 * Does:	how many boxes nms keeps with the same max_per_class (0: none), iou, score,
 *		use_score and center: its count.
 * Gradient:	none: the result is a number of boxes
 * Source:	ONNX NonMaxSuppression-11
 */
RLX_OP(nms_count, "how many boxes suppression leaves, an i64 scalar",
	IN(boxes) IN(scores)
	ATTR(i64, max_per_class)
	ATTR(f32, iou)
	ATTR(f32, score)
	ATTR(bool, use_score)
	ATTR(bool, center),
	RLX_T_REDUCTION | RLX_T_NODIFF)

/* What both ops have in common. */
struct nms {
	const struct rlx_tensor	*boxes, *scores;
	int64_t			 b, c, n, most;
	double			 iou, score;
	bool			 use_score, center;
};

static enum rlx_status check(struct rlx_infer *q, int64_t most, float iou, float score)
{
	const struct rlx_type *b = q->in[0], *s = q->in[1];
	enum rlx_status st = op_need_float(q, 0, false);

	if (!st)
		st = op_need_float(q, 1, false);
	if (st)
		return st;
	if (b->rank != 3 || s->rank != 3 || b->dim[2] != 4 || b->dim[0] != s->dim[0] ||
	    b->dim[1] != s->dim[2])
		return op_fail(q, RLX_ESHAPE,
			       "boxes [batch, n, 4] and scores [batch, classes, n] are needed");
	if (most < 0 || isnan(iou) || isnan(score))
		return op_fail(q, RLX_EINVAL, "max_per_class %lld, iou %g, score %g",
			       (long long)most, (double)iou, (double)score);
	return RLX_OK;
}

/* Corners with the smaller first, whatever the order they come in. */
static void corners(const struct nms *m, int64_t b, int64_t i, double r[4])
{
	double v[4], t;
	int k;

	for (k = 0; k < 4; k++)
		v[k] = el_get(m->boxes, (b * m->n + i) * 4 + k);
	if (m->center) {
		r[0] = v[0] - v[2] / 2;
		r[1] = v[1] - v[3] / 2;
		r[2] = v[0] + v[2] / 2;
		r[3] = v[1] + v[3] / 2;
		return;
	}
	for (k = 0; k < 2; k++) {
		t = v[k];
		r[k] = fmin(t, v[k + 2]);
		r[k + 2] = fmax(t, v[k + 2]);
	}
}

static bool overlaps(const struct nms *m, int64_t b, int64_t i, int64_t j)
{
	double p[4], r[4], h, w, both, all;

	corners(m, b, i, p);
	corners(m, b, j, r);
	h = fmin(p[2], r[2]) - fmax(p[0], r[0]);
	w = fmin(p[3], r[3]) - fmax(p[1], r[1]);
	if (!(h > 0) || !(w > 0))
		return false;
	both = h * w;
	all = (p[2] - p[0]) * (p[3] - p[1]) + (r[2] - r[0]) * (r[3] - r[1]) - both;
	return all > 0 && both / all > m->iou;
}

/* Fill order[0..] with the kept boxes of one class, best first; their number. */
static int64_t keep(const struct nms *m, int64_t b, int64_t c, int64_t *order)
{
	struct op_line l = {
		.t = m->scores, .base = (b * m->c + c) * m->n, .stride = 1,
		.descending = true,
	};
	int64_t kept = 0, i, j;

	for (i = 0; i < m->n; i++)
		order[i] = i;
	op_sort(&l, order, m->n);
	for (i = 0; i < m->n && kept < m->most; i++) {
		int64_t box = order[i];

		if (m->use_score && !(el_get(m->scores, l.base + box) > m->score))
			continue;
		for (j = 0; j < kept && !overlaps(m, b, order[j], box); j++)
			;
		if (j == kept)
			order[kept++] = box;
	}
	return kept;
}

static enum rlx_status nms_infer(struct rlx_infer *q)
{
	const struct rlx_op_nms *a = q->args;

	if (a->count < 0)
		return op_fail(q, RLX_EINVAL, "count is %lld", (long long)a->count);
	q->out[0] = rlx_type(RLX_I64, a->count, 3);
	return check(q, a->max_per_class, a->iou, a->score);
}

static size_t nms_scratch(const struct rlx_infer *q)
{
	/* where there is no box, there is no order, whatever the other sizes are */
	return rlx_type_count(q->in[1]) ? ((size_t)q->in[0]->dim[1] + 1) * sizeof(int64_t) : 0;
}

static struct nms set_up(const struct rlx_eval *q)
{
	const struct rlx_type *s = &q->in[1].type;

	return (struct nms){ .boxes = &q->in[0], .scores = &q->in[1], .c = s->dim[1],
			     .b = rlx_type_count(s) ? s->dim[0] : 0, .n = s->dim[2] };
}

static enum rlx_status nms_eval(struct rlx_eval *q)
{
	const struct rlx_op_nms *a = q->args;
	struct nms m = set_up(q);
	int64_t b, c, k, i, have = 0;

	m.most = a->max_per_class;
	m.iou = a->iou;
	m.score = a->score;
	m.use_score = a->use_score;
	m.center = a->center;
	for (b = 0; b < m.b; b++)
		for (c = 0; c < m.c; c++) {
			k = keep(&m, b, c, q->scratch);
			for (i = 0; i < k; i++, have++) {
				if (have >= a->count)
					continue;
				el_seti(&q->out[0], have * 3, b);
				el_seti(&q->out[0], have * 3 + 1, c);
				el_seti(&q->out[0], have * 3 + 2,
					((int64_t *)q->scratch)[i]);
			}
		}
	if (have != a->count)
		return op_fail(q, RLX_ERANGE, "%lld boxes are left, count is %lld",
			       (long long)have, (long long)a->count);
	return RLX_OK;
}

static enum rlx_status nms_count_infer(struct rlx_infer *q)
{
	const struct rlx_op_nms_count *a = q->args;

	q->out[0] = rlx_scalar(RLX_I64);
	return check(q, a->max_per_class, a->iou, a->score);
}

static enum rlx_status nms_count_eval(struct rlx_eval *q)
{
	const struct rlx_op_nms_count *a = q->args;
	struct nms m = set_up(q);
	int64_t b, c, n = 0;

	m.most = a->max_per_class;
	m.iou = a->iou;
	m.score = a->score;
	m.use_score = a->use_score;
	m.center = a->center;
	for (b = 0; b < m.b; b++)
		for (c = 0; c < m.c; c++)
			n += keep(&m, b, c, q->scratch);
	el_seti(&q->out[0], 0, n);
	return RLX_OK;
}

/* Suppression is off (iou 1), so that the count is known. */
static bool nms_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_nms *a = s->args;

	if (i > 3)
		return false;
	s->n_in = 2;
	s->f32_only = true;
	s->in[0] = rlx_type(RLX_F32, 2, 7, 4);
	s->in[1] = rlx_type(RLX_F32, 2, 3, 7);
	s->hi[0] = s->hi[1] = 1;
	a->iou = 1;
	a->max_per_class = i == 1 ? 0 : i == 2 ? 100 : 4;
	a->center = i == 2;
	a->use_score = i == 3;
	a->score = 2;
	a->count = i == 0 ? 24 : i == 2 ? 42 : 0;
	return true;
}

static bool nms_count_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_nms_count *a = s->args;

	if (i > 2)
		return false;
	s->n_in = 2;
	s->f32_only = true;
	s->in[0] = rlx_type(RLX_F32, 2, i == 2 ? 0 : 17, 4);
	s->in[1] = rlx_type(RLX_F32, 2, 3, i == 2 ? 0 : 17);
	s->hi[0] = s->hi[1] = 1;
	a->iou = 0.3f;
	a->max_per_class = 9;
	a->center = i == 1;
	a->use_score = true;
	a->score = 0.2f;
	return true;
}

static void nms_bad_data(const void *args, char *text, size_t size)
{
	const struct rlx_op_nms *a = args;

	snprintf(text, size, "count is %lld, other many boxes are left", (long long)a->count);
}

const struct rlx_op_impl rlx_op_nms_impl = {
	.infer = nms_infer, .scratch = nms_scratch, .eval = nms_eval,
	.bad_data = nms_bad_data,
};
RLX_SAMPLES(nms, nms_sample)

const struct rlx_op_impl rlx_op_nms_count_impl = {
	.infer = nms_count_infer, .scratch = nms_scratch, .eval = nms_count_eval,
};
RLX_SAMPLES(nms_count, nms_count_sample)
