// SPDX-License-Identifier: MIT
/* Sessions and arenas: what they say, what they refuse, and how they end. */
/* rig: m32 also */
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"

#define PARAMS	"/sys/module/rlx/parameters/"
#define MIB	(1ull << 20)

static const unsigned long session_cmds[] = {
	RLX_IOC_QUERY, RLX_IOC_ARENA_CREATE, RLX_IOC_TIMELINE_CREATE,
	RLX_IOC_TIMELINE_WAIT, RLX_IOC_SERVICE_CREATE, RLX_IOC_CONNECT,
};

static const unsigned long arena_cmds[] = {
	RLX_IOC_ARENA_INFO, RLX_IOC_ARENA_EXPORT, RLX_IOC_ARENA_DUP,
	RLX_IOC_ARENA_SEAL, RLX_IOC_ARENA_SYNC,
};

static const unsigned long other_cmds[] = {
	RLX_IOC_TIMELINE_QUERY, RLX_IOC_SERVICE_INFO, RLX_IOC_EXECUTOR_ATTACH,
	RLX_IOC_FETCH, RLX_IOC_COMMIT, RLX_IOC_ATTACH, RLX_IOC_SUBMIT,
	RLX_IOC_REAP, _IO(RLX_IOC_MAGIC, 0x01), _IOWR(RLX_IOC_MAGIC + 1, 0x01, uint64_t),
	_IOR(RLX_IOC_MAGIC, 0x00, struct rlx_ioc_query),
	/* Numbers of linux/random.h, which were ours in the first ABI. */
	_IOWR('R', 0x00, struct rlx_ioc_query), _IOR('R', 0x00, int),
	_IOW('R', 0x03, int[2]), _IO('R', 0x04),
};

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static struct rlx_ioc_arena_create kernel_arena(uint64_t size, uint32_t flags)
{
	return (struct rlx_ioc_arena_create){
		.size = size, .kind = RLX_KIND_KERNEL, .flags = flags,
		.numa_node = -1, .memfd = -1, .cookie = 0x123456789abcull,
	};
}

static long create(int s, struct rlx_ioc_arena_create c)
{
	return k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
}

/* ---- session ----------------------------------------------------------- */

TEST(query)
{
	static const struct k_range zero[] = {
		K_FIELD(struct rlx_ioc_query, pad),
	};
	struct rlx_ioc_query q, blank = { 0 };
	int s = k_open(), i;

	memset(&q, 0xff, sizeof(q));
	q.pad = 0;
	CHECK_EQ(k_ioctl(s, RLX_IOC_QUERY, &q), 0);
	CHECK_EQ(q.abi, RLX_ABI);
	CHECK_EQ(q.pad, 0);
	CHECK_EQ(!!(q.features & RLX_FEAT_HUGE),
		 !access("/sys/kernel/mm/transparent_hugepage", F_OK));
	CHECK_EQ(q.limits[RLX_LIMIT_ARENA_BYTES], 64ull << 30);
	CHECK_EQ(q.limits[RLX_LIMIT_SESSIONS], 1024);
	CHECK_EQ(q.limits[RLX_LIMIT_ARENAS], 4096);
	CHECK_EQ(q.limits[RLX_LIMIT_HUGE_BYTES], 2 * MIB);
	for (i = RLX_LIMIT_HUGE_BYTES + 1; i < RLX_LIMIT_NR; i++)
		CHECK_EQ(q.limits[i], 0);
	CHECK_EQ((uint64_t)k_file_number(K_TOTALS "features"), q.features);
	CHECK_EQ(k_file_number(K_TOTALS "abi"), RLX_ABI);
	k_abi_check(s, RLX_IOC_QUERY, &blank, 0, zero, COUNT(zero));
	k_abi_foreign(s, arena_cmds, COUNT(arena_cmds));
	k_abi_foreign(s, other_cmds, COUNT(other_cmds));
	close(s);
}

