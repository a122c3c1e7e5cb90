// SPDX-License-Identifier: MIT
/* Every allocation fails once of graphs with names for sizes: built, bound, read, and run. */
#include "rlx/dims.h"
#include "rlx/model.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/oom/parse.h"

/* An expression, a size that an op tells, a body with a name, and a param. */
static struct rlx_graph *template(void)
{
	struct rlx_graph *g = rlx_graph_new("g"), *body = rlx_graph_new("body");
	int64_t b = rlx_dim(g, "b", 1, 64), s = rlx_dim(g, "s", 4, 64);
	int64_t n = rlx_dim(body, "b", 1, 64);
	rlx_value c, v, x, y;

	c = rlx_input(body, "c", rlx_type(RLX_F32, n));
	v = rlx_emit(body, add, .a = c, .b = rlx_input(body, "v", rlx_type(RLX_F32, n)));
	rlx_output(body, "y", v);
	if (rlx_graph_finish(body))
		rlx_graph_fail(g, rlx_graph_error(body)->status, "body");
	x = rlx_input(g, "x", rlx_type(RLX_F32, b, 1, s, 4));
	y = rlx_emit(g, conv, .x = x, .w = rlx_param(g, "w", rlx_type(RLX_F32, 1, 1, 3, 3)),
		     .pad = RLX_INTS(0, 1, 0, 1));
	y = rlx_emit(g, reshape, .x = y,
		     .shape = RLX_INTS(b, rlx_dim_mul(g, rlx_dim_add(g, s, -2), 4)));
	y = rlx_emit(g, reduce, .x = y, .axes = RLX_INTS(1), .kind = RLX_REDUCE_MAX);
	y = rlx_emit(g, scan, .body_g = body, .n_carry = 1, .length = 3, .xs = RLX_VALUES(y, y));
	rlx_output(g, "y", y);
	rlx_graph_put(body);
	if (rlx_graph_finish(g)) {	/* the caller reads the graph's error */
	}
	return g;
}

static enum rlx_status build(void *ctx)
{
	struct rlx_binding b[] = { { "b", 2 }, { "s", 7 } };
	struct rlx_graph *g = template(), *out = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_graph_error(g)->status;

	(void)ctx;
	CHECKF(!st || st == RLX_ENOMEM, "%s", rlx_graph_error(g)->text);
	if (!st)
		rlx_graph_hash(g);
	if (!st) {
		st = rlx_graph_bind(g, b, 2, &out, &err);
		CHECKF(st == err.status && !st == !!out, "%s", err.text);
	}
	rlx_graph_put(out);
	rlx_graph_put(g);
	return st;
}

TEST(build_and_bind)
{
	CHECK_EQ(build(NULL), 0);
	CHECK(rlx_oom_sweep(build, NULL) > 50);
}

TEST(parse)
{
	CHECK(oom_parse_sweep(template()) > 50);
}

static enum rlx_status use(struct rlx_runner *r, struct rlx_error *err)
{
	static const float x[2 * 9 * 4] = { 1, 2, 3 };
	enum rlx_status st = RLX_OK;
	struct rlx_named_tensor y = { "x", rlx_type(RLX_F32, 2, 1, 5, 4), NULL };
	uint64_t point;
	int i;

	st = rlx_runner_prepare(r, &y, 1, &point, err);
	if (!st)
		st = rlx_runner_wait(r, point, -1, err);
	for (i = 0; !st && i < 3; i++) {	/* two sizes, then one that is there */
		struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 2, 1, i == 1 ? 5 : 9, 4), x };

		st = rlx_runner_run(r, &in, 1, err);
	}
	CHECK(st || (rlx_runner_output(r, 0, &y) && y.type.dim[0] == 2));
	return st;
}

static enum rlx_status whole(void *ctx)
{
	static const float w[9] = { 1, 0, 2 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = ctx, .threads = 1 };
	struct rlx_graph *g = template();
	struct rlx_model *m = NULL;
	struct rlx_runner *r = NULL, *c = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_model_from_graph(g, &m, &err);

	if (!st)
		st = rlx_runner_new(m, &o, &r, &err);
	if (!st)
		st = rlx_runner_set(r, "w", rlx_type(RLX_F32, 1, 1, 3, 3), w, &err);
	if (!st)
		st = rlx_runner_clone(r, &c, &err);
	if (!st)
		st = use(c, &err);
	CHECKF(!st || st == RLX_ENOMEM, "%s: %s", rlx_status_name(st), err.text);
	CHECKF(st == err.status, "%s, its message %s", rlx_status_name(st),
	       rlx_status_name(err.status));
	rlx_runner_free(r);
	rlx_runner_free(c);
	rlx_model_put(m);
	rlx_graph_put(g);
	return st;
}

static void sweep(const char *device)
{
	CHECK_EQ(whole((void *)(uintptr_t)device), 0);
	CHECK(rlx_oom_sweep(whole, (void *)(uintptr_t)device) > 100);
}

TEST(run_on_cpu)
{
	sweep("cpu");
}

TEST(run_on_ref)
{
	sweep("ref");
}

TEST_MAIN()
