// SPDX-License-Identifier: MIT
/* Gaussians of space as a camera has them on its image. */
#include "ops/emit.h"

/*
 * Shapes:	means[n, 3], log_scales[n, 3], quats[n, 4] (w x y z), view[3, 4], camera[4] (fx fy
 *		cx cy) -> forms[n, 5], depths[n], extents[n, 2]
 * Dtypes:	f64 or f32, all alike
 * Does:	t = view (mean, 1): x goes to the right, y down, z ahead. Its place is (fx tx / tz +
 *		cx, fy ty / tz + cy), in pixels. The covariance R diag(exp(log_scale))^2 R', R the
 *		rotation of the quaternion divided by its length, is projected by the Jacobian
 *		there, for which tx / tz and ty / tz are kept within 1.3 times half the image over
 *		the focal length, and dilation is added to its diagonal. forms are place and inverse
 *		covariance, x y a b c, depths tz, extents the square roots of the diagonal. What
 *		lies no farther ahead than near, or has no finite form, has the form 0 0 1 0 1,
 *		depth infinity and extents NaN: it is not drawn.
 * Gradient:	by those operations, to all inputs; none to or from what is not drawn
 * Source:	Zwicker et al. 2001 (EWA splatting), Kerbl et al. 2023
 */
RLX_OP(splat_project, "Gaussians on a camera's image: place and inverse covariance, depth, size",
	IN(means) IN(log_scales) IN(quats) IN(view) IN(camera)
	REQ(i64, width, "of the image, in pixels")
	REQ(i64, height, "of the image, in pixels")
	REQ(f32, near, "the least depth that is drawn, often 0.01 or 0.2")
	REQ(f32, dilation, "added to variances, in square pixels: often 0.3"),
	RLX_T_REDUCTION | RLX_T_STEPPED | RLX_T_TIES | RLX_T_SENTINELS)

static enum rlx_status splat_project_infer(struct rlx_infer *q)
{
	static const struct {
		const char	*name;
		int64_t		 dim[2];	/* 0: n */
	} want[] = {
		{ "means", { 0, 3 } }, { "log_scales", { 0, 3 } }, { "quats", { 0, 4 } },
		{ "view", { 3, 4 } }, { "camera", { 4, 1 } },
	};
	const struct rlx_op_splat_project *a = q->args;
	int64_t n = q->in[0]->rank ? q->in[0]->dim[0] : 0, rows;
	enum rlx_status st = op_need_real(q, "near", (double)a->near, 0);
	enum rlx_dtype dt = q->in[0]->dtype;
	const struct rlx_type *t;
	uint32_t k;

	st = st ? st : op_need_real(q, "dilation", (double)a->dilation, 0);
	if (!st && (a->width < 0 || a->height < 0 || a->width > 1 << 20 || a->height > 1 << 20))
		st = op_fail(q, RLX_EINVAL, "an image of %lld x %lld pixels",
			     (long long)a->width, (long long)a->height);
	for (k = 0; !st && k < 5; k++) {
		t = q->in[k];
		rows = want[k].dim[0] ? want[k].dim[0] : n;
		if ((dt != RLX_F32 && dt != RLX_F64) || t->dtype != dt)
			st = op_fail(q, RLX_ETYPE, "all inputs are f32, or all are f64");
		else if (t->rank != (k < 4 ? 2 : 1) || t->dim[0] != rows ||
			 (k < 4 && t->dim[1] != want[k].dim[1]))
			st = op_fail(q, RLX_ESHAPE, "%s must be [%lld%s%s]", want[k].name,
				     (long long)rows, k == 4 ? "" : ", ",
				     k == 4 ? "" : want[k].dim[1] == 3 ? "3" : "4");
	}
	q->n_out = 3;
	q->out[0] = rlx_type(dt, n, 5);
	q->out[1] = rlx_type(dt, n);
	q->out[2] = rlx_type(dt, n, 2);
	return st;
}

static rlx_value times(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	return rlx_emit(g, mul, .a = a, .b = b);
}

static rlx_value plus(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	return rlx_emit(g, add, .a = a, .b = b);
}

static rlx_value less(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	return rlx_emit(g, sub, .a = a, .b = b);
}

static rlx_value over(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	return rlx_emit(g, div, .a = a, .b = b);
}

static rlx_value dot3(struct rlx_graph *g, const rlx_value *a, const rlx_value *b)
{
	return plus(g, plus(g, times(g, a[0], b[0]), times(g, a[1], b[1])), times(g, a[2], b[2]));
}

