// SPDX-License-Identifier: MIT
/* Pooling kernels at every ISA level against a plain double reference. */
#include <float.h>
#include <limits.h>

#include "kernels/conv.h"
#include "kernels/pool_layout.h"
#include "rlx/dtype.h"
#include "selftests/kernels/kernel_test.h"

static size_t volume(const size_t d[3])
{
	return d[0] * d[1] * d[2];
}

/* One window of plane @x; *@where counts the plane's elements. */
static double window(const struct rlx_k_pool *a, const float *x,
		     const size_t o[3], int64_t *where)
{
	double acc = a->kind == RLX_K_POOL_MAX ? -INFINITY : 0;
	size_t k[3], v[3], counted = 0, seen = 0;

	*where = -1;
	for (k[0] = 0; k[0] < a->k[0]; k[0]++)
		for (k[1] = 0; k[1] < a->k[1]; k[1]++)
			for (k[2] = 0; k[2] < a->k[2]; k[2]++) {
				bool in = true, near = true;
				double e;

				for (int j = 0; j < 3; j++) {
					v[j] = o[j] * a->s[j] +
					       k[j] * a->d[j] - a->p[j];
					if (v[j] >= a->in[j])
						in = false;
					if ((ptrdiff_t)v[j] >= (ptrdiff_t)
					    (a->in[j] + a->p_end[j]))
						near = false;
				}
				counted += near;
				if (!in)
					continue;
				seen++;
				e = x[(v[0] * a->in[1] + v[1]) * a->in[2] +
				      v[2]];
				if (a->kind == RLX_K_POOL_AVG) {
					acc += e;
				} else if (a->kind == RLX_K_POOL_LP) {
					acc += pow(fabs(e), a->lp);
				} else if (*where < 0 ||
					   (acc == acc &&
					    (e > acc || e != e))) {
					acc = e;
					*where = (int64_t)(a->column_major ?
	(v[2] * a->in[1] + v[1]) * a->in[0] + v[0] :
	(v[0] * a->in[1] + v[1]) * a->in[2] + v[2]);
				}
			}
	if (a->kind == RLX_K_POOL_AVG && !a->include_pad)
		counted = seen;
	if (a->kind == RLX_K_POOL_AVG)
		return counted ? acc / (double)counted : 0;
	return a->kind == RLX_K_POOL_LP ? pow(acc, 1.0 / a->lp) : acc;
}

/* Less than the window, or now and then so much that windows lie in padding alone. */
static size_t padding_random(size_t k, uint64_t *s)
{
	return kt_pick(s, 0, kt_pick(s, 0, 3) ? k - 1 : 3 * k + 8);
}

static void shape_random(struct rlx_k_pool *a, size_t dims, uint64_t *s)
{
	size_t j;

	*a = (struct rlx_k_pool){
		.planes = kt_pick(s, 1, 6), .kind = kt_pick(s, 0, 2),
		.lp = (unsigned int)kt_pick(s, 1, 3),
		.include_pad = kt_pick(s, 0, 1),
		.column_major = kt_pick(s, 0, 1),
	};
	for (j = 0; j < 3; j++) {
		bool used = j + dims >= 3;
		size_t span, full;

		do {
			a->in[j] = used ? kt_pick(s, 1, dims > 2 ? 9 : dims > 1 ? 40 : 300) : 1;
			a->k[j] = used ? kt_pick(s, 1, dims > 1 ? 5 : 30) : 1;
			a->s[j] = used ? kt_pick(s, 1, 3) : 1;
			a->d[j] = used ? kt_pick(s, 1, 2) : 1;
			a->p[j] = used ? padding_random(a->k[j], s) : 0;
			a->p_end[j] = used ? padding_random(a->k[j], s) : 0;
			span = (a->k[j] - 1) * a->d[j] + 1;
			full = a->in[j] + a->p[j] + a->p_end[j];
		} while (full < span);
		full -= span;
		/* rounded up as ceil_mode does, or down */
		if (kt_pick(s, 0, 1))
			full += a->s[j] - 1;
		a->out[j] = full / a->s[j] + 1;
	}
}

static void check(const struct rlx_k_pool *a, const float *x, const float *y,
		  const int64_t *index, const char *what)
{
	size_t p, o[3], at = 0;
	int64_t where;

	for (p = 0; p < a->planes; p++)
		for (o[0] = 0; o[0] < a->out[0]; o[0]++)
			for (o[1] = 0; o[1] < a->out[1]; o[1]++)
				for (o[2] = 0; o[2] < a->out[2]; o[2]++, at++) {
					double v = window(a, x + p *
							  volume(a->in), o,
							  &where);

					if (where >= 0)
						where += (int64_t)
							 (p * volume(a->in));
					CHECKF(v == y[at] || (v != v &&
					       y[at] != y[at]) ||
					       fabs(v - y[at]) <=
					       4e-6 * (1 + fabs(v)),
					       "%s kind %d [%zu]: %g, not %g",
					       what, a->kind, at, y[at], v);
					if (index)
						CHECK_EQ(index[at], where);
				}
}

