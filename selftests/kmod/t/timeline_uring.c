// SPDX-License-Identifier: MIT
/* Waiting for timelines by io_uring: parked, cancelled by the ring's end. */
/* rig: timeout=90 also */
#include <errno.h>
#include <liburing.h>
#include <linux/rlx.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"

#define MS	1000000ull
#define FOREVER	UINT64_MAX

static bool parks(int session)
{
	return k_features(session) & RLX_FEAT_URING_ASYNC;
}

static void ring_new(struct io_uring *r, unsigned int flags)
{
	int ret = io_uring_queue_init(128, r, flags);

	CHECKF(!ret, "a ring: %s", strerror(-ret));
}

/* Queues a wait; @w is read when it is submitted. */
static struct io_uring_sqe *
queue_wait(struct io_uring *r, int tl, struct rlx_ioc_timeline_wait_one *w,
	   uint64_t user_data)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(r);
	struct rlx_uring_cmd c = { .addr = (uintptr_t)w };

	CHECK(sqe);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = tl;
	sqe->off = RLX_IOC_TIMELINE_WAIT_ONE;	/* cmd_op */
	memcpy((char *)sqe + 48, &c, sizeof(c));
	sqe->user_data = user_data;
	return sqe;
}

static int reap(struct io_uring *r, uint64_t *user_data)
{
	struct io_uring_cqe *cqe;
	struct __kernel_timespec ts = { .tv_sec = 60 };
	int ret = io_uring_wait_cqe_timeout(r, &cqe, &ts);

	CHECKF(!ret, "no completion: %s", strerror(-ret));
	ret = cqe->res;
	if (user_data)
		*user_data = cqe->user_data;
	io_uring_cqe_seen(r, cqe);
	return ret;
}

/* With SQPOLL it also counts what its thread has not taken yet. */
static void submit(struct io_uring *r, int n)
{
	int ret = io_uring_submit(r);

	CHECKF(ret >= n, "%d of %d submitted", ret, n);
}

static int wait_now(struct io_uring *r, int tl, uint64_t value, uint64_t until)
{
	struct rlx_ioc_timeline_wait_one w = { value, until };

	queue_wait(r, tl, &w, 0);
	submit(r, 1);
	return reap(r, NULL);
}

static uint32_t waiters(int tl)
{
	struct rlx_ioc_timeline_query q = { 0 };

	CHECK_EQ(k_ioctl(tl, RLX_IOC_TIMELINE_QUERY, &q), 0);
	return q.waiters;
}

static int tl_reader(int tl)
{
	struct rlx_ioc_timeline_dup d = { .access = RLX_R };
	int fd = k_ioctl(tl, RLX_IOC_TIMELINE_DUP, &d);

	CHECK(fd >= 0);
	return fd;
}

static void until_waiters(int tl, uint32_t n)
{
	int i;

	for (i = 0; i < 120000 && waiters(tl) != n; i++)
		usleep(500);
	CHECK_EQ(waiters(tl), n);
}

static const unsigned int ring_flags[] = {
	0,
	IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
	IORING_SETUP_SQPOLL,
};

