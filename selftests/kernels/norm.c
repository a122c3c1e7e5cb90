// SPDX-License-Identifier: MIT
/* Norms and softmax against double, at every level, over random shapes. */
#include "kernels/norm.h"
#include "kernels/softmax.h"
#include "selftests/kernels/kcheck.h"

/* A buffer of n values, f32 or bf16, and the same values as doubles. */
struct vals {
	struct kc_buf	b;
	double		*d;
};

static struct vals vals_new(int64_t n, int type, double lo, double hi,
			    uint64_t *seed)
{
	size_t size = type == RLX_BF16 ? 2 : 4;
	struct vals v = { kc_buf_new((size_t)n * size, size),
			  malloc((size_t)n * sizeof(double) + 1) };

	for (int64_t i = 0; i < n; i++) {
		float f = (float)rlx_test_uniform(seed, lo, hi);

		if (type == RLX_BF16) {
			uint16_t h = kc_to_bf16(f);

			((uint16_t *)v.b.p)[i] = h;
			f = kc_from_bf16(h);
		} else {
			((float *)v.b.p)[i] = f;
		}
		v.d[i] = f;
	}
	return v;
}

static void vals_free(struct vals *v)
{
	kc_buf_free(&v->b);
	free(v->d);
}

static double at(const struct vals *v, int type, int64_t i)
{
	return type == RLX_BF16 ? kc_from_bf16(((uint16_t *)v->b.p)[i])
				  : ((float *)v->b.p)[i];
}

static void near(double got, double want, double tol, const char *what)
{
	CHECKF(fabs(got - want) <= tol * (1 + fabs(want)), "%s: %.9g, not %.9g",
	       what, got, want);
}

static void one_norm(const struct rlx_kernels *k, uint64_t *seed)
{
	int64_t rows = kc_pick(seed, 1, 7), n = kc_pick(seed, 1, 800);
	int type = kc_pick(seed, 0, 2) ? RLX_F32 : RLX_BF16;
	double tol = type == RLX_F32 ? 2e-5 : 1e-2;
	bool rms = kc_pick(seed, 0, 1), one_res = kc_pick(seed, 0, 1);
	struct vals x, res, bias, g, b, y, sum;
	struct rlx_k_norm a = { .rows = rows, .n = n, .eps = 1e-5f, .rms = rms,
				.x_type = (uint8_t)type,
				.residual_type = (uint8_t)type,
				.param_type = (uint8_t)type,
				.y_type = (uint8_t)type };
	float mean[7], inv[7];

	if (kc_pick(seed, 0, 2) == 0)
		n = a.n = n / 16 * 16 + 16;
	x = vals_new(rows * n, type, -3, 5, seed);
	res = vals_new(rows * n, type, -1, 1, seed);
	bias = vals_new(n, type, -1, 1, seed);
	g = vals_new(n, type, -1, 2, seed);
	b = vals_new(n, type, -1, 1, seed);
	y = vals_new(rows * n, type, 0, 0, seed);
	sum = vals_new(rows * n, type, 0, 0, seed);
	a.x = x.b.p;
	a.y = kc_pick(seed, 0, 1) ? y.b.p : x.b.p;
	a.residual = kc_pick(seed, 0, 1) ? res.b.p : NULL;
	a.residual_stride = one_res ? 0 : n;
	a.bias = kc_pick(seed, 0, 1) ? bias.b.p : NULL;
	a.gamma = kc_pick(seed, 0, 3) ? g.b.p : NULL;
	a.beta = kc_pick(seed, 0, 3) ? b.b.p : NULL;
	a.sum = kc_pick(seed, 0, 1) ? sum.b.p : NULL;
	a.mean = kc_pick(seed, 0, 1) ? mean : NULL;
	a.inv = kc_pick(seed, 0, 1) ? inv : NULL;
	kc_run(k->norm, &a, (size_t)rows, rlx_k_norm_scratch(&a), seed);
	for (int64_t r = 0; r < rows; r++) {
		double m = 0, v = 0, *row = x.d + r * n;

		for (int64_t i = 0; i < n; i++) {
			if (a.residual)
				row[i] += res.d[one_res ? i : r * n + i];
			if (a.bias)
				row[i] += bias.d[i];
			if (a.sum)
				near(at(&sum, type, r * n + i), row[i], tol,
				     "sum");
			m += rms ? 0 : row[i] / (double)n;
		}
		for (int64_t i = 0; i < n; i++)
			v += (row[i] - m) * (row[i] - m) / (double)n;
		v = 1 / sqrt(v + (double)a.eps);
		if (a.mean)
			near(mean[r], m, 1e-5, "mean");
		if (a.inv)
			near(inv[r], v, 1e-5, "1 / std");
		for (int64_t i = 0; i < n; i++) {
			double w = (row[i] - m) * v;

			w = w * (a.gamma ? g.d[i] : 1) +
			    (a.beta ? b.d[i] : 0);
			near(at(a.y == x.b.p ? &x : &y, type, r * n + i), w,
			     tol, rms ? "rms" : "layer");
		}
	}
	vals_free(&x);
	vals_free(&res);
	vals_free(&bias);
	vals_free(&g);
	vals_free(&b);
	vals_free(&y);
	vals_free(&sum);
}

