// SPDX-License-Identifier: MIT
/* Graphs used as ops: what they compute, gradients of their own, calls in calls, misuse. */
#include "ir/graph.h"
#include "rlx/compile.h"
#include "rlx/custom.h"
#include "rlx/grad.h"
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static const int64_t LEN = 3;

/* y = x^2, z = x + w */
static struct rlx_graph *body(void)
{
	struct rlx_graph *g = rlx_graph_new("body");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, LEN));
	rlx_value w = rlx_input(g, "w", rlx_type(RLX_F32, LEN));

	rlx_output(g, "y", rlx_emit(g, mul, .a = x, .b = x));
	rlx_output(g, "z", rlx_emit(g, add, .a = x, .b = w));
	CHECK(!rlx_graph_finish(g));
	return g;
}

/* d_x = 10 d_y + z; nothing for w */
static struct rlx_graph *rule(void)
{
	struct rlx_graph *g = rlx_graph_new("rule");
	rlx_value d = rlx_input(g, "d_y", rlx_type(RLX_F32, LEN));
	rlx_value z = rlx_input(g, "z", rlx_type(RLX_F32, LEN));

	d = rlx_emit(g, mul, .a = d, .b = rlx_scalar_const(g, RLX_F32, 10));
	rlx_output(g, "d_x", rlx_emit(g, add, .a = d, .b = z));
	CHECK(!rlx_graph_finish(g));
	return g;
}

static void derivative(struct rlx_graph *g, rlx_value of, rlx_value seed, rlx_value x, rlx_value w,
		       rlx_value *d)
{
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(of),
				     .seed = RLX_VALUES(seed), .wrt = RLX_VALUES(x, w) }, d);
}

EVERYWHERE(a_gradient_of_its_own)
{
	struct rlx_graph *b = body(), *v = rule();
	rlx_value x, w, seed, out[2], d[2];
	int64_t i;

	x = rig_random(r, rlx_type(RLX_F32, LEN), -2, 2);
	w = rig_random(r, rlx_type(RLX_F32, LEN), -2, 2);
	seed = rig_random(r, rlx_type(RLX_F32, LEN), -2, 2);
	CHECK(!rlx_call(r->g, b, RLX_VALUES(x, w), v, out));
	derivative(r->g, out[0], seed, x, w, d);
	rig_output(r, out[0]);
	rig_output(r, out[1]);
	rig_output(r, d[0]);
	rig_output(r, d[1]);
	rig_run(r);
	for (i = 0; i < LEN; i++) {
		rig_want(r, 0, i, rig_in(r, 0, i) * rig_in(r, 0, i), 1e-6);
		rig_want(r, 1, i, rig_in(r, 0, i) + rig_in(r, 1, i), 1e-6);
		rig_want(r, 2, i, 10 * rig_in(r, 2, i) + rig_in(r, 0, i) + rig_in(r, 1, i), 1e-5);
		rig_want(r, 3, i, 0, 0);
	}
	rlx_graph_put(b);
	rlx_graph_put(v);
}

EVERYWHERE(without_one)
{
	struct rlx_graph *b = body();
	rlx_value x, w, seed, out[2], d[2];
	int64_t i;

	x = rig_random(r, rlx_type(RLX_F32, LEN), -2, 2);
	w = rig_random(r, rlx_type(RLX_F32, LEN), -2, 2);
	seed = rig_random(r, rlx_type(RLX_F32, LEN), -2, 2);
	CHECK(!rlx_call(r->g, b, RLX_VALUES(x, w), NULL, out));
	CHECK_EQ(rig_count(r->g, RLX_OP_call), 0);
	derivative(r->g, out[0], seed, x, w, d);
	rig_output(r, d[0]);
	rig_run(r);
	for (i = 0; i < LEN; i++)
		rig_want(r, 0, i, 2 * rig_in(r, 0, i) * rig_in(r, 2, i), 1e-5);
	rlx_graph_put(b);
}

