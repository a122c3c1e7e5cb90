// SPDX-License-Identifier: MIT
/* Shared rings: requests and completions without a call, and words that lie. */
/* rig: timeout=120 m32 also */
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <linux/rlx.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/chan.h"

#define DEPTH	8

static struct k_scene scene_new(uint32_t flags)
{
	return k_scene_new(&(struct k_scene_opts){
		.depth = 2 * DEPTH, .channel = DEPTH, .service = flags,
		.exec = RLX_EXEC_RING, .chan = RLX_CHANNEL_RING,
	});
}

static uint32_t next_tag(struct k_scene *s)
{
	const uint32_t *e = k_ring_next(&s->rq);

	CHECK(e);
	return *e;
}

TEST(round_trip)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq[DEPTH];
	struct rlx_rq_id id[DEPTH];

	for (int round = 0; round < 500; round++) {
		int n = 1 + round % DEPTH;

		for (int i = 0; i < n; i++)
			rq[i] = k_rq(round, i);
		CHECK_EQ(k_submit(s.ch, rq, n, id), n);
		for (int i = 0; i < n; i++) {
			uint32_t tag = next_tag(&s);

			CHECK_EQ(tag, id[i].tag);
			CHECK_EQ(s.desc[tag].seq, id[i].seq);
			CHECK_EQ(s.desc[tag].user_data, i);
			CHECK_EQ(k_commit1(s.ex, s.desc, tag, round, 5 + i), 1);
		}
		CHECK(!k_ring_next(&s.rq));
		for (int i = 0; i < n; i++) {
			const struct rlx_cqe *c = k_ring_next(&s.done);

			CHECK(c);
			CHECK_EQ(c->user_data, i);
			CHECK_EQ(c->seq, id[i].seq);
			CHECK_EQ(c->result, round);
			CHECK_EQ(c->aux, 5 + i);
		}
		CHECK(!k_ring_next(&s.done));
	}
	k_scene_free(&s);
}

/* A client that does not consume gets no further than its ring. */
TEST(back_pressure)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq[DEPTH];

	for (int i = 0; i < DEPTH; i++)
		rq[i] = k_rq(0, i);
	CHECK_EQ(k_submit(s.ch, rq, DEPTH, NULL), DEPTH);
	for (int i = 0; i < DEPTH; i++) {
		CHECK_EQ(k_submit(s.ch, rq, 1, NULL), -EAGAIN);
		CHECK_EQ(k_commit1(s.ex, s.desc, next_tag(&s), 0, 0), 1);
	}
	CHECK_EQ(k_submit(s.ch, rq, 1, NULL), -EAGAIN);
	CHECK_EQ(k_reap(s.ch, NULL, 100, 0, 0), DEPTH);
	for (int i = 0; i < DEPTH; i++) {
		CHECK(k_ring_next(&s.done));
		CHECK_EQ(k_submit(s.ch, rq, DEPTH, NULL), 1);
	}
	CHECK_EQ(k_submit(s.ch, rq, 1, NULL), -EAGAIN);
	k_scene_free(&s);
}

/* Calls that would copy, on rings that do not. */
TEST(modes)
{
	struct k_scene s = scene_new(0);
	uint32_t tag;
	struct rlx_cqe cqe;

	CHECK_EQ(k_fetch(s.ex, &tag, 1, 0, 0), -EINVAL);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 0, 0), -EINVAL);
	CHECK_EQ(k_fetch(s.ex, NULL, 1, 0, 0), -EAGAIN);
	CHECK_EQ(k_reap(s.ch, NULL, 1, 0, 0), -EAGAIN);
	CHECK_EQ(k_fetch(s.ex, NULL, 1, 1, 5 * K_MS), -ETIME);
	CHECK_EQ(k_reap(s.ch, NULL, 1, 1, 5 * K_MS), -ETIME);
	k_scene_free(&s);
}

