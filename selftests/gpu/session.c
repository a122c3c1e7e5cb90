// SPDX-License-Identifier: MIT
/* Programs and sessions on a GPU: results, rebinding, what stays on the device. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include "rlx/device.h"
#include "rlx/log.h"
#include "rt/session.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rig.h"

enum { OUTPUTS = 7 };

static const char *const names[OUTPUTS] = {
	"mlp", "attn", "norm", "conv", "ew", "move", "sub",
};

TEST(results_are_the_cpus)
{
	struct rlx_session *g = session_on(op_case_gpu(), SMALL_NET_ALL, 2);
	struct rlx_session *c = session_on("cpu", SMALL_NET_ALL, 2);
	uint64_t seed;

	for (seed = 1; seed < 4; seed++) {	/* captured, then replayed on new data */
		CHECK_EQ(small_net_fill(g, seed), 0);
		CHECK_EQ(small_net_fill(c, seed), 0);
		compare(g, c);
	}
	rlx_session_free(g);
	rlx_session_free(c);
}

/* Weights and arenas are a device's: there is one, whoever compiles and with what. */
TEST(one_device_for_all_who_ask)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_session *s[3];
	cpu_set_t all, one;
	int i;

	CHECK(!sched_getaffinity(0, sizeof(all), &all));
	for (i = 0; !CPU_ISSET(i, &all); i++)
		;
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	for (i = 0; i < 3; i++) {
		o.threads = i == 1 ? 3 : 0;
		CHECK(i < 2 || !sched_setaffinity(0, sizeof(one), &one));
		s[i] = rig_session(small_net(SMALL_NET_NORM, 2), &o);
		CHECK(s[i]->p->dev == s[0]->p->dev);
	}
	CHECK(!sched_setaffinity(0, sizeof(all), &all));
	for (i = 0; i < 3; i++)
		rlx_session_free(s[i]);
}

/* A state that a step of the host's reads too: it sees what the run before made. */
TEST(a_state_that_the_host_reads)
{
	struct rlx_type t = rlx_type(RLX_F32, 40000);
	struct rlx_graph *g = rlx_graph_new("state");
	rlx_value state = rlx_input(g, "state", t), x = rlx_input(g, "x", t);
	float *v = calloc(40000, sizeof(*v));
	struct rlx_session *s;
	int64_t count, i;

	rlx_output(g, "count", rlx_emit(g, unique_count, .x = state));
	rlx_output(g, "next", rlx_emit(g, add, .a = state, .b = x));
	s = rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = op_case_gpu() });
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "state", t, v), 0);
	for (i = 0; i < 40000; i++)
		v[i] = (float)i;
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, v), 0);
	CHECK_EQ(rlx_session_feed(s, "next", "state"), 0);
	for (i = 0; i < 3; i++) {
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "count", rlx_scalar(RLX_I64), &count),
			 0);
		CHECK_EQ(count, i ? 40000 : 1);
	}
	CHECK_EQ(((float *)rlx_buf_ptr(rlx_session_bound(s, RLX_IO_INPUT, "state")))[39999],
		 3 * 39999);
	CHECK_EQ(rlx_session_get(s, RLX_IO_INPUT, "state", t, v), 0);
	CHECK_EQ(v[39999], 3 * 39999);
	rlx_session_free(s);
	free(v);
}

/* What the device keeps is brought to no buffer that was unbound: it is the caller's again. */
TEST(a_kept_output_that_is_unbound)
{
	enum { N = 40000 };
	struct rlx_type t = rlx_type(RLX_F32, N);
	struct rlx_graph *g = rlx_graph_new("unbound");
	rlx_value state = rlx_input(g, "state", t), x = rlx_input(g, "x", t);
	struct rlx_arena_opts o = { .size = 4 * N };
	float *v = calloc(N, sizeof(*v)), *mine;
	struct rlx_arena *arena;
	struct rlx_session *s;
	int i;

	rlx_output(g, "next", rlx_emit(g, add, .a = state, .b = x));
	s = rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = op_case_gpu() });
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "state", t, v), 0);
	v[N - 1] = 3;
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, v), 0);
	CHECK_EQ(rlx_arena_new(&o, &arena, NULL), 0);
	mine = rlx_arena_base(arena);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "next", rlx_buf_whole(arena)), 0);
	CHECK_EQ(rlx_session_feed(s, "next", "state"), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_unbind(s), 0);
	memset(mine, 0, o.size);
	CHECK(!rlx_session_bound(s, RLX_IO_OUTPUT, "next").arena);
	CHECK(mine[N - 1] == 0);
	for (i = 2; i < 4; i++) {
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK_EQ(rlx_session_get(s, RLX_IO_INPUT, "state", t, v), 0);
		CHECK_EQ(v[N - 1], 3 * i);
	}
	CHECK(mine[N - 1] == 0);
	rlx_session_free(s);
	rlx_arena_put(arena);
	free(v);
}