TEST(device)
{
	struct stat st;
	int s = k_open();

	CHECK(!fstat(s, &st));
	CHECK(S_ISCHR(st.st_mode));
	CHECK_EQ(st.st_mode & 07777, 0660);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, s, 0) == MAP_FAILED);
	CHECK_EQ(errno, ENODEV);
	CHECK_EQ(fcntl(s, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(k_file_number(K_TOTALS "nr_sessions"), 1);
	close(s);
	CHECK_EQ(k_file_number(K_TOTALS "nr_sessions"), 0);
}

TEST(too_many_sessions)
{
	int fd[8], i;

	k_file_write(PARAMS "max_sessions", 8);
	for (i = 0; i < 8; i++)
		fd[i] = k_open();
	CHECK_EQ(open("/dev/rlx", O_RDWR), -1);
	CHECK_EQ(errno, ENOSPC);
	close(fd[3]);
	fd[3] = k_open();
	k_file_write(PARAMS "max_sessions", 1024);
	for (i = 0; i < 8; i++)
		close(fd[i]);
}

/* ---- making an arena ---------------------------------------------------- */

TEST(sizes)
{
	static const uint64_t size[] = {
		4096, 8192, 15 * 4096, 16 * 4096, 17 * 4096, 2 * MIB - 4096,
		2 * MIB, 2 * MIB + 4096, 5 * MIB + 3 * 4096, 16 * MIB,
	};
	static const uint32_t flags[] = { 0, RLX_AF_HUGE_TRY };
	struct rlx_ioc_arena_info in;
	int s = k_open(), fd;
	unsigned char *p;
	uint64_t i, j;

	for (i = 0; i < 2 * COUNT(size); i++) {
		uint64_t n = size[i / 2];

		fd = create(s, kernel_arena(n, flags[i % 2]));
		CHECKF(fd > 0, "%llu bytes: %d", (unsigned long long)n, fd);
		CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
		in = k_arena_info(fd);
		CHECK_EQ(in.size, n);
		CHECK_EQ(in.cookie, 0x123456789abcull);
		CHECK(in.id);
		CHECK_EQ(in.kind, RLX_KIND_KERNEL);
		CHECK_EQ(in.flags, flags[i % 2]);
		CHECK_EQ(in.access, RLX_R | RLX_W);
		CHECK_EQ(in.seals, 0);
		CHECK_EQ(in.nr_huge, flags[i % 2] && k_huge(s) == RLX_AF_HUGE_REQUIRE ?
			 n / (2 * MIB) : 0);
		CHECK(in.nr_chunks >= 1 && in.nr_chunks <= n / 4096);
		CHECK_EQ(in.nr_leases, 0);
		CHECK_EQ(in.nr_exports, 0);
		CHECK_EQ(in.numa_node, 0);
		CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 1);
		CHECK_EQ(k_file_number(K_TOTALS "bytes"), n);
		CHECK_EQ(k_file_number(K_TOTALS "huge_bytes"), in.nr_huge * 2 * MIB);

		p = k_map(fd, n, PROT_READ | PROT_WRITE, 0);
		for (j = 0; j < n; j++)
			if (p[j])
				CHECKF(0, "byte %llu is not zero",
				       (unsigned long long)j);
		memset(p, 0x5a, n);
		CHECK(!munmap(p, n));
		close(fd);
		CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 0);
		CHECK_EQ(k_file_number(K_TOTALS "bytes"), 0);
		CHECK_EQ(k_file_number(K_TOTALS "huge_bytes"), 0);
	}
	close(s);
}

