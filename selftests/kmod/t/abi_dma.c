// SPDX-License-Identifier: MIT
/* The rules of every struct of timelines, exports and pinned arenas. */
/* rig: timeout=60 m32 also */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/rlx.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"

#define MIB	(1u << 20)

static int sync_file_of(int arena)
{
	struct rlx_ioc_arena_export e = {
		.length = 4096, .access = RLX_R | RLX_W,
	};
	struct dma_buf_export_sync_file f = { .flags = DMA_BUF_SYNC_RW };
	int buf = k_ioctl(arena, RLX_IOC_ARENA_EXPORT, &e);

	CHECK(buf >= 0);
	CHECK_EQ(k_ioctl(buf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &f), 0);
	return f.fd;
}

TEST(timeline_create)
{
	struct rlx_ioc_timeline_create t = { .initial = 3 };
	const struct k_range zero[] = {
		K_FIELD(struct rlx_ioc_timeline_create, flags),
		K_FIELD(struct rlx_ioc_timeline_create, pad),
		K_FIELD(struct rlx_ioc_timeline_create, reserved),
	};

	k_abi_check(k_open(), RLX_IOC_TIMELINE_CREATE, &t, 0, zero, 3);
}

TEST(timeline_wait)
{
	int s = k_open();
	struct rlx_point p = { .fd = k_timeline(s, 5), .value = 5 };
	struct rlx_ioc_timeline_wait w = {
		.points = (uintptr_t)&p, .nr = 1, .deadline_ns = 1,
	};
	const struct k_range zero[] = {
		K_FIELD(struct rlx_ioc_timeline_wait, index),
		K_FIELD(struct rlx_ioc_timeline_wait, pad),
		K_FIELD(struct rlx_ioc_timeline_wait, reserved),
	};
	int i;

	k_abi_check(s, RLX_IOC_TIMELINE_WAIT, &w, 0, zero, 3);
	for (i = 1; i < 32; i++) {
		w.flags = 1u << i;
		CHECK_EQ(k_ioctl(s, RLX_IOC_TIMELINE_WAIT, &w), -EINVAL);
	}
	w.flags = 0;
	p.value = 6;
	k_abi_check(s, RLX_IOC_TIMELINE_WAIT, &w, -ETIME, zero, 3);
}

TEST(timeline_query)
{
	struct rlx_ioc_timeline_query q = { 0 };
	const struct k_range zero[] = {
		K_FIELD(struct rlx_ioc_timeline_query, value),
		K_FIELD(struct rlx_ioc_timeline_query, error),
		K_FIELD(struct rlx_ioc_timeline_query, waiters),
		K_FIELD(struct rlx_ioc_timeline_query, reserved),
	};

	k_abi_check(k_timeline(k_open(), 0), RLX_IOC_TIMELINE_QUERY, &q, 0,
		    zero, 4);
}

TEST(timeline_signal)
{
	struct rlx_ioc_timeline_signal g = { .value = 2 };
	const struct k_range zero[] = {
		K_FIELD(struct rlx_ioc_timeline_signal, reserved),
	};
	int tl = k_timeline(k_open(), 0), i;

	CHECK_EQ(k_signal(tl, 2), 0);
	k_abi_check(tl, RLX_IOC_TIMELINE_SIGNAL, &g, -EINVAL, zero, 1);
	g.value = UINT64_MAX;
	k_abi_check(tl, RLX_IOC_TIMELINE_SIGNAL, &g, -EOVERFLOW, zero, 1);
	for (i = 3; i < 20; i++) {
		g.value = i;
		CHECK_EQ(k_ioctl(tl, RLX_IOC_TIMELINE_SIGNAL, &g), 0);
	}
}

TEST(timeline_dup)
{
	struct rlx_ioc_timeline_dup d = { .access = RLX_R };
	const struct k_range zero[] = {
		K_FIELD(struct rlx_ioc_timeline_dup, flags),
		K_FIELD(struct rlx_ioc_timeline_dup, reserved),
	};
	int tl = k_timeline(k_open(), 0), i;

	k_abi_check(tl, RLX_IOC_TIMELINE_DUP, &d, 0, zero, 2);
	for (i = 2; i < 32; i++) {
		d.access = RLX_R | 1u << i;
		CHECK_EQ(k_ioctl(tl, RLX_IOC_TIMELINE_DUP, &d), -EINVAL);
	}
}

TEST(timeline_eventfd)
{
	int s = k_open(), tl = k_timeline(s, 4);
	struct rlx_ioc_timeline_eventfd e = {
		.value = 4, .eventfd = eventfd(0, EFD_NONBLOCK),
	};
	const struct k_range zero[] = {
		K_FIELD(struct rlx_ioc_timeline_eventfd, pad),
	};
	uint64_t n;

	k_abi_check(tl, RLX_IOC_TIMELINE_EVENTFD, &e, 0, zero, 1);
	CHECK(read(e.eventfd, &n, 8) == 8 && n == 2);
}

