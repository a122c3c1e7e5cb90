// SPDX-License-Identifier: MIT
/*
 * Calls of the driver that fail when the emulated one is asked to, and allocations:
 * a status with a message each time, nothing left behind. limits.c has what a real
 * device does.
 */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/gpu/gpu.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "rlx/collective.h"
#include "rlx/device_buffer.h"
#include "rlx/resident.h"
#include "rt/session.h"
#include "rt/rt.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/expert_net.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

/* A run that is asked for once while it may be under way. */
static enum rlx_status submitted(struct rlx_session *s)
{
	enum rlx_status st;
	uint64_t point;

	st = rlx_session_submit(s, &point);
	if (!st)
		st = rlx_session_wait(s, point, 0);
	return st == RLX_ETIME ? rlx_session_wait(s, point, -1) : st;
}

/*
 * The device alone has the one net's runs, the host a part in the other's, the third one has
 * lanes. And instead of a net, an arena that is brought to the device twice, by its bytes and
 * by a descriptor; or layers of experts, of which some are streamed and others then; or a program
 * whose input and output are buffers of the device's, with a step of the host's between.
 */
enum { ALONE = SMALL_NET_NORM, SHARED = SMALL_NET_MLP | SMALL_NET_MOVE | SMALL_NET_SUB,
       LANES = SMALL_NET_MLP | SMALL_NET_ATTN | SMALL_NET_EW,
       RESIDENT = 1 << 20, EXPERTS = 1 << 21, BUFFERS = 1 << 22 };

static enum rlx_status an_arena_there(struct rlx_error *err)
{
	struct rlx_arena_opts o = { .size = 1 << 16 };
	struct rlx_resident *r = NULL;
	struct rlx_arena *a = NULL;
	enum rlx_status st;
	int fd = -1;

	st = rlx_arena_new(&o, &a, err);
	if (!st)
		st = rlx_arena_seal(a, RLX_SEAL_WRITE, err);
	if (!st)
		st = rlx_resident_new(a, 0, op_case_gpu(), &r, err);
	if (!st)
		st = rlx_resident_fd(r, &fd, err);
	rlx_resident_put(r);
	r = NULL;
	if (!st)
		st = rlx_resident_open_fd(a, 0, fd, op_case_gpu(), &r, err);
	rlx_resident_put(r);
	if (fd >= 0)
		close(fd);
	rlx_arena_put(a);
	return st;
}

/* -tanh(x), of which the host takes the one step, in place and then beside. */
static enum rlx_status run_in_buffers(struct rlx_program *p, struct rlx_error *err)
{
	static float x[8 * 8 * 64], y[8 * 8 * 64];
	struct rlx_device_buffer *b = NULL;
	struct rlx_session *s = NULL;
	enum rlx_status st = rlx_device_buffer_new(op_case_gpu(), 2 * sizeof(x), &b, err);
	int k;

	for (k = 0; k < 8 * 8 * 64; k++)
		x[k] = (float)k / 4096;
	if (!st)
		st = rlx_device_buffer_write(b, 0, sizeof(x), x, err);
	if (!st)
		st = rlx_session_new(p, NULL, &s, err);
	for (k = 0; k < 2 && !st; k++) {
		st = rlx_session_bind_device(s, RLX_IO_INPUT, "x", b, 0);
		if (!st)
			st = rlx_session_bind_device(s, RLX_IO_OUTPUT, "y", b, k ? 0 : sizeof(x));
		if (!st)
			st = rlx_session_run(s);
		if (st)
			*err = *rlx_session_error(s);
	}
	if (!st)
		st = rlx_device_buffer_read(b, 0, sizeof(y), y, err);
	for (k = 0; k < 8 * 8 * 64 && !st; k++)
		CHECKF(fabs((double)y[k] + tanh((double)x[k])) < 1e-5, "y[%d] is %g", k,
		       (double)y[k]);
	rlx_device_buffer_put(b);
	rlx_session_free(s);
	return st;
}

