// SPDX-License-Identifier: MIT
/* Timelines: counting, waiting, deadlines, poison, eventfds, the shared page. */
/* rig: modules=vgem timeout=120 also */
#include <errno.h>
#include <fcntl.h>
#include <linux/rlx.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/vgem.h"

#define MS	1000000ull
#define FOREVER	UINT64_MAX

static int tl_dup(int tl, uint32_t access)
{
	struct rlx_ioc_timeline_dup d = { .access = access };

	return k_ioctl(tl, RLX_IOC_TIMELINE_DUP, &d);
}

static long tl_wait(int session, const struct rlx_point *points, uint32_t nr,
		    uint32_t flags, uint64_t deadline, uint32_t *index)
{
	struct rlx_ioc_timeline_wait w = {
		.points = (uintptr_t)points, .nr = nr, .flags = flags,
		.deadline_ns = deadline,
	};
	long ret = k_ioctl(session, RLX_IOC_TIMELINE_WAIT, &w);

	if (index)
		*index = w.index;
	return ret;
}

static long tl_wait1(int session, int tl, uint64_t value, uint64_t deadline)
{
	struct rlx_point p = { .fd = tl, .value = value };

	return tl_wait(session, &p, 1, RLX_WAIT_ANY, deadline, NULL);
}

static long tl_eventfd(int tl, int ev, uint64_t value)
{
	struct rlx_ioc_timeline_eventfd e = { .value = value, .eventfd = ev };

	return k_ioctl(tl, RLX_IOC_TIMELINE_EVENTFD, &e);
}

static long tl_import(int tl, int sync_file, uint64_t value)
{
	struct rlx_ioc_timeline_import i = {
		.value = value, .sync_file = sync_file,
	};

	return k_ioctl(tl, RLX_IOC_TIMELINE_IMPORT, &i);
}

static uint32_t tl_waiters(int tl)
{
	struct rlx_ioc_timeline_query q = { 0 };

	CHECK_EQ(k_ioctl(tl, RLX_IOC_TIMELINE_QUERY, &q), 0);
	return q.waiters;
}

static uint64_t ev_read(int ev)
{
	uint64_t n = 0;

	return read(ev, &n, 8) == 8 ? n : 0;
}

TEST(counts_upwards_only)
{
	int s = k_open(), tl = k_timeline(s, 7), err = -1, ro;
	struct rlx_ioc_timeline_create c = { .initial = UINT64_MAX };

	CHECK_EQ(k_query(tl, &err), 7);
	CHECK_EQ(err, 0);
	CHECK_EQ(k_signal(tl, 7), -EINVAL);
	CHECK_EQ(k_signal(tl, 6), -EINVAL);
	CHECK_EQ(k_signal(tl, 0), -EINVAL);
	CHECK_EQ(k_signal(tl, 8), 0);
	CHECK_EQ(k_signal(tl, 1ull << 40), 0);
	CHECK_EQ(k_query(tl, NULL), 1ll << 40);
	CHECK_EQ(k_signal(tl, UINT64_MAX), -EOVERFLOW);
	CHECK_EQ(k_signal(tl, UINT64_MAX - 1), 0);
	CHECK_EQ(k_signal(tl, UINT64_MAX - 1), -EINVAL);
	CHECK_EQ(k_ioctl(s, RLX_IOC_TIMELINE_CREATE, &c), -EOVERFLOW);
	ro = tl_dup(tl, RLX_R);
	CHECK(ro >= 0);
	CHECK_EQ(k_signal(ro, UINT64_MAX - 1), -EACCES);
	CHECK_EQ(k_query(ro, NULL), -2);
	CHECK_EQ(tl_dup(ro, RLX_R | RLX_W), -EACCES);
	CHECK_EQ(tl_dup(ro, RLX_W), -EINVAL);
	CHECK_EQ(tl_dup(tl, 0), -EINVAL);
	CHECK_EQ(tl_dup(tl, 4 | RLX_R), -EINVAL);
}

