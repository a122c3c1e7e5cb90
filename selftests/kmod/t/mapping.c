// SPDX-License-Identifier: MIT
/*
 * What may be done with a mapping of an arena, and what may not: whether it is
 * huge and can be pinned at once, and every call that looks at mappings.
 */
/* rig: timeout=120 also */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"

#define PAGE	4096ul
#define MIB	(1ul << 20)
#define HUGE	(2 * MIB)

static long seal_write(int fd)
{
	return k_seal(fd, RLX_KSEAL_NO_WRITE);
}

static unsigned char *map(int fd, size_t size)
{
	return k_map(fd, size, PROT_READ | PROT_WRITE, 0);
}

static void refused(int err, size_t size, int prot, int flags, int fd, off_t off)
{
	CHECK(mmap(NULL, size, prot, flags, fd, off) == MAP_FAILED);
	CHECKF(errno == err, "mmap: %s, not %s", strerror(errno), strerror(err));
}

/* A pattern of its place, so that a page in the wrong one shows. */
static void fill(unsigned char *p, size_t size, uint64_t salt)
{
	uint64_t *w = (uint64_t *)p;
	size_t i;

	for (i = 0; i < size / 8; i += 64)
		w[i] = i * 0x9e3779b97f4a7c15ull + salt;
}

static void check(const unsigned char *p, size_t size, uint64_t salt)
{
	const uint64_t *w = (const uint64_t *)p;
	size_t i;

	for (i = 0; i < size / 8; i += 64)
		CHECKF(w[i] == i * 0x9e3779b97f4a7c15ull + salt,
		       "the word at %zu is not what it was", i * 8);
}

/* A line of the entry of @addr in smaps, in KiB, or its flags. */
static long smaps(const void *addr, const char *key, char *flags, size_t size)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long from, to;
	bool here = false;
	char line[512];
	long kib = -1;

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = from == (unsigned long)addr;
		else if (here && !strncmp(line, key, strlen(key))) {
			if (flags)
				snprintf(flags, size, "%s", line);
			kib = atol(line + strlen(key) + 1);
		}
	}
	fclose(f);
	return kib;
}

static void touch(unsigned char *p, size_t size)
{
	size_t i;

	for (i = 0; i < size; i += PAGE)
		p[i]++;
}

/* Whether the kernel lets io_uring register mappings of files: from 6.5. */
static bool files_pinnable(void)
{
	struct io_uring ring;
	struct iovec v = { .iov_len = PAGE };
	int s = k_open(), fd = k_arena(s, PAGE, 0), ret;

	v.iov_base = map(fd, PAGE);
	CHECK(!io_uring_queue_init(4, &ring, 0));
	ret = io_uring_register_buffers(&ring, &v, 1);
	io_uring_queue_exit(&ring);
	munmap(v.iov_base, PAGE);
	close(fd);
	close(s);
	CHECKF(!ret || ret == -EOPNOTSUPP, "register: %s", strerror(-ret));
	return !ret;
}

/* ---- huge, pinnable ------------------------------------------------------ */

TEST(huge)
{
	const size_t size = 32 * MIB;
	int s = k_open(), fd = k_arena(s, size, k_huge(s));
	unsigned char *p = map(fd, size), *q;
	char flags[512];

	k_need_huge(s);
	CHECKF(!((uintptr_t)p & (HUGE - 1)), "mapped at %p", (void *)p);
	CHECK_EQ(smaps(p, "FilePmdMapped:", NULL, 0), 0);
	touch(p, size);
	CHECK_EQ(smaps(p, "FilePmdMapped:", NULL, 0), size >> 10);
	CHECK_EQ(smaps(p, "Rss:", NULL, 0), size >> 10);
	CHECK_EQ(smaps(p, "Anonymous:", NULL, 0), 0);
	smaps(p, "VmFlags:", flags, sizeof(flags));
	CHECKF(strstr(flags, " de ") && strstr(flags, " dd "),
	       "neither expanded nor dumped: %s", flags);
	fill(p, size, 1);

	/* Part of a huge page goes: the rest stays, in small pages. */
	CHECK(!munmap(p + HUGE + PAGE, PAGE));
	check(p, HUGE + PAGE, 1);
	CHECK(!munmap(p, size));

	/* Where the addresses do not fit it is mapped small, and the same. */
	q = mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(q != MAP_FAILED);
	p = (unsigned char *)(((uintptr_t)q + HUGE - 1) & -HUGE) + PAGE;
	CHECK(mmap(p, size - HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		   fd, 0) == p);
	check(p, size - HUGE, 1);
	CHECK_EQ(smaps(p, "FilePmdMapped:", NULL, 0), 0);
	munmap(q, size + HUGE);
	close(fd);
	close(s);
}