static void moved_more(struct rlx_session *s, struct rlx_transfers *last, uint64_t in,
		       uint64_t in_bytes, uint64_t out, uint64_t out_bytes)
{
	struct rlx_transfers t = rlx_session_transfers(s);

	CHECK_EQ(t.in - last->in, in);
	CHECK_EQ(t.in_bytes - last->in_bytes, in_bytes);
	CHECK_EQ(t.out - last->out, out);
	CHECK_EQ(t.out_bytes - last->out_bytes, out_bytes);
	*last = t;
}

/* The input and the param go in, the operand of a step of the host's and the output out. */
TEST(what_crosses_is_counted)
{
	enum { N = 65536, BYTES = 4 * N };
	struct rlx_type t = rlx_type(RLX_F32, N);
	struct rlx_graph *g = rlx_graph_new("cross");
	rlx_value x = rlx_input(g, "x", t), w = rlx_param(g, "w", t);
	rlx_value y = rlx_emit(g, exp, .x = rlx_emit(g, mul, .a = x, .b = w));
	struct rlx_transfers last = { 0 };
	struct rlx_session *s;
	float *v = calloc(N, sizeof(*v));

	rlx_output(g, "count", rlx_emit(g, unique_count, .x = y));
	rlx_output(g, "z", rlx_emit(g, add, .a = y, .b = x));
	s = rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = op_case_gpu() });
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, v), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, v), 0);
	moved_more(s, &last, 0, 0, 0, 0);
	run(s);
	moved_more(s, &last, 2, 2 * BYTES, 2, 2 * BYTES);
	run(s);
	moved_more(s, &last, 0, 0, 2, 2 * BYTES);	/* what was set stays */
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, v), 0);
	run(s);
	moved_more(s, &last, 1, BYTES, 2, 2 * BYTES);	/* the param alone */
	CHECK(rlx_session_buf(s, RLX_IO_INPUT, "x").arena);
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, v), 0);
	run(s);
	moved_more(s, &last, 2, 2 * BYTES, 2, 2 * BYTES);
	CHECK_EQ(rlx_session_transfers(NULL).in, 0);
	rlx_session_free(s);
	free(v);
}

/*
 * A step of the host's between @before, which makes its operand of the input, and @after,
 * which takes its result; either may be missing. @n elements.
 */
static struct rlx_program *with_host_step(int64_t n, bool before, bool after, unsigned int *line)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_graph *g = rlx_graph_new("host");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, n));
	struct rlx_program_info info;
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	rlx_value y = before ? rlx_emit(g, exp, .x = x) : x;

	*line = __LINE__ + 1;
	y = rlx_emit(g, unique_count, .x = y);
	rlx_output(g, "y", after ? rlx_emit(g, mul, .a = y, .b = y) : y);
	rlx_output(g, "z", rlx_emit(g, neg, .x = x));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_program_info(p, &info);
	CHECK_EQ(info.host, n > 0);	/* how many of nothing differ is known */
	rlx_graph_put(g);
	return p;
}