TEST(pool_f32)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 300; i++) {
		struct rlx_k_pool a;
		size_t nx, ny, j;
		float *x;

		shape_random(&a, kt_pick(&seed, 1, 3), &seed);
		if (i % 8 == 0) {	/* flat, and now and then the depth is padding alone */
			a.in[0] = a.k[0] = a.out[0] = 1;
			a.p[0] = kt_pick(&seed, 0, 2);
		}
		nx = a.planes * volume(a.in);
		ny = a.planes * volume(a.out);
		x = kt_new(nx * 4);
		kt_fill(x, nx, &seed);
		for (j = 0; j < nx; j++) {	/* ties, and now and then a NaN */
			if (i % 2)
				x[j] = roundf(x[j] * 3);
			if (i % 3 == 0 && kt_pick(&seed, 0, 30) == 0)
				x[j] = NAN;
			if (i % 7 == 0 && kt_pick(&seed, 0, 4))
				x[j] = -INFINITY;
		}
		a.x = x;
		for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++) {
			if (!kt_isa_runs(isa))
				continue;
			a.y = kt_new(ny * 4);
			a.index = a.kind == RLX_K_POOL_MAX && i % 4 < 2 ?
				  kt_new(ny * 8) : NULL;
			kt_run(rlx_kernels_get(isa)->pool_f32, &a,
			       a.planes * a.out[0] * a.out[1],
			       rlx_k_pool_scratch(&a, 4, a.index), &seed);
			check(&a, x, a.y, a.index, "pool_f32");
			kt_free(a.y, ny * 4);
			if (a.index)
				kt_free(a.index, ny * 8);
		}
		kt_free(x, nx * 4);
	}
}

/* Of @n numbers, by the largest magnitude. */
static double norm_of(const double *x, size_t n, unsigned int lp)
{
	double top = 0, sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		top = fabs(x[i]) > top || x[i] != x[i] ? fabs(x[i]) : top;
	if (!(top > 0) || isinf(top))
		return top;
	for (i = 0; i < n; i++)
		sum += pow(fabs(x[i]) / top, lp);
	return top * pow(sum, 1.0 / lp);
}

static void norms_check(enum rlx_isa isa, const struct rlx_k_pool *shape, const double *x,
			bool f64, uint64_t *seed)
{
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	const size_t elem = f64 ? 8 : 4, nx = volume(shape->in), ny = shape->out[2];
	struct rlx_k_pool a = *shape;
	double *wide = kt_new(nx * 8);
	float *narrow = kt_new(nx * 4);
	size_t i;

	memcpy(wide, x, nx * 8);
	for (i = 0; i < nx; i++)
		narrow[i] = (float)x[i];
	a.x = f64 ? (const float *)wide : narrow;
	a.y = kt_new(ny * elem);
	kt_run(f64 ? k->pool_f64 : k->pool_f32, &a, 1, rlx_k_pool_scratch(&a, elem, false), seed);
	for (i = 0; i < ny; i++) {
		double got = f64 ? ((const double *)a.y)[i] : (double)a.y[i];
		double want = norm_of(x + i * a.s[2], a.k[2], a.lp);
		double tol = f64 ? 1e-13 * want : 2e-6 * want + 0x1p-149;

		CHECKF(got == want || (got != got && want != want) || fabs(got - want) <= tol,
		       "level %d, f64 %d, lp %u: [%zu] is %g, not %g", isa, f64, a.lp, i, got,
		       want);
	}
	kt_free(a.y, ny * elem);
	kt_free(wide, nx * 8);
	kt_free(narrow, nx * 4);
}

