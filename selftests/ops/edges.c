// SPDX-License-Identifier: MIT
/*
 * Ops that a device computes by another way than the evaluator's, where the two could
 * part: values that are no numbers, repeated and odd places, nothing at all.
 */
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static void want_floats(const struct rig *r, unsigned int k, const double *want, int64_t n)
{
	int64_t i;

	CHECK_EQ(rlx_type_count(&r->out[k].type), n);
	for (i = 0; i < n; i++)
		rig_want(r, k, i, want[i], 2e-6);
}
#define WANT(r, k, ...)							\
	want_floats(r, k, (const double[]){ __VA_ARGS__ },		\
		    sizeof((double[]){ __VA_ARGS__ }) / sizeof(double))

/* A NaN has no say in the range and becomes its lower end; an infinity takes all. */
EVERYWHERE(fake_quantize_of_no_numbers)
{
	const float x[4] = { 0.9f, NAN, -3.5f, 0.2f }, far[3] = { 1, INFINITY, -INFINITY };
	const float none = NAN, old = 2;
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 4), x), e;

	rig_output(r, rlx_emit(r->g, fake_quantize, .x = v, .bits = 4));
	rig_output(r, rlx_emit(r->g, fake_quantize, .bits = 4,
			       .x = rig_input(r, rlx_type(RLX_F32, 3), far)));
	e = rlx_emit(r->g, fake_quantize, .x = v, .bits = 4, .scale_mode = RLX_SCALE_EMA,
		     .decay = 0.75f, .state = rig_input(r, rlx_scalar(RLX_F32), &none));
	rig_output(r, rlx_out(r->g, e, 0));
	rig_output(r, rlx_out(r->g, e, 1));
	e = rlx_emit(r->g, fake_quantize, .bits = 4, .scale_mode = RLX_SCALE_EMA, .decay = 0.75f,
		     .x = rig_input(r, rlx_type(RLX_F32, 0), NULL),
		     .state = rig_input(r, rlx_scalar(RLX_F32), &old));
	rig_output(r, rlx_out(r->g, e, 0));
	rig_output(r, rlx_out(r->g, e, 1));
	rig_run(r);
	WANT(r, 0, 1, -3.5, -3.5, 0);
	WANT(r, 1, NAN, -INFINITY, -INFINITY);
	WANT(r, 2, 1, -3.5, -3.5, 0);
	WANT(r, 3, 3.5);
	CHECK_EQ(rlx_type_count(&r->out[4].type), 0);
	WANT(r, 5, 1.5);
}

/* The imaginary part changes its sign, whatever it is; an odd count, and a scalar. */
EVERYWHERE(complex_parts)
{
	const float x[5][2] = { { 3, -4 }, { NAN, 1 }, { -1, NAN }, { 1, 0.0f },
				{ -INFINITY, 2 } };
	rlx_value v = rig_input(r, rlx_type(RLX_C64, 5), x);
	const uint32_t *was, *is;
	unsigned int i;

	rig_output(r, rlx_emit(r->g, conjugate, .x = v));
	rig_output(r, rlx_emit(r->g, norm_sq, .x = v));
	rig_output(r, rlx_emit(r->g, norm_sq, .x = rig_input(r, rlx_scalar(RLX_C64), x)));
	rig_run(r);
	was = (const void *)x;
	is = r->out[0].data;
	for (i = 0; i < 10; i++)
		CHECK_EQ(is[i], i % 2 ? was[i] ^ 1u << 31 : was[i]);
	WANT(r, 1, 25, NAN, NAN, 1, INFINITY);
	WANT(r, 2, 25);
}

/*
 * A slope of bf16 and f32, read at places of f32: what lies between pixels is known.
 * Beyond the edge, and nowhere, is 0.
 */
EVERYWHERE(grid_sample_of_a_slope)
{
	enum { H = 5, W = 7, N = 33 };
	float x[2][H][W], at[N][2];
	rlx_value v, g, y[2];
	unsigned int k;
	int64_t i, j;

	for (i = 0; i < H; i++)
		for (j = 0; j < W; j++) {
			x[0][i][j] = (float)(8 * i + j);
			x[1][i][j] = (float)(j - 4 * i);
		}
	for (i = 0; i < N; i++)
		for (j = 0; j < 2; j++)
			at[i][j] = (float)rlx_test_uniform(&r->seed, -1, 1);
	at[3][1] = NAN;
	at[5][0] = INFINITY;
	at[7][0] = -4;
	v = rig_input(r, rlx_type(RLX_F32, 1, 2, H, W), x);
	g = rig_input(r, rlx_type(RLX_F32, 1, 3, N / 3, 2), at);
	y[0] = rlx_emit(r->g, grid_sample, .x = v, .grid = g, .mode = RLX_RESIZE_LINEAR,
			.align_corners = true);
	y[1] = rlx_emit(r->g, grid_sample, .x = rlx_emit(r->g, cast, .x = v, .to = RLX_BF16),
			.grid = g, .mode = RLX_RESIZE_LINEAR, .align_corners = true);
	for (k = 0; k < 2; k++)
		rig_output(r, y[k]);
	rig_run(r);
	for (k = 0; k < 2; k++)
		for (i = 0; i < N; i++) {
			double col = ((double)at[i][0] + 1) / 2 * (W - 1);
			double row = ((double)at[i][1] + 1) / 2 * (H - 1), tol = k ? 0x1p-8 : 2e-6;
			bool in = i != 3 && i != 5 && i != 7;

			rig_want(r, k, i, in ? 8 * row + col : 0, tol);
			rig_want(r, k, N + i, in ? col - 4 * row : 0, tol);
		}
}

