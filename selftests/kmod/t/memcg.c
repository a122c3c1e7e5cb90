// SPDX-License-Identifier: MIT
/*
 * What is charged to the memory cgroup of who asks: every kind of object, until it is
 * refused. Whoever wants too much gets ENOMEM, or is killed in his own group; nobody else
 * notices, and all of it is given back.
 */
/* rig: kernels=6.1,6.12 timeout=240 modules=vgem */
#include <errno.h>
#include <fcntl.h>
#include <linux/rlx.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/cgroup.h"
#include "lib/chan.h"
#include "lib/vgem.h"

#define PAGE	4096ul
#define MIB	(1ul << 20)
#define LIMIT	(8 * MIB)
#define LIMIT_TEXT "8388608"
/* The rig reads this name in the kernel's log: it is killed on purpose. */
#define VICTIM	"rig_may_oom"
#define DEPTH	1024	/* of services, and of channels that submit */

/* ---- objects, as many as can be had ---- */

/* What one process has, and what of it the next object belongs to. */
struct hoard {
	int s, svc, ex, ch, arena, tl, efd;
	long handle;
	struct rlx_slice *slice;	/* in the arena */
};

/* Each of these makes another owner where the one there was has all that it may. */
static long more_timelines(struct hoard *h)
{
	struct rlx_ioc_timeline_create c = { 0 };

	return h->tl = k_ioctl(h->s, RLX_IOC_TIMELINE_CREATE, &c);
}

static long more_eventfds(struct hoard *h)
{
	struct rlx_ioc_timeline_eventfd e = { .value = 1, .eventfd = h->efd };
	long ret = h->tl ? k_ioctl(h->tl, RLX_IOC_TIMELINE_EVENTFD, &e) : -ENOSPC;

	if (ret == -ENOSPC)
		ret = more_timelines(h);
	return ret;
}

static long more_arenas(struct hoard *h)
{
	struct rlx_ioc_arena_create c = {
		.size = PAGE, .kind = RLX_KIND_KERNEL, .numa_node = -1, .memfd = -1,
	};
	long ret = k_ioctl(h->s, RLX_IOC_ARENA_CREATE, &c);

	return ret == -ENOSPC ? (h->s = k_open()) : ret;
}

static long more_duplicates(struct hoard *h)
{
	return k_dup(h->arena, RLX_R);
}

static long more_exports(struct hoard *h)
{
	return k_export(h->arena, 0, PAGE, RLX_R);
}

static long more_services(struct hoard *h)
{
	return h->svc = k_try_service(h->s, 1, DEPTH, 0);
}

static long more_executors(struct hoard *h)
{
	long ret = more_services(h);

	return ret < 0 ? ret : k_try_executor(h->svc, RLX_EXEC_RING);
}

static long channel(struct hoard *h, uint32_t depth, uint32_t flags)
{
	struct rlx_ioc_connect c = { .service = h->svc, .depth = depth, .flags = flags };

	return k_ioctl(h->s, RLX_IOC_CONNECT, &c);
}

static long more_channels(struct hoard *h)
{
	long ret = channel(h, 1, 0);

	return ret == -ENOSPC ? (h->svc = k_try_service(h->s, 1, DEPTH, 0)) : ret;
}

static long more_rings(struct hoard *h)
{
	long ret = channel(h, 1, RLX_CHANNEL_RING);

	return ret == -ENOSPC ? (h->svc = k_try_service(h->s, 1, DEPTH, 0)) : ret;
}

static long more_attachments(struct hoard *h)
{
	long ret = k_attach(h->ch, h->arena, RLX_R);

	if (ret != -ENOSPC)
		return ret;
	ret = more_channels(h);
	return h->ch = ret < 0 ? ret : channel(h, 1, 0);
}

static void slices(struct hoard *h)
{
	for (int i = 0; i < RLX_RQ_SLICES_MAX; i++)
		h->slice[i] = (struct rlx_slice){ h->handle, RLX_R, 0, 8 };
}

/* Of indirect slices, of which the kernel keeps a copy. */
static long more_requests(struct hoard *h)
{
	struct rlx_rq rq = k_rq(1, 1);
	long ret;

	rq.flags = RLX_RQ_INDIRECT;
	rq.nr_slices = RLX_RQ_SLICES_MAX;
	rq.slice[0] = (struct rlx_slice){ h->handle, RLX_R, 0,
					  RLX_RQ_SLICES_MAX * sizeof(struct rlx_slice) };
	ret = k_submit(h->ch, &rq, 1, NULL);
	if (ret != -EAGAIN)
		return ret;
	ret = more_services(h);
	if (ret >= 0)
		ret = h->ex = k_try_executor(h->svc, 0);
	if (ret >= 0)
		ret = h->ch = channel(h, DEPTH, 0);
	if (ret >= 0)
		ret = h->handle = k_attach(h->ch, h->arena, RLX_R);
	if (ret >= 0)
		slices(h);
	return ret;
}

