// SPDX-License-Identifier: MIT
/*
 * Gradients at points by name: zeros among factors, ties, infinities, powers of 0. Values are
 * exact, in f64 by the reference evaluator, and in f32 as "cpu" compiles it.
 */
#include "ir/eval.h"
#include "ir/graph.h"
#include "ir/element.h"
#include "rlx/grad.h"
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { MOST = 8 };
#define INF INFINITY

/* y = op(a[n], b[n_b]), the weights of y, and what comes out; n_b 0: there is no b. */
struct point {
	const char	*name;
	rlx_value	(*y)(struct rlx_graph *g, rlx_value a, rlx_value b);
	unsigned int	 n, n_b;
	double		 a[MOST], b[MOST], dy[MOST], da[MOST], db[MOST];
};

#define Y(name, ...)							\
	static rlx_value y_##name(struct rlx_graph *g, rlx_value a, rlx_value b) \
	{								\
		return rlx_emit(g, __VA_ARGS__);			\
	}
Y(prod, reduce, .x = a, .axes = RLX_INTS(0), .kind = RLX_REDUCE_PROD)
Y(prod_rows, reduce, .x = rlx_emit(g, reshape, .x = a, .shape = RLX_INTS(2, 1, 3)),
  .axes = RLX_INTS(0, 1), .kind = RLX_REDUCE_PROD)
Y(max, reduce, .x = a, .axes = RLX_INTS(0), .kind = RLX_REDUCE_MAX)
Y(cumprod, cumprod, .x = a, .axis = 0)
Y(cumprod_ex, cumprod, .x = a, .axis = 0, .exclusive = true)
Y(cumprod_rev, cumprod, .x = a, .axis = 0, .reverse = true)
Y(cumprod_ex_rev, cumprod, .x = a, .axis = 0, .exclusive = true, .reverse = true)
Y(pow, pow, .a = a, .b = b)
Y(relu, relu, .x = a)
Y(abs, abs, .x = a)
Y(round, round, .x = a)
Y(floor, floor, .x = a)
Y(hard_swish, hard_swish, .x = a)
Y(maximum, max, .a = a, .b = b)
Y(minimum, min, .a = a, .b = b)
Y(where, where, .cond = rlx_emit(g, gt, .a = a, .b = rlx_emit(g, neg, .x = a)), .a = a, .b = b)
Y(scatter, scatter_elements, .x = a, .updates = b, .reduction = RLX_SCATTER_MUL,
  .indices = rlx_constant(g, rlx_type(RLX_I64, 4), ((int64_t[]){ 0, 2, 2, -1 })))
Y(scatter_nd, scatter_nd, .x = a, .updates = b, .reduction = RLX_SCATTER_MUL,
  .indices = rlx_constant(g, rlx_type(RLX_I64, 4, 1), ((int64_t[]){ 0, 2, 2, -1 })))

