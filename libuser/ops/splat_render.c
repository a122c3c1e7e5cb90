// SPDX-License-Identifier: MIT
/* An image of Gaussians in space. */
#include "ops/emit.h"

/*
 * Shapes:	means[n, 3], log_scales[n, 3], quats[n, 4] (w x y z), opacities[n], colors[n, 3] or
 *		[n, c, 3], view[3, 4], camera[4] (fx fy cx cy), background[3] -> y[height, width, 4]
 * Dtypes:	f64 or f32, all alike
 * Does:	splat_project with near (0.01 if not given) and dilation (0.3 if not given), then
 *		splat_blend of what is drawn by depth, the nearest first, ties
 *		by number; a splat's box ends a pixel beyond where it covers 1/255. colors of three
 *		dimensions are coefficients of spherical_harmonics, of directions from the camera
 *		to the means. background is black if not given.
 * Gradient:	by those operations, to all inputs; the order has none
 * Source:	Kerbl et al. 2023 (3D Gaussian splatting)
 */
RLX_OP(splat_render, "Gaussians drawn: red, green, blue, and what they cover, [height, width, 4]",
	IN(means) IN(log_scales) IN(quats) IN(opacities) IN(colors) IN(view) IN(camera)
	OPT(background)
	REQ(i64, width, "of the image, in pixels")
	REQ(i64, height, "of the image, in pixels")
	DEF(f32, near, 0.01)
	DEF(f32, dilation, 0.3),
	RLX_T_REDUCTION | RLX_T_STEPPED)

static enum rlx_status splat_render_infer(struct rlx_infer *q)
{
	const struct rlx_op_splat_render *a = q->args;
	const struct rlx_type *m = q->in[0], *o = q->in[3], *c = q->in[4], *b = q->in[7];
	enum rlx_status st = op_need_rank(q, 0, 2, 2);
	uint32_t k;

	st = st ? st : op_need_real(q, "near", (double)a->near, 0);
	st = st ? st : op_need_real(q, "dilation", (double)a->dilation, 0);
	if (st)
		return st;
	for (k = 0; k < 8; k++)
		if (q->in[k] && ((m->dtype != RLX_F32 && m->dtype != RLX_F64) ||
				 q->in[k]->dtype != m->dtype))
			return op_fail(q, RLX_ETYPE, "all inputs are f32, or all are f64");
	for (k = 1; k < 3; k++)
		if (q->in[k]->rank != 2 || q->in[k]->dim[0] != m->dim[0] ||
		    q->in[k]->dim[1] != 2 + k)
			return op_fail(q, RLX_ESHAPE, "%s must be [%lld, %u]",
				       k == 1 ? "log_scales" : "quats", (long long)m->dim[0],
				       2 + k);
	if (m->dim[1] != 3 || o->rank != 1 || o->dim[0] != m->dim[0])
		return op_fail(q, RLX_ESHAPE, "means [n, 3] and opacities [n] are needed");
	if (c->rank < 2 || c->rank > 3 || c->dim[0] != m->dim[0] || c->dim[c->rank - 1] != 3)
		return op_fail(q, RLX_ESHAPE, "colors must be [%lld, 3], or [%lld, 1, 4, 9 or 16, "
			       "3]", (long long)m->dim[0], (long long)m->dim[0]);
	if (c->rank == 3 && c->dim[1] != 1 && c->dim[1] != 4 && c->dim[1] != 9 && c->dim[1] != 16)
		return op_fail(q, RLX_ESHAPE, "colors have 1, 4, 9 or 16 coefficients, not %lld",
			       (long long)c->dim[1]);
	if (q->in[5]->rank != 2 || q->in[5]->dim[0] != 3 || q->in[5]->dim[1] != 4 ||
	    q->in[6]->rank != 1 || q->in[6]->dim[0] != 4)
		return op_fail(q, RLX_ESHAPE, "view [3, 4] and camera [4] are needed");
	if (b && (b->rank != 1 || b->dim[0] != 3))
		return op_fail(q, RLX_ESHAPE, "the background must be [3]");
	if (a->width < 0 || a->height < 0 || a->width > 1 << 20 || a->height > 1 << 20)
		return op_fail(q, RLX_EINVAL, "an image of %lld x %lld pixels",
			       (long long)a->width, (long long)a->height);
	q->out[0] = rlx_type(m->dtype, a->height, a->width, 4);
	return RLX_OK;
}

static rlx_value column(struct rlx_graph *g, rlx_value x, int64_t from, int64_t to)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(1), .starts = RLX_INTS(from),
			.ends = RLX_INTS(to));
}

