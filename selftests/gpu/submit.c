// SPDX-License-Identifier: MIT
/*
 * Runs that the device has alone: a gate in a session's stream holds them until the test
 * opens it, so that what is said of a run under way is not a matter of luck.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/gpu/gpu.h"
#include "base/clock.h"
#include "rlx/device.h"
#include "rt/session.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/op_case.h"

enum { PARTS = SMALL_NET_MLP | SMALL_NET_ATTN | SMALL_NET_NORM | SMALL_NET_EW };

struct gate {
	pthread_mutex_t	lock;
	pthread_cond_t	moved;
	bool		reached, open;
};

#define GATE { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false }

static void wait_at(void *arg)
{
	struct gate *g = arg;

	pthread_mutex_lock(&g->lock);
	g->reached = true;
	pthread_cond_broadcast(&g->moved);
	while (!g->open)
		pthread_cond_wait(&g->moved, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

/* What @s submits next is behind @g; it is CUDA's under HIP too, here. */
static void shut(struct gate *g, struct rlx_session *s)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int (*put)(void *, void (*)(void *), void *);

	CHECKF(lib, "%s", dlerror());
	*(void **)&put = dlsym(lib, "cuLaunchHostFunc");
	CHECK(put);
	g->reached = g->open = false;
	CHECK_EQ(put(((struct gpu_exec *)s->exec)->stream, wait_at, g), 0);
	pthread_mutex_lock(&g->lock);
	while (!g->reached)
		pthread_cond_wait(&g->moved, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static void open_gate(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_broadcast(&g->moved);
	pthread_mutex_unlock(&g->lock);
}

/* It says that a run is under way, whatever it is asked to do. */
static void is_busy(struct rlx_session *s, uint64_t point)
{
	const char *some[] = { "norm" };
	uint64_t other;

	CHECK_EQ(rlx_session_wait(s, point, 0), RLX_ETIME);
	CHECK_EQ(rlx_session_wait(s, point, 2000000), RLX_ETIME);
	CHECK_EQ(rlx_session_run(s), RLX_EBUSY);
	CHECK_EQ(rlx_session_submit(s, &other), RLX_EBUSY);
	CHECK_EQ(rlx_session_want(s, some, 1), RLX_EBUSY);
	CHECK_EQ(rlx_session_unbind(s), RLX_EBUSY);
	CHECK_EQ(rlx_session_wait(s, point + 1, -1), RLX_EINVAL);
}

/* A session on the device whose launches are captured, and what it will give by @seed. */
static struct rlx_session *warm(struct rlx_session **out_cpu, unsigned int parts, uint64_t seed)
{
	struct rlx_session *s = session_on(op_case_gpu(), parts, 2);

	*out_cpu = session_on("cpu", parts, 2);
	CHECK_EQ(small_net_fill(s, seed + 1), 0);
	run(s);
	CHECK_EQ(small_net_fill(s, seed), 0);
	CHECK_EQ(small_net_fill(*out_cpu, seed), 0);
	run(*out_cpu);
	poison(s);
	return s;
}

/* What its kernels use is nowhere: to be said before the first run has captured them. */
static void lead_astray(struct rlx_session *s)
{
	struct gpu_exec *x = (struct gpu_exec *)s->exec;
	const struct gpu_code *c = (const struct gpu_code *)s->exec->code;
	const uint64_t nowhere = 64;
	uint32_t i;

	for (i = 0; i < c->calls.slot_at[rlx_slot_status(c->base.plan) + 1]; i++)
		memcpy(x->image + c->calls.reloc[i].at, &nowhere, sizeof(nowhere));
}

/* In a process that has not looked at RLX_DEBUG yet. */
TEST(a_fault_is_named_if_asked)
{
	const struct rlx_error *err;
	struct rlx_session *s;
	uint64_t point;
	pid_t pid;
	int st;

	pid = fork();
	if (!pid) {
		setenv("RLX_DEBUG", "run", 1);
		s = session_on(op_case_gpu(), PARTS, 2);
		CHECK_EQ(small_net_fill(s, 1), 0);
		lead_astray(s);
		err = rlx_session_error(s);
		CHECK_EQ(rlx_session_submit(s, &point), 0);
		CHECK_EQ(rlx_session_wait(s, point, -1), RLX_ELOST);
		CHECKF(err->node && err->file && strstr(err->file, "small_net.c") &&
		       strstr(err->text, "the device failed"), "%s", err->text);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK_EQ(st, 0);
}

/* A run held on the second device, and one on the first. */
static void on_two_devices(void)
{
	static struct gate g = GATE;
	struct rlx_session *c, *s = warm(&c, PARTS, 3), *second;
	const struct gpu_device *d[2];
	char name[16];
	uint64_t point;

	snprintf(name, sizeof(name), "%s:1", op_case_gpu());
	second = session_on(name, PARTS, 2);
	CHECK_EQ(small_net_fill(second, 3), 0);
	run(second);
	d[0] = gpu_device_of(s->exec->code);
	d[1] = gpu_device_of(second->exec->code);
	CHECK(d[0]->base.ordinal == 0 && d[1]->base.ordinal == 1 && d[0]->ctx != d[1]->ctx);
	poison(second);
	shut(&g, second);
	CHECK_EQ(rlx_session_submit(second, &point), 0);
	compare(s, c);
	is_busy(second, point);
	open_gate(&g);
	CHECK_EQ(rlx_session_wait(second, point, -1), 0);
	same(second, c);
	rlx_session_free(s);
	rlx_session_free(second);
	rlx_session_free(c);
}

/* In a process that has not asked the driver how many there are. */
TEST(devices_by_ordinal)
{
	struct rlx_dev_info info[8];
	char second[16];
	unsigned int i, n;
	pid_t pid;
	int st;

	pid = fork();
	if (!pid) {
		setenv("RLX_EMU_DEVICES", "2", 1);
		snprintf(second, sizeof(second), "%s:1", op_case_gpu());
		n = rlx_device_list(info, 8);
		for (i = 0; i < n && i < 8 && strcmp(info[i].backend, second); i++)
			;
		if (i == n || i == 8)
			_exit(3);
		on_two_devices();
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK(WIFEXITED(st) && (!WEXITSTATUS(st) || WEXITSTATUS(st) == 3));
	if (WEXITSTATUS(st) == 3)
		printf("# there is one device\n");
}

/* The device has it, the session's owner goes on, and so do other sessions. */
TEST(a_run_the_device_has)
{
	struct rlx_session *c, *s = warm(&c, PARTS, 1), *other = NULL;
	static struct gate g = GATE;
	uint64_t point, second;
	int i;

	CHECK_EQ(rlx_session_clone(s, &other, NULL), 0);
	CHECK_EQ(small_net_fill(other, 1), 0);
	shut(&g, s);
	CHECKF(!rlx_session_submit(s, &point), "%s", rlx_session_error(s)->text);
	CHECK(!s->runner.started);	/* nobody here waits for it */
	is_busy(s, point);
	for (i = 0; i < 3; i++) {	/* past the one that is held */
		poison(other);
		CHECK_EQ(rlx_session_submit(other, &second), 0);
		CHECK_EQ(rlx_session_wait(other, second, -1), 0);
		same(other, c);
	}
	compare(other, c);
	is_busy(s, point);
	open_gate(&g);
	CHECKF(!rlx_session_wait(s, point, -1), "%s", rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_wait(s, point, 0), 0);	/* again: still the same */
	same(s, c);
	CHECK_EQ(rlx_session_submit(s, &second), 0);
	CHECK(second > point);
	CHECK_EQ(rlx_session_wait(s, second, INT64_MAX), 0);
	same(s, c);
	rlx_session_free(s);
	rlx_session_free(other);
	rlx_session_free(c);
}

static void *open_later(void *arg)
{
	usleep(20000);
	open_gate(arg);
	return NULL;
}

/* Within a deadline, and at the end of a session. */
TEST(waited_for)
{
	struct rlx_session *c, *s = warm(&c, PARTS, 4);
	static struct gate g = GATE;
	pthread_t thread;
	uint64_t point;

	shut(&g, s);
	CHECK_EQ(rlx_session_submit(s, &point), 0);
	CHECK(!pthread_create(&thread, NULL, open_later, &g));
	CHECK_EQ(rlx_session_wait(s, point, 60000000000), 0);
	same(s, c);
	CHECK(!pthread_join(thread, NULL));
	shut(&g, s);
	CHECK_EQ(rlx_session_submit(s, &point), 0);
	CHECK(!pthread_create(&thread, NULL, open_later, &g));
	rlx_session_free(s);
	CHECK(g.open);
	CHECK(!pthread_join(thread, NULL));
	rlx_session_free(c);
}

/* A count that each run raises by one: none is lost, whether it is waited for or not. */
TEST(fed_runs_are_taken_note_of)
{
	enum { RUNS = 50 };
	struct rlx_graph *g = rlx_graph_new("count");
	struct rlx_type t = rlx_type(RLX_F32, 40);
	const float unit = 1;
	rlx_value one = rlx_constant(g, rlx_type(RLX_F32, 1), &unit), x = rlx_input(g, "x", t);
	struct rlx_session *s;
	static float v[40];
	uint64_t point, from;
	int i;

	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = one));
	CHECK_EQ(rlx_graph_finish(g), 0);
	s = session_of(g, op_case_gpu(), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, v), 0);
	CHECK_EQ(rlx_session_feed(s, "y", "x"), 0);
	for (i = 0; i < RUNS; i++) {
		from = rlx_now();
		while (rlx_session_submit(s, &point) == RLX_EBUSY)
			CHECK(rlx_now() - from < 60000000000);
		if (i % 3 == 0)
			CHECK_EQ(rlx_session_wait(s, point, -1), 0);
	}
	CHECK_EQ(rlx_session_wait(s, point, -1), 0);
	CHECK_EQ(rlx_session_get(s, RLX_IO_INPUT, "x", t, v), 0);
	for (i = 0; i < 40; i++)
		CHECKF(v[i] == RUNS, "%g", (double)v[i]);
	rlx_session_free(s);
	rlx_graph_put(g);
}