/* Makes and frees about @bytes of slabs. */
static void use_slabs(size_t bytes)
{
	static const char data[3000];
	int pair[2], room = 1 << 30;
	size_t n;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	CHECK(!setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)));
	for (n = 0; n < bytes; n += PAGE)
		CHECK_EQ(send(pair[0], data, sizeof(data), MSG_DONTWAIT),
			 sizeof(data));
	close(pair[0]);
	close(pair[1]);
}

/*
 * Pages that were others' before are mapped huge as well: a slab leaves a pointer
 * where the kernel (6.12, finish_fault()) looks for the place in the file, and what
 * lies behind the end of a file it maps small.
 */
TEST(huge_after_slabs)
{
	const size_t size = 32 * MIB;
	int s = k_open(), fd;
	unsigned char *p;

	k_need_huge(s);
	use_slabs(2 * size);
	fd = k_arena(s, size, RLX_AF_HUGE_REQUIRE);
	p = map(fd, size);
	touch(p, size);
	CHECK_EQ(smaps(p, "FilePmdMapped:", NULL, 0), size >> 10);
	munmap(p, size);
	close(fd);
	close(s);
}

/* Huge pages and a tail of small ones, at an offset. */
TEST(mixed)
{
	const size_t size = 6 * MIB + 37 * PAGE;
	int s = k_open(), fd = k_arena(s, size, RLX_AF_HUGE_TRY);
	unsigned char *p = map(fd, size), *q;

	fill(p, size, 2);
	check(p, size, 2);
	CHECK_EQ(smaps(p, "FilePmdMapped:", NULL, 0),
		 k_huge(s) == RLX_AF_HUGE_REQUIRE ? 6 * MIB >> 10 : 0);
	q = k_map(fd, 3 * MIB, PROT_READ, 3 * MIB);
	CHECK(!memcmp(q, p + 3 * MIB, 3 * MIB));
	munmap(q, 3 * MIB);
	q = k_map(fd, 37 * PAGE, PROT_READ, 6 * MIB);
	CHECK(!memcmp(q, p + 6 * MIB, 37 * PAGE));
	munmap(q, 37 * PAGE);
	munmap(p, size);
	close(fd);
	close(s);
}

static void check_pin(uint32_t how)
{
	const size_t size = 8 * MIB;
	int s = k_open(), fd = k_arena(s, size, how), pipes[2], ret;
	struct iovec v = { .iov_base = map(fd, size), .iov_len = size };
	bool can = files_pinnable();
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	unsigned char *p = v.iov_base;

	CHECK(!io_uring_queue_init(4, &ring, 0));
	ret = io_uring_register_buffers(&ring, &v, 1);
	CHECKF(ret == (can ? 0 : -EOPNOTSUPP), "register: %s", strerror(-ret));
	if (can) {
		CHECK(!pipe(pipes));
		CHECK_EQ(write(pipes[1], "pinned and written", 18), 18);
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_read_fixed(sqe, pipes[0], p + 5 * MIB, 18, 0, 0);
		CHECK_EQ(io_uring_submit(&ring), 1);
		CHECK(!io_uring_wait_cqe(&ring, &cqe));
		CHECK_EQ(cqe->res, 18);
		io_uring_cqe_seen(&ring, cqe);
		CHECK(!memcmp(p + 5 * MIB, "pinned and written", 18));

		/* A pin can write when the mapping is long gone. */
		munmap(p, size);
		CHECK_EQ(seal_write(fd), -EBUSY);
		CHECK(!io_uring_unregister_buffers(&ring));
		close(pipes[0]);
		close(pipes[1]);
		CHECK_EQ(seal_write(fd), 0);
	} else {
		munmap(p, size);
		CHECK_EQ(seal_write(fd), 0);
	}
	io_uring_queue_exit(&ring);
	close(fd);
	close(s);
}

