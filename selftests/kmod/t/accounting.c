// SPDX-License-Identifier: MIT
/*
 * Who pays for arenas: RLIMIT_MEMLOCK, VmPin, the memory cgroup; and that all of
 * it is given back, to the same.
 */
/* rig: timeout=60 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <liburing.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/cgroup.h"
#include "lib/chan.h"

#define MIB	(1ul << 20)
#define KIB	1024l

static long create(int s, uint64_t size, uint32_t flags)
{
	struct rlx_ioc_arena_create c = {
		.size = size, .kind = RLX_KIND_KERNEL, .flags = flags,
		.numa_node = -1, .memfd = -1,
	};

	return k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
}

static long pinned_kib(void)
{
	return k_file_field("/proc/self/status", "VmPin:");
}

/* From here on a user with the device's group and nothing else. */
static void be_user(uid_t uid)
{
	struct stat st;
	gid_t gid;

	CHECK(!stat("/dev/rlx", &st));
	gid = st.st_gid;
	CHECK(!setgroups(1, &gid));
	CHECK(!setresgid(1000, 1000, 1000));
	CHECK(!setresuid(uid, uid, uid));
	prctl(PR_SET_DUMPABLE, 1);	/* /proc/self is ours */
}

static void limit(size_t bytes)
{
	struct rlimit l = { bytes, bytes };

	CHECK(!setrlimit(RLIMIT_MEMLOCK, &l));
}

static int child_status(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECKF(WIFEXITED(status), "child: %#x", status);
	return WEXITSTATUS(status);
}

TEST(memlock)
{
	int s, a, b;

	limit(8 * MIB);
	be_user(2001);
	s = k_open();
	CHECK_EQ(create(s, 8 * MIB + 4096, 0), -ENOMEM);
	CHECK_EQ(create(s, 8 * MIB + 4096, RLX_AF_HUGE_TRY), -ENOMEM);
	a = create(s, 6 * MIB, RLX_AF_HUGE_TRY);
	CHECK(a > 0);
	CHECK_EQ(create(s, 2 * MIB + 4096, 0), -ENOMEM);
	b = create(s, 2 * MIB, 0);
	CHECK(b > 0);
	CHECK_EQ(create(s, 4096, 0), -ENOMEM);
	close(a);
	a = create(s, 6 * MIB, 0);
	CHECK(a > 0);
	close(a);
	close(b);
	close(s);
}

TEST(no_right_at_all)
{
	int s;

	limit(0);
	be_user(2002);
	s = k_open();
	CHECK_EQ(create(s, 4096, 0), -EPERM);
	close(s);
}

TEST(below_a_page)
{
	int s;

	limit(4095);
	be_user(2003);
	s = k_open();
	CHECK_EQ(create(s, 4096, 0), -EPERM);
	close(s);
}

/* CAP_IPC_LOCK is not limited, and does not use up what others share. */
TEST(privileged)
{
	int s = k_open(), a;
	long before = pinned_kib();

	limit(4096);
	a = create(s, 16 * MIB, 0);
	CHECK(a > 0);
	CHECK_EQ(pinned_kib() - before, 16 * KIB);
	close(a);
	CHECK_EQ(pinned_kib(), before);
	close(s);
}

/* All capabilities of a namespace of its own making are none over the machine's memory. */
TEST(root_of_a_user_namespace)
{
	int s, a, b;

	limit(8 * MIB);
	be_user(2050);
	s = k_open();
	a = create(s, 6 * MIB, 0);
	CHECK(a > 0);
	CHECKF(!unshare(CLONE_NEWUSER), "unshare: %s", strerror(errno));
	CHECK_EQ(create(s, 2 * MIB + 4096, 0), -ENOMEM);
	close(s);
	s = k_open();
	CHECK_EQ(create(s, 2 * MIB + 4096, 0), -ENOMEM);
	b = create(s, 2 * MIB, 0);
	CHECK(b > 0);
	close(a);
	close(b);
	close(s);
}