TEST(refusals)
{
	int s = k_open(), fd = k_arena(s, 4096, 0);
	struct rlx_ioc_arena_create c;

#define REFUSED(err, ...)						\
	do {								\
		c = kernel_arena(4 * MIB, 0);				\
		__VA_ARGS__;						\
		CHECK_EQ(create(s, c), -(err));				\
	} while (0)
	REFUSED(EINVAL, c.size = 0);
	REFUSED(EINVAL, c.size = 1);
	REFUSED(EINVAL, c.size = 4095);
	REFUSED(EINVAL, c.size = 4097);
	REFUSED(EINVAL, c.size = (64ull << 30) + 4096);
	REFUSED(EINVAL, c.size = 1ull << 47);
	REFUSED(EINVAL, c.size = (1ull << 47) + 4096);
	REFUSED(EINVAL, c.size = 1ull << 63);
	REFUSED(EINVAL, c.size = ~0ull);
	REFUSED(EINVAL, c.size = ~4095ull);
	REFUSED(EINVAL, c.kind = 4);
	REFUSED(EINVAL, c.kind = ~0u);
	REFUSED(EINVAL, c.flags = 1u << 4);
	REFUSED(EINVAL, c.flags = 1u << 31);
	REFUSED(EINVAL, c.flags = RLX_AF_RDONLY);
	REFUSED(EINVAL, c.flags = RLX_AF_HUGE_REQUIRE, c.size = MIB);
	REFUSED(EINVAL, c.flags = RLX_AF_HUGE_REQUIRE, c.size = 2 * MIB + 4096);
	REFUSED(EINVAL, c.numa_node = -2);
	REFUSED(EINVAL, c.numa_node = 1);
	REFUSED(EINVAL, c.numa_node = 63);
	REFUSED(EINVAL, c.numa_node = 1 << 20);
	REFUSED(EINVAL, c.numa_node = INT32_MAX);
	REFUSED(EINVAL, c.numa_node = INT32_MIN);
	REFUSED(EINVAL, c.memfd = 0);
	REFUSED(EINVAL, c.memfd = fd);
	REFUSED(EINVAL, c.memfd = -2);
	REFUSED(EINVAL, c.addr = 4096);
	/* More than there is: at once, not after hunting for it. */
	REFUSED(ENOMEM, c.size = 32ull << 30);
	CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 1);
	close(fd);
	close(s);
}

TEST(structs)
{
	static const struct k_range create_zero[] = {
		K_FIELD(struct rlx_ioc_arena_create, addr),
		K_FIELD(struct rlx_ioc_arena_create, nodes),
		K_FIELD(struct rlx_ioc_arena_create, reserved),
	}, info_zero[] = {
		K_FIELD(struct rlx_ioc_arena_info, pad),
		K_FIELD(struct rlx_ioc_arena_info, reserved),
	}, dup_zero[] = {
		K_FIELD(struct rlx_ioc_arena_dup, flags),
		K_FIELD(struct rlx_ioc_arena_dup, reserved),
	}, seal_zero[] = {
		K_FIELD(struct rlx_ioc_arena_seal, pad),
		K_FIELD(struct rlx_ioc_arena_seal, reserved),
	};
	struct rlx_ioc_arena_create c = kernel_arena(4096, 0);
	struct rlx_ioc_arena_info i = { 0 };
	struct rlx_ioc_arena_dup d = { .access = RLX_R };
	struct rlx_ioc_arena_seal e = { .seals = RLX_KSEAL_NO_EXPORT };
	int s = k_open(), fd = k_arena(s, 4096, 0);

	k_abi_check(s, RLX_IOC_ARENA_CREATE, &c, 0, create_zero,
		    COUNT(create_zero));
	k_abi_check(fd, RLX_IOC_ARENA_INFO, &i, 0, info_zero, COUNT(info_zero));
	k_abi_check(fd, RLX_IOC_ARENA_DUP, &d, 0, dup_zero, COUNT(dup_zero));
	k_abi_check(fd, RLX_IOC_ARENA_SEAL, &e, 0, seal_zero, COUNT(seal_zero));
	k_abi_foreign(fd, session_cmds, COUNT(session_cmds));
	k_abi_foreign(fd, other_cmds, COUNT(other_cmds) - 3);
	close(fd);
	close(s);
}

/* A struct that cannot be written back must leave nothing, not even an fd. */
TEST(read_only_struct)
{
	struct rlx_ioc_arena_info *ro;
	int s = k_open(), fd = k_arena(s, 4096, 0);

	ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(ro != MAP_FAILED);
	CHECK_EQ(k_ioctl(fd, RLX_IOC_ARENA_INFO, ro), -EFAULT);
	CHECK_EQ(k_ioctl(s, RLX_IOC_QUERY, ro), -EFAULT);
	close(fd);
	close(s);
}