/* What may be mapped, and how. */
TEST(mappings)
{
	struct k_scene s = scene_new(0);
	static const struct {
		bool ex;
		uint64_t offset;
		size_t bytes;
		int prot, flags, err;
	} rows[] = {
#define AT(kind, q) RLX_MAP_OFFSET(kind, q)
		{ true, AT(RLX_MAP_DESC, 0), 4096, PROT_READ, MAP_SHARED, 0 },
		{ true, AT(RLX_MAP_DESC, 0), 8192, PROT_READ, MAP_SHARED, EINVAL },
		{ true, AT(RLX_MAP_DESC, 0) + 4096, 4096, PROT_READ, MAP_SHARED, EINVAL },
		{ true, AT(RLX_MAP_DESC, 0), 4096, PROT_WRITE, MAP_SHARED, EACCES },
		{ true, AT(RLX_MAP_DESC, 0), 4096, PROT_READ, MAP_PRIVATE, EINVAL },
		{ true, AT(RLX_MAP_DESC, 1), 4096, PROT_READ, MAP_SHARED, EINVAL },
		{ true, AT(RLX_MAP_DESC, 255), 4096, PROT_READ, MAP_SHARED, EINVAL },
		{ true, AT(RLX_MAP_RING, 0), 4096, PROT_READ, MAP_SHARED, 0 },
		{ true, AT(RLX_MAP_RING, 0), 4096, PROT_READ | PROT_WRITE, MAP_SHARED, EACCES },
		{ true, AT(RLX_MAP_USER, 0), 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 0 },
		{ true, AT(RLX_MAP_USER, 0), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, EINVAL },
		{ true, AT(RLX_MAP_USER, 0), 8192, PROT_READ, MAP_SHARED, EINVAL },
		{ true, AT(0, 0), 4096, PROT_READ, MAP_SHARED, EINVAL },
		{ true, AT(4, 0), 4096, PROT_READ, MAP_SHARED, EINVAL },
		{ true, AT(257, 0), 4096, PROT_READ, MAP_SHARED, EINVAL },
		{ false, AT(RLX_MAP_DESC, 0), 4096, PROT_READ, MAP_SHARED, EINVAL },
		{ false, AT(RLX_MAP_RING, 0), 4096, PROT_READ, MAP_SHARED, 0 },
		{ false, AT(RLX_MAP_RING, 0), 4096, PROT_WRITE, MAP_SHARED, EACCES },
		{ false, AT(RLX_MAP_RING, 1), 4096, PROT_READ, MAP_SHARED, EINVAL },
		{ false, AT(RLX_MAP_USER, 0), 4096, PROT_WRITE, MAP_SHARED, 0 },
#undef AT
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		void *p = mmap(NULL, rows[i].bytes, rows[i].prot, rows[i].flags,
			       rows[i].ex ? s.ex : s.ch, rows[i].offset);
		int err = p == MAP_FAILED ? errno : 0;

		CHECKF(err == rows[i].err, "row %u: %d", i, err);
		if (p == MAP_FAILED)
			continue;
		if (!(rows[i].prot & PROT_WRITE) && rows[i].offset !=
		    RLX_MAP_OFFSET(RLX_MAP_USER, 0)) {
			CHECK_EQ(mprotect(p, 4096, PROT_READ | PROT_WRITE), -1);
			CHECK_EQ(errno, EACCES);
		}
		CHECK(mremap(p, 4096, 16384, MREMAP_MAYMOVE) == MAP_FAILED);
		munmap(p, rows[i].bytes);
	}
	/* A child does not inherit them: it cannot keep the executor alive. */
	pid_t pid = fork();

	if (!pid) {
		unsigned char v;

		_exit(mincore((void *)s.rq.ring, 4096, &v) == -1 && errno == ENOMEM ?
		      0 : 1);
	}
	int st;

	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK_EQ(st, 0);
	k_scene_free(&s);
}

