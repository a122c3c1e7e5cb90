// SPDX-License-Identifier: MIT
/*
 * Calls that are given as much to do as they take, and SIGKILL in the middle of each;
 * and the end of a process that has as much.
 */
/* rig: kernels=6.1,6.12,6.12-rt,7,debug modules=vgem timeout=240 also */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/rlx.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"
#include "lib/child.h"
#include "lib/vgem.h"

#define DEPTH	8
#define MIB	(1ul << 20)

/* An arena that is sealed over and over, and how often it is mapped for reading. */
#define SEALED	(128 * MIB)
#define MAPPED	8

/* What a victim has, and does over and over. */
struct victim {
	void (*prepare)(struct victim *v);
	void (*once)(struct victim *v);
	struct k_scene s;
	struct rlx_complete *c;
	struct rlx_ioc_commit commit;
	struct io_uring ring;
	int tl, ev, memfd, arena, dmabuf, vgem;
	unsigned int many[2];	/* the first and the last of such descriptors */
	void *memory, *map[MAPPED];	/* of MANY, of SEALED bytes each */
	bool idle;		/* prepares only */
	bool first;		/* tells what it does takes */
};

static void many_commits(struct victim *v)
{
	v->s = k_scene_new(&(struct k_scene_opts){ .depth = 4096 });
	v->c = calloc(4096, sizeof(*v->c));
	CHECK(v->c);
	v->commit = (struct rlx_ioc_commit){ .entries = (uintptr_t)v->c, .nr = 4096 };
}

static void commit_stale(struct victim *v)
{
	CHECK_EQ(k_ioctl(v->s.ex, RLX_IOC_COMMIT, &v->commit), -ESTALE);
}

static void many_uring_commits(struct victim *v)
{
	many_commits(v);
	CHECK_EQ(io_uring_queue_init(64, &v->ring, 0), 0);
}

static void uring_commit_stale(struct victim *v)
{
	struct io_uring_cqe *cqe;

	for (int i = 0; i < 64; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&v->ring);

		CHECK(sqe);
		memset(sqe, 0, sizeof(*sqe));
		sqe->opcode = IORING_OP_URING_CMD;
		sqe->fd = v->s.ex;
		sqe->cmd_op = RLX_IOC_COMMIT;
		((struct rlx_uring_cmd *)sqe->cmd)->addr = (uintptr_t)&v->commit;
	}
	CHECK_EQ(io_uring_submit_and_wait(&v->ring, 64), 64);
	while (!io_uring_peek_cqe(&v->ring, &cqe)) {
		CHECK_EQ(cqe->res, -ESTALE);
		io_uring_cqe_seen(&v->ring, cqe);
	}
}

static void all_requests(struct victim *v)
{
	static struct rlx_rq rq[4096];
	static struct rlx_cqe cqe[4096];
	static uint32_t tag[4096];

	CHECK_EQ(k_submit(v->s.ch, rq, 4096, NULL), 4096);
	CHECK_EQ(k_fetch(v->s.ex, tag, INT32_MAX, 0, 0), 4096);
	for (int i = 0; i < 4096; i++) {
		v->c[i].tag = tag[i];
		v->c[i].seq = v->s.desc[tag[i]].seq;
	}
	CHECK_EQ(k_commit(v->s.ex, v->c, 4096, NULL), 4096);
	CHECK_EQ(k_reap(v->s.ch, cqe, INT32_MAX, 0, 0), 4096);
}

static void timeline(struct victim *v)
{
	int s = k_open();

	v->tl = k_timeline(s, 0);
	v->ev = eventfd(0, EFD_NONBLOCK);
}

static void wake_a_crowd(struct victim *v)
{
	uint64_t now = k_query(v->tl, NULL);
	struct rlx_ioc_timeline_eventfd e = { .eventfd = v->ev, .value = now + 1 };

	for (int i = 0; i < 4096; i++)
		CHECK_EQ(k_ioctl(v->tl, RLX_IOC_TIMELINE_EVENTFD, &e), 0);
	CHECK_EQ(k_signal(v->tl, now + 1), 0);
}

/*
 * Half a million pages that are few: the same mapped over and over, so that the
 * end of a process costs little and what it was killed in would cost much.
 */
#define MANY	(2048 * MIB)
#define FEW	(4 * MIB)

