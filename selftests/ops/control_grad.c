// SPDX-License-Identifier: MIT
/*
 * Gradients through if and scan: those of the chosen branch, those of the unrolled loop, on the
 * reference evaluator and compiled, in f64; second order through both.
 */
#include "ir/eval.h"
#include "ir/graph.h"
#include "rlx/grad.h"
#include "rlx/run.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

enum { L = 5, N = 3, MOST = 8 };

/* One step: s' = tanh(s w + x), count' = count + 1, y = s' b + s, z = s' . w */
static void step(struct rlx_graph *g, const rlx_value in[5], rlx_value out[4])
{
	out[0] = rlx_emit(g, tanh, .x = rlx_emit(g, add, .a = in[2],
			  .b = rlx_emit(g, mul, .a = in[0], .b = in[4])));
	out[1] = rlx_emit(g, add, .a = in[1], .b = rlx_scalar_const(g, RLX_I32, 1));
	out[2] = rlx_emit(g, add, .a = rlx_emit(g, mul, .a = out[0], .b = in[3]), .b = in[0]);
	out[3] = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = out[0], .b = in[4]));
}

static struct rlx_graph *body(void)
{
	struct rlx_graph *g = rlx_graph_new("body");
	rlx_value in[5], out[4];

	in[0] = rlx_input(g, "s", rlx_type(RLX_F64, N));
	in[1] = rlx_input(g, "count", rlx_scalar(RLX_I32));
	in[2] = rlx_input(g, "x", rlx_type(RLX_F64, N));
	in[3] = rlx_input(g, "b", rlx_scalar(RLX_F64));
	in[4] = rlx_input(g, "w", rlx_type(RLX_F64, N));
	step(g, in, out);
	rlx_output(g, "s", out[0]);
	rlx_output(g, "count", out[1]);
	rlx_output(g, "y", out[2]);
	rlx_output(g, "z", out[3]);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

static rlx_value slice(struct rlx_graph *g, rlx_value x, int64_t t, const int64_t *dim, uint32_t n)
{
	x = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(t),
		     .ends = RLX_INTS(t + 1));
	return rlx_emit(g, reshape, .x = x, .shape = { dim, n });
}

static rlx_value weighed(struct rlx_graph *g, rlx_value x, int64_t seed)
{
	struct rlx_type t = *rlx_type_of(g, x);

	return rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = x,
			.b = rlx_emit(g, rng, .type = t, .a = -1, .b = 1, .seed = seed)));
}

/* Inputs s, x[L, N], b[L], w; x and the ys may go the other way. Unrolled, or as a scan. */
static rlx_value loss(struct rlx_graph *g, const rlx_value in[4], bool scan, int back)
{
	rlx_value count = rlx_scalar_const(g, RLX_I32, 0), out[4], ys[L], zs[L], v, s = in[0];
	struct rlx_graph *b;
	int64_t t, at, n[1] = { N };

	if (scan) {
		b = body();
		v = rlx_emit(g, scan, .body_g = b, .n_carry = 2, .n_xs = 2, .length = L,
			     .reverse_xs = RLX_INTS(back & 1, 0),
			     .reverse_ys = RLX_INTS(back & 2, 0),
			     .xs = RLX_VALUES(in[0], count, in[1], in[2], in[3]));
		rlx_graph_put(b);
		for (t = 0; t < 4; t++)
			out[t] = rlx_out(g, v, (unsigned int)t);
	} else {
		for (t = 0; t < L; t++) {
			at = back & 1 ? L - 1 - t : t;
			step(g, (rlx_value[]){ s, count, slice(g, in[1], at, n, 1),
					       slice(g, in[2], t, NULL, 0), in[3] }, out);
			s = out[0];
			count = out[1];
			ys[back & 2 ? L - 1 - t : t] = rlx_emit(g, reshape, .x = out[2],
								.shape = RLX_INTS(1, N));
			zs[t] = rlx_emit(g, reshape, .x = out[3], .shape = RLX_INTS(1));
		}
		out[2] = rlx_emit(g, concat, .axis = 0, .xs = { ys, L });
		out[3] = rlx_emit(g, concat, .axis = 0, .xs = { zs, L });
	}
	v = rlx_emit(g, add, .a = weighed(g, out[0], 1), .b = weighed(g, out[2], 2));
	return rlx_emit(g, add, .a = v, .b = weighed(g, out[3], 3));
}