static enum rlx_status buffers_there(struct rlx_error *err)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_graph *g = rlx_graph_new("buffers");
	struct rlx_program *p = NULL;
	enum rlx_status st = RLX_ENOMEM;
	rlx_value x;

	if (g) {
		x = rlx_emit(g, neg, .x = rlx_input(g, "x", rlx_type(RLX_F32, 8, 8, 8, 8)));
		x = rlx_emit(g, block_channels, .x = x, .block = 8);
		x = rlx_emit(g, unblock_channels, .x = x, .channels = 8);
		rlx_output(g, "y", rlx_emit(g, tanh, .x = x));
		st = rlx_graph_finish(g);
	}
	if (st)
		rlx_error_set(err, st, NULL, 0, "no graph");
	if (!st)
		st = rlx_compile(g, &o, &p, err);
	if (!st)
		st = run_in_buffers(p, err);
	rlx_program_put(p);
	rlx_graph_put(g);
	return st;
}

static int experts_failed;	/* runs of them */

/* Three runs of layers of experts, under changing placements; @tries: of each that fails. */
static enum rlx_status run_experts(struct rlx_session *s, const struct expert_net *m, int tries)
{
	static const bool place[3][3] = { { 1, 0, 1 }, { 0, 1, 0 }, { 1, 1, 1 } };
	static const int32_t routes[2 * 4] = { 0, 1, 2, 1, 1, 1, 0, 2 };
	const float x[4 * 8] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
	float y[4 * 8], want[4 * 8];
	enum rlx_status st = expert_net_fill(s, m);
	int run, i, k;

	expert_net_wanted(m, x, routes, want);
	for (run = 0; run < 3 && !st; run++) {
		st = rlx_moe_place(s, -1, place[run], 3);
		for (k = 0; k < tries && !st; k++) {
			st = expert_net_try(s, m, x, routes, y);
			if (!st)
				break;
			CHECKF(rlx_session_error(s)->text[0], "a run failed without a message");
			CHECKF(!k, "again: %s", rlx_session_error(s)->text);
			experts_failed++;
			st = k + 1 < tries ? RLX_OK : st;
		}
		for (i = 0; i < 4 * 8 && !st; i++)
			CHECKF(fabs((double)(y[i] - want[i])) < 1e-4, "run %d: [%d] %g, not %g", run,
			       i, (double)y[i], (double)want[i]);
	}
	return st;
}

static enum rlx_status experts_there(struct rlx_error *err, int tries)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu(),
				      .flags = RLX_COMPILE_PLACE };
	static float w[2 * 3 * 8 * 8];
	struct expert_net m = { .layers = 2, .rows = 4, .width = 8, .experts = 3,
				.real = RLX_F32, .w = w };
	struct rlx_graph *g;
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	uint64_t seed = 1;
	enum rlx_status st;

	expert_net_draw(&m, &seed);
	g = expert_net_graph(&m);
	st = g ? rlx_graph_finish(g) : RLX_ENOMEM;
	if (st)
		rlx_error_set(err, st, NULL, 0, "no graph");
	if (!st)
		st = rlx_compile(g, &o, &p, err);
	if (!st)
		st = rlx_session_new(p, NULL, &s, err);
	if (!st && (st = run_experts(s, &m, tries)))
		*err = *rlx_session_error(s);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	return st;
}

/* Compile, run twice and free on a device whose calls fail as @faults says. */
static enum rlx_status all_of_it(const char *faults, unsigned int parts, struct rlx_error *err)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_graph *g;
	enum rlx_status st;

	setenv("RLX_EMU_FAIL", faults, 1);
	*err = (struct rlx_error){ 0 };
	if (parts == RESIDENT)
		return an_arena_there(err);
	if (parts == EXPERTS)
		return experts_there(err, 1);
	if (parts == BUFFERS)
		return buffers_there(err);
	g = small_net(parts, 2);
	st = rlx_compile(g, &o, &p, err);
	if (!st)
		st = rlx_session_new(p, NULL, &s, err);
	if (!st)
		st = small_net_fill(s, 1);
	if (!st && (st = rlx_session_run(s)))
		*err = *rlx_session_error(s);
	if (!st && (st = submitted(s)))
		*err = *rlx_session_error(s);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	return st;
}

/* What is left of the driver's objects; "" if none is, or there was no driver. */
static const char *left_there(void)
{
	static char text[256];
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*left)(char *, size_t);

	if (!lib)
		return "";
	*(void **)&left = dlsym(lib, "emu_left");
	CHECK(left);
	left(text, sizeof(text));
	return text;
}