TEST(shared_page)
{
	int s = k_open(), tl = k_timeline(s, 5), ro = tl_dup(tl, RLX_R), i;
	int fds[2] = { tl, ro };
	volatile struct rlx_timeline_page *p, *q;
	int status;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		int fd = fds[i];

		CHECK(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
		      MAP_FAILED && errno == EACCES);
		CHECK(mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0) ==
		      MAP_FAILED && errno == EINVAL);
		CHECK(mmap(0, 8192, PROT_READ, MAP_SHARED, fd, 0) ==
		      MAP_FAILED && errno == EINVAL);
		CHECK(mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 4096) ==
		      MAP_FAILED && errno == EINVAL);
	}
	p = mmap(0, 4096, PROT_READ, MAP_SHARED, tl, 0);
	q = mmap(0, 4096, PROT_READ, MAP_SHARED, ro, 0);
	CHECK(p != MAP_FAILED && q != MAP_FAILED);
	CHECK(p->value == 5 && q->value == 5 && !p->error);
	for (i = 16; i < 4096; i++)
		CHECK(!((volatile char *)p)[i]);
	CHECK(mprotect((void *)p, 4096, PROT_READ | PROT_WRITE) &&
	      errno == EACCES);
	CHECK(mremap((void *)p, 4096, 8192, MREMAP_MAYMOVE) == MAP_FAILED);
	CHECK_EQ(k_signal(tl, 9), 0);
	CHECK(p->value == 9 && q->value == 9);
	CHECK(!madvise((void *)p, 4096, MADV_DONTNEED));
	CHECK(p->value == 9);
	pid = fork();
	if (!pid) {
		while (p->value != 10)
			;
		_exit(q->value == 10 ? 0 : 1);
	}
	CHECK_EQ(k_signal(tl, 10), 0);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	/* A mapping made from the fd that signals does not signal. */
	close(tl);
	CHECK_EQ(p->error, -EOWNERDEAD);
	CHECK(p->value == 10);
	close(ro);
	close(s);
	CHECK(q->value == 10 && q->error == -EOWNERDEAD);
}

TEST(wait_without_sleeping)
{
	int s = k_open(), a = k_timeline(s, 5), b = k_timeline(s, 0);
	struct rlx_point p[RLX_WAIT_MAX + 1] = {
		{ .fd = b, .value = 1 }, { .fd = a, .value = 5 },
		{ .fd = a, .value = 6 },
	};
	uint64_t past = k_now() - 1;
	uint32_t i;

	CHECK_EQ(tl_wait(s, p, 3, RLX_WAIT_ANY, 0, &i), 0);
	CHECK_EQ(i, 1);
	CHECK_EQ(tl_wait(s, p + 1, 1, RLX_WAIT_ALL, 0, &i), 0);
	CHECK_EQ(i, 0);
	CHECK_EQ(tl_wait(s, p, 3, RLX_WAIT_ALL, 0, NULL), -EAGAIN);
	CHECK_EQ(tl_wait(s, p, 1, RLX_WAIT_ANY, 0, NULL), -EAGAIN);
	CHECK_EQ(tl_wait(s, p, 1, RLX_WAIT_ANY, past, NULL), -ETIME);
	CHECK_EQ(tl_wait(s, p, 1, RLX_WAIT_ANY, 1, NULL), -ETIME);
	CHECK_EQ(tl_wait(s, p, 3, RLX_WAIT_ALL, k_now() + 20 * MS, NULL),
		 -ETIME);
	CHECK_EQ(tl_waiters(a), 0);
	CHECK_EQ(tl_waiters(b), 0);
	/* The same timeline many times. */
	for (i = 0; i < RLX_WAIT_MAX; i++)
		p[i] = (struct rlx_point){ .fd = a, .value = 5 - i % 3 };
	CHECK_EQ(tl_wait(s, p, RLX_WAIT_MAX, RLX_WAIT_ALL, 0, &i), 0);
	CHECK_EQ(tl_wait(s, p, RLX_WAIT_MAX + 1, RLX_WAIT_ALL, 0, NULL),
		 -EINVAL);
	CHECK_EQ(tl_wait(s, p, 0, RLX_WAIT_ALL, 0, NULL), -EINVAL);
	CHECK_EQ(tl_wait(s, p, 1, 2, 0, NULL), -EINVAL);
	CHECK_EQ(tl_wait(s, (void *)8, 1, 0, 0, NULL), -EFAULT);
	p[1].fd = -1;
	CHECK_EQ(tl_wait(s, p, 2, 0, 0, NULL), -EBADF);
	p[1].fd = s;
	CHECK_EQ(tl_wait(s, p, 2, 0, 0, NULL), -EINVAL);
	p[1].fd = 0;
	CHECK_EQ(tl_wait(s, p, 2, 0, 0, NULL), -EINVAL);
	p[1].fd = b;
	p[1].pad = 1;
	CHECK_EQ(tl_wait(s, p, 2, 0, 0, NULL), -EINVAL);
}

