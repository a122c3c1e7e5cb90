// SPDX-License-Identifier: MIT
/* One program, many sessions and threads; compiles at once that share weights. */
#include <pthread.h>

#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

enum { THREADS = 4, RUNS = 50, BATCH = 2, OUTPUTS = 7 };

static const char *const names[OUTPUTS] = {
	"mlp", "attn", "norm", "conv", "ew", "move", "sub",
};

/* What every thread should see, by a single one before. */
struct truth {
	float	*data[OUTPUTS];
	size_t	 bytes[OUTPUTS];
};

struct job {
	pthread_t		 thread;
	struct rlx_program	*p;
	struct rlx_graph	*g;		/* to compile from, or NULL */
	const struct truth	*t;
	unsigned int		 id;
	const char		*failed;	/* static text, NULL: fine */
};

static struct rlx_program *compile(struct rlx_graph *g, unsigned int threads)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = "cpu", .threads = threads,
	};
	struct rlx_program *p = NULL;

	return rlx_compile(g, &o, &p, NULL) ? NULL : p;
}

static struct rlx_graph *net(void)
{
	struct rlx_graph *g = small_net(SMALL_NET_ALL, BATCH);

	CHECKF(!rlx_graph_error(g)->status, "%s", rlx_graph_error(g)->text);
	return g;
}

static const char *compare(struct rlx_session *s, const struct truth *t)
{
	unsigned int i;

	for (i = 0; i < OUTPUTS; i++) {
		const void *got = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, names[i]));

		if (!got || memcmp(got, t->data[i], t->bytes[i]))
			return names[i];
	}
	return NULL;
}

static void poison(struct rlx_session *s)
{
	unsigned int i;

	for (i = 0; i < OUTPUTS; i++) {
		struct rlx_buf b = rlx_session_buf(s, RLX_IO_OUTPUT, names[i]);

		if (rlx_buf_ptr(b))
			memset(rlx_buf_ptr(b), 0xa5, b.bytes);
	}
}

static void learn(struct rlx_program *p, uint64_t seed, struct truth *t)
{
	struct rlx_session *s = NULL;
	unsigned int i;

	CHECK(!rlx_session_new(p, NULL, &s, NULL));
	CHECK_EQ(small_net_fill(s, seed), 0);
	poison(s);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	for (i = 0; i < OUTPUTS; i++) {
		struct rlx_buf b = rlx_session_buf(s, RLX_IO_OUTPUT, names[i]);

		t->bytes[i] = (size_t)rlx_type_bytes(
			rlx_program_io_type(p, RLX_IO_OUTPUT, i));
		t->data[i] = malloc(t->bytes[i]);
		CHECK(t->data[i]);
		memcpy(t->data[i], rlx_buf_ptr(b), t->bytes[i]);
	}
	rlx_session_free(s);
}

static void forget(struct truth *t)
{
	unsigned int i;

	for (i = 0; i < OUTPUTS; i++)
		free(t->data[i]);
}

/* Runs by call and by submit, in turn, with the inputs of this thread. */
static void *run_many(void *arg)
{
	struct job *j = arg;
	struct rlx_session *s = NULL;
	uint64_t point;
	int i;

	if (rlx_session_new(j->p, NULL, &s, NULL) || small_net_fill(s, 100 + j->id))
		j->failed = "session";
	for (i = 0; !j->failed && i < RUNS; i++) {
		poison(s);
		if (i & 1 ? rlx_session_submit(s, &point) ||
			    rlx_session_wait(s, point, -1) : rlx_session_run(s))
			j->failed = "run";
		else
			j->failed = compare(s, j->t);
	}
	rlx_session_free(s);
	return NULL;
}

static void start_and_join(struct job *jobs, void *(*fn)(void *))
{
	unsigned int i;

	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&jobs[i].thread, NULL, fn, &jobs[i]));
	for (i = 0; i < THREADS; i++)
		pthread_join(jobs[i].thread, NULL);
	for (i = 0; i < THREADS; i++)
		CHECKF(!jobs[i].failed, "thread %u: %s", i, jobs[i].failed);
}

