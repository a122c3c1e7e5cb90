// SPDX-License-Identifier: MIT
/* Services, executors, channels: every rule of their structs, and how they refuse. */
/* rig: timeout=200 m32 also */
#include <errno.h>
#include <fcntl.h>
#include <linux/rlx.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/chan.h"

#define DEPTH	16
#define ARRAY(a)	(sizeof(a) / sizeof((a)[0]))

struct scene {
	struct k_scene k;
	int arena, tl;
	long handle;
};

static struct scene scene_new(void)
{
	struct scene s = {
		.k = k_scene_new(&(struct k_scene_opts){
			.depth = DEPTH, .channel = DEPTH / 2 }),
	};

	s.arena = k_arena(s.k.session, 8192, 0);
	s.tl = k_timeline(s.k.session, 0);
	s.handle = k_attach(s.k.ch, s.arena, RLX_R | RLX_W);
	CHECK(s.handle > 0);
	return s;
}

static void scene_free(struct scene *s)
{
	close(s->arena);
	close(s->tl);
	k_scene_free(&s->k);
}

/* ---- structs: sizes, reserved bits, bad addresses ---- */

#define CHECK_ABI(fd, cmd, arg, want, ...)					\
	do {									\
		const struct k_range zero_[] = { __VA_ARGS__ };			\
		k_abi_check(fd, cmd, &(arg), want, zero_, ARRAY(zero_));	\
	} while (0)

TEST(structs_of_services)
{
	struct scene s = scene_new();
	struct rlx_ioc_service_create c = { .queues = 1, .depth = 1 };
	struct rlx_ioc_service_info i = { 0 };
	struct rlx_ioc_service_dup d = { .access = RLX_R };
	struct rlx_ioc_executor_attach a = { 0 };
	struct rlx_ioc_connect n = { .service = s.k.svc, .depth = 1 };

	CHECK_ABI(s.k.session, RLX_IOC_SERVICE_CREATE, c, 0,
		  K_FIELD(struct rlx_ioc_service_create, pad),
		  K_FIELD(struct rlx_ioc_service_create, reserved));
	int fds[] = { s.k.svc, s.k.ex, s.k.ch };

	for (unsigned int f = 0; f < 3; f++)
		CHECK_ABI(fds[f], RLX_IOC_SERVICE_INFO, i, 0,
			  K_FIELD(struct rlx_ioc_service_info, pad),
			  K_FIELD(struct rlx_ioc_service_info, reserved));
	CHECK_ABI(s.k.svc, RLX_IOC_SERVICE_DUP, d, 0,
		  K_FIELD(struct rlx_ioc_service_dup, flags),
		  K_FIELD(struct rlx_ioc_service_dup, reserved));
	CHECK_ABI(s.k.svc, RLX_IOC_EXECUTOR_ATTACH, a, -EBUSY,
		  K_FIELD(struct rlx_ioc_executor_attach, pad),
		  K_FIELD(struct rlx_ioc_executor_attach, reserved));
	CHECK_ABI(s.k.session, RLX_IOC_CONNECT, n, 0,
		  K_FIELD(struct rlx_ioc_connect, pad),
		  K_FIELD(struct rlx_ioc_connect, reserved));
	scene_free(&s);
}

TEST(structs_of_executors)
{
	struct scene s = scene_new();
	struct rlx_slice *in = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
				    s.arena, 0);
	struct rlx_slice out[RLX_RQ_SLICES_MAX];
	uint32_t tag[4];
	struct rlx_ioc_fetch f = {
		.tags = (uintptr_t)tag, .max = 4, .flags = RLX_FETCH_NOWAIT,
	};
	struct rlx_ioc_commit c = { 0 };
	struct rlx_ioc_commit_fetch cf = { c, f };
	struct rlx_ioc_exec_arena ea = { .channel = s.k.id, .arena = s.handle };
	struct rlx_ioc_exec_events ev = { .channel = s.k.id };
	struct rlx_rq rq = k_rq(1, 1);

	CHECK(in != MAP_FAILED);
	CHECK_ABI(s.k.ex, RLX_IOC_FETCH, f, -EAGAIN);
	CHECK_ABI(s.k.ex, RLX_IOC_COMMIT, c, 0);
	CHECK_ABI(s.k.ex, RLX_IOC_COMMIT_AND_FETCH, cf, 0);
	CHECK_ABI(s.k.ex, RLX_IOC_EXEC_ARENA, ea, 0,
		  K_FIELD(struct rlx_ioc_exec_arena, pad),
		  K_FIELD(struct rlx_ioc_exec_arena, reserved));
	CHECK_ABI(s.k.ex, RLX_IOC_EXEC_EVENTS, ev, 0);
	in[0] = (struct rlx_slice){ s.handle, RLX_R, 0, 8 };
	rq.flags = RLX_RQ_INDIRECT;
	rq.nr_slices = 1;
	rq.slice[0] = (struct rlx_slice){ s.handle, RLX_R, 0, sizeof(*in) };
	CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), 1);
	struct rlx_ioc_exec_slices es = {
		.tag = k_fetch1(s.k.ex), .slices = (uintptr_t)out, .max = 4,
	};

	es.seq = s.k.desc[es.tag].seq;
	CHECK_ABI(s.k.ex, RLX_IOC_EXEC_SLICES, es, 1,
		  K_FIELD(struct rlx_ioc_exec_slices, pad));
	munmap(in, 4096);
	scene_free(&s);
}

