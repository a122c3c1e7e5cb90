// SPDX-License-Identifier: MIT
/*
 * Programs and sessions on a GPU: results, rebinding, what stays on the device, and
 * every call of the driver failing once.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "rlx/device.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

enum { OUTPUTS = 7 };

static const char *const names[OUTPUTS] = {
	"mlp", "attn", "norm", "conv", "ew", "move", "sub",
};

static struct rlx_session *session_on(const char *device, unsigned int parts, int64_t batch)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_graph *g = small_net(parts, batch);
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

static void run(struct rlx_session *s)
{
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
}

/* All outputs of @a, poisoned before the run, against @b's. */
static void compare(struct rlx_session *a, struct rlx_session *b)
{
	struct rlx_program *p = rlx_session_program(a);
	unsigned int k, n = rlx_program_io_count(p, RLX_IO_OUTPUT);
	size_t i;

	for (k = 0; k < n; k++) {
		struct rlx_buf u = rlx_session_buf(a, RLX_IO_OUTPUT,
						   rlx_program_io_name(p, RLX_IO_OUTPUT, k));

		if (rlx_buf_ptr(u))
			memset(rlx_buf_ptr(u), 0xa5, u.bytes);
	}
	run(a);
	run(b);
	for (k = 0; k < n; k++) {
		const char *name = rlx_program_io_name(p, RLX_IO_OUTPUT, k);
		size_t m = (size_t)rlx_type_count(rlx_program_io_type(p, RLX_IO_OUTPUT, k));
		const float *x = rlx_buf_ptr(rlx_session_buf(a, RLX_IO_OUTPUT, name));
		const float *y = rlx_buf_ptr(rlx_session_buf(b, RLX_IO_OUTPUT, name));

		for (i = 0; i < m; i++)
			CHECKF(fabsf(x[i] - y[i]) <= 1e-4f * (1 + fabsf(y[i])),
			       "%s[%zu] is %g, not %g", name, i, (double)x[i], (double)y[i]);
	}
}

TEST(results_are_the_cpus)
{
	struct rlx_session *g = session_on("cuda", SMALL_NET_ALL, 2);
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

/* Buffers over and under what kernels use in place; a batch makes "x" 1 MiB. */
TEST(large_buffers_are_staged)
{
	struct rlx_session *g = session_on("cuda", SMALL_NET_NORM | SMALL_NET_EW, 400);
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
	struct rlx_session *g = session_on("cuda", SMALL_NET_NORM, 2);
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
		CHECK_EQ(rlx_session_bind(g, RLX_IO_OUTPUT, "norm", out), 0);
		compare(g, c);
	}
	rlx_session_free(g);
	rlx_session_free(c);
	for (i = 0; i < 2; i++)
		rlx_arena_put(a[i]);
}

/* A param lives on the device: set again, or bound again where it is, it is renewed. */
TEST(params_are_renewed)
{
	struct rlx_session *g = session_on("cuda", SMALL_NET_NORM, 2), *h = NULL;
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

TEST(chosen_outputs)
{
	struct rlx_session *g = session_on("cuda", SMALL_NET_ALL, 2);
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

static struct rlx_session *session_of(struct rlx_graph *g, const char *device)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = device, .flags = RLX_COMPILE_NO_FUSE,
	};
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	return s;
}

/* A result that nobody reads is written aside, not over what somebody does. */
TEST(results_that_nobody_reads)
{
	struct rlx_graph *g = rlx_graph_new("topk");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, SMALL_SEQ, SMALL_DIM));
	rlx_value y = rlx_emit(g, exp, .x = x), t = rlx_emit(g, topk, .x = y, .axis = -1, .k = 3);
	struct rlx_session *s, *c;

	rlx_output(g, "largest", rlx_emit(g, neg, .x = t));
	rlx_output(g, "all", rlx_emit(g, neg, .x = y));
	CHECK(!rlx_graph_finish(g));
	s = session_of(g, "cuda");
	c = session_of(g, "cpu");
	CHECK_EQ(small_net_fill(s, 3), 0);
	CHECK_EQ(small_net_fill(c, 3), 0);
	compare(s, c);
	rlx_session_free(s);
	rlx_session_free(c);
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

	g[0] = session_on("cuda", SMALL_NET_ALL, 2);
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