/* A step of the host's waits in the session's thread, and not where it is submitted. */
TEST(a_run_the_host_has_a_part_in)
{
	struct rlx_session *c, *s = warm(&c, SMALL_NET_NORM | SMALL_NET_SUB, 7);
	static struct gate g = GATE;
	uint64_t point;
	int i;

	CHECK(s->p->info.host);
	for (i = 0; i < 2; i++) {
		poison(s);
		shut(&g, s);
		CHECK_EQ(rlx_session_submit(s, &point), 0);
		is_busy(s, point);
		open_gate(&g);
		CHECK_EQ(rlx_session_wait(s, point, -1), 0);
		same(s, c);
	}
	rlx_session_free(s);
	rlx_session_free(c);
}

/* What a kernel finds wrong is told to who waits, and by nobody else's call. */
TEST(bad_data_is_told_to_who_waits)
{
	struct rlx_graph *g = rlx_graph_new("look up");
	struct rlx_type t = rlx_type(RLX_I64, 4);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4, 8));
	rlx_value at = rlx_input(g, "at", t), y;
	static const int64_t good[4] = { 3, 2, 1, 0 }, bad[4] = { 0, 1, 4, 0 };
	static const float v[32];
	struct rlx_session *s;
	const struct rlx_error *err;
	uint64_t point;
	int i;

	y = rlx_emit(g, gather, .x = x, .indices = at);
	rlx_output(g, "y", rlx_emit(g, exp, .x = y));
	CHECK_EQ(rlx_graph_finish(g), 0);
	s = session_of(g, op_case_gpu(), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 4, 8), v), 0);
	err = rlx_session_error(s);
	for (i = 0; i < 4; i++) {
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "at", t, i % 2 ? good : bad), 0);
		CHECK_EQ(rlx_session_submit(s, &point), 0);
		if (i == 2)	/* others find out that it is done, and succeed */
			while (rlx_session_extent(s, 0, 1))
				CHECK_EQ(err->status, RLX_EBUSY);
		CHECK_EQ(rlx_session_wait(s, point, -1), i % 2 ? RLX_OK : RLX_ERANGE);
		CHECK_EQ(err->status, i % 2 ? RLX_OK : RLX_ERANGE);
		if (i % 2)
			continue;
		CHECKF(strstr(err->text, "gather: an index"), "%s", err->text);
		CHECK(err->node && err->file && strstr(err->file, "submit.c"));
	}
	rlx_session_free(s);
	rlx_graph_put(g);
}

