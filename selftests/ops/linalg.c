// SPDX-License-Identifier: MIT
/*
 * Linear algebra: numbers that are known, and random matrices, small ones and ones of several
 * blocks, whose factors must give them back. And recurrences that are made of it.
 */
#include "rlx/grad.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

EVERYWHERE(solve_of_two)
{
	static const double a[] = { 2, 1, 1, 3 }, b[] = { 3, 5 };
	static const double two[] = { 2, 1, 1, 3, 2, 1, 1, 3 };
	static const double both[] = { 3, 5, 6, 10 };
	rlx_value m = rig_input(r, rlx_type(RLX_F64, 2, 2), a);

	rig_output(r, rlx_emit(r->g, solve, .a = m, .b = rig_input(r, rlx_type(RLX_F64, 2), b),
			       .vector = true));
	rig_output(r, rlx_emit(r->g, solve, .a = rig_input(r, rlx_type(RLX_F64, 2, 2, 2), two),
			       .b = rig_input(r, rlx_type(RLX_F64, 2, 2), both), .vector = true));
	rig_output(r, rlx_emit(r->g, inverse, .x = m));
	rig_run(r);
	rig_want(r, 0, 0, 0.8, 1e-14);
	rig_want(r, 0, 1, 1.4, 1e-14);
	rig_want(r, 1, 2, 1.6, 1e-14);
	rig_want(r, 1, 3, 2.8, 1e-14);
	rig_want(r, 2, 0, 0.6, 1e-14);
}

TEST(gradient_of_solve)
{
	static const double a[] = { 2, 1, 1, 3 }, b[] = { 3, 5 };
	static const double want[] = { -0.48, -0.84, 0.16, 0.28, 0.6, -0.2 };
	rlx_value wrt[2], d[2], y;
	struct rig r;
	int64_t i;

	rig_init(&r, NULL);
	wrt[0] = rig_input(&r, rlx_type(RLX_F64, 2, 2), a);
	wrt[1] = rig_input(&r, rlx_type(RLX_F64, 2), b);
	y = rlx_emit(r.g, solve, .a = wrt[0], .b = wrt[1], .vector = true);
	y = rlx_emit(r.g, slice, .x = y, .axes = RLX_INTS(0), .starts = RLX_INTS(0),
		     .ends = RLX_INTS(1));
	rlx_vjp(r.g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(y),
				       .wrt = { wrt, 2 } }, d);
	rig_output(&r, d[0]);
	rig_output(&r, d[1]);
	rig_run(&r);
	for (i = 0; i < 6; i++)
		rig_want(&r, i / 4, i % 4, want[i], 1e-12);
	rig_fini(&r);
}

/* The cofactors: of singular matrices too, where no inverse tells them. */
EVERYWHERE(gradient_of_det)
{
	static const double m[] = { 1, 2, 2, 4, 1, 2, 3, 4 };
	static const double want[] = { 4, -2, -2, 1, 4, -3, -2, 1 }, ones[] = { 1, 1 };
	double rank_1[9];
	rlx_value x[2], y[2], d[2];
	int64_t i;

	for (i = 0; i < 9; i++)
		rank_1[i] = (double)(i / 3 + 1) * (double)(i % 3 + 1);
	x[0] = rig_input(r, rlx_type(RLX_F64, 2, 2, 2), m);
	x[1] = rig_input(r, rlx_type(RLX_F64, 3, 3), rank_1);
	y[0] = rlx_emit(r->g, det, .x = x[0]);
	y[1] = rlx_emit(r->g, det, .x = x[1]);
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { y, 2 },
		.wrt = { x, 2 }, .seed = RLX_VALUES(
			rlx_constant(r->g, rlx_type(RLX_F64, 2), ones),
			rlx_scalar_const(r->g, RLX_F64, 1)) }, d);
	rig_output(r, d[0]);
	rig_output(r, d[1]);
	y[0] = rlx_emit(r->g, reduce, .x = rlx_emit(r->g, mul, .a = d[0], .b = d[0]));
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { y, 1 },
					.wrt = { x, 1 } }, d);
	rig_output(r, d[0]);
	rig_run(r);
	for (i = 0; i < 8; i++) {
		rig_want(r, 0, i, want[i], 1e-14);
		rig_want(r, 2, i, 2 * m[i], 1e-14);	/* the sum of the squares of 2 x 2 */
	}
	for (i = 0; i < 9; i++)
		rig_want(r, 1, i, 0, 1e-12);
}