TEST(deadline_is_kept)
{
	int s = k_open(), tl = k_timeline(s, 0), i;
	uint64_t until, now;

	for (i = 1; i < 40; i += 7) {
		struct rlx_ioc_timeline_wait_one w = { .value = 1 };

		until = k_now() + i * MS;
		CHECK_EQ(tl_wait1(s, tl, 1, until), -ETIME);
		now = k_now();
		CHECKF(now >= until && now < until + 15000 * MS,
		       "woke %lld us from its deadline",
		       (long long)(now - until) / 1000);
		w.deadline_ns = until = k_now() + i * MS;
		CHECK_EQ(k_ioctl(tl, RLX_IOC_TIMELINE_WAIT_ONE, &w), -ETIME);
		CHECK(k_now() >= until);
	}
	CHECK_EQ(tl_wait1(s, tl, 0, 0), 0);
}

struct waiter {
	pthread_t thread;
	int session, tl[3];
	uint64_t value[3];
	uint32_t nr, flags, index;
	uint64_t deadline;
	long ret;
	_Atomic bool done;
};

static void *waiter_main(void *arg)
{
	struct waiter *w = arg;
	struct rlx_point p[3];
	uint32_t i;

	for (i = 0; i < w->nr; i++)
		p[i] = (struct rlx_point){ .fd = w->tl[i],
					   .value = w->value[i] };
	w->ret = tl_wait(w->session, p, w->nr, w->flags, w->deadline,
			 &w->index);
	w->done = true;
	return NULL;
}

static void waiter_start(struct waiter *w)
{
	w->done = false;
	CHECK(!pthread_create(&w->thread, NULL, waiter_main, w));
}

static long waiter_end(struct waiter *w)
{
	pthread_join(w->thread, NULL);
	return w->ret;
}

static void until_waiters(int tl, uint32_t n)
{
	int i;

	for (i = 0; i < 120000 && tl_waiters(tl) != n; i++)
		usleep(500);
	CHECK_EQ(tl_waiters(tl), n);
}

TEST(wakes_those_that_are_reached)
{
	int s = k_open(), tl = k_timeline(s, 0), i, v;
	struct waiter w[20] = { 0 };

	for (i = 0; i < 20; i++) {
		/* In no order, and some alike. */
		w[i] = (struct waiter){ .session = s, .tl = { tl }, .nr = 1,
					.value = { 1 + (i * 7) % 10 },
					.deadline = FOREVER };
		waiter_start(&w[i]);
	}
	until_waiters(tl, 20);
	for (v = 1; v <= 10; v += 3) {
		CHECK_EQ(k_signal(tl, v), 0);
		for (i = 0; i < 20; i++) {
			if (w[i].value[0] <= (uint64_t)v) {
				CHECK_EQ(waiter_end(&w[i]), 0);
				w[i].value[0] = 1000;
			}
		}
		usleep(2000);
		for (i = 0; i < 20; i++)
			CHECK(w[i].value[0] == 1000 || !w[i].done);
	}
	CHECK_EQ(tl_waiters(tl), 0);
}

