// SPDX-License-Identifier: MIT
/*
 * A process whose filter refuses a call in the middle of its work, with arenas, channels
 * and requests in its hands, or kills it there: nothing stays of it, and whoever it worked
 * with goes on. The library says what was refused.
 */
/* rig: timeout=120 also */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/rlx.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rlx/run.h"
#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"

#define PAGE	4096ul
#define DEPTH	16
#define RW	(RLX_R | RLX_W)
#define ANY	0		/* of a system call: whatever its second argument */

#define KILL	SECCOMP_RET_KILL_PROCESS
#define EPERMS	(SECCOMP_RET_ERRNO | EPERM)

/*
 * From here on @action is what the call @nr gets: an ioctl where its command is @cmd, mmap
 * where its file is not @cmd (-1: none), others always.
 */
static void refuse(long nr, uint32_t cmd, uint32_t action)
{
	const uint32_t at = offsetof(struct seccomp_data, args) + (nr == SYS_mmap ? 4 : 1) * 8;
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, cmd, nr == SYS_mmap, nr == SYS_ioctl),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { sizeof(f) / sizeof(*f), f };

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p));
}

/* ---- all that a process does with the device ---- */

static uint32_t refused;	/* the ioctl that is, and how often it was */
static int refusals;

static long call(int fd, uint32_t cmd, void *arg)
{
	long ret = k_ioctl(fd, cmd, arg);

	if (cmd == refused) {
		CHECK_EQ(ret, -EPERM);
		refusals++;
	}
	return ret;
}

/* Results that are ignored are those of calls that want what was refused before. */
static int new_arena(int s)
{
	struct rlx_ioc_arena_create c = {
		.size = 4 * PAGE, .kind = RLX_KIND_KERNEL, .numa_node = -1, .memfd = -1,
	};

	return call(s, RLX_IOC_ARENA_CREATE, &c);
}

static int new_timeline(int s)
{
	struct rlx_ioc_timeline_create c = { 0 };

	return call(s, RLX_IOC_TIMELINE_CREATE, &c);
}

static int arenas(int s)
{
	struct rlx_ioc_arena_dup d = { .access = RLX_R };
	struct rlx_ioc_arena_export x = { .length = PAGE, .access = RLX_R };
	struct rlx_ioc_arena_sync y = { .length = PAGE, .access = RLX_R };
	struct rlx_ioc_arena_info i = { 0 };
	struct rlx_ioc_arena_seal l = { .seals = RLX_KSEAL_FUTURE_WRITE };
	int a = new_arena(s), b = new_arena(s);

	call(a, RLX_IOC_ARENA_INFO, &i);
	call(b, RLX_IOC_ARENA_DUP, &d);
	call(b, RLX_IOC_ARENA_EXPORT, &x);
	call(b, RLX_IOC_ARENA_SYNC, &y);
	call(b, RLX_IOC_ARENA_SEAL, &l);
	return a;
}

static void timelines(int s)
{
	int t = new_timeline(s);
	struct rlx_ioc_timeline_signal g = { .value = 1 };
	struct rlx_ioc_timeline_dup d = { .access = RLX_R };
	struct rlx_ioc_timeline_eventfd e = { .value = 9, .eventfd = eventfd(0, 0) };
	struct rlx_ioc_timeline_query q = { 0 };
	struct rlx_ioc_timeline_wait_one o = { .value = 1 };
	struct rlx_point p = { .fd = t, .value = 1 };
	struct rlx_ioc_timeline_wait w = { .points = (uintptr_t)&p, .nr = 1 };

	call(t, RLX_IOC_TIMELINE_SIGNAL, &g);
	call(t, RLX_IOC_TIMELINE_DUP, &d);
	call(t, RLX_IOC_TIMELINE_EVENTFD, &e);
	call(t, RLX_IOC_TIMELINE_QUERY, &q);
	call(t, RLX_IOC_TIMELINE_WAIT_ONE, &o);
	call(s, RLX_IOC_TIMELINE_WAIT, &w);
}