TEST(there_is_no_such_device)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cuda:9" };
	struct rlx_graph *g = small_net(SMALL_NET_MLP, 1);
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_compile(g, &o, &p, &err), RLX_ENODEV);
	CHECKF(strstr(err.text, "cuda:9"), "%s", err.text);
	o.device = "cuda:x";
	CHECK_EQ(rlx_compile(g, &o, &p, NULL), RLX_ENODEV);
	CHECK(!rlx_device_why("nonesuch"));
	CHECK_STR(rlx_device_why("cpu"), "");
	CHECK(*rlx_device_why("rocm"));
	rlx_graph_put(g);
}

/* Compile, run twice and free on a device whose calls fail as @faults says. */
static enum rlx_status all_of_it(const char *faults, struct rlx_error *err)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cuda" };
	struct rlx_graph *g = small_net(SMALL_NET_MLP | SMALL_NET_MOVE | SMALL_NET_SUB, 2);
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	enum rlx_status st;

	setenv("RLX_EMU_FAIL", faults, 1);
	*err = (struct rlx_error){ 0 };
	st = rlx_compile(g, &o, &p, err);
	if (!st)
		st = rlx_session_new(p, NULL, &s, err);
	if (!st)
		st = small_net_fill(s, 1);
	if (!st && (st = rlx_session_run(s)))
		*err = *rlx_session_error(s);
	if (!st && (st = rlx_session_run(s)))
		*err = *rlx_session_error(s);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	return st;
}

/*
 * In a child, for the emulator reads @faults once. 0: all went well; 1: a status with
 * a story, nothing left behind; else what was wrong is printed.
 */
static int outcome(const char *faults)
{
	int64_t before = rlx_alloc_live();
	struct rlx_error err;
	enum rlx_status st;
	pid_t pid;
	int rc;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		st = all_of_it(faults, &err);
		if (rlx_alloc_live() != before)
			printf("# %s: %lld blocks left (%s)\n", faults,
			       (long long)(rlx_alloc_live() - before), err.text);
		else if (st && (!err.text[0] || err.status != st))
			printf("# %s: status %d without a story\n", faults, st);
		else
			st = st ? 1 : 0;
		fflush(stdout);
		_exit(st == 0 || st == 1 ? (int)st : 2);
	}
	CHECK_EQ(waitpid(pid, &rc, 0), pid);
	CHECKF(WIFEXITED(rc) && WEXITSTATUS(rc) < 2, "%s ended with %d", faults, rc);
	return WEXITSTATUS(rc);
}

/* The n-th call of the driver fails, for every n: a status, and nothing is left. */
TEST(every_call_may_fail)
{
	unsigned int n, met = 0;
	char faults[32];

	CHECK_EQ(outcome(""), 0);	/* kernels are in the cache now */
	for (n = 1; n < 2000; n++) {
		snprintf(faults, sizeof(faults), "*:%u:2", n);
		if (outcome(faults))
			met++;
		else if (n > met + 40)	/* a run of calls whose failure nobody minds */
			break;
	}
	CHECKF(met > 60, "only %u", met);
}

static enum rlx_status without_faults(void *ctx)
{
	return all_of_it("", ctx);
}

/* Every allocation fails once; whatever was on the device is given back. */
TEST(every_allocation_may_fail)
{
	struct rlx_error err;

	CHECK_EQ(without_faults(&err), 0);
	CHECK(rlx_oom_sweep(without_faults, &err) > 200);
}

/* A kernel faults: the context is lost, the process is not. */
TEST(a_lost_device)
{
	struct rlx_session *c = session_on("cpu", SMALL_NET_MLP, 1);
	struct rlx_error err;

	CHECK_EQ(all_of_it("cuGraphLaunch:2:700!", &err), RLX_ELOST);
	CHECKF(strstr(err.text, "failed"), "%s", err.text);
	CHECK_EQ(all_of_it("", &err), RLX_ELOST);	/* as long as it is gone */
	CHECK_EQ(small_net_fill(c, 1), 0);
	run(c);
	rlx_session_free(c);
}

TEST(no_device_memory)
{
	struct rlx_error err;

	CHECK_EQ(all_of_it("cuMemAlloc:3:2", &err), RLX_ENOMEM);
	CHECKF(strstr(err.text, "device memory"), "%s", err.text);
	CHECKF(!all_of_it("", &err), "%s", err.text);
}

TEST_MAIN()