TEST(any_and_all)
{
	int s = k_open(), a = k_timeline(s, 0), b = k_timeline(s, 0),
	    c = k_timeline(s, 0);
	struct waiter any = { .session = s, .tl = { a, b, c }, .nr = 3,
			      .value = { 1, 2, 3 }, .deadline = FOREVER };
	struct waiter all = any;

	all.flags = RLX_WAIT_ALL;
	waiter_start(&any);
	waiter_start(&all);
	until_waiters(a, 2);
	until_waiters(b, 2);
	until_waiters(c, 2);
	CHECK_EQ(k_signal(b, 1), 0);
	usleep(3000);
	CHECK(!any.done && !all.done);
	CHECK_EQ(k_signal(b, 2), 0);
	CHECK_EQ(waiter_end(&any), 0);
	CHECK_EQ(any.index, 1);
	CHECK_EQ(tl_waiters(a), 1);
	CHECK_EQ(k_signal(c, 3), 0);
	usleep(3000);
	CHECK(!all.done);
	CHECK_EQ(k_signal(a, 100), 0);
	CHECK_EQ(waiter_end(&all), 0);
	CHECK_EQ(all.index, 0);
}

TEST(last_signaller_gone)
{
	int s = k_open(), tl = k_timeline(s, 3), other = k_timeline(s, 0);
	int ro = tl_dup(tl, RLX_R), rw = tl_dup(tl, RLX_R | RLX_W), err, ev;
	struct waiter any = { .session = s, .tl = { other, ro }, .nr = 2,
			      .value = { 1, 4 }, .deadline = FOREVER };
	struct waiter all = any;
	struct rlx_point p[2] = { { .fd = ro, .value = 9 },
				  { .fd = other, .value = 0 } };
	uint32_t i;

	all.flags = RLX_WAIT_ALL;
	ev = eventfd(0, EFD_NONBLOCK);
	CHECK_EQ(tl_eventfd(ro, ev, 4), 0);
	waiter_start(&any);
	waiter_start(&all);
	until_waiters(ro, 3);
	close(tl);
	usleep(3000);
	CHECK(!any.done && !all.done);
	CHECK_EQ(k_query(ro, &err), 3);
	CHECK_EQ(err, 0);
	close(rw);
	CHECK_EQ(waiter_end(&any), -EOWNERDEAD);
	CHECK_EQ(waiter_end(&all), -EOWNERDEAD);
	CHECK_EQ(ev_read(ev), 1);
	CHECK_EQ(k_query(ro, &err), 3);
	CHECK_EQ(err, -EOWNERDEAD);
	/* What was reached stays reached; the rest fails at once. */
	CHECK_EQ(tl_wait1(s, ro, 3, 0), 0);
	CHECK_EQ(tl_wait1(s, ro, 4, FOREVER), -EOWNERDEAD);
	CHECK_EQ(tl_eventfd(ro, ev, 4), -EOWNERDEAD);
	CHECK_EQ(ev_read(ev), 0);
	CHECK_EQ(tl_eventfd(ro, ev, 3), 0);
	CHECK_EQ(ev_read(ev), 1);
	CHECK_EQ(tl_wait(s, p, 2, RLX_WAIT_ANY, FOREVER, &i), 0);
	CHECK_EQ(i, 1);
	CHECK_EQ(tl_wait(s, p, 2, RLX_WAIT_ALL, FOREVER, NULL), -EOWNERDEAD);
}