static long pin_user(struct victim *v, size_t size)
{
	struct rlx_ioc_arena_create c = {
		.size = size, .kind = RLX_KIND_USER, .numa_node = -1, .memfd = -1,
		.addr = (uintptr_t)v->memory,
	};

	return k_ioctl(v->s.session, RLX_IOC_ARENA_CREATE, &c);
}

static void many_pages(struct victim *v)
{
	v->s.session = k_open();
	v->memory = k_map_over(MANY, FEW);
}

static void pin_it(struct victim *v)
{
	long fd = pin_user(v, MANY);

	CHECKF(fd >= 0, "ARENA_CREATE: %ld", fd);
	close(fd);
}

/* One memfd for all, which is filled once. */
#define MEMFD	(256 * MIB)

static void pin_the_memfd(struct victim *v)
{
	struct rlx_ioc_arena_create c = {
		.size = MEMFD, .kind = RLX_KIND_MEMFD, .numa_node = -1, .memfd = v->memfd,
	};
	long fd = k_ioctl(v->s.session, RLX_IOC_ARENA_CREATE, &c);

	CHECKF(fd >= 0, "ARENA_CREATE: %ld", fd);
	close(fd);
}

static void a_session(struct victim *v)
{
	v->s.session = k_open();
}

static void allocate_it(struct victim *v)
{
	close(k_arena(v->s.session, 128 * MIB, 0));
}

/* The test's own, so that a victim's end is not its end. */
static void pin_for_all(struct victim *v)
{
	many_pages(v);
	v->arena = pin_user(v, MANY);
	CHECKF(v->arena >= 0, "ARENA_CREATE: %d", v->arena);
	munmap(v->memory, MANY);
}

static void an_importer(struct victim *v)
{
	v->vgem = vgem_open();
}

static void import_it(struct victim *v)
{
	uint32_t handle;

	CHECK_EQ(vgem_import(v->vgem, v->dmabuf, &handle), 0);
	vgem_close_handle(v->vgem, handle);
}

#define IMPORTS	24

/* The test's own; by devices of their own, each of which has it mapped for itself. */
static void import_for_all(struct victim *v, int vgem[IMPORTS])
{
	uint32_t handle;

	for (int i = 0; i < IMPORTS; i++) {
		vgem[i] = vgem_open();
		CHECK_EQ(vgem_import(vgem[i], v->dmabuf, &handle), 0);
	}
}

static void sync_it(struct victim *v)
{
	struct rlx_ioc_arena_sync s = { .length = MANY, .access = RLX_R | RLX_W };

	CHECK_EQ(k_ioctl(v->arena, RLX_IOC_ARENA_SYNC, &s), 0);
	s.op = RLX_SYNC_END;
	CHECK_EQ(k_ioctl(v->arena, RLX_IOC_ARENA_SYNC, &s), 0);
}

/* Has no descriptors of the exports: to close them takes its time. */
static void forget_exports(struct victim *v)
{
	CHECK(!close_range(v->many[0], v->many[1], 0));
}

static void sync_little(struct victim *v)
{
	struct rlx_ioc_arena_sync s = { .length = 4096, .access = RLX_R };

	CHECK_EQ(k_ioctl(v->arena, RLX_IOC_ARENA_SYNC, &s), 0);
	s.op = RLX_SYNC_END;
	CHECK_EQ(k_ioctl(v->arena, RLX_IOC_ARENA_SYNC, &s), 0);
}

static void a_ring(struct victim *v)
{
	CHECK_EQ(io_uring_queue_init(1, &v->ring, 0), 0);
	CHECK_EQ(io_uring_register_buffers_sparse(&v->ring, 1), 0);
}

static int ring_call(struct victim *v, uint32_t op, const void *arg)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&v->ring);
	struct io_uring_cqe *cqe;
	int ret;

	CHECK(sqe);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = v->arena;
	sqe->cmd_op = op;
	((struct rlx_uring_cmd *)sqe->cmd)->addr = (uintptr_t)arg;
	CHECK_EQ(io_uring_submit_and_wait(&v->ring, 1), 1);
	CHECK_EQ(io_uring_peek_cqe(&v->ring, &cqe), 0);
	ret = cqe->res;
	io_uring_cqe_seen(&v->ring, cqe);
	return ret;
}