/* As a client of @svc, with requests that nobody will reap. */
static void client(int s, int svc, int arena)
{
	struct rlx_ioc_connect c = { .service = svc, .depth = 4 };
	struct rlx_ioc_attach at = { .fd = arena, .access = RLX_R };
	struct rlx_rq rq[3] = { k_rq(1, 1), k_rq(1, 2), k_rq(1, 3) };
	struct rlx_rq_id id[3] = { 0 };
	struct rlx_ioc_submit sub = { .entries = (uintptr_t)rq, .ids = (uintptr_t)id, .nr = 3 };
	struct rlx_ioc_cancel x = { 0 };
	struct rlx_cqe cqe;
	struct rlx_ioc_reap r = { .entries = (uintptr_t)&cqe, .max = 1 };
	struct rlx_ioc_detach d = { 0 };
	int ch = call(s, RLX_IOC_CONNECT, &c);

	if (!call(ch, RLX_IOC_ATTACH, &at)) {
		rq[0].nr_slices = 1;
		rq[0].slice[0] = (struct rlx_slice){ at.handle, RLX_R, 0, 8 };
	}
	call(ch, RLX_IOC_SUBMIT, &sub);
	x.tag = id[2].tag;
	x.seq = id[2].seq;
	call(ch, RLX_IOC_CANCEL, &x);
	call(ch, RLX_IOC_REAP, &r);
	at.fd = new_timeline(s);
	call(ch, RLX_IOC_ATTACH, &at);
	d.handle = at.handle;
	call(ch, RLX_IOC_DETACH, &d);
}

/* A service of its own, where it is the client too. */
static void services(int s, int arena)
{
	struct rlx_ioc_service_create c = { .queues = 1, .depth = DEPTH };
	struct rlx_ioc_executor_attach at = { 0 };
	struct rlx_ioc_service_info i = { 0 };
	struct rlx_ioc_service_dup d = { 0 };
	uint32_t tag[DEPTH];
	struct rlx_complete done = { 0 };
	struct rlx_ioc_fetch f = { .tags = (uintptr_t)tag, .max = 1, .flags = RLX_FETCH_NOWAIT };
	struct rlx_ioc_commit cm = { .entries = (uintptr_t)&done, .nr = 1 };
	struct rlx_ioc_commit_fetch cf = { cm, f };
	struct rlx_ioc_exec_arena xa = { 0 };
	struct rlx_ioc_exec_slices xs = { 0 };
	struct rlx_ioc_exec_events xe = { 0 };
	int svc, ex;

	svc = call(s, RLX_IOC_SERVICE_CREATE, &c);
	call(svc, RLX_IOC_SERVICE_INFO, &i);
	call(svc, RLX_IOC_SERVICE_DUP, &d);
	ex = call(svc, RLX_IOC_EXECUTOR_ATTACH, &at);
	client(s, svc, arena);
	call(ex, RLX_IOC_FETCH, &f);
	call(ex, RLX_IOC_EXEC_ARENA, &xa);
	call(ex, RLX_IOC_EXEC_SLICES, &xs);
	call(ex, RLX_IOC_EXEC_EVENTS, &xe);
	call(ex, RLX_IOC_COMMIT, &cm);
	call(ex, RLX_IOC_COMMIT_AND_FETCH, &cf);
}

static void all_of_it(int s, int svc)
{
	struct rlx_ioc_query q = { 0 };
	int a;

	call(s, RLX_IOC_QUERY, &q);
	a = arenas(s);
	timelines(s);
	services(s, a);
	client(s, svc, a);
}

/* Once as it should be; then with the filter. It closes nothing. */
static void life(int svc, long nr, uint32_t cmd, uint32_t action)
{
	int s = k_open(), a;

	all_of_it(s, svc);
	a = k_arena(s, 4 * PAGE, 0);
	k_map(a, PAGE, PROT_READ, 0);
	refuse(nr, nr == SYS_mmap ? (uint32_t)-1 : cmd, action);
	if (nr == SYS_ioctl) {
		refused = cmd;
		all_of_it(s, svc);
		CHECK(refusals > 0);
	} else if (nr == SYS_mmap) {
		CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, a, PAGE) == MAP_FAILED &&
		      errno == EPERM);
	} else {
		CHECK(close(a) && errno == EPERM);
	}
	fflush(stdout);
	_exit(0);
}

/* ---- who works with it ---- */

static void works(struct k_scene *k)
{
	struct rlx_rq rq = k_rq(1, 77);
	struct rlx_complete c = { .result = 7 };
	struct rlx_event ev[8];
	struct rlx_cqe cqe;
	uint32_t tag;

	CHECK_EQ(k_submit(k->ch, &rq, 1, NULL), 1);
	/* What the other left is on the way to it. */
	for (bool own = false; !own;) {
		tag = k_fetch1(k->ex);
		if (tag & RLX_TAG_EVENT) {
			CHECK(k_events(k->ex, tag & ~RLX_TAG_EVENT, ev, 8) > 0);
			continue;
		}
		own = k->desc[tag].user_data == 77;
		c.tag = tag;
		c.seq = k->desc[tag].seq;
		CHECK_EQ(k_commit(k->ex, &c, 1, NULL), 1);
	}
	CHECK_EQ(k_reap(k->ch, &cqe, 1, 1, K_SOON), 1);
	CHECK_EQ(cqe.user_data, 77);
	CHECK_EQ(cqe.result, 7);
}