EVERYWHERE(singular)
{
	static const double m[] = { 2, 1, 1, 3, 1, 2, 2, 4 }, b[4] = { 0 };

	rig_output(r, rlx_emit(r->g, solve, .a = rig_input(r, rlx_type(RLX_F64, 2, 2, 2), m),
			       .b = rig_input(r, rlx_type(RLX_F64, 2, 2), b), .vector = true));
	CHECK_EQ(rig_try(r), RLX_ERANGE);
	CHECKF(strstr(r->err.text, "singular"), "%s", r->err.text);
}

EVERYWHERE(not_positive_definite)
{
	static const float m[] = { 1, 2, 2, 1 };

	rig_output(r, rlx_emit(r->g, cholesky, .x = rig_input(r, rlx_type(RLX_F32, 2, 2), m)));
	CHECK_EQ(rig_try(r), RLX_ERANGE);
	CHECKF(strstr(r->err.text, "positive definite"), "%s", r->err.text);
}

/* Outputs @k .. are products that must be the matrices @with of n numbers. */
static void same(const struct rig *r, unsigned int k, unsigned int with, int64_t n, double tol)
{
	double off = 0, all = 0;
	int64_t i;

	for (i = 0; i < n; i++) {
		off += pow(rig_get(r, k, i) - rig_get(r, with, i), 2);
		all += pow(rig_get(r, with, i), 2);
	}
	CHECKF(sqrt(off) <= tol * sqrt(all), "output %u: off by %g of %g", k, sqrt(off), sqrt(all));
}

static rlx_value turned(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, transpose, .x = x, .perm = RLX_INTS(0, 2, 1));
}

/* a = b b' + n, its root, and what is solved by both */
static void positive(struct rig *r, enum rlx_dtype dt, int64_t n, int64_t k)
{
	rlx_value x = rig_random(r, rlx_type(dt, 2, n, n), -1, 1), a, l, b, y, d;

	a = rlx_emit(r->g, matmul, .a = x, .b = turned(r->g, x));
	d = rlx_emit(r->g, eq, .a = rlx_emit(r->g, iota, .type = rlx_type(RLX_I64, n), .axis = 0),
		     .b = rlx_emit(r->g, iota, .type = rlx_type(RLX_I64, n, 1), .axis = 0));
	a = rlx_emit(r->g, add, .a = a, .b = rlx_emit(r->g, cast, .x = d, .to = dt));
	l = rlx_emit(r->g, cholesky, .x = a);
	rig_output(r, a);
	rig_output(r, rlx_emit(r->g, matmul, .a = l, .b = turned(r->g, l)));
	b = rig_random(r, rlx_type(dt, 2, n, k), -1, 1);
	rig_output(r, b);
	y = rlx_emit(r->g, triangular_solve, .a = l, .b = b);
	rig_output(r, rlx_emit(r->g, matmul, .a = l, .b = y));
	y = rlx_emit(r->g, triangular_solve, .a = l, .b = b, .transposed = true);
	rig_output(r, rlx_emit(r->g, matmul, .a = turned(r->g, l), .b = y));
	y = rlx_emit(r->g, solve, .a = x, .b = b);
	rig_output(r, rlx_emit(r->g, matmul, .a = x, .b = y));
	rig_run(r);
	same(r, 1, 0, 2 * n * n, dt == RLX_F64 ? 1e-13 : 1e-5);
	same(r, 3, 2, 2 * n * k, dt == RLX_F64 ? 1e-11 : 1e-3);
	same(r, 4, 2, 2 * n * k, dt == RLX_F64 ? 1e-11 : 1e-3);
	/* of random matrices the condition is n and more */
	same(r, 5, 2, 2 * n * k, dt == RLX_F64 ? 1e-9 : 5e-2);
}

