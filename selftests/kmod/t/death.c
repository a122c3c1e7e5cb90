// SPDX-License-Identifier: MIT
/* Who dies when: clients and executors killed with requests in every state. */
/* rig: timeout=300 also */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/rlx.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/fds.h"
#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/chan.h"
#include "lib/child.h"

#define DEPTH	8

/* ---- how a victim talks to the module ---- */

enum way { IOCTL, URING, URING_DEFER, WAYS };

static const char *const way_names[] = { "ioctl", "io_uring", "io_uring, deferred" };

static bool has(uint64_t feature)
{
	int session = k_open();
	uint64_t features = k_features(session);

	close(session);
	return features & feature;
}

static bool way_works(enum way way)
{
	return way == IOCTL || has(RLX_FEAT_URING_ASYNC);
}

static void ring_new(struct io_uring *ring, enum way way)
{
	struct io_uring_params p = { 0 };

	if (way == URING_DEFER)
		p.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
	CHECK_EQ(io_uring_queue_init_params(16, ring, &p), 0);
}

static void park(struct io_uring *ring, int fd, uint32_t op, const void *arg)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	CHECK(sqe);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = op;
	((struct rlx_uring_cmd *)sqe->cmd)->addr = (uintptr_t)arg;
	CHECK_EQ(io_uring_submit(ring), 1);
}

/* ---- victims: children that do something, say so, and wait for the end ---- */

static void say(void)
{
	k_child_say('x');
}

static void hear(struct k_child *v)
{
	CHECK_EQ(k_child_said(v, -1), 'x');
}

/* ---- the survivor's side ---- */

struct scene {
	int session, svc, ex, ch, arena, tl;
	uint32_t id;
	const struct rlx_desc *desc;
	long handle, wait;	/* in the channel */
	enum way way;
	bool waits;		/* requests wait for the timeline */
	bool keeps;		/* the ring, when it becomes another program */
};

static void scene_attach(struct scene *s)
{
	s->handle = k_attach(s->ch, s->arena, RLX_R | RLX_W);
	s->wait = k_attach(s->ch, s->tl, RLX_R);
	CHECK(s->handle > 0 && s->wait > 0);
}

static struct scene scene_new(uint32_t flags, enum way way)
{
	struct scene s = {
		.session = k_open(), .ex = -1, .ch = -1, .way = way,
	};

	s.svc = k_service(s.session, 1, DEPTH, flags);
	s.arena = k_arena(s.session, 4096, 0);
	s.tl = k_timeline(s.session, 0);
	return s;
}

static void scene_executor(struct scene *s)
{
	s->ex = k_next_executor(s->svc, 0);
	s->desc = k_desc(s->ex, DEPTH);
}

static void nothing_left(void)
{
	static const char *const names[] = {
		"nr_channels", "nr_executors", "nr_services", "nr_slots", "nr_leases",
		"nr_waiters", "nr_sessions",
	};

	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++)
		CHECKF(k_stat_becomes(names[i], 0), "%s", names[i]);
}

static void scene_free(struct scene *s)
{
	if (s->desc)
		k_undesc(s->desc, DEPTH);
	if (s->ex >= 0)
		close(s->ex);
	if (s->ch >= 0)
		close(s->ch);
	close(s->arena);
	close(s->tl);
	close(s->svc);
	close(s->session);
	nothing_left();
}

static struct rlx_rq request(const struct scene *s, uint64_t data)
{
	struct rlx_rq rq = k_rq(1, data);

	rq.nr_slices = 1;
	rq.slice[0] = (struct rlx_slice){ s->handle, RLX_R | RLX_W, 0, 4096 };
	if (s->waits) {
		rq.flags = RLX_RQ_WAIT;
		rq.wait = s->wait;
		rq.wait_value = 1;
	}
	return rq;
}

static uint32_t fetch1(struct scene *s)
{
	uint32_t tag = ~0u;
	long n = k_fetch(s->ex, &tag, 1, 1, K_SOON);

	CHECKF(n == 1, "FETCH: %ld", n);
	return tag;
}

