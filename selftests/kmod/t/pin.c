// SPDX-License-Identifier: MIT
/* Arenas of pages that are somebody's: user memory and memfds. */
/* rig: modules=vgem,brd timeout=120 also */
#include <errno.h>
#include <fcntl.h>
#include <linux/rlx.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/vgem.h"

#define PAGE	4096ull
#define MIB	(1ull << 20)
#define HUGE	(2 * MIB)
#define RW	(RLX_R | RLX_W)
#define MUST	(F_SEAL_SHRINK | F_SEAL_GROW)

static long pin(int s, uint32_t kind, uint64_t addr, uint64_t size, int memfd,
		uint32_t flags)
{
	struct rlx_ioc_arena_create c = {
		.size = size, .kind = kind, .flags = flags, .numa_node = -1,
		.memfd = memfd, .addr = addr,
	};

	return k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
}

static long pin_user(int s, const void *p, uint64_t size, uint32_t flags)
{
	return pin(s, RLX_KIND_USER, (uintptr_t)p, size, -1, flags);
}

static long pin_memfd(int s, int fd, uint64_t offset, uint64_t size,
		      uint32_t flags)
{
	return pin(s, RLX_KIND_MEMFD, offset, size, fd, flags);
}

static bool has_memfd(int s)
{
	return k_features(s) & RLX_FEAT_MEMFD;
}

static void need_memfd(int s)
{
	if (has_memfd(s))
		return;
	CHECK_EQ(pin_memfd(s, 0, 0, PAGE, 0), -EOPNOTSUPP);
	rlx_test_skip("no memfd_pin_folios in this kernel");
}