/*
 * In a child, for the emulator reads @faults once. 0: all went well; 1: a status with
 * a message, nothing left behind; else what was wrong is printed.
 */
static int outcome(const char *faults, unsigned int parts)
{
	int64_t before = rlx_alloc_live();
	struct rlx_error err;
	enum rlx_status st;
	pid_t pid;
	int rc;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		st = all_of_it(faults, parts, &err);
		if (rlx_alloc_live() != before)
			printf("# %s: %lld blocks left (%s)\n", faults,
			       (long long)(rlx_alloc_live() - before), err.text);
		else if (*left_there())
			printf("# %s: left on the device:%s (%s)\n", faults, left_there(),
			       err.text);
		else if (st && (!err.text[0] || err.status != st))
			printf("# %s: status %d without a message\n", faults, st);
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
static unsigned int fail_every_call(unsigned int parts)
{
	unsigned int n, met = 0;
	char faults[32];

	CHECK_EQ(outcome("", parts), 0);	/* kernels are in the cache now */
	for (n = 1; n < 2000; n++) {
		snprintf(faults, sizeof(faults), "*:%u:2", n);
		if (outcome(faults, parts))
			met++;
		else if (n > met + 40)	/* a run of calls whose failure nobody minds */
			break;
	}
	return met;
}

TEST(every_call_may_fail)
{
	unsigned int met = fail_every_call(SHARED);

	CHECKF(met > 60, "only %u", met);
	met = fail_every_call(ALONE);
	CHECKF(met > 30, "only %u", met);
	met = fail_every_call(LANES);
	CHECKF(met > 60, "only %u", met);
	met = fail_every_call(EXPERTS);
	CHECKF(met > 60, "only %u", met);
	met = fail_every_call(BUFFERS);
	CHECKF(met > 40, "only %u", met);
	if (!strcmp(op_case_gpu(), "rocm"))	/* shares none */
		return;
	met = fail_every_call(RESIDENT);
	CHECKF(met > 15, "only %u", met);
}

/* Until it is done; how often it was not. */
static int run_until_done(struct rlx_session *s, struct rlx_session *cpu)
{
	int failed = 0;

	poison(s);
	while (rlx_session_run(s)) {
		CHECKF(rlx_session_error(s)->text[0], "a run failed without a message");
		CHECKF(++failed < 2, "again: %s", rlx_session_error(s)->text);
	}
	run(cpu);
	same(s, cpu);
	return failed;
}

/* Of @s that has run once: a param set, then bound elsewhere, and an input. */
static int change_and_run(struct rlx_session *s, struct rlx_session *cpu)
{
	struct rlx_type t = rlx_type(RLX_F32, SMALL_DIM);
	struct rlx_arena_opts o = { .size = 1 << 16 };
	float shift[SMALL_DIM];
	struct rlx_arena *a;
	struct rlx_buf b;
	int failed, i;

	CHECK_EQ(rlx_arena_new(&o, &a, NULL), 0);
	for (i = 0; i < SMALL_DIM; i++)
		shift[i] = (float)i;
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "shift", t, shift), 0);
	CHECK_EQ(rlx_session_set(cpu, RLX_IO_PARAM, "shift", t, shift), 0);
	failed = run_until_done(s, cpu);
	for (i = 0; i < SMALL_DIM; i++)
		shift[i] = (float)(i * i);
	CHECK_EQ(rlx_buf_new(a, sizeof(shift), 64, &b, NULL), 0);
	memcpy(rlx_buf_ptr(b), shift, sizeof(shift));
	CHECK_EQ(rlx_session_bind(s, RLX_IO_PARAM, "shift", b), 0);
	CHECK_EQ(rlx_session_set(cpu, RLX_IO_PARAM, "shift", t, shift), 0);
	CHECK_EQ(rlx_buf_new(a, 2 * SMALL_SEQ * SMALL_DIM * 4, 64, &b, NULL), 0);
	memcpy(rlx_buf_ptr(b), rlx_buf_ptr(rlx_session_buf(cpu, RLX_IO_INPUT, "x")), b.bytes);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", b), 0);
	failed += run_until_done(s, cpu);
	rlx_arena_put(a);
	return failed;
}