/* Powers that are beyond any float, or below it, where the norm is not; zeros, NaN, infinities. */
TEST(norms_of_any_range)
{
	static const unsigned int powers[] = { 1, 2, 3, 7, 35, 300, INT_MAX };
	uint64_t seed = rlx_test_seed();
	size_t i, j;

	for (i = 0; i < 280; i++) {
		const bool f64 = i % 2;
		const size_t k = kt_pick(&seed, 1, 9), s = kt_pick(&seed, 1, 3);
		const size_t n = kt_pick(&seed, 1, 80);
		struct rlx_k_pool a = {
			.planes = 1, .in = { 1, 1, (n - 1) * s + k }, .out = { 1, 1, n },
			.k = { 1, 1, k }, .s = { 1, 1, s }, .d = { 1, 1, 1 },
			.kind = RLX_K_POOL_LP, .lp = powers[i / 2 % 7],
		};
		double most = f64 ? 307 : 37, scale, *x = calloc(a.in[2], sizeof(*x));

		CHECK(x);
		scale = pow(10, rlx_test_uniform(&seed, -most, most));
		for (j = 0; j < a.in[2]; j++) {
			uint64_t pick = kt_pick(&seed, 0, 60);

			if (i % 5 == 0)
				scale = pow(10, rlx_test_uniform(&seed, -most, most));
			x[j] = rlx_test_uniform(&seed, -1, 1) * scale;
			if (pick < 12)
				x[j] = pick == 0 ? NAN : pick == 1 ? -INFINITY : 0;
			if (!f64)
				x[j] = (double)(float)x[j];
		}
		for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++)
			if (kt_isa_runs(isa))
				norms_check(isa, &a, x, f64, &seed);
		free(x);
	}
}

/* The place of element @at, counted in columns, of the whole of x. */
static int64_t plain_place(const struct rlx_k_pool *a, int64_t at)
{
	const int64_t plane = (int64_t)volume(a->in), d = (int64_t)a->in[0], h = (int64_t)a->in[1];
	int64_t in = at % plane;

	return at - in + (in % d * h + in / d % h) * (int64_t)a->in[2] + in / d / h;
}

/* Maxima of 64 bits and where they are: of whole numbers. */
static void wide_check(enum rlx_isa isa, const struct rlx_k_pool *shape, const float *x,
		       enum rlx_dtype t, uint64_t *seed)
{
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	rlx_k_fn *fn = t == RLX_F64 ? k->pool_f64 : t == RLX_I64 ? k->pool_i64 : k->pool_u64;
	const size_t nx = shape->planes * volume(shape->in);
	const size_t ny = shape->planes * volume(shape->out);
	union { double f; int64_t i; uint64_t u; } *bits = kt_new(nx * 8), *y = kt_new(ny * 8);
	float *narrow = kt_new(ny * 4);
	struct rlx_k_pool a = *shape;
	size_t i;

	/* the least there is, and far from what 32 bits tell apart: in the order of @x */
	for (i = 0; i < nx; i++)
		if (t == RLX_F64)
			bits[i].f = x[i] > 0 ? 0x1p60 + (double)x[i] * 0x1p8 : -INFINITY;
		else if (t == RLX_I64)
			bits[i].i = x[i] > 500 ? INT64_MAX - 1000 + (int64_t)x[i] :
				    INT64_MIN + (int64_t)x[i];
		else
			bits[i].u = x[i] > 500 ? UINT64_MAX - 1000 + (uint64_t)x[i] : (uint64_t)x[i];
	a.x = (const float *)bits;
	a.y = (float *)y;
	a.index = kt_new(ny * 8);
	kt_run(fn, &a, a.planes * a.out[0] * a.out[1], rlx_k_pool_scratch(&a, 8, true), seed);
	for (i = 0; i < ny; i++) {
		uint64_t none = t == RLX_F64 ? (uint64_t)0xfff << 52 :
				t == RLX_I64 ? (uint64_t)1 << 63 : 0;
		int64_t at = a.index[i];

		if (at >= 0 && a.column_major)
			at = plain_place(&a, at);
		CHECKF(y[i].u == (at < 0 ? none : bits[at].u), "type %d: [%zu] is %llx", t, i,
		       (unsigned long long)y[i].u);
		narrow[i] = at < 0 ? -INFINITY : x[at];
	}
	check(&a, x, narrow, a.index, "64 bits");
	kt_free(bits, nx * 8);
	kt_free(y, ny * 8);
	kt_free(narrow, ny * 4);
	kt_free(a.index, ny * 8);
}

TEST(places_of_maxima_of_64_bits)
{
	static const enum rlx_dtype types[] = { RLX_F64, RLX_I64, RLX_U64 };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 90; i++) {
		struct rlx_k_pool a;
		size_t nx, j;
		float *x;

		shape_random(&a, kt_pick(&seed, 1, 3), &seed);
		a.kind = RLX_K_POOL_MAX;
		nx = a.planes * volume(a.in);
		x = kt_new(nx * 4);
		for (j = 0; j < nx; j++)	/* the least of unsigned ones, too */
			x[j] = (float)kt_pick(&seed, 0, i % 2 ? 1 : 1000);
		for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++)
			if (kt_isa_runs(isa))
				wide_check(isa, &a, x, types[i % 3], &seed);
		kt_free(x, nx * 4);
	}
}

