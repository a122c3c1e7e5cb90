// SPDX-License-Identifier: MIT
/* Every allocation of a session's life fails once, the program being there. */
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

static struct rlx_program *program(const char *device)
{
	struct rlx_graph *g = small_net(SMALL_NET_ALL, 2);
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_graph_error(g)->status, "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	return p;
}

/* Set by copies, choose outputs, run twice, submit, read back, clone. */
static enum rlx_status use(struct rlx_session *s)
{
	static const char *const some[] = { "mlp", "sub" };
	static float x[2 * SMALL_SEQ * SMALL_DIM], y[2 * SMALL_SEQ * SMALL_DIM];
	struct rlx_type t = rlx_type(RLX_F32, 2, SMALL_SEQ, SMALL_DIM);
	struct rlx_session *c = NULL;
	struct rlx_error err = { 0 };
	uint64_t point = 0;
	enum rlx_status st = small_net_fill(s, 3);

	if (!st)
		st = rlx_session_set(s, RLX_IO_INPUT, "x", t, x);
	if (!st)
		st = rlx_session_run(s);
	if (!st)
		st = rlx_session_get(s, RLX_IO_OUTPUT, "mlp", t, y);
	if (!st)
		st = rlx_session_want(s, some, 2);
	if (!st)
		st = rlx_session_submit(s, &point);
	if (!st)
		st = rlx_session_wait(s, point, -1);
	if (!st)
		st = rlx_session_clone_with(s, RLX_CLONE_FEEDS | RLX_CLONE_EXTENT |
					    RLX_CLONE_WANT | RLX_CLONE_STATES, &c, &err);
	if (!st)
		st = rlx_session_want(c, NULL, 0);
	if (!st)
		st = small_net_fill(c, 4);
	if (!st)
		st = rlx_session_run(c);
	rlx_session_free(c);
	return st;
}

static enum rlx_status session(void *ctx)
{
	struct rlx_session_opts o = { .size = sizeof(o) };
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_session_new(ctx, &o, &s, &err);

	if (!st)
		st = use(s);
	rlx_session_free(s);
	return st;
}

/* One session throughout: after each failure the next try works. */
static enum rlx_status again(void *ctx)
{
	struct rlx_session *s = ctx;
	enum rlx_status st = rlx_session_run(s);

	return st ? st : rlx_session_want(s, NULL, 0);
}

static void sweep(const char *device)
{
	struct rlx_program *p = program(device);

	CHECK_EQ(session(p), 0);
	CHECK(rlx_oom_sweep(session, p) > 10);
	CHECK_EQ(session(p), 0);
	rlx_program_put(p);
}

TEST(session_on_cpu)
{
	sweep("cpu");
}

TEST(session_on_ref)
{
	sweep("ref");
}

TEST(session_on_null)
{
	sweep("null");
}

/* Sub-graphs and expanded ops take memory in a run: that may fail, and only it. */
TEST(runs_of_one_session)
{
	struct rlx_program *p = program("ref");
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK_EQ(small_net_fill(s, 5), 0);
	CHECK_EQ(rlx_session_run(s), 0);
	CHECK(rlx_oom_sweep(again, s) > 1);
	rlx_session_free(s);
	rlx_program_put(p);
}

TEST_MAIN()