TEST(eventfd_once)
{
	int s = k_open(), tl = k_timeline(s, 0);
	int ev = eventfd(0, EFD_NONBLOCK);

	CHECK_EQ(tl_eventfd(tl, ev, 2), 0);
	CHECK_EQ(tl_eventfd(tl, ev, 2), 0);
	CHECK_EQ(tl_eventfd(tl, ev, 3), 0);
	CHECK_EQ(tl_waiters(tl), 3);
	CHECK_EQ(k_signal(tl, 1), 0);
	CHECK_EQ(ev_read(ev), 0);
	CHECK_EQ(k_signal(tl, 2), 0);
	CHECK_EQ(ev_read(ev), 2);
	CHECK_EQ(k_signal(tl, 30), 0);
	CHECK_EQ(ev_read(ev), 1);
	CHECK_EQ(k_signal(tl, 31), 0);
	CHECK_EQ(ev_read(ev), 0);
	CHECK_EQ(tl_eventfd(tl, ev, 31), 0);
	CHECK_EQ(ev_read(ev), 1);
	CHECK_EQ(tl_eventfd(tl, -1, 40), -EBADF);
	CHECK_EQ(tl_eventfd(tl, tl, 40), -EINVAL);
	/* Its fd may go; nothing dangles. */
	CHECK_EQ(tl_eventfd(tl, ev, 40), 0);
	close(ev);
	CHECK_EQ(k_signal(tl, 41), 0);
	CHECK_EQ(tl_waiters(tl), 0);
}

TEST(waiters_are_capped)
{
	int s = k_open(), tl = k_timeline(s, 0), i;
	int ev = eventfd(0, EFD_NONBLOCK);
	struct rlx_ioc_query q = { 0 };

	CHECK_EQ(k_ioctl(s, RLX_IOC_QUERY, &q), 0);
	CHECK_EQ(q.limits[RLX_LIMIT_WAITERS], 4096);
	for (i = 0; i < 4096; i++)
		CHECK_EQ(tl_eventfd(tl, ev, 1 + (i * 2654435761u) % 1000), 0);
	CHECK_EQ(tl_eventfd(tl, ev, 5), -ENOSPC);
	CHECK_EQ(tl_wait1(s, tl, 5, FOREVER), -ENOSPC);
	/* Who only asks is no waiter. */
	CHECK_EQ(tl_wait1(s, tl, 5, 0), -EAGAIN);
	CHECK_EQ(tl_wait1(s, tl, 0, 0), 0);
	CHECK_EQ(tl_waiters(tl), 4096);
	for (i = 1; i <= 1000; i += 37)
		CHECK_EQ(k_signal(tl, i), 0);
	close(tl);
	CHECK_EQ(ev_read(ev), 4096);
}

TEST(poll_tells_changes)
{
	int s = k_open(), tl = k_timeline(s, 0), ro = tl_dup(tl, RLX_R), ep;
	struct pollfd p[2] = { { .fd = tl, .events = POLLIN },
			       { .fd = ro, .events = POLLIN } };
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };

	CHECK_EQ(poll(p, 2, 0), 0);
	CHECK_EQ(k_signal(tl, 1), 0);
	CHECK_EQ(poll(p, 2, 0), 2);
	CHECK(p[0].revents == POLLIN && p[1].revents == POLLIN);
	/* Each fd remembers for itself what was seen. */
	k_query(tl, NULL);
	CHECK_EQ(poll(p, 2, 0), 1);
	CHECK(!p[0].revents && p[1].revents == POLLIN);
	ep = epoll_create1(0);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, ro, &e));
	CHECK_EQ(epoll_wait(ep, &e, 1, 0), 1);
	CHECK_EQ(epoll_wait(ep, &e, 1, 0), 0);
	CHECK_EQ(k_signal(tl, 2), 0);
	CHECK_EQ(epoll_wait(ep, &e, 1, 1000), 1);
	k_query(ro, NULL);
	close(tl);
	p[1].revents = 0;
	CHECK_EQ(poll(p + 1, 1, 0), 1);
	CHECK_EQ(p[1].revents, POLLERR);
	CHECK_EQ(epoll_wait(ep, &e, 1, 0), 1);
	CHECK(e.events & EPOLLERR);
}