EVERYWHERE(residuals)
{
	uint64_t seed = rlx_test_seed();
	unsigned int i;

	for (i = 0; i < 8; i++) {
		int64_t n = 1 + (int64_t)(rlx_test_rand(&seed) % 150);

		positive(r, i % 2 ? RLX_F32 : RLX_F64, n, 1 + (int64_t)(rlx_test_rand(&seed) % 40));
		rig_reset(r);
	}
}

EVERYWHERE(orthogonal_factors)
{
	static const int64_t shape[][2] = { { 7, 4 }, { 4, 7 }, { 12, 12 } };
	unsigned int i;

	for (i = 0; i < 3; i++) {
		int64_t m = shape[i][0], n = shape[i][1];
		rlx_value x = rig_random(r, rlx_type(RLX_F64, 2, m, n), -1, 1);
		rlx_value q, u, s, v, w, a;

		rig_output(r, x);
		q = rlx_emit(r->g, qr, .x = x);
		rig_output(r, rlx_emit(r->g, matmul, .a = q, .b = rlx_out(r->g, q, 1)));
		u = rlx_emit(r->g, svd, .x = x);
		s = rlx_emit(r->g, reshape, .x = rlx_out(r->g, u, 1),
			     .shape = RLX_INTS(2, 1, m < n ? m : n));
		v = rlx_out(r->g, u, 2);
		s = rlx_emit(r->g, mul, .a = u, .b = s);
		rig_output(r, rlx_emit(r->g, matmul, .a = s, .b = v));
		a = rlx_emit(r->g, matmul, .a = x, .b = turned(r->g, x));
		rig_output(r, a);
		w = rlx_emit(r->g, eigh, .x = a);
		v = rlx_out(r->g, w, 1);
		w = rlx_emit(r->g, reshape, .x = w, .shape = RLX_INTS(2, 1, m));
		rig_output(r, rlx_emit(r->g, matmul, .a = rlx_emit(r->g, mul, .a = v, .b = w),
				       .b = turned(r->g, v)));
		v = rlx_emit(r->g, pinv, .x = x);
		rig_output(r, rlx_emit(r->g, matmul, .a = rlx_emit(r->g, matmul, .a = x, .b = v),
				       .b = x));
		rig_run(r);
		same(r, 1, 0, 2 * m * n, 1e-13);
		same(r, 2, 0, 2 * m * n, 1e-13);
		same(r, 4, 3, 2 * m * m, 1e-13);
		same(r, 5, 0, 2 * m * n, 1e-12);
		rig_reset(r);
	}
}

