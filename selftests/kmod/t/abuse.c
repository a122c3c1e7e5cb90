// SPDX-License-Identifier: MIT
/* Clients and executors that mean harm: to each other, to the kernel, to its time. */
/* rig: timeout=240 */
#include <errno.h>
#include <linux/rlx.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/chan.h"

#define DEPTH	8

/* ---- two threads of one executor, over a channel that goes ---- */

/* One fetches where nothing can be written, the other hears that @id is gone. */
struct race {
	pthread_barrier_t begin, end;
	int ex;
	uint32_t id;
	atomic_uint there;
	atomic_bool heard, over;
	unsigned int spin;		/* how long it waits before it hears */
	long events;
	struct rlx_event ev[4];
};

static void race_meet(struct race *r)
{
	atomic_fetch_add(&r->there, 1);
	while (atomic_load(&r->there) < 2)
		;
}

static void race_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *race_fetch(void *arg)
{
	struct race *r = arg;

	race_pin(0);
	for (;;) {
		pthread_barrier_wait(&r->begin);
		if (atomic_load(&r->over))
			return NULL;
		race_meet(r);
		for (int i = 0; i < 40 && !atomic_load(&r->heard); i++)
			k_fetch(r->ex, (uint32_t *)8, 1, 0, 0);
		pthread_barrier_wait(&r->end);
	}
}

static void *race_hear(void *arg)
{
	struct race *r = arg;

	race_pin(1);
	for (;;) {
		pthread_barrier_wait(&r->begin);
		if (atomic_load(&r->over))
			return NULL;
		race_meet(r);
		for (volatile unsigned int i = 0; i < r->spin; i++)
			;
		r->events = k_events(r->ex, r->id, r->ev, 4);
		atomic_store(&r->heard, true);
		pthread_barrier_wait(&r->end);
	}
}

/* A channel that comes and goes; what the executor heard of it is all there is. */
static void race_round(struct race *r, struct k_scene *s, unsigned int spin)
{
	int ch = k_channel(s->session, s->svc, 1, 0, &r->id);
	struct pollfd p = { .fd = s->ex, .events = POLLIN };
	uint32_t tags[8];

	close(ch);
	CHECK_EQ(poll(&p, 1, 60000), 1);
	r->spin = spin;
	atomic_store(&r->there, 0);
	atomic_store(&r->heard, false);
	pthread_barrier_wait(&r->begin);
	pthread_barrier_wait(&r->end);
	if (r->events < 1) {
		/* Before it was put back: hear of it now. */
		while (k_fetch(s->ex, tags, 8, 0, 0) > 0)
			;
		r->events = k_events(s->ex, r->id, r->ev, 4);
	}
	CHECK(r->events >= 1);
	CHECK_EQ(r->ev[r->events - 1].type, RLX_EVENT_GONE);
	CHECKF(!poll(&p, 1, 0), "the executor is told again of a channel it saw go");
}

/* Its struct is freed then; a queue that still knows it hands out freed memory. */
TEST(gone_is_told_once)
{
	struct k_scene s = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH,
							       .channel = 1 });
	struct race r = { .ex = s.ex };
	uint64_t until = k_now() + 10 * 1000 * K_MS;
	unsigned int seed = 1, n;
	pthread_t a, b;

	CHECK_EQ(pthread_barrier_init(&r.begin, NULL, 3), 0);
	CHECK_EQ(pthread_barrier_init(&r.end, NULL, 3), 0);
	CHECK_EQ(pthread_create(&a, NULL, race_fetch, &r), 0);
	CHECK_EQ(pthread_create(&b, NULL, race_hear, &r), 0);
	for (n = 0; n < 20000 && k_now() < until; n++) {
		seed = seed * 1103515245 + 12345;
		race_round(&r, &s, (seed >> 16) % 3000);
	}
	printf("# %u channels\n", n);
	atomic_store(&r.over, true);
	pthread_barrier_wait(&r.begin);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	k_scene_free(&s);
}

TEST_MAIN()
