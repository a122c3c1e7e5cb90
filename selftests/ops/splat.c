// SPDX-License-Identifier: MIT
/* Gaussian splats against a plain program of the formulas, in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rlx/grad.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { MOST = 64, INPUTS = 8 };

/* Inputs of splat_render, in its order, as one line of numbers. */
struct scene {
	int	n, coeffs, width, height;
	int	at[INPUTS + 1];		/* where each begins */
	double	v[MOST * (3 + 3 + 4 + 1 + 48) + 19];
};

static void lay_out(struct scene *s)
{
	const int size[INPUTS] = { 3 * s->n, 3 * s->n, 4 * s->n, s->n,
				   3 * s->n * (s->coeffs ? s->coeffs : 1), 12, 4, 3 };
	int i;

	for (i = 0; i < INPUTS; i++)
		s->at[i + 1] = s->at[i] + size[i];
}

static void cross(const double *a, const double *b, double *to)
{
	int i;

	for (i = 0; i < 3; i++)
		to[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

static double unit(double *a)
{
	double len = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
	int i;

	for (i = 0; i < 3; i++)
		a[i] /= len;
	return len;
}

/* A camera some way off that looks at about the origin. */
static void draw_view(double *view, uint64_t *seed)
{
	double eye[3], row[3][3], up[3] = { 0.1, 1, -0.2 };
	int i, j;

	for (i = 0; i < 3; i++) {
		eye[i] = rlx_test_uniform(seed, -1, 1);
		row[2][i] = -eye[i];
	}
	unit(row[2]);
	cross(up, row[2], row[0]);
	unit(row[0]);
	cross(row[2], row[0], row[1]);
	for (i = 0; i < 3; i++) {
		view[4 * i + 3] = i == 2 ? 4 : rlx_test_uniform(seed, -0.3, 0.3);
		for (j = 0; j < 3; j++)
			view[4 * i + j] = row[i][j];
	}
}

static void draw_scene(struct scene *s, int n, int coeffs, uint64_t *seed)
{
	int i;

	memset(s, 0, sizeof(*s));
	s->n = n;
	s->coeffs = coeffs;
	s->width = 5 + (int)(rlx_test_rand(seed) % 40);
	s->height = 5 + (int)(rlx_test_rand(seed) % 30);
	lay_out(s);
	for (i = 0; i < s->at[INPUTS]; i++)
		s->v[i] = i < s->at[1] ? rlx_test_uniform(seed, -1.6, 1.6) :
			  i < s->at[2] ? rlx_test_uniform(seed, -3, -0.7) :
			  i < s->at[3] ? rlx_test_uniform(seed, -1, 1) :
					 rlx_test_uniform(seed, 0, 1);
	draw_view(s->v + s->at[5], seed);
	s->v[s->at[6]] = s->width * rlx_test_uniform(seed, 0.6, 1.4);
	s->v[s->at[6] + 1] = s->width * rlx_test_uniform(seed, 0.6, 1.4);
	s->v[s->at[6] + 2] = s->width * rlx_test_uniform(seed, 0.4, 0.6);
	s->v[s->at[6] + 3] = s->height * rlx_test_uniform(seed, 0.4, 0.6);
}

/* ---- the plain program ---- */

struct drawn {
	double	x, y, a, b, c, opacity, color[3], z;
};

static void harmonics(const double *d, double *y)
{
	double x = d[0], v = d[1], z = d[2], xx = x * x, yy = v * v, zz = z * z;
	double b[16] = { sqrt(1 / (4 * M_PI)) };
	const double p1 = sqrt(3 / (4 * M_PI)), p2 = sqrt(15 / (4 * M_PI));
	const double p3 = sqrt(35 / (32 * M_PI)), p4 = sqrt(105 / (4 * M_PI));
	const double p5 = sqrt(21 / (32 * M_PI)), p6 = sqrt(7 / (16 * M_PI));

	b[1] = -p1 * v;
	b[2] = p1 * z;
	b[3] = -p1 * x;
	b[4] = p2 * x * v;
	b[5] = -p2 * v * z;
	b[6] = sqrt(5 / (16 * M_PI)) * (2 * zz - xx - yy);
	b[7] = -p2 * x * z;
	b[8] = p2 / 2 * (xx - yy);
	b[9] = -p3 * v * (3 * xx - yy);
	b[10] = p4 * x * v * z;
	b[11] = -p5 * v * (4 * zz - xx - yy);
	b[12] = p6 * z * (2 * zz - 3 * xx - 3 * yy);
	b[13] = -p5 * x * (4 * zz - xx - yy);
	b[14] = p4 / 2 * z * (xx - yy);
	b[15] = -p3 * x * (xx - 3 * yy);
	memcpy(y, b, sizeof(b));
}

static void color_of(const struct scene *s, int i, double *to)
{
	const double *view = s->v + s->at[5], *mean = s->v + 3 * i, *c = s->v + s->at[4];
	double d[3], y[16];
	int k, j;

	if (!s->coeffs) {
		memcpy(to, c + 3 * i, 3 * sizeof(*to));
		return;
	}
	for (k = 0; k < 3; k++) {
		d[k] = mean[k];
		for (j = 0; j < 3; j++)		/* the camera is at -R' t */
			d[k] += view[4 * j + k] * view[4 * j + 3];
	}
	unit(d);
	harmonics(d, y);
	for (k = 0; k < 3; k++)
		for (to[k] = 0.5, j = 0; j < s->coeffs; j++)
			to[k] += y[j] * c[(i * s->coeffs + j) * 3 + k];
}

static void rotation(const double *quat, double r[3][3])
{
	double q[4], len = 0;
	int i;

	for (i = 0; i < 4; i++)
		len += quat[i] * quat[i];
	for (i = 0; i < 4; i++)
		q[i] = quat[i] / sqrt(len);
	r[0][0] = 1 - 2 * (q[2] * q[2] + q[3] * q[3]);
	r[0][1] = 2 * (q[1] * q[2] - q[0] * q[3]);
	r[0][2] = 2 * (q[1] * q[3] + q[0] * q[2]);
	r[1][0] = 2 * (q[1] * q[2] + q[0] * q[3]);
	r[1][1] = 1 - 2 * (q[1] * q[1] + q[3] * q[3]);
	r[1][2] = 2 * (q[2] * q[3] - q[0] * q[1]);
	r[2][0] = 2 * (q[1] * q[3] - q[0] * q[2]);
	r[2][1] = 2 * (q[2] * q[3] + q[0] * q[1]);
	r[2][2] = 1 - 2 * (q[1] * q[1] + q[2] * q[2]);
}

/* The covariance in space, [3][3]. */
static void covariance(const struct scene *s, int i, double to[3][3])
{
	const double *ls = s->v + s->at[1] + 3 * i;
	double r[3][3];
	int j, k, l;

	rotation(s->v + s->at[2] + 4 * i, r);
	for (j = 0; j < 3; j++)
		for (k = 0; k < 3; k++)
			for (to[j][k] = 0, l = 0; l < 3; l++)
				to[j][k] += r[j][l] * exp(2 * ls[l]) * r[k][l];
}

static bool project(const struct scene *s, int i, struct drawn *d)
{
	const double *view = s->v + s->at[5], *f = s->v + s->at[6], *mean = s->v + 3 * i;
	double cov[2][2] = { { 0.3f, 0 }, { 0, 0.3f } }, t[3], sigma[3][3], m[2][3], u[2];
	double most, det;
	int j, k, l, h;

	for (j = 0; j < 3; j++)
		t[j] = view[4 * j] * mean[0] + view[4 * j + 1] * mean[1] +
		       view[4 * j + 2] * mean[2] + view[4 * j + 3];
	for (j = 0; j < 2; j++) {
		most = 1.3 * (j ? s->height : s->width) / (2 * f[j]);
		u[j] = fmax(-most, fmin(most, t[j] / t[2]));
		for (k = 0; k < 3; k++)
			m[j][k] = f[j] / t[2] * (view[4 * j + k] - u[j] * view[8 + k]);
	}
	covariance(s, i, sigma);
	for (j = 0; j < 2; j++)
		for (h = 0; h < 2; h++)
			for (k = 0; k < 3; k++)
				for (l = 0; l < 3; l++)
					cov[j][h] += m[j][k] * sigma[k][l] * m[h][l];
	det = cov[0][0] * cov[1][1] - cov[0][1] * cov[1][0];
	*d = (struct drawn){ f[0] * t[0] / t[2] + f[2], f[1] * t[1] / t[2] + f[3],
			     cov[1][1] / det, -cov[0][1] / det, cov[0][0] / det,
			     s->v[s->at[3] + i], { 0 }, t[2] };
	color_of(s, i, d->color);
	return t[2] > 0.2f && isfinite(d->x + d->y + d->a + d->b + d->c);
}

static void plain(const struct scene *s, double *image)
{
	const double *background = s->v + s->at[7];
	struct drawn all[MOST], d;
	int n = 0, i, k, p;

	for (i = 0; i < s->n; i++) {
		if (!project(s, i, &d))
			continue;
		for (k = n++; k && all[k - 1].z > d.z; k--)
			all[k] = all[k - 1];
		all[k] = d;
	}
	for (p = 0; p < s->width * s->height; p++) {
		double t = 1, *y = image + 4 * p;

		memset(y, 0, 4 * sizeof(*y));
		for (i = 0; i < n; i++) {
			double dx = p % s->width + 0.5 - all[i].x;
			double dy = p / s->width + 0.5 - all[i].y;
			double alpha = all[i].opacity *
				       exp(-0.5 * (all[i].a * dx * dx + all[i].c * dy * dy) -
					   all[i].b * dx * dy);

			alpha = alpha > 0.99 ? 0.99 : alpha;
			if (!(alpha >= 1.0 / 255))
				continue;
			if (t * (1 - alpha) < 1e-4)
				break;
			for (k = 0; k < 3; k++)
				y[k] += t * alpha * all[i].color[k];
			t *= 1 - alpha;
		}
		for (k = 0; k < 3; k++)
			y[k] += t * background[k];
		y[3] = 1 - t;
	}
}

/* ---- ours ---- */

static rlx_value input(struct rig *r, struct rlx_type t, const double *v)
{
	int64_t n = rlx_type_count(&t), i;
	rlx_value x;
	float *f;

	if (t.dtype == RLX_F64)
		return rig_input(r, t, v);
	f = malloc((size_t)n * sizeof(*f) + 1);
	CHECK(f);
	for (i = 0; i < n; i++)
		f[i] = (float)v[i];
	x = rig_input(r, t, f);
	free(f);
	return x;
}

static rlx_value render(struct rig *r, const struct scene *s, enum rlx_dtype dt, rlx_value *in)
{
	struct rlx_type t[INPUTS] = {
		rlx_type(dt, s->n, 3), rlx_type(dt, s->n, 3), rlx_type(dt, s->n, 4),
		rlx_type(dt, s->n), s->coeffs ? rlx_type(dt, s->n, s->coeffs, 3) :
					       rlx_type(dt, s->n, 3),
		rlx_type(dt, 3, 4), rlx_type(dt, 4), rlx_type(dt, 3),
	};
	int i;

	for (i = 0; i < INPUTS; i++)
		in[i] = input(r, t[i], s->v + s->at[i]);
	return rlx_emit(r->g, splat_render, .means = in[0], .log_scales = in[1], .quats = in[2],
			.opacities = in[3], .colors = in[4], .view = in[5], .camera = in[6],
			.background = in[7], .width = s->width, .height = s->height, .near = 0.2f);
}

/*
 * In f32 a splat may be cut where in double it is just not: of few pixels no more than the 1/255 it
 * had there; so what all are off by together is held small.
 */
static void want_image(const struct rig *r, unsigned int out, const struct scene *s,
		       bool wide)
{
	int i, n = s->width * s->height * 4;
	double *want = malloc((size_t)n * sizeof(*want)), off = 0, e;

	CHECK(want);
	plain(s, want);
	for (i = 0; i < n; i++) {
		e = fabs(rig_get(r, out, i) - want[i]);
		CHECKF(e <= (wide ? 1e-9 : 0.012),
		       "%s: %d x %d, %d splats: pixel %d.%d is %g, not %g",
		       r->device ? r->device : "eval", s->width, s->height, s->n, i / 4, i % 4,
		       rig_get(r, out, i), want[i]);
		off += e;
	}
	CHECKF(off <= 5e-5 * n, "%s: %g off in the mean", r->device ? r->device : "eval", off / n);
	free(want);
}

EVERYWHERE(images_of_random_scenes)
{
	static const int coeffs[] = { 0, 1, 4, 9, 16 };
	uint64_t seed = rlx_test_seed();
	rlx_value in[INPUTS];
	struct rig own;
	struct scene s;
	int i;

	for (i = 0; i < 10; i++) {
		draw_scene(&s, i == 5 ? 1 : 1 + (int)(rlx_test_rand(&seed) % MOST), coeffs[i % 5],
			   &seed);
		rig_init(&own, r->device);
		rig_output(&own, render(&own, &s, i < 5 ? RLX_F64 : RLX_F32, in));
		rig_run(&own);
		want_image(&own, 0, &s, i < 5);
		rig_fini(&own);
	}
}

/* Behind the camera, no number, no rotation, flat, thin, endless, unseen: no NaN comes of it. */
EVERYWHERE(splats_that_are_not_there)
{
	uint64_t seed = rlx_test_seed();
	struct scene s;
	rlx_value in[INPUTS], d[INPUTS], y;
	int i, k;

	draw_scene(&s, 24, 4, &seed);
	for (k = 0; k < 3; k++) {
		s.v[k] = -3 * s.v[s.at[5] + 8 + k];		/* just ahead */
		s.v[3 + k] = -9 * s.v[s.at[5] + 8 + k];		/* behind */
		s.v[s.at[1] + 6 + k] = -INFINITY;
		s.v[s.at[1] + 9 + k] = INFINITY;
	}
	s.v[12] = NAN;
	s.v[s.at[1] + 15] = -40;
	memset(s.v + s.at[2] + 4 * 6, 0, 4 * sizeof(double));
	s.v[s.at[3] + 7] = NAN;
	s.v[s.at[3] + 8] = -1;
	s.v[s.at[1] + 27] = 200;
	s.v[s.at[3] + 10] = 7;					/* more than all */
	y = render(r, &s, RLX_F32, in);
	rig_output(r, y);
	y = rlx_emit(r->g, reduce, .x = y);
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(y),
					.wrt = { in, INPUTS } }, d);
	for (i = 0; i < INPUTS; i++)
		rig_output(r, d[i]);
	rig_run(r);
	want_image(r, 0, &s, false);
	for (i = 0; i < INPUTS; i++)
		for (k = 0; k < s.at[i + 1] - s.at[i]; k++)
			CHECKF(isfinite(rig_get(r, (unsigned int)i + 1, k)),
			       "the gradient by input %d, element %d is %g", i, k,
			       rig_get(r, (unsigned int)i + 1, k));
}