TEST(structs_of_channels)
{
	struct scene s = scene_new();
	struct rlx_ioc_attach a = { .fd = s.arena, .access = RLX_R };
	struct rlx_ioc_detach d = { .handle = 5 };
	struct rlx_ioc_submit su = { 0 };
	struct rlx_ioc_reap r = { 0 };
	struct rlx_ioc_cancel c = { .tag = 3, .seq = 99 };

	CHECK_ABI(s.k.ch, RLX_IOC_ATTACH, a, 0, K_FIELD(struct rlx_ioc_attach, flags),
		  K_FIELD(struct rlx_ioc_attach, reserved));
	CHECK_ABI(s.k.ch, RLX_IOC_DETACH, d, -ENOENT,
		  K_FIELD(struct rlx_ioc_detach, flags));
	CHECK_ABI(s.k.ch, RLX_IOC_SUBMIT, su, 0, K_FIELD(struct rlx_ioc_submit, flags),
		  K_FIELD(struct rlx_ioc_submit, reserved));
	CHECK_ABI(s.k.ch, RLX_IOC_REAP, r, -EAGAIN, K_FIELD(struct rlx_ioc_reap, flags),
		  K_FIELD(struct rlx_ioc_reap, pad));
	CHECK_ABI(s.k.ch, RLX_IOC_CANCEL, c, -ESTALE,
		  K_FIELD(struct rlx_ioc_cancel, flags));
	scene_free(&s);
}

/* The bits of a request that must be zero, each alone. */
TEST(bits_of_requests)
{
	struct scene s = scene_new();
	static const struct k_range zero[] = {
		K_FIELD(struct rlx_rq, pad), K_FIELD(struct rlx_rq, wait),
		K_FIELD(struct rlx_rq, wait_value),
	};

	for (unsigned int z = 0; z < ARRAY(zero); z++) {
		for (unsigned int bit = 0; bit < zero[z].len * 8; bit++) {
			struct rlx_rq rq = k_rq(1, 1);

			((unsigned char *)&rq)[zero[z].off + bit / 8] = 1u << bit % 8;
			CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), -EINVAL);
		}
	}
	for (unsigned int bit = 0; bit < 32; bit++) {
		struct rlx_rq rq = k_rq(1, 1);
		uint32_t tag;

		rq.flags = 1u << bit;
		if (!(rq.flags & RLX_RQ_USER_FLAGS)) {
			/* INDIRECT without slices, WAIT without a timeline. */
			long want = rq.flags == RLX_RQ_WAIT ? -ENOENT : -EINVAL;

			CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), want);
			continue;
		}
		CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), 1);
		tag = k_fetch1(s.k.ex);
		CHECK_EQ(s.k.desc[tag].flags, rq.flags);
		CHECK_EQ(k_commit1(s.k.ex, s.k.desc, tag, 0, 0), 1);
		struct rlx_cqe cqe;

		CHECK_EQ(k_reap(s.k.ch, &cqe, 1, 1, K_EVER), 1);
	}
	struct rlx_rq rq = k_rq(1, 1);

	rq.nr_slices = RLX_RQ_SLICES + 1;
	CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), -EINVAL);
	rq.nr_slices = ~0u;
	CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), -EINVAL);
	rq.nr_slices = 0;
	rq.inline_len = RLX_RQ_INLINE + 1;
	CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), -EINVAL);
	/* An arena is no timeline, and the other way round. */
	rq.inline_len = 0;
	rq.flags = RLX_RQ_WAIT;
	rq.wait = s.handle;
	CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), -EINVAL);
	rq = k_rq(1, 1);
	rq.nr_slices = 1;
	rq.slice[0] = (struct rlx_slice){ k_attach(s.k.ch, s.tl, RLX_R), RLX_R, 0, 1 };
	CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), -EINVAL);
	CHECK_EQ(k_info(s.k.ch).ready, 0);
	scene_free(&s);
}