static void on_signal(int sig)
{
}

struct pest {
	pthread_t of;
	_Atomic bool over;
};

static void *pester(void *arg)
{
	struct pest *p = arg;

	while (!p->over) {
		usleep(30000);
		pthread_kill(p->of, SIGUSR1);
	}
	return NULL;
}

TEST(signals_interrupt)
{
	int s = k_open(), tl = k_timeline(s, 0), restart;
	struct sigaction sa = { .sa_handler = on_signal };
	uint64_t until;
	pthread_t t;

	for (restart = 0; restart < 2; restart++) {
		sa.sa_flags = restart ? SA_RESTART : 0;
		sigaction(SIGUSR1, &sa, NULL);
		struct pest p = { pthread_self(), false };

		CHECK(!pthread_create(&t, NULL, pester, &p));
		until = k_now() + (restart ? 300 : 60000) * MS;
		CHECK_EQ(tl_wait1(s, tl, 1, until), restart ? -ETIME : -EINTR);
		CHECK((k_now() >= until) == restart);
		p.over = true;
		pthread_join(t, NULL);
	}
	CHECK_EQ(tl_waiters(tl), 0);
}

TEST(killed_while_waiting)
{
	int s = k_open(), tl = k_timeline(s, 0), i, status;
	pid_t pid[8];

	for (i = 0; i < 8; i++) {
		pid[i] = fork();
		if (!pid[i])
			_exit(tl_wait1(s, tl, 1 + i, FOREVER) != 0);
	}
	until_waiters(tl, 8);
	for (i = 0; i < 8; i += 2)
		kill(pid[i], SIGKILL);
	for (i = 0; i < 8; i += 2)
		CHECK(waitpid(pid[i], &status, 0) == pid[i] &&
		      WIFSIGNALED(status));
	CHECK_EQ(tl_waiters(tl), 4);
	CHECK_EQ(k_signal(tl, 10), 0);
	for (i = 1; i < 8; i += 2)
		CHECK(waitpid(pid[i], &status, 0) == pid[i] && !status);
	/* The signaller itself dies: those who still wait hear of it. */
	pid[0] = fork();
	if (!pid[0]) {
		pause();
		_exit(0);
	}
	i = tl_dup(tl, RLX_R);
	close(tl);
	kill(pid[0], SIGKILL);
	CHECK_EQ(tl_wait1(s, i, 11, k_now() + 20000 * MS), -EOWNERDEAD);
	waitpid(pid[0], &status, 0);
}

/* A fence on a buffer of vgem's, as a sync_file; *fence for vgem_signal(). */
static int make_fence(int vgem, uint32_t *fence)
{
	uint32_t handle = vgem_create(vgem, 4096);
	int buf = vgem_export(vgem, handle), sf;

	CHECK(buf >= 0);
	*fence = vgem_fence(vgem, handle, true);
	sf = dmabuf_sync_file(buf, true);
	CHECKF(sf >= 0, "sync_file: %d", sf);
	close(buf);
	vgem_close_handle(vgem, handle);
	return sf;
}