EVERYWHERE(no_splats_are_the_background)
{
	struct scene s = { .width = 17, .height = 3 };
	rlx_value in[INPUTS];
	int i;

	lay_out(&s);
	for (i = 0; i < 3; i++)
		s.v[s.at[7] + i] = 0.25 * (i + 1);
	rig_output(r, render(r, &s, RLX_F32, in));
	rig_run(r);
	for (i = 0; i < 17 * 3 * 4; i++)
		rig_want(r, 0, i, i % 4 == 3 ? 0 : 0.25 * (i % 4 + 1), 0);
}

/* sum(weight image) of the plain program. */
static double loss_of(const struct scene *s, const double *weight)
{
	int i, n = s->width * s->height * 4;
	double *y = malloc((size_t)n * sizeof(*y)), sum = 0;

	CHECK(y);
	plain(s, y);
	for (i = 0; i < n; i++)
		sum += y[i] * weight[i % 64];
	free(y);
	return sum;
}

/*
 * Against differences of the plain program. Where one step moves a splat's edge over a pixel's
 * centre the sum jumps: by a smaller step, to the other side, it does not.
 */
static bool near_difference(struct scene *s, int i, const double *weight, double got)
{
	static const double step[] = { 1e-6, 3e-7, 1e-5 };
	double was = s->v[i], at[3], want;
	int k, j;

	for (k = 0; k < 3; k++)
		for (j = -1; j < 2; j += 2) {	/* one-sided, of second order */
			s->v[i] = was;
			at[0] = loss_of(s, weight);
			s->v[i] = was + j * step[k];
			at[1] = loss_of(s, weight);
			s->v[i] = was + 2 * j * step[k];
			at[2] = loss_of(s, weight);
			s->v[i] = was;
			want = j * (4 * at[1] - 3 * at[0] - at[2]) / (2 * step[k]);
			if (fabs(got - want) <= 1e-4 * (1 + fabs(want)))
				return true;
		}
	return false;
}