/* A command of one kind of fd is unknown to the others. */
TEST(foreign_commands)
{
	struct scene s = scene_new();
	static const unsigned long session[] = {
		RLX_IOC_QUERY, RLX_IOC_ARENA_CREATE, RLX_IOC_SERVICE_CREATE,
		RLX_IOC_CONNECT,
	}, service[] = {
		RLX_IOC_SERVICE_DUP, RLX_IOC_EXECUTOR_ATTACH,
	}, executor[] = {
		RLX_IOC_FETCH, RLX_IOC_COMMIT, RLX_IOC_COMMIT_AND_FETCH,
		RLX_IOC_EXEC_ARENA, RLX_IOC_EXEC_SLICES, RLX_IOC_EXEC_EVENTS,
	}, channel[] = {
		RLX_IOC_ATTACH, RLX_IOC_DETACH, RLX_IOC_SUBMIT, RLX_IOC_REAP,
		RLX_IOC_CANCEL,
	}, other[] = {
		RLX_IOC_ARENA_INFO, RLX_IOC_TIMELINE_QUERY, RLX_IO(0xff, __u64),
		_IOW(RLX_IOC_MAGIC, 0x30, struct rlx_ioc_service_info),
		_IOWR(RLX_IOC_MAGIC + 1, 0x30, struct rlx_ioc_service_info), 0,
	};
	const struct {
		const unsigned long *cmds;
		size_t nr;
		int own;	/* whose they are */
	} kinds[] = {
		{ session, ARRAY(session), s.k.session },
		{ service, ARRAY(service), s.k.svc },
		{ executor, ARRAY(executor), s.k.ex },
		{ channel, ARRAY(channel), s.k.ch },
		{ other, ARRAY(other), -1 },
	};
	const int fds[] = { s.k.session, s.k.svc, s.k.ex, s.k.ch };

	for (unsigned int f = 0; f < ARRAY(fds); f++)
		for (unsigned int k = 0; k < ARRAY(kinds); k++)
			if (kinds[k].own != fds[f])
				k_abi_foreign(fds[f], kinds[k].cmds, kinds[k].nr);
	unsigned long info = RLX_IOC_SERVICE_INFO;

	k_abi_foreign(s.k.session, &info, 1);
	scene_free(&s);
}

/* ---- values ---- */

TEST(making_services)
{
	int session = k_open();
	static const struct {
		uint32_t queues, depth, flags, slices;
		long want;
	} rows[] = {
		{ 1, 1, 0, 0, 0 },
		{ 64, 4, 3, 64, 0 },
		{ 1, 4096, 0, 1, 0 },
		{ 0, 4, 0, 0, -EINVAL },
		{ 65, 4, 0, 0, -EINVAL },
		{ ~0u, 4, 0, 0, -EINVAL },
		{ 1, 0, 0, 0, -EINVAL },
		{ 1, 3, 0, 0, -EINVAL },
		{ 1, 8192, 0, 0, -EINVAL },
		{ 1, 0x80000000, 0, 0, -EINVAL },
		{ 1, 4, 4, 0, -EINVAL },
		{ 1, 4, 0x80000000, 0, -EINVAL },
		{ 1, 4, 0, 65, -EINVAL },
	};

	for (unsigned int i = 0; i < ARRAY(rows); i++) {
		struct rlx_ioc_service_create c = {
			.queues = rows[i].queues, .depth = rows[i].depth,
			.flags = rows[i].flags, .max_slices = rows[i].slices,
		};
		long got = k_ioctl(session, RLX_IOC_SERVICE_CREATE, &c);

		if (got >= 0) {
			CHECK_EQ(fcntl(got, F_GETFD), FD_CLOEXEC);
			CHECK_EQ(k_info(got).queues, rows[i].queues);
			close(got);
			got = 0;
		}
		CHECKF(got == rows[i].want, "row %u: %ld", i, got);
	}
	close(session);
}

