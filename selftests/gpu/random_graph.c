// SPDX-License-Identifier: MIT
/*
 * Graphs of steps picked at random, against the evaluator: some that the host takes (what
 * crosses over and when, what shares storage, what may run side by side), and what
 * transformers are made of, in f16 or bf16, where launches take in what stands ahead of them.
 *
 *	RLX_TEST_GRAPHS=5000 build/test/gpu/random_graph
 */
#include <math.h>

#include "selftests/lib/op_case.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { GRAPHS = 30, MOST = 16, RANK = 4, OUTPUTS = 3 };
enum { A = 2, B = 8, C = 4, D = 6, COUNT = A * B * C * D };	/* of every value */

struct draw {
	struct rlx_graph	*g;
	uint64_t		 seed;
	rlx_value		 v[MOST + 2], ids;
	int			 n;
};

static int below(struct draw *d, int n)
{
	return (int)(rlx_test_rand(&d->seed) % (uint64_t)n);
}

/* There and back by steps that no GPU has. */
static rlx_value by_host(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, unblock_channels, .channels = B,
			.x = rlx_emit(g, block_channels, .x = x, .block = B));
}

static rlx_value part(struct rlx_graph *g, rlx_value x, int axis, int64_t from, int64_t to)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(axis), .starts = RLX_INTS(from),
			.ends = RLX_INTS(to));
}

static rlx_value shaped(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(A, B, C, D));
}

/* The upper half of one behind the lower half of another, one of them by the host or none. */
static rlx_value halves(struct draw *d, rlx_value x, rlx_value y, bool host)
{
	static const int64_t dim[RANK] = { A, B, C, D };
	int axis = host ? 0 : below(d, RANK);
	int64_t half = dim[axis] / 2;
	rlx_value lo = part(d->g, x, axis, 0, half);

	return rlx_emit(d->g, concat, .axis = axis, .xs =
			RLX_VALUES(part(d->g, y, axis, half, dim[axis]),
				   host ? by_host(d->g, lo) : lo));
}

/* Runs of bytes that are joined, and a run of them: some begin where vectors do. */
static rlx_value runs(struct draw *d, rlx_value x, rlx_value y)
{
	const int64_t n = A * B * C * D;
	int64_t at = below(d, (int)n), from = below(d, (int)n);
	struct rlx_graph *g = d->g;

	if (below(d, 3)) {
		at -= at % 16;
		from -= from % 16;
	}
	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(n));
	y = rlx_emit(g, reshape, .x = rlx_emit(g, neg, .x = y), .shape = RLX_INTS(n));
	if (!at)
		at = n / 2;
	x = rlx_emit(g, concat, .xs = RLX_VALUES(rlx_emit(g, neg, .x = part(g, x, 0, 0, at)), y,
						 part(g, x, 0, at, n)));
	y = part(g, x, 0, from, from + n);
	if (below(d, 2))	/* the other half of the time it is read twice */
		y = rlx_emit(g, add, .a = y, .b = rlx_emit(g, tanh, .x = y));
	return shaped(g, y);
}

/* Rows weighed by what they have in common. */
static rlx_value attend(struct rlx_graph *g, rlx_value x, rlx_value y)
{
	rlx_value a = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(A * B, C * D));
	rlx_value b = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(A * B, C * D));

	b = rlx_emit(g, matmul, .a = a, .b = rlx_emit(g, transpose, .x = b,
						      .perm = RLX_INTS(1, 0)));
	return shaped(g, rlx_emit(g, matmul, .b = a, .a =
				  rlx_emit(g, softmax, .x = b, .axis = -1)));
}