/* The derivative that the library makes is a rule as it is; a tangent goes through it. */
EVERYWHERE(a_rule_that_was_derived)
{
	struct rlx_graph *b = body(), *v = NULL;
	const rlx_value wrt[2] = { rlx_graph_io_find(b, RLX_IO_INPUT, "x"),
				   rlx_graph_io_find(b, RLX_IO_INPUT, "w") };
	struct rlx_graph *own = rlx_graph_new("rule");
	rlx_value x, w, t, out[2], dot, in[4], o[4];
	const char *const names[] = { "x", "w", "d_y", "d_z" };
	int64_t i;

	CHECK(!rlx_graph_vjp(b, wrt, 2, &v, NULL));
	for (i = 0; i < 4; i++)
		in[i] = rlx_input(own, names[i], rlx_type(RLX_F32, LEN));
	CHECK(!rlx_graph_inline(own, v, &(struct rlx_inline){ .size = sizeof(struct rlx_inline),
			.name = names, .value = in, .n = 4 }, o));
	rlx_output(own, "d_x", o[2]);
	rlx_output(own, "d_w", o[3]);
	CHECK(!rlx_graph_finish(own));
	x = rig_random(r, rlx_type(RLX_F32, LEN), -2, 2);
	w = rig_random(r, rlx_type(RLX_F32, LEN), -2, 2);
	t = rig_random(r, rlx_type(RLX_F32, LEN), -2, 2);
	CHECK(!rlx_call(r->g, b, RLX_VALUES(x, w), own, out));
	rlx_jvp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(out[0]),
					.wrt = RLX_VALUES(x), .tangent = RLX_VALUES(t) }, &dot);
	rig_output(r, dot);
	rig_run(r);
	for (i = 0; i < LEN; i++)
		rig_want(r, 0, i, 2 * rig_in(r, 0, i) * rig_in(r, 2, i), 1e-5);
	rlx_graph_put(b);
	rlx_graph_put(v);
	rlx_graph_put(own);
}

/* A call in a call in a loop; compiled, nothing of them is left. */
EVERYWHERE(calls_in_calls)
{
	struct rlx_graph *b = body(), *v = rule(), *outer = rlx_graph_new("outer");
	struct rlx_graph *loop = rlx_graph_new("loop");
	rlx_value x, w, out[2];
	int64_t i;
	double y;
	int k;

	x = rlx_input(outer, "p", rlx_type(RLX_F32, LEN));
	CHECK(!rlx_call(outer, b, RLX_VALUES(x, x), v, out));
	rlx_output(outer, "q", rlx_emit(outer, tanh, .x = out[0]));
	CHECK(!rlx_graph_finish(outer));
	x = rlx_input(loop, "c", rlx_type(RLX_F32, LEN));
	CHECK(!rlx_call(loop, outer, RLX_VALUES(x), NULL, &w));
	rlx_output(loop, "next", w);
	CHECK(!rlx_graph_finish(loop));
	x = rig_random(r, rlx_type(RLX_F32, LEN), 0.5, 2);
	rig_output(r, rlx_emit(r->g, scan, .xs = RLX_VALUES(x), .n_carry = 1, .length = 2,
			       .body_g = loop));
	rig_run(r);
	for (i = 0; i < LEN; i++) {
		for (y = rig_in(r, 0, i), k = 0; k < 2; k++)
			y = tanh(y * y);
		rig_want(r, 0, i, y, 1e-5);
	}
	rlx_graph_put(loop);
	rlx_graph_put(outer);
	rlx_graph_put(b);
	rlx_graph_put(v);
}

/* Deeper than the text form nests, and than an op may expand into others. */
TEST(deep)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_graph *b = body(), *v = rule(), *g;
	float x[3] = { 0.5f, -1, 0.25f }, y[3];
	struct rlx_session *s;
	rlx_value in, out[2];
	int i;

	for (i = 0; i < 40; i++) {
		g = rlx_graph_new("around");
		in = rlx_input(g, "x", rlx_type(RLX_F32, LEN));
		rlx_input(g, "w", rlx_type(RLX_F32, LEN));
		CHECK(!rlx_call(g, b, RLX_VALUES(in, in), v, out));
		rlx_output(g, "y", out[0]);
		rlx_output(g, "z", rlx_emit(g, add, .a = out[1], .b = in));
		CHECK(!rlx_graph_finish(g));
		rlx_graph_put(b);
		b = g;
	}
	s = rig_session(b, &o);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, LEN), x));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "w", rlx_type(RLX_F32, LEN), x));
	CHECK(!rlx_session_run(s));
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, LEN), y));
	for (i = 0; i < LEN; i++)
		CHECK(y[i] == x[i] * x[i]);
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "z", rlx_type(RLX_F32, LEN), y));
	for (i = 0; i < LEN; i++)
		CHECK(y[i] == 42 * x[i]);
	rlx_session_free(s);
	rlx_graph_put(v);
}