/* The channel's end is told, once. */
static void expect_gone(struct scene *s, uint32_t id)
{
	struct rlx_event ev[4];
	uint32_t tag;

	tag = fetch1(s);
	CHECK_EQ(tag, RLX_TAG_EVENT | id);
	CHECK_EQ(k_events(s->ex, id, ev, 4), 1);
	CHECK_EQ(ev[0].type, RLX_EVENT_GONE);
	CHECK(k_stat_becomes("nr_slots", 0));
}

/* ---- clients that die ---- */

static void client(void *arg)
{
	struct scene *s = arg;
	static struct rlx_rq rq;
	static struct io_uring ring;

	/* The survivor's end is not ours. */
	close(s->ex);
	munmap((void *)s->desc, 4096);
	s->ch = k_channel(s->session, s->svc, DEPTH, 0, NULL);
	scene_attach(s);
	rq = request(s, 42);
	if (s->way == IOCTL) {
		CHECK_EQ(k_submit(s->ch, &rq, 1, NULL), 1);
	} else {
		ring_new(&ring, s->way);
		park(&ring, s->ch, RLX_IOC_SUBMIT, &rq);
	}
	say();
}

enum state { WAITING, READY, DELIVERED, DONE, STATES };

TEST(clients)
{
	for (int way = 0; way < WAYS; way++) {
		if (!way_works(way))
			continue;
		for (int state = 0; state < STATES; state++) {
			struct scene s = scene_new(0, way);
			struct k_child v;
			uint32_t tag = 0, id = 1;

			printf("# a client by %s, state %d\n", way_names[way], state);
			s.waits = state == WAITING;
			scene_executor(&s);
			v = k_child_new(client, &s);
			hear(&v);
			if (state >= DELIVERED) {
				tag = fetch1(&s);
				CHECK_EQ(s.desc[tag].user_data, 42);
			}
			if (state == DONE)
				CHECK_EQ(k_commit1(s.ex, s.desc, tag, 0, 0), 1);
			k_child_kill(&v);
			/* The last close of a ring is not done when its owner is. */
			for (int i = 0; state == READY && k_info(s.ex).ready; i++) {
				CHECK(i < 60000);
				usleep(1000);
			}
			if (state == DELIVERED) {
				/* It is ours until we say so; nobody waits for it. */
				volatile const struct rlx_desc *d = &s.desc[tag];

				for (int i = 0; i < 60000 &&
				     !(d->flags & RLX_RQ_UNWANTED); i++)
					usleep(1000);
				CHECK(d->flags & RLX_RQ_UNWANTED);
				CHECK_EQ(k_info(s.ex).delivered, 1);
				CHECK_EQ(k_commit1(s.ex, s.desc, tag, 0, 0), 1);
				CHECK_EQ(k_commit1(s.ex, s.desc, tag, 0, 0), -ESTALE);
			}
			expect_gone(&s, id);
			CHECK_EQ(k_fetch(s.ex, &tag, 1, 0, 0), -EAGAIN);
			if (state == WAITING)
				CHECK_EQ(k_signal(s.tl, 1), 0);
			CHECK_EQ(k_fetch(s.ex, &tag, 1, 0, 0), -EAGAIN);
			scene_free(&s);
		}
	}
}

/* Stopped in the middle of SUBMIT, with slots taken. */
TEST(client_in_submit)
{
	struct scene s = scene_new(0, IOCTL);
	struct k_child v;

	if (!k_stall_at("submit"))
		rlx_test_skip("the module is built without test hooks");
	scene_executor(&s);
	v = k_child_new(client, &s);
	k_stalled_wait();
	k_child_kill(&v);
	k_stall_at("\n");
	expect_gone(&s, 1);
	scene_free(&s);
}

struct one_request {
	struct scene *s;
	_Atomic long committed;
};

static void *fetch_and_commit(void *arg)
{
	struct one_request *r = arg;

	r->committed = k_commit1(r->s->ex, r->s->desc, fetch1(r->s), 5, 0);
	return NULL;
}