TEST(sync_file_raises)
{
	int s = k_open(), tl = k_timeline(s, 0), v = vgem_open(), sf[3], ro, i;
	uint32_t fence[3];
	int ev = eventfd(0, EFD_NONBLOCK), err;

	for (i = 0; i < 3; i++)
		sf[i] = make_fence(v, &fence[i]);
	ro = tl_dup(tl, RLX_R);
	CHECK_EQ(tl_import(ro, sf[0], 5), -EACCES);
	CHECK_EQ(tl_import(tl, sf[0], UINT64_MAX), -EOVERFLOW);
	CHECK_EQ(tl_import(tl, -1, 5), -EBADF);
	CHECK_EQ(tl_import(tl, ev, 5), -EINVAL);
	CHECK_EQ(tl_import(tl, sf[0], 5), 0);
	CHECK_EQ(tl_import(tl, sf[1], 4), 0);
	CHECK_EQ(tl_waiters(tl), 2);
	CHECK_EQ(tl_eventfd(tl, ev, 5), 0);
	CHECK_EQ(k_query(tl, NULL), 0);
	CHECK_EQ(vgem_signal(v, fence[0]), 0);
	CHECK_EQ(k_query(tl, NULL), 5);
	CHECK_EQ(ev_read(ev), 1);
	/* Late and lower: nothing happens. */
	CHECK_EQ(vgem_signal(v, fence[1]), 0);
	CHECK_EQ(k_query(tl, &err), 5);
	CHECK_EQ(err, 0);
	/* One that has signalled. */
	CHECK_EQ(tl_import(tl, sf[0], 7), 0);
	CHECK_EQ(k_query(tl, NULL), 7);
	CHECK_EQ(tl_waiters(tl), 0);
	/* A fence under way is a signaller; then there is none left. */
	CHECK_EQ(tl_import(tl, sf[2], 8), 0);
	close(tl);
	CHECK_EQ(k_query(ro, &err), 7);
	CHECK_EQ(err, 0);
	CHECK_EQ(vgem_signal(v, fence[2]), 0);
	CHECK_EQ(k_query(ro, &err), 8);
	CHECK_EQ(err, -EOWNERDEAD);
}

TEST(sync_file_outlives)
{
	int s = k_open(), v = vgem_open(), i, sf, ev;
	uint32_t fence;

	/* Nobody is left to be told: the callback is taken back. */
	for (i = 0; i < 30; i++) {
		int tl = k_timeline(s, 0);

		sf = make_fence(v, &fence);
		CHECK_EQ(tl_import(tl, sf, 1), 0);
		CHECK_EQ(tl_import(tl, sf, 2), 0);
		close(sf);
		close(tl);
		CHECK_EQ(vgem_signal(v, fence), 0);
	}
	/* An eventfd counted on such a fence, which is the last signaller. */
	i = k_timeline(s, 0);
	sf = make_fence(v, &fence);
	ev = eventfd(0, EFD_NONBLOCK);
	CHECK_EQ(tl_import(i, sf, 1), 0);
	CHECK_EQ(tl_eventfd(i, ev, 1), 0);
	close(i);
	CHECK_EQ(ev_read(ev), 1);
	CHECK_EQ(vgem_signal(v, fence), 0);
	/* vgem's fd goes, and its fences are signalled by that. */
	i = k_timeline(s, 0);
	sf = make_fence(v, &fence);
	CHECK_EQ(tl_import(i, sf, 1), 0);
	close(v);
	CHECK_EQ(tl_wait1(s, i, 1, k_now() + 15000 * MS), 0);
}

TEST(fence_error_poisons)
{
	int s = k_open(), tl = k_timeline(s, 0), sw = sw_sync_open(), err;
	int ro = tl_dup(tl, RLX_R), f1, f2;
	struct waiter w = { .session = s, .tl = { ro }, .nr = 1,
			    .value = { 9 }, .deadline = FOREVER };

	if (sw < 0)
		rlx_test_skip("no sw_sync in this kernel");
	f1 = sw_sync_fence(sw, 1);
	f2 = sw_sync_fence(sw, 9);
	CHECK_EQ(tl_import(tl, f1, 4), 0);
	CHECK_EQ(tl_import(tl, f2, 9), 0);
	waiter_start(&w);
	until_waiters(tl, 3);
	sw_sync_inc(sw, 1);
	CHECK_EQ(k_query(tl, NULL), 4);
	/* The fences that are left end with an error: ENOENT on these kernels. */
	close(sw);
	CHECK_EQ(waiter_end(&w), -ENOENT);
	CHECK_EQ(k_query(tl, &err), 4);
	CHECK_EQ(err, -ENOENT);
	CHECK_EQ(k_signal(tl, 5), -ENOENT);
	CHECK_EQ(tl_import(tl, f1, 6), -ENOENT);
	CHECK_EQ(tl_wait1(s, ro, 4, 0), 0);
	/* The first error stays. */
	close(tl);
	k_query(ro, &err);
	CHECK_EQ(err, -ENOENT);
	/* One that had failed before. */
	tl = k_timeline(s, 0);
	CHECK_EQ(tl_import(tl, f2, 6), 0);
	CHECK_EQ(k_signal(tl, 7), -ENOENT);
}