/* Gradients by all four inputs, and one of second order, behind each other. */
static void gradients(bool scan, int back, const char *device, double *to)
{
	struct rlx_compile_opts co = { .size = sizeof(co), .device = device };
	struct rlx_graph *g = rlx_graph_new("loop");
	static const char *const name[] = { "s", "x", "b", "w" };
	struct rlx_type t[4] = { rlx_type(RLX_F64, N), rlx_type(RLX_F64, L, N),
				 rlx_type(RLX_F64, L), rlx_type(RLX_F64, N) };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	rlx_value in[4], d[4], second, y;
	int64_t i, n;
	int k;

	for (k = 0; k < 4; k++)
		in[k] = rlx_input(g, name[k], t[k]);
	y = loss(g, in, scan, back);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
				     .wrt = { in, 4 } }, d);
	second = weighed(g, d[3], 4);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &second, 1 },
				     .wrt = { &in[1], 1 } }, &second);
	for (k = 0; k < 4; k++)
		rlx_output(g, name[k], d[k]);
	rlx_output(g, "second", second);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &co, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	for (k = 0; k < 4; k++) {
		double *x = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, name[k]));

		for (i = 0, n = rlx_type_count(&t[k]); i < n; i++)
			x[i] = sin(1.0 + (double)i * 1.7 + k);
	}
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	for (k = 0; k < 5; k++) {
		n = rlx_type_count(&t[k < 4 ? k : 1]);
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, k < 4 ? name[k] : "second",
				       t[k < 4 ? k : 1], to));
		to += n;
	}
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST(scans)
{
	enum { ALL = N + L * N + L + N + L * N };
	double want[ALL], got[ALL];
	static const char *const device[] = { "ref", "cpu" };
	int back, k, i;

	for (back = 0; back < 4; back++)
		for (k = 0; k < 2; k++) {
			gradients(false, back, device[k], want);
			memset(got, 0xa5, sizeof(got));
			gradients(true, back, device[k], got);
			for (i = 0; i < ALL; i++)
				CHECKF(fabs(got[i] - want[i]) < 1e-12,
				       "%s, directions %d: [%d] is %.15g, unrolled %.15g",
				       device[k], back, i, got[i], want[i]);
		}
}

static struct rlx_graph *branch(bool then)
{
	struct rlx_graph *g = rlx_graph_new("branch");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, N)), i, y;

	i = rlx_input(g, "i", rlx_scalar(RLX_I32));
	y = then ? rlx_emit(g, mul, .a = x, .b = rlx_emit(g, mul, .a = x, .b = x)) :
		   rlx_emit(g, exp, .x = x);
	rlx_output(g, "y", y);
	rlx_output(g, "i", i);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

TEST(ifs)
{
	struct rlx_graph *g = rlx_graph_new("if"), *t = branch(true), *e = branch(false);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, N)), y, d, d2;
	rlx_value pred = rlx_input(g, "pred", rlx_scalar(RLX_BOOL));
	double in[N] = { 1, -2, 0.5 }, first[N], second[N];
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	int k, i;

	y = rlx_emit(g, if, .pred = pred, .then_g = t, .else_g = e,
		     .xs = RLX_VALUES(x, rlx_scalar_const(g, RLX_I32, 1)));
	y = rlx_emit(g, reduce, .x = y);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
				     .wrt = { &x, 1 } }, &d);
	d2 = rlx_emit(g, reduce, .x = d);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &d2, 1 },
				     .wrt = { &x, 1 } }, &d2);
	rlx_output(g, "d", d);
	rlx_output(g, "d2", d2);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, NULL, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F64, N), in));
	for (k = 0; k < 2; k++) {
		*(bool *)rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "pred")) = k;
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "d", rlx_type(RLX_F64, N), first));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "d2", rlx_type(RLX_F64, N), second));
		for (i = 0; i < N; i++)
			CHECKF(fabs(first[i] - (k ? 3 * in[i] * in[i] : exp(in[i]))) < 1e-12 &&
			       fabs(second[i] - (k ? 6 * in[i] : exp(in[i]))) < 1e-12,
			       "pred %d: %g, %g", k, first[i], second[i]);
	}
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	rlx_graph_put(t);
	rlx_graph_put(e);
}

/* i < stop, or x = tanh(x y) + x and i + 1 */
static struct rlx_graph *loop_part(bool cond)
{
	struct rlx_graph *g = rlx_graph_new("part");
	rlx_value i = rlx_input(g, "i", rlx_scalar(RLX_I32)), y;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, N));
	rlx_value stop = rlx_input(g, "stop", rlx_scalar(RLX_I32));

	y = rlx_input(g, "y", rlx_type(RLX_F64, N));
	if (cond) {
		rlx_output(g, "go", rlx_emit(g, lt, .a = i, .b = stop));
	} else {
		rlx_output(g, "i", rlx_emit(g, add, .a = i,
					    .b = rlx_scalar_const(g, RLX_I32, 1)));
		y = rlx_emit(g, tanh, .x = rlx_emit(g, mul, .a = x, .b = y));
		rlx_output(g, "x", rlx_emit(g, add, .a = y, .b = x));
	}
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

enum { TRIPS = 4 };