/* What a child ends with, that does not end as a test which failed. */
enum { NOT_MET, MET_ELSEWHERE = 10, RAN_AGAIN };

static int runs_again(const char *faults, unsigned int parts, bool timed)
{
	static uint64_t ns[256];
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_graph *g = small_net(parts, 2);
	struct rlx_session *s = NULL, *cpu = session_on("cpu", parts, 2);
	struct rlx_program *p;
	int failed;

	setenv("RLX_EMU_FAIL", faults, 1);
	if (rlx_compile(g, &o, &p, NULL) || rlx_session_new(p, NULL, &s, NULL))
		return MET_ELSEWHERE;
	CHECK(s->p->plan->n_step <= 256);
	s->exec->step_ns = timed ? ns : NULL;
	CHECK_EQ(small_net_fill(s, 1), 0);
	CHECK_EQ(small_net_fill(cpu, 1), 0);
	failed = run_until_done(s, cpu);
	failed += change_and_run(s, cpu);
	rlx_session_free(s);
	rlx_session_free(cpu);
	rlx_program_put(p);
	rlx_graph_put(g);
	return failed ? RAN_AGAIN : NOT_MET;
}

static unsigned int fail_every_call_of_runs(unsigned int parts, bool timed)
{
	unsigned int n, met = 0, quiet = 0;
	char faults[32];
	pid_t pid;
	int rc;

	for (n = 1; n < 2000 && quiet < 40; n++) {
		snprintf(faults, sizeof(faults), "*:%u:2", n);
		fflush(stdout);
		pid = fork();
		if (!pid) {
			rc = runs_again(faults, parts, timed);
			fflush(stdout);
			_exit(rc);
		}
		CHECK_EQ(waitpid(pid, &rc, 0), pid);
		rc = WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
		CHECKF(rc == NOT_MET || rc == MET_ELSEWHERE || rc == RAN_AGAIN, "%s ended with %d",
		       faults, rc);
		met += rc == RAN_AGAIN;
		quiet = rc ? 0 : quiet + 1;
	}
	return met;
}

TEST(a_run_that_failed_is_tried_again)
{
	unsigned int met = fail_every_call_of_runs(SHARED | ALONE, false);

	CHECKF(met > 20, "only %u", met);
	met = fail_every_call_of_runs(ALONE, false);
	CHECKF(met > 10, "only %u", met);
	met = fail_every_call_of_runs(LANES, false);
	CHECKF(met > 20, "only %u", met);
	met = fail_every_call_of_runs(ALONE, true);
	CHECKF(met > 20, "only %u", met);
}

/* What of experts is where, after a run that failed, the next one knows. */
TEST(experts_after_a_run_that_failed)
{
	unsigned int n, quiet = 0, met = 0;
	struct rlx_error err = { 0 };
	char faults[32];
	pid_t pid;
	int rc;

	CHECK_EQ(outcome("", EXPERTS), 0);
	for (n = 1; n < 2000 && quiet < 40; n++) {
		snprintf(faults, sizeof(faults), "*:%u:2", n);
		fflush(stdout);
		pid = fork();
		if (!pid) {
			setenv("RLX_EMU_FAIL", faults, 1);
			rc = experts_there(&err, 2);
			fflush(stdout);
			/* compiling is not tried again */
			_exit(rc ? MET_ELSEWHERE : experts_failed ? RAN_AGAIN : NOT_MET);
		}
		CHECK_EQ(waitpid(pid, &rc, 0), pid);
		rc = WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
		CHECKF(rc == NOT_MET || rc == MET_ELSEWHERE || rc == RAN_AGAIN, "%s ended with %d",
		       faults, rc);
		met += rc == RAN_AGAIN;
		quiet = rc ? 0 : quiet + 1;
	}
	CHECKF(met > 60, "only %u", met);
}

static enum rlx_status without_faults(void *ctx)
{
	return all_of_it("", SHARED, ctx);
}

static enum rlx_status in_lanes(void *ctx)
{
	return all_of_it("", LANES, ctx);
}

static enum rlx_status in_buffers(void *ctx)
{
	return all_of_it("", BUFFERS, ctx);
}

static enum rlx_status with_experts(void *ctx)
{
	return all_of_it("", EXPERTS, ctx);
}

