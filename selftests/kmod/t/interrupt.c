// SPDX-License-Identifier: MIT
/* Signals that nobody handles, in the middle of FETCH and REAP: the time goes on. */
/* rig: timeout=120 also */
#include <errno.h>
#include <liburing.h>
#include <linux/rlx.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"

#define DEPTH	8
/* What io_uring does for the task meanwhile, and how often. */
#define EVERY	(20 * K_MS)
#define TIMES	8
#define LONG	(400 * K_MS)

/* A wait of either end; its struct is where a call may write, or not. */
struct wait {
	int fd;
	unsigned long cmd;
	uint64_t *timeout;
	void *arg;
};

static uint32_t tag;
static struct rlx_cqe cqe;

static struct wait wait_new(const struct k_scene *k, bool reap, void *page)
{
	struct rlx_ioc_fetch *f = page;
	struct rlx_ioc_reap *r = page;

	memset(page, 0, 4096);
	if (reap) {
		*r = (struct rlx_ioc_reap){ .entries = (uintptr_t)&cqe, .max = 1, .min = 1 };
		return (struct wait){ k->ch, RLX_IOC_REAP, (uint64_t *)&r->timeout_ns, r };
	}
	*f = (struct rlx_ioc_fetch){ .tags = (uintptr_t)&tag, .max = 1, .min = 1 };
	return (struct wait){ k->ex, RLX_IOC_FETCH, (uint64_t *)&f->timeout_ns, f };
}

static void *page_new(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* Completions that want the task, TIMES of them, EVERY so long. */
static void ring_of_timeouts(struct io_uring *ring, struct __kernel_timespec ts[TIMES])
{
	CHECK_EQ(io_uring_queue_init(TIMES, ring, 0), 0);
	for (int i = 0; i < TIMES; i++) {
		ts[i] = (struct __kernel_timespec){ .tv_nsec = (i + 1) * EVERY };
		io_uring_prep_timeout(io_uring_get_sqe(ring), &ts[i], 0, 0);
	}
	CHECK_EQ(io_uring_submit(ring), TIMES);
}

/* It neither ends early nor begins anew. */
TEST(task_work_of_io_uring)
{
	struct k_scene k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });
	struct __kernel_timespec ts[TIMES];
	struct io_uring ring;

	for (int reap = 0; reap < 2; reap++) {
		struct wait w = wait_new(&k, reap, page_new());
		uint64_t t0 = k_now(), took, left;

		*w.timeout = LONG;
		ring_of_timeouts(&ring, ts);
		CHECK_EQ(k_ioctl(w.fd, w.cmd, w.arg), -ETIME);
		took = k_now() - t0;
		CHECKF(took >= LONG, "%s took %.1f ms", reap ? "REAP" : "FETCH", took / 1e6);
		CHECK_EQ(io_uring_cq_ready(&ring), TIMES);
		/* The last of the calls had what was left by then. */
		left = *w.timeout;
		CHECKF(left <= LONG - EVERY, "%.1f ms were left", left / 1e6);
		io_uring_queue_exit(&ring);
		munmap(w.arg, 4096);
	}
	k_scene_free(&k);
}

/* What is there at last is taken. */
static void *submit_later(void *arg)
{
	struct k_scene *k = arg;
	struct rlx_rq rq = k_rq(1, 1);

	usleep(TIMES * EVERY / 1000 * 2);
	CHECK_EQ(k_submit(k->ch, &rq, 1, NULL), 1);
	return NULL;
}

TEST(requests_after_task_work)
{
	struct k_scene k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });
	struct wait w = wait_new(&k, false, page_new());
	struct __kernel_timespec ts[TIMES];
	struct io_uring ring;
	pthread_t id;

	*w.timeout = K_SOON;
	ring_of_timeouts(&ring, ts);
	CHECK(!pthread_create(&id, NULL, submit_later, &k));
	CHECK_EQ(k_ioctl(w.fd, w.cmd, w.arg), 1);
	CHECK(!pthread_join(id, NULL));
	CHECK_EQ(k_commit1(k.ex, k.desc, tag, 0, 0), 1);
	CHECK_EQ(k_reap(k.ch, &cqe, 1, 1, 0), 1);
	io_uring_queue_exit(&ring);
	k_scene_free(&k);
}

/* Where the rest cannot be told, it is EINTR: from the start would be too long. */
TEST(timeouts_that_cannot_be_written)
{
	struct k_scene k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });
	struct __kernel_timespec ts[TIMES];
	struct io_uring ring;

	for (int reap = 0; reap < 2; reap++) {
		struct wait w = wait_new(&k, reap, page_new());

		*w.timeout = K_SOON;
		CHECK(!mprotect(w.arg, 4096, PROT_READ));
		ring_of_timeouts(&ring, ts);
		CHECK_EQ(k_ioctl(w.fd, w.cmd, w.arg), -EINTR);
		CHECK_EQ(*w.timeout, K_SOON);
		io_uring_queue_exit(&ring);
		munmap(w.arg, 4096);
	}
	k_scene_free(&k);
}

static void no_op(int sig)
{
	(void)sig;
}

/* A handler is told, SA_RESTART or not, and what was left. */
TEST(handlers_are_told)
{
	struct k_scene k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });
	struct itimerval at = { .it_value.tv_usec = 20000, .it_interval.tv_usec = 20000 };

	for (int i = 0; i < 4; i++) {
		struct sigaction sa = { .sa_handler = no_op, .sa_flags = i & 2 ? SA_RESTART : 0 };
		struct wait w = wait_new(&k, i & 1, page_new());

		CHECK(!sigaction(SIGALRM, &sa, NULL));
		*w.timeout = K_SOON;
		CHECK(!setitimer(ITIMER_REAL, &at, NULL));
		CHECK_EQ(k_ioctl(w.fd, w.cmd, w.arg), -EINTR);
		CHECK(!setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL));
		CHECKF(*w.timeout < K_SOON && *w.timeout > 0, "%llu ns were left",
		       (unsigned long long)*w.timeout);
		munmap(w.arg, 4096);
	}
	k_scene_free(&k);
}

/* A child in the call is stopped and goes on, as under a shell or a debugger. */
TEST(stopped_and_continued)
{
	struct k_scene k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });

	for (int reap = 0; reap < 2; reap++) {
		struct wait w = wait_new(&k, reap, page_new());
		int status;
		pid_t pid;

		*w.timeout = LONG;
		fflush(stdout);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			uint64_t t0 = k_now();
			long ret = k_ioctl(w.fd, w.cmd, w.arg);

			_exit(ret == -EINTR ? 1 : ret != -ETIME ? 2 : k_now() - t0 < LONG ? 3 : 0);
		}
		for (int i = 0; i < TIMES; i++) {
			usleep(EVERY / 1000);
			CHECK(!kill(pid, SIGSTOP));
			CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
			CHECKF(WIFSTOPPED(status), "the child's status is %#x", status);
			CHECK(!kill(pid, SIGCONT));
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECKF(!status, "the child's status is %#x", status);
		munmap(w.arg, 4096);
	}
	k_scene_free(&k);
}

TEST_MAIN()
