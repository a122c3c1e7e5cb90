// SPDX-License-Identifier: MIT
/* Every allocation of building, printing, parsing and deriving a graph fails. */
#include <stdio.h>

#include "rlx/grad.h"
#include "rlx/reflect.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

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

struct text {
	char	*p;
	size_t	 len;
};

static enum rlx_status parse(void *ctx)
{
	const struct text *t = ctx;
	struct rlx_graph *g = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_graph_parse(t->p, t->len, &g, &err);

	CHECKF(st == err.status, "status %d, its message %d", st, err.status);
	CHECKF(!st == !!g, "status %d and %s graph", st, g ? "a" : "no");
	rlx_graph_put(g);
	return st;
}

TEST(parse)
{
	struct rlx_graph *g = small_net(SMALL_NET_ALL, 2);
	struct text t = { 0 };
	FILE *f = open_memstream(&t.p, &t.len);

	CHECKF(!rlx_graph_error(g)->status, "%s", rlx_graph_error(g)->text);
	CHECK_EQ(rlx_graph_print(g, f, false), 0);
	fclose(f);
	rlx_graph_put(g);
	CHECK(rlx_oom_sweep(parse, &t) > 5);
	free(t.p);
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

TEST_MAIN()