static const struct point points[] = {
	{ "prod of no 0", y_prod, 3, 0, { 2, 3, 5 }, { 0 }, { 1 }, { 15, 10, 6 } },
	{ "prod of one 0", y_prod, 3, 0, { 2, 0, 5 }, { 0 }, { 3 }, { 0, 30, 0 } },
	{ "prod of two 0", y_prod, 3, 0, { 0, 3, 0 }, { 0 }, { 1 }, { 0, 0, 0 } },
	{ "prod of one", y_prod, 1, 0, { 0 }, { 0 }, { 7 }, { 7 } },
	{ "prod over rows", y_prod_rows, 6, 0, { 1, 0, 3, 4, 5, 0 }, { 0 }, { 1, 2, 3 },
	  { 4, 10, 0, 1, 0, 9 } },
	{ "max of ties", y_max, 4, 0, { 1, 4, 4, 2 }, { 0 }, { 6 }, { 0, 3, 3, 0 } },
	{ "cumprod with 0", y_cumprod, 4, 0, { 2, 0, 3, 5 }, { 0 }, { 1, 1, 1, 1 },
	  { 1, 38, 0, 0 } },
	{ "cumprod with two 0", y_cumprod, 5, 0, { 2, 0, 3, 0, 7 }, { 0 }, { 1, 1, 1, 1, 1 },
	  { 1, 8, 0, 0, 0 } },
	{ "exclusive cumprod with 0", y_cumprod_ex, 4, 0, { 2, 0, 3, 5 }, { 0 }, { 1, 1, 1, 1 },
	  { 1, 8, 0, 0 } },
	{ "reverse cumprod with 0", y_cumprod_rev, 4, 0, { 5, 3, 0, 2 }, { 0 }, { 1, 1, 1, 1 },
	  { 0, 0, 38, 1 } },
	{ "exclusive reverse cumprod with 0", y_cumprod_ex_rev, 4, 0, { 5, 3, 0, 2 }, { 0 },
	  { 1, 1, 1, 1 }, { 0, 0, 8, 1 } },
	{ "cumprod of one", y_cumprod_ex, 1, 0, { 3 }, { 0 }, { 1 }, { 0 } },
	{ "pow at 0", y_pow, 5, 5, { 0, 0, 0, -2, 3 }, { 0, 1, 2, 3, 0 }, { 1, 1, 1, 1, 2 },
	  { 0, 1, 0, 12, 0 }, { 0, 0, 0, 0, 2 * 1.0986122886681098 } },
	{ "relu at 0 and inf", y_relu, 4, 0, { -1, 0, 2, -INF }, { 0 }, { INF, 5, INF, INF },
	  { 0, 0, INF, 0 } },
	{ "abs at 0", y_abs, 4, 0, { -1, 0, 2, -3 }, { 0 }, { INF, INF, INF, 4 },
	  { -INF, 0, INF, -4 } },
	{ "round", y_round, 3, 0, { 0.4, 0.5, 7 }, { 0 }, { 1, INF, 2 }, { 0, 0, 0 } },
	{ "floor", y_floor, 3, 0, { 0.4, 0.5, 7 }, { 0 }, { 1, INF, 2 }, { 0, 0, 0 } },
	{ "hard_swish beyond its ends", y_hard_swish, 3, 0, { -4, 4, 0 }, { 0 }, { INF, INF, 2 },
	  { 0, INF, 1 } },
	{ "max of pairs", y_maximum, 3, 3, { 1, 2, 3 }, { 3, 2, 1 }, { INF, 8, INF },
	  { 0, 4, INF }, { INF, 4, 0 } },
	{ "min of pairs", y_minimum, 3, 3, { 1, 2, 3 }, { 3, 2, 1 }, { INF, 8, INF },
	  { INF, 4, 0 }, { 0, 4, INF } },
	{ "min of one and many", y_minimum, 3, 1, { 1, 2, 3 }, { 2 }, { 1, 2, 4 },
	  { 1, 1, 0 }, { 5 } },
	{ "where", y_where, 3, 3, { 1, -1, 2 }, { 5, 6, 7 }, { INF, INF, 3 },
	  { INF, 0, 3 }, { 0, INF, 0 } },
	{ "scatter mul without 0", y_scatter, 4, 4, { 2, 3, 5, 7 }, { 11, 2, 3, 4 },
	  { 1, 1, 1, 1 }, { 11, 1, 6, 4 }, { 2, 15, 10, 7 } },
	{ "scatter mul of one 0", y_scatter, 4, 4, { 0, 0, 5, 7 }, { 11, 0, 3, 0 },
	  { 1, 2, 1, 3 }, { 11, 2, 0, 0 }, { 0, 15, 0, 21 } },
	{ "scatter mul of several 0", y_scatter_nd, 4, 4, { 0, 2, 5, 0 }, { 0, 0, 0, 3 },
	  { 1, 2, 1, 3 }, { 0, 2, 0, 9 }, { 0, 0, 0, 0 } },
};