TEST(results)
{
	int s = k_open(), tl = k_timeline(s, 5), ro, i;
	uint64_t until;

	for (i = 0; i < 4; i++) {
		struct rlx_ioc_timeline_wait_one w = { 5, 0 };
		struct io_uring_sqe *sqe;
		struct rlx_uring_cmd c = { .addr = 8 };
		struct io_uring r;

		ring_new(&r, ring_flags[i]);
		CHECK_EQ(wait_now(&r, tl, 5, 0), 0);
		CHECK_EQ(wait_now(&r, tl, 5, FOREVER), 0);
		CHECK_EQ(wait_now(&r, tl, 6, 0), -EAGAIN);
		CHECK_EQ(wait_now(&r, tl, 6, 1), -ETIME);
		until = k_now() + 30 * MS;
		CHECK_EQ(wait_now(&r, tl, 6, until), -ETIME);
		CHECK(k_now() >= until);
		queue_wait(&r, tl, &w, 0)->off = RLX_IOC_TIMELINE_QUERY;
		submit(&r, 1);
		CHECK_EQ(reap(&r, NULL), -EOPNOTSUPP);
		sqe = queue_wait(&r, tl, &w, 0);
		memcpy((char *)sqe + 48, &c, sizeof(c));
		submit(&r, 1);
		CHECK_EQ(reap(&r, NULL), -EFAULT);
		c.addr = (uintptr_t)&w;
		c.flags = RLX_URING_MULTISHOT;
		sqe = queue_wait(&r, tl, &w, 0);
		memcpy((char *)sqe + 48, &c, sizeof(c));
		submit(&r, 1);
		CHECK_EQ(reap(&r, NULL), -EINVAL);
		c.flags = 0;
		c.pad = 1;
		sqe = queue_wait(&r, tl, &w, 0);
		memcpy((char *)sqe + 48, &c, sizeof(c));
		submit(&r, 1);
		CHECK_EQ(reap(&r, NULL), -EINVAL);
		CHECK_EQ(waiters(tl), 0);
		io_uring_queue_exit(&r);
	}
	ro = tl_reader(tl);
	close(tl);
	for (i = 0; i < 4; i++) {
		struct io_uring r;

		ring_new(&r, ring_flags[i]);
		CHECK_EQ(wait_now(&r, ro, 5, FOREVER), 0);
		CHECK_EQ(wait_now(&r, ro, 6, FOREVER), -EOWNERDEAD);
		io_uring_queue_exit(&r);
	}
}

TEST(many_parked)
{
	int s = k_open(), i, j, n = parks(s) ? 100 : 8;

	for (j = 0; j < 4; j++) {
		/* Not by the fd that signals: a wait would keep that alive. */
		int tl = k_timeline(s, 0), ro = tl_reader(tl);
		struct rlx_ioc_timeline_wait_one w[100];
		struct io_uring r;
		uint64_t got, sum = 0;

		ring_new(&r, ring_flags[j]);
		for (i = 0; i < n; i++) {
			w[i] = (struct rlx_ioc_timeline_wait_one){
				1 + (i * 7) % n, i % 2 ? FOREVER :
				k_now() + 60000 * MS };
			queue_wait(&r, ro, &w[i], w[i].value);
		}
		submit(&r, n);
		until_waiters(tl, n);
		for (i = 1; i <= n - 4; i += 3) {
			CHECK_EQ(k_signal(tl, i), 0);
			while (sum < (uint64_t)i) {
				CHECK_EQ(reap(&r, &got), 0);
				CHECK(got <= (uint64_t)i);
				sum++;
			}
		}
		CHECK_EQ(waiters(tl), n - sum);
		/* The rest hears that nobody is left. */
		close(tl);
		while (sum++ < (uint64_t)n)
			CHECK_EQ(reap(&r, NULL), -EOWNERDEAD);
		io_uring_queue_exit(&r);
	}
}

/*
 * The ring goes, with what is parked in it; not one of DEFER_TASKRUN, which 6.12
 * with lockdep complains about whoever parked: its task lives, and is not who
 * cancels. task_is_killed has those.
 */
TEST(ring_is_closed)
{
	int s = k_open(), tl = k_timeline(s, 0), i, j;
	struct rlx_ioc_timeline_wait_one w[2] = { { 1, FOREVER },
						  { 1, k_now() + 50000 * MS } };

	for (i = 0; i < 20; i++) {
		struct io_uring r;

		ring_new(&r, i % 2 ? IORING_SETUP_SQPOLL : 0);
		for (j = 0; j < 4; j++)
			queue_wait(&r, tl, &w[j % 2], j);
		submit(&r, 4);
		until_waiters(tl, 4);
		io_uring_queue_exit(&r);
		until_waiters(tl, 0);
	}
	CHECK_EQ(k_signal(tl, 1), 0);
}