/* The pages outlive everything, as long as somebody has them mapped. */
TEST(mapping_keeps_its_pages)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq = k_rq(1, 77);

	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
	close(s.ex);
	usleep(20000);
	/* The mapping is the executor's life. */
	CHECK_EQ(k_try_executor(s.svc, 0), -EBUSY);
	CHECK_EQ(s.desc[next_tag(&s)].user_data, 77);
	k_unmap_ring(&s.rq);
	k_undesc(s.desc, 2 * DEPTH);
	s.ex = k_next_executor(s.svc, RLX_EXEC_RING);
	s.desc = k_desc(s.ex, 2 * DEPTH);
	s.rq = k_map_ring(s.ex, k_exec_entries(2 * DEPTH), 4);
	CHECK_EQ(((struct rlx_cqe *)k_ring_wait(&s.done))->result, -EOWNERDEAD);
	k_scene_free(&s);
}

/* ---- words that lie ---- */

/* Every head that makes no sense breaks the ring, for the executor alone. */
TEST(hostile_request_ring)
{
	static const uint32_t ahead[] = { 1, 2, 0x7fffffff, 0x80000000, 0xffff0000 };

	for (unsigned int i = 0; i < sizeof(ahead) / sizeof(*ahead); i++) {
		struct k_scene s = scene_new(0);
		struct rlx_rq rq = k_rq(1, 1);
		struct rlx_complete c = { 0 };
		int other = k_channel(s.session, s.svc, 2, 0, NULL);
		struct rlx_cqe cqe;

		CHECK_EQ(k_submit(other, &rq, 1, NULL), 1);
		s.rq.user->head = s.rq.ring->tail + ahead[i];
		if (i & 1) {
			CHECK_EQ(k_fetch(s.ex, NULL, 1, 0, 0), -EPROTO);
		} else {
			long n = k_submit(s.ch, &rq, 1, NULL);

			CHECK(n == 1 || n == -EPIPE);
		}
		CHECK_EQ(s.rq.ring->error, -EPROTO);
		CHECK_EQ(k_fetch(s.ex, NULL, 1, 0, 0), -EPROTO);
		CHECK_EQ(k_fetch(s.ex, NULL, 1, 1, K_EVER), -EPROTO);
		CHECK_EQ(k_commit(s.ex, &c, 1, NULL), -EPROTO);
		struct pollfd p = { .fd = s.ex, .events = POLLIN };

		CHECK_EQ(poll(&p, 1, 0), 1);
		CHECK(p.revents & POLLERR);
		/* Its clients hear that it is dead. */
		CHECK_EQ(k_reap(other, &cqe, 1, 1, K_EVER), 1);
		CHECK_EQ(cqe.result, -EOWNERDEAD);
		CHECK_EQ(k_submit(other, &rq, 1, NULL), -EPIPE);
		/* Putting the word right does not bring it back. */
		s.rq.user->head = s.rq.ring->tail;
		CHECK_EQ(k_fetch(s.ex, NULL, 1, 0, 0), -EPROTO);
		/* A new one does. */
		k_scene_kill_executor(&s);
		s.ex = k_next_executor(s.svc, RLX_EXEC_RING);
		s.desc = k_desc(s.ex, 2 * DEPTH);
		s.rq = k_map_ring(s.ex, k_exec_entries(2 * DEPTH), 4);
		CHECK_EQ(k_submit(other, &rq, 1, NULL), 1);
		CHECK_EQ(k_commit1(s.ex, s.desc, next_tag(&s), 4, 0), 1);
		CHECK_EQ(k_reap(other, &cqe, 1, 1, K_EVER), 1);
		CHECK_EQ(cqe.result, 4);
		close(other);
		k_scene_free(&s);
	}
}

/* A head that lags makes the ring look full: what is ready waits, nothing more. */
TEST(lagging_request_ring)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq = k_rq(1, 1);
	uint32_t entries = k_exec_entries(2 * DEPTH);

	for (uint32_t i = 0; i < entries + 3; i++) {
		CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
		if (i >= entries) {
			/* It did not come: the ring is full of what was not read. */
			CHECK_EQ(s.rq.ring->tail, entries);
			CHECK_EQ(k_info(s.ex).ready, i - entries + 1);
			continue;
		}
		uint32_t tag = ((uint32_t *)s.rq.entry)[i];

		CHECK_EQ(k_commit1(s.ex, s.desc, tag, 0, 0), 1);
		CHECK(k_ring_next(&s.done));
	}
	s.rq.head = entries;
	s.rq.user->head = entries;
	CHECK_EQ(k_fetch(s.ex, NULL, 8, 1, K_EVER), 3);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(k_commit1(s.ex, s.desc, next_tag(&s), 0, 0), 1);
	k_scene_free(&s);
}