TEST(layer_and_rms_norm)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 200; t++)
			one_norm(rlx_kernels_get((enum rlx_isa)l), &seed);
}

/* dx of row @r in doubles, for x, dy and gamma in @in; adds to sums of dgamma and dbeta. */
static void want_row_grad(const struct rlx_k_norm_grad *a, const double *in[3], int64_t r,
			  double *dx, double *sums)
{
	const double *x = in[0] + r * a->n, *dy = in[1] + r * a->n, *gamma = in[2];
	double mean = a->rms ? 0 : (double)a->mean[r], inv = 0, d = 0, along = 0;
	int64_t n = a->n, i;

	for (i = 0; i < n; i++)
		inv += x[i] * x[i] / (double)n;
	inv = a->rms ? 1 / sqrt(inv + (double)a->eps) : (double)a->inv[r];
	for (i = 0; i < n; i++) {
		double xh = (x[i] - mean) * inv, v = dy[i] * (gamma ? gamma[i] : 1);

		sums[i] += dy[i] * xh;
		sums[n + i] += dy[i];
		d += a->rms ? 0 : v / (double)n;
		along += v * xh / (double)n;
	}
	for (i = 0; i < n; i++)
		dx[i] = inv * (dy[i] * (gamma ? gamma[i] : 1) - d - (x[i] - mean) * inv * along);
}