static int make_memfd(uint64_t size, unsigned int flags, unsigned int seals)
{
	int fd = memfd_create("pin", MFD_ALLOW_SEALING | flags);

	CHECK(fd >= 0);
	CHECK(!ftruncate(fd, size));
	CHECK(!fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static uint64_t *anon(size_t size)
{
	uint64_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* The same bytes by vgem, through an export, both ways. */
static void through_vgem(int arena, uint64_t *p, size_t size)
{
	int v = vgem_open(), buf = k_export(arena, 0, size, RW);
	uint32_t handle;
	uint64_t *q;

	CHECKF(buf >= 0, "export: %d", buf);
	CHECK_EQ(vgem_import(v, buf, &handle), 0);
	q = vgem_map(v, size, PROT_READ | PROT_WRITE);
	CHECK(q);
	k_fill(p, size, 1);
	k_compare(q, size, 1);
	k_fill(q, size, 2);
	k_compare(p, size, 2);
	munmap(q, size);
	vgem_close_handle(v, handle);
	close(buf);
	close(v);
}

TEST(user_memory)
{
	int s = k_open(), a;
	const size_t size = 3 * MIB + 7 * PAGE;
	uint64_t *p = anon(size);

	a = pin_user(s, p, size, 0);
	CHECKF(a >= 0, "pin: %d", a);
	CHECK_EQ(k_arena_info(a).kind, RLX_KIND_USER);
	CHECK_EQ(k_arena_info(a).access, RW);
	through_vgem(a, p, size);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, a, 0) == MAP_FAILED &&
	      errno == ENODEV);
	/* Its owner may always write. */
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	/* The pages are the arena's even when the mapping goes. */
	k_fill(p, size, 3);
	munmap(p, size);
	p = mmap(NULL, size, PROT_READ, MAP_SHARED, k_export(a, 0, size, RLX_R), 0);
	CHECK(p != MAP_FAILED);
	k_compare(p, size, 3);
}

TEST(user_memory_of_huge_pages)
{
	int s = k_open(), a;
	uint64_t *p = anon(16 * MIB);
	uint64_t *at = (void *)(((uintptr_t)p + HUGE - 1) & -HUGE);

	k_need_huge(s);
	madvise(at, 8 * MIB, MADV_HUGEPAGE);
	memset(at, 1, 8 * MIB);
	a = pin_user(s, at, 8 * MIB, RLX_AF_HUGE_TRY);
	CHECK(a >= 0);
	CHECK_EQ(k_arena_info(a).nr_huge, 4);
	through_vgem(a, at, 8 * MIB);
	close(a);
	a = pin_user(s, at, 8 * MIB, RLX_AF_HUGE_REQUIRE);
	CHECK(a >= 0);
	close(a);
	a = pin_user(s, at + 512, 2 * MIB, RLX_AF_HUGE_REQUIRE);
	CHECK_EQ(a, -ENOMEM);
}

TEST(user_memory_that_is_none)
{
	int s = k_open(), a = k_arena(s, MIB, 0), buf, i;
	uint64_t *p = anon(8 * PAGE), *q;

	CHECK_EQ(pin_user(s, p, 0, 0), -EINVAL);
	CHECK_EQ(pin_user(s, p, 100, 0), -EINVAL);
	CHECK_EQ(pin_user(s, p + 1, PAGE, 0), -EINVAL);
	CHECK_EQ(pin(s, RLX_KIND_USER, (uintptr_t)p, PAGE, 0, 0), -EINVAL);
	CHECK_EQ(pin(s, RLX_KIND_USER, -PAGE, PAGE, -1, 0), -EOVERFLOW);
	CHECK_EQ(pin(s, RLX_KIND_USER, -PAGE, 2 * PAGE, -1, 0), -EOVERFLOW);
	CHECK_EQ(pin(s, RLX_KIND_USER, -2 * PAGE, PAGE, -1, 0), -EFAULT);
	CHECK_EQ(pin(s, RLX_KIND_USER, 1ull << 47, PAGE, -1, 0), -EFAULT);
	CHECK_EQ(pin(s, RLX_KIND_USER, 0, PAGE, -1, 0), -EFAULT);
	/* A hole in the middle and at the end: what was pinned is let go. */
	munmap(p + 4 * 512, PAGE);
	for (i = 0; i < 20; i++)
		CHECK_EQ(pin_user(s, p, 8 * PAGE, 0), -EFAULT);
	CHECK_EQ(pin_user(s, p, 5 * PAGE, 0), -EFAULT);
	/* No right to write. */
	CHECK(!mprotect(p, 4 * PAGE, PROT_READ));
	CHECK_EQ(pin_user(s, p, 4 * PAGE, 0), -EFAULT);
	CHECK(!mprotect(p, 4 * PAGE, PROT_NONE));
	CHECK_EQ(pin_user(s, p, 4 * PAGE, RLX_AF_RDONLY), -EFAULT);
	/* What has no struct pages to pin: a dma-buf's mapping. */
	buf = k_export(a, 0, MIB, RW);
	q = k_map(buf, MIB, PROT_READ | PROT_WRITE, 0);
	q[0] = 1;
	CHECK_EQ(pin_user(s, q, MIB, 0), -EFAULT);
	/* Device memory: a PCI one, if there is any. */
	buf = open("/dev/mem", O_RDWR);
	if (buf >= 0) {
		q = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, buf, 0xfee00000);
		if (q != MAP_FAILED)
			CHECK_EQ(pin_user(s, q, PAGE, RLX_AF_RDONLY), -EFAULT);
	}
	/* The bound on one arena. */
	CHECK_EQ(pin_user(s, NULL, 1ull << 48, 0), -EINVAL);
}

/* Pages of ours may be lent to ourselves: the pins are counted by page. */
TEST(our_own_mapping_as_user_memory)
{
	int s = k_open(), a, b;
	uint64_t *p, *q;

	a = k_arena(s, 4 * MIB, RLX_AF_HUGE_TRY);
	p = k_map(a, 4 * MIB, PROT_READ | PROT_WRITE, 0);
	b = pin_user(s, p, 4 * MIB, 0);
	CHECKF(b >= 0, "pin: %d", b);
	through_vgem(b, p, 4 * MIB);
	k_fill(p, 4 * MIB, 8);
	/* A pin is a writer nobody sees. */
	munmap(p, 4 * MIB);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	close(a);
	q = mmap(NULL, 4 * MIB, PROT_READ, MAP_SHARED, k_export(b, 0, 4 * MIB, RLX_R),
		 0);
	CHECK(q != MAP_FAILED);
	k_compare(q, 4 * MIB, 8);
}