/* The sessions of a user are few: their number is what bounds them. */
static long more_sessions(struct hoard *h)
{
	int fd = open("/dev/rlx", O_RDWR | O_CLOEXEC);

	(void)h;
	return fd < 0 ? -errno : fd;
}

/* The first of each, made where there still is memory. */
static void prepare(struct hoard *h)
{
	h->s = k_open();
	h->efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	h->arena = k_arena(h->s, PAGE, 0);
	h->svc = k_service(h->s, 1, 2 * DEPTH, 0);
	h->ex = k_executor(h->svc, 0);
	h->ch = k_channel(h->s, h->svc, DEPTH, 0, NULL);
	h->handle = k_attach(h->ch, h->arena, RLX_R);
	CHECK(h->handle > 0);
	h->slice = k_map(h->arena, PAGE, PROT_READ | PROT_WRITE, 0);
	slices(h);
}

struct result {
	atomic_long n, ret;
};

static void hoard(long (*more)(struct hoard *h), struct result *r)
{
	struct rlimit files = { 400000, 400000 };
	struct hoard h = { 0 };
	long ret;

	CHECK(!setrlimit(RLIMIT_NOFILE, &files));
	CHECK(!prctl(PR_SET_NAME, VICTIM));
	CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL));
	prepare(&h);
	k_cgroup_enter();
	while ((ret = more(&h)) >= 0)
		atomic_fetch_add(&r->n, 1);
	atomic_store(&r->ret, ret);
	for (;;)
		pause();
}

/* All that others do, beside the one who has too much. */
static void works(struct k_scene *k)
{
	struct rlx_rq rq = k_rq(1, 1);
	int arena = k_arena(k->session, MIB, 0), tl = k_timeline(k->session, 0);
	struct rlx_cqe cqe;

	CHECK_EQ(k_submit(k->ch, &rq, 1, NULL), 1);
	CHECK_EQ(k_commit1(k->ex, k->desc, k_fetch1(k->ex), 7, 0), 1);
	CHECK_EQ(k_reap(k->ch, &cqe, 1, 1, K_SOON), 1);
	CHECK_EQ(k_signal(tl, 1), 0);
	close(tl);
	close(arena);
}

/* What the machine lost until it was refused or killed, in KiB. */
static long long watch(pid_t pid, const struct result *r, bool *killed)
{
	long long before = k_file_field("/proc/meminfo", "MemAvailable:"), least = before, now;
	int status;

	*killed = false;
	while (!atomic_load(&r->ret)) {
		*killed = waitpid(pid, &status, WNOHANG) == pid;
		if (*killed)
			break;
		now = k_file_field("/proc/meminfo", "MemAvailable:");
		least = now < least ? now : least;
		usleep(1000);
	}
	if (*killed)
		CHECKF(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %#x", status);
	return before - least;
}

static void until_refused(const char *what, long (*more)(struct hoard *h), long quota)
{
	struct k_scene k = k_scene_new(&(struct k_scene_opts){ .depth = 8 });
	struct result *r = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				-1, 0);
	long long lost;
	bool killed;
	pid_t pid;

	CHECK(r != MAP_FAILED);
	k_cgroup_new(LIMIT_TEXT);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		hoard(more, r);
	lost = watch(pid, r, &killed);
	works(&k);
	printf("# %s: %ld, then %s %ld; the machine had %lld KiB less\n", what,
	       atomic_load(&r->n), killed ? "killed," : "error", atomic_load(&r->ret), lost);
	CHECK_EQ(k_cgroup_killed() > 0, killed);
	if (!killed) {
		CHECKF(atomic_load(&r->ret) == (quota ? quota : -ENOMEM), "refused by %ld",
		       atomic_load(&r->ret));
		CHECK(!kill(pid, SIGKILL));
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
	}
	CHECK(atomic_load(&r->n) > 0);
	/* Files, their tables and dma-bufs are the kernel's own; more than that is not. */
	CHECKF(lost < 4 * (long long)LIMIT / 1024, "%lld KiB beside the group's", lost);
	CHECK(k_stat_becomes("nr_arenas", 0));
	CHECK(k_stat_becomes("nr_timelines", 0));
	CHECK(k_stat_becomes("nr_dmabufs", 0));
	CHECK(k_stat_becomes("nr_channels", 1));
	CHECK(k_stat_becomes("nr_services", 1));
	CHECK(k_stat_becomes("nr_sessions", 1));
	works(&k);
	k_cgroup_uncharged(0);
	k_cgroup_free();
	k_scene_free(&k);
}