/* From where the camera is, -R' t, to the means; anywhere to those that are not drawn. */
static rlx_value directions(struct rlx_graph *g, rlx_value means, rlx_value view, rlx_value depth)
{
	rlx_value at = rlx_emit(g, fused_matmul, .a = column(g, view, 3, 4),
				.b = column(g, view, 0, 3), .trans_a = true);
	rlx_value drawn = rlx_emit(g, lt, .a = depth, .b = op_const_like(g, depth, INFINITY));

	drawn = op_reshape(g, drawn, (int64_t[]){ op_type(g, means).dim[0], 1 }, 2);
	return rlx_emit(g, where, .cond = drawn, .a = rlx_emit(g, add, .a = means, .b = at),
			.b = op_const_like(g, means, 1));
}

/* The place less and plus how far it reaches, sqrt(2 ln(255 opacity)) times the extent. */
static rlx_value boxes(struct rlx_graph *g, rlx_value form, rlx_value extent, rlx_value opacity)
{
	rlx_value at = column(g, form, 0, 2), r;

	r = rlx_emit(g, log, .x = op_mul_const(g, opacity, 255));
	r = rlx_emit(g, sqrt, .x = op_mul_const(g, r, 2));
	r = op_add_const(g, rlx_emit(g, mul, .a = extent, .b = r), 1);
	return rlx_emit(g, concat, .axis = 1,
			.xs = RLX_VALUES(rlx_emit(g, sub, .a = at, .b = r),
					 rlx_emit(g, add, .a = at, .b = r)));
}

static enum rlx_status splat_render_expand(struct rlx_expand *q)
{
	const struct rlx_op_splat_render *a = q->args;
	struct rlx_graph *g = q->g;
	int64_t n = op_type(g, q->in[0]).dim[0];
	rlx_value form, opacity, color = q->in[4], box, order, splats, background = q->in[7];
	struct rlx_type three = rlx_type(q->out_type->dtype, 3);

	form = rlx_emit(g, splat_project, .means = q->in[0], .log_scales = q->in[1],
			.quats = q->in[2], .view = q->in[5], .camera = q->in[6],
			.width = a->width, .height = a->height, .near = a->near,
			.dilation = a->dilation);
	if (op_type(g, color).rank == 3)
		color = rlx_emit(g, spherical_harmonics, .coeffs = color,
				 .directions = directions(g, q->in[0], q->in[5],
							    rlx_out(g, form, 1)));
	opacity = op_reshape(g, q->in[3], (int64_t[]){ n, 1 }, 2);
	box = boxes(g, form, rlx_out(g, form, 2), opacity);
	order = rlx_out(g, rlx_emit(g, sort, .x = rlx_out(g, form, 1), .axis = 0), 1);
	splats = rlx_emit(g, concat, .axis = 1, .xs = RLX_VALUES(form, opacity, color));
	if (!background.id)
		background = op_fill(g, &three, 0);
	q->out[0] = rlx_emit(g, splat_blend,
			     .splats = rlx_emit(g, gather, .x = splats, .indices = order),
			     .boxes = rlx_emit(g, gather, .x = box, .indices = order),
			     .background = background, .width = a->width, .height = a->height);
	return op_done(g);
}

static void splat_render_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = (double)rlx_type_count(&q->out[0]) + 5500.0 * (double)q->in[0]->dim[0];
}

static bool splat_render_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_splat_render *a = s->args;
	int64_t n = i == 2 ? 0 : 11;

	if (i > 3)
		return false;
	s->n_in = 8;
	s->f32_only = true;
	s->grad_tol = -1;	/* what is cut jumps: selftests/ops/splat.c has scenes without */
	s->tol = 1e-4;
	s->in[0] = s->in[1] = rlx_type(RLX_F32, n, 3);
	s->in[2] = rlx_type(RLX_F32, n, 4);
	s->in[3] = rlx_type(RLX_F32, n);
	s->in[4] = i == 1 ? rlx_type(RLX_F32, n, 9, 3) : rlx_type(RLX_F32, n, 3);
	s->in[5] = rlx_type(RLX_F32, 3, 4);
	s->in[6] = rlx_type(RLX_F32, 4);
	s->in[7] = i ? rlx_type(RLX_F32, 3) : (struct rlx_type){ 0 };
	s->lo[0] = s->lo[2] = s->lo[5] = 0.25;
	s->hi[0] = s->hi[2] = s->hi[3] = s->hi[5] = 1;
	s->lo[1] = -3;
	s->hi[1] = -1;
	s->lo[6] = 6;
	s->hi[6] = 12;
	a->width = 33;
	a->height = i == 3 ? 0 : 18;
	a->near = 0.125f;
	a->dilation = 0.3f;
	return true;
}

const struct rlx_op_impl rlx_op_splat_render_impl = {
	.infer = splat_render_infer, .expand = splat_render_expand, .cost = splat_render_cost,
};
RLX_SAMPLES(splat_render, splat_render_sample)