/* Keys's weights of the four elements around a place that is @f behind the second. */
static void cubic_weights(double f, double w[4])
{
	const double k = -0.75;
	int i;

	for (i = 0; i < 4; i++) {
		double d = fabs(f + 1 - i);

		w[i] = i == 1 || i == 2 ? (k + 2) * d * d * d - (k + 3) * d * d + 1 :
		       k * d * d * d - 5 * k * d * d + 8 * k * d - 4 * k;
	}
}

static int64_t nearest(double p, int64_t n)
{
	return p < 0 ? 0 : p > (double)(n - 1) ? n - 1 : (int64_t)p;
}

/* Cubic at the border: each of the 16 pixels by itself is the nearest there is. */
EVERYWHERE(grid_sample_cubic_at_the_border)
{
	enum { H = 4, W = 5, N = 64 };
	float x[H][W], at[N][2];
	rlx_value v, g;
	int64_t i, j, k;

	for (i = 0; i < H * W; i++)
		x[i / W][i % W] = (float)rlx_test_uniform(&r->seed, -1, 1);
	for (i = 0; i < N * 2; i++)
		at[i / 2][i % 2] = (float)rlx_test_uniform(&r->seed, -2.2, 2.2);
	at[0][0] = INFINITY;
	at[1][1] = -INFINITY;
	at[2][0] = 3e38f;
	at[3][0] = at[3][1] = -1e9f;
	v = rig_input(r, rlx_type(RLX_F32, 1, 1, H, W), x);
	g = rig_input(r, rlx_type(RLX_F32, 1, 4, N / 4, 2), at);
	for (k = 0; k < 2; k++)
		rig_output(r, rlx_emit(r->g, grid_sample, .x = v, .grid = g,
				       .mode = RLX_RESIZE_CUBIC, .padding = RLX_GRID_BORDER,
				       .align_corners = k));
	rig_run(r);
	for (i = 0; i < 2 * N; i++) {
		const int64_t size[2] = { W, H };
		double w[2][4], p[2], sum = 0;

		for (k = 0; k < 2; k++) {
			double u = (double)at[i % N][k], n = (double)size[k];

			/* what is far out reads one pixel, as does what is a little less so */
			p[k] = i < N ? ((u + 1) * n - 1) / 2 : (u + 1) / 2 * (n - 1);
			p[k] = fmax(-9, fmin(p[k], 19));
			cubic_weights(p[k] - floor(p[k]), w[k]);
		}
		for (j = 0; j < 16; j++)
			sum += w[1][j / 4] * w[0][j % 4] *
			       (double)x[nearest(floor(p[1]) - 1 + (double)(j / 4), H)]
				       [nearest(floor(p[0]) - 1 + (double)(j % 4), W)];
		rig_want(r, (unsigned int)(i / N), i % N, sum, 1e-5);
	}
}

/* Far outside the nearest pixel alone is read: NaN beside it, times 0, would be NaN. */
EVERYWHERE(grid_sample_cubic_beside_nan)
{
	enum { W = 6, N = 8 };
	const float x[W] = { 3, NAN, 5, 6, -INFINITY, 7 };
	const float far[N] = { -INFINITY, -1e9f, -3, -1.75f, 1.75f, 3, 1e9f, INFINITY };
	float at[N][2] = { { 0 } };
	rlx_value v, g;
	int64_t i, k;

	for (i = 0; i < N; i++)
		at[i][0] = far[i];
	v = rig_input(r, rlx_type(RLX_F32, 1, 1, 1, W), x);
	g = rig_input(r, rlx_type(RLX_F32, 1, 1, N, 2), at);
	for (k = 0; k < 2; k++)
		rig_output(r, rlx_emit(r->g, grid_sample, .x = v, .grid = g,
				       .mode = RLX_RESIZE_CUBIC, .padding = RLX_GRID_BORDER,
				       .align_corners = k));
	rig_run(r);
	for (i = 0; i < 2 * N; i++)
		rig_want(r, (unsigned int)(i / N), i % N, i % N < N / 2 ? 3 : 7, 1e-5);
}