/* Another is made in its workspace: that is no run, and takes nothing from it. */
TEST(a_session_made_while_another_runs)
{
	struct rlx_session_opts so = { .size = sizeof(so) };
	struct rlx_graph *g = rlx_graph_new("look up");
	struct rlx_type t = rlx_type(RLX_I64, 4);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4, 8));
	static const int64_t good[4] = { 3, 2, 1, 0 }, bad[4] = { 0, 1, 4, 0 };
	struct rlx_arena_opts ao = { .size = 1 << 16 };
	struct rlx_session *s, *other, *warm;
	static const float v[32];
	struct rlx_arena *a;
	struct gpu_exec *e;
	uint64_t point;

	rlx_output(g, "y", rlx_emit(g, gather, .x = x, .indices = rlx_input(g, "at", t)));
	CHECK_EQ(rlx_graph_finish(g), 0);
	warm = session_of(g, op_case_gpu(), 0);
	CHECK_EQ(rlx_arena_new(&ao, &a, NULL), 0);
	so.work = rlx_buf_whole(a);
	CHECK_EQ(rlx_session_new(rlx_session_program(warm), &so, &s, NULL), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 4, 8), v), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "at", t, good), 0);
	run(s);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "at", t, bad), 0);
	CHECK_EQ(rlx_session_submit(s, &point), 0);
	e = (struct gpu_exec *)s->exec;
	while (gpu_device_of(s->exec->code)->api->stream_query(e->stream))
		;
	CHECK_EQ(rlx_session_new(rlx_session_program(warm), &so, &other, NULL), 0);
	CHECK_EQ(rlx_session_wait(s, point, -1), RLX_ERANGE);
	CHECK_EQ(rlx_session_set(other, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 4, 8), v), 0);
	CHECK_EQ(rlx_session_set(other, RLX_IO_INPUT, "at", t, good), 0);
	run(other);
	rlx_session_free(other);
	rlx_session_free(s);
	rlx_session_free(warm);
	rlx_arena_put(a);
	rlx_graph_put(g);
}