/* A service of at most two slices takes no third. */
TEST(fewer_slices)
{
	int session = k_open(), svc, ex, ch, arena = k_arena(session, 4096, 0);
	struct rlx_ioc_service_create c = { .queues = 1, .depth = 4, .max_slices = 2 };
	struct rlx_rq rq = k_rq(1, 1);
	long h;

	svc = k_ioctl(session, RLX_IOC_SERVICE_CREATE, &c);
	ex = k_executor(svc, 0);
	ch = k_channel(session, svc, 4, 0, NULL);
	h = k_attach(ch, arena, RLX_R);
	for (int i = 0; i < 3; i++)
		rq.slice[i] = (struct rlx_slice){ h, RLX_R, 0, 1 };
	rq.nr_slices = 2;
	CHECK_EQ(k_submit(ch, &rq, 1, NULL), 1);
	rq.nr_slices = 3;
	CHECK_EQ(k_submit(ch, &rq, 1, NULL), -EINVAL);
	close(ch);
	close(ex);
	close(svc);
	close(arena);
	close(session);
}

TEST(rights_of_services)
{
	struct scene s = scene_new();
	struct rlx_ioc_service_dup d = { .access = RLX_R };
	int ro = k_ioctl(s.k.svc, RLX_IOC_SERVICE_DUP, &d), rw, ch;

	CHECK(ro >= 0);
	CHECK_EQ(fcntl(ro, F_GETFD), FD_CLOEXEC);
	ch = k_channel(s.k.session, ro, 1, 0, NULL);
	close(ch);
	CHECK_EQ(k_try_executor(ro, 0), -EACCES);
	d.access = RLX_R | RLX_W;
	CHECK_EQ(k_ioctl(ro, RLX_IOC_SERVICE_DUP, &d), -EACCES);
	rw = k_ioctl(s.k.svc, RLX_IOC_SERVICE_DUP, &d);
	CHECK(rw >= 0);
	CHECK_EQ(k_try_executor(rw, 0), -EBUSY);
	CHECK_EQ(k_try_executor(s.k.svc, 2), -EINVAL);
	d.access = RLX_W;
	CHECK_EQ(k_ioctl(s.k.svc, RLX_IOC_SERVICE_DUP, &d), -EINVAL);
	d.access = 0;
	CHECK_EQ(k_ioctl(s.k.svc, RLX_IOC_SERVICE_DUP, &d), -EINVAL);
	d.access = 4;
	CHECK_EQ(k_ioctl(s.k.svc, RLX_IOC_SERVICE_DUP, &d), -EINVAL);
	/* The service lives with its last writable fd, the reading one not counted. */
	close(s.k.svc);
	s.k.svc = rw;
	CHECK_EQ(k_info(ro).state, RLX_SERVICE_LIVE);
	close(ro);
	scene_free(&s);
}

TEST(connecting)
{
	struct scene s = scene_new();
	int closed = dup(s.k.svc);
	const struct {
		int fd;
		uint32_t queue, depth, flags;
		long want;
	} rows[] = {
		{ s.k.svc, 0, 1, 0, 0 },
		{ s.k.svc, RLX_QUEUE_ANY, 1, RLX_CHANNEL_RING, 0 },
		{ s.k.svc, 1, 1, 0, -EINVAL },
		{ s.k.svc, 0x7fffffff, 1, 0, -EINVAL },
		{ s.k.svc, 0, 0, 0, -EINVAL },
		{ s.k.svc, 0, 3, 0, -EINVAL },
		{ s.k.svc, 0, DEPTH * 2, 0, -EINVAL },
		{ s.k.svc, 0, 0x80000000, 0, -EINVAL },
		{ s.k.svc, 0, DEPTH, 0, -ENOSPC },
		{ s.k.svc, 0, 1, 2, -EINVAL },
		{ closed, 0, 1, 0, -EBADF },
		{ -1, 0, 1, 0, -EBADF },
		{ s.k.ex, 0, 1, 0, -EINVAL },
		{ s.k.ch, 0, 1, 0, -EINVAL },
		{ s.arena, 0, 1, 0, -EINVAL },
		{ s.k.session, 0, 1, 0, -EINVAL },
	};

	close(closed);
	for (unsigned int i = 0; i < ARRAY(rows); i++) {
		struct rlx_ioc_connect c = {
			.service = rows[i].fd, .queue = rows[i].queue,
			.depth = rows[i].depth, .flags = rows[i].flags,
		};
		long got = k_ioctl(s.k.session, RLX_IOC_CONNECT, &c);

		if (got >= 0) {
			CHECK_EQ(fcntl(got, F_GETFD), FD_CLOEXEC);
			CHECK_EQ(c.queue, 0);
			CHECK(c.channel > s.k.id);
			close(got);
			got = 0;
		}
		CHECKF(got == rows[i].want, "row %u: %ld", i, got);
	}
	scene_free(&s);
}