/* An integer beside a float of 32 bits is rounded to that before anything is done with it. */
EVERYWHERE(large_integers_are_promoted)
{
	enum { N = 5 };
	const int64_t b[N] = { (1 << 24) + 1, -(1 << 24) - 1, (1 << 24) + 3, INT64_MAX, 3 };
	const float a[N] = { 1 << 24, -(1 << 24), 1e10f, 0x1p63f, -3 };
	rlx_value x = rig_input(r, rlx_type(RLX_F32, N), a);
	rlx_value y = rig_input(r, rlx_type(RLX_I64, N), b), v[5];
	int64_t i;

	v[0] = rlx_emit(r->g, eq, .a = x, .b = y);
	v[1] = rlx_emit(r->g, lt, .a = x, .b = y);
	v[2] = rlx_emit(r->g, sub, .a = x, .b = y);
	v[3] = rlx_emit(r->g, fmod, .a = x, .b = y);
	v[4] = rlx_emit(r->g, pow, .a = rlx_emit(r->g, neg, .x = rlx_emit(r->g, abs, .x = x)),
			.b = y);
	for (i = 0; i < 5; i++)
		rig_output(r, v[i]);
	rig_run(r);
	for (i = 0; i < N; i++) {
		double p = (double)a[i], q = (double)(float)b[i];

		rig_want(r, 0, i, p == q, 0);
		rig_want(r, 1, i, p < q, 0);
		rig_want(r, 2, i, (double)(float)(p - q), 0);
		rig_want(r, 3, i, fmod(p, q), 0);
		rig_want(r, 4, i, (double)(float)pow(-fabs(p), q), 0);
	}
}

/* What is nearly neutral is not left out, nor is a power nearly a square or a root. */
EVERYWHERE(nearly_neutral)
{
	static const float by[] = { 1.00008f, 2.0001f, 0.50003f, -1.00007f };
	const float x[2] = { 1.693f, 7.25f };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 2), x), c;
	int i;

	for (i = 0; i < 4; i++) {
		c = rlx_constant(r->g, rlx_scalar(RLX_F32), &by[i]);
		rig_output(r, rlx_emit(r->g, pow, .a = v, .b = c));
		rig_output(r, rlx_emit(r->g, mul, .a = v, .b = c));
	}
	rig_run(r);
	for (i = 0; i < 8; i++) {
		double p = pow((double)x[i % 2], (double)by[i / 2]);

		rig_want(r, 2 * (unsigned int)(i / 2), i % 2, p, 1e-6 * p);
		p = (double)x[i % 2] * (double)by[i / 2];
		rig_want(r, 2 * (unsigned int)(i / 2) + 1, i % 2, p, 1e-6 * fabs(p));
	}
}

/* Bins of a slope have the value of their middle; a region from afar must end soon. */
EVERYWHERE(roi_align_of_a_slope)
{
	enum { H = 9, W = 11 };
	const float roi[2][4] = { { 2, 1, 8, 7 }, { -500000, -500000, 500000, 500000 } };
	const int64_t image[2] = { 1, -2 }, nowhere[1] = { 2 };
	const float odd[2][4] = { { 0, NAN, 1, 1 }, { 0, 0, 4e6f, 1 } };
	float x[2][H][W];
	rlx_value v;
	int64_t i, j;

	for (i = 0; i < H; i++)
		for (j = 0; j < W; j++) {
			x[0][i][j] = 1;
			x[1][i][j] = (float)(3 * i - j);
		}
	v = rig_input(r, rlx_type(RLX_F32, 2, 1, H, W), x);
	rig_output(r, rlx_emit(r->g, roi_align, .x = v, .out_h = 2, .out_w = 3, .sampling = 2,
			       .spatial_scale = 1,
			       .rois = rig_input(r, rlx_type(RLX_F32, 1, 4), roi),
			       .batch_indices = rig_input(r, rlx_type(RLX_I64, 1), image)));
	rig_output(r, rlx_emit(r->g, roi_align, .x = v, .out_h = 1, .out_w = 1, .max_mode = true,
			       .spatial_scale = 1,
			       .rois = rig_input(r, rlx_type(RLX_F32, 1, 4), roi[1]),
			       .batch_indices = rig_input(r, rlx_type(RLX_I64, 1), image + 1)));
	rig_run(r);
	rig_want(r, 1, 0, 1, 0);	/* the corner's pixel, met by a sample beside it */
	for (i = 0; i < 6; i++)
		rig_want(r, 0, i, 3 * (2.5 + 3 * (double)(i / 3)) - (3 + 2 * (double)(i % 3)),
			 2e-6);
	rig_reset(r);
	for (i = 0; i < 3; i++) {
		v = rig_input(r, rlx_type(RLX_F32, 2, 1, H, W), x);
		rig_output(r, rlx_emit(r->g, roi_align, .x = v, .out_h = 1, .out_w = 1,
				       .spatial_scale = 1,
				       .rois = rig_input(r, rlx_type(RLX_F32, 1, 4),
							 odd[i % 2]),
				       .batch_indices = rig_input(r, rlx_type(RLX_I64, 1),
								  i < 2 ? image : nowhere)));
		CHECK_EQ(rig_try(r), RLX_ERANGE);
		CHECKF(strstr(r->err.text, "roi_align"), "%s", r->err.text);
		rig_reset(r);
	}
}