TEST(hostile_completion_ring)
{
	static const uint32_t ahead[] = { 1, 0x80000000, 0xfffffff0 };

	for (unsigned int i = 0; i < sizeof(ahead) / sizeof(*ahead); i++) {
		struct k_scene s = scene_new(0);
		int other = k_channel(s.session, s.svc, 2, 0, NULL);
		struct rlx_rq rq = k_rq(1, 1);
		struct rlx_cqe cqe;

		CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
		CHECK_EQ(k_submit(other, &rq, 1, NULL), 1);
		s.done.user->head = s.done.ring->tail + ahead[i];
		CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), -EPROTO);
		CHECK_EQ(k_reap(s.ch, NULL, 1, 1, K_EVER), -EPROTO);
		CHECK_EQ(s.done.ring->error, -EPROTO);
		struct pollfd p = { .fd = s.ch, .events = POLLIN };

		CHECK_EQ(poll(&p, 1, 0), 1);
		CHECK(p.revents & POLLERR);
		/* The executor and other clients do not notice. */
		CHECK_EQ(k_commit1(s.ex, s.desc, next_tag(&s), 0, 0), 1);
		CHECK_EQ(k_commit1(s.ex, s.desc, next_tag(&s), 3, 0), 1);
		CHECK_EQ(k_reap(other, &cqe, 1, 1, K_EVER), 1);
		CHECK_EQ(cqe.result, 3);
		close(other);
		k_scene_free(&s);
	}
}

/* Heads written without rest, in both rings, while requests pass. */
static atomic_bool stop;

static void *scribble(void *arg)
{
	struct k_scene *s = arg;
	uint32_t x = 12345;

	while (!stop) {
		x = x * 1664525 + 1013904223;
		if (x & 0x100)
			__atomic_store_n(&s->rq.user->need_wakeup, x, __ATOMIC_RELAXED);
		if (x & 0x200)
			__atomic_store_n(&s->done.user->need_wakeup, x, __ATOMIC_RELAXED);
		__atomic_store_n(&s->done.user->head,
				 __atomic_load_n(&s->done.ring->tail, __ATOMIC_RELAXED) -
				 (x >> 16) % (DEPTH + 1), __ATOMIC_RELAXED);
	}
	return NULL;
}

TEST(scribbled)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq[3] = { k_rq(1, 1), k_rq(1, 2), k_rq(1, 3) };
	uint64_t end = k_now() + 1500 * K_MS;
	pthread_t t;

	stop = false;
	pthread_create(&t, NULL, scribble, &s);
	while (k_now() < end) {
		const uint32_t *e;
		long n = k_submit(s.ch, rq, 3, NULL);

		CHECK(n > 0 || n == -EAGAIN || n == -EPROTO);
		while ((e = k_ring_next(&s.rq)))
			CHECK_EQ(k_commit1(s.ex, s.desc, *e, 0, 0), 1);
		if (n == -EPROTO) {
			/* The scribbler and the kernel's tail crossed: a fresh one. */
			CHECK_EQ(s.done.ring->error, -EPROTO);
			break;
		}
	}
	stop = true;
	pthread_join(t, NULL);
	k_scene_free(&s);
}

/* ---- sleeping and waking ---- */