static void nothing_stays(struct k_scene *k)
{
	struct rlx_event ev[8];
	uint32_t tag;

	/* Its channels are gone when the executor has heard of it. */
	while (k_file_number(K_TOTALS "nr_channels") > 1) {
		if (k_fetch(k->ex, &tag, 1, 1, 20 * K_MS) != 1)
			continue;
		if (tag & RLX_TAG_EVENT)
			CHECK(k_events(k->ex, tag & ~RLX_TAG_EVENT, ev, 8) > 0);
		else
			k_commit1(k->ex, k->desc, tag, 0, 0);
	}
	CHECK(k_stat_becomes("nr_arenas", 0));
	CHECK(k_stat_becomes("nr_timelines", 0));
	CHECK(k_stat_becomes("nr_dmabufs", 0));
	CHECK(k_stat_becomes("nr_leases", 0));
	CHECK(k_stat_becomes("nr_services", 1));
	CHECK(k_stat_becomes("nr_executors", 1));
	CHECK(k_stat_becomes("nr_sessions", 1));
}

static void refused_or_killed(struct k_scene *k, long nr, uint32_t cmd)
{
	for (int kill = 0; kill < 2; kill++) {
		int status;
		pid_t pid;

		fflush(stdout);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid)
			life(k->svc, nr, cmd, kill ? KILL : EPERMS);
		works(k);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECKF(kill ? WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS : !status,
		       "call %ld, command %#x: status %#x", nr, cmd, status);
		works(k);
		nothing_stays(k);
	}
}

TEST(ioctls)
{
	static const uint32_t cmd[] = {
		RLX_IOC_QUERY, RLX_IOC_ARENA_CREATE, RLX_IOC_TIMELINE_CREATE,
		RLX_IOC_TIMELINE_WAIT, RLX_IOC_SERVICE_CREATE, RLX_IOC_CONNECT,
		RLX_IOC_ARENA_INFO, RLX_IOC_ARENA_EXPORT, RLX_IOC_ARENA_DUP,
		RLX_IOC_ARENA_SEAL, RLX_IOC_ARENA_SYNC, RLX_IOC_TIMELINE_QUERY,
		RLX_IOC_TIMELINE_SIGNAL, RLX_IOC_TIMELINE_DUP, RLX_IOC_TIMELINE_EVENTFD,
		RLX_IOC_TIMELINE_WAIT_ONE, RLX_IOC_SERVICE_INFO, RLX_IOC_SERVICE_DUP,
		RLX_IOC_EXECUTOR_ATTACH, RLX_IOC_FETCH, RLX_IOC_COMMIT,
		RLX_IOC_COMMIT_AND_FETCH, RLX_IOC_EXEC_ARENA, RLX_IOC_EXEC_SLICES,
		RLX_IOC_EXEC_EVENTS, RLX_IOC_ATTACH, RLX_IOC_DETACH, RLX_IOC_SUBMIT,
		RLX_IOC_REAP, RLX_IOC_CANCEL,
	};
	struct k_scene k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH, .channel = 4 });

	for (size_t i = 0; i < sizeof(cmd) / sizeof(*cmd); i++)
		refused_or_killed(&k, SYS_ioctl, cmd[i]);
	k_scene_free(&k);
}

TEST(mapping_and_closing)
{
	struct k_scene k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH, .channel = 4 });

	refused_or_killed(&k, SYS_mmap, ANY);
	refused_or_killed(&k, SYS_close, ANY);
	k_scene_free(&k);
}

/* ---- the library ---- */

static void is_told(long nr, uint32_t cmd, const char *what)
{
	struct rlx_arena_opts o = { .size = 4 * PAGE, .provider = "kmod" };
	struct rlx_error err = { 0 };
	struct rlx_arena *a;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		refuse(nr, cmd, EPERMS);
		CHECK_EQ(rlx_arena_new(&o, &a, &err), RLX_EACCES);
		CHECKF(strstr(err.text, what) && strstr(err.text, "not permitted") &&
		       strstr(err.text, "seccomp"), "\"%s\"", err.text);
		CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 0);
		/* Unnamed, it is another's memory. */
		o.provider = NULL;
		CHECK_EQ(rlx_arena_new(&o, &a, &err), nr == SYS_mmap ? RLX_EACCES : RLX_OK);
		fflush(stdout);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECKF(!status, "%s: status %#x", what, status);
}

TEST(the_library_tells)
{
	is_told(SYS_ioctl, RLX_IOC_QUERY, "query");
	is_told(SYS_ioctl, RLX_IOC_ARENA_CREATE, "arena of 16384 bytes");
	is_told(SYS_mmap, -1, "mmap");
}

TEST_MAIN()