static rlx_value step(struct draw *d)
{
	rlx_value x = d->v[below(d, d->n)], y = d->v[below(d, d->n)];
	struct rlx_graph *g = d->g;
	int axis = below(d, RANK);

	switch (below(d, 17)) {
	case 0:
		return rlx_emit(g, add, .a = x, .b = y);
	case 1:
		return rlx_emit(g, mul, .a = x, .b = y);
	case 2:
		return rlx_emit(g, tanh, .x = x);
	case 3:
		return rlx_emit(g, softmax, .x = x, .axis = axis);
	case 4:
		return shaped(g, rlx_emit(g, transpose, .x = x, .perm = RLX_INTS(1, 0, 3, 2)));
	case 5:
		return halves(d, x, y, false);
	case 6:
		return rlx_emit(g, cumsum, .x = x, .axis = axis, .reverse = below(d, 2));
	case 7:
		y = rlx_emit(g, reduce, .x = y, .axes = RLX_INTS(axis), .kind = RLX_REDUCE_MEAN,
			     .keep_dims = true);
		return rlx_emit(g, sub, .a = x, .b = y);
	case 8:
	case 9:
		return by_host(g, x);
	case 10:	/* a part of what the host makes */
		return rlx_emit(g, add, .a = y, .b = part(g, by_host(g, x), 0, 1, 2));
	case 11:	/* a part of what a kernel makes goes to the host */
		x = rlx_emit(g, neg, .x = x);
		return halves(d, x, x, true);
	case 12:
		return attend(g, x, y);
	case 13:
	case 14:
	case 15:
		return runs(d, x, y);
	default:
		return rlx_emit(g, layer_norm, .x = x, .axis = -1, .eps = 1e-3f);
	}
}

/* @n more values by @next, and what comes out: the last one, and others but the inputs. */
static void draw_steps(struct rig *r, struct draw *d, int n, rlx_value (*next)(struct draw *d))
{
	int i;

	for (i = 0; i < n; i++) {
		rlx_value x = next(d);

		CHECKF(!rlx_graph_error(r->g)->status, "%s", rlx_graph_error(r->g)->text);
		d->v[d->n++] = x;
	}
	rig_output(r, d->v[d->n - 1]);
	for (i = 1; i < OUTPUTS; i++)
		rig_output(r, d->v[2 + below(d, d->n - 2)]);
}

static void draw_graph(struct rig *r, uint64_t seed)
{
	struct draw d = { .g = r->g, .seed = seed };
	int i;

	r->seed = seed;
	for (i = 0; i < 2; i++)
		d.v[d.n++] = rig_random(r, rlx_type(RLX_F32, A, B, C, D), -1, 1);
	draw_steps(r, &d, 4 + below(&d, MOST - 4), step);
}

/* ---- of transformers ---- */

enum { ROWS = 16, WIDTH = 64, TABLE = 40, VALUES = ROWS * WIDTH };

static rlx_value weights(struct draw *d, struct rlx_type t, double lo, double hi)
{
	static float v[2 * WIDTH * WIDTH];
	int64_t i;

	CHECK(rlx_type_count(&t) <= 2 * WIDTH * WIDTH);
	for (i = 0; i < rlx_type_count(&t); i++)
		v[i] = (float)rlx_test_uniform(&d->seed, lo, hi);
	return rlx_constant(d->g, t, v);
}

static rlx_value line(struct draw *d, double lo, double hi)
{
	return weights(d, rlx_type(RLX_F32, WIDTH), lo, hi);
}

static rlx_value linear(struct draw *d, rlx_value x, int64_t k, int64_t n, rlx_value residual)
{
	rlx_value w = weights(d, rlx_type(RLX_F32, n, k), -0.2, 0.2), bias = RLX_NONE;

	if (below(d, 2))
		bias = weights(d, rlx_type(RLX_F32, n), -1, 1);
	return rlx_emit(d->g, fused_matmul, .a = x, .b = w, .bias = bias, .residual = residual,
			.trans_b = true, .act = below(d, 3) ? RLX_ACT_NONE : RLX_ACT_GELU);
}

static rlx_value normed(struct draw *d, rlx_value x)
{
	rlx_value gamma = line(d, 0.5, 1.5), beta = line(d, -1, 1);

	return rlx_emit(d->g, layer_norm, .x = x, .gamma = gamma, .beta = beta, .axis = -1,
			.eps = 1e-5f);
}