/* Elements of a line each, [n, 1], or of a matrix of numbers for all. */
static void columns(struct rlx_graph *g, rlx_value x, int64_t n, rlx_value *to)
{
	int64_t i;

	for (i = 0; i < n; i++)
		to[i] = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(1), .starts = RLX_INTS(i),
				 .ends = RLX_INTS(i + 1));
}

/* Everything by columns. */
struct project {
	struct rlx_graph	*g;
	rlx_value		 mean[3], log_scale[3], quat[4];
	rlx_value		 view[12], camera[4];
	rlx_value		 form[5], depth, extent[2];	/* what comes of it */
};

/* Where a splat is not drawn, what takes a value's place. */
static rlx_value drawn_or(struct rlx_graph *g, rlx_value drawn, rlx_value v, double other)
{
	return drawn.id ? rlx_emit(g, where, .cond = drawn, .a = v,
				   .b = op_const_like(g, v, other)) : v;
}

/* Rows of the rotation, [3][3]. */
static void rotation(struct project *p, rlx_value r[3][3])
{
	struct rlx_graph *g = p->g;
	rlx_value q[4], len = plus(g, times(g, p->quat[0], p->quat[0]), dot3(g, &p->quat[1],
									   &p->quat[1]));
	int i, j, k;

	len = rlx_emit(g, sqrt, .x = len);
	for (i = 0; i < 4; i++)
		q[i] = over(g, p->quat[i], len);
	for (i = 0; i < 3; i++) {
		j = (i + 1) % 3;
		k = (i + 2) % 3;
		r[i][i] = plus(g, times(g, q[1 + j], q[1 + j]), times(g, q[1 + k], q[1 + k]));
		r[i][i] = op_add_const(g, op_mul_const(g, r[i][i], -2), 1);
		r[i][j] = less(g, times(g, q[1 + i], q[1 + j]), times(g, q[0], q[1 + k]));
		r[i][j] = op_mul_const(g, r[i][j], 2);
		r[i][k] = plus(g, times(g, q[1 + i], q[1 + k]), times(g, q[0], q[1 + j]));
		r[i][k] = op_mul_const(g, r[i][k], 2);
	}
}

/* @x kept within what the image shows, and a bit: @size pixels at focal length @f. */
static rlx_value within(struct rlx_graph *g, rlx_value x, int64_t size, rlx_value f)
{
	rlx_value most = over(g, op_const_like(g, f, 0.65 * (double)size), f);

	x = rlx_emit(g, min, .a = x, .b = most);
	return rlx_emit(g, max, .a = x, .b = rlx_emit(g, neg, .x = most));
}

/* Both rows of the Jacobian times the camera's rotation times R diag(scale). */
static void half_covariance(struct project *p, rlx_value iz, const rlx_value *slope,
			    rlx_value n[2][3])
{
	struct rlx_graph *g = p->g;
	rlx_value r[3][3], m[3], scale, by[3];
	int i, j, k;

	rotation(p, r);
	for (i = 0; i < 2; i++) {
		scale = times(g, p->camera[i], iz);
		for (j = 0; j < 3; j++)
			m[j] = times(g, scale, less(g, p->view[4 * i + j],
						    times(g, slope[i], p->view[8 + j])));
		for (k = 0; k < 3; k++) {
			for (j = 0; j < 3; j++)
				by[j] = r[j][k];
			n[i][k] = times(g, dot3(g, m, by), rlx_emit(g, exp, .x = p->log_scale[k]));
		}
	}
}

/* The squared length of @a x @b. */
static rlx_value cross_squared(struct rlx_graph *g, const rlx_value *a, const rlx_value *b)
{
	rlx_value c[3];
	int i;

	for (i = 0; i < 3; i++)
		c[i] = less(g, times(g, a[(i + 1) % 3], b[(i + 2) % 3]),
			    times(g, a[(i + 2) % 3], b[(i + 1) % 3]));
	return dot3(g, c, c);
}

/* The determinant is a sum of what is not negative: nothing cancels. */
static void project(struct project *p, const struct rlx_op_splat_project *a, rlx_value drawn)
{
	struct rlx_graph *g = p->g;
	rlx_value t[3], n[2][3], slope[2], iz, aa, bb, cc, det;
	double d = (double)a->dilation;
	int i;

	for (i = 0; i < 3; i++)
		t[i] = drawn_or(g, drawn, plus(g, dot3(g, &p->view[4 * i], p->mean),
					       p->view[4 * i + 3]), i == 2);
	iz = rlx_emit(g, recip, .x = t[2]);
	for (i = 0; i < 2; i++) {
		slope[i] = times(g, t[i], iz);
		p->form[i] = plus(g, times(g, p->camera[i], slope[i]), p->camera[2 + i]);
		slope[i] = within(g, slope[i], i ? a->height : a->width, p->camera[i]);
	}
	half_covariance(p, iz, slope, n);
	aa = dot3(g, n[0], n[0]);
	bb = dot3(g, n[0], n[1]);
	cc = dot3(g, n[1], n[1]);
	det = plus(g, cross_squared(g, n[0], n[1]), op_mul_const(g, plus(g, aa, cc), d));
	det = op_add_const(g, det, d * d);
	aa = op_add_const(g, aa, d);
	cc = op_add_const(g, cc, d);
	p->form[2] = over(g, cc, det);
	p->form[3] = rlx_emit(g, neg, .x = over(g, bb, det));
	p->form[4] = over(g, aa, det);
	p->depth = t[2];
	p->extent[0] = rlx_emit(g, sqrt, .x = aa);
	p->extent[1] = rlx_emit(g, sqrt, .x = cc);
}

