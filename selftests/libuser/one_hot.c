// SPDX-License-Identifier: MIT
/*
 * The gradient of a choice of one element a line is no scatter where pointwise ops read it; where
 * nobody else looks at the indices, or others read it, it stays one.
 */
#include "ir/eval.h"
#include "ir/graph.h"
#include "rlx/grad.h"
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { M = 7, N = 37 };

/* What is drawn: the indices' dtype, the axis, who reads it, and whether a gather looks at them. */
struct form {
	enum rlx_dtype	dtype;
	int32_t		axis;
	bool		product, gather;
	bool		stays;
};

static struct rlx_type lines(const struct form *f, enum rlx_dtype dt)
{
	return f->axis ? rlx_type(dt, M, 1) : rlx_type(dt, 1, N);
}

/* y = 2 (u at the indices, else 0) + 1, or that times its transpose; z: what the gather finds. */
static struct rlx_graph *build(const struct form *f)
{
	static const float zero, one = 1, two = 2;
	struct rlx_graph *g = rlx_graph_new("one hot");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, M, N));
	rlx_value i = rlx_input(g, "i", lines(f, f->dtype));
	rlx_value u = rlx_input(g, "u", lines(f, RLX_F32)), y;

	y = rlx_emit(g, expand, .x = rlx_constant(g, rlx_scalar(RLX_F32), &zero),
		     .shape = RLX_INTS(M, N));
	y = rlx_emit(g, scatter_elements, .x = y, .indices = i, .updates = u, .axis = f->axis,
		     .reduction = RLX_SCATTER_ADD);
	if (f->product) {
		y = rlx_emit(g, matmul, .a = y, .b = rlx_emit(g, transpose, .x = y,
							      .perm = RLX_INTS(1, 0)));
	} else {
		y = rlx_emit(g, mul, .a = y, .b = rlx_constant(g, rlx_scalar(RLX_F32), &two));
		y = rlx_emit(g, add, .a = y, .b = rlx_constant(g, rlx_scalar(RLX_F32), &one));
	}
	rlx_output(g, "y", y);
	if (f->gather)
		x = rlx_emit(g, gather_elements, .x = x, .indices = i, .axis = f->axis);
	rlx_output(g, "z", x);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

static void set_indices(void *to, const struct form *f, uint64_t *seed)
{
	const int64_t n = f->axis ? N : M;
	int64_t i, v;

	for (i = 0; i < (f->axis ? M : N); i++) {
		v = (int64_t)(rlx_test_rand(seed) % (uint64_t)n);
		if (f->dtype != RLX_U32 && i % 3 == 1)
			v -= n;
		if (f->dtype == RLX_I64)
			((int64_t *)to)[i] = v;
		else
			((int32_t *)to)[i] = (int32_t)v;
	}
}

static void compare(struct rlx_session *s, const struct rlx_graph *g, const int64_t *i,
		    const struct form *f)
{
	static float x[M * N], u[N], y[M * N], z[M * N], own[M * N];
	const struct rlx_type *ty = rlx_program_io_type(rlx_session_program(s), RLX_IO_OUTPUT, 0);
	const struct rlx_type *tz = rlx_program_io_type(rlx_session_program(s), RLX_IO_OUTPUT, 1);
	struct rlx_tensor in[3] = { { rlx_type(RLX_F32, M, N), x },
				    { lines(f, f->dtype), (void *)(uintptr_t)i },
				    { lines(f, RLX_F32), u } };
	struct rlx_tensor out[2] = { { *ty, y }, { *tz, z } };
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	int k;

	for (k = 0; k < M * N; k++)
		x[k] = u[k % N] = (float)rlx_test_uniform(&seed, -1, 1);
	CHECKF(!rlx_graph_eval(g, in, out, &err), "%s", err.text);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", in[0].type, x));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "i", in[1].type, i));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "u", in[2].type, u));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", *ty, own));
	for (k = 0; k < rlx_type_count(ty); k++)
		CHECKF(fabsf(own[k] - y[k]) <= 1e-6f, "[%d] is %g, not %g", k, (double)own[k],
		       (double)y[k]);
}