/* The gradient's graph of a point in @dt. */
static struct rlx_graph *derive(const struct point *p, enum rlx_dtype dt)
{
	struct rlx_graph *g = rlx_graph_new(p->name), *d = NULL;
	struct rlx_error err = { 0 };
	rlx_value wrt[2] = { rlx_input(g, "a", rlx_type(dt, p->n)) };

	if (p->n_b)
		wrt[1] = rlx_input(g, "b", rlx_type(dt, p->n_b));
	rlx_output(g, "y", p->y(g, wrt[0], wrt[1]));
	CHECKF(!rlx_graph_finish(g), "%s: %s", p->name, rlx_graph_error(g)->text);
	CHECKF(!rlx_graph_vjp(g, wrt, p->n_b ? 2 : 1, &d, &err), "%s: %s", p->name, err.text);
	rlx_graph_put(g);
	return d;
}

static void compare(const struct point *p, const char *what, unsigned int i, double got,
		    double want, double tol)
{
	CHECKF(got == want || fabs(got - want) <= tol * fabs(want),
	       "%s: %s[%u] is %.17g, not %.17g", p->name, what, i, got, want);
}

TEST(reference)
{
	unsigned int k, i;

	for (k = 0; k < sizeof(points) / sizeof(points[0]); k++) {
		const struct point *p = &points[k];
		struct rlx_graph *d = derive(p, RLX_F64);
		double y[MOST], da[MOST], db[MOST];
		struct rlx_tensor in[3] = { { rlx_type(RLX_F64, p->n), (void *)(uintptr_t)p->a } };
		struct rlx_tensor out[3] = { { .data = y }, { .data = da }, { .data = db } };
		struct rlx_error err = { 0 };

		in[1] = (struct rlx_tensor){ rlx_type(RLX_F64, p->n_b), (void *)(uintptr_t)p->b };
		in[p->n_b ? 2 : 1].data = (void *)(uintptr_t)p->dy;
		in[p->n_b ? 2 : 1].type = *rlx_type_of(d, rlx_graph_io_value(d, RLX_IO_INPUT,
									     p->n_b ? 2 : 1));
		for (i = 0; i < rlx_graph_io_count(d, RLX_IO_OUTPUT); i++)
			out[i].type = *rlx_type_of(d, rlx_graph_io_value(d, RLX_IO_OUTPUT, i));
		memset(da, 0xa5, sizeof(da));
		memset(db, 0xa5, sizeof(db));
		CHECKF(!rlx_graph_eval(d, in, out, &err), "%s: %s", p->name, err.text);
		for (i = 0; i < p->n; i++)
			compare(p, "da in f64", i, da[i], p->da[i], 1e-15);
		for (i = 0; i < p->n_b; i++)
			compare(p, "db in f64", i, db[i], p->db[i], 1e-15);
		rlx_graph_put(d);
	}
}

static void set_f32(struct rlx_session *s, const char *name, const double *v)
{
	struct rlx_buf b = rlx_session_buf(s, RLX_IO_INPUT, name);
	float *to = rlx_buf_ptr(b);
	unsigned int i;

	CHECK(to);
	for (i = 0; i < b.bytes / 4 && i < MOST; i++)
		to[i] = (float)v[i];
}