/* The executor lives, but stands still in FETCH, with the tag taken, or in COMMIT. */
TEST(client_while_its_request_is_fetched_or_committed)
{
	static const char *const where[] = { "fetched", "commit" };

	for (int i = 0; i < 2; i++) {
		struct scene s = scene_new(0, IOCTL);
		struct one_request r = { .s = &s };
		struct k_child v;
		pthread_t t;

		if (!k_stall_at(where[i]))
			rlx_test_skip("the module is built without test hooks");
		scene_executor(&s);
		v = k_child_new(client, &s);
		hear(&v);
		CHECK(!pthread_create(&t, NULL, fetch_and_commit, &r));
		k_stalled_wait();
		k_child_kill(&v);
		k_stall_at("\n");
		CHECK(!pthread_join(t, NULL));
		/* It was delivered and goes on; its result has nobody. */
		CHECK_EQ(r.committed, 1);
		expect_gone(&s, 1);
		scene_free(&s);
	}
}

/* One dies just when it is looked whether what another left is held too long. */
TEST(client_as_its_executor_is_judged)
{
	struct rlx_ioc_service_create c = { .queues = 1, .depth = DEPTH, .orphan_ms = 2000 };
	struct scene s = { .session = k_open() };
	struct rlx_rq rq = k_rq(1, 1);
	uint32_t tag[2];
	int ch[2];

	if (!k_stall_at("patience"))
		rlx_test_skip("the module is built without test hooks");
	s.svc = k_ioctl(s.session, RLX_IOC_SERVICE_CREATE, &c);
	CHECK(s.svc >= 0);
	scene_executor(&s);
	for (int i = 0; i < 2; i++) {
		ch[i] = k_channel(s.session, s.svc, 1, 0, NULL);
		CHECK_EQ(k_submit(ch[i], &rq, 1, NULL), 1);
		tag[i] = fetch1(&s);
	}
	close(ch[1]);
	/* In time, which is over: it stops at the first, which lives. */
	k_stalled_wait();
	CHECK_EQ(k_commit1(s.ex, s.desc, tag[1], 0, 0), 1);
	close(ch[0]);
	k_stall_at("\n");
	/* Only just dead: its executor has two seconds. */
	CHECK_EQ(k_info(s.svc).state, RLX_SERVICE_LIVE);
	CHECK_EQ(k_commit1(s.ex, s.desc, tag[0], 0, 0), 1);
	k_undesc(s.desc, DEPTH);
	close(s.ex);
	close(s.svc);
	close(s.session);
	nothing_left();
}

/* ---- executors that die ---- */

static void executor(void *arg)
{
	struct scene *s = arg;
	static struct rlx_ioc_fetch f;
	static struct io_uring ring;
	static uint32_t tag;

	close(s->ch);
	s->ex = k_executor(s->svc, 0);
	s->desc = k_desc(s->ex, DEPTH);
	if (s->way == IOCTL) {
		say();
		fetch1(s);
	} else {
		ring_new(&ring, s->way);
		f = (struct rlx_ioc_fetch){
			.tags = (uintptr_t)&tag, .max = 1, .timeout_ns = K_EVER,
		};
		park(&ring, s->ex, RLX_IOC_FETCH, &f);
		say();
		struct io_uring_cqe *cqe;

		CHECK_EQ(io_uring_wait_cqe(&ring, &cqe), 0);
		CHECK_EQ(cqe->res, 1);
		/* A second one parks for good. */
		park(&ring, s->ex, RLX_IOC_FETCH, &f);
	}
	say();
	k_fetch(s->ex, &tag, 1, 1, K_EVER);
}

static void survive_executor(struct scene *s, int want_results)
{
	struct rlx_cqe cqe;

	for (int i = 0; i < want_results; i++) {
		CHECK_EQ(k_reap(s->ch, &cqe, 1, 1, K_SOON), 1);
		CHECK_EQ(cqe.result, -EOWNERDEAD);
	}
}