/* A sum of the largest number: by a reciprocal rounded up its mean times its taps is beyond. */
TEST(mean_of_the_largest)
{
	enum { PLANES = 20, WINDOWS = 3, MOST = 15 };
	uint64_t seed = rlx_test_seed();
	size_t h, w, i;

	for (h = 1; h <= MOST; h++)
		for (w = 1; w <= MOST; w++) {
			struct rlx_k_pool a = {
				.planes = PLANES, .in = { 1, WINDOWS * h, WINDOWS + w - 1 },
				.out = { 1, WINDOWS, WINDOWS }, .k = { 1, h, w },
				.s = { 1, h, 1 }, .d = { 1, 1, 1 }, .kind = RLX_K_POOL_AVG,
			};
			const size_t plane = volume(a.in), ny = PLANES * volume(a.out) * 4;
			float *x = kt_new(PLANES * plane * 4);

			for (i = 0; i < PLANES * plane; i++)
				x[i] = i % plane / a.in[2] % h == 0 &&
				       i % a.in[2] == WINDOWS - 1 ? FLT_MAX : 0;
			a.x = x;
			for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++) {
				if (!kt_isa_runs(isa))
					continue;
				a.y = kt_new(ny);
				kt_run(rlx_kernels_get(isa)->pool_f32, &a, PLANES * WINDOWS,
				       rlx_k_pool_scratch(&a, 4, false), &seed);
				check(&a, x, a.y, NULL, "the largest");
				kt_free(a.y, ny);
			}
			kt_free(x, PLANES * plane * 4);
		}
}

/* One output column, whose window ends before the input: nothing of a row is read. */
TEST(padding_wider_than_the_row)
{
	const float x[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
	const struct rlx_k_pool shape = {
		.x = x[0], .planes = 1, .in = { 1, 2, 3 }, .out = { 1, 2, 1 }, .k = { 1, 2, 2 },
		.s = { 1, 1, 1 }, .d = { 1, 1, 1 }, .p = { 0, 1, 5 }, .p_end = { 0, 0, 5 },
		.lp = 2,
	};
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 3 * 4 * RLX_ISA_COUNT; i++) {
		enum rlx_isa isa = (enum rlx_isa)(i / 12);
		struct rlx_k_pool a = shape;
		const size_t ny = 2 * sizeof(*a.y);

		if (!kt_isa_runs(isa))
			continue;
		a.kind = (enum rlx_k_pool_kind)(i % 3);
		a.s[2] = 1 + i / 3 % 2;
		a.k[1] = i / 6 % 2 ? 2 : 14;	/* too many taps for shared rows */
		a.y = kt_new(ny);
		kt_run(rlx_kernels_get(isa)->pool_f32, &a, 2,
		       rlx_k_pool_scratch(&a, 4, false), &seed);
		check(&a, x[0], a.y, NULL, "padding alone");
		kt_free(a.y, ny);
	}
}

/* Lanes of a blocked buffer are planes of their own. */
static void blocked_check(enum rlx_isa isa, const struct rlx_k_pool *a)
{
	size_t c = rlx_conv_block(isa), px = volume(a->in), i, l, p;
	size_t py = volume(a->out);
	struct rlx_k_pool one = *a;
	float *x = malloc(px * sizeof(*x)), *y = malloc(py * sizeof(*y));

	CHECK(x && y);
	one.planes = 1;
	for (p = 0; p < a->planes; p++)
		for (l = 0; l < c; l++) {
			for (i = 0; i < px; i++)
				x[i] = a->x[(p * px + i) * c + l];
			for (i = 0; i < py; i++)
				y[i] = a->y[(p * py + i) * c + l];
			check(&one, x, y, NULL, "pool_c");
		}
	free(x);
	free(y);
}

TEST(pool_c)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 60; i++) {
		struct rlx_k_pool a;

		do
			shape_random(&a, kt_pick(&seed, 1, 2), &seed);
		while (a.kind == RLX_K_POOL_LP);
		for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++) {
			size_t c = rlx_conv_block(isa);
			size_t nx = a.planes * volume(a.in) * c;
			size_t ny = a.planes * volume(a.out) * c;
			float *x;

			if (!kt_isa_runs(isa))
				continue;
			x = kt_new(nx * 4);
			kt_fill(x, nx, &seed);
			if (i % 3 == 0)
				x[kt_pick(&seed, 0, nx - 1)] = NAN;
			a.x = x;
			a.y = kt_new(ny * 4);
			kt_run(rlx_kernels_get(isa)->pool_c, &a,
			       a.planes * a.out[1], 0, &seed);
			blocked_check(isa, &a);
			kt_free(a.y, ny * 4);
			kt_free(x, nx * 4);
		}
	}
}