/* What the launches and the host's step exchange is copied in every run. */
TEST(a_strict_session_refuses_what_crosses)
{
	struct rlx_session_opts o = { .size = sizeof(o), .strict = true };
	struct rlx_session *s = NULL;
	struct rlx_error err;
	struct rlx_program *p;
	unsigned int i, line;

	for (i = 1; i < 4; i++) {
		p = with_host_step(65536, i & 1, i & 2, &line);
		err = (struct rlx_error){ 0 };
		CHECK_EQ(rlx_session_new(p, &o, &s, &err), RLX_EACCES);
		CHECK(!s && strstr(err.text, "strict") && strstr(err.text, "unique_count") &&
		      strstr(err.text, "RLX_COMPILE_NATIVE"));
		CHECKF(err.file && strstr(err.file, "session.c") && err.line == line,
		       "%s:%u, not %u", err.file ? err.file : "?", err.line, line);
		CHECK_EQ(rlx_session_new(p, &o, &s, NULL), RLX_EACCES);
		o.strict = false;
		CHECKF(!rlx_session_new(p, &o, &s, &err), "%s", err.text);
		o.strict = true;
		CHECK(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")));
		run(s);
		rlx_session_free(s);
		s = NULL;
		rlx_program_put(p);
	}
}

static char told[1100];

static void take_line(void *ctx, enum rlx_log_level level, const char *line)
{
	(void)ctx;
	(void)level;
	snprintf(told, sizeof(told), "%s", line);
}

/* A slow path tells its user, and whether it waits for the device besides. */
TEST(the_host_is_told_of)
{
	unsigned int i, line;

	rlx_log_set(take_line, NULL);
	for (i = 0; i < 4; i++) {
		rlx_program_put(with_host_step(65536, i & 1, i & 2, &line));
		CHECKF(strstr(told, "unique_count of f32") &&
		       !strstr(told, "wait for copies") == !i, "%u: %s", i, told);
		told[0] = 0;
	}
	rlx_log_set(NULL, NULL);
}

/* From the caller's buffer to the caller's buffer, or nothing at all: nothing crosses. */
TEST(a_strict_session_runs_what_does_not_cross)
{
	struct rlx_session_opts o = { .size = sizeof(o), .strict = true };
	int64_t n[] = { 65536, 0 };
	unsigned int i, k, line;
	struct rlx_session *s, *c;
	struct rlx_error err = { 0 };
	struct rlx_program *p;

	for (i = 0; i < 2; i++) {
		struct rlx_transfers last = { 0 };
		uint64_t bytes = (uint64_t)n[i] * 4;
		float *x;

		/* of an empty tensor there is nothing to bring */
		p = with_host_step(n[i], i, false, &line);
		CHECKF(!rlx_session_new(p, &o, &s, &err), "%s", err.text);
		CHECKF(!rlx_session_clone(s, &c, &err), "%s", err.text);
		rlx_session_free(c);
		x = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x"));
		for (k = 0; k < n[i]; k++)
			x[k] = (float)(k % 100);
		poison(s);
		run(s);
		CHECK_EQ(*(int64_t *)rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y")),
			 n[i] ? 100 : 0);
		/* the output of the kernel alone; what is as small CUDA does not copy */
		if (n[i] || s->p->dev->be->align)
			moved_more(s, &last, !i, bytes, !i, bytes);
		rlx_session_free(s);
		rlx_program_put(p);
	}
}

/* A pair that the device keeps goes in once, and out when somebody asks. */
TEST(what_is_kept_crosses_when_asked_for)
{
	enum { N = 65536, BYTES = 4 * N };
	struct rlx_type t = rlx_type(RLX_F32, N);
	struct rlx_graph *g = rlx_graph_new("state");
	rlx_value state = rlx_input(g, "state", t);
	struct rlx_transfers last = { 0 };
	struct rlx_session *s;
	float *v = calloc(N, sizeof(*v));
	int i;

	rlx_output(g, "next", rlx_emit(g, add, .a = state, .b = rlx_scalar_const(g, RLX_F32, 1)));
	s = rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = op_case_gpu() });
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "state", t, v), 0);
	CHECK_EQ(rlx_session_feed(s, "next", "state"), 0);
	for (i = 0; i < 3; i++)
		run(s);
	moved_more(s, &last, 1, BYTES, 0, 0);
	CHECK_EQ(rlx_session_get(s, RLX_IO_INPUT, "state", t, v), 0);
	CHECK_EQ(v[N - 1], 3);
	moved_more(s, &last, 0, 0, 1, BYTES);
	rlx_session_free(s);
	free(v);
}