TEST(executors_fail)
{
	for (int way = 0; way < WAYS; way++) {
		if (!way_works(way))
			continue;
		for (int state = WAITING; state <= DELIVERED; state++) {
			struct scene s = scene_new(0, way);
			struct pollfd p = { .events = POLLIN };
			struct rlx_rq rq;
			struct k_child v;

			printf("# an executor by %s, state %d\n", way_names[way], state);
			s.ch = k_channel(s.session, s.svc, DEPTH, 0, NULL);
			scene_attach(&s);
			s.waits = state == WAITING;
			rq = request(&s, 1);
			v = k_child_new(executor, &s);
			hear(&v);		/* it fetches */
			CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
			if (state == DELIVERED)
				hear(&v);
			k_child_kill(&v);
			p.fd = s.ch;
			CHECK_EQ(poll(&p, 1, 60000), 1);
			if (state == WAITING) {
				/* Nothing is lost yet: what it waits for ends it. */
				struct rlx_cqe cqe;

				CHECK_EQ(k_reap(s.ch, &cqe, 1, 0, 0), -EAGAIN);
				CHECK_EQ(k_signal(s.tl, 1), 0);
			}
			survive_executor(&s, 1);
			CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), -EPIPE);
			/* The next one serves the same channel. */
			scene_executor(&s);
			CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
			CHECK_EQ(k_commit1(s.ex, s.desc, fetch1(&s), 0, 0), 1);
			scene_free(&s);
		}
	}
}

static void *becomes_executor(void *arg)
{
	struct scene *s = arg;

	s->ex = k_executor(s->svc, 0);
	return NULL;
}

/* Nobody died yet: who polls for the first one does not hear that. */
TEST(first_executor_is_never_dead)
{
	struct scene s = scene_new(0, IOCTL);
	struct pollfd p = { .fd = s.svc, .events = POLLOUT };
	pthread_t t;

	if (!k_stall_at("becoming"))
		rlx_test_skip("the module is built without test hooks");
	CHECK_EQ(poll(&p, 1, 0), 0);
	CHECK(!pthread_create(&t, NULL, becomes_executor, &s));
	k_stalled_wait();
	poll(&p, 1, 0);
	k_stall_at("\n");
	CHECK(!pthread_join(t, NULL));
	CHECK(!(p.revents & POLLHUP));
	CHECK_EQ(poll(&p, 1, 0), 1);
	CHECK_EQ(p.revents, POLLOUT);
	scene_free(&s);
}

TEST(executors_requeue)
{
	for (int way = 0; way < WAYS; way++) {
		if (!way_works(way))
			continue;
		for (int state = WAITING; state <= DELIVERED; state++) {
			struct scene s = scene_new(RLX_SERVICE_REQUEUE, way);
			struct rlx_rq rq;
			struct rlx_cqe cqe;
			struct k_child v;

			printf("# an executor by %s, state %d\n", way_names[way], state);
			s.ch = k_channel(s.session, s.svc, DEPTH, 0, NULL);
			scene_attach(&s);
			s.waits = state == WAITING;
			rq = request(&s, 6);
			v = k_child_new(executor, &s);
			hear(&v);
			CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
			if (state == DELIVERED)
				hear(&v);
			k_child_kill(&v);
			if (state == WAITING)
				CHECK_EQ(k_signal(s.tl, 1), 0);
			scene_executor(&s);
			uint32_t tag = fetch1(&s);

			CHECK_EQ(s.desc[tag].user_data, 6);
			CHECK_EQ(k_commit1(s.ex, s.desc, tag, 77, 0), 1);
			CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_SOON), 1);
			CHECK_EQ(cqe.result, 77);
			CHECK_EQ(k_reap(s.ch, &cqe, 1, 0, 0), -EAGAIN);
			scene_free(&s);
		}
	}
}

/* Stopped between taking a tag and telling it, and in the middle of COMMIT. */
static void executor_commits(void *arg)
{
	struct scene *s = arg;
	uint32_t tag;

	close(s->ch);
	s->ex = k_executor(s->svc, 0);
	s->desc = k_desc(s->ex, DEPTH);
	say();
	tag = fetch1(s);
	k_commit1(s->ex, s->desc, tag, 5, 0);
}

