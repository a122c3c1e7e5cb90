// SPDX-License-Identifier: MIT
/*
 * Storms: processes that do anything with arenas, channels, executors, timelines and
 * rings, fork in the middle of it, become other programs, and are killed at any moment,
 * one by one or with all they made. Nothing they were in the middle of may be left, and
 * the services that outlive them serve.
 */
/* rig: timeout=240 also */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/rlx.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"

#define DEPTH		64
#define GROUPS		16	/* of processes, at a time */
#define FDS		24	/* of one process, of its own making */
#define FORKS		2	/* of one process, and how deep */
#define STORM_MS	15000
#define REST		"RLX_STORM_REST"

/* What all have from the start. */
struct world {
	int session, svc[2], arena, tl;
};

struct proc {
	const struct world *w;
	uint64_t dice;
	unsigned int forks, depth;
	int fd[FDS];
	unsigned int nr;
	/* The last of each, or -1. */
	int ch, ex, arena, tl;
	long handle, wait;		/* of ch */
	const struct rlx_desc *desc;	/* of ex */
	uint32_t tag[8], nr_tags;
	struct rlx_rq_id id;
	struct io_uring ring;
	bool has_ring;
	/* What parked commands point to. */
	struct rlx_rq rq;
	struct rlx_ioc_fetch fetch;
	struct rlx_ioc_timeline_wait_one until;
	uint32_t parked_tag;
};

static uint32_t pick(struct proc *p, uint32_t n)
{
	return rlx_test_rand(&p->dice) % n;
}

/* It goes with the process, or when its place is wanted. */
static int keep(struct proc *p, long fd)
{
	uint32_t at = pick(p, FDS);

	if (fd < 0)
		return -1;
	if (p->nr < FDS)
		at = p->nr++;
	else
		close(p->fd[at]);
	p->fd[at] = fd;
	return fd;
}

static int some_fd(struct proc *p)
{
	return p->nr ? p->fd[pick(p, p->nr)] : p->w->arena;
}

/* ---- memory ---- */

static void do_arena(struct proc *p)
{
	struct rlx_ioc_arena_create c = {
		.size = 4096ull << pick(p, 6), .kind = RLX_KIND_KERNEL,
		.numa_node = -1, .memfd = -1,
	};

	if (!pick(p, 8)) {
		c.size = 2 << 20;
		c.flags = RLX_AF_HUGE_TRY;
	}
	p->arena = keep(p, k_ioctl(p->w->session, RLX_IOC_ARENA_CREATE, &c));
}

