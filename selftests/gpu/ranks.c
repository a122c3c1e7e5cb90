// SPDX-License-Identifier: MIT
/*
 * Ranks with a GPU each, summed by NCCL, on the emulator by one made for tests: the same states
 * on all, those of one process within rounding; what a dead rank and NCCL's errors come to.
 */
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>

#include "backends/gpu/gpu.h"
#include "base/clock.h"
#include "rlx/comm.h"
#include "rlx/device.h"
#include "rt/rt.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/ranks.h"
#include "selftests/lib/train_rig.h"

enum { RANKS = 2, ROWS = 8, IN = 16, LARGE = 17000, SMALL = 64, STEPS = 5, STATE_FLOATS = 1 << 20 };

/* What ranks leave for the test to look at. */
static struct {
	float	state[RANKS][STATE_FLOATS];
	size_t	n[RANKS];
	double	loss[RANKS][STEPS];
} *seen;

/*
 * No driver may be begun before the ranks are forked, so children ask: @emulated whether the
 * driver is the emulator, else the number of devices, as an exit status.
 */
static int ask(bool emulated)
{
	struct rlx_dev_info info[16];
	unsigned int n, i, met = 0;
	void *lib;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid) {
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		return WEXITSTATUS(status);
	}
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (emulated)
		_exit(lib && dlsym(lib, "emu_shared"));
	n = rlx_device_list(info, 16);
	for (i = 0; i < n && i < 16; i++)
		met += !strncmp(info[i].backend, op_case_gpu(), 4);
	_exit((int)met);
}

static bool is_fake(void)
{
	return ask(true);
}

static bool is_rocm(void)
{
	return !strcmp(op_case_gpu(), "rocm");
}

/* Two devices and NCCL, or RCCL, or the test is skipped. */
static void need_two(void)
{
	const char *own = getenv("RLX_NCCL"), *lib = is_rocm() ? "librccl.so.1" : "libnccl.so.2";

	if (strcmp(op_case_gpu(), "cuda") && !is_rocm())
		rlx_test_skip("ranks have a GPU each: one device");
	setenv("RLX_EMU_DEVICES", "2", 1);
	if (ask(false) < RANKS)
		rlx_test_skip("one device");
	if (!dlopen(own ? own : lib, RTLD_LAZY))
		rlx_test_skip("no %s: RLX_NCCL names one", lib);
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(seen != MAP_FAILED);
}

/* With LARGE units one gradient is so large that it is summed where it lies. */
static int64_t units = LARGE;
/* Runs of a step; sums are of the last alone. */
static unsigned int runs = 1;
/* Each rank has a part of the optimizer's states. */
static bool zero;

static void build(struct train_rig *r, const char *device, unsigned int ranks, unsigned int parts)
{
	struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = 1, .accumulate = parts,
				    .ranks = ranks, .zero = zero };
	struct rlx_optimizer opt = { .size = sizeof(opt), .kind = RLX_SGD, .momentum = 0.9 };
	rlx_value x, loss;

	train_begin(r);
	x = rlx_input(r->g, "x", rlx_type(RLX_F32, ROWS, IN));
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "w",
		     rlx_type(RLX_F32, IN, units), RLX_KAIMING(IN), RLX_VAR_MATRIX));
	x = rlx_emit(r->g, gelu, .x = x);
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "u",
		     rlx_type(RLX_F32, units, 3), RLX_KAIMING((double)units), 0));
	x = rlx_emit(r->g, add, .a = x, .b = rlx_var(r->g, r->v, "b", rlx_type(RLX_F32, 3),
						     RLX_ZEROS, 0));
	loss = rlx_loss_ce(r->g, x, rlx_input(r->g, "labels", rlx_type(RLX_I32, ROWS)), NULL);
	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), &o, &opt);
	train_open(r, device, 0, NULL, 5);
}