TEST(user_memory_read_only)
{
	int s = k_open(), a, v = vgem_open(), buf;
	uint64_t *p = anon(MIB);

	k_fill(p, MIB, 4);
	CHECK(!mprotect(p, MIB, PROT_READ));
	a = pin_user(s, p, MIB, RLX_AF_RDONLY);
	CHECKF(a >= 0, "pin: %d", a);
	CHECK_EQ(k_arena_info(a).access, RLX_R);
	CHECK_EQ(fcntl(a, F_GETFL) & O_ACCMODE, O_RDONLY);
	CHECK_EQ(k_export(a, 0, MIB, RW), -EACCES);
	buf = k_export(a, 0, MIB, RLX_R);
	CHECK(buf >= 0);
	vgem_cannot_write(v, buf, MIB);
	k_compare(mmap(NULL, MIB, PROT_READ, MAP_SHARED, buf, 0), MIB, 4);
	CHECK(mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, buf, 0) ==
	      MAP_FAILED && errno == EACCES);
}

TEST(memlock_limit)
{
	int s, a, b, status;
	uint64_t *p = anon(4 * MIB);
	struct rlimit l = { 2 * MIB, 2 * MIB };
	pid_t pid;

	/* Folios are charged whole, and before 6.7 this may lie across two huge ones. */
	madvise(p, 4 * MIB, MADV_NOHUGEPAGE);
	pid = fork();
	if (!pid) {
		CHECK(!setresgid(105, 105, 105));
		CHECK(!setrlimit(RLIMIT_MEMLOCK, &l));
		CHECK(!setresuid(1000, 1000, 1000));
		s = k_open();
		CHECK_EQ(pin_user(s, p, 4 * MIB, 0), -ENOMEM);
		a = pin_user(s, p, 2 * MIB, 0);
		CHECK(a >= 0);
		CHECK_EQ(pin_user(s, p, PAGE, 0), -ENOMEM);
		close(a);
		b = pin_user(s, p, 2 * MIB, 0);
		CHECK(b >= 0);
		close(b);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

/* ---- memfds ------------------------------------------------------------ */

static void memfd_kind(unsigned int flags, uint64_t size, uint64_t at,
		       uint64_t len, uint64_t nr_huge)
{
	int s = k_open(), fd, a, i;
	uint64_t *p, *q;

	need_memfd(s);
	fd = make_memfd(size, flags, MUST);
	p = k_map(fd, size, PROT_READ | PROT_WRITE, 0);
	if (!(flags & MFD_HUGETLB) && nr_huge)
		madvise(p, size, MADV_HUGEPAGE);
	/* The rest are holes yet, and filled by small pages. */
	memset(p, 0x55, nr_huge ? size : size / 2);
	/* Twice: pins of the same folios add up. */
	for (i = 0; i < 2; i++) {
		a = pin_memfd(s, fd, at, len, 0);
		CHECKF(a >= 0, "pin: %d", a);
		CHECK_EQ(k_arena_info(a).nr_huge, nr_huge);
		through_vgem(a, p + at / 8, len);
	}
	CHECK(p[0] == 0x5555555555555555 || !at);
	q = k_map(a, len, PROT_READ | PROT_WRITE, 0);
	k_fill(q, len, 6);
	k_compare(p + at / 8, len, 6);
	/* Somebody has it pinned: it cannot become read-only. */
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) && errno == EBUSY);
	munmap(p, size);
	close(fd);
	k_compare(q, len, 6);
	k_fill(q, len, 7);
	munmap(q, len);
	q = mmap(NULL, len, PROT_READ, MAP_SHARED, k_export(a, 0, len, RLX_R), 0);
	CHECK(q != MAP_FAILED);
	k_compare(q, len, 7);
}

TEST(memfd_small)
{
	memfd_kind(0, 4 * MIB, 3 * PAGE, 2 * MIB, 0);
}

TEST(memfd_whole)
{
	memfd_kind(0, MIB, 0, MIB, 0);
}

TEST(memfd_huge_shmem)
{
	k_need_huge(k_open());
	memfd_kind(0, 16 * MIB, 4 * MIB, 8 * MIB, 4);
}

TEST(memfd_hugetlb)
{
	memfd_kind(MFD_HUGETLB, 16 * MIB, 4 * MIB, 8 * MIB, 4);
}