/* Somebody asks what each step takes: no graph, the same results, and back again. */
TEST(steps_are_timed)
{
	struct rlx_session *g = session_on(op_case_gpu(), SMALL_NET_ALL, 2);
	struct rlx_session *c = session_on("cpu", SMALL_NET_ALL, 2);
	uint32_t n = g->p->plan->n_step, i, with = 0;
	uint64_t *ns = calloc(n, sizeof(*ns));

	CHECK_EQ(small_net_fill(g, 4), 0);
	CHECK_EQ(small_net_fill(c, 4), 0);
	compare(g, c);
	for (int k = 0; k < 2; k++) {
		g->exec->step_ns = ns;
		compare(g, c);
		g->exec->step_ns = NULL;
		compare(g, c);
	}
	for (i = 0; i < n; i++)
		with += ns[i] > 0 && ns[i] < 60000000000;
	CHECKF(with > n / 2, "%u of %u steps took time", with, n);
	free(ns);
	rlx_session_free(g);
	rlx_session_free(c);
}

/* Buffers over and under what kernels use in place; a batch makes "x" 1 MiB. */
TEST(large_buffers_are_staged)
{
	struct rlx_session *g = session_on(op_case_gpu(), SMALL_NET_NORM | SMALL_NET_EW, 400);
	struct rlx_session *c = session_on("cpu", SMALL_NET_NORM | SMALL_NET_EW, 400);

	CHECK_EQ(small_net_fill(g, 5), 0);
	CHECK_EQ(small_net_fill(c, 5), 0);
	compare(g, c);
	CHECK_EQ(small_net_fill(g, 6), 0);
	CHECK_EQ(small_net_fill(c, 6), 0);
	compare(g, c);
	rlx_session_free(g);
	rlx_session_free(c);
}

/* Other memory for an input and an output: the graph stays, the addresses change. */
TEST(binding_anew)
{
	struct rlx_session *g = session_on(op_case_gpu(), SMALL_NET_NORM, 2);
	struct rlx_session *c = session_on("cpu", SMALL_NET_NORM, 2);
	struct rlx_arena_opts o = { .size = 1 << 16 };
	struct rlx_arena *a[2];
	struct rlx_buf in, out;
	int i;

	CHECK_EQ(small_net_fill(c, 7), 0);
	CHECK_EQ(small_net_fill(g, 7), 0);
	run(g);
	for (i = 0; i < 2; i++) {
		CHECK_EQ(small_net_fill(c, (uint64_t)(8 + i)), 0);
		memcpy(rlx_buf_ptr(rlx_session_buf(g, RLX_IO_PARAM, "shift")),
		       rlx_buf_ptr(rlx_session_buf(c, RLX_IO_PARAM, "shift")),
		       SMALL_DIM * sizeof(float));
		CHECK_EQ(rlx_arena_new(&o, &a[i], NULL), 0);
		CHECK_EQ(rlx_buf_new(a[i], 2 * SMALL_SEQ * SMALL_DIM * 4, 64, &in, NULL), 0);
		CHECK_EQ(rlx_buf_new(a[i], 2 * SMALL_SEQ * SMALL_DIM * 4, 64, &out, NULL), 0);
		memcpy(rlx_buf_ptr(in), rlx_buf_ptr(rlx_session_buf(c, RLX_IO_INPUT, "x")),
		       in.bytes);
		CHECK_EQ(rlx_session_bind(g, RLX_IO_INPUT, "x", in), 0);
		in.offset += 4;		/* fits its elements, but not CUDA's wide loads */
		if (g->p->dev->be->align) {
			CHECK_EQ(rlx_session_bind(g, RLX_IO_INPUT, "x", in), RLX_ERANGE);
			CHECK(strstr(rlx_session_error(g)->text, "4 past a 64-byte boundary"));
		}
		CHECK_EQ(rlx_session_bind(g, RLX_IO_OUTPUT, "norm", out), 0);
		compare(g, c);
	}
	rlx_session_free(g);
	rlx_session_free(c);
	for (i = 0; i < 2; i++)
		rlx_arena_put(a[i]);
}