/* Two steps of one channel; with the state carried, one after the other. */
/* Factors of a matrix times a power of two, whose squares no double is: scaled, or the same. */
EVERYWHERE(factors_of_huge_and_tiny_matrices)
{
	enum { N = 4, OUT = 7 };
	static const bool scales[OUT] = { true, false, false, true, false, false, true };
	static const double by[] = { 1, 0x1p700, 0x1p-700, 0x1p1020, 0x1p-1000 };
	double x[N * N], m[N * N];
	rlx_value v, u;
	unsigned int k, o;
	int64_t i, n;

	for (i = 0; i < N * N; i++)
		x[i] = rlx_test_uniform(&r->seed, -1, 1) + (i % 5 ? 0 : 2);
	for (k = 0; k < 5; k++) {
		for (i = 0; i < N * N; i++)
			m[i] = x[i] * by[k];
		v = rig_input(r, rlx_type(RLX_F64, N, N), m);
		u = rlx_emit(r->g, eigh, .x = v);
		rig_output(r, u);
		rig_output(r, rlx_out(r->g, u, 1));
		u = rlx_emit(r->g, svd, .x = v);
		for (o = 0; o < 3; o++)
			rig_output(r, rlx_out(r->g, u, o));
		u = rlx_emit(r->g, qr, .x = v);
		rig_output(r, u);
		rig_output(r, rlx_out(r->g, u, 1));
	}
	rig_run(r);
	for (k = 1; k < 5; k++)
		for (o = 0; o < OUT; o++)
			for (n = o == 0 || o == 3 ? N : N * N, i = 0; i < n; i++) {
				double got = rig_get(r, k * OUT + o, i) / (scales[o] ? by[k] : 1);

				CHECKF(fabs(got - rig_get(r, o, i)) < 1e-12,
				       "%s: times %g, output %u is %g, not %g",
				       r->device ? r->device : "eval", by[k], o, got,
				       rig_get(r, o, i));
			}
}

EVERYWHERE(selective_scan_of_two_steps)
{
	static const float x[] = { 1, 2 }, delta[] = { 0.693147180559945f, 0.693147180559945f };
	static const float a[] = { -1 }, one[] = { 1, 1 };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 1, 2, 1), x), y;
	rlx_value d = rig_input(r, rlx_type(RLX_F32, 1, 2, 1), delta);
	rlx_value m = rig_input(r, rlx_type(RLX_F32, 1, 1), a);
	rlx_value b = rig_input(r, rlx_type(RLX_F32, 1, 2, 1), one);

	y = rlx_emit(r->g, selective_scan, .x = v, .delta = d, .a = m, .b = b, .c = b);
	rig_output(r, y);
	rig_output(r, rlx_out(r->g, y, 1));
	rig_run(r);
	rig_want(r, 0, 0, 0.693147, 1e-6);
	rig_want(r, 0, 1, 1.732868, 1e-6);
	rig_want(r, 1, 0, 1.732868, 1e-6);
}

/* Two steps of one number: the second remembers half, and the gradients of the sum of both. */
EVERYWHERE(gated_delta_net_of_two_steps)
{
	static const float one[] = { 1, 1 }, v[] = { 2, 2 }, half[] = { 0.5f, 0.5f };
	static const float g[] = { 0, -0.693147180559945f };
	static const double want[][2] = {
		{ 1, 1.25 }, { 1.25, 0.5 }, { 0.625, 0.5 }, { 0, 0.25 }, { 2.5, 1.5 },
	};
	const struct rlx_type t = rlx_type(RLX_F32, 1, 2, 1, 1), h = rlx_type(RLX_F32, 1, 2, 1);
	rlx_value in[5] = { rig_input(r, t, one), rig_input(r, t, one), rig_input(r, t, v),
			    rig_input(r, h, g), rig_input(r, h, half) }, d[5], y, sum;
	unsigned int i;

	y = rlx_emit(r->g, gated_delta_net, .q = in[0], .k = in[1], .v = in[2], .g = in[3],
		     .beta = in[4]);
	sum = rlx_emit(r->g, reduce, .x = y);
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(sum),
					.wrt = { in, 5 } }, d);
	rig_output(r, y);
	rig_output(r, rlx_out(r->g, y, 1));
	for (i = 0; i < 5; i++)
		rig_output(r, d[i]);
	rig_run(r);
	rig_want(r, 0, 0, 1, 1e-6);
	rig_want(r, 0, 1, 1.25, 1e-6);
	rig_want(r, 1, 0, 1.25, 1e-6);
	for (i = 0; i < 10; i++)
		rig_want(r, 2 + i / 2, i % 2, want[i / 2][i % 2], 1e-5);
}

/*
 * The rule of one head, @dim steps, keys and values, with g @rates or random, against
 * that step by step in double.
 */