/* Of many updates of one place the last one wins; a place that is not there is told. */
EVERYWHERE(unpool_repeats)
{
	enum { N = 300, M = 77 };
	static float x[N], want[M], z[N][2];
	static int64_t at[N];
	rlx_value v, i64;
	int64_t i;

	memset(want, 0, sizeof(want));
	for (i = 0; i < N; i++) {
		z[i][0] = x[i] = (float)(i + 1);
		z[i][1] = -x[i];
		at[i] = (int64_t)(rlx_test_rand(&r->seed) % (M - 1));
		want[at[i]] = x[i];
		at[i] -= i % 2 ? M : 0;
	}
	v = rig_input(r, rlx_type(RLX_F32, 3, N / 3), x);
	i64 = rig_input(r, rlx_type(RLX_I64, 3, N / 3), at);
	rig_output(r, rlx_emit(r->g, max_unpool, .x = v, .indices = i64,
			       .out_shape = RLX_INTS(7, M / 7)));
	v = rig_input(r, rlx_type(RLX_C64, 3, N / 3), z);
	rig_output(r, rlx_emit(r->g, max_unpool, .x = v, .indices = i64,
			       .out_shape = RLX_INTS(M)));
	rig_run(r);
	for (i = 0; i < M; i++) {
		const float *c = r->out[1].data;

		rig_want(r, 0, i, want[i], 0);
		CHECKF(c[2 * i] == want[i] && c[2 * i + 1] == -want[i], "%g and %g, not %g",
		       (double)c[2 * i], (double)c[2 * i + 1], (double)want[i]);
	}
	rig_reset(r);
	at[N / 2] = M;
	v = rig_input(r, rlx_type(RLX_F32, N), x);
	rig_output(r, rlx_emit(r->g, max_unpool, .x = v, .out_shape = RLX_INTS(M),
			       .indices = rig_input(r, rlx_type(RLX_I64, N), at)));
	CHECK_EQ(rig_try(r), RLX_ERANGE);
	CHECKF(strstr(r->err.text, "outside"), "%s", r->err.text);
}

/* An upper triangle whose rows were added to later ones and then turned about. */
static double spoiled_triangle(double *m, int64_t n, uint64_t *seed)
{
	double det = 1;
	int64_t i, j, k;

	for (i = 0; i < n; i++)
		for (j = 0; j < n; j++)
			m[i * n + j] = j > i ? (double)(rlx_test_rand(seed) % 5) - 2 : j == i ?
				       (i % 7 == 3 ? -2 : i % 3 ? 1 : -1) : 0;
	for (i = 0; i < n; i++)
		det *= m[i * n + i];
	for (i = n - 1; i > 0; i--)
		for (k = i - 1; k < i; k++)
			for (j = 0; j < n; j++)
				m[i * n + j] += m[k * n + j];
	for (i = 0; i + 1 < n; i += 3, det = -det)
		for (j = 0; j < n; j++) {
			double t = m[i * n + j];

			m[i * n + j] = m[(i + 1) * n + j];
			m[(i + 1) * n + j] = t;
		}
	return det;
}

/* Whole numbers, of sizes that stay in shared memory and that do not; one is singular. */
EVERYWHERE(det_of_known)
{
	static const int64_t size[] = { 1, 7, 33, 67 };
	static double m[3 * 67 * 67];
	double want[4][3];
	const double lost[2][3][3] = {	/* a NaN is no pivot, but one in its place stays */
		{ { 1, 2, 3 }, { 2, 4, 6 }, { 0, NAN, 1 } },
		{ { NAN, 2, 3 }, { 2, 4, 1 }, { 0, 5, 1 } },
	};
	int64_t n, i, k;

	for (k = 0; k < 4; k++) {
		n = size[k];
		for (i = 0; i < 3; i++)
			want[k][i] = spoiled_triangle(m + i * n * n, n, &r->seed);
		rig_output(r, rlx_emit(r->g, det, .x = rig_input(r, rlx_type(RLX_F64, 3, n, n),
								 m)));
	}
	rig_output(r, rlx_emit(r->g, det, .x = rig_input(r, rlx_type(RLX_F64, 2, 3, 3),
							 lost)));
	rig_output(r, rlx_emit(r->g, det, .x = rig_input(r, rlx_type(RLX_F32, 2, 0, 0), NULL)));
	rig_run(r);
	for (k = 0; k < 4; k++)
		for (i = 0; i < 3; i++)
			rig_want(r, (unsigned int)k, i, want[k][i], 1e-9);
	WANT(r, 4, 0, NAN);
	WANT(r, 5, 1, 1);
}

