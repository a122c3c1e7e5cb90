// SPDX-License-Identifier: MIT
/*
 * Arenas of 1 GiB pages: by a memfd of them, as no allocator for modules gives any.
 * They are mapped and pinned as such, and paid for whole.
 */
/* rig: kernels=6.12 own memory=3072 timeout=120 append=hugepagesz=1G+hugepages=1 */
#include <errno.h>
#include <fcntl.h>
#include <linux/rlx.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"

#define PAGE	4096ul
#define HUGE	(2ul << 20)
#define GIB	(1ul << 30)
#define RW	(RLX_R | RLX_W)
#define GIB_PAGES	(30u << 26)	/* MFD_HUGE_1GB */

static long pin(int s, int memfd, uint64_t offset, uint64_t size, uint32_t flags)
{
	struct rlx_ioc_arena_create c = {
		.size = size, .kind = RLX_KIND_MEMFD, .flags = flags, .numa_node = -1,
		.memfd = memfd, .addr = offset,
	};

	return k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
}

static int make(void)
{
	int fd = memfd_create("gigantic", MFD_ALLOW_SEALING | MFD_HUGETLB | GIB_PAGES);

	CHECKF(fd >= 0, "memfd: %s", strerror(errno));
	CHECK(!ftruncate(fd, GIB));
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

/* How large the pages of the mapping at @addr are, in KiB. */
static long page_kib(const void *addr)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long from, to;
	bool here = false;
	char line[512];
	long kib = -1;

	CHECK(f);
	while (kib < 0 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = from == (unsigned long)addr;
		else if (here && sscanf(line, "KernelPageSize: %ld", &kib) != 1)
			kib = -1;
	}
	fclose(f);
	return kib;
}

static void paid_whole(int fd)
{
	struct rlimit l = { GIB / 2, GIB / 2 };
	int status, s;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(!setresgid(105, 105, 105));
		CHECK(!setrlimit(RLIMIT_MEMLOCK, &l));
		CHECK(!setresuid(1000, 1000, 1000));
		s = k_open();
		CHECK_EQ(pin(s, fd, 77 * PAGE, PAGE, 0), -ENOMEM);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

/* One guest page of 1 GiB: all that is asked of it stands in one test. */
TEST(a_page_of_1_gib)
{
	int s = k_open(), fd = make(), a, buf;
	uint64_t *p, *q;

	a = pin(s, fd, 0, GIB, RLX_AF_HUGE_REQUIRE);
	CHECKF(a >= 0, "pin: %d", a);
	CHECK_EQ(k_arena_info(a).nr_chunks, 1);
	CHECK_EQ(k_arena_info(a).nr_huge, GIB / HUGE);
	p = k_map(a, GIB, PROT_READ | PROT_WRITE, 0);
	CHECK_EQ(page_kib(p), GIB / 1024);
	p[0] = 1;
	p[GIB / 8 - 1] = 2;
	CHECK(mmap(NULL, HUGE, PROT_READ, MAP_SHARED, a, 0) == MAP_FAILED &&
	      errno == EINVAL);
	/* Devices take any part; and the mapping is pinned as user memory, too. */
	buf = k_export(a, GIB - HUGE, HUGE, RW);
	CHECK(buf >= 0);
	q = k_map(buf, HUGE, PROT_READ | PROT_WRITE, 0);
	CHECK_EQ(q[HUGE / 8 - 1], 2);
	q[0] = 3;
	CHECK_EQ(p[(GIB - HUGE) / 8], 3);
	munmap(q, HUGE);
	close(buf);
	munmap(p, GIB);
	close(a);
	paid_whole(fd);
	a = pin(s, fd, 77 * PAGE, PAGE, 0);
	CHECK(a >= 0);
	CHECK_EQ(k_arena_info(a).nr_huge, 0);
	close(a);
	close(fd);
	close(s);
}

TEST_MAIN()