/* The timeline's fd is closed under a parked command: that holds it. */
TEST(fd_is_closed)
{
	int s = k_open(), tl = k_timeline(s, 0), other;
	struct rlx_ioc_timeline_wait_one w = { 1, FOREVER };
	struct io_uring r;

	ring_new(&r, 0);
	other = dup(tl);
	queue_wait(&r, tl, &w, 0);
	submit(&r, 1);
	until_waiters(other, 1);
	close(tl);
	CHECK_EQ(k_signal(other, 1), 0);
	CHECK_EQ(reap(&r, NULL), 0);
	/* Waiting through the fd that signals: the wait keeps it, for ever. */
	w.value = 2;
	queue_wait(&r, other, &w, 0);
	submit(&r, 1);
	until_waiters(other, 1);
	close(other);
	io_uring_queue_exit(&r);
}

static pid_t start_child(int tl, unsigned int flags)
{
	pid_t pid = fork();

	if (!pid) {
		struct rlx_ioc_timeline_wait_one w = { 9, FOREVER };
		struct io_uring r;
		int i;

		ring_new(&r, flags);
		for (i = 0; i < 5; i++)
			queue_wait(&r, tl, &w, i);
		submit(&r, 5);
		pause();
	}
	return pid;
}

TEST(task_is_killed)
{
	int s = k_open(), tl = k_timeline(s, 0), i, status;
	pid_t pid;

	for (i = 0; i < 20; i++) {
		pid = start_child(tl, ring_flags[i % 4]);
		until_waiters(tl, 5);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid);
		until_waiters(tl, 0);
	}
}

/* The killing against the signal, the deadline against both. */
TEST(races)
{
	int s = k_open(), tl = k_timeline(s, 0), i, status;
	uint64_t value = 0;
	pid_t pid;

	for (i = 0; i < 150; i++) {
		pid = fork();
		if (!pid) {
			struct rlx_ioc_timeline_wait_one w[3];
			struct io_uring r;

			ring_new(&r, ring_flags[i % 3]);
			w[0] = (struct rlx_ioc_timeline_wait_one){ value + 1,
								   FOREVER };
			w[1] = (struct rlx_ioc_timeline_wait_one){
				value + 1, k_now() + 2 * MS };
			w[2] = (struct rlx_ioc_timeline_wait_one){
				value + 9, k_now() + 3 * MS };
			for (int j = 0; j < 3; j++)
				queue_wait(&r, tl, &w[j], j);
			submit(&r, 3);
			pause();
		}
		usleep(rlx_test_seed() % 4000 + i * 10);
		if (i % 3 == 0)
			kill(pid, SIGKILL);
		CHECK_EQ(k_signal(tl, ++value), 0);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid);
	}
	until_waiters(tl, 0);
}

/* Many rings in threads, one who signals: nobody sleeps for ever. */
struct worker {
	pthread_t thread;
	int tl;
	uint64_t last;
	unsigned int flags;
};

static void *worker_main(void *arg)
{
	struct worker *k = arg;
	struct io_uring r;
	uint64_t v;
	int ret;

	ring_new(&r, k->flags);
	for (v = 1; v <= k->last; v++) {
		ret = wait_now(&r, k->tl, v, v % 3 ? FOREVER : k_now() + MS);
		CHECK(ret == 0 || (ret == -ETIME && v % 3 == 0));
	}
	io_uring_queue_exit(&r);
	return NULL;
}

TEST(threads)
{
	int s = k_open(), tl = k_timeline(s, 0), i;
	struct worker k[3];
	uint64_t v;

	for (i = 0; i < 3; i++) {
		k[i] = (struct worker){ .tl = tl, .last = 400,
					.flags = ring_flags[i] };
		CHECK(!pthread_create(&k[i].thread, NULL, worker_main, &k[i]));
	}
	for (v = 1; v <= 400; v++) {
		CHECK_EQ(k_signal(tl, v), 0);
		if (v % 5 == 0)
			usleep(300);
	}
	for (i = 0; i < 3; i++)
		pthread_join(k[i].thread, NULL);
	CHECK_EQ(waiters(tl), 0);
}

TEST_MAIN()