static void *ring_server(void *arg)
{
	struct k_scene *s = arg;

	for (;;) {
		const uint32_t *e = k_ring_next(&s->rq);

		if (e && (*e & RLX_TAG_EVENT))
			return NULL;
		if (e) {
			CHECK_EQ(k_commit1(s->ex, s->desc, *e, 1, 0), 1);
			continue;
		}
		__atomic_store_n(&s->rq.user->need_wakeup, 1, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (__atomic_load_n(&s->rq.ring->tail, __ATOMIC_ACQUIRE) == s->rq.head) {
			long n = k_fetch(s->ex, NULL, 1, 1, K_SOON);

			CHECKF(n > 0, "a wake was lost: %ld", n);
		}
		__atomic_store_n(&s->rq.user->need_wakeup, 0, __ATOMIC_RELAXED);
	}
}

/* Both sides sleep by the protocol of struct rlx_ring_user, again and again. */
TEST(need_wakeup)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq = k_rq(1, 1);
	/* A wake costs milliseconds where a slow machine emulates PREEMPT_RT. */
	uint64_t enough = k_now() + 15000 * K_MS;
	pthread_t t;

	pthread_create(&t, NULL, ring_server, &s);
	for (int i = 0; i < 3000 && (i < 300 || k_now() < enough); i++) {
		CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
		while (!k_ring_next(&s.done)) {
			__atomic_store_n(&s.done.user->need_wakeup, 1, __ATOMIC_RELAXED);
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			if (__atomic_load_n(&s.done.ring->tail, __ATOMIC_ACQUIRE) ==
			    s.done.head) {
				long n = k_reap(s.ch, NULL, 1, 1, K_SOON);

				CHECKF(n > 0, "a wake was lost: %ld", n);
			}
			__atomic_store_n(&s.done.user->need_wakeup, 0, __ATOMIC_RELAXED);
		}
	}
	k_scene_kill_client(&s);
	pthread_join(t, NULL);
	k_scene_free(&s);
}

/* The same by epoll, edge-triggered: the kernel tells of what comes. */
TEST(epoll_wakes)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq = k_rq(1, 1);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, s.ex, &ev), 0);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, s.ch, &ev), 0);
	CHECK_EQ(epoll_wait(ep, &ev, 1, 0), 0);
	s.rq.user->need_wakeup = 1;
	s.done.user->need_wakeup = 1;
	for (int i = 0; i < 100; i++) {
		uint32_t tag;

		CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
		CHECK_EQ(epoll_wait(ep, &ev, 1, 60000), 1);
		tag = next_tag(&s);
		CHECK_EQ(epoll_wait(ep, &ev, 1, 0), 0);
		CHECK_EQ(k_commit1(s.ex, s.desc, tag, 1, 0), 1);
		CHECK_EQ(epoll_wait(ep, &ev, 1, 60000), 1);
		CHECK(k_ring_next(&s.done));
	}
	/* Awake, it is left in peace. */
	s.rq.user->need_wakeup = 0;
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
	CHECK_EQ(epoll_wait(ep, &ev, 1, 50), 0);
	CHECK_EQ(k_commit1(s.ex, s.desc, next_tag(&s), 1, 0), 1);
	close(ep);
	k_scene_free(&s);
}

/* An executor that dies with tags in its ring, in both modes. */
TEST(requeue)
{
	struct k_scene s = scene_new(RLX_SERVICE_REQUEUE);
	struct rlx_rq rq[3] = { k_rq(0, 0), k_rq(1, 1), k_rq(2, 2) };

	CHECK_EQ(k_submit(s.ch, rq, 3, NULL), 3);
	CHECK_EQ(s.rq.ring->tail, 3);
	CHECK_EQ(k_info(s.ex).delivered, 3);
	next_tag(&s);
	k_scene_kill_executor(&s);
	s.ex = k_next_executor(s.svc, RLX_EXEC_RING);
	s.desc = k_desc(s.ex, 2 * DEPTH);
	s.rq = k_map_ring(s.ex, k_exec_entries(2 * DEPTH), 4);
	CHECK_EQ(s.rq.ring->tail, 3);
	for (int i = 0; i < 3; i++) {
		uint32_t tag = next_tag(&s);

		CHECK_EQ(s.desc[tag].user_data, i);
		CHECK_EQ(k_commit1(s.ex, s.desc, tag, i, 0), 1);
		CHECK_EQ(((struct rlx_cqe *)k_ring_wait(&s.done))->result, i);
	}
	k_scene_free(&s);
}

TEST_MAIN()