/* Gradients by x and y, and by x of those by y: of a loop, or of as many steps as it does. */
static struct rlx_graph *loop(int steps)
{
	struct rlx_graph *cond = loop_part(true), *part = loop_part(false);
	struct rlx_graph *g = rlx_graph_new("loop");
	rlx_value x[2] = { rlx_input(g, "x", rlx_type(RLX_F64, N)),
			   rlx_input(g, "y", rlx_type(RLX_F64, N)) }, v = x[0], d[2], d2;
	rlx_value stop = rlx_input(g, "stop", rlx_scalar(RLX_I32));

	if (steps < 0)
		v = rlx_out(g, rlx_emit(g, while, .cond_g = cond, .body_g = part, .n_carry = 2,
			    .max_trip = TRIPS, .xs = RLX_VALUES(rlx_scalar_const(g, RLX_I32, 0),
			    x[0], stop, x[1])), 1);
	for (; steps > 0; steps--)
		v = rlx_emit(g, add, .b = v, .a = rlx_emit(g, tanh, .x =
			     rlx_emit(g, mul, .a = v, .b = x[1])));
	v = weighed(g, v, 1);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &v, 1 },
				     .wrt = { x, 2 } }, d);
	d2 = weighed(g, d[1], 2);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &d2, 1 },
				     .wrt = { x, 1 } }, &d2);
	rlx_output(g, "dx", d[0]);
	rlx_output(g, "dy", d[1]);
	rlx_output(g, "d2", d2);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	rlx_graph_put(cond);
	rlx_graph_put(part);
	return g;
}

static void run_loop(struct rlx_graph *g, const char *device, int32_t stop, double *to)
{
	struct rlx_compile_opts co = { .size = sizeof(co), .device = device };
	static const char *const name[] = { "dx", "dy", "d2" };
	const double x[N] = { 0.5, -0.3, 0.1 }, y[N] = { 0.7, 0.2, -0.9 };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	int k;

	CHECKF(!rlx_compile(g, &co, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F64, N), x));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "y", rlx_type(RLX_F64, N), y));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "stop", rlx_scalar(RLX_I32), &stop));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	for (k = 0; k < 3; k++)
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, name[k], rlx_type(RLX_F64, N),
				       to + k * N));
	rlx_session_free(s);
	rlx_program_put(p);
}

TEST(bounded_loops)
{
	struct rlx_graph *g = loop(-1), *steps;
	double want[3 * N], got[3 * N];
	int stop, k;

	for (stop = 0; stop < TRIPS + 2; stop++) {
		steps = loop(stop < TRIPS ? stop : TRIPS);
		run_loop(steps, "ref", stop, want);
		rlx_graph_put(steps);
		run_loop(g, "ref", stop, got);
		for (k = 0; k < 3 * N; k++)
			CHECKF(fabs(got[k] - want[k]) < 1e-13, "%d: [%d] is %.15g, not %.15g",
			       stop, k, got[k], want[k]);
		run_loop(g, "cpu", stop, got);
		for (k = 0; k < 3 * N; k++)
			CHECKF(fabs(got[k] - want[k]) < 1e-13, "%d: [%d] is %.15g, not %.15g",
			       stop, k, got[k], want[k]);
	}
	rlx_graph_put(g);
}

static enum rlx_status build(void *ctx)
{
	struct rlx_graph *g = rlx_graph_new("loop");
	const struct rlx_graph *const *part = ctx;
	rlx_value in[3], v, d[2];
	enum rlx_status st;

	in[0] = rlx_input(g, "s", rlx_type(RLX_F64, N));
	in[1] = rlx_input(g, "x", rlx_type(RLX_F64, L, N));
	in[2] = rlx_input(g, "b", rlx_type(RLX_F64, L));
	v = rlx_emit(g, scan, .body_g = (struct rlx_graph *)(uintptr_t)part[0], .n_carry = 2,
		     .n_xs = 2, .length = L, .xs = RLX_VALUES(in[0],
		     rlx_scalar_const(g, RLX_I32, 0), in[1], in[2], in[0]));
	v = rlx_emit(g, if, .pred = rlx_input(g, "p", rlx_scalar(RLX_BOOL)),
		     .then_g = (struct rlx_graph *)(uintptr_t)part[1],
		     .else_g = (struct rlx_graph *)(uintptr_t)part[2],
		     .xs = RLX_VALUES(v, rlx_scalar_const(g, RLX_I32, 1)));
	v = rlx_emit(g, reduce, .x = v);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &v, 1 },
				     .wrt = { in, 2 } }, d);
	rlx_output(g, "d", d[0]);
	st = rlx_graph_finish(g);
	rlx_graph_put(g);
	return st;
}

TEST(no_memory)
{
	struct rlx_graph *part[3] = { body(), branch(true), branch(false) };
	int i;

	CHECK(rlx_oom_sweep(build, part) > 100);
	for (i = 0; i < 3; i++)
		rlx_graph_put(part[i]);
}

TEST_MAIN()