static void run(const struct form *f)
{
	struct rlx_graph *g = build(f);
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	int64_t i[N];

	CHECKF(!rlx_compile(g, NULL, &p, &err), "%s", err.text);
	CHECK_EQ(rig_count(rlx_program_graph(p), RLX_OP_scatter_elements), f->stays);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	set_indices(i, f, &seed);
	compare(s, g, i, f);
	if (f->dtype == RLX_I64) {	/* the error is the gather's, or still the scatter's */
		i[1] = f->axis ? N : M;
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, "i", lines(f, f->dtype), i));
		CHECK_EQ(rlx_session_run(s), RLX_ERANGE);
	}
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST(scatters)
{
	static const struct form form[] = {
		{ RLX_I64, 1, false, true, false }, { RLX_I32, 1, false, true, false },
		{ RLX_U32, 1, false, true, false }, { RLX_I64, 0, false, true, false },
		{ RLX_I64, -1, false, true, false }, { RLX_I64, 1, false, false, true },
		{ RLX_I64, 1, true, true, true },
	};

	for (unsigned int k = 0; k < sizeof(form) / sizeof(form[0]); k++)
		run(&form[k]);
}

/* The gradient of a log softmax that is chosen from has neither scatter nor sum over classes. */
TEST(cross_entropy)
{
	struct rlx_graph *g = rlx_graph_new("loss"), *d;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, M, N)), y;
	rlx_value i = rlx_input(g, "i", rlx_type(RLX_I64, M, 1));
	struct rlx_error err = { 0 };
	struct rlx_program *p;

	y = rlx_emit(g, log_softmax, .x = x, .axis = 1);
	y = rlx_emit(g, gather_elements, .x = y, .indices = i, .axis = 1);
	rlx_output(g, "loss", rlx_emit(g, reduce, .x = y));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_graph_grad(g, &x, 1, &d, &err), "%s", err.text);
	CHECK_EQ(rig_count(d, RLX_OP_reduce), 1);
	CHECKF(!rlx_compile(d, NULL, &p, &err), "%s", err.text);
	CHECK_EQ(rig_count(rlx_program_graph(p), RLX_OP_scatter_elements), 0);
	CHECK_EQ(rig_count(rlx_program_graph(p), RLX_OP_eq), 0);	/* a region has it */
	rlx_program_put(p);
	rlx_graph_put(d);
	rlx_graph_put(g);
}

/* More classes than 16 bits tell apart, where values between ops have 16. */
TEST(many_classes)
{
	enum { ROWS = 5, CLASSES = 3001 };
	static const struct rlx_compile_opts o = { .size = sizeof(o),
						   .precision = RLX_PRECISION_MIXED_BF16 };
	static const int64_t i[ROWS] = { 0, -1, 2047, 2999, -CLASSES };
	static const float zero, u[ROWS] = { 1, 2, 3, 4, 5 };
	static float x[ROWS * CLASSES], y[ROWS * CLASSES];
	const struct rlx_type wide = rlx_type(RLX_F32, ROWS, CLASSES);
	struct rlx_graph *g = rlx_graph_new("many");
	rlx_value vx = rlx_input(g, "x", wide), v, z;
	rlx_value vi = rlx_input(g, "i", rlx_type(RLX_I64, ROWS, 1));
	rlx_value vu = rlx_input(g, "u", rlx_type(RLX_F32, ROWS, 1));
	struct rlx_session *s;
	int64_t r, c;

	v = rlx_emit(g, expand, .x = rlx_constant(g, rlx_scalar(RLX_F32), &zero),
		     .shape = RLX_INTS(ROWS, CLASSES));
	v = rlx_emit(g, scatter_elements, .x = v, .indices = vi, .updates = vu, .axis = 1,
		     .reduction = RLX_SCATTER_ADD);
	rlx_output(g, "y", rlx_emit(g, mul, .a = v, .b = vx));
	z = rlx_emit(g, gather_elements, .x = vx, .indices = vi, .axis = 1);
	rlx_output(g, "z", z);
	s = rig_session(g, &o);
	for (c = 0; c < ROWS * CLASSES; c++)
		x[c] = 2;
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", wide, x));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "i", rlx_type(RLX_I64, ROWS, 1), i));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "u", rlx_type(RLX_F32, ROWS, 1), u));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", wide, y));
	for (r = 0; r < ROWS; r++)
		for (c = 0; c < CLASSES; c++) {
			float want = c == (i[r] + CLASSES) % CLASSES ? 2 * u[r] : 0;

			CHECKF(y[r * CLASSES + c] == want, "[%lld, %lld] is %g, not %g",
			       (long long)r, (long long)c, (double)y[r * CLASSES + c],
			       (double)want);
		}
	rlx_session_free(s);
}

TEST_MAIN()