static void do_user_arena(struct proc *p)
{
	struct rlx_ioc_arena_create c = {
		.size = 4096ull << pick(p, 6), .kind = RLX_KIND_USER,
		.numa_node = -1, .memfd = -1,
	};
	void *mem = mmap(NULL, c.size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		return;
	c.addr = (uintptr_t)mem;
	p->arena = keep(p, k_ioctl(p->w->session, RLX_IOC_ARENA_CREATE, &c));
	if (pick(p, 2))
		munmap(mem, c.size);
}

static void do_memfd_arena(struct proc *p)
{
	struct rlx_ioc_arena_create c = {
		.size = 4096ull << pick(p, 4), .kind = RLX_KIND_MEMFD, .numa_node = -1,
	};

	c.memfd = memfd_create("storm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (c.memfd < 0)
		return;
	if (!ftruncate(c.memfd, c.size) && !fcntl(c.memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		p->arena = keep(p, k_ioctl(p->w->session, RLX_IOC_ARENA_CREATE, &c));
	close(c.memfd);
}

static void do_map(struct proc *p)
{
	volatile char *mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
				  pick(p, 2) ? p->arena : p->w->arena, 0);

	if (mem == MAP_FAILED)
		return;
	mem[0] = 1;
	if (pick(p, 2))
		munmap((void *)mem, 4096);
}

static void do_copies(struct proc *p)
{
	int fd = pick(p, 2) ? p->arena : some_fd(p);

	switch (pick(p, 4)) {
	case 0:
		keep(p, k_dup(fd, RLX_R));
		break;
	case 1:
		keep(p, k_export(fd, 0, 4096, RLX_R | RLX_W));
		break;
	case 2:
		keep(p, dup(fd));
		break;
	case 3:
		k_seal(fd, 1u << pick(p, 5));
		break;
	}
}

/* ---- timelines ---- */

static void do_timeline(struct proc *p)
{
	struct rlx_ioc_timeline_create c = { 0 };
	struct rlx_ioc_timeline_dup d = { .access = RLX_R | (pick(p, 2) ? RLX_W : 0) };
	struct rlx_ioc_timeline_eventfd e = { .value = 1 + pick(p, 9) };

	switch (pick(p, 4)) {
	case 0:
		p->tl = keep(p, k_ioctl(p->w->session, RLX_IOC_TIMELINE_CREATE, &c));
		break;
	case 1:
		keep(p, k_ioctl(p->tl, RLX_IOC_TIMELINE_DUP, &d));
		break;
	case 2:
		e.eventfd = eventfd(0, EFD_CLOEXEC);
		k_ioctl(p->tl, RLX_IOC_TIMELINE_EVENTFD, &e);
		close(e.eventfd);
		break;
	case 3:
		k_signal(p->tl, 1 + pick(p, 9));
		break;
	}
}

static void do_wait(struct proc *p)
{
	struct rlx_ioc_timeline_wait_one w = {
		.value = 1 + pick(p, 9), .deadline_ns = k_now() + pick(p, 3) * K_MS,
	};

	k_ioctl(p->tl, RLX_IOC_TIMELINE_WAIT_ONE, &w);
}

/* ---- channels ---- */

static void do_service(struct proc *p)
{
	uint32_t flags = pick(p, 2) ? RLX_SERVICE_REQUEUE : 0;
	int svc = keep(p, k_try_service(p->w->session, 1 + pick(p, 2), DEPTH, flags));
	struct rlx_ioc_connect c = { .service = svc, .depth = 4 };

	keep(p, k_try_executor(svc, 0));
	p->ch = keep(p, k_ioctl(p->w->session, RLX_IOC_CONNECT, &c));
	p->handle = p->wait = 0;
}

static void do_connect(struct proc *p)
{
	struct rlx_ioc_connect c = {
		.service = p->w->svc[pick(p, 2)], .depth = 4,
		.flags = pick(p, 3) ? 0 : RLX_CHANNEL_RING,
	};

	p->ch = keep(p, k_ioctl(p->w->session, RLX_IOC_CONNECT, &c));
	p->handle = p->wait = 0;
}

static void do_attach(struct proc *p)
{
	if (p->handle > 0 && !pick(p, 4)) {
		k_detach(p->ch, p->handle);
		p->handle = 0;
		return;
	}
	p->handle = k_attach(p->ch, pick(p, 2) ? p->arena : p->w->arena, RLX_R | RLX_W);
	p->wait = k_attach(p->ch, pick(p, 2) ? p->tl : p->w->tl, RLX_R);
}

static struct rlx_rq request(struct proc *p)
{
	struct rlx_rq rq = k_rq(1, pick(p, 100));

	if (p->handle > 0) {
		rq.nr_slices = 1;
		rq.slice[0] = (struct rlx_slice){ p->handle, RLX_R | RLX_W, 0, 64 };
	}
	if (p->wait > 0 && pick(p, 2)) {
		rq.flags = RLX_RQ_WAIT;
		rq.wait = p->wait;
		rq.wait_value = 1 + pick(p, 9);
	}
	if (!pick(p, 4))
		rq.deadline_ns = k_now() + pick(p, 20) * K_MS;
	return rq;
}

static void do_submit(struct proc *p)
{
	struct rlx_rq rq[2] = { request(p), request(p) };
	struct rlx_rq_id id[2];

	if (k_submit(p->ch, rq, 1 + pick(p, 2), id) > 0)
		p->id = id[0];
}

static void do_cancel(struct proc *p)
{
	k_cancel(p->ch, p->id.tag, p->id.seq);
}

static void do_reap(struct proc *p)
{
	struct rlx_cqe cqe[4];

	k_reap(p->ch, cqe, 4, pick(p, 2), pick(p, 3) * K_MS);
}

/* ---- executors ---- */

static void do_executor(struct proc *p)
{
	int ex = keep(p, k_try_executor(p->w->svc[pick(p, 2)],
					pick(p, 3) ? 0 : RLX_EXEC_RING));
	void *desc;

	if (ex < 0)
		return;
	desc = mmap(NULL, DEPTH * sizeof(struct rlx_desc), PROT_READ, MAP_SHARED, ex,
		    RLX_MAP_OFFSET(RLX_MAP_DESC, 0));
	if (desc == MAP_FAILED)
		return;
	p->ex = ex;
	p->desc = desc;
	p->nr_tags = 0;
}

static void do_fetch(struct proc *p)
{
	long n = k_fetch(p->ex, p->tag, 8, 0, pick(p, 3) * K_MS);

	p->nr_tags = n > 0 ? n : 0;
}

static void do_commit(struct proc *p)
{
	struct rlx_event ev[4];
	uint32_t tag;

	while (p->nr_tags && pick(p, 8)) {
		tag = p->tag[--p->nr_tags];
		if (tag & RLX_TAG_EVENT)
			k_events(p->ex, tag & ~RLX_TAG_EVENT, ev, 4);
		else if (p->desc)
			k_commit1(p->ex, p->desc, tag, 0, 0);
	}
}

static void do_exec_arena(struct proc *p)
{
	const volatile struct rlx_desc *d;

	if (!p->nr_tags || !p->desc || p->tag[0] & RLX_TAG_EVENT)
		return;
	d = &p->desc[p->tag[0]];
	keep(p, k_exec_arena(p->ex, d->channel, d->slice[0].arena, NULL));
}

/* ---- parked commands ---- */

static void do_park(struct proc *p)
{
	const struct { int fd; uint32_t op; const void *arg; } what[] = {
		{ p->ch, RLX_IOC_SUBMIT, &p->rq },
		{ p->ex, RLX_IOC_FETCH, &p->fetch },
		{ p->tl, RLX_IOC_TIMELINE_WAIT_ONE, &p->until },
	};
	uint32_t i = pick(p, 3);
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;

	if (!p->has_ring && io_uring_queue_init(8, &p->ring, 0))
		return;
	p->has_ring = true;
	p->rq = request(p);
	p->fetch = (struct rlx_ioc_fetch){
		.tags = (uintptr_t)&p->parked_tag, .max = 1, .timeout_ns = K_EVER,
	};
	p->until = (struct rlx_ioc_timeline_wait_one){
		.value = 5, .deadline_ns = pick(p, 2) ? K_EVER : k_now() + 5 * K_MS,
	};
	while (!io_uring_peek_cqe(&p->ring, &cqe))
		io_uring_cqe_seen(&p->ring, cqe);
	sqe = io_uring_get_sqe(&p->ring);
	if (!sqe)
		return;
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = what[i].fd;
	sqe->cmd_op = what[i].op;
	((struct rlx_uring_cmd *)sqe->cmd)->addr = (uintptr_t)what[i].arg;
	io_uring_submit(&p->ring);
}

/* ---- processes ---- */

static void do_close(struct proc *p)
{
	if (!p->nr)
		return;
	close(p->fd[--p->nr]);
}

/* The child has all of it as well, and goes on by itself. Its ring is its parent's. */
static void do_fork(struct proc *p)
{
	uint64_t dice = rlx_test_rand(&p->dice);
	pid_t pid;

	if (p->forks == FORKS || p->depth == FORKS)
		return;
	p->forks++;
	pid = fork();
	if (pid)
		return;
	p->dice = dice;
	p->depth++;
	p->forks = 0;
	p->has_ring = false;
}

/* Another program, with some of the descriptors. */
static void do_exec(struct proc *p)
{
	for (unsigned int i = 0; i < p->nr; i++)
		if (pick(p, 2))
			fcntl(p->fd[i], F_SETFD, 0);
	setenv(REST, "1", 1);
	execl("/proc/self/exe", "rests", NULL);
}

__attribute__((constructor)) static void rest(void)
{
	if (getenv(REST))
		for (;;)
			pause();
}

static void do_exit(struct proc *p)
{
	if (p->depth)
		_exit(0);
}

static void (*const things[])(struct proc *p) = {
	do_arena, do_user_arena, do_memfd_arena, do_map, do_copies, do_copies,
	do_timeline, do_timeline, do_timeline, do_wait, do_service,
	do_connect, do_connect, do_attach, do_attach, do_submit, do_submit, do_submit,
	do_submit, do_cancel, do_reap, do_reap, do_executor, do_executor, do_fetch,
	do_fetch, do_fetch, do_commit, do_commit, do_commit, do_exec_arena, do_park,
	do_park, do_park, do_close, do_close, do_fork,
};

static void live(const struct world *w, uint64_t seed)
{
	struct proc p = {
		.w = w, .dice = seed, .ch = -1, .ex = -1, .arena = w->arena, .tl = w->tl,
	};

	setpgid(0, 0);
	CHECK(!setpriority(PRIO_PROCESS, 0, 0));
	for (;;) {
		things[pick(&p, sizeof(things) / sizeof(things[0]))](&p);
		if (!pick(&p, 200))
			do_exec(&p);
		if (!pick(&p, 100))
			do_exit(&p);
	}
}

/* ---- the storm ---- */

static pid_t group_new(const struct world *w, uint64_t *dice)
{
	uint64_t seed = rlx_test_rand(dice);
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		live(w, seed);
	setpgid(pid, pid);
	return pid;
}

/* Who does not come to its end here is stuck in a call, and the test's time ends. */
static void group_end(pid_t pid, bool alone_first)
{
	if (alone_first) {
		kill(pid, SIGKILL);
		usleep(500);
	}
	kill(-pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static unsigned int storm(const struct world *w, uint64_t *dice, pid_t *group)
{
	uint64_t end = k_now() + STORM_MS * K_MS;
	unsigned int kills = 0;

	/* Before those it kills, of which there are hundreds: else it hardly ever runs. */
	CHECK(!setpriority(PRIO_PROCESS, 0, -20));
	for (int i = 0; i < GROUPS; i++)
		group[i] = group_new(w, dice);
	/* A process takes seconds to end on a kernel that checks itself, among others. */
	while (k_now() < end || kills < GROUPS) {
		int i = rlx_test_rand(dice) % GROUPS;

		usleep(rlx_test_rand(dice) % 20000);
		group_end(group[i], rlx_test_rand(dice) % 2);
		/* Those whose parents went before them. */
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		group[i] = group_new(w, dice);
		kills++;
	}
	for (int i = 0; i < GROUPS; i++)
		group_end(group[i], false);
	while (waitpid(-1, NULL, 0) > 0)
		;
	return kills;
}

/* An executor and a channel like any: as if nothing had been. */
static void serves(const struct world *w, int svc)
{
	struct rlx_rq rq = k_rq(1, 5);
	const struct rlx_desc *desc;
	struct rlx_cqe cqe;
	uint32_t tag;
	int ex = k_next_executor(svc, 0), ch;

	desc = k_desc(ex, DEPTH);
	for (;;) {
		struct rlx_event ev[4];

		if (k_fetch(ex, &tag, 1, 0, 0) != 1)
			break;
		if (tag & RLX_TAG_EVENT)
			k_events(ex, tag & ~RLX_TAG_EVENT, ev, 4);
		else
			k_commit1(ex, desc, tag, 0, 0);
	}
	CHECK(k_stat_becomes("nr_channels", 0));
	ch = k_channel(w->session, svc, DEPTH, 0, NULL);
	CHECK_EQ(k_submit(ch, &rq, 1, NULL), 1);
	do {
		tag = k_fetch1(ex);
	} while (tag & RLX_TAG_EVENT);
	CHECK_EQ(k_commit1(ex, desc, tag, 77, 0), 1);
	CHECK_EQ(k_reap(ch, &cqe, 1, 1, K_SOON), 1);
	CHECK_EQ(cqe.result, 77);
	k_undesc(desc, DEPTH);
	close(ch);
	close(ex);
}

/* All that the module counts, by its own names for it. */
static void nothing_left(void)
{
	DIR *dir = opendir(K_TOTALS);
	struct dirent *d;
	int seen = 0;

	CHECK(dir);
	while ((d = readdir(dir))) {
		if (strncmp(d->d_name, "nr_", 3) && !strstr(d->d_name, "bytes"))
			continue;
		CHECKF(k_stat_becomes(d->d_name, 0), "%s", d->d_name);
		seen++;
	}
	CHECK(seen >= 10);
	closedir(dir);
}

/* Which events came to which states of slots, where the module is built to tell. */
#define SEEN	"/sys/module/rlx/parameters/seen"

static int pairs_seen(void)
{
	char text[4096], *at = text;
	int n = 0;

	if (access(SEEN, R_OK))
		return 0;
	k_file_read(SEEN, text, sizeof(text));
	while ((at = strchr(at, '\n'))) {
		at++;
		n++;
	}
	return n;
}

TEST(fork_exec_kill)
{
	uint64_t dice = rlx_test_seed();
	pid_t group[GROUPS];
	struct world w = { .session = k_open() };
	unsigned int kills;

	if (!access(SEEN, W_OK))
		k_file_write(SEEN, 1);
	/* Whoever loses its parent is ours to reap. */
	CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1));
	w.svc[0] = k_service(w.session, 1, DEPTH, 0);
	w.svc[1] = k_service(w.session, 1, DEPTH, RLX_SERVICE_REQUEUE);
	w.arena = k_arena(w.session, 1 << 16, 0);
	w.tl = k_timeline(w.session, 0);
	kills = storm(&w, &dice, group);
	printf("# %u kills; events in states of slots: %d\n", kills, pairs_seen());
	for (int i = 0; i < 2; i++)
		serves(&w, w.svc[i]);
	close(w.arena);
	close(w.tl);
	close(w.svc[0]);
	close(w.svc[1]);
	close(w.session);
	nothing_left();
}

TEST_MAIN()