/* Every allocation fails once; whatever was on the device is given back. */
TEST(every_allocation_may_fail)
{
	struct rlx_error err;

	CHECK_EQ(without_faults(&err), 0);
	CHECK(rlx_oom_sweep(without_faults, &err) > 200);
	CHECK_EQ(in_lanes(&err), 0);
	CHECK(rlx_oom_sweep(in_lanes, &err) > 200);
	CHECK_EQ(with_experts(&err), 0);
	CHECK(rlx_oom_sweep(with_experts, &err) > 60);
	CHECK_EQ(in_buffers(&err), 0);
	CHECK(rlx_oom_sweep(in_buffers, &err) > 60);
}

/* A kernel faults: the context is lost, the process is not. */
TEST(a_lost_device)
{
	struct rlx_error err;

	CHECK_EQ(all_of_it("cuGraphLaunch:2:700!", SHARED, &err), RLX_ELOST);
	CHECKF(strstr(err.text, "failed"), "%s", err.text);
	CHECK_EQ(all_of_it("", SHARED, &err), RLX_ELOST);	/* as long as it is gone */
}

TEST(buffers_of_a_lost_device)
{
	static const char faults[] = "cuGraphLaunch:2:700!";
	struct rlx_device_buffer *b = NULL, *none = NULL;
	struct rlx_error err = { 0 };
	float v = 1;

	setenv("RLX_EMU_FAIL", faults, 1);	/* which is read once */
	CHECKF(!rlx_device_buffer_new(op_case_gpu(), 4096, &b, &err), "%s", err.text);
	CHECK_EQ(rlx_device_buffer_write(b, 0, sizeof(v), &v, &err), 0);
	CHECK_EQ(all_of_it(faults, SHARED, &err), RLX_ELOST);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_device_buffer_read(b, 0, sizeof(v), &v, &err), RLX_ELOST);
	CHECKF(strstr(err.text, "lost"), "%s", err.text);
	CHECK_EQ(rlx_device_buffer_write(b, 0, sizeof(v), &v, &err), RLX_ELOST);
	CHECK_EQ(rlx_device_buffer_new(op_case_gpu(), 64, &none, &err), RLX_ELOST);
	CHECK(!none);
	rlx_device_buffer_put(b);
}

/* What the driver says will be said of every call from then on. */
TEST(what_a_process_does_not_survive)
{
	static const int code[] = { 4, 46, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716,
				    717, 718, 719, 721, 810, 911, 999 };
	struct rlx_error err;
	char faults[32];
	size_t i;
	pid_t pid;
	int rc;

	CHECK_EQ(outcome("", ALONE), 0);
	for (i = 0; i < sizeof(code) / sizeof(code[0]); i++) {
		snprintf(faults, sizeof(faults), "cuGraphLaunch:1:%d!", code[i]);
		fflush(stdout);
		pid = fork();
		if (!pid)
			_exit(all_of_it(faults, SHARED, &err) != RLX_ELOST);
		CHECK_EQ(waitpid(pid, &rc, 0), pid);
		CHECKF(!rc, "%d is taken for what passes", code[i]);
	}
}

TEST(no_device_memory)
{
	struct rlx_error err;

	CHECK_EQ(all_of_it("cuMemAlloc:3:2", SHARED, &err), RLX_ENOMEM);
	CHECKF(strstr(err.text, "device memory"), "%s", err.text);
	CHECKF(!all_of_it("", SHARED, &err), "%s", err.text);
}

/* What @fn returns in a process of its own. */
static int in_child(int (*fn)(void))
{
	pid_t pid;
	int rc;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		rc = fn();
		fflush(stdout);
		_exit(rc);
	}
	CHECK_EQ(waitpid(pid, &rc, 0), pid);
	return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

/* Whoever comes next makes the context, though the device has been open all the time. */
static int second_context(void)
{
	static const char fault[] = "cuDevicePrimaryCtxRetain:1:2";
	struct rlx_device *held = NULL;
	struct rlx_error err;
	int rc = 0;

	setenv("RLX_EMU_FAIL", fault, 1);
	if (rlx_device_get(op_case_gpu(), 0, &held, &err)) {
		printf("# %s\n", err.text);
		return 1;
	}
	if (all_of_it(fault, SHARED, &err) != RLX_ENOMEM || !strstr(err.text, "context")) {
		printf("# without a context: %s\n", err.text);
		rc = 1;
	}
	if (all_of_it(fault, SHARED, &err)) {
		printf("# with the second: %s\n", err.text);
		rc = 1;
	}
	rlx_device_put(held);
	return rc;
}