static void one_norm_grad(const struct rlx_kernels *k, uint64_t *seed)
{
	int64_t rows = kc_pick(seed, 1, 7) * kc_pick(seed, 1, 30), n = kc_pick(seed, 1, 800), r, i;
	int type = kc_pick(seed, 0, 2) ? RLX_F32 : RLX_BF16;
	double tol = type == RLX_F32 ? 2e-5 : 1e-2, *dx, *sums;
	struct rlx_k_norm_grad a = { .rows = rows, .n = n, .eps = 1e-5f, .rms = kc_pick(seed, 0, 1),
				     .x_type = (uint8_t)type, .dy_type = (uint8_t)type,
				     .param_type = (uint8_t)type,
				     .block = kc_pick(seed, 0, 1) ? kc_pick(seed, 1, rows) :
					      rlx_k_norm_grad_block(rows, n) };
	struct vals x = vals_new(rows * n, type, -3, 5, seed);
	struct vals dy = vals_new(rows * n, type, -1, 1, seed), g = vals_new(n, type, -1, 2, seed);
	struct vals mean = vals_new(rows, RLX_F32, -1, 2, seed);
	struct vals inv = vals_new(rows, RLX_F32, 0.5, 2, seed);
	struct vals to = vals_new(rows * n, type, 7, 7, seed);
	struct vals dg = vals_new(n, RLX_F32, 7, 7, seed), db = vals_new(n, RLX_F32, 7, 7, seed);
	struct vals part;

	a.x = x.b.p;
	a.dy = dy.b.p;
	a.gamma = kc_pick(seed, 0, 3) ? g.b.p : NULL;
	a.mean = a.rms ? NULL : mean.b.p;
	a.inv = a.rms ? NULL : inv.b.p;
	a.dx = to.b.p;
	a.dgamma = kc_pick(seed, 0, 3) ? dg.b.p : NULL;
	a.dbeta = kc_pick(seed, 0, 3) ? db.b.p : NULL;
	part = vals_new((int64_t)rlx_k_norm_grad_units(&a) * 2 * n, RLX_F32, 7, 7, seed);
	a.partial = part.b.p;
	kc_run(k->norm_grad, &a, rlx_k_norm_grad_units(&a), rlx_k_norm_grad_scratch(&a), seed);
	kc_run(k->norm_grad_sums, &a, rlx_k_norm_grad_sum_units(&a), 0, seed);
	dx = malloc((size_t)n * sizeof(*dx));
	sums = calloc(2 * (size_t)n, sizeof(*sums));
	for (r = 0; r < rows; r++) {
		want_row_grad(&a, (const double *[]){ x.d, dy.d, a.gamma ? g.d : NULL }, r, dx,
			      sums);
		for (i = 0; i < n; i++)
			near(at(&to, type, r * n + i), dx[i], tol, "dx");
	}
	for (i = 0; i < n; i++) {
		near(at(&dg, RLX_F32, i), a.dgamma ? sums[i] : 7, 2e-5 * sqrt((double)rows),
		     "dgamma");
		near(at(&db, RLX_F32, i), a.dbeta ? sums[n + i] : 7, 2e-5 * sqrt((double)rows),
		     "dbeta");
	}
	free(dx);
	free(sums);
	for (i = 0; i < 9; i++)
		vals_free((struct vals *[]){ &x, &dy, &g, &mean, &inv, &to, &dg, &db, &part }[i]);
}

TEST(gradients_of_norms)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 100; t++)
			one_norm_grad(rlx_kernels_get((enum rlx_isa)l), &seed);
}

static void one_group(const struct rlx_kernels *k, uint64_t *seed)
{
	int64_t groups = kc_pick(seed, 1, 4), per = kc_pick(seed, 1, 5);
	int64_t batch = kc_pick(seed, 1, 3), inner = kc_pick(seed, 1, 700);
	int64_t c = groups * per, n = batch * c * inner, m = per * inner;
	struct vals x = vals_new(n, RLX_F32, -2, 4, seed);
	struct vals y = vals_new(n, RLX_F32, 0, 0, seed);
	struct vals g = vals_new(c, RLX_F32, -1, 2, seed);
	struct vals b = vals_new(c, RLX_F32, -1, 2, seed);
	struct vals mean = vals_new(c, RLX_F32, -1, 2, seed);
	struct vals var = vals_new(c, RLX_F32, 0.1, 2, seed);
	struct rlx_k_group_norm a = { x.b.p, y.b.p, g.b.p, b.b.p, batch, c,
				      inner, groups, 1e-3f };
	struct rlx_k_channel_norm ca = { x.b.p, y.b.p, g.b.p, b.b.p, mean.b.p,
					 var.b.p, batch, c, inner, 1e-3f };

	kc_run(k->group_norm, &a, (size_t)(batch * groups), 0, seed);
	for (int64_t u = 0; u < batch * groups; u++) {
		double mu = 0, v = 0;

		for (int64_t i = 0; i < m; i++)
			mu += x.d[u * m + i] / (double)m;
		for (int64_t i = 0; i < m; i++)
			v += pow(x.d[u * m + i] - mu, 2) / (double)m;
		for (int64_t i = 0; i < m; i++) {
			int64_t ch = u % groups * per + i / inner;

			near(at(&y, RLX_F32, u * m + i),
			     (x.d[u * m + i] - mu) / sqrt(v + 1e-3) * g.d[ch] +
			     b.d[ch], 2e-5, "group norm");
		}
	}
	kc_run(k->channel_norm, &ca, (size_t)(batch * c), 0, seed);
	for (int64_t i = 0; i < n; i++) {
		int64_t ch = i / inner % c;

		near(at(&y, RLX_F32, i),
		     (x.d[i] - mean.d[ch]) / sqrt(var.d[ch] + 1e-3) * g.d[ch] +
		     b.d[ch], 2e-5, "batch norm");
	}
	vals_free(&x);
	vals_free(&y);
	vals_free(&g);
	vals_free(&b);
	vals_free(&mean);
	vals_free(&var);
}