/*
 * Last, for the device does not come back. Whoever has a run under way is told when it
 * asks, runs that are begun later fail at once, and the process lives.
 */
TEST(a_run_that_faults)
{
	struct rlx_session *c, *other = warm(&c, PARTS, 11), *s = NULL;
	static struct gate g = GATE;
	const struct rlx_error *err;
	uint64_t point, second;

	CHECK_EQ(rlx_session_clone(other, &s, NULL), 0);
	CHECK_EQ(small_net_fill(s, 11), 0);
	err = rlx_session_error(s);
	shut(&g, other);
	CHECK_EQ(rlx_session_submit(other, &second), 0);
	lead_astray(s);
	CHECK_EQ(rlx_session_submit(s, &point), 0);
	CHECK_EQ(rlx_session_wait(s, point, -1), RLX_ELOST);
	CHECKF(strstr(err->text, "the device failed") && strstr(err->text, "RLX_DEBUG=run"),
	       "%s", err->text);
	CHECK_EQ(rlx_session_wait(s, point, 0), RLX_ELOST);	/* still the same */
	CHECK_EQ(rlx_session_submit(s, &point), RLX_ELOST);
	CHECK_EQ(rlx_session_run(s), RLX_ELOST);
	open_gate(&g);
	CHECK_EQ(rlx_session_wait(other, second, -1), RLX_ELOST);
	rlx_session_free(s);
	rlx_session_free(other);
	compare(c, c);
	rlx_session_free(c);
}

TEST_MAIN()