/* ---- races ------------------------------------------------------------- */

struct race {
	int session, tl, vgem;
	uint64_t last;
	_Atomic uint64_t next;
	_Atomic bool stop;
};

static void *race_wait(void *arg)
{
	struct race *r = arg;
	uint64_t seed = (uintptr_t)&seed, v;
	int ev = eventfd(0, EFD_NONBLOCK);

	while (!r->stop) {
		v = r->next + rlx_test_rand(&seed) % 4;
		if (rlx_test_rand(&seed) % 8 == 0)
			CHECK_EQ(tl_eventfd(r->tl, ev, v), 0);
		else if (rlx_test_rand(&seed) % 4 == 0)
			tl_wait1(r->session, r->tl, v,
				 k_now() + rlx_test_rand(&seed) % 200000);
		else if (v <= r->last)
			CHECK_EQ(tl_wait1(r->session, r->tl, v, FOREVER), 0);
	}
	close(ev);
	return NULL;
}

static void *race_fence(void *arg)
{
	struct race *r = arg;
	uint32_t fence;
	int sf;

	while (!r->stop) {
		sf = make_fence(r->vgem, &fence);
		tl_import(r->tl, sf, 1);
		close(sf);
		vgem_signal(r->vgem, fence);
	}
	return NULL;
}

TEST(races)
{
	struct race r = { .session = k_open(), .vgem = vgem_open(),
			  .last = 3000 };
	pthread_t t[4];
	int i;

	r.tl = k_timeline(r.session, 0);
	for (i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL,
				      i == 3 ? race_fence : race_wait, &r));
	for (r.next = 1; r.next <= r.last; r.next++) {
		long ret = k_signal(r.tl, r.next);

		/* A fence may have been first, at 1. */
		CHECK(ret == 0 || (r.next == 1 && ret == -EINVAL));
		if (r.next % 64 == 0)
			usleep(100);
	}
	r.stop = true;
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	k_signal(r.tl, r.last + 100);
	CHECK_EQ(tl_waiters(r.tl), 0);
}

static void *race_close(void *arg)
{
	close(*(int *)arg);
	return NULL;
}

/* The end of the last signaller against everything that still begins. */
TEST(poison_races)
{
	int s = k_open(), ev = eventfd(0, EFD_NONBLOCK), i;

	for (i = 0; i < 300; i++) {
		int tl = k_timeline(s, 0), ro = tl_dup(tl, RLX_R);
		struct waiter w = { .session = s, .tl = { ro }, .nr = 1,
				    .value = { 1 }, .deadline = FOREVER };
		pthread_t t;
		long ret;

		waiter_start(&w);
		CHECK(!pthread_create(&t, NULL, race_close, &tl));
		ret = tl_eventfd(ro, ev, 1);
		CHECK(ret == 0 || ret == -EOWNERDEAD);
		CHECK_EQ(waiter_end(&w), -EOWNERDEAD);
		pthread_join(t, NULL);
		CHECK_EQ(ev_read(ev), ret ? 0 : 1);
		close(ro);
	}
}

TEST_MAIN()