TEST(timeline_import)
{
	int s = k_open(), tl = k_timeline(s, 4);
	struct rlx_ioc_timeline_import i = {
		.value = 9, .sync_file = sync_file_of(k_arena(s, MIB, 0)),
	};
	const struct k_range zero[] = {
		K_FIELD(struct rlx_ioc_timeline_import, pad),
	};

	k_abi_check(tl, RLX_IOC_TIMELINE_IMPORT, &i, 0, zero, 1);
	CHECK_EQ(k_query(tl, NULL), 9);
}

TEST(timeline_wait_one)
{
	struct rlx_ioc_timeline_wait_one w = { .value = 4, .deadline_ns = 1 };
	int tl = k_timeline(k_open(), 4);

	k_abi_check(tl, RLX_IOC_TIMELINE_WAIT_ONE, &w, 0, NULL, 0);
	w.value = 5;
	k_abi_check(tl, RLX_IOC_TIMELINE_WAIT_ONE, &w, -ETIME, NULL, 0);
	w.deadline_ns = 0;
	k_abi_check(tl, RLX_IOC_TIMELINE_WAIT_ONE, &w, -EAGAIN, NULL, 0);
}

TEST(arena_export)
{
	struct rlx_ioc_arena_export e = {
		.length = 4096, .access = RLX_R | RLX_W,
	};
	const struct k_range zero[] = {
		K_FIELD(struct rlx_ioc_arena_export, reserved),
	};
	int a = k_arena(k_open(), MIB, 0), i;

	k_abi_check(a, RLX_IOC_ARENA_EXPORT, &e, 0, zero, 1);
	e.flags = RLX_EXPORT_LARGE;
	k_abi_check(a, RLX_IOC_ARENA_EXPORT, &e, 0, zero, 1);
	for (i = 1; i < 32; i++) {
		e.flags = 1u << i;
		CHECK_EQ(k_ioctl(a, RLX_IOC_ARENA_EXPORT, &e), -EINVAL);
	}
	e.flags = 0;
	for (i = 2; i < 32; i++) {
		e.access = RLX_R | 1u << i;
		CHECK_EQ(k_ioctl(a, RLX_IOC_ARENA_EXPORT, &e), -EINVAL);
	}
	for (i = 0; i < 12; i++) {
		e.access = RLX_R;
		e.length = 4096;
		e.offset = 1u << i;
		CHECK_EQ(k_ioctl(a, RLX_IOC_ARENA_EXPORT, &e), -EINVAL);
		e.length = 4096 + (1u << i);
		e.offset = 0;
		CHECK_EQ(k_ioctl(a, RLX_IOC_ARENA_EXPORT, &e), -EINVAL);
	}
}

TEST(arena_sync)
{
	struct rlx_ioc_arena_sync y = { .length = 1, .access = RLX_R };
	int a = k_arena(k_open(), MIB, 0), i;

	k_abi_check(a, RLX_IOC_ARENA_SYNC, &y, 0, NULL, 0);
	for (i = 2; i < 32; i++) {
		y.access = RLX_R | 1u << i;
		CHECK_EQ(k_ioctl(a, RLX_IOC_ARENA_SYNC, &y), -EINVAL);
		y.access = RLX_R;
		y.op = 1u << i;
		CHECK_EQ(k_ioctl(a, RLX_IOC_ARENA_SYNC, &y), -EINVAL);
		y.op = 0;
	}
}

TEST(arena_create_of_user_memory)
{
	void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rlx_ioc_arena_create c = {
		.size = MIB, .kind = RLX_KIND_USER, .numa_node = -1,
		.memfd = -1, .addr = (uintptr_t)p,
	};
	const struct k_range zero[] = {
		K_FIELD(struct rlx_ioc_arena_create, nodes),
		K_FIELD(struct rlx_ioc_arena_create, reserved),
	};
	int s = k_open(), i;

	k_abi_check(s, RLX_IOC_ARENA_CREATE, &c, 0, zero, 1);
	for (i = 4; i < 32; i++) {
		c.flags = 1u << i;
		CHECK_EQ(k_ioctl(s, RLX_IOC_ARENA_CREATE, &c), -EINVAL);
	}
	c.flags = 0;
	for (i = 0; i < 2; i++) {
		c.numa_node = i;
		CHECK_EQ(k_ioctl(s, RLX_IOC_ARENA_CREATE, &c), -EINVAL);
	}
	c.numa_node = -1;
	for (i = 2; i < 32; i++) {
		c.kind = 1u << i;
		CHECK_EQ(k_ioctl(s, RLX_IOC_ARENA_CREATE, &c), -EINVAL);
	}
	/* The address is 64 bits wide, whatever the caller's is. */
	c.kind = RLX_KIND_USER;
	c.addr |= 1ull << 63;
	CHECK_EQ(k_ioctl(s, RLX_IOC_ARENA_CREATE, &c), -EFAULT);
}