TEST(executor_in_a_call)
{
	static const char *const where[] = { "fetched", "commit" };

	for (int i = 0; i < 4; i++) {
		struct scene s = scene_new(i & 2 ? RLX_SERVICE_REQUEUE : 0, IOCTL);
		struct rlx_cqe cqe;
		struct rlx_rq rq;
		struct k_child v;

		if (!k_stall_at(where[i & 1]))
			rlx_test_skip("the module is built without test hooks");
		s.ch = k_channel(s.session, s.svc, DEPTH, 0, NULL);
		scene_attach(&s);
		rq = request(&s, 6);
		v = k_child_new(executor_commits, &s);
		hear(&v);
		CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
		k_stalled_wait();
		k_child_kill(&v);
		k_stall_at("\n");
		/* A commit was done or was not; a fetch that was not told is lost. */
		if (i & 2) {
			scene_executor(&s);
			if (k_reap(s.ch, &cqe, 1, 1, 300 * K_MS) < 0) {
				CHECK_EQ(k_commit1(s.ex, s.desc, fetch1(&s), 5, 0), 1);
				CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
			}
			CHECK_EQ(cqe.result, 5);
		} else {
			CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_SOON), 1);
			CHECK(cqe.result == -EOWNERDEAD || (i == 1 && cqe.result == 5));
		}
		scene_free(&s);
	}
}

/* What it did before it died is done. */
static void executor_commits_and_stays(void *arg)
{
	executor_commits(arg);
	say();
}

TEST(results_outlive_their_executor)
{
	for (int i = 0; i < 2; i++) {
		struct scene s = scene_new(i ? RLX_SERVICE_REQUEUE : 0, IOCTL);
		struct rlx_cqe cqe;
		struct rlx_rq rq;
		struct k_child v;

		s.ch = k_channel(s.session, s.svc, DEPTH, 0, NULL);
		scene_attach(&s);
		rq = request(&s, 6);
		v = k_child_new(executor_commits_and_stays, &s);
		hear(&v);
		CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
		hear(&v);
		k_child_kill(&v);
		CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_SOON), 1);
		CHECK_EQ(cqe.result, 5);
		CHECK_EQ(k_reap(s.ch, &cqe, 1, 0, 0), -EAGAIN);
		scene_free(&s);
	}
}

/* ---- rings that others hold too ---- */

static int sock[2];
static bool by_fork;

/*
 * Gives the ring to a child that only sleeps, or tells the survivor its number, to
 * be taken with pidfd_getfd(): sockets refuse rings since 6.8.
 */
static void share(struct io_uring *ring)
{
	if (!by_fork) {
		CHECK_EQ(write(sock[1], &ring->ring_fd, sizeof(int)), sizeof(int));
		return;
	}
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, 0);
		for (int fd = 3; fd < 100; fd++)
			if (fd != ring->ring_fd && fd != sock[1])
				close(fd);
		/* Until the survivor closes its end. */
		char c;

		_exit(read(sock[1], &c, 1) != 0);
	}
}

static int take_ring(const struct k_child *v)
{
	int pidfd = syscall(SYS_pidfd_open, v->pid, 0), no, fd;

	CHECK(pidfd >= 0);
	CHECK_EQ(read(sock[0], &no, sizeof(no)), sizeof(no));
	fd = syscall(SYS_pidfd_getfd, pidfd, no, 0);
	CHECKF(fd >= 0, "pidfd_getfd: %d", errno);
	close(pidfd);
	return fd;
}

static void sharing_executor(void *arg)
{
	struct scene *s = arg;
	static struct rlx_ioc_fetch f[3];
	static struct io_uring ring;
	static uint32_t tag[3];

	close(s->ch);
	close(sock[0]);
	s->ex = k_executor(s->svc, 0);
	ring_new(&ring, s->way);
	for (int i = 0; i < 3; i++) {
		f[i] = (struct rlx_ioc_fetch){
			.tags = (uintptr_t)&tag[i], .max = 1, .timeout_ns = K_EVER,
		};
		park(&ring, s->ex, RLX_IOC_FETCH, &f[i]);
	}
	share(&ring);
	say();
}