TEST(a_context_that_is_made_at_the_second_try)
{
	CHECK_EQ(in_child(second_context), 0);
}

static void note_time(void *at, const char *pass, const struct rlx_graph *g)
{
	*(uint64_t *)at = rlx_now();
}

/* Passes are done and kernels found before a slow driver has a context. */
static int aside(void)
{
	enum { SLOW_MS = 1500 };
	struct rlx_graph *g = small_net(SHARED, 2);
	uint64_t t0 = rlx_now(), passed = 0;
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = op_case_gpu(), .dump = note_time,
		.dump_ctx = &passed,
	};
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	int rc = 0;

	setenv("RLX_EMU_CONTEXT_MS", "1500", 1);
	if (rlx_compile(g, &o, &p, &err)) {
		printf("# %s\n", err.text);
		return 1;
	}
	if (passed - t0 >= SLOW_MS * 1000000ull || rlx_now() - t0 < SLOW_MS * 1000000ull) {
		printf("# passes done after %.0f ms, all after %.0f\n",
		       (double)(passed - t0) * 1e-6, (double)(rlx_now() - t0) * 1e-6);
		rc = 1;
	}
	rlx_program_put(p);
	rlx_graph_put(g);
	return rc;
}

TEST(a_program_is_compiled_while_the_context_is_made)
{
	CHECK_EQ(in_child(aside), 0);
}

/* Into a folder of kernels that is empty: by several threads. */
static int compiled_at_once(void)
{
	char dir[] = "/tmp/rlx-kernels-XXXXXX", cmd[64];
	struct rlx_error err;
	void *rtc;
	int *most;

	if (!mkdtemp(dir))
		return 1;
	setenv("XDG_CACHE_HOME", dir, 1);
	setenv("RLX_EMU_COMPILE_MS", "100", 1);
	if (all_of_it("", SHARED, &err)) {
		printf("# %s\n", err.text);
		return 1;
	}
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd))
		return 1;
	rtc = dlopen("libnvrtc.so.12", RTLD_NOW | RTLD_NOLOAD);
	most = rtc ? dlsym(rtc, "emu_most_at_once") : NULL;
	if (!most || *most < 2) {
		printf("# %d at once\n", most ? *most : -1);
		return 1;
	}
	return 0;
}

TEST(kernels_are_compiled_at_once)
{
	CHECK_EQ(in_child(compiled_at_once), 0);
}

/* What a compiler does not take is said, and tried again by those who ask later. */
static int no_compiling(void)
{
	char dir[] = "/tmp/rlx-kernels-XXXXXX", cxx[64], cmd[64];
	struct rlx_device *held = NULL;
	struct rlx_error err;
	int rc = 0, i;

	if (!mkdtemp(dir))
		return 1;
	snprintf(cxx, sizeof(cxx), "%s/cxx", dir);
	setenv("XDG_CACHE_HOME", dir, 1);
	setenv("RLX_EMU_CACHE", dir, 1);
	setenv("RLX_EMU_CXX", cxx, 1);
	if (rlx_device_get(op_case_gpu(), 0, &held, &err))
		return 1;
	if (all_of_it("", ALONE, &err) != RLX_EBUG || !strstr(err.text, "does not compile")) {
		printf("# without a compiler: %s\n", err.text);
		rc = 1;
	}
	if (symlink("/usr/bin/g++", cxx))
		return 1;
	for (i = 0; i < 9 && all_of_it("", ALONE, &err); i++)
		;		/* some were still to be compiled */
	if (i == 9) {
		printf("# with one: %s\n", err.text);
		rc = 1;
	}
	rlx_device_put(held);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd) ? 1 : rc;
}

TEST(a_compiler_that_fails)
{
	CHECK_EQ(in_child(no_compiling), 0);
}

/*
 * A large result of an index that is not there, by @fail not as it should be told, but with @said;
 * then of one that is there.
 */