/* More elements than a few blocks have, of which some are not zero. */
EVERYWHERE(nonzero_of_many)
{
	enum { ROWS = 3, COLS = 4099, N = ROWS * COLS };
	static float x[N];
	static int64_t want[2][N];
	static bool cond[COLS];
	int64_t i, n = 0, kept = 0;
	rlx_value v, c;

	for (i = 0; i < N; i++) {
		x[i] = rlx_test_rand(&r->seed) % 3 && i / 256 % 5 != 2 ? 0 : (float)i;
		if (x[i] != 0) {
			want[0][n] = i / COLS;
			want[1][n++] = i % COLS;
		}
	}
	for (i = 0; i < COLS; i++)
		kept += cond[i] = i % 7 == 1;
	v = rig_input(r, rlx_type(RLX_F32, ROWS, COLS), x);
	c = rig_input(r, rlx_type(RLX_BOOL, COLS), cond);
	rig_output(r, rlx_emit(r->g, nonzero_count, .x = v));
	rig_output(r, rlx_emit(r->g, nonzero, .x = v, .count = n));
	rig_output(r, rlx_emit(r->g, compress, .x = v, .cond = c, .axis = 1, .count = kept));
	rig_run(r);
	rig_want(r, 0, 0, (double)n, 0);
	for (i = 0; i < 2 * n; i++)
		rig_want(r, 1, i, (double)want[i / n][i % n], 0);
	for (i = 0; i < ROWS * kept; i++)
		rig_want(r, 2, i, (double)x[i / kept * COLS + i % kept * 7 + 1], 0);
	rig_reset(r);
	rig_output(r, rlx_emit(r->g, nonzero, .count = n + 1,
			       .x = rig_input(r, rlx_type(RLX_F32, N), x)));
	CHECK_EQ(rig_try(r), RLX_ERANGE);
	CHECKF(strstr(r->err.text, "count is"), "%s", r->err.text);
}

struct square {
	float	y, x, h, w, score;
};

static bool covers(const struct square *p, const struct square *r, double iou)
{
	double h = fmin((double)p->y + p->h, (double)r->y + r->h) - fmax(p->y, r->y);
	double w = fmin((double)p->x + p->w, (double)r->x + r->w) - fmax(p->x, r->x);
	double all = (double)p->h * p->w + (double)r->h * r->w - h * w;

	return h > 0 && w > 0 && h * w / all > iou;
}

/* More boxes than a block has threads, on whole numbers, over two batches. */
EVERYWHERE(nms_of_many)
{
	enum { B = 2, C = 2, N = 300, MOST = 40 };
	static struct square s[B][C][N];
	static float boxes[B][N][4], scores[B][C][N];
	static int64_t want[B * C * MOST][3];
	int64_t b, c, i, j, n = 0, kept, best[MOST];
	rlx_value x, y;

	for (i = 0; i < B * N; i++)
		for (j = 0; j < 4; j++)	/* corners, the far one first */
			boxes[i / N][i % N][j] = (float)(rlx_test_rand(&r->seed) % 40) +
						 (j < 2 ? 40 : 0);
	for (b = 0; b < B; b++)
		for (c = 0; c < C; c++, n += kept) {
			for (i = 0, kept = 0; i < N; i++) {
				const float *at = boxes[b][i];

				scores[b][c][i] = (float)(i * 7919 % N);	/* no two alike */
				s[b][c][i * 7919 % N] = (struct square){
					fminf(at[0], at[2]), fminf(at[1], at[3]),
					fabsf(at[0] - at[2]), fabsf(at[1] - at[3]), (float)i };
			}
			for (i = N - 1; i >= 30 && kept < MOST; i--) {
				for (j = 0; j < kept && !covers(&s[b][c][best[j]], &s[b][c][i],
								0.3f); j++)
					;
				if (j < kept)
					continue;
				want[n + kept][0] = b;
				want[n + kept][1] = c;
				want[n + kept][2] = (int64_t)s[b][c][i].score;
				best[kept++] = i;
			}
		}
	x = rig_input(r, rlx_type(RLX_F32, B, N, 4), boxes);
	y = rig_input(r, rlx_type(RLX_F32, B, C, N), scores);
	rig_output(r, rlx_emit(r->g, nms, .boxes = x, .scores = y, .max_per_class = MOST,
			       .iou = 0.3f, .score = 29.5f, .use_score = true, .count = n));
	rig_output(r, rlx_emit(r->g, nms_count, .boxes = x, .scores = y, .max_per_class = MOST,
			       .iou = 0.3f, .score = 29.5f, .use_score = true));
	rig_run(r);
	for (i = 0; i < 3 * n; i++)
		rig_want(r, 0, i, (double)want[i / 3][i % 3], 0);
	rig_want(r, 1, 0, (double)n, 0);
	rig_reset(r);
	x = rig_input(r, rlx_type(RLX_F32, B, N, 4), boxes);
	y = rig_input(r, rlx_type(RLX_F32, B, C, N), scores);
	rig_output(r, rlx_emit(r->g, nms, .boxes = x, .scores = y, .max_per_class = MOST,
			       .iou = 0.3f, .count = n + 1000));
	CHECK_EQ(rig_try(r), RLX_ERANGE);
	CHECKF(strstr(r->err.text, "count is"), "%s", r->err.text);
}