/* What one of them has bound stays, whatever the other runs between. */
TEST(two_sessions_in_one_workspace)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_session_opts so = { .size = sizeof(so) };
	struct rlx_session *s[2], *c = session_on("cpu", SMALL_NET_ALL, 2);
	struct rlx_graph *g = small_net(SMALL_NET_ALL, 2);
	struct rlx_arena_opts ao = { .size = 4 << 20 };
	struct rlx_program_info info;
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_arena *a;
	struct rlx_buf x;
	int i;

	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_program_info(p, &info);
	CHECK_EQ(rlx_arena_new(&ao, &a, NULL), 0);
	CHECK_EQ(rlx_buf_new(a, info.work_bytes, 64, &so.work, NULL), 0);
	CHECK_EQ(rlx_buf_new(a, 2 * SMALL_SEQ * SMALL_DIM * 4, 64, &x, NULL), 0);
	for (i = 0; i < 2; i++) {
		CHECKF(!rlx_session_new(p, &so, &s[i], &err), "%s", err.text);
		CHECK_EQ(small_net_fill(s[i], (uint64_t)(30 + i)), 0);
		CHECK_EQ(small_net_fill(c, (uint64_t)(30 + i)), 0);
		compare(s[i], c);
	}
	/* the first one once more, of which a single buffer is another now */
	CHECK_EQ(small_net_fill(c, 30), 0);
	memcpy(rlx_buf_ptr(x), rlx_buf_ptr(rlx_session_buf(c, RLX_IO_INPUT, "x")), x.bytes);
	CHECK_EQ(rlx_session_bind(s[0], RLX_IO_INPUT, "x", x), 0);
	compare(s[0], c);
	CHECK_EQ(small_net_fill(c, 31), 0);
	compare(s[1], c);
	for (i = 0; i < 2; i++)
		rlx_session_free(s[i]);
	rlx_session_free(c);
	rlx_program_put(p);
	rlx_graph_put(g);
	rlx_arena_put(a);
}

/* y = x[at], and a sum, so that rows of a table go through the workspace. */
static struct rlx_program *picker(const char *device)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_graph *g = rlx_graph_new("picker");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4, 8));
	rlx_value at = rlx_input(g, "at", rlx_type(RLX_I64, 4));
	rlx_value rows = rlx_emit(g, gather, .x = x, .indices = at);
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	rlx_output(g, "y", rows);
	rlx_output(g, "n", rlx_emit(g, unique_count, .x = rows));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	return p;
}

/*
 * Between runs a workspace is anybody's: whatever is written there, a run with good
 * indices is well, and one with a bad index is not, and says so once.
 */
static void runs_whatever_lies_there(const char *device, int byte)
{
	struct rlx_type tx = rlx_type(RLX_F32, 4, 8), ta = rlx_type(RLX_I64, 4);
	struct rlx_arena_opts ao = { .size = 1 << 20 };
	struct rlx_session_opts so = { .size = sizeof(so) };
	struct rlx_program *p = picker(device);
	int64_t at[4] = { 3, 2, 1, 0 };
	struct rlx_session *s = NULL;
	struct rlx_arena *a = NULL;
	float x[32], y[32];
	int i, k;

	for (i = 0; i < 32; i++)
		x[i] = (float)i;
	CHECK_EQ(rlx_arena_new(&ao, &a, NULL), 0);
	so.work = rlx_buf_whole(a);
	CHECK_EQ(rlx_session_new(p, &so, &s, NULL), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", tx, x), 0);
	for (k = 0; k < 6; k++) {
		memset(rlx_arena_base(a), k == 1 ? 0 : byte, ao.size);
		at[1] = k == 3 ? 4 : 2;
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "at", ta, at), 0);
		CHECKF(rlx_session_run(s) == (k == 3 ? RLX_ERANGE : RLX_OK), "%s, run %d: %s",
		       device, k, rlx_session_error(s)->text);
		if (k == 3)
			continue;
		CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", tx, y), 0);
		for (i = 0; i < 32; i++)
			CHECK_EQ(y[i], x[8 * at[i / 8] + i % 8]);
	}
	rlx_session_free(s);
	rlx_arena_put(a);
	rlx_program_put(p);
}

TEST(a_workspace_that_others_write_to)
{
	const char *const devices[] = { op_case_gpu(), "cpu", "ref" };
	unsigned int i;

	for (i = 0; i < 3; i++) {
		runs_whatever_lies_there(devices[i], 0xff);
		runs_whatever_lies_there(devices[i], 1);
	}
}

enum { TILE_M = 80, TILE_K = 64, TILE_N = 72 };

