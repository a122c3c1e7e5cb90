// SPDX-License-Identifier: MIT
/* Every allocation of building, printing, parsing and deriving a graph fails. */
#include <stdio.h>

#include "rlx/grad.h"
#include "rlx/reflect.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"
#include "selftests/oom/parse.h"

static enum rlx_status build(void *ctx)
{
	struct rlx_graph *g = small_net(SMALL_NET_ALL, 2);
	enum rlx_status st = rlx_graph_error(g)->status;

	(void)ctx;
	if (!st)
		rlx_graph_hash(g);
	rlx_graph_put(g);
	return st;
}

TEST(build)
{
	CHECK(rlx_oom_sweep(build, NULL) > 5);
}

static enum rlx_status named(void *ctx)
{
	struct rlx_op_arg a[] = {
		{ .name = "x", .kind = RLX_ARG_VALUE },
		{ .name = "axes", .kind = RLX_ARG_TEXT, .text = "[0, 1]" },
	};
	struct rlx_graph *g = rlx_graph_new("named");
	enum rlx_status st;

	(void)ctx;
	a[0].value = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	rlx_emit_named(g, "reduce", a, 2, __FILE__, __LINE__);
	st = g ? rlx_graph_error(g)->status : RLX_ENOMEM;
	rlx_graph_put(g);
	return st;
}

TEST(named)
{
	CHECK(rlx_oom_sweep(named, NULL) > 5);
}

TEST(parse)
{
	CHECK(oom_parse_sweep(small_net(SMALL_NET_ALL, 2)) > 5);
}

static enum rlx_status draw(void *ctx)
{
	FILE *f = fopen("/dev/null", "w");
	enum rlx_status st = rlx_graph_svg(ctx, f);

	fclose(f);
	return st;
}

TEST(draw)
{
	struct rlx_graph *g = small_net(SMALL_NET_ALL, 2);

	CHECKF(!rlx_graph_error(g)->status, "%s", rlx_graph_error(g)->text);
	CHECK(rlx_oom_sweep(draw, g) > 0);
	rlx_graph_put(g);
}

/* The derivative of the parts that have one, by the param and the input. */
static enum rlx_status derive(void *ctx)
{
	struct rlx_graph *g = ctx, *d = NULL;
	rlx_value by[] = { rlx_graph_io_value(g, RLX_IO_INPUT, 0),
			   rlx_graph_io_value(g, RLX_IO_PARAM, 0) };
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_graph_vjp(g, by, 2, &d, &err);

	CHECKF(!st || st == RLX_ENOMEM, "%s", err.text);
	rlx_graph_put(d);
	return st;
}

TEST(derive)
{
	struct rlx_graph *g = small_net(SMALL_NET_ALL & ~SMALL_NET_SUB, 2);

	CHECKF(!rlx_graph_error(g)->status, "%s", rlx_graph_error(g)->text);
	CHECK(rlx_oom_sweep(derive, g) > 5);
	rlx_graph_put(g);
}

/* A part of a loop that halves its carry. */
static struct rlx_graph *loop_part(bool cond)
{
	struct rlx_graph *g = rlx_graph_new("part");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2));

	if (cond)
		rlx_output(g, "go", rlx_scalar_const(g, RLX_BOOL, 1));
	else
		rlx_output(g, "x", rlx_emit(g, mul, .a = x,
					    .b = rlx_scalar_const(g, RLX_F32, 0.5)));
	if (rlx_graph_finish(g))
		CHECK_EQ(rlx_graph_error(g)->status, RLX_ENOMEM);
	return g;
}

/* Gradients through a loop and a recurrence, and through those once more. */
static enum rlx_status derive_steps(void *ctx)
{
	struct rlx_graph *g = rlx_graph_new("steps"), *cond = loop_part(true);
	struct rlx_graph *part = loop_part(false);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 3, 1, 2)), y[2], d;
	rlx_value w = rlx_input(g, "w", rlx_type(RLX_F32, 1, 8, 2));
	struct rlx_ad a = { .size = sizeof(a), .of = { y, 1 }, .wrt = { &w, 1 } };
	enum rlx_status st = rlx_graph_error(cond)->status;
	int i;

	(void)ctx;
	if (!st)
		st = rlx_graph_error(part)->status;
	y[0] = rlx_emit(g, lstm, .x = x, .w = w, .r = w);
	y[0] = rlx_emit(g, reduce, .x = y[0], .axes = RLX_INTS(0, 1, 2), .kind = RLX_REDUCE_SUM);
	if (!st)
		y[0] = rlx_emit(g, while, .cond_g = cond, .body_g = part, .n_carry = 1,
				.max_trip = 2, .xs = { y, 1 });
	for (i = 0; i < 2 && !st; i++) {
		y[0] = rlx_emit(g, reduce, .x = y[0], .kind = RLX_REDUCE_SUM);
		rlx_vjp(g, &a, &d);
		y[0] = rlx_emit(g, mul, .a = d, .b = d);
	}
	rlx_output(g, "d", y[0]);
	if (!st)
		st = rlx_graph_finish(g);
	CHECKF(!st || st == RLX_ENOMEM, "%s: %s", rlx_status_name(st), rlx_graph_error(g)->text);
	rlx_graph_put(part);
	rlx_graph_put(cond);
	rlx_graph_put(g);
	return st;
}

TEST(derive_steps)
{
	CHECK_EQ(derive_steps(NULL), 0);
	CHECK(rlx_oom_sweep(derive_steps, NULL) > 100);
}

TEST_MAIN()