TEST(compiled_in_place)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu",
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_graph *g = rlx_graph_new("caller"), *b = body(), *v = rule();
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, LEN)), out[2];
	struct rlx_session *s;

	CHECK(!rlx_call(g, b, RLX_VALUES(x, x), v, out));
	rlx_output(g, "y", rlx_emit(g, relu, .x = out[0]));
	CHECK_EQ(rig_count(g, RLX_OP_call), 1);
	s = rig_session(g, &o);
	CHECK_EQ(rig_count(rlx_program_graph(rlx_session_program(s)), RLX_OP_call), 0);
	CHECK_EQ(rig_count(rlx_program_graph(rlx_session_program(s)), RLX_OP_region), 1);
	rlx_session_free(s);
	rlx_graph_put(b);
	rlx_graph_put(v);
}

/* ---- misuse ---- */

/* @name: of the rule's only input, @d: of its only output, both of @n elements. */
static void refused(const char *name, const char *d, int64_t n, enum rlx_status st,
		    const char *want)
{
	struct rlx_graph *g = rlx_graph_new("caller"), *b = body(), *v = rlx_graph_new("rule");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, LEN)), out[2] = { { 7 }, { 7 } };

	rlx_output(v, d, rlx_emit(v, neg, .x = rlx_input(v, name, rlx_type(RLX_F32, n))));
	CHECK(!rlx_graph_finish(v));
	CHECK_EQ(rlx_call(g, b, RLX_VALUES(x, x), v, out), st);
	CHECKF(strstr(rlx_graph_error(g)->text, want), "'%s'", rlx_graph_error(g)->text);
	rlx_graph_put(g);
	rlx_graph_put(b);
	rlx_graph_put(v);
}

TEST(refusals)
{
	struct rlx_graph *g = rlx_graph_new("caller"), *b = body(), *open = rlx_graph_new("open");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, LEN)), out[2];

	refused("d_q", "d_x", LEN, RLX_ENOENT, "vjp_g's input 'd_q' is no input or output");
	refused("d_y", "x", LEN, RLX_ENOENT, "vjp_g's output 'x' is not d_ and an input");
	refused("d_y", "d_q", LEN, RLX_ENOENT, "vjp_g's output 'd_q'");
	refused("d_y", "d_x", LEN + 1, RLX_ESHAPE, "input 0 of vjp_g is f32[4]");
	CHECK_EQ(rlx_call(g, b, RLX_VALUES(x), NULL, out), RLX_EINVAL);
	CHECK(strstr(rlx_graph_error(g)->text, "takes 2 inputs, not 1"));
	rlx_graph_put(g);
	g = rlx_graph_new("caller");
	CHECK_EQ(rlx_call(g, open, (struct rlx_values){ 0 }, NULL, out), RLX_EINVAL);
	rlx_graph_put(g);
	g = rlx_graph_new("caller");
	x = rlx_input(g, "x", rlx_type(RLX_F32, LEN + 1));
	CHECK_EQ(rlx_call(g, b, RLX_VALUES(x, x), b, out), RLX_ESHAPE);
	CHECK(strstr(rlx_graph_error(g)->text, "input 0 of body_g is f32[3], f32[4] is needed"));
	rlx_graph_put(g);
	CHECK(rlx_call(NULL, b, RLX_VALUES(x, x), NULL, out) != RLX_OK);
	rlx_graph_put(b);
	rlx_graph_put(open);
}

TEST_MAIN()