static struct rlx_session *product_on(const char *device)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_graph *g = rlx_graph_new("product");
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F16, TILE_M, TILE_K));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F16, TILE_K, TILE_N));

	rlx_output(g, "y", rlx_emit(g, cast, .x = rlx_emit(g, matmul, .a = x, .b = w),
				    .to = RLX_F32));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

/* Maps of matrices are made again when a run finds them elsewhere. */
TEST(tiles_follow_what_is_bound)
{
	struct rlx_session *g = product_on(op_case_gpu()), *c = product_on("cpu");
	struct rlx_type tx = rlx_type(RLX_F16, TILE_M, TILE_K);
	struct rlx_type tw = rlx_type(RLX_F16, TILE_K, TILE_N);
	static _Float16 x[TILE_M * TILE_K], w[3][TILE_K * TILE_N];
	struct rlx_arena_opts o = { .size = 1 << 16 };
	uint64_t seed = rlx_test_seed();
	struct rlx_arena *a[3];
	struct rlx_buf b;
	int i, k;

	for (i = 0; i < 3; i++) {	/* sums are whole, so f16 has them exactly */
		for (k = 0; k < TILE_M * TILE_K; k++)
			x[k] = (_Float16)((int)(rlx_test_rand(&seed) % 5) - 2);
		for (k = 0; k < TILE_K * TILE_N; k++)
			w[i][k] = (_Float16)((int)(rlx_test_rand(&seed) % 5) - 2);
		CHECK_EQ(rlx_arena_new(&o, &a[i], NULL), 0);
		CHECK_EQ(rlx_buf_new(a[i], sizeof(w[i]), 64, &b, NULL), 0);
		memcpy(rlx_buf_ptr(b), w[i], sizeof(w[i]));
		CHECK_EQ(rlx_session_bind(g, RLX_IO_PARAM, "w", b), 0);
		CHECK_EQ(rlx_session_set(g, RLX_IO_INPUT, "x", tx, x), 0);
		CHECK_EQ(rlx_session_set(c, RLX_IO_PARAM, "w", tw, w[i]), 0);
		CHECK_EQ(rlx_session_set(c, RLX_IO_INPUT, "x", tx, x), 0);
		compare(g, c);
		compare(g, c);	/* where it is still */
	}
	rlx_session_free(g);
	rlx_session_free(c);
	for (i = 0; i < 3; i++)
		rlx_arena_put(a[i]);
}

/* A param lives on the device: set again, or bound again where it is, it is renewed. */
TEST(params_are_renewed)
{
	struct rlx_session *g = session_on(op_case_gpu(), SMALL_NET_NORM, 2), *h = NULL;
	struct rlx_session *c = session_on("cpu", SMALL_NET_NORM, 2);
	struct rlx_type t = rlx_type(RLX_F32, SMALL_DIM);
	float shift[SMALL_DIM];
	struct rlx_buf b;
	int i;

	CHECK_EQ(small_net_fill(g, 9), 0);
	CHECK_EQ(small_net_fill(c, 9), 0);
	compare(g, c);
	for (i = 0; i < SMALL_DIM; i++)
		shift[i] = (float)i;
	CHECK_EQ(rlx_session_set(g, RLX_IO_PARAM, "shift", t, shift), 0);
	CHECK_EQ(rlx_session_set(c, RLX_IO_PARAM, "shift", t, shift), 0);
	compare(g, c);
	b = rlx_session_buf(g, RLX_IO_PARAM, "shift");
	((float *)rlx_buf_ptr(b))[3] = 100;
	shift[3] = 100;
	CHECK_EQ(rlx_session_bind(g, RLX_IO_PARAM, "shift", b), 0);
	CHECK_EQ(rlx_session_set(c, RLX_IO_PARAM, "shift", t, shift), 0);
	compare(g, c);
	/* to look at it brings nothing over; to ask for it to write does */
	b = rlx_session_bound(g, RLX_IO_PARAM, "shift");
	((float *)rlx_buf_ptr(b))[3] = 50;
	compare(g, c);
	((float *)rlx_buf_ptr(rlx_session_buf(g, RLX_IO_PARAM, "shift")))[3] = 100;
	compare(g, c);
	/* a clone shares what is on the device, and outlives the session it is of */
	CHECK_EQ(rlx_session_clone(g, &h, NULL), 0);
	rlx_session_free(g);
	CHECK_EQ(rlx_session_set(h, RLX_IO_INPUT, "x",
				 rlx_type(RLX_F32, 2, SMALL_SEQ, SMALL_DIM),
				 rlx_buf_ptr(rlx_session_buf(c, RLX_IO_INPUT, "x"))), 0);
	compare(h, c);
	rlx_session_free(h);
	rlx_session_free(c);
}