/* A part of a huge page may be an arena too. */
TEST(memfd_part_of_hugetlb)
{
	int s = k_open(), fd, a;
	uint64_t *p, *q;

	need_memfd(s);
	fd = make_memfd(8 * MIB, MFD_HUGETLB, MUST);
	p = k_map(fd, 8 * MIB, PROT_READ | PROT_WRITE, 0);
	a = pin_memfd(s, fd, HUGE - 3 * PAGE, HUGE + 5 * PAGE, 0);
	CHECKF(a >= 0, "pin: %d", a);
	CHECK_EQ(k_arena_info(a).nr_huge, 0);
	through_vgem(a, p + (HUGE - 3 * PAGE) / 8, HUGE + 5 * PAGE);
	CHECK(mmap(NULL, HUGE, PROT_READ, MAP_SHARED, a, 0) == MAP_FAILED &&
	      errno == EINVAL);
	close(a);
	a = pin_memfd(s, fd, HUGE, 2 * HUGE, RLX_AF_HUGE_REQUIRE);
	CHECK(a >= 0);
	CHECK_EQ(k_arena_info(a).nr_huge, 2);
	q = k_map(a, HUGE, PROT_READ | PROT_WRITE, HUGE);
	k_fill(q, HUGE, 9);
	k_compare(p + 2 * HUGE / 8, HUGE, 9);
	munmap(q, HUGE);
	CHECK(mmap(NULL, 3 * PAGE, PROT_READ, MAP_SHARED, a, 0) == MAP_FAILED);
	CHECK(mmap(NULL, HUGE, PROT_READ, MAP_SHARED, a, PAGE) == MAP_FAILED);
	/* fork, and the ends in another order. */
	q = k_map(a, 2 * HUGE, PROT_READ | PROT_WRITE, 0);
	close(a);
	close(fd);
	munmap(p, 8 * MIB);
	if (!fork()) {
		q[0] = 77;
		_exit(0);
	}
	wait(NULL);
	CHECK(q[0] == 77);
}

TEST(memfd_seals)
{
	int s = k_open(), fd, ro, a;
	char path[64];

	need_memfd(s);
	fd = make_memfd(MIB, 0, F_SEAL_GROW);
	CHECK_EQ(pin_memfd(s, fd, 0, MIB, 0), -EINVAL);
	CHECK_EQ(pin_memfd(s, fd, 0, MIB, RLX_AF_RDONLY), -EINVAL);
	fd = make_memfd(MIB, 0, F_SEAL_SHRINK | F_SEAL_WRITE);
	CHECK_EQ(pin_memfd(s, fd, 0, MIB, 0), -EINVAL);
	a = pin_memfd(s, fd, 0, MIB, RLX_AF_RDONLY);
	CHECK(a >= 0);
	CHECK_EQ(k_arena_info(a).access, RLX_R);
	CHECK(mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, a, 0) ==
	      MAP_FAILED && errno == EACCES);
	CHECK(mmap(NULL, MIB, PROT_READ, MAP_SHARED, a, 0) != MAP_FAILED);
	CHECK_EQ(k_export(a, 0, MIB, RW), -EACCES);
	CHECK(k_export(a, 0, MIB, RLX_R) >= 0);
	fd = make_memfd(MIB, 0, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
	CHECK_EQ(pin_memfd(s, fd, 0, MIB, 0), -EINVAL);
	CHECK(pin_memfd(s, fd, 0, MIB, RLX_AF_RDONLY) >= 0);
	fd = make_memfd(MIB, 0, F_SEAL_SHRINK);
	a = pin_memfd(s, fd, 0, MIB, 0);
	CHECK(a >= 0);
	/* Who else maps it may write: the arena's own seal would promise much. */
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	CHECK_EQ(k_seal(a, RLX_KSEAL_FUTURE_WRITE), 0);
	CHECK(mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, a, 0) ==
	      MAP_FAILED && errno == EPERM);
	CHECK(mmap(NULL, MIB, PROT_READ, MAP_SHARED, a, 0) != MAP_FAILED);
	CHECK_EQ(k_export(a, 0, MIB, RW), -EPERM);
	/* An fd that may only read gives no right to write. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY);
	CHECK(ro >= 0);
	CHECK_EQ(pin_memfd(s, ro, 0, MIB, 0), -EACCES);
	CHECK(pin_memfd(s, ro, 0, MIB, RLX_AF_RDONLY) >= 0);
}

TEST(memfd_that_is_none)
{
	int s = k_open(), fd, pipefd[2];

	need_memfd(s);
	fd = make_memfd(MIB, 0, MUST);
	CHECK_EQ(pin_memfd(s, fd, 0, MIB + PAGE, 0), -EINVAL);
	CHECK_EQ(pin_memfd(s, fd, MIB, PAGE, 0), -EINVAL);
	CHECK_EQ(pin_memfd(s, fd, 17, PAGE, 0), -EINVAL);
	CHECK_EQ(pin_memfd(s, fd, -PAGE, PAGE, 0), -EOVERFLOW);
	CHECK_EQ(pin_memfd(s, fd, (1ull << 63) - PAGE, PAGE, 0), -EINVAL);
	CHECK_EQ(pin_memfd(s, fd, (1ull << 63) + PAGE, PAGE, 0), -EINVAL);
	CHECK_EQ(pin_memfd(s, -1, 0, MIB, 0), -EBADF);
	CHECK_EQ(pin_memfd(s, 9999, 0, MIB, 0), -EBADF);
	CHECK_EQ(pin_memfd(s, s, 0, MIB, 0), -EBADFD);
	CHECK(!pipe(pipefd));
	CHECK_EQ(pin_memfd(s, pipefd[0], 0, MIB, 0), -EBADFD);
	CHECK_EQ(pin_memfd(s, k_arena(s, MIB, 0), 0, MIB, 0), -EBADFD);
	CHECK_EQ(pin_memfd(s, k_export(k_arena(s, MIB, 0), 0, MIB, RW), 0, MIB, 0),
		 -EBADFD);
	/* Huge pages that are not there are not made for one who only reads. */
	fd = make_memfd(8 * MIB, MFD_HUGETLB, MUST);
	CHECK_EQ(pin_memfd(s, fd, 0, 8 * MIB, RLX_AF_RDONLY), -EINVAL);
	CHECK(!fallocate(fd, 0, 0, 4 * MIB));
	CHECK(pin_memfd(s, fd, 0, 4 * MIB, RLX_AF_RDONLY) >= 0);
	CHECK_EQ(pin_memfd(s, fd, 0, 4 * MIB + PAGE, RLX_AF_RDONLY), -EINVAL);
	CHECK(pin_memfd(s, fd, 0, 8 * MIB, 0) >= 0);
	CHECK_EQ(pin_memfd(s, fd, 4 * MIB, 8 * MIB, 0), -EINVAL);
	/* Hugetlb pages ran out: an error, and nothing is kept. */
	fd = make_memfd(256 * MIB, MFD_HUGETLB, MUST);
	CHECK_EQ(pin_memfd(s, fd, 0, 256 * MIB, 0), -ENOMEM);
}