static void one_program(unsigned int threads)
{
	struct rlx_graph *g = net();
	struct rlx_program *p = compile(g, threads);
	struct truth t[THREADS];
	struct job jobs[THREADS];
	unsigned int i;

	CHECK(p);
	for (i = 0; i < THREADS; i++) {
		learn(p, 100 + i, &t[i]);
		jobs[i] = (struct job){ .p = p, .t = &t[i], .id = i };
	}
	start_and_join(jobs, run_many);
	for (i = 0; i < THREADS; i++)
		forget(&t[i]);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST(one_program_many_sessions)
{
	one_program(1);
}

/* The sessions take turns with the pool's one helper. */
TEST(one_program_many_sessions_on_two_threads)
{
	one_program(2);
}

/* Each compiles the same graph: weights are packed once, by whoever is first. */
static void *compile_many(void *arg)
{
	struct job *j = arg;
	int i;

	for (i = 0; !j->failed && i < 10; i++) {
		struct rlx_session *s = NULL;

		j->p = compile(j->g, 1);
		if (!j->p || rlx_session_new(j->p, NULL, &s, NULL) ||
		    small_net_fill(s, 7) || rlx_session_run(s))
			j->failed = "compile, session or run";
		else
			j->failed = compare(s, j->t);
		rlx_session_free(s);
		rlx_program_put(j->p);
	}
	return NULL;
}

TEST(compiles_at_once_share_weights)
{
	struct rlx_graph *g = net();
	struct rlx_program *p = compile(g, 1);
	struct job jobs[THREADS];
	struct truth t;
	unsigned int i;

	CHECK(p);
	learn(p, 7, &t);
	rlx_program_put(p);	/* nothing is packed when the threads start */
	for (i = 0; i < THREADS; i++)
		jobs[i] = (struct job){ .g = g, .t = &t, .id = i };
	start_and_join(jobs, compile_many);
	forget(&t);
	rlx_graph_put(g);
}

/* While one run is under way the session says so, and is whole after it. */
TEST(a_busy_session_refuses)
{
	struct rlx_graph *g = net();
	struct rlx_program *p = compile(g, 1);
	struct rlx_session *s = NULL;
	unsigned int busy = 0, i;
	struct truth t;
	uint64_t point;
	enum rlx_status st;

	CHECK(p);
	learn(p, 9, &t);
	CHECK(!rlx_session_new(p, NULL, &s, NULL));
	CHECK_EQ(small_net_fill(s, 9), 0);
	for (i = 0; i < 200; i++) {
		CHECKF(!rlx_session_submit(s, &point), "%s", rlx_session_error(s)->text);
		st = rlx_session_extent(s, 0, 1);
		CHECK(!st || st == RLX_EBUSY);
		busy += st == RLX_EBUSY;
		st = rlx_session_submit(s, &point);
		CHECK(!st || st == RLX_EBUSY);
		CHECK(!st || strstr(rlx_session_error(s)->text, "is under way; wait for it"));
		st = rlx_session_wait(s, point, 0);
		CHECK(!st || st == RLX_ETIME);
		CHECK(!st || strstr(rlx_session_error(s)->text, "goes on; wait again"));
		CHECK_EQ(rlx_session_wait(s, point, -1), 0);
	}
	CHECK(busy > 0);
	CHECK(!compare(s, &t));
	/* freed with a run under way: waits for it */
	CHECK_EQ(rlx_session_submit(s, &point), 0);
	rlx_session_free(s);
	forget(&t);
	rlx_program_put(p);
	rlx_graph_put(g);
}

/* What is said meanwhile, of calls that are refused, is not what came of the run. */
TEST(the_message_of_a_run_is_its_own)
{
	enum { N = 400 };
	struct rlx_graph *g = rlx_graph_new("slow");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, N, N)), y = x;
	rlx_value at = rlx_input(g, "at", rlx_type(RLX_I64, 1));
	struct rlx_session *s;
	unsigned int busy, i;
	uint64_t point;

	for (i = 0; i < 8; i++)
		y = rlx_emit(g, matmul, .a = y, .b = x);
	rlx_output(g, "y", rlx_emit(g, gather, .x = y, .indices = at));
	s = rig_session(g, NULL);
	memset(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")), 0, N * N * sizeof(float));
	*(int64_t *)rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "at")) = N;
	CHECK_EQ(rlx_session_submit(s, &point), 0);
	for (busy = 0; rlx_session_extent(s, 0, 1) == RLX_EBUSY; busy++)
		CHECK(strstr(rlx_session_error(s)->text, "a submitted run is under way"));
	CHECK(busy > 0);
	CHECK_EQ(rlx_session_wait(s, point, -1), RLX_ERANGE);
	CHECK_EQ(rlx_session_error(s)->status, RLX_ERANGE);
	CHECKF(strstr(rlx_session_error(s)->text, "gather"), "%s", rlx_session_error(s)->text);
	CHECK(strstr(rlx_session_error(s)->file, "threads.c"));
	rlx_session_free(s);
}

TEST_MAIN()