/* Products of the norm of few rows, of which there is no column. */
EVERYWHERE(norm_matmul_of_no_columns)
{
	rlx_value x = rig_random(r, rlx_type(RLX_BF16, 2, 64), -1, 1);
	rlx_value w = rig_input(r, rlx_type(RLX_BF16, 0, 64), NULL);

	rig_output(r, rlx_emit(r->g, fused_norm_matmul, .x = x, .w = w, .trans_w = true,
			       .eps = 1e-5f));
	rig_output(r, rlx_emit(r->g, fused_norm_matmul, .x = x, .w = w, .trans_w = true,
			       .eps = 1e-5f, .gate = RLX_SWIGLU_LAST));
	rig_run(r);
	CHECK_EQ(rlx_type_count(&r->out[0].type), 0);
	CHECK_EQ(rlx_type_count(&r->out[1].type), 0);
}

/* What has no sign has none above 2^63 either, alone and within a region. */
EVERYWHERE(u64_above_what_i64_holds)
{
	const uint64_t x[7] = { 0, 1, INT64_MAX, 1ull << 63, (1ull << 63) + 1, UINT64_MAX - 1,
				UINT64_MAX };
	rlx_value v = rig_input(r, rlx_type(RLX_U64, 7), x), s;
	const uint64_t *sign, *abs_, *relu, *twice;
	int64_t i;

	s = rlx_emit(r->g, sign, .x = v);
	rig_output(r, s);
	rig_output(r, rlx_emit(r->g, abs, .x = v));
	rig_output(r, rlx_emit(r->g, relu, .x = v));
	rig_output(r, rlx_emit(r->g, add, .a = rlx_emit(r->g, mul, .a = s, .b = s), .b = s));
	rig_run(r);
	sign = r->out[0].data;
	abs_ = r->out[1].data;
	relu = r->out[2].data;
	twice = r->out[3].data;
	for (i = 0; i < 7; i++) {
		CHECK_EQ(sign[i], x[i] != 0);
		CHECK_EQ(abs_[i], x[i]);
		CHECK_EQ(relu[i], x[i]);
		CHECK_EQ(twice[i], x[i] ? 2 : 0);
	}
}

/* Nothing left of a whole multiple: 0 with the sign of b, by fmod with that of a. */
EVERYWHERE(remainders_of_0)
{
	const float a[6] = { 4, -4, 4, -4, 0.0f, -0.0f }, b[6] = { 2, 2, -2, -2, -3, 3 };
	enum rlx_dtype dt[2] = { RLX_F32, RLX_F64 };
	unsigned int k, i;

	for (k = 0; k < 2; k++) {
		rlx_value v = rig_input(r, rlx_type(RLX_F32, 6), a), w;

		v = rlx_emit(r->g, cast, .x = v, .to = dt[k]);
		w = rlx_emit(r->g, cast, .x = rig_input(r, rlx_type(RLX_F32, 6), b), .to = dt[k]);
		rig_output(r, rlx_emit(r->g, mod, .a = v, .b = w));
		rig_output(r, rlx_emit(r->g, fmod, .a = v, .b = w));
	}
	rig_run(r);
	for (k = 0; k < 4; k++)
		for (i = 0; i < 6; i++) {
			double got = rig_get(r, k, i), by = (double)(k & 1 ? a[i] : b[i]);

			CHECKF(got == 0 && !signbit(got) == !signbit(by),
			       "%s: %u: %g by %g leaves %g", r->device ? r->device : "eval", k,
			       (double)a[i], (double)b[i], got);
		}
}

/* Inputs that output @o of an axis twice as fine reads, by half positions. */
static bool reads(int64_t o, int64_t at)
{
	int64_t base = (o + 1) / 2 - 1;

	return at == (base > 0 ? base : 0) || at == base + 1;
}