TEST(pin_small)
{
	check_pin(0);
}

TEST(pin_huge)
{
	check_pin(k_huge(k_open()));
}

/* Pinned pages outlive their arena, and come back with the pin. */
TEST(pin_outlives)
{
	const size_t size = 4 * MIB;
	int s = k_open(), fd = k_arena(s, size, k_huge(s)), pipes[2];
	struct iovec v = { .iov_base = map(fd, size), .iov_len = size };
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	char buf[16] = "";

	if (!files_pinnable())
		rlx_test_skip("io_uring registers no file mappings here");
	memcpy((char *)v.iov_base + HUGE, "still there", 12);
	CHECK(!io_uring_queue_init(4, &ring, 0));
	CHECK(!io_uring_register_buffers(&ring, &v, 1));
	munmap(v.iov_base, size);
	close(fd);
	close(s);
	CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 0);
	CHECK_EQ(k_file_number(K_TOTALS "bytes"), 0);

	CHECK(!pipe(pipes));
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_write_fixed(sqe, pipes[1], (char *)v.iov_base + HUGE, 12,
				  0, 0);
	CHECK_EQ(io_uring_submit(&ring), 1);
	CHECK(!io_uring_wait_cqe(&ring, &cqe));
	CHECK_EQ(cqe->res, 12);
	io_uring_cqe_seen(&ring, cqe);
	CHECK_EQ(read(pipes[0], buf, sizeof(buf)), 12);
	CHECK(!memcmp(buf, "still there", 12));
	io_uring_queue_exit(&ring);
	close(pipes[0]);
	close(pipes[1]);
}

/* Pages in a pipe are another reference that outlives the arena. */
TEST(spliced)
{
	int s = k_open(), fd = k_arena(s, 8 * PAGE, 0), pipes[2];
	unsigned char *p = map(fd, 8 * PAGE), buf[4 * PAGE];
	struct iovec v = { .iov_base = p + PAGE, .iov_len = 4 * PAGE };

	fill(p, 8 * PAGE, 3);
	CHECK(!pipe(pipes));
	CHECK_EQ(vmsplice(pipes[1], &v, 1, 0), 4 * PAGE);
	munmap(p, 8 * PAGE);
	close(fd);
	close(s);
	CHECK_EQ(read(pipes[0], buf, sizeof(buf)), 4 * PAGE);
	CHECK_EQ(*(uint64_t *)buf, 512 * 0x9e3779b97f4a7c15ull + 3);
	close(pipes[0]);
	close(pipes[1]);
}

/* ---- refusals ------------------------------------------------------------ */