static void sharing_client(void *arg)
{
	struct scene *s = arg;
	static struct rlx_rq rq[2];
	static struct io_uring ring;

	close(sock[0]);
	close(s->ex);
	munmap((void *)s->desc, 4096);
	s->ch = k_channel(s->session, s->svc, DEPTH, 0, NULL);
	scene_attach(s);
	ring_new(&ring, s->way);
	for (int i = 0; i < 2; i++) {
		rq[i] = request(s, i);
		park(&ring, s->ch, RLX_IOC_SUBMIT, &rq[i]);
	}
	share(&ring);
	say();
}

/* An executor's ring lives on elsewhere: its death is seen all the same. */
TEST(executor_shared_its_ring)
{
	for (int i = 0; i < 4; i++) {
		enum way way = i & 1 ? URING_DEFER : URING;

		if (!way_works(way))
			rlx_test_skip("this kernel cannot cancel parked commands");
		struct scene s = scene_new(0, way);
		struct rlx_rq rq;
		struct k_child v;
		int ring = -1;

		by_fork = i & 2;
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
		s.ch = k_channel(s.session, s.svc, DEPTH, 0, NULL);
		scene_attach(&s);
		rq = request(&s, 1);
		v = k_child_new(sharing_executor, &s);
		close(sock[1]);
		if (!by_fork)
			ring = take_ring(&v);
		hear(&v);
		k_child_kill(&v);
		/* It is out of office although the ring keeps its commands. */
		for (int n = 0; k_info(s.ch).state != RLX_SERVICE_DEAD; n++) {
			CHECK(n < 60000);
			usleep(1000);
		}
		CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), -EPIPE);
		scene_executor(&s);
		CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
		CHECK_EQ(k_commit1(s.ex, s.desc, fetch1(&s), 0, 0), 1);
		if (ring >= 0)
			close(ring);
		close(sock[0]);
		scene_free(&s);
	}
}

/* A client's ring lives on elsewhere: so do its requests, until they end. */
TEST(client_shared_its_ring)
{
	for (int i = 0; i < 4; i++) {
		enum way way = i & 1 ? URING_DEFER : URING;

		if (!way_works(way))
			rlx_test_skip("this kernel cannot cancel parked commands");
		struct scene s = scene_new(0, way);
		struct k_child v;
		uint32_t tag;
		int ring = -1;

		by_fork = i & 2;
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
		scene_executor(&s);
		v = k_child_new(sharing_client, &s);
		close(sock[1]);
		if (!by_fork)
			ring = take_ring(&v);
		hear(&v);
		tag = fetch1(&s);
		k_child_kill(&v);
		CHECK_EQ(k_commit1(s.ex, s.desc, tag, 0, 0), 1);
		/* The second one: executed, or cancelled with the ring. */
		if (i & 1) {
			tag = fetch1(&s);
			CHECK_EQ(k_commit1(s.ex, s.desc, tag, 0, 0), 1);
		}
		if (ring >= 0)
			close(ring);
		close(sock[0]);
		for (int n = 0; k_info(s.ex).ready; n++) {
			CHECK(n < 60000);
			usleep(1000);
		}
		expect_gone(&s, 1);
		scene_free(&s);
	}
}

/* ---- ends passed over a socket ---- */

static void passes_channel(void *arg)
{
	struct scene *s = arg;

	s->ch = k_channel(s->session, s->svc, DEPTH / 2, 0, NULL);
	scene_attach(s);
	struct rlx_rq rq = request(s, 9);

	CHECK_EQ(k_submit(s->ch, &rq, 1, NULL), 1);
	rlx_test_send_fd(sock[1], s->ch);
	say();
}