static void feed(struct train_rig *r, int step, unsigned int part)
{
	uint64_t s = (uint64_t)step * 100 + part + 1;
	float *x = train_at(r, RLX_IO_INPUT, "x");
	int32_t *l = train_at(r, RLX_IO_INPUT, "labels");
	int i;

	for (i = 0; i < ROWS * IN; i++)
		x[i] = (float)rlx_test_uniform(&s, -1, 1);
	for (i = 0; i < ROWS; i++)
		l[i] = (x[i * IN] > 0) + (x[i * IN + 1] > 0);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 0.05f;
}

static size_t states_of(struct train_rig *r, float *to)
{
	static const char *const names[] = { "w", "u", "b", "sgd.b.w", "sgd.b.u", "sgd.b.b" };
	size_t n = 0, bytes;
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int k = rlx_program_io_find(r->p, RLX_IO_STATE, names[i]);

		if (k < 0)
			continue;
		bytes = (size_t)rlx_type_bytes(rlx_program_io_type(r->p, RLX_IO_STATE,
								   (unsigned int)k));
		CHECK(n + bytes / 4 <= STATE_FLOATS);
		memcpy(to + n, rlx_buf_ptr(rlx_session_bound(r->s, RLX_IO_STATE, names[i])), bytes);
		n += bytes / 4;
	}
	return n;
}

static struct rlx_comm *join(struct rlx_arena *at, unsigned int rank)
{
	struct rlx_comm_opts o = { .size = sizeof(o), .arena = at, .rank = rank, .ranks = RANKS,
				   .kind = is_rocm() ? RLX_COMM_RCCL : RLX_COMM_NCCL,
				   .timeout_ns = 60000000000 };
	struct rlx_error err = { 0 };
	struct rlx_comm *c;

	CHECKF(!rlx_comm_new(&o, &c, &err), "rank %u: %s", rank, err.text);
	return c;
}

typedef void rank_fn(struct train_rig *r, struct rlx_comm *c);

static void start_ranks(rank_fn *fn)
{
	struct rlx_error err = { 0 };
	struct rlx_arena *at;
	struct train_rig r;
	struct rlx_comm *c;
	unsigned int i;
	char device[16];

	CHECKF(!rlx_comm_arena(RANKS, &at, &err), "%s", err.text);
	for (i = 0; i < RANKS; i++) {
		if (!ranks_fork(i))
			continue;
		snprintf(device, sizeof(device), "%s:%u", op_case_gpu(), i);
		c = join(at, i);
		build(&r, device, RANKS, runs);
		CHECK(!rlx_session_collective(r.s, rlx_comm_collective(c)));
		fn(&r, c);
		train_end(&r);
		rlx_comm_free(c);
		ranks_exit();
	}
	rlx_arena_put(at);
}

/* Launches stand between a sum aside and the first that waits for it. */
static void check_aside(struct train_rig *r)
{
	const struct gpu_code *c = (const struct gpu_code *)r->p->code;
	uint32_t i, sums = 0, between = 0, joins = 0;

	for (i = 0; i < c->calls.n_call; i++) {
		sums += gpu_calls(c)[i].aside;
		joins += gpu_calls(c)[i].joins;
		between += sums && !joins && gpu_calls(c)[i].kind == GPU_KERNEL_CALL;
	}
	CHECKF(sums == 2 && joins && between, "%u sums aside, %u launches meanwhile, %u wait",
	       sums, between, joins);
}

static void steps(struct train_rig *r, struct rlx_comm *c)
{
	unsigned int rank = rlx_comm_rank(c);
	uint64_t was = 0, now;
	int step;

	check_aside(r);
	for (step = 0; step < STEPS; step++) {
		feed(r, step, rank);
		train_run(r);
		seen->loss[rank][step] = train_loss(r);
		now = rlx_session_transfers(r->s).in_bytes + rlx_session_transfers(r->s).out_bytes;
		CHECKF(step < 2 || now - was < 4096, "gradients crossed to the host");
		was = now;
	}
	seen->n[rank] = states_of(r, seen->state[rank]);
	CHECK(!rlx_comm_barrier(c));
}