TEST(commands_of_other_kinds)
{
	static const unsigned long timeline[] = {
		RLX_IOC_TIMELINE_QUERY, RLX_IOC_TIMELINE_SIGNAL,
		RLX_IOC_TIMELINE_DUP, RLX_IOC_TIMELINE_EVENTFD,
		RLX_IOC_TIMELINE_IMPORT, RLX_IOC_TIMELINE_WAIT_ONE,
	};
	static const unsigned long other[] = {
		RLX_IOC_QUERY, RLX_IOC_ARENA_CREATE, RLX_IOC_TIMELINE_CREATE,
		RLX_IOC_TIMELINE_WAIT, RLX_IOC_SERVICE_CREATE,
		RLX_IOC_CONNECT, RLX_IOC_ARENA_INFO, RLX_IOC_ARENA_EXPORT,
		RLX_IOC_ARENA_DUP, RLX_IOC_ARENA_SEAL, RLX_IOC_ARENA_SYNC,
		RLX_IOC_SERVICE_INFO, RLX_IOC_FETCH, RLX_IOC_COMMIT,
		RLX_IOC_ATTACH, RLX_IOC_SUBMIT, RLX_IOC_REAP,
		_IO(RLX_IOC_MAGIC, 0x7f), RLX_IO(0x2f, uint64_t),
		_IO(RLX_IOC_MAGIC + 1, 0x20),
	};
	static const unsigned long session[] = {
		RLX_IOC_ARENA_EXPORT, RLX_IOC_ARENA_SYNC,
	};
	int s = k_open();

	k_abi_foreign(s, timeline, sizeof(timeline) / sizeof(timeline[0]));
	k_abi_foreign(s, session, 2);
	k_abi_foreign(k_arena(s, MIB, 0), timeline,
		      sizeof(timeline) / sizeof(timeline[0]));
	k_abi_foreign(k_timeline(s, 0), other,
		      sizeof(other) / sizeof(other[0]));
}

/* ---- descriptors run out ------------------------------------------------ */

struct thing {
	int fd;
	unsigned long cmd;
	union {
		struct rlx_ioc_timeline_create create;
		struct rlx_ioc_timeline_dup dup;
		struct rlx_ioc_arena_export export;
		struct rlx_ioc_arena_create arena;
	};
};

static long make(void *arg)
{
	struct thing t = *(struct thing *)arg;
	long fd = k_ioctl(t.fd, t.cmd, &t.create);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* Calls that make a descriptor, each of another kind. */
static void things(struct thing t[4], int s, int a, int tl)
{
	void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	t[0] = (struct thing){ .fd = s, .cmd = RLX_IOC_TIMELINE_CREATE };
	t[1] = (struct thing){ .fd = tl, .cmd = RLX_IOC_TIMELINE_DUP,
			       .dup = { .access = RLX_R | RLX_W } };
	t[2] = (struct thing){ .fd = a, .cmd = RLX_IOC_ARENA_EXPORT,
			       .export = { .length = MIB, .access = RLX_R | RLX_W } };
	t[3] = (struct thing){ .fd = s, .cmd = RLX_IOC_ARENA_CREATE,
			       .arena = { .size = MIB, .kind = RLX_KIND_USER,
					  .numa_node = -1, .memfd = -1,
					  .addr = (uintptr_t)p } };
}

TEST(no_descriptor_left)
{
	int s = k_open(), a = k_arena(s, MIB, 0), tl = k_timeline(s, 0), i;
	struct rlx_ioc_arena_info info = { 0 };
	struct thing t[4];

	things(t, s, a, tl);
	for (i = 0; i < 4; i++)
		k_no_fd(make, &t[i]);
	CHECK_EQ(k_ioctl(a, RLX_IOC_ARENA_INFO, &info), 0);
	CHECK_EQ(info.nr_exports, 0);
	/* Failed duplicates are no signallers: the real one still is. */
	CHECK_EQ(k_signal(tl, 1), 0);
	i = dup(tl);
	close(tl);
	CHECK_EQ(k_signal(i, 2), 0);
}

/* The system has no file left, for those without rights over it. */
TEST(no_file_left)
{
	static const char limit[] = "/proc/sys/fs/file-max";
	int s = k_open(), a = k_arena(s, MIB, 0), tl = k_timeline(s, 0), i, st;
	long long was = k_file_number(limit);
	struct thing t[4];
	pid_t pid;

	things(t, s, a, tl);
	k_file_write(limit, 0);
	pid = fork();
	if (!pid) {
		if (setuid(1000))
			_exit(100);
		for (i = 0; i < 4; i++)
			if (make(&t[i]) != -ENFILE)
				_exit(1 + i);
		_exit(0);
	}
	waitpid(pid, &st, 0);
	k_file_write(limit, was);
	CHECKF(!st, "the child: %#x", st);
}

TEST_MAIN()