static void resized_nan(struct rig *r, enum rlx_dtype dt, float odd)
{
	enum { H = 4, W = 20, OH = 2 * H - 1, OW = 2 * W - 1 };
	float x[H * W];
	int64_t i, h, w;
	rlx_value v;

	for (i = 0; i < H * W; i++)
		x[i] = (float)(i / W * 4 + i % W);
	x[1 * W + 5] = odd;
	v = rig_input(r, rlx_type(RLX_F32, 1, 1, H, W), x);
	v = rlx_emit(r->g, cast, .x = v, .to = dt);
	rig_output(r, rlx_emit(r->g, resize, .x = v, .sizes = RLX_INTS(1, 1, OH, OW),
			       .mode = RLX_RESIZE_LINEAR, .coord = RLX_COORD_ALIGN_CORNERS));
	rig_run(r);
	for (h = 0; h < OH; h++)
		for (w = 0; w < OW; w++) {
			if (!reads(h, 1) || !reads(w, 5))
				rig_want(r, 0, h * OW + w, (double)h * 2 + (double)w / 2, 1e-6);
			else	/* an infinity weighs 0 two rows, or columns, on */
				rig_want(r, 0, h * OW + w, h == 4 || w == 12 ? NAN : odd, 0);
		}
	rig_reset(r);
}

/* As ONNX Runtime and numpy have it: 0 times NaN is NaN, whatever the device. */
EVERYWHERE(resize_spreads_nan_by_weights_of_0)
{
	resized_nan(r, RLX_F32, NAN);
	resized_nan(r, RLX_F32, INFINITY);
	resized_nan(r, RLX_F64, NAN);
	resized_nan(r, RLX_F16, NAN);
}

/* A crop to all of an axis, as long as it was, weighs nothing along it: see roi of channels. */
EVERYWHERE(resize_by_a_crop_keeps_nan_in_its_channel)
{
	enum { C = 3, H = 3, W = 5, OH = 4, OW = 7, MODES = 3 };
	const struct rlx_floats roi = RLX_FLOATS(0, 0, 0.1, 0, 1, 1, 0.8, 0.9);
	static const enum rlx_dtype dt[] = { RLX_F32, RLX_F64, RLX_F16 };
	float x[2 * C * H * W];
	unsigned int k, odd;
	int64_t i;

	for (k = 0; k < MODES * 3; k++) {
		odd = (unsigned int)rlx_test_rand(&r->seed) % (2 * C);
		for (i = 0; i < 2 * C * H * W; i++)
			x[i] = i / (H * W) == odd ? NAN : (float)(i / (H * W));
		rig_output(r, rlx_emit(r->g, resize, .x = rlx_emit(r->g, cast,
					.x = rig_input(r, rlx_type(RLX_F32, 2, C, H, W), x),
					.to = dt[k / MODES]),
				       .sizes = RLX_INTS(2, C, OH, OW), .mode = (int32_t)k % MODES,
				       .coord = RLX_COORD_TF_CROP_AND_RESIZE, .roi = roi));
		rig_run(r);
		for (i = 0; i < 2 * C * OH * OW; i++)
			rig_want(r, 0, i, i / (OH * OW) == odd ? NAN : (double)(i / (OH * OW)),
				 1e-6);
		rig_reset(r);
	}
}

/* Taps that are clamped to one element weigh together: none is 0 times what is infinite there. */
EVERYWHERE(resize_of_an_infinite_edge)
{
	static const enum rlx_dtype dt[] = { RLX_F32, RLX_F64, RLX_F16 };
	float x[5] = { INFINITY, 1, 2, 3, -INFINITY };
	unsigned int k;

	for (k = 0; k < 6; k++) {
		rig_output(r, rlx_emit(r->g, resize, .x = rlx_emit(r->g, cast,
					.x = rig_input(r, rlx_type(RLX_F32, 5), x),
					.to = dt[k / 2]),
				       .sizes = RLX_INTS(9), .coord = RLX_COORD_ALIGN_CORNERS,
				       .mode = k % 2 ? RLX_RESIZE_CUBIC : RLX_RESIZE_LINEAR));
		rig_run(r);
		rig_want(r, 0, 0, INFINITY, 0);
		rig_want(r, 0, 8, -INFINITY, 0);
		if (k % 2 == 0)
			rig_want(r, 0, 4, 2, 1e-6);
		rig_reset(r);
	}
}

/* All that lies beyond an edge is the edge, as large as it may be. */
EVERYWHERE(resize_keeps_what_lies_at_an_edge)
{
	enum { N = 64, OUT = 5 };
	float x[N];
	int64_t i;

	for (i = 0; i < N; i++)
		x[i] = 0.1f;
	rig_output(r, rlx_emit(r->g, resize, .x = rig_input(r, rlx_type(RLX_F32, 1, 1, 1, N), x),
			       .sizes = RLX_INTS(1, 1, 1, OUT), .mode = RLX_RESIZE_LINEAR,
			       .antialias = true));
	x[0] = INFINITY;
	rig_output(r, rlx_emit(r->g, resize, .x = rig_input(r, rlx_type(RLX_F32, 1, 1, 1, N), x),
			       .sizes = RLX_INTS(1, 1, 1, N + 64), .mode = RLX_RESIZE_LINEAR));
	rig_run(r);
	for (i = 0; i < OUT; i++)
		rig_want(r, 0, i, (double)0.1f, 1e-6);
	rig_want(r, 1, 0, INFINITY, 0);
}

