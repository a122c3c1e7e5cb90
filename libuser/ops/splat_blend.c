// SPDX-License-Identifier: MIT
/* Gaussian splats blended into an image, the first in front. */
#include "ops/splat.h"

/*
 * Shapes:	splats[n, 9], boxes[n, 4], background[3] -> y[height, width, 4]
 * Dtypes:	f64 or f32, all alike
 * Does:	a splat is x, y, a, b, c, opacity, red, green, blue. The pixel of row i and column
 *		j has its centre at x = j + 0.5, y = i + 0.5. In its box (x0 y0 x1 y1, both ends
 *		counted) a splat covers alpha = min(0.99, opacity exp(-q / 2)) of it, q = a dx^2 +
 *		2 b dx dy + c dy^2; it is not there where q < 0 or alpha < 1/255, or either is
 *		NaN. Of the light t that gets past those before it (1 at first) it takes alpha, and
 *		its colour counts t alpha; one that would leave less than 1e-4 is not there, nor is
 *		what follows. y is the sum of colours + t background, and 1 - t.
 * Gradient:	to splats and background, by splat_blend_grad, 0 for an alpha at 0.99; what is cut
 *		and boxes have none
 * Source:	Kerbl et al. 2023 (3D Gaussian splatting)
 */
RLX_OP(splat_blend, "splats, the first in front, blended into an image [height, width, 4]",
	IN(splats) IN(boxes) IN(background)
	REQ(i64, width, "of the image, in pixels")
	REQ(i64, height, "of the image, in pixels"),
	RLX_T_REDUCTION | RLX_T_STEPPED)

static enum rlx_status splat_blend_infer(struct rlx_infer *q)
{
	const struct rlx_op_splat_blend *a = q->args;
	enum rlx_status st = op_splat_infer(q, a->width, a->height);

	q->out[0] = rlx_type(q->in[0]->dtype, a->height, a->width, 4);
	return st;
}

static enum rlx_status splat_blend_eval(struct rlx_eval *q)
{
	const struct rlx_op_splat_blend *a = q->args;
	double x, y, t, sum[3];
	struct op_splat s;
	int64_t at, i;
	int c;

	for (at = 0; at < a->width * a->height; at++) {
		x = (double)(at % a->width) + 0.5;
		y = (double)(at / a->width) + 0.5;
		t = 1;
		sum[0] = sum[1] = sum[2] = 0;
		for (i = -1; (i = op_splat_next(q, i, x, y, t, &s)) >= 0; t *= 1 - s.alpha)
			for (c = 0; c < 3; c++)
				sum[c] += t * s.alpha * s.p[6 + c];
		for (c = 0; c < 3; c++)
			el_set(&q->out[0], 4 * at + c, sum[c] + t * el_get(&q->in[2], c));
		el_set(&q->out[0], 4 * at + 3, 1 - t);
	}
	return RLX_OK;
}

static enum rlx_status splat_blend_vjp(struct rlx_grad *q)
{
	struct rlx_graph *g = q->g;
	rlx_value d, t;

	if (q->need[0]) {
		d = rlx_emit(g, splat_blend_grad, .splats = q->in[0], .boxes = q->in[1],
			     .background = q->in[2], .dy = q->d_out[0]);
		q->d_in[0] = rlx_emit(g, reduce, .x = d, .axes = RLX_INTS(0));
	}
	if (q->need[2]) {
		t = rlx_emit(g, slice, .x = q->out[0], .axes = RLX_INTS(2), .starts = RLX_INTS(3),
			     .ends = RLX_INTS(4));
		t = rlx_emit(g, sub, .a = op_const_like(g, t, 1), .b = t);
		d = rlx_emit(g, slice, .x = q->d_out[0], .axes = RLX_INTS(2),
			     .starts = RLX_INTS(0), .ends = RLX_INTS(3));
		q->d_in[2] = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = d, .b = t),
				      .axes = RLX_INTS(0, 1));
	}
	return op_done(g);
}

static void splat_blend_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	/* as if each were seen in a tile */
	c->flops = (double)rlx_type_count(&q->out[0]) + 20.0 * OP_SPLAT_TILE * OP_SPLAT_TILE *
		   (double)q->in[0]->dim[0];
}

static bool splat_blend_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_splat_blend *a = s->args;

	if (i > 3)
		return false;
	s->n_in = 3;
	s->f32_only = true;
	s->grad_tol = -1;	/* what is cut jumps: selftests/ops/splat.c has scenes without */
	s->tol = 1e-5;
	s->in[0] = rlx_type(RLX_F32, i == 3 ? 0 : i ? 20 : 5, 9);
	s->in[1] = rlx_type(RLX_F32, s->in[0].dim[0], 4);
	s->in[2] = rlx_type(RLX_F32, 3);
	s->hi[0] = s->hi[2] = 1;
	s->lo[1] = -8;
	s->hi[1] = 24;
	a->width = i == 2 ? 0 : i == 1 ? 37 : 16;
	a->height = i == 1 ? 18 : 5;
	return true;
}

const struct rlx_op_impl rlx_op_splat_blend_impl = {
	.infer = splat_blend_infer, .eval = splat_blend_eval, .vjp = splat_blend_vjp,
	.cost = splat_blend_cost,
};
RLX_SAMPLES(splat_blend, splat_blend_sample)