/* What the windows of @a add where their maxima are, into @want. */
static void add_up(const struct rlx_k_pool *a, const float *x, const float *dy, double *want)
{
	size_t n = volume(a->out), i, o[3];
	int64_t where;

	for (i = 0; i < a->planes * volume(a->in); i++)
		want[i] = 0;
	for (i = 0; i < a->planes * n; i++) {
		const size_t plane = i / n * volume(a->in);

		o[0] = i % n / a->out[2] / a->out[1];
		o[1] = i % n / a->out[2] % a->out[1];
		o[2] = i % a->out[2];
		window(a, x + plane, o, &where);
		if (where >= 0)
			want[plane + (size_t)where] += (double)dy[i];
	}
}

static void grad_run(enum rlx_isa isa, const struct rlx_k_max_pool_grad *g, size_t nx,
		     const double *want, bool f64, uint64_t *seed)
{
	struct rlx_k_max_pool_grad a = *g;
	const size_t elem = f64 ? 8 : 4, ny = g->pool.planes * volume(g->pool.out);
	double *wide[2] = { kt_new(nx * 8), kt_new(ny * 8) };
	size_t i;

	for (i = 0; i < nx; i++)
		wide[0][i] = (double)g->pool.x[i];
	for (i = 0; i < ny; i++)
		wide[1][i] = (double)g->dy[i];
	if (f64) {
		a.pool.x = (const float *)wide[0];
		a.dy = (const float *)wide[1];
	}
	a.dx = kt_new(nx * elem);
	kt_run(f64 ? rlx_kernels_get(isa)->max_pool_grad_f64 :
	       rlx_kernels_get(isa)->max_pool_grad_f32, &a, a.pool.planes,
	       rlx_k_max_pool_grad_scratch(&a.pool, elem), seed);
	for (i = 0; i < nx; i++) {
		double got = f64 ? ((const double *)a.dx)[i] : (double)a.dx[i];

		CHECKF(fabs(got - want[i]) <= (f64 ? 1e-14 : 4e-6) * (1 + fabs(want[i])),
		       "level %d, f64 %d: [%zu] is %g, not %g", isa, f64, i, got, want[i]);
	}
	kt_free(a.dx, nx * elem);
	kt_free(wide[0], nx * 8);
	kt_free(wide[1], ny * 8);
}

/* Ties, NaN, elements of -infinity, which padding is not, and windows of padding alone. */
TEST(max_pool_grad)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 300; i++) {
		struct rlx_k_max_pool_grad a = { .dx = NULL };
		size_t nx, ny, j;
		double *want;
		float *x, *dy;

		shape_random(&a.pool, kt_pick(&seed, 1, 3), &seed);
		a.pool.kind = RLX_K_POOL_MAX;
		a.pool.column_major = false;
		if (i % 4 == 0) {	/* lanes of blocked channels */
			a.pool.k[2] = a.pool.s[2] = a.pool.d[2] = 1;
			a.pool.p[2] = a.pool.p_end[2] = 0;
			a.pool.in[2] = a.pool.out[2] = 16 * kt_pick(&seed, 1, 2);
		}
		nx = a.pool.planes * volume(a.pool.in);
		ny = a.pool.planes * volume(a.pool.out);
		x = kt_new(nx * 4);
		dy = kt_new(ny * 4);
		want = kt_new(nx * 8);
		kt_fill(x, nx, &seed);
		kt_fill(dy, ny, &seed);
		for (j = 0; j < nx; j++) {
			if (i % 2)
				x[j] = roundf(x[j] * 3);
			if (i % 3 == 0 && kt_pick(&seed, 0, 30) == 0)
				x[j] = NAN;
			if (i % 5 == 0 && kt_pick(&seed, 0, 4))
				x[j] = -INFINITY;
		}
		add_up(&a.pool, x, dy, want);
		a.pool.x = x;
		a.dy = dy;
		for (int level = 0; level < 2 * RLX_ISA_COUNT; level++)
			if (kt_isa_runs((enum rlx_isa)(level / 2)))
				grad_run((enum rlx_isa)(level / 2), &a, nx, want, level % 2,
					 &seed);
		kt_free(x, nx * 4);
		kt_free(dy, ny * 4);
		kt_free(want, nx * 8);
	}
}

TEST_MAIN()