/* A hole punched into the memfd: others see zeroes, we the old pages; no harm. */
TEST(memfd_punched)
{
	int s = k_open(), fd, a, i;
	uint64_t *p, *q, *r;

	need_memfd(s);
	for (i = 0; i < 2; i++) {
		const size_t size = i ? 8 * MIB : MIB;

		fd = make_memfd(size, i ? MFD_HUGETLB : 0, MUST);
		p = k_map(fd, size, PROT_READ | PROT_WRITE, 0);
		k_fill(p, size, 3);
		a = pin_memfd(s, fd, 0, size, 0);
		CHECK(a >= 0);
		q = k_map(a, size, PROT_READ | PROT_WRITE, 0);
		r = k_map(k_export(a, 0, size, RW), size,
			  PROT_READ | PROT_WRITE, 0);
		CHECK(!fallocate(fd, FALLOC_FL_PUNCH_HOLE |
				 FALLOC_FL_KEEP_SIZE, 0, size));
		CHECK(!p[0] && !p[size / 8 - 1]);
		/* The mapping of the arena is one of the memfd. */
		CHECK(!q[0] && !q[size / 8 - 1]);
		k_compare(r, size, 3);
		p[0] = 5;
		CHECK(q[0] == 5 && r[0] != 5);
		close(a);
		k_compare(r, size, 3);
	}
}

static uint64_t page_flags(const void *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t v = 0, flags = 0;

	CHECK(pread(fd, &v, 8, (uintptr_t)p / PAGE * 8) == 8);
	close(fd);
	CHECKF(v >> 63, "no page there");
	fd = open("/proc/kpageflags", O_RDONLY);
	if (fd < 0)
		return UINT64_MAX;
	CHECK(pread(fd, &flags, 8, (v & ((1ull << 55) - 1)) * 8) == 8);
	close(fd);
	return flags;
}

#define KPF_DIRTY	(1ull << 4)