static void register_it(struct victim *v)
{
	struct rlx_ioc_buffer_register r = { .length = 1024 * MIB, .access = RLX_R };
	struct rlx_ioc_buffer_unregister u = { .index = 0 };

	CHECK_EQ(ring_call(v, RLX_IOC_BUFFER_REGISTER, &r), 0);
	CHECK_EQ(ring_call(v, RLX_IOC_BUFFER_UNREGISTER, &u), 0);
}

/* All queues there may be, of the most slots. */
static void make_the_largest(struct victim *v)
{
	close(k_service(v->s.session, 64, 4096, 0));
}

static void many_attachments(struct victim *v)
{
	v->s = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });
	for (int i = 0; i < 64; i++) {
		int fd = k_arena(v->s.session, 4096, 0);

		CHECK(k_attach(v->s.ch, fd, RLX_R) > 0);
		close(fd);
	}
}

static void count_them(struct victim *v)
{
	char buf[32];
	int fd = open("/sys/class/misc/rlx/nr_leases", O_RDONLY | O_CLOEXEC);

	(void)v;
	CHECK(read(fd, buf, sizeof(buf)) > 0);
	CHECK(atoi(buf) >= 64);
	close(fd);
}

static void many_readers(struct victim *v)
{
	v->arena = k_arena(k_open(), SEALED, 0);
	for (int i = 0; i < MAPPED; i++)
		v->map[i] = k_map((int)k_dup(v->arena, RLX_R), SEALED, PROT_READ, 0);
}

static void seal_it(struct victim *v)
{
	for (int i = 0; i < MAPPED; i++)
		CHECK(!madvise(v->map[i], SEALED, MADV_POPULATE_READ));
	CHECK_EQ(k_seal(v->arena, RLX_KSEAL_NO_WRITE), 0);
}

static void victim_works(void *arg)
{
	struct victim *v = arg;
	uint64_t t0;

	v->prepare(v);
	if (v->first) {
		/* So long would SIGKILL take where nobody looked for it. */
		t0 = k_now();
		v->once(v);
		printf("# once: %.1f ms\n", (k_now() - t0) / 1e6);
		fflush(stdout);
	}
	k_child_say('p');
	while (!v->idle)
		v->once(v);
}