/* Between what one process has and rank 0 had, @n floats of its @what. */
static double most_apart(const float *one, size_t n, const char *what)
{
	double most = 0;
	size_t i;

	for (i = 0; i < n; i++)
		most = fmax(most, fabs((double)one[i] - (double)seen->state[0][i]));
	printf("# %zu floats of %s, at most %.3g apart\n", n, what, most);
	return most;
}

TEST(states_are_equal_on_all_and_those_of_one_process)
{
	static float one[STATE_FLOATS];
	double loss;
	struct train_rig r;
	unsigned int part;
	size_t n;
	int step;

	need_two();
	start_ranks(steps);
	ranks_end(RANKS, -1);
	CHECK(seen->n[0] == seen->n[1] && seen->n[0] > (size_t)IN * LARGE);
	CHECK(!memcmp(seen->state[0], seen->state[1], seen->n[0] * 4));
	build(&r, op_case_gpu(), 1, RANKS);
	for (step = 0; step < STEPS; step++) {
		for (loss = part = 0; part < RANKS; part++) {
			feed(&r, step, part);
			train_run(&r);
			loss += train_loss(&r) / RANKS;
		}
		CHECKF(fabs(loss - seen->loss[0][step]) < 1e-5 &&
		       seen->loss[0][step] == seen->loss[1][step],
		       "step %d: loss %g and %g, not %g", step, seen->loss[0][step],
		       seen->loss[1][step], loss);
	}
	n = states_of(&r, one);
	CHECK_EQ(n, seen->n[0]);
	CHECK(most_apart(one, n, "states") < 1e-5);
	train_end(&r);
}

static void steps_of_two_runs(struct train_rig *r, struct rlx_comm *c)
{
	unsigned int rank = rlx_comm_rank(c), k;
	int step;

	for (step = 0; step < STEPS; step++)
		for (k = 0; k < runs; k++) {
			CHECK(!rlx_session_collective(r->s, k + 1 < runs ? rlx_comm_idle(c) :
						      rlx_comm_collective(c)));
			feed(r, step, k * RANKS + rank);
			train_run(r);
		}
	seen->n[rank] = states_of(r, seen->state[rank]);
	CHECK(!rlx_comm_barrier(c));
}

TEST(runs_that_add_up_need_no_sums)
{
	static float one[STATE_FLOATS];
	struct train_rig r;
	unsigned int part;
	size_t n, i;
	int step;

	need_two();
	units = SMALL;
	runs = 2;
	start_ranks(steps_of_two_runs);
	ranks_end(RANKS, -1);
	build(&r, op_case_gpu(), 1, 2 * RANKS);
	for (step = 0; step < STEPS; step++)
		for (part = 0; part < 2 * RANKS; part++) {
			feed(&r, step, part);
			train_run(&r);
		}
	n = states_of(&r, one);
	CHECK(n == seen->n[0] && !memcmp(seen->state[0], seen->state[1], n * 4));
	for (i = 0; i < n; i++)
		CHECKF(fabsf(one[i] - seen->state[0][i]) < 1e-5f, "float %zu: %g, not %g", i,
		       (double)seen->state[0][i], (double)one[i]);
	train_end(&r);
}

static size_t variables_of(struct train_rig *r, float *to)
{
	static const char *const names[] = { "w", "u", "b" };
	size_t n = 0, bytes;
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int k = rlx_program_io_find(r->p, RLX_IO_STATE, names[i]);

		bytes = (size_t)rlx_type_bytes(rlx_program_io_type(r->p, RLX_IO_STATE,
								   (unsigned int)k));
		memcpy(to + n, rlx_buf_ptr(rlx_session_bound(r->s, RLX_IO_STATE, names[i])), bytes);
		n += bytes / 4;
	}
	return n;
}