/*
 * Rows far from 0, whose elements differ by little more than a float of their size can tell:
 * what their mean has beyond a float counts, too.
 */
static void far_norm(const struct rlx_kernels *k, uint64_t *seed)
{
	enum { ROWS = 200, MOST = 40 };
	int64_t n = kc_pick(seed, 2, MOST), r, i;
	struct vals x = vals_new(ROWS * n, RLX_F32, 200, 256, seed);
	struct vals y = vals_new(ROWS * n, RLX_F32, 0, 0, seed);
	struct rlx_k_norm a = { .x = x.b.p, .y = y.b.p, .rows = ROWS, .n = n, .eps = 1e-3f,
				.x_type = RLX_F32, .residual_type = RLX_F32,
				.param_type = RLX_F32, .y_type = RLX_F32 };

	for (i = 0; i < ROWS * n; i++)
		x.d[i] = ((float *)x.b.p)[i] = (float)x.d[i / n * n] +
			 (float)(i % n ? rlx_test_uniform(seed, -0.3, 0.3) : 0);
	kc_run(k->norm, &a, ROWS, rlx_k_norm_scratch(&a), seed);
	for (r = 0; r < ROWS; r++) {
		double m = 0, v = 0;

		for (i = 0; i < n; i++)
			m += x.d[r * n + i] / (double)n;
		for (i = 0; i < n; i++)
			v += pow(x.d[r * n + i] - m, 2) / (double)n;
		for (i = 0; i < n; i++)
			near(at(&y, RLX_F32, r * n + i), (x.d[r * n + i] - m) / sqrt(v + 1e-3), 1e-6,
			     "far row");
	}
	vals_free(&x);
	vals_free(&y);
}

TEST(rows_far_from_zero)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 20; t++)
			far_norm(rlx_kernels_get((enum rlx_isa)l), &seed);
}

TEST(group_and_batch_norm)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 60; t++)
			one_group(rlx_kernels_get((enum rlx_isa)l), &seed);
}

TEST(lrn_windows)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 30; t++) {
			int64_t c = kc_pick(&seed, 1, 9);
			int64_t inner = kc_pick(&seed, 1, 600);
			int64_t n = 2 * c * inner;
			struct vals x = vals_new(n, RLX_F32, -2, 2, &seed);
			struct vals y = vals_new(n, RLX_F32, 0, 0, &seed);
			struct rlx_k_lrn a = { x.b.p, y.b.p, 2, c, inner,
				kc_pick(&seed, 1, 6), 0.2f, 0.75f, 1.5f };

			kc_run(rlx_kernels_get((enum rlx_isa)l)->lrn, &a,
			       rlx_k_lrn_units(&a), RLX_K_LRN_BLOCK * 4, &seed);
			for (int64_t i = 0; i < n; i++) {
				int64_t ch = i / inner % c;
				double s = 0;

				for (int64_t k = ch - (a.size - 1) / 2;
				     k <= ch + a.size / 2; k++)
					if (k >= 0 && k < c)
						s += pow(x.d[i + (k - ch) *
							     inner], 2);
				near(at(&y, RLX_F32, i), x.d[i] /
				     pow(1.5 + (double)0.2f / (double)a.size *
					 s, 0.75), 1e-5, "lrn");
			}
			vals_free(&x);
			vals_free(&y);
		}
}