/* Written by nothing the kernel sees: it is known at the unpinning, of @p's pages. */
static void device_writes(long a, const uint64_t *p)
{
	long buf = k_export(a, 0, MIB, RW);
	uint64_t *q;
	size_t i;

	CHECKF(a >= 0 && buf >= 0, "%ld, %ld", a, buf);
	q = k_map(buf, MIB, PROT_READ | PROT_WRITE, 0);
	CHECK(!(page_flags(p) & KPF_DIRTY));
	k_fill(q, MIB, 11);
	CHECK(!(page_flags(p) & KPF_DIRTY));
	munmap(q, MIB);
	close(buf);
	close(a);
	/* The end comes with the last fd, and is left to a worker. */
	for (i = 0; i < 60000 && !(page_flags(p) & KPF_DIRTY); i++)
		usleep(1000);
	k_compare(p, MIB, 11);
	for (i = 0; i < MIB / 8; i += PAGE / 8)
		CHECKF(page_flags(p + i) & KPF_DIRTY, "page %zu is clean",
		       i / (size_t)(PAGE / 8));
}

TEST(device_writes_are_kept)
{
	int s = k_open(), fd;
	uint64_t *p;

	p = anon(MIB);
	madvise(p, MIB, MADV_NOHUGEPAGE);
	k_fill(p, MIB, 1);
	if (page_flags(p) == UINT64_MAX)
		rlx_test_skip("no kpageflags in this kernel");
	device_writes(pin_user(s, p, MIB, 0), p);
	munmap(p, MIB);

	need_memfd(s);
	fd = make_memfd(MIB, 0, MUST);
	p = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED && !*(volatile uint64_t *)p);
	device_writes(pin_memfd(s, fd, 0, MIB, 0), p);
}

static void make_swap(const char *dev)
{
	static uint32_t page[1024];
	int fd = open(dev, O_RDWR);
	uint64_t bytes;

	CHECK(fd >= 0);
	CHECK(!ioctl(fd, _IOR(0x12, 114, size_t), &bytes));
	memset(page, 0, sizeof(page));
	page[256] = 1;
	page[257] = bytes / PAGE - 1;
	memcpy((char *)page + 4086, "SWAPSPACE2", 10);
	CHECK(write(fd, page, 4096) == 4096);
	CHECK(!fsync(fd));
	close(fd);
	CHECKF(!swapon(dev, 0), "swapon: %s", strerror(errno));
}

/* Out to swap and back, clean pages and all: the bytes must be the device's. */
static void survive(int a, uint64_t *p, size_t size, const char *what)
{
	uint64_t *q;
	int buf, i;

	buf = k_export(a, 0, size, RW);
	CHECKF(a >= 0 && buf >= 0, "%s: %d", what, a);
	q = k_map(buf, size, PROT_READ | PROT_WRITE, 0);
	for (i = 0; i < 3; i++) {
		CHECK(!madvise(p, size, 21 /* MADV_PAGEOUT */));
		k_fill(q, size, 50 + i);
		k_compare(p, size, 50 + i);
	}
	k_fill(q, size, 60);
	munmap(q, size);
	close(buf);
	close(a);
	for (i = 0; i < 3; i++) {
		CHECK(!madvise(p, size, 21));
		k_compare(p, size, 60);
	}
}

TEST(device_writes_survive_reclaim)
{
	const size_t size = MIB;
	uint64_t *p;
	int s, fd, i;

	if (access("/dev/ram0", R_OK))
		rlx_test_skip("no ram disk in this kernel");
	make_swap("/dev/ram0");
	s = k_open();
	p = anon(size);
	k_fill(p, size, 1);
	for (i = 0; i < 2; i++) {
		madvise(p, size, 21);
		k_compare(p, size, i ? 60 : 1);	/* clean, in the swap cache */
		survive(pin_user(s, p, size, 0), p, size, "anonymous");
	}
	if (has_memfd(s)) {
		fd = make_memfd(size, 0, MUST);
		p = k_map(fd, size, PROT_READ | PROT_WRITE, 0);
		k_fill(p, size, 1);
		for (i = 0; i < 2; i++) {
			madvise(p, size, 21);
			k_compare(p, size, i ? 60 : 1);
			survive(pin_memfd(s, fd, 0, size, 0), p, size, "memfd");
		}
		munmap(p, size);
		close(fd);
	}
	CHECK(!swapoff("/dev/ram0"));
	/* Its pages are not ours, but the gate would not know. */
	CHECK(!syscall(SYS_delete_module, "brd", O_NONBLOCK));
}

TEST_MAIN()