static void gated_delta(struct rig *r, enum rlx_dtype type, const int64_t dim[3],
			const void *rates, double tol)
{
	const int64_t steps = dim[0], keys = dim[1], values = dim[2];
	rlx_value q = rig_random(r, rlx_type(type, 1, steps, 1, keys), -1, 1);
	rlx_value k = rig_random(r, rlx_type(type, 1, steps, 1, keys), -0.4, 0.4);
	rlx_value v = rig_random(r, rlx_type(type, 1, steps, 1, values), -1, 1);
	rlx_value g = rates ? rig_input(r, rlx_type(type, 1, steps, 1), rates) :
		      rig_random(r, rlx_type(type, 1, steps, 1), -0.3, 0);
	rlx_value b = rig_random(r, rlx_type(type, 1, steps, 1), 0, 1), y, d;
	double m[16][16] = { 0 }, p;
	int64_t t, i, j;

	y = rlx_emit(r->g, gated_delta_net, .q = q, .k = k, .v = v, .g = g, .beta = b);
	rig_output(r, y);
	rig_output(r, rlx_out(r->g, y, 1));
	if (rates) {
		d = rlx_emit(r->g, reduce, .x = y);
		rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(d),
						.wrt = { &g, 1 } }, &d);
		rig_output(r, d);
	}
	rig_run(r);
	for (t = 0; t < steps; t++)	/* what is forgotten has no slope */
		if (rates && rig_in(r, 3, t) < -1e5)
			rig_want(r, 2, t, 0, tol);
	for (t = 0; t < steps; t++)
		for (j = 0; j < values; j++) {
			for (p = 0, i = 0; i < keys; i++) {
				m[i][j] *= exp(rig_in(r, 3, t));
				p += m[i][j] * rig_in(r, 1, t * keys + i);
			}
			p = rig_in(r, 4, t) * (rig_in(r, 2, t * values + j) - p);
			for (i = 0; i < keys; i++)
				m[i][j] += p * rig_in(r, 1, t * keys + i);
			for (p = 0, i = 0; i < keys; i++)
				p += m[i][j] * rig_in(r, 0, t * keys + i) / sqrt((double)keys);
			rig_want(r, 0, t * values + j, p, tol);
		}
	for (i = 0; i < keys; i++)
		for (j = 0; j < values; j++)
			rig_want(r, 1, i * values + j, m[i][j], tol);
}

/* Chunks, the last one not whole. */
EVERYWHERE(gated_delta_net_by_chunks)
{
	gated_delta(r, RLX_F32, (int64_t[]){ 150, 5, 3 }, NULL, 1e-5);
}

/* What tensor cores take. */
EVERYWHERE(gated_delta_net_of_halves)
{
	gated_delta(r, RLX_F16, (int64_t[]){ 420, 16, 16 }, NULL, 4e-3);
}

/* Steps that forget all, by -inf or a number far below 0, and remember all behind. */
EVERYWHERE(gated_delta_net_of_masks)
{
	enum { STEPS = 150 };
	static const int at[] = { 0, 7, 8, 40, 70, 100, 149 };
	double g[STEPS];
	float f32[STEPS];
	int i;

	for (i = 0; i < STEPS; i++)
		f32[i] = (float)(g[i] = -0.001 * (i % 7));
	for (i = 0; i < 7; i++)
		f32[at[i]] = (float)(g[at[i]] = i % 2 ? -1e6 : -(double)INFINITY);
	gated_delta(r, RLX_F32, (int64_t[]){ STEPS, 5, 3 }, f32, 1e-4);
	rig_reset(r);
	gated_delta(r, RLX_F64, (int64_t[]){ STEPS, 5, 3 }, g, 1e-11);
	rig_reset(r);
	gated_delta(r, RLX_F32, (int64_t[]){ 1, 5, 3 }, f32, 1e-5);
}

TEST_MAIN()
