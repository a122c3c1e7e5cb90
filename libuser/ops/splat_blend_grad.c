// SPDX-License-Identifier: MIT
/* The derivatives of blended splats. */
#include "ops/splat.h"

/*
 * Shapes:	splats[n, 9], boxes[n, 4], background[3], dy[height, width, 4] -> d[parts, n, 9]
 * Dtypes:	f64 or f32, all alike
 * Does:	the gradient of splat_blend by its splats, in parts that add up to it: each is the
 *		sum over some tiles of 16 x 16 pixels, in one order, so that a run gives the bits
 *		of the one before. There are as many parts as tiles, but at most 512, and no more
 *		than 2^26 elements hold.
 * Gradient:	none: second derivatives are not there
 * Source:	Kerbl et al. 2023
 */
RLX_OP(splat_blend_grad, "the gradient of splat_blend by splats, in parts to be added up",
	IN(splats) IN(boxes) IN(background) IN(dy),
	RLX_T_REDUCTION | RLX_T_NODIFF)

static enum rlx_status splat_blend_grad_infer(struct rlx_infer *q)
{
	const struct rlx_type *dy = q->in[3];
	enum rlx_status st = op_need_rank(q, 3, 3, 3);
	int64_t n, parts, most;

	st = st ? st : op_splat_infer(q, dy->dim[1], dy->dim[0]);
	if (st)
		return st;
	if (dy->dim[2] != 4)
		return op_fail(q, RLX_ESHAPE, "dy is [height, width, 4]");
	n = q->in[0]->dim[0];
	parts = (dy->dim[0] + OP_SPLAT_TILE - 1) / OP_SPLAT_TILE *
		((dy->dim[1] + OP_SPLAT_TILE - 1) / OP_SPLAT_TILE);
	most = n ? (1 << 26) / OP_SPLAT_FIELDS / n : 512;
	most = most < 1 ? 1 : most > 512 ? 512 : most;
	q->out[0] = rlx_type(q->in[0]->dtype, parts < most ? parts : most, n, OP_SPLAT_FIELDS);
	return RLX_OK;
}

static void add_to(struct rlx_tensor *d, int64_t i, double v)
{
	el_set(d, i, el_get(d, i) + v);
}

/* What splat @i, in front of which @t gets, gets of one pixel. */
static void one_hit(struct rlx_eval *q, const struct op_splat *s, int64_t to, double t, double da,
		    const double *dc)
{
	struct rlx_tensor *d = &q->out[0];
	double dq = s->capped ? 0 : -da * s->alpha / 2;
	int c;

	add_to(d, to, -2 * dq * (s->p[2] * s->dx + s->p[3] * s->dy));
	add_to(d, to + 1, -2 * dq * (s->p[3] * s->dx + s->p[4] * s->dy));
	add_to(d, to + 2, dq * s->dx * s->dx);
	add_to(d, to + 3, 2 * dq * s->dx * s->dy);
	add_to(d, to + 4, dq * s->dy * s->dy);
	add_to(d, to + 5, s->capped ? 0 : da * s->e);
	for (c = 0; c < 3; c++)
		add_to(d, to + 6 + c, t * s->alpha * dc[c]);
}

/* Derivatives by what one pixel shows; sums that go to a part from element @to on. */
static void one_pixel(struct rlx_eval *q, int64_t at, int64_t width, int64_t to)
{
	double x = (double)(at % width) + 0.5, y = (double)(at / width) + 0.5, t, sum, all = 0;
	double dc[3], dt = -el_get(&q->in[3], 4 * at + 3), end, g;
	struct op_splat s;
	int64_t i;
	int c;

	for (c = 0; c < 3; c++) {
		dc[c] = el_get(&q->in[3], 4 * at + c);
		dt += dc[c] * el_get(&q->in[2], c);
	}
	for (t = 1, i = -1; (i = op_splat_next(q, i, x, y, t, &s)) >= 0; t *= 1 - s.alpha)
		all += t * s.alpha * (s.p[6] * dc[0] + s.p[7] * dc[1] + s.p[8] * dc[2]);
	end = t;
	for (sum = 0, t = 1, i = -1; (i = op_splat_next(q, i, x, y, t, &s)) >= 0;
	     t *= 1 - s.alpha) {
		g = s.p[6] * dc[0] + s.p[7] * dc[1] + s.p[8] * dc[2];
		sum += t * s.alpha * g;
		one_hit(q, &s, to + i * OP_SPLAT_FIELDS, t,
			t * g - (all - sum + end * dt) / (1 - s.alpha), dc);
	}
}

static enum rlx_status splat_blend_grad_eval(struct rlx_eval *q)
{
	const struct rlx_type *dy = &q->in[3].type;
	int64_t w = dy->dim[1], h = dy->dim[0], parts = q->out[0].type.dim[0], part, at, i;
	int64_t across = (w + OP_SPLAT_TILE - 1) / OP_SPLAT_TILE;
	int64_t tiles = (h + OP_SPLAT_TILE - 1) / OP_SPLAT_TILE * across, tile, x, y;
	int64_t size = q->in[0].type.dim[0] * OP_SPLAT_FIELDS;

	for (i = 0; i < rlx_type_count(&q->out[0].type); i++)
		el_set(&q->out[0], i, 0);
	for (part = 0; part < parts; part++)
		for (tile = part * tiles / parts; tile < (part + 1) * tiles / parts; tile++)
			for (at = 0; at < OP_SPLAT_TILE * OP_SPLAT_TILE; at++) {
				y = tile / across * OP_SPLAT_TILE + at / OP_SPLAT_TILE;
				x = tile % across * OP_SPLAT_TILE + at % OP_SPLAT_TILE;
				if (x < w && y < h)
					one_pixel(q, y * w + x, w, part * size);
			}
	return RLX_OK;
}

static void splat_blend_grad_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = 80.0 * OP_SPLAT_TILE * OP_SPLAT_TILE * (double)q->in[0]->dim[0] +
		   (double)rlx_type_count(&q->out[0]);
}

static bool splat_blend_grad_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 3)
		return false;
	s->n_in = 4;
	s->f32_only = true;
	s->tol = 1e-4;
	s->in[0] = rlx_type(RLX_F32, i == 3 ? 0 : i ? 20 : 5, 9);
	s->in[1] = rlx_type(RLX_F32, s->in[0].dim[0], 4);
	s->in[2] = rlx_type(RLX_F32, 3);
	s->in[3] = rlx_type(RLX_F32, i == 1 ? 18 : 5, i == 2 ? 0 : i == 1 ? 37 : 16, 4);
	s->hi[0] = s->hi[2] = 1;
	s->lo[1] = -8;
	s->hi[1] = 24;
	return true;
}

const struct rlx_op_impl rlx_op_splat_blend_grad_impl = {
	.infer = splat_blend_grad_infer, .eval = splat_blend_grad_eval,
	.cost = splat_blend_grad_cost,
};
RLX_SAMPLES(splat_blend_grad, splat_blend_grad_sample)