#define UNTIL_REFUSED(what, quota)			\
	TEST(what)					\
	{						\
		until_refused(#what, more_##what, quota);	\
	}

UNTIL_REFUSED(sessions, -ENOSPC)
UNTIL_REFUSED(timelines, 0)
UNTIL_REFUSED(eventfds, 0)
UNTIL_REFUSED(arenas, 0)
UNTIL_REFUSED(duplicates, 0)
UNTIL_REFUSED(exports, 0)
UNTIL_REFUSED(services, 0)
UNTIL_REFUSED(executors, 0)
UNTIL_REFUSED(channels, 0)
UNTIL_REFUSED(rings, 0)
UNTIL_REFUSED(attachments, 0)
UNTIL_REFUSED(requests, 0)

/* ---- what a call keeps while it is under way ---- */

#define WAITERS	128

struct crowd {
	pthread_barrier_t begin;
	int s;
	struct rlx_point point[RLX_WAIT_MAX];
};

static void *wait_for_all(void *arg)
{
	struct crowd *c = arg;
	struct rlx_ioc_timeline_wait w = {
		.points = (uintptr_t)c->point, .nr = RLX_WAIT_MAX, .flags = RLX_WAIT_ALL,
		.deadline_ns = K_EVER,
	};

	pthread_barrier_wait(&c->begin);
	CHECK_EQ(k_ioctl(c->s, RLX_IOC_TIMELINE_WAIT, &w), 0);
	return NULL;
}

TEST(waits_under_way)
{
	struct crowd c = { .s = k_open() };
	int tl = k_timeline(c.s, 0), other = k_timeline(c.s, 0);
	pthread_t id[WAITERS];
	long long before;

	k_cgroup_new("max");
	k_cgroup_enter();
	/* The crowd's waiters are on both: one has places for so many only. */
	for (int i = 0; i < RLX_WAIT_MAX; i++)
		c.point[i] = (struct rlx_point){ .fd = i & 1 ? tl : other, .value = 1 };
	CHECK(!pthread_barrier_init(&c.begin, NULL, WAITERS + 1));
	for (int i = 0; i < WAITERS; i++)
		CHECK(!pthread_create(&id[i], NULL, wait_for_all, &c));
	usleep(200000);
	before = k_cgroup_kernel();
	pthread_barrier_wait(&c.begin);
	CHECK(k_stat_becomes("nr_waiters", WAITERS * RLX_WAIT_MAX));
	for (int i = 0; i < 500 && k_cgroup_kernel() - before < WAITERS * 1024; i++)
		usleep(10000);
	printf("# %lld bytes each\n", (k_cgroup_kernel() - before) / WAITERS);
	CHECKF(k_cgroup_kernel() - before >= WAITERS * 1024, "charged %lld",
	       k_cgroup_kernel() - before);
	CHECK_EQ(k_signal(tl, 1), 0);
	CHECK_EQ(k_signal(other, 1), 0);
	for (int i = 0; i < WAITERS; i++)
		CHECK(!pthread_join(id[i], NULL));
	close(tl);
	close(other);
	close(c.s);
	k_cgroup_leave();
	k_cgroup_free();
}

/* ---- what an importer has mapped ---- */

#define PIECES	16384ul

/* No page of it follows in memory the one before: as many pieces as there are pages. */
static char *scattered(void)
{
	char *p = mmap(NULL, PIECES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	CHECK(p != MAP_FAILED);
	madvise(p, PIECES * PAGE, MADV_NOHUGEPAGE);
	for (unsigned long i = 0; i < PIECES; i += 2)
		p[i * PAGE] = 1;
	for (unsigned long i = 1; i < PIECES; i += 2)
		p[i * PAGE] = 1;
	return p;
}

TEST(mapped_for_a_device)
{
	struct rlx_ioc_arena_create c = {
		.size = PIECES * PAGE, .kind = RLX_KIND_USER, .numa_node = -1, .memfd = -1,
		.addr = (uintptr_t)scattered(),
	};
	int s = k_open(), v = vgem_open(), a, buf;
	uint32_t handle;
	long long before;

	k_cgroup_new("max");
	k_cgroup_enter();
	a = k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
	CHECK(a >= 0);
	buf = k_export(a, 0, c.size, RLX_R | RLX_W);
	CHECK(buf >= 0);
	before = k_cgroup_kernel();
	CHECK_EQ(vgem_import(v, buf, &handle), 0);
	/* An entry of the table has 32 bytes; vgem keeps 16 of each page for itself. */
	for (int i = 0; i < 500 && k_cgroup_kernel() - before < (long long)PIECES * 24; i++)
		usleep(10000);
	printf("# %lld bytes of a page\n", (k_cgroup_kernel() - before) / (long long)PIECES);
	CHECKF(k_cgroup_kernel() - before >= (long long)PIECES * 24, "charged %lld",
	       k_cgroup_kernel() - before);
	vgem_close_handle(v, handle);
	close(v);
	close(buf);
	close(a);
	CHECK(k_stat_becomes("nr_dmabufs", 0));
	k_cgroup_uncharged(before);
	close(s);
	k_cgroup_leave();
	k_cgroup_free();
}

TEST_MAIN()
