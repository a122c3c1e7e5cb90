// SPDX-License-Identifier: MIT
/* The thread pool: every unit once, whoever calls, however often. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/pool.h"
#include "base/proc.h"
#include "selftests/lib/rlx_test.h"

static struct rlx_pool *make(unsigned int n)
{
	struct rlx_error err = { 0 };
	struct rlx_pool *p;

	if (rlx_pool_new(n, &p, &err))
		rlx_test_fail(__FILE__, __LINE__, "%s", err.text);
	return p;
}

struct mark {
	struct rlx_pool	*pool;
	unsigned char	*hit;
	uint64_t	 units, grain;
	_Atomic uint32_t busy[64];	/* is this index in use? */
	_Atomic uint32_t clash, bad_bounds;
	_Atomic uint64_t used;		/* mask of indices seen */
};

static void mark(void *ctx, uint64_t begin, uint64_t end, unsigned int w)
{
	struct mark *m = ctx;
	uint64_t i;

	if (atomic_exchange(&m->busy[w], 1))
		m->clash++;
	if (m->grain && (begin % m->grain || end - begin > m->grain))
		m->bad_bounds++;
	m->used |= 1ull << w;
	for (i = begin; i < end; i++)
		m->hit[i]++;		/* not atomic: one thread per unit */
	atomic_store(&m->busy[w], 0);
}

static void check_once(struct rlx_pool *p, uint64_t units, uint64_t grain)
{
	struct mark m = { .units = units, .grain = grain };
	uint64_t i;

	m.hit = calloc(units + 1, 1);
	rlx_pool_run(p, mark, &m, units, grain);
	for (i = 0; i < units; i++)
		CHECKF(m.hit[i] == 1, "unit %llu of %llu, grain %llu: %u times",
		       (unsigned long long)i, (unsigned long long)units,
		       (unsigned long long)grain, m.hit[i]);
	CHECK_EQ(m.hit[units], 0);
	CHECK_EQ(m.clash, 0);
	CHECK_EQ(m.bad_bounds, 0);
	CHECK(m.used < 1ull << rlx_pool_size(p));
	free(m.hit);
}

TEST(each_unit_is_done_once)
{
	static const unsigned int sizes[] = { 1, 2, 3, 8 };
	uint64_t seed = rlx_test_seed();
	unsigned int i, k;

	for (i = 0; i < 4; i++) {
		struct rlx_pool *p = make(sizes[i]);

		CHECK_EQ(rlx_pool_size(p), sizes[i]);
		for (k = 0; k < 300; k++)
			check_once(p, rlx_test_rand(&seed) % 1000,
				   rlx_test_rand(&seed) % 50);
		rlx_pool_begin(p);
		for (k = 0; k < 3000; k++)
			check_once(p, rlx_test_rand(&seed) % 300,
				   1 + rlx_test_rand(&seed) % 20);
		rlx_pool_end(p);
		rlx_pool_free(p);
	}
	check_once(NULL, 100, 7);
	rlx_pool_free(NULL);
}

static void spread(void *ctx, uint64_t begin, uint64_t end, unsigned int w)
{
	_Atomic uint32_t *at = ctx;
	struct timespec t = { 0, 1000000 };
	int i;

	/* Both threads must be here at once to get past. */
	(*at)++;
	for (i = 0; i < 2000 && *at < 2; i++)
		nanosleep(&t, NULL);
}

static void count_call(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	uint64_t *calls = ctx;

	(void)worker;
	CHECK(begin < end);
	calls[0]++;
	calls[1] += end - begin;
}

/* Chunks are for others to take: kernels join neighbouring units, and who is alone has them all. */
TEST(a_single_thread_has_one_chunk)
{
	struct rlx_pool *one = make(1), *pool[] = { NULL, one };
	size_t i;

	for (i = 0; i < 2; i++) {
		uint64_t calls[2] = { 0 };

		rlx_pool_run(pool[i], count_call, calls, 1000, 0);
		CHECK_EQ(calls[0], 1);
		CHECK_EQ(calls[1], 1000);
		rlx_pool_run(pool[i], count_call, calls, 1000, 100);
		CHECK_EQ(calls[0], 11);
	}
	rlx_pool_free(one);
}

TEST(workers_take_part)
{
	struct rlx_pool *p = make(2);
	_Atomic uint32_t at = 0;
	int i;

	for (i = 0; i < 5; i++) {
		struct timespec t = { 0, 2000000 };

		at = 0;
		rlx_pool_run(p, spread, &at, 2, 1);
		CHECK_EQ(at, 2);
		nanosleep(&t, NULL);	/* let the worker fall asleep */
	}
	/* And when it fell asleep within a run. */
	rlx_pool_begin(p);
	for (i = 0; i < 5; i++) {
		struct timespec t = { 0, 3000000 };

		at = 0;
		nanosleep(&t, NULL);
		rlx_pool_run(p, spread, &at, 2, 1);
		CHECK_EQ(at, 2);
	}
	rlx_pool_end(p);
	rlx_pool_free(p);
}

static void nested(void *ctx, uint64_t begin, uint64_t end, unsigned int w)
{
	struct mark *m = ctx, inner = { .units = 100, .grain = 9 };
	unsigned char hit[100] = { 0 };
	int i;

	inner.hit = hit;
	CHECK(w < 8);
	rlx_pool_begin(m->pool);
	rlx_pool_run(m->pool, mark, &inner, 100, 9);
	rlx_pool_end(m->pool);
	for (i = 0; i < 100; i++)
		CHECK_EQ(hit[i], 1);
	/* Inline in this thread: under this thread's index alone. */
	CHECK_EQ(inner.used, 1ull << w);
	m->hit[begin]++;
}

