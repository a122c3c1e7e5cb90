// SPDX-License-Identifier: MIT
/* Words that are read without the lock they are written under, both at the same time. */
/* rig: kernels=kcsan */
#include <linux/rlx.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"

#define SECONDS	6
#define PARAM	"/sys/module/rlx/parameters/max_sessions"

struct shared {
	int session, svc, ch, arena;
	uint32_t id;
	atomic_bool over;
	_Atomic int ex;
};

static void read_fdinfo(int fd)
{
	char path[64], text[1024];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	k_file_read(path, text, sizeof(text));
}

static void *looks(void *arg)
{
	struct shared *s = arg;

	while (!s->over) {
		struct pollfd p[2] = { { .fd = s->svc, .events = POLLOUT },
				       { .fd = s->ch, .events = POLLOUT } };
		struct rlx_ioc_query q = { 0 };

		poll(p, 2, 0);
		read_fdinfo(s->svc);
		read_fdinfo(s->ch);
		CHECK_EQ(k_ioctl(s->session, RLX_IOC_QUERY, &q), 0);
	}
	return NULL;
}

/* The queue with more room, of two. */
static void *connects(void *arg)
{
	struct shared *s = arg;

	while (!s->over) {
		struct rlx_ioc_connect c = {
			.service = s->svc, .depth = 2, .queue = RLX_QUEUE_ANY,
		};
		long ch = k_ioctl(s->session, RLX_IOC_CONNECT, &c);

		if (ch >= 0)
			close(ch);
	}
	return NULL;
}

static void *attaches(void *arg)
{
	struct shared *s = arg;

	while (!s->over) {
		long handle = k_attach(s->ch, s->arena, RLX_R);

		if (handle <= 0)
			continue;
		close(k_exec_arena(s->ex, s->id, handle, NULL));
		k_detach(s->ch, handle);
	}
	return NULL;
}

static void *sets(void *arg)
{
	struct shared *s = arg;

	for (int i = 0; !s->over; i++)
		k_file_write(PARAM, 1000 + i % 24);
	return NULL;
}

/* Executors come and go, and hear the news while there are some. */
static void serve(struct shared *s)
{
	struct pollfd p = { .events = POLLIN };
	struct rlx_event ev[8];
	uint32_t tag;

	s->ex = k_next_executor(s->svc, 0);
	p.fd = s->ex;
	for (int i = 0; i < 50; i++) {
		poll(&p, 1, 0);
		if (k_fetch(s->ex, &tag, 1, 0, 0) == 1 && tag & RLX_TAG_EVENT)
			k_events(s->ex, tag & ~RLX_TAG_EVENT, ev, 8);
		k_events(s->ex, s->id, ev, 8);
	}
	close(s->ex);
}

TEST(and_writers)
{
	static void *(*const fn[])(void *) = { looks, connects, connects, attaches, sets };
	uint64_t end = k_now() + SECONDS * 1000 * K_MS;
	struct shared s = { .session = k_open(), .ex = -1 };
	pthread_t t[5];

	s.svc = k_service(s.session, 2, 8, 0);
	s.arena = k_arena(s.session, 4096, 0);
	s.ch = k_channel(s.session, s.svc, 2, 0, &s.id);
	for (int i = 0; i < 5; i++)
		CHECK(!pthread_create(&t[i], NULL, fn[i], &s));
	while (k_now() < end)
		serve(&s);
	s.over = true;
	for (int i = 0; i < 5; i++)
		CHECK(!pthread_join(t[i], NULL));
	close(s.ch);
	close(s.arena);
	close(s.svc);
	close(s.session);
	CHECK(k_stat_becomes("nr_channels", 0));
}

TEST_MAIN()