/* The table of channels ends; those whose end nobody read count. */
TEST(too_many_channels)
{
	struct rlimit r = { 4096, 4096 };
	int session = k_open(), svc = k_service(session, 1, 4096, 0), ex, fd[1024];
	struct rlx_ioc_connect c = { .service = svc, .depth = 1 };
	struct rlx_event ev;
	uint32_t tag;

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &r), 0);
	ex = k_executor(svc, 0);
	for (int i = 0; i < 1024; i++)
		fd[i] = k_channel(session, svc, 1, 0, NULL);
	CHECK_EQ(k_ioctl(session, RLX_IOC_CONNECT, &c), -ENOSPC);
	close(fd[77]);
	CHECK_EQ(k_fetch(ex, &tag, 1, 1, K_SOON), 1);
	CHECK_EQ(k_ioctl(session, RLX_IOC_CONNECT, &c), -ENOSPC);
	CHECK_EQ(k_events(ex, tag & ~RLX_TAG_EVENT, &ev, 1), 1);
	fd[77] = k_ioctl(session, RLX_IOC_CONNECT, &c);
	CHECK(fd[77] >= 0);
	for (int i = 0; i < 1024; i++)
		close(fd[i]);
	close(ex);
	close(svc);
	close(session);
	CHECK(k_stat_becomes("nr_channels", 0));
}

TEST(single_user)
{
	int session = k_open(), svc = k_service(session, 1, 4, RLX_SERVICE_SINGLE_USER);
	pid_t pid;
	int st;

	close(k_channel(session, svc, 1, 0, NULL));
	if (geteuid())
		rlx_test_skip("not root");
	pid = fork();
	if (!pid) {
		struct rlx_ioc_connect c = { .service = svc, .depth = 1 };

		if (setuid(1000))
			_exit(2);
		_exit(k_ioctl(session, RLX_IOC_CONNECT, &c) == -EPERM ? 0 : 1);
	}
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK_EQ(st, 0);
	close(svc);
	close(session);
}