static void one_softmax(const struct rlx_kernels *k, uint64_t *seed)
{
	int64_t outer = kc_pick(seed, 1, 5), n = kc_pick(seed, 1, 300);
	int64_t inner = kc_pick(seed, 0, 1) ? 1 : kc_pick(seed, 2, 150);
	int type = kc_pick(seed, 0, 2) ? RLX_F32 : RLX_BF16;
	double tol = type == RLX_F32 ? 1e-5 : 1e-2;
	struct vals x = vals_new(outer * n * inner, type, -40, 90, seed);
	struct vals y = vals_new(outer * n * inner, type, 0, 0, seed);
	struct rlx_k_softmax a = { x.b.p, y.b.p, outer, n, inner, (uint8_t)type,
				   (uint8_t)type, kc_pick(seed, 0, 1) };

	if (kc_pick(seed, 0, 3) == 0)
		a.y = x.b.p;
	kc_run(k->softmax, &a, rlx_k_softmax_units(&a),
	       rlx_k_softmax_scratch(&a), seed);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < inner; i++) {
			double *p = x.d + o * n * inner + i, m = -1e9, s = 0;

			for (int64_t j = 0; j < n; j++)
				m = fmax(m, p[j * inner]);
			for (int64_t j = 0; j < n; j++)
				s += exp(p[j * inner] - m);
			for (int64_t j = 0; j < n; j++) {
				double w = p[j * inner] - m;

				near(at(a.y == x.b.p ? &x : &y, type,
					(o * n + j) * inner + i),
				     a.log ? w - log(s) : exp(w) / s, tol,
				     "softmax");
			}
		}
	vals_free(&x);
	vals_free(&y);
}

TEST(softmax_of_any_axis)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 150; t++)
			one_softmax(rlx_kernels_get((enum rlx_isa)l), &seed);
}

TEST(softmax_keeps_nan_and_masks)
{
	for (int l = 0; l < kc_levels(); l++) {
		float x[3][37], y[3][37], scratch[128];
		struct rlx_k_softmax a = { x, y, 3, 37, 1, RLX_F32,
					   RLX_F32, false };

		for (int i = 0; i < 37; i++) {
			x[0][i] = i == 20 ? NAN : 1;
			x[1][i] = i < 5 ? 2 : -INFINITY;
			x[2][i] = -INFINITY;
		}
		rlx_kernels_get((enum rlx_isa)l)->softmax(&a, 0, 3, scratch);
		for (int i = 0; i < 37; i++) {
			CHECK(y[0][i] != y[0][i]);
			near(y[1][i], i < 5 ? 0.2 : 0, 1e-6, "masked");
			CHECK(y[2][i] != y[2][i]);
		}
	}
}

/* A million terms in the sum: its error is that of each element. */
TEST(softmax_of_long_lines)
{
	enum { N = 1 << 20 };
	float *x = malloc(sizeof(*x) * N), *y = malloc(sizeof(*y) * N * 2);
	uint64_t seed = rlx_test_seed();
	double sum = 0;

	CHECK(x && y);
	kc_fill(x, N, -1, 1, &seed);
	for (int i = 0; i < N; i++)
		sum += exp((double)x[i]);
	for (int i = 0; i < N; i++)
		y[2 * i] = y[2 * i + 1] = x[i];
	for (int l = 0; l < kc_levels(); l++)
		for (int inner = 1; inner <= 2; inner++) {
			float *to = inner == 1 ? malloc(sizeof(*to) * N) : y;
			struct rlx_k_softmax a = { inner == 1 ? x : y, to, 1, N, inner,
						   RLX_F32, RLX_F32, false };

			CHECK(to);
			for (int i = 0; inner == 2 && i < 2 * N; i++)
				y[i] = x[i / 2];
			kc_run(rlx_kernels_get((enum rlx_isa)l)->softmax, &a,
			       rlx_k_softmax_units(&a), rlx_k_softmax_scratch(&a), &seed);
			for (int i = 0; i < N; i++) {
				double err = (double)to[i * inner] / (exp((double)x[i]) / sum);

				CHECKF(fabs(err - 1) < 1e-6, "level %d, %d columns: [%d] off by %g",
				       l, inner, i, err - 1);
			}
			if (inner == 1)
				free(to);
		}
	free(x);
	free(y);
}

TEST_MAIN()