static void passes_executor(void *arg)
{
	struct scene *s = arg;

	s->ex = k_executor(s->svc, 0);
	rlx_test_send_fd(sock[1], s->ex);
	say();
}

/* Who made a channel or executor may die: it lives while somebody holds it. */
TEST(passed_over_a_socket)
{
	struct scene s = scene_new(0, IOCTL);
	struct rlx_cqe cqe;
	struct k_child v;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	v = k_child_new(passes_executor, &s);
	hear(&v);
	s.ex = rlx_test_recv_fd(sock[0]);
	k_child_kill(&v);
	s.desc = k_desc(s.ex, DEPTH);
	CHECK_EQ(k_try_executor(s.svc, 0), -EBUSY);
	v = k_child_new(passes_channel, &s);
	hear(&v);
	s.ch = rlx_test_recv_fd(sock[0]);
	k_child_kill(&v);
	CHECK_EQ(k_commit1(s.ex, s.desc, fetch1(&s), 31, 0), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_SOON), 1);
	CHECK_EQ(cqe.user_data, 9);
	CHECK_EQ(cqe.result, 31);
	/* In flight on the socket when its last holder dies: closed with it. */
	int parked[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, parked), 0);
	int spare = sock[1];

	sock[1] = parked[1];
	v = k_child_new(passes_channel, &s);
	hear(&v);
	k_child_kill(&v);
	sock[1] = spare;
	CHECK_EQ(k_info(s.svc).channels, 2);
	close(parked[0]);
	close(parked[1]);
	CHECK(k_stat_becomes("nr_channels", 1));
	close(sock[0]);
	close(sock[1]);
	scene_free(&s);
}

/* ---- exec ---- */

/* What an exec'ed victim becomes: something that only sleeps. */
__attribute__((constructor)) static void sleeper(void)
{
	if (getenv("RLX_DEATH_SLEEPS"))
		for (;;)
			pause();
}

static void becomes_other(void *arg)
{
	struct scene *s = arg;
	static struct rlx_ioc_fetch f;
	static struct io_uring ring;
	static struct rlx_rq rq;
	static uint32_t tag;

	s->ex = k_executor(s->svc, 0);
	s->ch = k_channel(s->session, s->svc, DEPTH, 0, NULL);
	scene_attach(s);
	ring_new(&ring, s->way);
	fcntl(ring.ring_fd, F_SETFD, s->keeps ? 0 : FD_CLOEXEC);
	s->waits = true;
	rq = request(s, 1);
	park(&ring, s->ch, RLX_IOC_SUBMIT, &rq);
	f = (struct rlx_ioc_fetch){
		.tags = (uintptr_t)&tag, .max = 1, .timeout_ns = K_EVER,
	};
	park(&ring, s->ex, RLX_IOC_FETCH, &f);
	setenv("RLX_DEATH_SLEEPS", "1", 1);
	say();
	execl("/proc/self/exe", "sleeps", NULL);
	_exit(1);
}

static void exec_by(int way, bool keeps)
{
	struct scene s = scene_new(0, way);
	struct k_child v;

	s.keeps = keeps;
	v = k_child_new(becomes_other, &s);
	hear(&v);
	/* It lives, but holds nothing of ours any more. */
	CHECK(k_stat_becomes("nr_channels", 0));
	CHECK(k_stat_becomes("nr_executors", 0));
	CHECK(k_stat_becomes("nr_slots", 0));
	CHECK_EQ(kill(v.pid, 0), 0);
	CHECK_EQ(waitpid(v.pid, NULL, WNOHANG), 0);
	k_child_kill(&v);
	scene_free(&s);
}

/* With its ring, or without: what it parked there has ended, as by closing it. */
TEST(exec)
{
	for (int way = URING; way < WAYS; way++) {
		if (!way_works(way))
			rlx_test_skip("this kernel cannot cancel parked commands");
		exec_by(way, false);
		exec_by(way, true);
	}
}

/* ---- at any time ---- */