TEST(compiled)
{
	unsigned int k, i;

	for (k = 0; k < sizeof(points) / sizeof(points[0]); k++) {
		const struct point *p = &points[k];
		struct rlx_graph *d = derive(p, RLX_F32);
		struct rlx_program *prog = NULL;
		struct rlx_session *s = NULL;
		struct rlx_error err = { 0 };
		float da[MOST], db[MOST];

		CHECKF(!rlx_compile(d, NULL, &prog, &err), "%s: %s", p->name, err.text);
		CHECKF(!rlx_session_new(prog, NULL, &s, &err), "%s: %s", p->name, err.text);
		set_f32(s, "a", p->a);
		if (p->n_b)
			set_f32(s, "b", p->b);
		set_f32(s, "d_y", p->dy);
		CHECKF(!rlx_session_run(s), "%s: %s", p->name, rlx_session_error(s)->text);
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "d_a", rlx_type(RLX_F32, p->n), da));
		if (p->n_b)
			CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "d_b", rlx_type(RLX_F32, p->n_b),
					       db));
		for (i = 0; i < p->n; i++)
			compare(p, "da on cpu", i, (double)da[i], p->da[i], 1e-6);
		for (i = 0; i < p->n_b; i++)
			compare(p, "db on cpu", i, (double)db[i], p->db[i], 1e-6);
		rlx_session_free(s);
		rlx_program_put(prog);
		rlx_graph_put(d);
	}
}

/* The gradient of the gradient of a product: with zeros it is exact as well. */
TEST(second_order)
{
	static const double a[3] = { 2, 0, 5 }, v[3] = { 1, 10, 100 };
	/* the Hessian of a0 a1 a2 times v */
	static const double want[3] = { 5 * 10 + 0 * 100, 5 * 1 + 2 * 100, 0 * 1 + 2 * 10 };
	struct rlx_graph *g = rlx_graph_new("second"), *d = NULL;
	struct rlx_tensor in, out[2];
	struct rlx_error err = { 0 };
	double h[3], one;
	rlx_value x;
	unsigned int i;

	/* <gradient, v>, the gradient being as its rule emits it */
	x = rlx_input(g, "a", rlx_type(RLX_F64, 3));
	rlx_output(g, "y", rlx_emit(g, reduce, .kind = RLX_REDUCE_SUM, .x = rlx_emit(g, mul,
		.a = rlx_emit(g, mul, .a = y_cumprod_ex(g, x, x), .b = y_cumprod_ex_rev(g, x, x)),
		.b = rlx_constant(g, rlx_type(RLX_F64, 3), v))));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_graph_grad(g, &x, 1, &d, &err), "%s", err.text);
	in = (struct rlx_tensor){ rlx_type(RLX_F64, 3), (void *)(uintptr_t)a };
	out[0] = (struct rlx_tensor){ rlx_scalar(RLX_F64), &one };
	out[1] = (struct rlx_tensor){ rlx_type(RLX_F64, 3), h };
	CHECKF(!rlx_graph_eval(d, &in, out, &err), "%s", err.text);
	for (i = 0; i < 3; i++)
		CHECKF(h[i] == want[i], "H v [%u] is %g, not %g", i, h[i], want[i]);
	rlx_graph_put(d);
	rlx_graph_put(g);
}

/*
 * In f64 a fused op computes what was written: attributes of f32 would take the last digits
 * of scale and eps away, and the gradient, which is derived from what is written, keeps them.
 */