static void gradients_of(struct rig *r, enum rlx_dtype dt, int coeffs, double *d, struct scene *s,
			 double *weight)
{
	uint64_t seed = rlx_test_seed();
	rlx_value in[INPUTS], g[INPUTS], y;
	int i, k, n;
	double *w;

	draw_scene(s, 9, coeffs, &seed);
	for (i = 0; i < 64; i++)
		weight[i] = rlx_test_uniform(&seed, -1, 1);
	y = render(r, s, dt, in);
	n = s->width * s->height * 4;
	w = malloc((size_t)n * sizeof(*w));
	CHECK(w);
	for (i = 0; i < n; i++)
		w[i] = weight[i % 64];
	y = rlx_emit(r->g, mul, .a = y,
		     .b = input(r, rlx_type(dt, s->height, s->width, 4), w));
	free(w);
	y = rlx_emit(r->g, reduce, .x = y);
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(y),
					.wrt = { in, INPUTS } }, g);
	for (i = 0; i < INPUTS; i++)
		rig_output(r, g[i]);
	rig_run(r);
	for (i = 0; i < INPUTS; i++)
		for (k = s->at[i]; k < s->at[i + 1]; k++)
			d[k] = rig_get(r, (unsigned int)i, k - s->at[i]);
}

static void against_differences(struct rig *r, int coeffs)
{
	double d[9 * 59 + 19], weight[64];
	struct scene s;
	int i;

	gradients_of(r, RLX_F64, coeffs, d, &s, weight);
	for (i = 0; i < s.at[INPUTS]; i++)
		CHECKF(near_difference(&s, i, weight, d[i]), "%s: number %d: derivative %g",
		       r->device ? r->device : "eval", i, d[i]);
}