static int longer(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

#define KILLS	5

/* What a dead victim leaves in the memory that it had with us: else it would be without end. */
static void victim_leaves(struct victim *v)
{
	if (v->memory)
		munmap(v->memory, MANY);
	for (int i = 0; i < MAPPED && v->map[i]; i++)
		munmap(v->map[i], SEALED);
	v->memory = v->map[0] = NULL;
}

/*
 * However much a call is given to do, it ends when its task is killed: within 100 ms, four
 * times that of a kernel that checks itself. A victim's memory is ours as well, and its end
 * takes nothing for that. Of some, each killed at another moment, the one in the middle counts:
 * another program may have the processor, and in a call that takes long some are near its end.
 */
static void victims_end_in_time(struct victim *v)
{
	bool checks = !access("/sys/kernel/debug/kmemleak", F_OK);
	uint64_t state = rlx_test_seed(), took[KILLS], limit = k_patience(100 * K_MS);

	for (int i = 0; i < KILLS; i++) {
		/* Where it checks itself some take a minute. */
		v->first = !i && !checks;
		struct k_child c = k_child_inside(victim_works, v);

		CHECK_EQ(k_child_said(&c, 60000), 'p');
		usleep(rlx_test_rand(&state) % 40000);
		took[i] = k_child_kill(&c);
		victim_leaves(v);
	}
	qsort(took, KILLS, sizeof(*took), longer);
	printf("# %.1f, %.1f to %.1f ms\n", took[0] / 1e6, took[KILLS / 2] / 1e6,
	       took[KILLS - 1] / 1e6);
	CHECKF(took[KILLS / 2] < limit * (checks ? 4 : 1), "SIGKILL takes %.1f ms",
	       took[KILLS / 2] / 1e6);
}

static void killed_in_time(void (*prepare)(struct victim *v),
			   void (*once)(struct victim *v))
{
	struct victim v = { .prepare = prepare, .once = once };

	victims_end_in_time(&v);
}

static void need(uint64_t feature, const char *why_not)
{
	int s = k_open();
	uint64_t features = k_features(s);

	close(s);
	if (!(features & feature))
		rlx_test_skip(why_not);
}

TEST(in_commits)
{
	killed_in_time(many_commits, commit_stale);
}

TEST(in_commits_by_io_uring)
{
	killed_in_time(many_uring_commits, uring_commit_stale);
}

TEST(among_requests)
{
	killed_in_time(many_commits, all_requests);
}

TEST(while_waking)
{
	killed_in_time(timeline, wake_a_crowd);
}

TEST(while_pinning)
{
	killed_in_time(many_pages, pin_it);
}

TEST(while_pinning_a_memfd)
{
	struct victim v = { .prepare = a_session, .once = pin_the_memfd };

	need(RLX_FEAT_MEMFD, "this kernel pins no memfds");
	v.memfd = memfd_create("killed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(v.memfd >= 0 && !fallocate(v.memfd, 0, 0, MEMFD));
	CHECK_EQ(fcntl(v.memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	victims_end_in_time(&v);
	close(v.memfd);
}

TEST(while_sealing)
{
	killed_in_time(many_readers, seal_it);
}

TEST(while_allocating)
{
	killed_in_time(a_session, allocate_it);
}

TEST(while_importing)
{
	struct victim v = { .prepare = an_importer, .once = import_it };

	if (!access("/sys/kernel/debug/dma-api", F_OK))
		rlx_test_skip("checks of DMA mappings forbid a page more than once");
	pin_for_all(&v);
	v.dmabuf = k_export(v.arena, 0, MANY, RLX_R | RLX_W);
	CHECKF(v.dmabuf >= 0, "export: %d", v.dmabuf);
	victims_end_in_time(&v);
}

TEST(while_syncing)
{
	struct victim v = { .prepare = a_session, .once = sync_it };
	int vgem[IMPORTS];

	if (!access("/sys/kernel/debug/dma-api", F_OK))
		rlx_test_skip("checks of DMA mappings forbid a page more than once");
	pin_for_all(&v);
	v.dmabuf = k_export(v.arena, 0, MANY, RLX_R | RLX_W);
	CHECKF(v.dmabuf >= 0, "export: %d", v.dmabuf);
	import_for_all(&v, vgem);
	victims_end_in_time(&v);
	for (int i = 0; i < IMPORTS; i++)
		close(vgem[i]);
}

/* None of which has a page of what is synced: to find that out is all. */
#define EXPORTS	(access("/sys/kernel/debug/kmemleak", F_OK) ? 60000 : 4000)

TEST(among_exports)
{
	struct victim v = { .prepare = forget_exports, .once = sync_little };
	int n = EXPORTS, fd = -1;
	struct rlimit lim = { n + 1000, n + 1000 };

	CHECK(!setrlimit(RLIMIT_NOFILE, &lim));
	v.arena = k_arena(k_open(), 1 << 16, 0);
	for (int i = 0; i < n; i++) {
		fd = k_export(v.arena, 4096, 4096, RLX_R);
		CHECKF(fd >= 0, "export: %d", fd);
		if (!i)
			v.many[0] = fd;
	}
	v.many[1] = fd;
	CHECK_EQ(v.many[1] - v.many[0], n - 1);
	victims_end_in_time(&v);
	forget_exports(&v);
}

TEST(while_registering_a_buffer)
{
	struct victim v = { .prepare = a_ring, .once = register_it };

	need(RLX_FEAT_URING_BUFFERS, "this kernel's rings take no pages of a driver");
	pin_for_all(&v);
	victims_end_in_time(&v);
}

TEST(while_making_a_service)
{
	killed_in_time(a_session, make_the_largest);
}

TEST(while_counting)
{
	killed_in_time(many_attachments, count_them);
}

/* What is to be unpinned of a process that ends. */
#define PINNED	(64 * MIB)

static void have_pins(struct victim *v)
{
	many_pages(v);
	v->arena = pin_user(v, PINNED);
	CHECKF(v->arena >= 0, "ARENA_CREATE: %d", v->arena);
}

static void pins_and_exit(void *arg)
{
	have_pins(arg);
	k_child_say('p');
	_exit(0);
}

#define TRACING	"/sys/kernel/tracing/"
#define EVENT	TRACING "events/rlx/rlx_arena_free/enable"
#define TRACE	TRACING "trace"
/*
 * Names of tasks, which nobody reads here. Recording them switches on the trace point of
 * sched_switch as well, which patches the scheduler's code while the other processor runs it:
 * QEMU before 8.1 may keep the breakpoint that stands there meanwhile (run-qemu.sh).
 */
#define NAMES	TRACING "options/record-cmd"

/* The task that let go of an arena last, by the trace, which is "COMM-PID [CPU] ...". */
static int freed_by(void)
{
	FILE *f = fopen(TRACE, "r");
	char line[512], *at;
	int pid = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		at = strstr(line, "rlx_arena_free:") ? strstr(line, " [") : NULL;
		while (at && at > line && at[-1] != '-')
			at--;
		if (at && at > line)
			pid = atoi(at);
	}
	fclose(f);
	return pid;
}

/*
 * However many pages there are to let go of, not the one that ends does it, killed or not:
 * that took as long again as its own memory.
 */
TEST(with_an_arena)
{
	struct victim v = { .prepare = have_pins, .idle = true };
	int status, by;

	k_file_write(TRACING "buffer_size_kb", 16);	/* else some MiB, and for good */
	k_file_write(NAMES, 0);
	k_file_write(EVENT, 1);
	for (int i = 0; i < 4; i++) {
		struct k_child c;

		close(open(TRACE, O_WRONLY | O_TRUNC));	/* before it can end */
		c = k_child_new(i % 2 ? pins_and_exit : victim_works, &v);
		CHECK_EQ(k_child_said(&c, 60000), 'p');
		if (i % 2) {
			CHECK_EQ(waitpid(c.pid, &status, 0), c.pid);
			close(c.said);
		} else {
			k_child_kill(&c);
		}
		CHECK(k_stat_becomes("nr_arenas", 0));
		by = freed_by();
		CHECKF(by && by != c.pid, "%d, which ended, let go of it", by);
	}
	k_file_write(EVENT, 0);
}

#define CAP	"/sys/module/rlx/parameters/max_user_bytes"

/* What a dead process still has is charged, and who needs its room waits for it. */
TEST(room_of_the_dead)
{
	struct victim v = { .prepare = have_pins, .idle = true }, next = { .arena = -1 };

	many_pages(&next);
	k_file_write(CAP, PINNED);
	for (int i = 0; i < 3; i++) {
		struct k_child c = k_child_new(victim_works, &v);

		CHECK_EQ(k_child_said(&c, 60000), 'p');
		CHECK_EQ(pin_user(&next, PINNED), -ENOMEM);	/* while it lives */
		k_child_kill(&c);
		next.arena = pin_user(&next, PINNED);
		CHECKF(next.arena >= 0, "ARENA_CREATE: %d", next.arena);
		close(next.arena);
	}
	k_file_write(CAP, 0);
}

/* So does who needs room for rings and tables of requests. */
TEST(room_of_the_dead_for_a_service)
{
	struct rlx_ioc_service_create sc = { .queues = 1, .depth = DEPTH };
	struct victim v = { .prepare = have_pins, .idle = true };
	int s = k_open();
	long fd;

	k_file_write(CAP, PINNED);
	for (int i = 0; i < 3; i++) {
		struct k_child c = k_child_new(victim_works, &v);

		CHECK_EQ(k_child_said(&c, 60000), 'p');
		CHECK_EQ(k_ioctl(s, RLX_IOC_SERVICE_CREATE, &sc), -ENOMEM);
		k_child_kill(&c);
		fd = k_ioctl(s, RLX_IOC_SERVICE_CREATE, &sc);
		CHECKF(fd >= 0, "SERVICE_CREATE: %ld", fd);
		close(fd);
		CHECK(k_stat_becomes("nr_services", 0));	/* its end is put off, too */
	}
	k_file_write(CAP, 0);
}

/* All of the huge pages that a guest has. */
#define HUGE_PAGES	(64 * MIB)

static void have_huge_pages(struct victim *v)
{
	v->s.session = k_open();
	v->memfd = memfd_create("killed", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	CHECK(v->memfd >= 0 && !ftruncate(v->memfd, HUGE_PAGES));
	CHECK_EQ(fcntl(v->memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
}

static long pin_huge_pages(struct victim *v)
{
	struct rlx_ioc_arena_create c = {
		.size = HUGE_PAGES, .kind = RLX_KIND_MEMFD, .numa_node = -1,
		.memfd = v->memfd,
	};

	return k_ioctl(v->s.session, RLX_IOC_ARENA_CREATE, &c);
}

static void have_all_huge_pages(struct victim *v)
{
	long fd;

	have_huge_pages(v);
	fd = pin_huge_pages(v);
	CHECKF(fd >= 0, "ARENA_CREATE: %ld", fd);
}

/* The end of an arena is not told before the memory of its memfd is back. */
TEST(huge_pages_of_the_dead)
{
	struct victim v = { .prepare = have_all_huge_pages, .idle = true }, next = {};
	long fd;

	need(RLX_FEAT_MEMFD, "this kernel pins no memfds");
	if (k_file_field("/proc/meminfo", "HugePages_Total:") != 32)
		rlx_test_skip("there are not 32 huge pages");
	for (int i = 0; i < 3; i++) {
		struct k_child c = k_child_new(victim_works, &v);

		CHECK_EQ(k_child_said(&c, 60000), 'p');
		have_huge_pages(&next);
		CHECK_EQ(pin_huge_pages(&next), -ENOMEM);	/* while it lives */
		k_child_kill(&c);
		fd = pin_huge_pages(&next);
		CHECKF(fd >= 0, "ARENA_CREATE: %ld", fd);
		close(fd);
		close(next.memfd);
		close(next.s.session);
	}
}

static void have_pages(struct victim *v)
{
	v->s.session = k_open();
	v->arena = k_arena(v->s.session, PINNED, 0);
}

static void have_memfd(struct victim *v)
{
	struct rlx_ioc_arena_create c = {
		.size = PINNED, .kind = RLX_KIND_MEMFD, .numa_node = -1,
	};

	v->s.session = k_open();
	c.memfd = memfd_create("killed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(c.memfd >= 0 && !ftruncate(c.memfd, PINNED));
	CHECK_EQ(fcntl(c.memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	v->arena = k_ioctl(v->s.session, RLX_IOC_ARENA_CREATE, &c);
	CHECKF(v->arena >= 0, "ARENA_CREATE: %d", v->arena);
	close(c.memfd);
}

static void close_it(struct victim *v)
{
	close(v->arena);
}

/*
 * Who is killed in close(), with the last reference, is gone before the pages are: what is
 * left of them waits for the worker, which is stopped too.
 */
static void killed_in_close(void (*prepare)(struct victim *v))
{
	struct victim v = { .prepare = prepare, .once = close_it };
	struct k_child c = k_child_new(victim_works, &v);

	CHECK_EQ(k_child_said(&c, 60000), 'p');
	k_stalled_wait();
	k_child_kill(&c);
	CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 1);
	k_stall_at("\n");
	CHECK(k_stat_becomes("nr_arenas", 0));
}

TEST(while_closing)
{
	int s = k_open();
	bool memfd = k_features(s) & RLX_FEAT_MEMFD;

	close(s);
	for (int i = 0; i < 2 + memfd; i++) {
		if (!k_stall_at("arena-lets-go"))
			rlx_test_skip("the module is built without test hooks");
		killed_in_close(i == 0 ? have_pages : i == 1 ? have_pins : have_memfd);
	}
}

/* An end that does not come to its end keeps its own room, and nobody who asks for it. */
TEST(room_of_the_stuck)
{
	struct victim v = { .prepare = have_pins, .idle = true }, next = { .arena = -1 };
	struct k_child c;

	if (!k_stall_at("arena-ends"))
		rlx_test_skip("the module is built without test hooks");
	many_pages(&next);
	k_file_write(CAP, PINNED);
	c = k_child_new(victim_works, &v);
	CHECK_EQ(k_child_said(&c, 60000), 'p');
	k_child_kill(&c);
	next.arena = pin_user(&next, PINNED);
	k_stall_at("\n");
	CHECK_EQ(next.arena, -ENOMEM);
	CHECK(k_stat_becomes("nr_arenas", 0));
	next.arena = pin_user(&next, PINNED);
	CHECKF(next.arena >= 0, "ARENA_CREATE: %d", next.arena);
	k_file_write(CAP, 0);
}

TEST_MAIN()