TEST(huge_required)
{
	int s = k_open();
	int fd = create(s, kernel_arena(8 * MIB, RLX_AF_HUGE_REQUIRE));
	struct rlx_ioc_arena_info in;

	if (k_huge(s) != RLX_AF_HUGE_REQUIRE) {
		CHECK_EQ(fd, -ENOMEM);
		in = k_arena_info(k_arena(s, 8 * MIB, RLX_AF_HUGE_TRY));
		CHECK_EQ(in.nr_huge, 0);
		return;
	}
	CHECK(fd > 0);
	in = k_arena_info(fd);
	CHECK_EQ(in.nr_huge, 4);
	CHECK(in.nr_chunks <= 4);
	close(fd);
	close(s);
}

/* ---- limits ------------------------------------------------------------- */

TEST(too_many_arenas)
{
	int s = k_open(), t = k_open(), fd[8], i;

	k_file_write(PARAMS "max_arenas", 8);
	for (i = 0; i < 8; i++)
		fd[i] = k_arena(s, 4096, 0);
	CHECK_EQ(create(s, kernel_arena(4096, 0)), -ENOSPC);
	i = k_arena(t, 4096, 0);	/* of the session, not of the user */
	close(i);
	close(fd[0]);
	fd[0] = k_arena(s, 4096, 0);
	/* Another fd of it is not another arena, but keeps it. */
	i = k_dup(fd[0], RLX_R);
	CHECK(i > 0);
	close(fd[0]);
	CHECK_EQ(create(s, kernel_arena(4096, 0)), -ENOSPC);
	close(i);
	fd[0] = k_arena(s, 4096, 0);
	k_file_write(PARAMS "max_arenas", 4096);
	for (i = 0; i < 8; i++)
		close(fd[i]);
	close(s);
	close(t);
}

static void check_cap(const char *param)
{
	int s = k_open(), t = k_open(), a, b;

	k_file_write(param, 8 * MIB);
	CHECK_EQ(create(s, kernel_arena(8 * MIB + 4096, 0)), -ENOMEM);
	a = k_arena(s, 6 * MIB, 0);
	CHECK_EQ(create(t, kernel_arena(2 * MIB + 4096, 0)), -ENOMEM);
	b = k_arena(t, 2 * MIB, 0);
	CHECK_EQ(create(t, kernel_arena(4096, 0)), -ENOMEM);
	close(b);
	close(s);		/* the arena still counts */
	CHECK_EQ(create(t, kernel_arena(2 * MIB + 4096, 0)), -ENOMEM);
	close(a);
	a = k_arena(t, 8 * MIB, 0);
	k_file_write(param, 0);
	close(a);
	close(t);
}

TEST(user_cap)
{
	check_cap(PARAMS "max_user_bytes");
}

TEST(total_cap)
{
	check_cap(PARAMS "max_total_bytes");
}

TEST(arena_cap)
{
	int s = k_open(), fd;

	k_file_write(PARAMS "max_arena_bytes", MIB);
	CHECK_EQ(create(s, kernel_arena(MIB + 4096, 0)), -EINVAL);
	fd = k_arena(s, MIB, 0);
	k_file_write(PARAMS "max_arena_bytes", 64ll << 30);
	close(fd);
	close(s);
}