static void steps_by_parts(struct train_rig *r, struct rlx_comm *c)
{
	unsigned int rank = rlx_comm_rank(c), k;
	uint64_t was = 0, now;
	int step;

	CHECK(rlx_program_io_find(r->p, RLX_IO_STATE, "zero.sgd.b.u") >= 0);
	for (step = 0; step < STEPS; step++) {
		for (k = 0; k < runs; k++) {
			CHECK(!rlx_session_collective(r->s, k + 1 < runs ? rlx_comm_idle(c) :
						      rlx_comm_collective(c)));
			feed(r, step, k * RANKS + rank);
			train_run(r);
		}
		now = rlx_session_transfers(r->s).in_bytes + rlx_session_transfers(r->s).out_bytes;
		CHECKF(step < 2 || now - was < 8192, "gradients crossed to the host");
		was = now;
	}
	seen->n[rank] = variables_of(r, seen->state[rank]);
	CHECK(!rlx_comm_barrier(c));
}

static void check_parts_of_steps(void)
{
	static float one[STATE_FLOATS];
	struct train_rig r;
	unsigned int part;
	size_t n;
	int step;

	zero = true;
	start_ranks(steps_by_parts);
	ranks_end(RANKS, -1);
	zero = false;
	CHECK(seen->n[0] == seen->n[1] && seen->n[0]);
	CHECK(!memcmp(seen->state[0], seen->state[1], seen->n[0] * 4));
	build(&r, op_case_gpu(), 1, RANKS * runs);
	for (step = 0; step < STEPS; step++)
		for (part = 0; part < RANKS * runs; part++) {
			feed(&r, step, part);
			train_run(&r);
		}
	n = variables_of(&r, one);
	CHECK_EQ(n, seen->n[0]);
	CHECK(most_apart(one, n, "variables") < 1e-5);
	train_end(&r);
}

TEST(updates_by_parts_are_those_of_one_process)
{
	need_two();
	check_parts_of_steps();
}

/* A driver that has begun is of no use to processes that are forked then: a test of its own. */
TEST(updates_by_parts_of_what_has_no_runs_are_those_of_one_process)
{
	need_two();
	units = SMALL * 10;	/* no runs of a gradient: it is summed whole */
	runs = 2;
	check_parts_of_steps();
}

/* A rank's part of a sum, parts brought together, in f32 and in bf16, and what all have anyway. */
static void run_parts(struct rlx_comm *c, const char *device)
{
	enum { ROWS_OF = 50, COLS = 7, N = RANKS * ROWS_OF * COLS };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_graph *g = rlx_graph_new("parts");
	unsigned int rank = rlx_comm_rank(c);
	static float sum[N];
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	rlx_value x, y;
	float *at;
	int i;

	x = rlx_input(g, "x", rlx_type(RLX_F32, RANKS * ROWS_OF, COLS));
	y = rlx_emit(g, reduce_scatter, .x = rlx_emit(g, relu, .x = x), .ranks = RANKS);
	rlx_output(g, "part", y);
	rlx_output(g, "whole", rlx_emit(g, all_gather, .x = y, .ranks = RANKS));
	y = rlx_emit(g, all_gather, .x = rlx_emit(g, cast, .x = y, .to = RLX_BF16), .ranks = RANKS);
	rlx_output(g, "narrow", rlx_emit(g, cast, .x = y, .to = RLX_F32));
	rlx_output(g, "own", rlx_emit(g, own_part, .x = rlx_emit(g, relu, .x = x), .ranks = RANKS));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_collective(s, rlx_comm_collective(c)));
	at = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x"));
	for (i = 0; i < N; i++) {	/* bf16 has the sums */
		at[i] = (float)(i % 40 + (int)rank);
		sum[i] = (float)(2 * (i % 40) + 1);
	}
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	at = rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, "whole"));
	CHECK(!memcmp(at, sum, sizeof(sum)));
	at = rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, "narrow"));
	CHECK(!memcmp(at, sum, sizeof(sum)));
	at = rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, "part"));
	CHECK(!memcmp(at, sum + rank * (N / RANKS), sizeof(sum) / RANKS));
	at = rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, "own"));
	for (i = 0; i < N / RANKS; i++)
		CHECK_EQ(at[i], (float)((i + (int)rank * (N / RANKS)) % 40 + (int)rank));
	CHECK(!rlx_comm_barrier(c));
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST(parts_are_summed_and_brought_together)
{
	struct rlx_error err = { 0 };
	struct rlx_arena *at;
	struct rlx_comm *c;
	unsigned int i;
	char device[16];

	need_two();
	CHECKF(!rlx_comm_arena(RANKS, &at, &err), "%s", err.text);
	for (i = 0; i < RANKS; i++) {
		if (!ranks_fork(i))
			continue;
		snprintf(device, sizeof(device), "%s:%u", op_case_gpu(), i);
		c = join(at, i);
		run_parts(c, device);
		rlx_comm_free(c);
		ranks_exit();
	}
	rlx_arena_put(at);
	ranks_end(RANKS, -1);
}