TEST(f64_constants)
{
	static const double scale[] = { 0.35355339059327373, 0.3, 0.5 };
	unsigned int k, i;

	for (k = 0; k < 3; k++) {
		struct rlx_compile_opts co = { .size = sizeof(co), .device = "ref" };
		struct rlx_graph *g = rlx_graph_new("attention");
		rlx_value q = rlx_input(g, "q", rlx_type(RLX_F64, 1, 2, 3, 8)), s, m, x;
		double in[48], y[2][48], n[2][48];
		struct rlx_error err = { 0 };
		uint64_t seed = rlx_test_seed();

		s = rlx_emit(g, matmul, .a = q, .b = rlx_emit(g, transpose, .x = q,
							      .perm = RLX_INTS(0, 1, 3, 2)));
		s = rlx_emit(g, mul, .a = s, .b = rlx_scalar_const(g, RLX_F64, scale[k]));
		s = rlx_emit(g, softmax, .x = s, .axis = -1);
		rlx_output(g, "y", rlx_emit(g, matmul, .a = s, .b = q));
		m = rlx_emit(g, reduce, .x = q, .axes = RLX_INTS(3), .kind = RLX_REDUCE_MEAN,
			     .keep_dims = true);
		x = rlx_emit(g, sub, .a = q, .b = m);
		m = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = x, .b = x), .axes = RLX_INTS(3),
			     .kind = RLX_REDUCE_MEAN, .keep_dims = true);
		m = rlx_emit(g, add, .a = m, .b = rlx_scalar_const(g, RLX_F64, scale[k] / 10));
		rlx_output(g, "n", rlx_emit(g, div, .a = x, .b = rlx_emit(g, sqrt, .x = m)));
		CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
		for (i = 0; i < 48; i++)
			in[i] = rlx_test_uniform(&seed, -1, 1);
		for (i = 0; i < 2; i++) {
			struct rlx_program *p = NULL;
			struct rlx_session *ss = NULL;

			co.device = i ? "cpu" : "ref";
			co.flags = i ? 0 : RLX_COMPILE_NO_FUSE | RLX_COMPILE_NO_SIMPLIFY;
			CHECKF(!rlx_compile(g, &co, &p, &err), "%s", err.text);
			CHECKF(!rlx_session_new(p, NULL, &ss, &err), "%s", err.text);
			CHECK(!rlx_session_set(ss, RLX_IO_INPUT, "q",
					       rlx_type(RLX_F64, 1, 2, 3, 8), in));
			CHECKF(!rlx_session_run(ss), "%s", rlx_session_error(ss)->text);
			CHECK(!rlx_session_get(ss, RLX_IO_OUTPUT, "y",
					       rlx_type(RLX_F64, 1, 2, 3, 8), y[i]));
			CHECK(!rlx_session_get(ss, RLX_IO_OUTPUT, "n",
					       rlx_type(RLX_F64, 1, 2, 3, 8), n[i]));
			rlx_session_free(ss);
			rlx_program_put(p);
		}
		for (i = 0; i < 48; i++)
			CHECKF(fabs(y[0][i] - y[1][i]) < 1e-13 && fabs(n[0][i] - n[1][i]) < 1e-13,
			       "scale %.17g: %.17g and %.17g, %.17g and %.17g", scale[k], y[0][i],
			       y[1][i], n[0][i], n[1][i]);
		rlx_graph_put(g);
	}
}

static rlx_value derivative(struct rlx_graph *g, rlx_value y, rlx_value x)
{
	rlx_value d;

	y = rlx_emit(g, reduce, .x = y, .kind = RLX_REDUCE_SUM);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
				     .wrt = { &x, 1 } }, &d);
	return d;
}

Y(softplus, softplus, .x = a)
Y(silu, silu, .x = a)
Y(mish, mish, .x = a)
Y(sigmoid, sigmoid, .x = a)

/* Where exp(-x) is infinite, and in between, derivatives of derivatives are numbers. */
TEST(second_derivatives_far_out)
{
	static const double at[6] = { -2000, -800, -100, -3, 0, 900 };
	rlx_value (*const ops[])(struct rlx_graph *g, rlx_value a, rlx_value b) = {
		y_softplus, y_silu, y_mish, y_sigmoid,
	};
	unsigned int k, i;

	for (k = 0; k < sizeof(ops) / sizeof(ops[0]); k++) {
		struct rig r;
		rlx_value x, d;

		rig_init(&r, "cpu");
		x = rig_input(&r, rlx_type(RLX_F64, 6), at);
		d = derivative(r.g, ops[k](r.g, x, RLX_NONE), x);
		rig_output(&r, derivative(r.g, d, x));
		rig_run(&r);
		for (i = 0; i < 6; i++)
			CHECKF(isfinite(rig_get(&r, 0, i)), "op %u at %g: %g", k, at[i],
			       rig_get(&r, 0, i));
		rig_want(&r, 0, 1, 0, 1e-12);	/* the curves are straight out there */
		rig_want(&r, 0, 5, 0, 1e-12);
		rig_fini(&r);
	}
}

TEST_MAIN()