static rlx_value attended(struct rlx_graph *g, const rlx_value x[3])
{
	rlx_value v[3];
	int i;

	for (i = 0; i < 3; i++)
		v[i] = rlx_emit(g, reshape, .x = x[i], .shape = RLX_INTS(1, ROWS, WIDTH));
	return rlx_emit(g, reshape, .shape = RLX_INTS(ROWS, WIDTH), .x =
			rlx_emit(g, attention, .q = v[0], .k = v[1], .v = v[2], .heads = 4));
}

/* Mostly of what came last. */
static rlx_value layer(struct draw *d)
{
	rlx_value v[3];
	int i;

	for (i = 0; i < 3; i++)
		v[i] = d->v[i || !below(d, 3) ? below(d, d->n) : d->n - 1];
	switch (below(d, 10)) {
	case 0:
	case 1:
		return linear(d, v[0], WIDTH, WIDTH, RLX_NONE);
	case 2:
		return linear(d, v[0], WIDTH, WIDTH, v[1]);
	case 3:
	case 4:
		return normed(d, v[0]);
	case 5:
		return normed(d, rlx_emit(d->g, add, .a = v[0], .b = v[1]));
	case 6:
	case 7:
		return attended(d->g, v);
	case 8:
		return rlx_emit(d->g, gather, .indices = d->ids, .x =
				weights(d, rlx_type(RLX_F32, TABLE, WIDTH), -1, 1));
	default:
		v[1] = linear(d, v[0], WIDTH, 2 * WIDTH, RLX_NONE);
		return linear(d, v[1], 2 * WIDTH, WIDTH, below(d, 2) ? v[0] : RLX_NONE);
	}
}

static void draw_layers(struct rig *r, uint64_t seed)
{
	struct draw d = { .g = r->g, .seed = seed };
	int i;

	r->seed = seed;
	d.ids = rig_random(r, rlx_type(RLX_I64, ROWS), 0, TABLE - 1);
	for (i = 0; i < 2; i++)
		d.v[d.n++] = rig_random(r, rlx_type(RLX_F32, ROWS, WIDTH), -1, 1);
	draw_steps(r, &d, 3 + below(&d, MOST - 3), layer);
}

/* ---- comparing ---- */

/* The error of an output by how large its elements are, or 1; NAN: some element is one. */
static double error_of(const struct rig *gpu, const struct rig *want, unsigned int k, int64_t n)
{
	double error = 0, size = (double)n;
	int64_t i;

	for (i = 0; i < n; i++) {
		double a = rig_get(gpu, k, i), b = rig_get(want, k, i);

		error += (a - b) * (a - b);
		size += b * b;
	}
	return sqrt(error / size);
}

static void compare(void (*draw)(struct rig *r, uint64_t seed), uint64_t seed,
		    enum rlx_precision precision, int64_t n, double tol)
{
	struct rig gpu, want;
	unsigned int k;
	double error;

	rig_init(&gpu, op_case_gpu());
	rig_init(&want, NULL);
	gpu.precision = precision;
	draw(&gpu, seed);
	draw(&want, seed);
	rig_run(&gpu);
	rig_run(&want);
	for (k = 0; k < OUTPUTS; k++) {
		error = error_of(&gpu, &want, k, n);
		CHECKF(error <= tol, "graph %llu, output %u is wrong by %g",
		       (unsigned long long)seed, k, error);
	}
	rig_fini(&gpu);
	rig_fini(&want);
}

static int graphs(void)
{
	const char *more = getenv("RLX_TEST_GRAPHS");

	return more ? atoi(more) : GRAPHS;
}

TEST(with_steps_of_the_host)
{
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = graphs(); i; i--)
		compare(draw_graph, rlx_test_rand(&seed), RLX_PRECISION_AS_WRITTEN, COUNT, 1e-4);
}

TEST(of_transformers)
{
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = graphs(); i; i--)
		compare(draw_layers, rlx_test_rand(&seed), i % 2 ? RLX_PRECISION_MIXED_F16 :
			RLX_PRECISION_MIXED_BF16, VALUES, 0.08);
}

TEST_MAIN()