/* Whoever binds a param means what is there then, whoever else has it bound. */
TEST(a_param_that_another_session_has)
{
	struct rlx_arena_opts o = { .size = 1 << 16 };
	struct rlx_type t = rlx_type(RLX_F32, SMALL_DIM);
	struct rlx_session *g[2], *c = session_on("cpu", SMALL_NET_NORM, 2);
	struct rlx_arena *a;
	struct rlx_buf b;
	int i, k;

	CHECK_EQ(small_net_fill(c, 9), 0);
	CHECK_EQ(rlx_arena_new(&o, &a, NULL), 0);
	CHECK_EQ(rlx_buf_new(a, SMALL_DIM * sizeof(float), 64, &b, NULL), 0);
	for (i = 0; i < 2; i++) {
		for (k = 0; k < SMALL_DIM; k++)
			((float *)rlx_buf_ptr(b))[k] = (float)(k + 10 * i);
		g[i] = session_on(op_case_gpu(), SMALL_NET_NORM, 2);
		CHECK_EQ(small_net_fill(g[i], 9), 0);
		CHECK_EQ(rlx_session_bind(g[i], RLX_IO_PARAM, "shift", b), 0);
		CHECK_EQ(rlx_session_set(c, RLX_IO_PARAM, "shift", t, rlx_buf_ptr(b)), 0);
		compare(g[i], c);
	}
	for (i = 0; i < 2; i++)
		rlx_session_free(g[i]);
	rlx_session_free(c);
	rlx_arena_put(a);
}

TEST(chosen_outputs)
{
	struct rlx_session *g = session_on(op_case_gpu(), SMALL_NET_ALL, 2);
	const char *const sets[][2] = { { "mlp", "sub" }, { "norm", "ew" }, { "mlp", "sub" } };
	const float *y;
	unsigned int i, k;

	CHECK_EQ(small_net_fill(g, 11), 0);
	run(g);
	for (i = 0; i < 3; i++) {
		for (k = 0; k < OUTPUTS; k++) {
			struct rlx_buf b = rlx_session_buf(g, RLX_IO_OUTPUT, names[k]);

			memset(rlx_buf_ptr(b), 0xa5, b.bytes);
		}
		CHECK_EQ(rlx_session_want(g, NULL, 0), 0);
		CHECK_EQ(rlx_session_want(g, sets[i], 2), 0);
		run(g);
		for (k = 0; k < OUTPUTS; k++) {
			bool wanted = !strcmp(names[k], sets[i][0]) ||
				      !strcmp(names[k], sets[i][1]);
			uint32_t bits;

			y = rlx_buf_ptr(rlx_session_buf(g, RLX_IO_OUTPUT, names[k]));
			memcpy(&bits, y, sizeof(bits));
			CHECKF((bits != 0xa5a5a5a5) == wanted, "%s, asked for %s and %s",
			       names[k], sets[i][0], sets[i][1]);
		}
	}
	rlx_session_free(g);
}

/* A result that nobody reads is written aside, not over what somebody does. */
TEST(results_that_nobody_reads)
{
	struct rlx_graph *g = rlx_graph_new("topk");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, SMALL_SEQ, SMALL_DIM));
	rlx_value y = rlx_emit(g, exp, .x = x), t = rlx_emit(g, topk, .x = y, .axis = -1, .k = 3);

	rlx_output(g, "largest", rlx_emit(g, neg, .x = t));
	rlx_output(g, "all", rlx_emit(g, neg, .x = y));
	CHECK(!rlx_graph_finish(g));
	rlx_session_free(session_as_cpu(g, op_case_gpu(), RLX_COMPILE_NO_FUSE));
	rlx_graph_put(g);
}

