// SPDX-License-Identifier: MIT
/* What XLA makes of ops in another way than they are defined, by the plugin and the evaluator. */
#include <math.h>
#include <stdlib.h>

#include "ir/element.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { ROWS = 5, COLS = 67, N = ROWS * COLS };

static const enum rlx_dtype floats[] = { RLX_F32, RLX_F64, RLX_F16, RLX_BF16 };

typedef rlx_value emit_fn(struct rlx_graph *g, rlx_value x);

static void evaluate(struct rig *r, const char *device, const struct rlx_tensor *x, emit_fn *emit)
{
	rig_init(r, device);
	rig_output(r, emit(r->g, rig_input(r, x->type, x->data)));
	rig_run(r);
}

/* Floats agree up to @tol of them, and in what is none. */
static void check(const char *what, const struct rlx_tensor *x, emit_fn *emit, double tol)
{
	struct rig want, got;
	int64_t i;

	evaluate(&want, NULL, x, emit);
	evaluate(&got, "pjrt", x, emit);
	for (i = 0; i < rlx_type_count(&want.out[0].type); i++) {
		double a = rig_get(&want, 0, i), b = rig_get(&got, 0, i);

		CHECKF(isnan(a) ? isnan(b) : a == b || fabs(a - b) <= tol * fabs(a),
		       "%s of %s: element %lld is %g, not %g", what,
		       rlx_dtype_name(x->type.dtype), (long long)i, b, a);
	}
	rig_fini(&want);
	rig_fini(&got);
}

static void check_floats(const char *what, emit_fn *emit, double (*value)(int i), double tol)
{
	double data[N];
	unsigned int k;
	int i;

	if (!getenv("RLX_PJRT_PLUGIN"))
		rlx_test_skip("no RLX_PJRT_PLUGIN");
	for (k = 0; k < sizeof(floats) / sizeof(floats[0]); k++) {
		struct rlx_tensor x = { rlx_type(floats[k], ROWS, COLS), data };

		for (i = 0; i < N; i++)
			el_set(&x, i, value(i));
		check(what, &x, emit, rlx_dtype_size(floats[k]) > 2 ? tol : 0.01);
	}
}

static double quarters(int i)
{
	return (i - N / 2) / 4.0;
}

static rlx_value angle(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, atan, .x = x);
}

/* The other operand is a scalar of x's dtype, 1. */
static rlx_value angle_to_1(struct rlx_graph *g, rlx_value x)
{
	rlx_value one = rlx_scalar_const(g, RLX_BF16, 1);

	return rlx_emit(g, atan2, .a = x, .b = one);
}

TEST(angles)
{
	check_floats("atan", angle, quarters, 1e-5);
	check_floats("atan2", angle_to_1, quarters, 1e-5);
}

/* One in a row, in another column each, and a row without. */
static double with_nan(int i)
{
	return i / COLS && i % COLS == i / COLS * 13 ? NAN : i * 7 % 11 - 5;
}

static rlx_value largest(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, reduce, .x = x, .kind = RLX_REDUCE_MAX, .axes = RLX_INTS(1));
}

static rlx_value least(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, reduce, .x = x, .kind = RLX_REDUCE_MIN, .axes = RLX_INTS(0));
}

static rlx_value where_largest(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, arg_reduce, .x = x, .axis = 1);
}

static rlx_value where_least(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, arg_reduce, .x = x, .axis = 1, .min = true, .last_index = true);
}

static rlx_value pooled(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, pool, .x = rlx_emit(g, reshape, .x = x,
					       .shape = RLX_INTS(1, 1, ROWS, COLS)),
			.kind = RLX_POOL_MAX, .kernel = RLX_INTS(2, 2));
}

static rlx_value larger(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, max, .a = rlx_scalar_const(g, RLX_BF16, 1), .b = x);
}

static rlx_value smaller(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, min, .a = rlx_scalar_const(g, RLX_BF16, 1), .b = x);
}

/* Each row into 3 of its columns, again and again */
static rlx_value scattered(struct rlx_graph *g, rlx_value x, int32_t reduction)
{
	int64_t at[N];
	int i;

	for (i = 0; i < N; i++)
		at[i] = i % COLS % 3;
	return rlx_emit(g, scatter_elements, .x = x, .updates = x, .axis = 1,
			.indices = rlx_constant(g, rlx_type(RLX_I64, ROWS, COLS), at),
			.reduction = reduction);
}

static rlx_value scattered_max(struct rlx_graph *g, rlx_value x)
{
	return scattered(g, x, RLX_SCATTER_MAX);
}

static rlx_value scattered_min(struct rlx_graph *g, rlx_value x)
{
	return scattered(g, x, RLX_SCATTER_MIN);
}

TEST(nan_is_the_extremum)
{
	check_floats("max", larger, with_nan, 0);
	check_floats("min", smaller, with_nan, 0);
	check_floats("the largest", largest, with_nan, 0);
	check_floats("the least", least, with_nan, 0);
	check_floats("where the largest is", where_largest, with_nan, 0);
	check_floats("where the least is", where_least, with_nan, 0);
	check_floats("a pool", pooled, with_nan, 0);
	check_floats("a scatter by max", scattered_max, with_nan, 0);
	check_floats("a scatter by min", scattered_min, with_nan, 0);
}

TEST_MAIN()