TEST(ranges)
{
	int s = k_open(), fd = k_arena(s, 8 * PAGE, 0), ro = k_dup(fd, RLX_R);
	const int rw = PROT_READ | PROT_WRITE;
	unsigned char *p;

	refused(EINVAL, 9 * PAGE, rw, MAP_SHARED, fd, 0);
	refused(EINVAL, PAGE, rw, MAP_SHARED, fd, 8 * PAGE);
	refused(EINVAL, 2 * PAGE, rw, MAP_SHARED, fd, 7 * PAGE);
	refused(EINVAL, PAGE, rw, MAP_SHARED, fd, 1l << 40);
	refused(EINVAL, PAGE, rw, MAP_SHARED, fd, (1l << 62));
	CHECK(mmap(NULL, 2 * PAGE, rw, MAP_SHARED, fd, -PAGE) == MAP_FAILED);
	p = k_map(fd, PAGE, rw, 7 * PAGE);
	p[PAGE - 1] = 1;
	munmap(p, PAGE);
	p = k_map(fd, 8 * PAGE, rw, 0);
	CHECK_EQ(p[8 * PAGE - 1], 1);
	munmap(p, 8 * PAGE);

	refused(EINVAL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	refused(EINVAL, PAGE, rw, MAP_PRIVATE, fd, 0);
	refused(EINVAL, PAGE, PROT_READ, MAP_PRIVATE, ro, 0);
	refused(EINVAL, PAGE, rw, MAP_PRIVATE, ro, 0);
	refused(EACCES, PAGE, rw, MAP_SHARED, ro, 0);
	refused(EACCES, PAGE, PROT_WRITE, MAP_SHARED, ro, 0);
	refused(EPERM, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	close(ro);
	close(fd);
	close(s);
}

TEST(protection)
{
	int s = k_open(), fd = k_arena(s, 4 * PAGE, 0), ro = k_dup(fd, RLX_R);
	unsigned char *p = map(fd, 4 * PAGE), *r = k_map(ro, 4 * PAGE, PROT_READ, 0);

	fill(p, 4 * PAGE, 4);
	CHECK(!mprotect(p, PAGE, PROT_NONE));
	CHECK(!mprotect(p + 2 * PAGE, PAGE, PROT_READ));
	CHECK(!mprotect(p, 4 * PAGE, PROT_READ | PROT_WRITE));
	check(p, 4 * PAGE, 4);
	CHECK(mprotect(p, PAGE, PROT_READ | PROT_EXEC) && errno == EACCES);
	CHECK(mprotect(r, PAGE, PROT_READ | PROT_WRITE) && errno == EACCES);
	CHECK(mprotect(r, PAGE, PROT_WRITE) && errno == EACCES);
	CHECK(!mprotect(r, PAGE, PROT_NONE));
	CHECK(mprotect(r, PAGE, PROT_READ | PROT_WRITE) && errno == EACCES);
	CHECK(!mprotect(r, PAGE, PROT_READ));
	check(r, 4 * PAGE, 4);

	/* Every piece was counted, and forgotten. */
	CHECK(!munmap(p + PAGE, PAGE));
	CHECK_EQ(seal_write(fd), -EBUSY);
	CHECK(!munmap(p, PAGE));
	CHECK_EQ(seal_write(fd), -EBUSY);
	CHECK(!munmap(p + 2 * PAGE, 2 * PAGE));
	CHECK_EQ(seal_write(fd), 0);
	check(r, 4 * PAGE, 4);
	munmap(r, 4 * PAGE);
	close(ro);
	close(fd);
	close(s);
}

TEST(remapping)
{
	int s = k_open(), fd = k_arena(s, 4 * MIB, RLX_AF_HUGE_TRY);
	unsigned char *p = map(fd, 4 * MIB), *q, *place;

	fill(p, 4 * MIB, 5);
	CHECK(mremap(p, 4 * MIB, 4 * MIB + PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
	CHECK_EQ(errno, EFAULT);
	CHECK(mremap(p, 4 * MIB, 8 * MIB, 0) == MAP_FAILED);
	CHECK_EQ(errno, EFAULT);

	CHECK(mremap(p, 4 * MIB, 3 * MIB, 0) == p);
	CHECK(mremap(p, 3 * MIB, 4 * MIB, MREMAP_MAYMOVE) == MAP_FAILED);
	check(p, 3 * MIB, 5);
	place = mmap(NULL, 8 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	q = mremap(p, 3 * MIB, 3 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED,
		   place + PAGE);
	CHECKF(q == place + PAGE, "mremap: %s", strerror(errno));
	check(q, 3 * MIB, 5);
	/* Twice, which is another mapping of the same. */
	p = mremap(q, 0, 2 * MIB, MREMAP_MAYMOVE);
	CHECK(p == MAP_FAILED || !memcmp(p, q, 2 * MIB));
	if (p != MAP_FAILED)
		munmap(p, 2 * MIB);
	CHECK_EQ(seal_write(fd), -EBUSY);
	munmap(place, 8 * MIB);
	CHECK_EQ(seal_write(fd), 0);
	close(fd);
	close(s);
}

/* ---- processes ----------------------------------------------------------- */

#define SKIPPED	77	/* how a child says that the kernel lacks something */

static int child_ok(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECKF(WIFEXITED(status) && (!WEXITSTATUS(status) ||
				     WEXITSTATUS(status) == SKIPPED),
	       "child: %#x", status);
	return WEXITSTATUS(status);
}

TEST(forked)
{
	int s = k_open(), fd = k_arena(s, 4 * MIB, RLX_AF_HUGE_TRY);
	unsigned char *p = map(fd, 4 * MIB);
	int go[2], closed[2];
	pid_t pid;
	char c;

	fill(p, 4 * MIB, 6);
	CHECK(!pipe(go));
	CHECK(!pipe(closed));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		/* The parent's fds, mapping and session are gone by now. */
		close(s);
		close(fd);
		close(go[1]);
		if (write(closed[1], "c", 1) != 1 || read(go[0], &c, 1) != 1)
			_exit(1);
		if (p[0] != 0xaa || p[3 * MIB] != 0xbb)
			_exit(2);
		munmap(p + MIB, MIB);
		p[0] = 0xcc;
		_exit(0);
	}
	p[0] = 0xaa;
	p[3 * MIB] = 0xbb;
	munmap(p, 4 * MIB);
	close(fd);
	close(s);
	CHECK_EQ(read(closed[0], &c, 1), 1);
	CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 1);
	CHECK_EQ(k_file_number(K_TOTALS "nr_sessions"), 0);
	CHECK_EQ(write(go[1], "g", 1), 1);
	child_ok(pid);
	CHECK(k_stat_becomes("nr_arenas", 0));	/* not by the child, which has ended */
	close(go[0]);
	close(go[1]);
	close(closed[0]);
	close(closed[1]);
}

TEST(other_process)
{
	int s = k_open(), fd = k_arena(s, 4 * PAGE, 0), ro = k_dup(fd, RLX_R);
	unsigned char *p = map(fd, 4 * PAGE), *r = k_map(ro, 4 * PAGE, PROT_READ, 0);
	pid_t parent = getpid(), pid;

	fill(p, 4 * PAGE, 7);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		char buf[PAGE];
		struct iovec here = { buf, PAGE }, there = { p + PAGE, PAGE };

		if (process_vm_readv(parent, &here, 1, &there, 1, 0) < 0 &&
		    errno == ENOSYS)
			_exit(SKIPPED);
		if (process_vm_readv(parent, &here, 1, &there, 1, 0) != PAGE ||
		    *(uint64_t *)buf != 512 * 0x9e3779b97f4a7c15ull + 7)
			_exit(1);
		buf[8] = 0x77;
		if (process_vm_writev(parent, &here, 1, &there, 1, 0) != PAGE)
			_exit(2);
		there.iov_base = r;
		if (process_vm_readv(parent, &here, 1, &there, 1, 0) != PAGE)
			_exit(3);
		if (process_vm_writev(parent, &here, 1, &there, 1, 0) >= 0 ||
		    errno != EFAULT)
			_exit(4);
		_exit(0);
	}
	if (child_ok(pid) == SKIPPED)
		rlx_test_skip("this kernel has no process_vm_readv");
	CHECK_EQ(p[PAGE + 8], 0x77);
	munmap(r, 4 * PAGE);
	munmap(p, 4 * PAGE);
	close(ro);
	close(fd);
	close(s);
}

/* A debugger writes where its subject may, not through a read-only mapping. */
TEST(debugger)
{
	int s = k_open(), fd = k_arena(s, 4 * PAGE, 0), ro = k_dup(fd, RLX_R);
	unsigned char *p = map(fd, 4 * PAGE), *r = k_map(ro, 4 * PAGE, PROT_READ, 0);
	char path[64];
	int status, mem;
	pid_t pid;

	fill(p, 4 * PAGE, 8);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(r[0] == (unsigned char)p[0] ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	errno = 0;
	CHECK_EQ(ptrace(PTRACE_PEEKDATA, pid, r, 0), *(long *)r);
	CHECK(!ptrace(PTRACE_POKEDATA, pid, p + 8, 0x1122334455667788l));
	CHECK_EQ(*(long *)(r + 8), 0x1122334455667788l);
	CHECK(ptrace(PTRACE_POKEDATA, pid, r + 8, 0l));
	CHECKF(errno == EIO || errno == EFAULT, "poke: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	mem = open(path, O_RDWR);
	CHECK(mem >= 0);
	CHECK_EQ(pwrite(mem, "no", 2, (off_t)(uintptr_t)(r + 8)), -1);
	CHECK_EQ(pwrite(mem, "yes", 3, (off_t)(uintptr_t)(p + 16)), 3);
	close(mem);
	CHECK_EQ(*(long *)(r + 8), 0x1122334455667788l);
	CHECK(!memcmp(r + 16, "yes", 3));
	CHECK(!ptrace(PTRACE_CONT, pid, 0, 0));
	child_ok(pid);
	munmap(r, 4 * PAGE);
	munmap(p, 4 * PAGE);
	close(ro);
	close(fd);
	close(s);
}

/* ---- advice and the like -------------------------------------------------- */

static void all_advice(unsigned char *p, size_t size, uint64_t salt)
{
	/* All there are; 100 and 101 break memory on purpose, for root. */
	int advice;

	for (advice = 0; advice < 64; advice++) {
		int ret = madvise(p, size, advice);

		/* What would take pages from an arena is refused. */
		if (advice == MADV_REMOVE || advice == MADV_FREE)
			CHECKF(ret, "madvise %d worked", advice);
		check(p, size, salt);
		/*
		 * A part of a huge page, mapped as one: 6.12 tries to split it to
		 * page it out, and complains of pages charged as a kernel's.
		 */
		madvise(p, size, MADV_DONTNEED);
		check(p, size, salt);
		madvise(p + PAGE, 3 * PAGE, advice);
		check(p, size, salt);
	}
	madvise(p, size, MADV_DOFORK);
	madvise(p, size, MADV_NORMAL);
}

TEST(advice)
{
	int s = k_open(), small = k_arena(s, MIB, 0);
	int huge = k_arena(s, 4 * MIB, k_huge(s));
	unsigned char *p = map(small, MIB), *q = map(huge, 4 * MIB);

	fill(p, MIB, 9);
	fill(q, 4 * MIB, 10);
	all_advice(p, MIB, 9);
	all_advice(q, 4 * MIB, 10);
	CHECK(!madvise(q, 4 * MIB, MADV_DONTNEED));
	CHECK_EQ(smaps(q, "Rss:", NULL, 0), 0);
	check(q, 4 * MIB, 10);
	munmap(p, MIB);
	munmap(q, 4 * MIB);
	close(small);
	close(huge);
	close(s);
}

TEST(locking)
{
	int s = k_open(), fd = k_arena(s, 4 * MIB, RLX_AF_HUGE_TRY);
	unsigned char *p = map(fd, 4 * MIB), *q;

	fill(p, 4 * MIB, 11);
	CHECK(!mlock(p, 4 * MIB));
	CHECK(!munlock(p + MIB, MIB));
	check(p, 4 * MIB, 11);
	CHECK(!mlock(p + MIB, PAGE));
	CHECK(!mlockall(MCL_CURRENT | MCL_FUTURE));
	q = mmap(NULL, 4 * MIB, PROT_READ, MAP_SHARED | MAP_LOCKED, fd, 0);
	CHECK(q != MAP_FAILED);
	check(q, 4 * MIB, 11);
	munmap(p, 4 * MIB);
	check(q, 4 * MIB, 11);
	CHECK(!munlockall());
	munmap(q, 4 * MIB);
	q = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_POPULATE, fd, 0);
	CHECK(q != MAP_FAILED);
	CHECK_EQ(smaps(q, "Rss:", NULL, 0), 4096);
	munmap(q, 4 * MIB);
	close(fd);
	close(s);
}

/* Calls that move, age or look at pages: they find nothing to do. */
TEST(page_calls)
{
	int s = k_open(), fd = k_arena(s, 4 * MIB, RLX_AF_HUGE_TRY);
	unsigned char *p = map(fd, 4 * MIB), vec[1024];
	unsigned long mask = 1;
	void *pages[3] = { p, p + PAGE, p + 3 * MIB };
	int nodes[3] = { 0, 0, 0 }, status[3];

	fill(p, 4 * MIB, 12);
	CHECK(!mincore(p, 4 * MIB, vec));
	CHECK(!msync(p, 4 * MIB, MS_SYNC));
	CHECK(!msync(p, 4 * MIB, MS_ASYNC));
	syscall(SYS_mbind, p, 4 * MIB, 2 /* MPOL_BIND */, &mask, 2, 7);
	syscall(SYS_move_pages, 0, 3ul, pages, nodes, status, 2);
	syscall(SYS_migrate_pages, 0, 2ul, &mask, &mask);
	syscall(SYS_remap_file_pages, p, 2 * PAGE, 0, 4ul, 0);
	munmap(p, 4 * MIB);
	p = map(fd, 4 * MIB);
	check(p, 4 * MIB, 12);
	munmap(p, 4 * MIB);
	CHECK_EQ(seal_write(fd), 0);
	close(fd);
	close(s);
}

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC	(1 << 15)
#endif

static int uffd_register(int u, void *p, size_t size, uint64_t mode)
{
	struct uffdio_register r = {
		.range = { (uintptr_t)p, size }, .mode = mode,
	};

	return ioctl(u, UFFDIO_REGISTER, &r) ? -errno : 0;
}

TEST(user_faults)
{
	int s = k_open(), fd = k_arena(s, 4 * MIB, RLX_AF_HUGE_TRY);
	unsigned char *p = map(fd, 4 * MIB);
	struct uffdio_api api = { .api = UFFD_API };
	int u = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (u < 0)
		rlx_test_skip("no userfaultfd here");
	CHECK(!ioctl(u, UFFDIO_API, &api));
	CHECK_EQ(uffd_register(u, p, 4 * MIB, UFFDIO_REGISTER_MODE_MISSING),
		 -EINVAL);
	CHECK_EQ(uffd_register(u, p, 4 * MIB, UFFDIO_REGISTER_MODE_WP), -EINVAL);
	CHECK_EQ(uffd_register(u, p, 4 * MIB, 4 /* MINOR */), -EINVAL);
	close(u);

	/* Asynchronous write protection takes any mapping, and only counts. */
	fill(p, 4 * MIB, 13);
	u = syscall(SYS_userfaultfd, O_CLOEXEC);
	api = (struct uffdio_api){ .api = UFFD_API,
				   .features = UFFD_FEATURE_WP_ASYNC };
	if (!ioctl(u, UFFDIO_API, &api) &&
	    !uffd_register(u, p, 4 * MIB, UFFDIO_REGISTER_MODE_WP)) {
		struct uffdio_writeprotect w = {
			.range = { (uintptr_t)p, 4 * MIB },
			.mode = UFFDIO_WRITEPROTECT_MODE_WP,
		};

		ioctl(u, UFFDIO_WRITEPROTECT, &w);
		check(p, 4 * MIB, 13);
		fill(p, 4 * MIB, 14);
		check(p, 4 * MIB, 14);
	}
	close(u);
	munmap(p, 4 * MIB);
	close(fd);
	close(s);
}

TEST_MAIN()