static int two_runs(const char *fail, const char *said)
{
	static const float rows[2][512];
	struct rlx_graph *g = rlx_graph_new("forgotten");
	rlx_value idx = rlx_input(g, "idx", rlx_type(RLX_I64, 64));
	rlx_value table = rlx_constant(g, rlx_type(RLX_F32, 2, 512), rows);
	struct rlx_session *s;
	int64_t *at;
	int rc;

	setenv("RLX_EMU_FAIL", fail, 1);
	rlx_output(g, "y", rlx_emit(g, gather, .x = table, .indices = idx));
	s = rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = op_case_gpu() });
	at = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "idx"));
	memset(at, 0, 64 * sizeof(*at));
	at[7] = 2;
	rc = rlx_session_run(s) != RLX_ENOMEM || !strstr(rlx_session_error(s)->text, said);
	if (rc)
		printf("# at first: %s\n", rlx_session_error(s)->text);
	at[7] = 1;
	if (rlx_session_run(s)) {
		printf("# %s\n", rlx_session_error(s)->text);
		rc = 1;
	}
	rlx_session_free(s);
	fflush(stdout);
	return rc;
}

static int uncopied(void)
{
	return two_runs("cuMemcpyDtoHAsync:1:2", "");
}

TEST(bad_data_of_a_run_that_failed_is_forgotten)
{
	CHECK_EQ(in_child(uncopied), 0);
}

/* What would be registered is not; zeros and status words have been cleared once by then. */
static int uncleared(void)
{
	return two_runs("cuMemHostRegister:1:2,cuMemHostRegister:2:2,cuMemHostRegister:3:2,"
			"cuMemHostRegister:4:2,cuMemsetD8Async:3:2", "clearing");
}

TEST(status_that_could_not_be_cleared_is_forgotten)
{
	CHECK_EQ(in_child(uncleared), 0);
}

/* The driver refuses the first kernel that it is given. */
static int refused_first(void)
{
	struct rlx_error err;

	if (!all_of_it("cuModuleLoadData:1:200", ALONE, &err))
		return 0;
	printf("# %s\n", err.text);
	return 1;
}

static int not_refused(void)
{
	struct rlx_error err;

	return all_of_it("", ALONE, &err);
}

/* What is kept and refused is compiled again, and kept in the place of what was there. */
TEST(a_kept_kernel_that_the_driver_refuses)
{
	static const char list[] = "find %s/rlx -name '*.bin' -printf '%%i\\n' | sort >%s/%s";
	char dir[] = "/tmp/rlx-kernels-XXXXXX", cmd[256];

	CHECK(mkdtemp(dir));
	setenv("XDG_CACHE_HOME", dir, 1);
	CHECK_EQ(in_child(not_refused), 0);
	snprintf(cmd, sizeof(cmd), list, dir, dir, "before");
	CHECK(!system(cmd));
	CHECK_EQ(in_child(refused_first), 0);
	snprintf(cmd, sizeof(cmd), list, dir, dir, "after");
	CHECK(!system(cmd));
	snprintf(cmd, sizeof(cmd), "cd %s; test $(wc -l <before) = $(wc -l <after) && "
		 "test $(comm -13 before after | wc -l) = 1 && rm -rf %s", dir, dir);
	CHECKF(!system(cmd), "other files in %s", dir);
}

/* Sums that take a while: begun, ended, and which of them fails behind what it has begun. */
static struct {
	int	begun, failing;
	int	ended;
} slow;

static void slowly(void *arg)
{
	usleep(20000);
	__atomic_fetch_add(&slow.ended, 1, __ATOMIC_SEQ_CST);
}

/* A call of the driver's by its name */
static void *driver_call(const char *name)
{
	void *fn = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name);

	CHECK(fn);
	return fn;
}

static void begin_slowly(void *stream)
{
	int (*put)(void *, void (*)(void *), void *);

	*(void **)&put = driver_call("cuLaunchHostFunc");
	CHECK(!put(stream, slowly, NULL));
}

static enum rlx_status sum_slowly(void *ctx, const struct rlx_reduction *r, struct rlx_error *err)
{
	begin_slowly(r->stream);
	return ++slow.begun == slow.failing ? rlx_fail(err, RLX_EIO, "told to fail") : RLX_OK;
}