TEST(attaching)
{
	struct scene s = scene_new();
	struct rlx_ioc_arena_dup dup_ro = { .access = RLX_R };
	int ro = k_ioctl(s.arena, RLX_IOC_ARENA_DUP, &dup_ro);
	int no_attach = k_arena(s.k.session, 4096, 0), no_write = k_arena(s.k.session, 4096, 0);
	int efd = eventfd(0, EFD_CLOEXEC), p[2];
	struct rlx_ioc_arena_seal seal = { .seals = RLX_KSEAL_NO_ATTACH };

	CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
	close(p[1]);
	CHECK_EQ(k_ioctl(no_attach, RLX_IOC_ARENA_SEAL, &seal), 0);
	seal.seals = RLX_KSEAL_NO_WRITE;
	CHECK_EQ(k_ioctl(no_write, RLX_IOC_ARENA_SEAL, &seal), 0);
	const struct {
		int fd;
		uint32_t access;
		long want;
	} rows[] = {
		{ s.arena, RLX_R, 1 },
		{ s.arena, RLX_W, -EINVAL },
		{ s.arena, 0, -EINVAL },
		{ s.arena, 4, -EINVAL },
		{ s.arena, 0x80000001, -EINVAL },
		{ ro, RLX_R, 1 },
		{ ro, RLX_W, -EINVAL },
		{ ro, RLX_R | RLX_W, -EACCES },
		{ s.tl, RLX_R, 1 },
		{ s.tl, RLX_W, -EINVAL },
		{ no_attach, RLX_R, -EPERM },
		{ no_write, RLX_R | RLX_W, -EPERM },
		{ no_write, RLX_R, 1 },
		{ -1, RLX_R, -EBADF },
		{ p[1], RLX_R, -EBADF },
		{ p[0], RLX_R, -EINVAL },
		{ efd, RLX_R, -EINVAL },
		{ s.k.session, RLX_R, -EINVAL },
		{ s.k.ch, RLX_R, -EINVAL },
		{ s.k.svc, RLX_R, -EINVAL },
	};

	for (unsigned int i = 0; i < ARRAY(rows); i++) {
		long got = k_attach(s.k.ch, rows[i].fd, rows[i].access);

		CHECKF(got == rows[i].want || (got > 0 && rows[i].want == 1),
		       "row %u: %ld", i, got);
		if (got > 0)
			CHECK_EQ(k_detach(s.k.ch, got), 0);
	}
	/* An attachment that may write keeps the arena from being sealed. */
	CHECK_EQ(k_ioctl(s.arena, RLX_IOC_ARENA_SEAL, &seal), -EBUSY);
	CHECK_EQ(k_detach(s.k.ch, s.handle), 0);
	CHECK_EQ(k_ioctl(s.arena, RLX_IOC_ARENA_SEAL, &seal), 0);
	CHECK_EQ(k_detach(s.k.ch, 0), -ENOENT);
	CHECK_EQ(k_detach(s.k.ch, ~0u), -ENOENT);
	for (int i = 0; i < 256; i++)
		CHECK(k_attach(s.k.ch, s.tl, RLX_R) > 0);
	CHECK_EQ(k_attach(s.k.ch, s.tl, RLX_R), -ENOSPC);
	close(ro);
	close(no_attach);
	close(no_write);
	close(efd);
	close(p[0]);
	scene_free(&s);
}

static void no_op(int sig)
{
	(void)sig;
}

static const struct scene *alarmed;
static volatile sig_atomic_t alarms;

static void submit_at_third(int sig)
{
	struct rlx_rq rq = k_rq(1, 1);

	(void)sig;
	if (++alarms == 3)
		k_submit(alarmed->k.ch, &rq, 1, NULL);
}

/* With SA_RESTART a wait without end goes on, one with an end tells. */
static void interrupted(const struct scene *s)
{
	struct sigaction sa = { .sa_handler = submit_at_third, .sa_flags = SA_RESTART };
	struct rlx_cqe cqe;
	uint32_t tag;

	alarmed = s;
	alarms = 0;
	sigaction(SIGALRM, &sa, NULL);
	ualarm(20000, 20000);
	CHECK_EQ(k_fetch(s->k.ex, &tag, 1, 1, K_EVER), 1);
	CHECK(alarms >= 3);
	CHECK_EQ(k_reap(s->k.ch, &cqe, 1, 1, 60000 * K_MS), -EINTR);
	ualarm(0, 0);
	CHECK_EQ(k_commit1(s->k.ex, s->k.desc, tag, 0, 0), 1);
	CHECK_EQ(k_reap(s->k.ch, &cqe, 1, 1, 0), 1);
}

