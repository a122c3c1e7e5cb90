// SPDX-License-Identifier: MIT
/*
 * Graphs of steps picked by chance, some of which the host takes: what crosses over and
 * when, what shares storage, and what may run side by side. Against the evaluator.
 *
 *	RLX_TEST_GRAPHS=5000 build/test/gpu/chance
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
	rlx_value		 v[MOST + 2];
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

	switch (below(d, 14)) {
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
	default:
		return rlx_emit(g, layer_norm, .x = x, .axis = -1, .eps = 1e-3f);
	}
}

static void draw_graph(struct rig *r, uint64_t seed)
{
	struct draw d = { .g = r->g, .seed = seed };
	int i, steps;

	r->seed = seed;
	for (i = 0; i < 2; i++)
		d.v[d.n++] = rig_random(r, rlx_type(RLX_F32, A, B, C, D), -1, 1);
	steps = 4 + below(&d, MOST - 4);
	for (i = 0; i < steps; i++) {
		rlx_value x = step(&d);

		CHECKF(!rlx_graph_error(r->g)->status, "%s", rlx_graph_error(r->g)->text);
		d.v[d.n++] = x;
	}
	rig_output(r, d.v[d.n - 1]);
	for (i = 1; i < OUTPUTS; i++)
		rig_output(r, d.v[2 + below(&d, d.n - 2)]);
}

static void compare(uint64_t seed)
{
	struct rig gpu, want;
	int i, k;

	rig_init(&gpu, op_case_gpu());
	rig_init(&want, NULL);
	draw_graph(&gpu, seed);
	draw_graph(&want, seed);
	rig_run(&gpu);
	rig_run(&want);
	for (k = 0; k < OUTPUTS; k++)
		for (i = 0; i < COUNT; i++) {
			double a = rig_get(&gpu, (unsigned int)k, i);
			double b = rig_get(&want, (unsigned int)k, i);

			CHECKF(fabs(a - b) <= 1e-3 * (1 + fabs(b)),
			       "graph %llu, output %d: [%d] is %g, not %g",
			       (unsigned long long)seed, k, i, a, b);
		}
	rig_fini(&gpu);
	rig_fini(&want);
}

TEST(graphs)
{
	const char *more = getenv("RLX_TEST_GRAPHS");
	uint64_t seed = rlx_test_seed();
	int i, n = more ? atoi(more) : GRAPHS;

	for (i = 0; i < n; i++)
		compare(rlx_test_rand(&seed));
}

TEST_MAIN()