/* By user: neither another session nor another process is a way around. */
TEST(per_user)
{
	int s, a, hold[2];
	pid_t pid;
	char c;

	limit(8 * MIB);
	CHECK(!pipe(hold));
	be_user(2004);
	s = k_open();
	a = create(s, 5 * MIB, 0);
	CHECK(a > 0);
	pid = fork();
	if (!pid) {
		int t = open("/dev/rlx", O_RDWR);
		int ret = create(t, 5 * MIB, 0) == -ENOMEM &&
			  create(s, 5 * MIB, 0) == -ENOMEM &&
			  create(t, 3 * MIB, 0) > 0;

		_exit(ret ? 0 : 1);
	}
	CHECK_EQ(child_status(pid), 0);

	/* The arena of a dead process counts as long as it lives. */
	close(a);
	pid = fork();
	if (!pid) {
		close(hold[1]);
		a = create(s, 6 * MIB, 0);
		if (a < 0)
			_exit(1);
		if (!fork()) {		/* keeps the fd; its maker goes */
			if (read(hold[0], &c, 1))
				_exit(1);
			_exit(0);
		}
		_exit(0);
	}
	CHECK_EQ(child_status(pid), 0);
	CHECK_EQ(create(s, 3 * MIB, 0), -ENOMEM);
	a = create(s, 2 * MIB, 0);
	CHECK(a > 0);
	close(a);
	close(hold[0]);
	close(hold[1]);
	for (;;) {		/* until the grandchild has ended */
		a = create(s, 8 * MIB, 0);
		if (a > 0)
			break;
		usleep(10000);
	}
	close(a);
	close(s);
}