TEST(nested_calls_run_in_place)
{
	unsigned char hit[40] = { 0 };
	struct mark m = { .pool = make(4), .hit = hit };
	int i;

	rlx_pool_run(m.pool, nested, &m, 40, 1);
	for (i = 0; i < 40; i++)
		CHECK_EQ(hit[i], 1);
	rlx_pool_free(m.pool);
}

static void *caller(void *arg)
{
	struct rlx_pool *p = arg;
	int i, k;

	for (i = 0; i < 60; i++) {
		bool own = rlx_pool_begin(p);

		for (k = 0; k < 20; k++)
			check_once(p, (uint64_t)(7 * i + k), 3);
		rlx_pool_end(p);
		if (!own)
			sched_yield();
	}
	return NULL;
}

TEST(threads_share_a_pool)
{
	struct rlx_pool *p = make(3);
	pthread_t t[4];
	int i;

	for (i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, caller, p));
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	check_once(p, 1000, 1);
	rlx_pool_free(p);
}

TEST(runs_take_no_memory)
{
	struct rlx_pool *p = make(4);
	unsigned char hit[1000];
	struct mark m = { .hit = hit, .grain = 5 };
	uint64_t before = rlx_alloc_count();
	int i;

	for (i = 0; i < 200; i++) {
		memset(hit, 0, sizeof(hit));
		rlx_pool_run(p, mark, &m, 1000, 5);
	}
	CHECK_EQ(rlx_alloc_count(), before);
	rlx_pool_free(p);
}

TEST(a_forked_child_works_alone)
{
	struct rlx_pool *p = make(4);
	int st;
	pid_t pid;

	check_once(p, 500, 3);
	rlx_pool_begin(p);
	pid = fork();
	if (!pid) {
		alarm(20);
		check_once(p, 500, 3);
		CHECK(!rlx_pool_begin(p));
		check_once(p, 500, 3);
		rlx_pool_end(p);
		rlx_pool_end(p);
		rlx_pool_free(p);
		if (!RLX_TEST_TSAN) {		/* which forbids threads after a fork */
			p = make(2);
			CHECK(rlx_pool_begin(p));
			check_once(p, 500, 3);
			rlx_pool_end(p);
			rlx_pool_free(p);
		}
		_exit(0);
	}
	check_once(p, 500, 3);
	rlx_pool_end(p);
	CHECK(waitpid(pid, &st, 0) == pid);
	CHECK_EQ(st, 0);
	rlx_pool_free(p);
}

TEST(size_comes_from_the_machine_or_the_environment)
{
	struct rlx_error err = { 0 };
	struct rlx_pool *p;
	cpu_set_t set;

	unsetenv("RLX_WORKERS");
	p = make(0);
	CHECK_EQ(rlx_pool_size(p), rlx_cpu_allowed());
	rlx_pool_free(p);
	setenv("RLX_WORKERS", "3", 1);
	p = make(0);
	CHECK_EQ(rlx_pool_size(p), 3);
	rlx_pool_free(p);
	p = make(2);
	CHECK_EQ(rlx_pool_size(p), 2);
	rlx_pool_free(p);
	setenv("RLX_WORKERS", "many", 1);
	CHECK_EQ(rlx_pool_new(0, &p, &err), RLX_EINVAL);
	CHECK(!p && strstr(err.text, "RLX_WORKERS=many"));
	CHECK_EQ(rlx_pool_new(100000, &p, NULL), RLX_EINVAL);
	unsetenv("RLX_WORKERS");
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	CHECK(!sched_setaffinity(0, sizeof(set), &set));
	p = make(0);
	CHECK_EQ(rlx_pool_size(p), 1);
	rlx_pool_free(p);
	p = make(4);			/* more than CPUs: slow, but right */
	check_once(p, 3000, 10);
	rlx_pool_free(p);
}

TEST(no_memory_is_an_error)
{
	struct rlx_pool *p = (void *)1;

	rlx_alloc_fail_nth(1);
	CHECK_EQ(rlx_pool_new(4, &p, NULL), RLX_ENOMEM);
	CHECK(!p);
}

/* Both threads must be in at once: a true hand-over, and a true return. */
static void meet(void *ctx, uint64_t begin, uint64_t end, unsigned int w)
{
	_Atomic uint32_t *here = ctx;
	int i;

	*here |= 1u << w;
	for (i = 0; i < 100000 && *here != 3; i++)
		;
}

static double seconds(void)
{
	return 1e-9 * (double)rlx_now();
}

/* Reports; judges only by a bound that no spinning pool misses. */
TEST(hand_over_is_far_cheaper_than_a_wake)
{
	_Atomic uint32_t here;
	struct rlx_pool *p;
	double best = 1, t, end;
	int i, k;

	if (rlx_cpu_allowed() < 2)
		rlx_test_skip("one CPU");
	p = make(2);
	/* The best single step: on a busy machine most wait for a CPU. A pool
	 * whose workers do not spin never gets below the cost of a wake. */
	end = seconds() + 5;
	for (k = 0; k < 100 || (best > 5e-6 && seconds() < end); k++) {
		rlx_pool_begin(p);
		for (i = 0; i < 100; i++) {
			here = 0;
			t = seconds();
			rlx_pool_run(p, meet, &here, 2, 1);
			t = seconds() - t;
			if (here == 3 && t < best)
				best = t;
		}
		rlx_pool_end(p);
	}
	if (best == 1)
		rlx_test_skip("the other CPU has no time for us");
	printf("# a step of two threads that meet: %.3f us\n", best * 1e6);
	CHECK(best < 20e-6);
	rlx_pool_free(p);
}

TEST_MAIN()