static long make_arena(void *arg)
{
	long fd = create(*(int *)arg, kernel_arena(8192, 0));

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static long make_huge_arena(void *arg)
{
	long fd = create(*(int *)arg, kernel_arena(4 * MIB + 17 * 4096,
						   RLX_AF_HUGE_TRY));

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static long make_dup(void *arg)
{
	long fd = k_dup(*(int *)arg, RLX_R);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static long make_session(void *arg)
{
	int fd = open("/dev/rlx", O_RDWR | O_CLOEXEC);

	(void)arg;
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static long make_seal(void *arg)
{
	return k_seal(*(int *)arg, RLX_KSEAL_NO_EXPORT);
}

static long ask_info(void *arg)
{
	struct rlx_ioc_arena_info i = { 0 };

	return k_ioctl(*(int *)arg, RLX_IOC_ARENA_INFO, &i);
}

static long ask_query(void *arg)
{
	struct rlx_ioc_query q = { 0 };

	return k_ioctl(*(int *)arg, RLX_IOC_QUERY, &q);
}

static long map_touch(void *arg)
{
	void *p = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
		       *(int *)arg, 0);
	long ret = 0;

	if (p == MAP_FAILED)
		return -errno;
#ifdef MADV_POPULATE_WRITE
	if (madvise(p, 16 * 4096, MADV_POPULATE_WRITE))
		ret = -errno;
#endif
	munmap(p, 16 * 4096);
	return ret;
}

TEST(no_descriptors)
{
	int s = k_open(), fd = k_arena(s, 4096, 0);

	k_no_fd(make_session, NULL);
	k_no_fd(make_arena, &s);
	k_no_fd(make_dup, &fd);
	CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 1);
	close(fd);
	close(s);
}

TEST(faults)
{
	static const int errors[] = { -EFAULT, -ENFILE, 0 };
	static const int map_errors[] = { -EFAULT, -EAGAIN, 0 };
	int s = k_open(), fd = k_arena(s, 64 * 4096, 0);

	k_fail_nth("open", make_session, NULL, errors);
	k_fail_nth("query", ask_query, &s, errors);
	k_fail_nth("create", make_arena, &s, errors);
	k_fail_nth("create huge", make_huge_arena, &s, errors);
	k_fail_nth("info", ask_info, &fd, errors);
	k_fail_nth("dup", make_dup, &fd, errors);
	k_fail_nth("seal", make_seal, &fd, errors);
	k_fail_nth("mmap", map_touch, &fd, map_errors);
	CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 1);
	CHECK_EQ(k_file_number(K_TOTALS "bytes"), 64 * 4096);
	close(fd);
	close(s);
}

#define FAIL	"/sys/kernel/debug/fail_page_alloc/"

/* Without huge pages: what only tries goes on with small ones. */
TEST(no_huge_pages)
{
	struct rlx_ioc_arena_info in;
	int s = k_open(), fd;

	if (access(FAIL "min-order", F_OK))
		rlx_test_skip("no failing page allocations in this kernel");
	k_file_write(FAIL "min-order", 9);
	k_file_write(FAIL "ignore-gfp-wait", 0);
	k_file_write(FAIL "verbose", 0);
	k_file_write(FAIL "interval", 1);
	k_file_write(FAIL "times", -1);
	k_file_write(FAIL "probability", 100);
	CHECK_EQ(create(s, kernel_arena(4 * MIB, RLX_AF_HUGE_REQUIRE)), -ENOMEM);
	fd = create(s, kernel_arena(4 * MIB + 3 * 4096, RLX_AF_HUGE_TRY));
	k_file_write(FAIL "min-order", 4);
	CHECKF(fd > 0, "created: %d", fd);
	in = k_arena_info(fd);
	CHECK_EQ(in.nr_huge, 0);
	CHECKF(in.nr_chunks <= 128 + 3, "%llu pieces",
	       (unsigned long long)in.nr_chunks);
	close(fd);
	fd = create(s, kernel_arena(MIB, RLX_AF_HUGE_TRY));
	k_file_write(FAIL "probability", 0);
	CHECKF(fd > 0, "created: %d", fd);
	close(fd);
	close(s);
}

/* ---- rights ------------------------------------------------------------- */

TEST(duplicates)
{
	int s = k_open(), rw = k_arena(s, 8192, 0), ro, rw2, ro2;
	unsigned char *w, *r;

	CHECK_EQ(k_dup(rw, 0), -EINVAL);
	CHECK_EQ(k_dup(rw, RLX_W), -EINVAL);
	CHECK_EQ(k_dup(rw, RLX_R | 4), -EINVAL);
	ro = k_dup(rw, RLX_R);
	rw2 = k_dup(rw, RLX_R | RLX_W);
	CHECK(ro > 0 && rw2 > 0);
	CHECK_EQ(fcntl(ro, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(fcntl(ro, F_GETFL) & O_ACCMODE, O_RDONLY);
	CHECK_EQ(fcntl(rw2, F_GETFL) & O_ACCMODE, O_RDWR);
	CHECK_EQ(k_arena_info(ro).id, k_arena_info(rw).id);
	CHECK_EQ(k_arena_info(ro).access, RLX_R);
	CHECK_EQ(k_arena_info(rw2).access, RLX_R | RLX_W);
	CHECK_EQ(k_dup(ro, RLX_R | RLX_W), -EACCES);
	ro2 = k_dup(ro, RLX_R);
	CHECK(ro2 > 0);

	/* The first fd and the session go; the memory does not. */
	w = k_map(rw2, 8192, PROT_READ | PROT_WRITE, 0);
	w[4097] = 0xa5;
	close(s);
	close(rw);
	r = k_map(ro2, 8192, PROT_READ, 0);
	CHECK_EQ(r[4097], 0xa5);
	CHECK(mmap(NULL, 8192, PROT_WRITE, MAP_SHARED, ro2, 0) == MAP_FAILED);
	CHECK_EQ(errno, EACCES);
	CHECK_EQ(mprotect(r, 8192, PROT_READ | PROT_WRITE), -1);
	CHECK_EQ(errno, EACCES);
	close(ro);
	close(ro2);
	close(rw2);
	w[4097] = 0xa6;
	CHECK_EQ(r[4097], 0xa6);
	CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 1);
	munmap(w, 8192);
	CHECK_EQ(r[4097], 0xa6);
	munmap(r, 8192);
	CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 0);
}

/* No way back to a writable file through /proc. */
TEST(reopen)
{
	int s = k_open(), rw = k_arena(s, 4096, 0), ro = k_dup(rw, RLX_R);
	char path[64];

	CHECK(ro > 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ro);
	CHECK_EQ(open(path, O_RDWR), -1);
	CHECKF(errno == ENXIO || errno == EACCES, "open: %s", strerror(errno));
	CHECK_EQ(open(path, O_RDONLY), -1);
	close(ro);
	close(rw);
	close(s);
}

TEST(file_calls)
{
	int s = k_open(), fd = k_arena(s, 4096, 0);
	struct statfs fs;
	struct stat st;
	char buf[16];

	CHECK(!fstatfs(fd, &fs));
	CHECK_EQ((unsigned int)fs.f_type, RLX_FS_MAGIC);
	CHECK(!fstat(fd, &st));
	CHECK_EQ(read(fd, buf, sizeof(buf)), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(write(fd, buf, sizeof(buf)), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(lseek(fd, 0, SEEK_END), -1);
	CHECK_EQ(errno, ESPIPE);
	CHECK_EQ(ftruncate(fd, 0), -1);
	CHECK_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			   4096), -1);
	close(fd);
	close(s);
}

TEST(seals)
{
	int s = k_open(), fd = k_arena(s, 8192, 0), ro = k_dup(fd, RLX_R);
	void *p, *r;

	CHECK_EQ(k_seal(fd, 0), -EINVAL);
	CHECK_EQ(k_seal(fd, 1u << 5), -EINVAL);
	CHECK_EQ(k_seal(ro, RLX_KSEAL_NO_EXPORT), -EACCES);

	p = k_map(fd, 4096, PROT_READ | PROT_WRITE, 0);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_NO_WRITE), -EBUSY);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_NO_WRITE | RLX_KSEAL_NO_EXPORT), -EBUSY);
	CHECK_EQ(k_arena_info(fd).seals, 0);
	munmap(p, 4096);
	/* What may be made writable is as good as writable. */
	p = k_map(fd, 4096, PROT_READ, 0);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_NO_WRITE), -EBUSY);
	munmap(p, 4096);
	r = k_map(ro, 8192, PROT_READ, 0);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_NO_WRITE), 0);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_NO_WRITE), 0);
	CHECK_EQ(k_arena_info(ro).seals, RLX_KSEAL_NO_WRITE);

	CHECK(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK_EQ(errno, EPERM);
	p = k_map(fd, 4096, PROT_READ, 0);
	CHECK_EQ(mprotect(p, 4096, PROT_READ | PROT_WRITE), -1);
	CHECK_EQ(errno, EACCES);
	CHECK_EQ(k_dup(fd, RLX_R | RLX_W), -EPERM);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_NO_EXPORT | RLX_KSEAL_SEAL), 0);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_NO_ATTACH), -EPERM);
	CHECK_EQ(k_arena_info(fd).seals, RLX_KSEAL_NO_WRITE | RLX_KSEAL_NO_EXPORT |
		 RLX_KSEAL_SEAL);
	munmap(p, 4096);
	munmap(r, 8192);
	close(ro);
	close(fd);

	fd = create(s, kernel_arena(4096, RLX_AF_NOEXPORT));
	CHECK(fd > 0);
	CHECK_EQ(k_arena_info(fd).seals, RLX_KSEAL_NO_EXPORT);
	close(fd);
	close(s);
}