/* Runs of one program from several threads, each waiting for its own. */
static void *submit_many(void *arg)
{
	struct rlx_session *s = arg;
	uint64_t point;
	int i;

	for (i = 0; i < 5; i++)
		if (rlx_session_submit(s, &point) || rlx_session_wait(s, point, -1))
			return "a run failed";
	return NULL;
}

TEST(sessions_at_once)
{
	enum { N = 3 };
	struct rlx_session *g[N], *c = session_on("cpu", SMALL_NET_ALL, 2);
	pthread_t thread[N];
	void *why;
	int i;

	g[0] = session_on(op_case_gpu(), SMALL_NET_ALL, 2);
	for (i = 1; i < N; i++)
		CHECK_EQ(rlx_session_clone(g[0], &g[i], NULL), 0);
	for (i = 0; i < N; i++)
		CHECK_EQ(small_net_fill(g[i], 20), 0);
	for (i = 0; i < N; i++)
		CHECK(!pthread_create(&thread[i], NULL, submit_many, g[i]));
	for (i = 0; i < N; i++) {
		CHECK(!pthread_join(thread[i], &why));
		CHECKF(!why, "session %d: %s", i, (const char *)why);
	}
	CHECK_EQ(small_net_fill(c, 20), 0);
	for (i = 0; i < N; i++) {
		compare(g[i], c);
		rlx_session_free(g[i]);
	}
	rlx_session_free(c);
}

/* Making one takes longer than most programs: it is not made anew for the next. */
TEST(the_context_stays)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);	/* also under HIP, here */
	const char *which = strchr(op_case_gpu(), ':');
	unsigned int flags;
	int active = 0, (*state)(int, unsigned int *, int *);

	if (!strncmp(op_case_gpu(), "vulkan", 6))
		rlx_test_skip("a Vulkan device has no context");
	CHECKF(cuda, "%s", dlerror());
	*(void **)&state = dlsym(cuda, "cuDevicePrimaryCtxGetState");
	CHECK(state);
	rlx_session_free(session_on(op_case_gpu(), SMALL_NET_MLP, 1));
	CHECK_EQ(state(which ? atoi(which + 1) : 0, &flags, &active), 0);
	CHECK(active);
}

TEST(there_is_no_such_device)
{
	struct rlx_graph *g = small_net(SMALL_NET_MLP, 1);
	char name[16], backend[8];
	struct rlx_compile_opts o = { .size = sizeof(o), .device = name };
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	snprintf(backend, sizeof(backend), "%.*s", (int)strcspn(op_case_gpu(), ":"),
		 op_case_gpu());
	snprintf(name, sizeof(name), "%s:9", backend);
	CHECK_EQ(rlx_compile(g, &o, &p, &err), RLX_ENODEV);
	CHECKF(strstr(err.text, name), "%s", err.text);
	snprintf(name, sizeof(name), "%s:x", backend);
	CHECK_EQ(rlx_compile(g, &o, &p, NULL), RLX_ENODEV);
	CHECK(!rlx_device_why("nonesuch"));
	CHECK_STR(rlx_device_why("cpu"), "");
	CHECK_STR(rlx_device_why(backend), "");
	if (strcmp(backend, "rocm"))
		CHECK(*rlx_device_why("rocm"));
	rlx_graph_put(g);
}

/* A sum over ranks is no launch, and may be all that uses a buffer: it has its address. */
static void sum_alone(bool of_a_constant)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_type t = rlx_type(RLX_I64, 3);
	const int64_t v[3] = { 4, 5, 6 };
	struct rlx_error err = { 0 };
	struct rlx_graph *g = rlx_graph_new("sum");
	rlx_value x = of_a_constant ? rlx_constant(g, t, v) : rlx_input(g, "x", t);
	struct rlx_program *p;
	struct rlx_session *s;

	rlx_output(g, "y", rlx_emit(g, all_reduce, .x = x, .ranks = 2));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	if (!of_a_constant)
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, v), 0);
	CHECK_EQ(rlx_session_run(s), RLX_EINVAL);
	CHECKF(strstr(rlx_session_error(s)->text, "no communicator"), "%s",
	       rlx_session_error(s)->text);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST(sums_alone_name_what_they_lack)
{
	sum_alone(false);
	sum_alone(true);
}

TEST_MAIN()