static void steps_until_told(struct train_rig *r, struct rlx_comm *c)
{
	const char *want = "rank 1";
	enum rlx_status st = RLX_OK;
	int step;

	for (step = 0; !st; step++) {
		__atomic_store_n(&seen->n[rlx_comm_rank(c)], (size_t)step, __ATOMIC_RELAXED);
		feed(r, step, rlx_comm_rank(c));
		st = rlx_session_run(r->s);
	}
	CHECKF(st == RLX_EOWNERDEAD && strstr(rlx_session_error(r->s)->text, want), "%d: %s", st,
	       rlx_session_error(r->s)->text);
	CHECK_EQ(rlx_session_run(r->s), RLX_EOWNERDEAD);
}

TEST(a_rank_that_is_killed_is_named_within_5_s)
{
	uint64_t from;

	need_two();
	units = SMALL;
	start_ranks(steps_until_told);
	/* they are at it */
	while (__atomic_load_n(&seen->n[0], __ATOMIC_RELAXED) < 3) {
		CHECK(waitpid(-1, NULL, WNOHANG) == 0);
		usleep(10000);
	}
	from = rlx_now();
	CHECK(!kill(pids[1], SIGKILL));
	ranks_end(RANKS, 1);
	CHECKF(rlx_test_within(from, 5), "%.3g s", (double)(rlx_now() - from) * 1e-9);
}

static void told_by_nccl(struct train_rig *r, struct rlx_comm *c)
{
	const char *text;

	feed(r, 0, rlx_comm_rank(c));
	CHECK(rlx_session_run(r->s));
	text = rlx_session_error(r->s)->text;
	CHECKF(strstr(text, "invalid argument") || strstr(text, "unhandled system error"), "%s",
	       text);
	CHECKF(strstr(text, is_rocm() ? "rccl: " : "nccl: "), "%s", text);
}

TEST(what_nccl_says_is_told)
{
	static const char *const calls[] = { "begin", "sum", "state" };
	struct rlx_comm_opts o = { .size = sizeof(o), .ranks = 1 };
	struct rlx_error err = { 0 };
	struct rlx_comm *c;
	unsigned int i;

	o.kind = is_rocm() ? RLX_COMM_RCCL : RLX_COMM_NCCL;
	need_two();
	units = SMALL;
	if (!is_fake())
		rlx_test_skip("a real NCCL is not told to fail");
	for (i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		setenv("FAKE_NCCL", calls[i], 1);
		start_ranks(told_by_nccl);
		ranks_end(RANKS, -1);
	}
	setenv("FAKE_NCCL", "version", 1);
	CHECK_EQ(rlx_comm_new(&o, &c, &err), RLX_ENODEV);
	CHECKF(strstr(err.text, "version 21703"), "%s", err.text);
	setenv("FAKE_NCCL", "id", 1);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_comm_new(&o, &c, &err), RLX_EIO);
	CHECKF(strstr(err.text, "unhandled system error"), "%s", err.text);
}

TEST_MAIN()