/* Two runs of three sums: none is under way when its run has ended, and one run may fail. */
static int sums_aside(void)
{
	const struct rlx_collective c = { .ranks = 2, .all_reduce = sum_slowly };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_graph *g = rlx_graph_new("sums");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 64)), y = x;
	struct rlx_session *s;
	int i, rc = NOT_MET;

	for (i = 0; i < 3; i++) {
		y = rlx_emit(g, all_reduce, .x = rlx_emit(g, exp, .x = y), .ranks = 2);
		y = rlx_emit(g, cumsum, .x = y, .axis = 0);
	}
	rlx_output(g, "y", y);
	s = rig_session(g, &o);
	CHECK_EQ(rlx_session_collective(s, &c), 0);
	memset(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")), 0, 256);
	for (i = 0; i < 2; i++) {
		const struct rlx_error *err = rlx_session_error(s);

		if (rlx_session_run(s)) {
			CHECKF(rc == NOT_MET, "again: %s", err->text);
			CHECKF(!slow.failing || strstr(err->text, "told to fail"), "%s",
			       err->text);
			rc = RAN_AGAIN;
		}
		CHECKF(slow.ended == slow.begun, "%d sums are under way: %s",
		       slow.begun - slow.ended, err->text);
	}
	CHECKF(slow.begun >= 3, "%d sums", slow.begun);
	rlx_session_free(s);
	return rc;
}

TEST(sums_end_with_a_run_that_failed)
{
	static const char *const call[] = { "cuEventRecord", "cuStreamWaitEvent",
					    "cuStreamCreate", "cuEventCreate" };
	unsigned int k, n, met = 0;
	char faults[32];
	int rc;

	for (slow.failing = 1; slow.failing <= 3; slow.failing++)
		CHECK_EQ(in_child(sums_aside), RAN_AGAIN);
	slow.failing = 0;
	for (k = 0; k < 4; k++)
		for (n = 1; n <= 8; n++) {
			snprintf(faults, sizeof(faults), "%s:%u:2", call[k], n);
			setenv("RLX_EMU_FAIL", faults, 1);
			rc = in_child(sums_aside);
			CHECKF(rc == NOT_MET || rc == RAN_AGAIN || n < 3, "%s ended with %d",
			       faults, rc);
			met += rc == RAN_AGAIN;
		}
	CHECKF(met >= 8, "only %u", met);
}

/*
 * An arena of which the bytes are on their way, behind something slow, when it fails to be marked:
 * they have arrived before the memory goes. Its unmapping fails as well, for that would wait.
 */
static int filled_in_part(void)
{
	struct rlx_arena_opts o = { .size = 1 << 20 };
	int (*pin)(void *, size_t, unsigned int);
	struct rlx_device *held = NULL;
	struct rlx_resident *r = NULL;
	struct rlx_error err = { 0 };
	struct rlx_arena *a;
	struct gpu_device *d;

	setenv("RLX_EMU_FAIL", "cuMemcpyHtoDAsync:2:2,cuMemUnmap:1:2", 1);
	CHECKF(!rlx_device_get(op_case_gpu(), 0, &held, &err), "%s", err.text);
	d = (struct gpu_device *)held;
	CHECKF(!gpu_enter(d, &err), "%s", err.text);
	CHECK_EQ(rlx_arena_new(&o, &a, NULL), 0);
	CHECK_EQ(rlx_arena_seal(a, RLX_SEAL_WRITE, NULL), 0);
	*(void **)&pin = driver_call("cuMemHostRegister_v2");
	CHECK_EQ(pin(rlx_arena_base(a), rlx_arena_size(a), 0), 0);
	begin_slowly(d->stream);
	CHECK_EQ(rlx_resident_new(a, 0, op_case_gpu(), &r, &err), RLX_ENOMEM);
	CHECKF(strstr(err.text, "bringing an arena in"), "%s", err.text);
	CHECKF(slow.ended, "a copy is under way");
	rlx_arena_put(a);
	rlx_device_put(held);
	return 0;
}

TEST(an_arena_that_came_in_part)
{
	if (!strcmp(op_case_gpu(), "rocm"))	/* shares none */
		return;
	CHECK_EQ(in_child(filled_in_part), 0);
}

TEST_MAIN()