TEST(fetching_and_reaping)
{
	struct scene s = scene_new();
	uint32_t tag[4];
	struct rlx_cqe cqe[4];
	struct sigaction sa = { .sa_handler = no_op };
	struct rlx_ioc_fetch f = { .tags = (uintptr_t)tag, .max = 4, .queue = 1,
				   .flags = RLX_FETCH_NOWAIT };
	struct rlx_ioc_commit c = { .queue = 1 };
	struct rlx_ioc_commit_fetch cf = { .fetch = f };
	uint64_t t0;

	CHECK_EQ(k_ioctl(s.k.ex, RLX_IOC_FETCH, &f), -EINVAL);
	CHECK_EQ(k_ioctl(s.k.ex, RLX_IOC_COMMIT, &c), -EINVAL);
	CHECK_EQ(k_ioctl(s.k.ex, RLX_IOC_COMMIT_AND_FETCH, &cf), -EINVAL);
	cf.fetch.queue = 0;
	cf.commit.queue = ~0u;
	CHECK_EQ(k_ioctl(s.k.ex, RLX_IOC_COMMIT_AND_FETCH, &cf), -EINVAL);
	f.queue = 0;
	f.flags = 2;
	CHECK_EQ(k_ioctl(s.k.ex, RLX_IOC_FETCH, &f), -EINVAL);
	CHECK_EQ(k_fetch(s.k.ex, tag, 0, 0, 0), -EINVAL);
	CHECK_EQ(k_fetch(s.k.ex, tag, 4, 5, 0), -EINVAL);
	CHECK_EQ(k_fetch(s.k.ex, tag, 0x80000000, 0, 0), -EINVAL);
	CHECK_EQ(k_reap(s.k.ch, cqe, 4, 5, 0), -EINVAL);
	CHECK_EQ(k_reap(s.k.ch, cqe, 0x80000000, 0, 0), -EINVAL);
	t0 = k_now();
	CHECK_EQ(k_fetch(s.k.ex, tag, 4, 1, 20 * K_MS), -ETIME);
	CHECK_EQ(k_reap(s.k.ch, cqe, 4, 1, 20 * K_MS), -ETIME);
	CHECK(k_now() - t0 >= 40 * K_MS);
	/* Less than the least, in time: what there is. */
	struct rlx_rq rq = k_rq(1, 1);

	CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), 1);
	CHECK_EQ(k_fetch(s.k.ex, tag, 4, 2, 20 * K_MS), 1);
	CHECK_EQ(k_commit1(s.k.ex, s.k.desc, tag[0], 0, 0), 1);
	CHECK_EQ(k_reap(s.k.ch, cqe, 4, 2, 20 * K_MS), 1);
	sigaction(SIGALRM, &sa, NULL);
	ualarm(20000, 20000);
	CHECK_EQ(k_fetch(s.k.ex, tag, 4, 1, K_EVER), -EINTR);
	CHECK_EQ(k_reap(s.k.ch, cqe, 4, 1, K_EVER), -EINTR);
	ualarm(0, 0);
	interrupted(&s);
	/* Results that belong to nobody. */
	struct rlx_complete odd[] = {
		{ .seq = 0, .tag = 0 }, { .seq = 1, .tag = DEPTH },
		{ .seq = ~0ull, .tag = ~0u }, { .seq = s.k.desc[tag[0]].seq, .tag = tag[0] },
	};

	for (unsigned int i = 0; i < ARRAY(odd); i++)
		CHECK_EQ(k_commit(s.k.ex, &odd[i], 1, NULL), -ESTALE);
	CHECK_EQ(k_commit(s.k.ex, odd, 4, NULL), -ESTALE);
	CHECK_EQ(k_commit(s.k.ex, odd, 4, (void *)8), -EFAULT);
	CHECK_EQ(k_commit(s.k.ex, odd, 0x80000000, NULL), -EINVAL);
	CHECK_EQ(k_submit(s.k.ch, &rq, 0x80000000, NULL), -EINVAL);
	CHECK_EQ(k_events(s.k.ex, s.k.id + 1, NULL, 0), -ENOENT);
	CHECK_EQ(k_events(s.k.ex, s.k.id, NULL, 0x80000000), -EINVAL);
	scene_free(&s);
}

/* ---- no descriptors, no memory ---- */