static void busy_client(void *arg)
{
	struct scene *s = arg;
	static struct rlx_rq rq[4];
	struct rlx_cqe cqe[DEPTH];
	struct io_uring ring;

	/* Until what the executor has of a dead one has come back. */
	do {
		struct rlx_ioc_connect c = { .service = s->svc, .depth = DEPTH / 2 };

		s->ch = k_ioctl(s->session, RLX_IOC_CONNECT, &c);
		CHECK(s->ch >= 0 || s->ch == -ENOSPC);
	} while (s->ch < 0);
	scene_attach(s);
	for (int i = 0; i < 4; i++)
		rq[i] = request(s, i);
	if (s->way != IOCTL)
		ring_new(&ring, s->way);
	say();
	for (;;) {
		struct io_uring_cqe *c;

		if (s->way == IOCTL) {
			k_submit(s->ch, rq, 4, NULL);
			k_reap(s->ch, cqe, DEPTH, 1, 50 * K_MS);
			continue;
		}
		park(&ring, s->ch, RLX_IOC_SUBMIT, &rq[0]);
		park(&ring, s->ch, RLX_IOC_SUBMIT, &rq[1]);
		io_uring_wait_cqe(&ring, &c);
		io_uring_cqe_seen(&ring, c);
		if (!io_uring_peek_cqe(&ring, &c))
			io_uring_cqe_seen(&ring, c);
	}
}

static void busy_executor(void *arg)
{
	struct scene *s = arg;
	struct rlx_complete c[4];
	struct io_uring ring;
	uint32_t tag[4], n = 0;
	struct rlx_ioc_commit_fetch cf = {
		.commit = { .entries = (uintptr_t)c },
		.fetch = { .tags = (uintptr_t)tag, .max = 4, .timeout_ns = K_EVER },
	};

	s->ex = k_next_executor(s->svc, 0);
	s->desc = k_desc(s->ex, DEPTH);
	if (s->way != IOCTL)
		ring_new(&ring, s->way);
	say();
	for (;;) {
		struct io_uring_cqe *cqe;
		long got;

		cf.commit.nr = n;
		if (s->way == IOCTL) {
			got = k_ioctl(s->ex, RLX_IOC_COMMIT_AND_FETCH, &cf);
		} else {
			park(&ring, s->ex, RLX_IOC_COMMIT_AND_FETCH, &cf);
			io_uring_wait_cqe(&ring, &cqe);
			got = cqe->res;
			io_uring_cqe_seen(&ring, cqe);
		}
		n = 0;
		for (long i = 0; i < got; i++) {
			struct rlx_event ev[8];

			if (tag[i] & RLX_TAG_EVENT)
				k_events(s->ex, tag[i] & ~RLX_TAG_EVENT, ev, 8);
			else
				c[n++] = (struct rlx_complete){
					.seq = s->desc[tag[i]].seq, .tag = tag[i],
				};
		}
	}
}

/* Two clients and an executor at work; one of them is killed, another comes. */
static void mayhem(uint32_t flags, enum way way, uint64_t ms)
{
	struct scene s = scene_new(flags, way);
	uint64_t end = k_now() + ms * K_MS;
	struct k_child v[3];
	uint32_t x = (uint32_t)k_now(), kills = 0;

	for (int i = 0; i < 3; i++) {
		v[i] = k_child_new(i ? busy_client : busy_executor, &s);
		hear(&v[i]);
	}
	while (k_now() < end) {
		int i = (x = x * 1664525 + 1013904223) >> 24;

		usleep((x >> 8) % 4000);
		i %= 3;
		k_child_kill(&v[i]);
		v[i] = k_child_new(i ? busy_client : busy_executor, &s);
		hear(&v[i]);
		kills++;
	}
	for (int i = 0; i < 3; i++)
		k_child_kill(&v[i]);
	printf("# %u kills\n", kills);
	scene_free(&s);
}

TEST(at_any_time)
{
	for (int way = 0; way < WAYS; way++) {
		if (!way_works(way))
			continue;
		mayhem(0, way, 4000);
		mayhem(RLX_SERVICE_REQUEUE, way, 4000);
	}
}

TEST_MAIN()