/* The same purse that io_uring pays from. */
TEST(shared_with_io_uring)
{
	struct io_uring ring;
	struct iovec v = { .iov_len = 4 * MIB };
	int s, a;

	limit(8 * MIB);
	be_user(2005);
	v.iov_base = mmap(NULL, v.iov_len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	CHECK(v.iov_base != MAP_FAILED);
	s = k_open();
	a = create(s, 6 * MIB, 0);
	CHECK(a > 0);
	CHECK(!io_uring_queue_init(4, &ring, 0));
	CHECK_EQ(io_uring_register_buffers(&ring, &v, 1), -ENOMEM);
	close(a);
	CHECK_EQ(io_uring_register_buffers(&ring, &v, 1), 0);
	CHECK_EQ(create(s, 6 * MIB, 0), -ENOMEM);
	CHECK_EQ(io_uring_unregister_buffers(&ring), 0);
	a = create(s, 6 * MIB, 0);
	CHECK(a > 0);
	close(a);
	io_uring_queue_exit(&ring);
	close(s);
}

/* Another user's session: its opener pays, by the rights of who asks. */
TEST(passed_session)
{
	int s, pipes[2];
	pid_t pid;
	char c;

	limit(8 * MIB);
	CHECK(!pipe(pipes));
	s = k_open();			/* root's */
	pid = fork();
	if (!pid) {
		int a, t;

		be_user(2007);
		t = open("/dev/rlx", O_RDWR);
		a = create(s, 6 * MIB, 0);	/* root pays */
		if (a < 0 || create(s, 6 * MIB, 0) != -ENOMEM)
			_exit(1);
		if (create(t, 8 * MIB, 0) < 0)
			_exit(2);
		if (write(pipes[1], "x", 1) != 1)
			_exit(3);
		_exit(0);
	}
	CHECK_EQ(child_status(pid), 0);
	CHECK_EQ(read(pipes[0], &c, 1), 1);
	close(pipes[0]);
	close(pipes[1]);
	close(s);
}

TEST(shown_as_pinned)
{
	int s = k_open(), a, b, ro;
	struct rlx_ioc_arena_dup d = { .access = RLX_R };
	long before = pinned_kib();
	void *p;

	a = create(s, 3 * MIB, 0);
	b = create(s, 4 * MIB, k_huge(s));
	CHECK(a > 0 && b > 0);
	CHECK_EQ(pinned_kib() - before, 7 * KIB);
	ro = k_ioctl(a, RLX_IOC_ARENA_DUP, &d);
	p = mmap(NULL, 3 * MIB, PROT_READ, MAP_SHARED, ro, 0);
	CHECK(p != MAP_FAILED);
	CHECK_EQ(pinned_kib() - before, 7 * KIB);
	close(b);
	close(a);
	close(ro);
	CHECK_EQ(pinned_kib() - before, 3 * KIB);
	munmap(p, 3 * MIB);
	CHECK_EQ(pinned_kib(), before);
	close(s);
}

/* ---- memory cgroup -------------------------------------------------------- */

TEST(cgroup)
{
	int s, a;
	long long before, now;

	k_cgroup_new("max");
	k_cgroup_enter();
	s = k_open();
	before = k_cgroup_kernel();
	a = create(s, 24 * MIB, RLX_AF_HUGE_TRY);
	CHECK(a > 0);
	now = k_cgroup_kernel();
	CHECKF(now - before >= (long long)(24 * MIB) &&
	       now - before < (long long)(26 * MIB), "charged %lld", now - before);
	close(a);
	k_cgroup_uncharged(before);
	close(s);
	k_cgroup_leave();
	k_cgroup_free();
}

/* Copies that the kernel keeps of a request are nobody's longer than it is one. */
TEST(cgroup_of_copies)
{
	struct k_scene k = k_scene_new(&(struct k_scene_opts){ .depth = 1024 });
	int arena = k_arena(k.session, 4096, 0), i;
	long h = k_attach(k.ch, arena, RLX_R);
	struct rlx_slice *in = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
				    arena, 0);
	struct rlx_rq rq = k_rq(1, 1);
	struct rlx_complete c;
	struct rlx_cqe cqe;
	long long before;

	CHECK(in != MAP_FAILED);
	for (i = 0; i < RLX_RQ_SLICES_MAX; i++)
		in[i] = (struct rlx_slice){ h, RLX_R, 0, 8 };
	rq.flags = RLX_RQ_INDIRECT;
	rq.nr_slices = RLX_RQ_SLICES_MAX;
	rq.slice[0] = (struct rlx_slice){ h, RLX_R, 0, RLX_RQ_SLICES_MAX * sizeof(*in) };
	k_cgroup_new("max");
	k_cgroup_enter();
	before = k_cgroup_kernel();
	for (i = 0; i < 1024; i++)
		CHECK_EQ(k_submit(k.ch, &rq, 1, NULL), 1);
	for (i = 0; i < 3000 && k_cgroup_kernel() - before < (long long)MIB; i++)
		usleep(10000);
	CHECKF(k_cgroup_kernel() - before >= (long long)MIB, "charged %lld",
	       k_cgroup_kernel() - before);
	for (i = 0; i < 1024; i++) {
		c.tag = k_fetch1(k.ex);
		c.seq = k.desc[c.tag].seq;
		CHECK_EQ(k_commit(k.ex, &c, 1, NULL), 1);
		CHECK_EQ(k_reap(k.ch, &cqe, 1, 0, 0), 1);
	}
	k_cgroup_uncharged(before);
	k_cgroup_leave();
	k_cgroup_free();
	munmap(in, 4096);
	close(arena);
	k_scene_free(&k);
}

/* A group that is full makes it fail; nothing is killed for it. */
TEST(cgroup_full)
{
	int s, i;

	k_cgroup_new("16777216");
	k_cgroup_enter();
	s = k_open();
	for (i = 0; i < 4; i++) {
		CHECK_EQ(create(s, 24 * MIB, 0), -ENOMEM);
		CHECK_EQ(create(s, 24 * MIB, RLX_AF_HUGE_TRY), -ENOMEM);
	}
	CHECK_EQ(k_cgroup_killed(), 0);
	i = create(s, 4 * MIB, 0);
	CHECKF(i > 0, "and then: %d", i);
	close(i);
	close(s);
	k_cgroup_leave();
	k_cgroup_free();
}

TEST_MAIN()