EVERYWHERE(gradients_are_differences)
{
	against_differences(r, 0);
}

EVERYWHERE(gradients_by_harmonics_are_differences)
{
	against_differences(r, 16);
}

/* The kernels of f32 against f64, which is the evaluator. */
EVERYWHERE(gradients_in_f32)
{
	double d[2][9 * 59 + 19], weight[64], most = 0, off = 0;
	struct rig wide;
	struct scene s;
	int i;

	rig_init(&wide, NULL);
	gradients_of(&wide, RLX_F64, 4, d[0], &s, weight);
	rig_fini(&wide);
	gradients_of(r, RLX_F32, 4, d[1], &s, weight);
	for (i = 0; i < s.at[INPUTS]; i++) {
		most = fmax(most, fabs(d[0][i]));
		off = rlx_test_worse(off, fabs(d[0][i] - d[1][i]));
	}
	CHECKF(off <= 0.02 * most, "%s: off by %g of %g", r->device ? r->device : "eval", off,
	       most);
}

/*
 * Forms that bend up along one axis: where q falls below 0 a splat is not there, and exp(-q / 2),
 * which f32 does not hold a few pixels on, must not show in its derivatives.
 */
EVERYWHERE(forms_below_zero)
{
	enum { W = 40, H = 20 };
	static const struct rlx_type type[] = {
		{ RLX_F32, 2, { 1, 9 } }, { RLX_F32, 2, { 1, 4 } }, { RLX_F32, 1, { 3 } },
		{ RLX_F32, 3, { H, W, 4 } },
	};
	const double box[] = { -90, -90, 90, 90 }, background[] = { 0.5, 0.25, 1 };
	uint64_t seed = rlx_test_seed();
	double form[9], dy[H * W * 4];
	rlx_value in[4];
	struct rig *of[2], wide;
	int i, k;

	for (i = 0; i < H * W * 4; i++)
		dy[i] = rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < 9; i++)
		form[i] = rlx_test_uniform(&seed, 0.25, 0.75);
	form[0] = 0.5 + (double)(rlx_test_rand(&seed) % W);	/* at a pixel: it is seen */
	form[1] = 0.5 + (double)(rlx_test_rand(&seed) % H);
	form[2] = rlx_test_uniform(&seed, -9, -2);
	form[3] = 0;
	rig_init(&wide, NULL);
	of[0] = &wide;
	of[1] = r;
	for (k = 0; k < 2; k++) {
		const double *v[] = { form, box, background, dy };

		for (i = 0; i < 4; i++)
			in[i] = input(of[k], type[i], v[i]);
		rig_output(of[k], rlx_emit(of[k]->g, reduce, .axes = RLX_INTS(0),
					   .x = rlx_emit(of[k]->g, splat_blend_grad,
							 .splats = in[0], .boxes = in[1],
							 .background = in[2], .dy = in[3])));
		rig_run(of[k]);
	}
	for (i = 0; i < 9; i++)
		rig_want(r, 0, i, rig_get(&wide, 0, i), 1e-3);
	CHECK(rig_get(r, 0, 5) != 0);
	rig_fini(&wide);
}

TEST_MAIN()
