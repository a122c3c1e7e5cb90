/* SPDX-License-Identifier: MIT */
/* What blending splats and its derivatives share. */
#ifndef RLX_OPS_SPLAT_H
#define RLX_OPS_SPLAT_H

#include "ops/emit.h"

enum {
	OP_SPLAT_FIELDS	= 9,	/* x y, the form a b c, opacity, red green blue */
	OP_SPLAT_TILE	= 16,
};

/* Splats, boxes and background: inputs 0 to 2. */
static inline enum rlx_status op_splat_infer(struct rlx_infer *q, int64_t width, int64_t height)
{
	const struct rlx_type *s = q->in[0], *b = q->in[1], *bg = q->in[2];
	uint32_t k;

	for (k = 0; k < q->n_in; k++)
		if ((s->dtype != RLX_F32 && s->dtype != RLX_F64) || q->in[k]->dtype != s->dtype)
			return op_fail(q, RLX_ETYPE, "all inputs are f32, or all are f64");
	if (s->rank != 2 || s->dim[1] != OP_SPLAT_FIELDS || b->rank != 2 || b->dim[1] != 4 ||
	    b->dim[0] != s->dim[0] || bg->rank != 1 || bg->dim[0] != 3)
		return op_fail(q, RLX_ESHAPE, "splats [n, 9], boxes [n, 4] and a background [3] "
			       "are needed");
	if (width < 0 || height < 0 || width > 1 << 20 || height > 1 << 20)
		return op_fail(q, RLX_EINVAL, "an image of %lld x %lld pixels",
			       (long long)width, (long long)height);
	return RLX_OK;
}

/* One splat at one pixel. */
struct op_splat {
	double	p[OP_SPLAT_FIELDS];
	double	dx, dy, e, alpha;
	bool	capped;
};

/* Does splat @i cover the pixel centre (@x, @y)? */
static inline bool op_splat_at(const struct rlx_eval *q, int64_t i, double x, double y,
			       struct op_splat *s)
{
	const struct rlx_tensor *box = &q->in[1];
	double r;
	int k;

	if (!(x >= el_get(box, 4 * i) && y >= el_get(box, 4 * i + 1) &&
	      x <= el_get(box, 4 * i + 2) && y <= el_get(box, 4 * i + 3)))
		return false;
	for (k = 0; k < OP_SPLAT_FIELDS; k++)
		s->p[k] = el_get(&q->in[0], OP_SPLAT_FIELDS * i + k);
	s->dx = x - s->p[0];
	s->dy = y - s->p[1];
	r = s->p[2] * s->dx * s->dx + 2 * s->p[3] * s->dx * s->dy + s->p[4] * s->dy * s->dy;
	s->e = exp(-r / 2);
	s->alpha = s->p[5] * s->e;
	s->capped = s->alpha >= 0.99;
	s->alpha = s->capped ? 0.99 : s->alpha;
	return r >= 0 && s->alpha >= 1.0 / 255;
}

/* The next of the splats behind @i that is seen in a pixel into which @t of the light gets; -1 */
static inline int64_t op_splat_next(const struct rlx_eval *q, int64_t i, double x, double y,
				    double t, struct op_splat *s)
{
	while (++i < q->in[0].type.dim[0])
		if (op_splat_at(q, i, x, y, s))
			return t * (1 - s->alpha) < 1e-4 ? -1 : i;
	return -1;
}

#endif