/* Writers that are there stay, and may multiply by fork(); no other comes. */
TEST(seal_future)
{
	int s = k_open(), fd = k_arena(s, 8192, 0);
	int status;
	pid_t pid;
	char *p, *r;

	p = k_map(fd, 8192, PROT_READ | PROT_WRITE, 0);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_FUTURE_WRITE), 0);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_FUTURE_WRITE), 0);
	p[0] = 1;
	CHECK(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK_EQ(errno, EPERM);
	CHECK_EQ(k_dup(fd, RLX_R | RLX_W), -EPERM);
	r = k_map(fd, 4096, PROT_READ, 0);
	CHECK_EQ(mprotect(r, 4096, PROT_READ | PROT_WRITE), -1);
	CHECK_EQ(errno, EACCES);

	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		p[1] = 2;
		munmap(p, 4096);
		_exit(p[4096]);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK_EQ(r[1], 2);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_NO_WRITE), -EBUSY);
	munmap(p, 4096);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_NO_WRITE), -EBUSY);
	munmap(p + 4096, 4096);
	CHECK_EQ(k_seal(fd, RLX_KSEAL_NO_WRITE), 0);
	CHECK_EQ(k_arena_info(fd).seals, RLX_KSEAL_FUTURE_WRITE | RLX_KSEAL_NO_WRITE);
	munmap(r, 4096);
	close(fd);
	close(s);
}