/* What is left of 1 + e^x is e^x, however small that is. */
EVERYWHERE(softplus_far_below_0)
{
	const float x[4] = { -12, -20, -40, -80 };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 4), x);
	unsigned int k;
	int64_t i;

	rig_output(r, rlx_emit(r->g, softplus, .x = v));
	rig_output(r, rlx_emit(r->g, mish, .x = v));
	rig_run(r);
	for (i = 0; i < 4; i++)
		for (k = 0; k < 2; k++) {
			double by = (double)x[i], p = log1p(exp(by)), want = k ? by * tanh(p) : p;

			CHECKF(fabs(rig_get(r, k, i) / want - 1) < 4e-6,
			       "%s: %u of %g is %g, not %g", r->device ? r->device : "eval", k,
			       by, rig_get(r, k, i), want);
		}
}

/* The nearest float of 64 bits, not that of the nearest double. */
EVERYWHERE(integers_are_rounded_once)
{
	/* just above the middle of two floats, by less than a double has */
	const uint64_t u[4] = { (1ull << 63) + (1ull << 39) + 1, (3ull << 62) + (1ull << 39) + 1,
				(1ull << 63) + (3ull << 39) - 1, UINT64_MAX };
	const int64_t s[4] = { (1ll << 62) + (1ll << 38) + 1, -((1ll << 62) + (1ll << 38) + 1),
			       (1ll << 62) + (3ll << 38) - 1, INT64_MIN };
	const uint64_t half[1] = { (1ull << 55) + (1ull << 47) + 1 };
	rlx_value v = rig_input(r, rlx_type(RLX_U64, 4), u);
	int64_t i;

	rig_output(r, rlx_emit(r->g, cast, .x = v, .to = RLX_F32));
	v = rig_input(r, rlx_type(RLX_I64, 4), s);
	rig_output(r, rlx_emit(r->g, cast, .x = v, .to = RLX_F32));
	v = rig_input(r, rlx_type(RLX_U64, 1), half);
	rig_output(r, rlx_emit(r->g, cast, .x = v, .to = RLX_BF16));
	rig_run(r);
	for (i = 0; i < 4; i++) {
		rig_want(r, 0, i, (double)(float)u[i], 0);
		rig_want(r, 1, i, (double)(float)s[i], 0);
	}
	rig_want(r, 0, 0, 0x1.000002p63, 0);
	rig_want(r, 1, 1, -0x1.000002p62, 0);
	rig_want(r, 2, 0, 0x1.02p55, 0);
}

/* No index refers to an expert where there is none; for an empty result none is looked at. */
EVERYWHERE(grouped_matmul_of_no_expert)
{
	const int32_t idx[3] = { 0, -1, 0 };
	const float x[6] = { 1, 2, 3, 4, 5, 6 };
	int64_t n;

	for (n = 5; n >= 0; n -= 5) {
		rlx_value rows = rig_input(r, rlx_type(RLX_F32, 3, 2), x);

		rig_output(r, rlx_emit(r->g, grouped_matmul, .x = rows,
				       .w = rig_input(r, rlx_type(RLX_F32, 0, 2, n), NULL),
				       .idx = rig_input(r, rlx_type(RLX_I32, 3), idx)));
		CHECKF(rig_try(r) == (n ? RLX_ERANGE : RLX_OK), "%s",
		       r->device ? r->device : "eval");
		rig_reset(r);
	}
}

/* The same of blocks; and an index that refers to none of those there are. */
EVERYWHERE(packed_experts_that_are_not)
{
	static const uint8_t w[2][3][34];
	static const float x[64];
	int64_t n, e;

	for (n = 3; n >= 0; n -= 3)
		for (e = 0; e <= 2; e += 2) {
			const int32_t idx[2] = { 0, e ? 2 : 0 };
			rlx_value rows = rig_input(r, rlx_type(RLX_F32, 2, 32), x);

			rig_output(r, rlx_emit(r->g, dequant_grouped_matmul, .x = rows,
				.w = rig_input(r, rlx_type(RLX_U8, e, n, 34), w),
				.idx = rig_input(r, rlx_type(RLX_I32, 2), idx),
				.scheme = RLX_SCHEME_Q8_0));
			CHECKF(rig_try(r) == (n ? RLX_ERANGE : RLX_OK), "%s: %d experts",
			       r->device ? r->device : "eval", (int)e);
			rig_reset(r);
		}
}

TEST_MAIN()