static long try_create(void *arg)
{
	struct scene *s = arg;
	long fd = k_try_service(s->k.session, 3, 64, 0);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static long try_dup(void *arg)
{
	struct scene *s = arg;
	struct rlx_ioc_service_dup d = { .access = RLX_R | RLX_W };
	long fd = k_ioctl(s->k.svc, RLX_IOC_SERVICE_DUP, &d);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static long try_connect(void *arg)
{
	struct scene *s = arg;
	struct rlx_ioc_connect c = {
		.service = s->k.svc, .depth = 2, .flags = RLX_CHANNEL_RING,
	};
	long fd = k_ioctl(s->k.session, RLX_IOC_CONNECT, &c);
	uint32_t tag;
	struct rlx_event ev;

	if (fd < 0)
		return fd;
	close(fd);
	/* Its slots come back when it has drained. */
	while (k_fetch(s->k.ex, &tag, 1, 0, 0) != 1)
		usleep(100);
	k_events(s->k.ex, tag & ~RLX_TAG_EVENT, &ev, 1);
	return 0;
}

static long try_attach_executor(void *arg)
{
	struct scene *s = arg;
	long svc = *(int *)(s + 1);
	long fd = -EBUSY;

	while (fd == -EBUSY)
		fd = k_try_executor(svc, RLX_EXEC_RING);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static long try_exec_arena(void *arg)
{
	struct scene *s = arg;
	int fd = k_exec_arena(s->k.ex, s->k.id, s->handle, NULL);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static long try_attach(void *arg)
{
	struct scene *s = arg;
	long h = k_attach(s->k.ch, s->arena, RLX_R | RLX_W), ret;

	if (h < 0)
		return h;
	do	/* the fault may hit this one */
		ret = k_detach(s->k.ch, h);
	while (ret == -EFAULT);
	CHECK_EQ(ret, 0);
	return 0;
}

/* Asked until it is answered: the fault may hit this one. */
static uint64_t value_of(int timeline)
{
	struct rlx_ioc_timeline_query q = { 0 };
	long ret;

	do
		ret = k_ioctl(timeline, RLX_IOC_TIMELINE_QUERY, &q);
	while (ret == -EFAULT);
	CHECK_EQ(ret, 0);
	return q.value;
}

/* A request that waits, with indirect slices, through its whole life. */
static long try_request(void *arg)
{
	struct scene *s = arg;
	struct rlx_slice out;
	struct rlx_rq rq = k_rq(1, 1);
	struct rlx_ioc_exec_slices es = { .slices = (uintptr_t)&out, .max = 1 };
	struct rlx_cqe cqe;
	struct rlx_rq_id id;
	uint32_t tag;
	long n;

	rq.flags = RLX_RQ_INDIRECT | RLX_RQ_WAIT;
	rq.nr_slices = 1;
	rq.slice[0] = (struct rlx_slice){ s->handle, RLX_R, 0, sizeof(out) };
	rq.wait = *(uint32_t *)(s + 1);
	rq.wait_value = value_of(s->tl) + 1;
	n = k_submit(s->k.ch, &rq, 1, &id);
	if (n < 0)
		return n;
	n = k_signal(s->tl, rq.wait_value);
	if (n < 0) {
		/* Nobody will: take it back. */
		while (k_cancel(s->k.ch, id.tag, id.seq) == -EFAULT)
			;
		while (k_reap(s->k.ch, &cqe, 1, 0, 0) != 1)
			;
		return n;
	}
	do	/* first come events of what was detached before */
		while (k_fetch(s->k.ex, &tag, 1, 0, 0) != 1)
			;
	while (tag & RLX_TAG_EVENT);
	es.tag = tag;
	es.seq = s->k.desc[tag].seq;
	n = k_ioctl(s->k.ex, RLX_IOC_EXEC_SLICES, &es);
	while (k_commit1(s->k.ex, s->k.desc, tag, 0, 0) != 1)
		;
	while (k_reap(s->k.ch, &cqe, 1, 0, 0) != 1)
		;
	return n < 0 ? n : 0;
}

/* struct scene, and what one of the functions needs besides. */
struct tries {
	struct scene s;
	uint32_t more;
};

TEST(no_descriptors)
{
	struct tries t = { .s = scene_new() };

	t.more = k_service(t.s.k.session, 1, 4, 0);
	k_no_fd(try_create, &t);
	k_no_fd(try_dup, &t);
	k_no_fd(try_connect, &t);
	k_no_fd(try_attach_executor, &t);
	k_no_fd(try_exec_arena, &t);
	close(t.more);
	scene_free(&t.s);
}

TEST(no_memory)
{
	struct tries t = { .s = scene_new() };
	static const int fault[] = { -EFAULT, 0 };
	struct rlx_slice *in = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
				    t.s.arena, 0);

	in[0] = (struct rlx_slice){ t.s.handle, RLX_R, 0, 8 };
	munmap(in, 4096);
	t.more = k_service(t.s.k.session, 1, 4, 0);
	k_fail_nth("SERVICE_CREATE", try_create, &t, fault);
	k_fail_nth("SERVICE_DUP", try_dup, &t, fault);
	k_fail_nth("CONNECT", try_connect, &t, fault);
	k_fail_nth("EXECUTOR_ATTACH", try_attach_executor, &t, fault);
	k_fail_nth("EXEC_ARENA", try_exec_arena, &t, fault);
	k_fail_nth("ATTACH", try_attach, &t, fault);
	close(t.more);
	t.more = k_attach(t.s.k.ch, t.s.tl, RLX_R);
	k_fail_nth("a request", try_request, &t, fault);
	scene_free(&t.s);
}

TEST_MAIN()