/* ---- what is shown ------------------------------------------------------ */

TEST(shown)
{
	int s = k_open(), fd = k_arena(s, 4 * MIB, RLX_AF_HUGE_TRY), i;
	static const int fds[] = { 0, 1 };
	char buf[8192], path[64], want[64];

	for (i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d",
			 fds[i] ? fd : s);
		k_file_read(path, buf, sizeof(buf));
		CHECK(strstr(buf, i ? "rlx-kind:\tarena\n" :
			     "rlx-kind:\tsession\n"));
		CHECK(strstr(buf, "rlx-id:\t"));
	}
	CHECK(strstr(buf, "rlx-size:\t4194304\n"));
	CHECK(strstr(buf, k_huge(s) == RLX_AF_HUGE_REQUIRE ? "rlx-huge:\t2\n" :
		     "rlx-huge:\t0\n"));

	k_file_read("/sys/kernel/debug/rlx/arenas", buf, sizeof(buf));
	snprintf(want, sizeof(want), "\n%llu ",
		 (unsigned long long)k_arena_info(fd).id);
	CHECKF(strstr(buf, want), "arenas: %s", buf);
	CHECK(!strstr(buf, "ffff"));
	k_file_read("/sys/kernel/debug/rlx/sessions", buf, sizeof(buf));
	snprintf(want, sizeof(want), " %d 0 1 4194304\n", getpid());
	CHECKF(strstr(buf, want), "sessions: %s, not %s", buf, want);
	CHECK(!strstr(buf, "ffff"));
	close(fd);
	close(s);
}

TEST_MAIN()