/* Is it ahead, and all that is known of it finite? What is not differs from itself less itself. */
static rlx_value is_drawn(const struct project *p, double near)
{
	struct rlx_graph *g = p->g;
	rlx_value v = plus(g, p->depth, plus(g, p->extent[0], p->extent[1]));
	int i;

	for (i = 0; i < 5; i++)
		v = plus(g, v, p->form[i]);
	v = less(g, v, v);
	return rlx_emit(g, bit_and, .a = rlx_emit(g, eq, .a = v, .b = op_const_like(g, v, 0)),
			.b = rlx_emit(g, gt, .a = p->depth, .b = op_const_like(g, v, near)));
}

/*
 * Twice: whether something is drawn shows only when it is projected. What is not is then projected
 * from elsewhere, as a gradient of 0 times what is not finite would be NaN, and a camera's too.
 */
static enum rlx_status splat_project_expand(struct rlx_expand *q)
{
	const struct rlx_op_splat_project *a = q->args;
	struct rlx_graph *g = q->g;
	struct project p = { .g = g };
	rlx_value drawn;
	int i;

	columns(g, q->in[0], 3, p.mean);
	columns(g, q->in[1], 3, p.log_scale);
	columns(g, q->in[2], 4, p.quat);
	columns(g, op_reshape(g, q->in[3], (int64_t[]){ 1, 12 }, 2), 12, p.view);
	columns(g, op_reshape(g, q->in[4], (int64_t[]){ 1, 4 }, 2), 4, p.camera);
	project(&p, a, (rlx_value){ 0 });
	drawn = is_drawn(&p, (double)a->near);
	for (i = 0; i < 3; i++) {
		p.mean[i] = drawn_or(g, drawn, p.mean[i], 0);
		p.log_scale[i] = drawn_or(g, drawn, p.log_scale[i], 0);
	}
	for (i = 0; i < 4; i++)
		p.quat[i] = drawn_or(g, drawn, p.quat[i], !i);
	project(&p, a, drawn);
	for (i = 0; i < 5; i++)
		p.form[i] = drawn_or(g, drawn, p.form[i], i == 2 || i == 4);
	for (i = 0; i < 2; i++)
		p.extent[i] = drawn_or(g, drawn, p.extent[i], NAN);
	p.depth = drawn_or(g, drawn, p.depth, INFINITY);
	q->out[0] = rlx_emit(g, concat, .axis = 1, .xs = { p.form, 5 });
	q->out[1] = op_reshape(g, p.depth, q->out_type[1].dim, 1);
	q->out[2] = rlx_emit(g, concat, .axis = 1, .xs = { p.extent, 2 });
	return op_done(g);
}

static bool splat_project_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_splat_project *a = s->args;
	int64_t n = i == 2 ? 0 : 7;

	if (i > 2)
		return false;
	s->n_in = 5;
	s->f32_only = true;
	s->in[0] = s->in[1] = rlx_type(RLX_F32, n, 3);
	s->in[2] = rlx_type(RLX_F32, n, 4);
	s->in[3] = rlx_type(RLX_F32, 3, 4);
	s->in[4] = rlx_type(RLX_F32, 4);
	s->lo[0] = s->lo[2] = s->lo[3] = 0.25;	/* all ahead */
	s->hi[0] = s->hi[2] = s->hi[3] = 1;
	s->lo[1] = -2;
	s->lo[4] = 4;
	s->hi[4] = 9;
	s->tol = 1e-4;
	s->grad_tol = 1e-4;
	a->width = 24;
	a->height = 13;
	a->near = 0.125f;
	a->dilation = i ? 0.5f : 0.3f;
	return true;
}

const struct rlx_op_impl rlx_op_splat_project_impl = {
	.infer = splat_project_infer, .expand = splat_project_expand,
};
RLX_SAMPLES(splat_project, splat_project_sample)
