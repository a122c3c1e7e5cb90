// SPDX-License-Identifier: MIT
/* Arenas as dma-bufs: vgem imports them, both sides see the same bytes. */
/* rig: modules=vgem timeout=180 memory=3072 also */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/rlx.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/fds.h"
#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/vgem.h"

#define PAGE	4096ull
#define MIB	(1ull << 20)
#define GIB	(1ull << 30)
#define RW	(RLX_R | RLX_W)

static long arena_sync(int arena, uint64_t offset, uint64_t length,
		       uint32_t access, uint32_t op)
{
	struct rlx_ioc_arena_sync s = {
		.offset = offset, .length = length, .access = access, .op = op,
	};

	return k_ioctl(arena, RLX_IOC_ARENA_SYNC, &s);
}

static long buf_sync(int buf, uint64_t flags)
{
	struct dma_buf_sync s = { .flags = flags };

	return k_ioctl(buf, DMA_BUF_IOCTL_SYNC, &s);
}

static void round_trip(size_t size, uint32_t flags)
{
	int s = k_open(), a = k_arena(s, size, flags), v = vgem_open(), buf;
	uint64_t *p = k_map(a, size, PROT_READ | PROT_WRITE, 0), *q, *r;
	uint64_t seed = rlx_test_seed();
	uint32_t handle;

	k_fill(p, size, seed);
	buf = k_export(a, 0, size, RW);
	CHECKF(buf >= 0, "export: %d", buf);
	CHECK_EQ(vgem_import(v, buf, &handle), 0);
	CHECK_EQ(k_arena_info(a).nr_exports, 1);
	q = vgem_map(v, size, PROT_READ | PROT_WRITE);
	CHECKF(q, "vgem maps what it imported: %s", strerror(errno));
	CHECK_EQ(buf_sync(buf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW), 0);
	k_compare(q, size, seed);
	k_fill(q, size, seed + 1);
	CHECK_EQ(buf_sync(buf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW), 0);
	CHECK_EQ(arena_sync(a, 0, size, RLX_R, RLX_SYNC_BEGIN), 0);
	k_compare(p, size, seed + 1);
	CHECK_EQ(arena_sync(a, 0, size, RLX_R, RLX_SYNC_END), 0);
	r = k_map(buf, size, PROT_READ | PROT_WRITE, 0);
	k_compare(r, size, seed + 1);
	k_fill(r, size, seed + 2);
	k_compare(p, size, seed + 2);
	k_compare(q, size, seed + 2);
	/* The exporter goes first, by all its names. */
	munmap(p, size);
	munmap(r, size);
	close(a);
	close(buf);
	close(s);
	k_compare(q, size, seed + 2);
	vgem_close_handle(v, handle);
	k_compare(q, size, seed + 2);
	munmap(q, size);
	close(v);
}

TEST(one_page)
{
	round_trip(PAGE, 0);
}

TEST(small_pages)
{
	round_trip(3 * MIB + 5 * PAGE, 0);
}

TEST(huge_pages)
{
	round_trip(32 * MIB, RLX_AF_HUGE_TRY);
}

TEST(part_of_an_arena)
{
	int s = k_open(), a = k_arena(s, 4 * MIB, RLX_AF_HUGE_TRY);
	int v = vgem_open(), buf;
	uint64_t *p = k_map(a, 4 * MIB, PROT_READ | PROT_WRITE, 0), *q;
	const uint64_t at = MIB + 3 * PAGE, len = 2 * MIB - 9 * PAGE;
	uint32_t handle;

	buf = k_export(a, at, len, RW);
	CHECK(buf >= 0);
	CHECK_EQ(lseek(buf, 0, SEEK_END), len);
	CHECK_EQ(vgem_import(v, buf, &handle), 0);
	q = vgem_map(v, len, PROT_READ | PROT_WRITE);
	CHECK(q);
	k_fill(q, len, 77);
	k_compare(p + at / 8, len, 77);
	/* Nothing around it changed. */
	CHECK(!p[at / 8 - 1] && !p[(at + len) / 8]);
	/* First, last and the page behind. */
	q = k_map(buf, len, PROT_READ, 0);
	CHECK(q[0] == p[at / 8] && q[len / 8 - 1] == p[(at + len) / 8 - 1]);
	CHECK(mmap(NULL, len + PAGE, PROT_READ, MAP_SHARED, buf, 0) ==
	      MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, buf, len) ==
	      MAP_FAILED && errno == EINVAL);
	CHECK(mremap(q, len, len + 64 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, buf, 0) == MAP_FAILED &&
	      errno == EINVAL);
}

TEST(imported_twice)
{
	int s = k_open(), a = k_arena(s, MIB, 0), v1 = vgem_open(),
	    v2 = vgem_open(), buf, buf2, i;
	uint64_t *p = k_map(a, MIB, PROT_READ | PROT_WRITE, 0), *q1, *q2;
	uint32_t h, h2, other;

	buf = k_export(a, 0, MIB, RW);
	buf2 = k_export(a, 0, MIB, RW);
	CHECK(buf >= 0 && buf2 >= 0);
	CHECK_EQ(k_arena_info(a).nr_exports, 2);
	CHECK_EQ(vgem_import(v1, buf, &h), 0);
	/* The same file again is the same buffer. */
	CHECK_EQ(vgem_import(v1, buf, &h2), 0);
	CHECK_EQ(h, h2);
	CHECK_EQ(vgem_import(v2, buf, &other), 0);
	CHECK_EQ(vgem_import(v2, buf2, &h2), 0);
	CHECK(h2 != other);
	q1 = vgem_map(v1, MIB, PROT_READ | PROT_WRITE);
	q2 = vgem_map(v2, MIB, PROT_READ | PROT_WRITE);
	CHECK(q1 && q2);
	k_fill(q1, MIB, 5);
	k_compare(q2, MIB, 5);
	k_compare(p, MIB, 5);
	/* vgem gives back the dma-buf it was given, not another one. */
	i = vgem_export(v1, h);
	CHECK(i >= 0);
	k_compare(k_map(i, MIB, PROT_READ, 0), MIB, 5);
	CHECK_EQ(k_arena_info(a).nr_exports, 2);
	vgem_close_handle(v1, h);
	vgem_close_handle(v2, h2);
	close(buf2);
	k_compare(q2, MIB, 5);
	for (i = 0; i < 50; i++) {
		CHECK_EQ(vgem_import(v1, buf, &h), 0);
		vgem_close_handle(v1, h);
	}
}

TEST(limits_of_a_range)
{
	int s = k_open(), a = k_arena(s, MIB, 0), ro = k_dup(a, RLX_R);
	static const struct {
		uint64_t offset, length;
		uint32_t access;
		int want;
	} row[] = {
		{ 0, 0, RW, -EINVAL },
		{ 0, 100, RW, -EINVAL },
		{ 100, PAGE, RW, -EINVAL },
		{ 0, MIB + PAGE, RW, -EINVAL },
		{ MIB, PAGE, RW, -EINVAL },
		{ MIB - PAGE, 2 * PAGE, RW, -EINVAL },
		{ -PAGE, PAGE, RW, -EOVERFLOW },
		{ -PAGE, 2 * PAGE, RW, -EOVERFLOW },
		{ 0, 4 * GIB, RW, -EINVAL },
		{ PAGE, -PAGE, RW, -EINVAL },
		{ 0, PAGE, 0, -EINVAL },
		{ 0, PAGE, RLX_W, -EINVAL },
		{ 0, PAGE, 4 | RLX_R, -EINVAL },
	};
	size_t i;
	long fd;

	for (i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		fd = k_export(a, row[i].offset, row[i].length, row[i].access);
		CHECKF(fd == row[i].want, "row %zu: %ld", i, fd);
	}
	CHECK_EQ(k_export(ro, 0, PAGE, RW), -EACCES);
	fd = k_export(ro, MIB - PAGE, PAGE, RLX_R);
	CHECK(fd >= 0);
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	CHECK_EQ(k_arena_info(a).nr_exports, 1);
	close(fd);
	CHECK_EQ(k_arena_info(a).nr_exports, 0);
	CHECK_EQ(arena_sync(a, 0, 0, RW, 0), -EINVAL);
	CHECK_EQ(arena_sync(a, 0, MIB + 1, RW, 0), -EINVAL);
	CHECK_EQ(arena_sync(a, -1, 2, RW, 0), -EOVERFLOW);
	CHECK_EQ(arena_sync(a, 0, 1, 0, 0), -EINVAL);
	CHECK_EQ(arena_sync(a, 0, 1, 4, 0), -EINVAL);
	CHECK_EQ(arena_sync(a, 0, 1, RW, 2), -EINVAL);
	CHECK_EQ(arena_sync(ro, 0, 1, RW, 0), -EACCES);
	CHECK_EQ(arena_sync(ro, MIB - 1, 1, RLX_R, 0), 0);
	CHECK_EQ(arena_sync(a, 5, 77, RW, 1), 0);
}

static uint64_t available(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	unsigned long long kb = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f) &&
	       sscanf(line, "MemAvailable: %llu", &kb) != 1)
		;
	CHECK(f && kb);
	fclose(f);
	return kb << 10;
}

/* The largest there is, by vgem and by ourselves. */
static void share_large(int s, int a, uint64_t size, uint64_t *p)
{
	int v = vgem_open(), buf = k_export(a, 0, size, RW);
	uint32_t handle;
	uint64_t *q;

	printf("# an arena of %llu MiB\n", (unsigned long long)(size / MIB));
	CHECKF(buf >= 0, "export: %d", buf);
	CHECK_EQ(vgem_import(v, buf, &handle), 0);
	q = vgem_map(v, size, PROT_READ | PROT_WRITE);
	CHECK(q);
	q[0] = 1;
	q[size / 8 - 1] = 2;
	q[size / 16] = 3;
	CHECK(p[0] == 1 && p[size / 8 - 1] == 2 && p[size / 16] == 3);
	vgem_close_handle(v, handle);
	munmap(q, size);
	close(buf);
	close(v);
	close(a);
	close(s);
}

TEST(as_much_as_the_guest_has)
{
	uint64_t size = available() / 4 * 3 & -MIB;
	int s = k_open(), a;

	size = (size < 4 * GIB ? size : 4 * GIB) - PAGE;
	a = k_arena(s, size, RLX_AF_HUGE_TRY);
	share_large(s, a, size, k_map(a, size, PROT_READ | PROT_WRITE, 0));
}

/* @size bytes that take 64 MiB, mapped over and over and pinned as one arena. */
static int pin_over_and_over(int s, uint64_t size, uint64_t **p)
{
	struct rlx_ioc_arena_create c = {
		.size = size, .kind = RLX_KIND_USER, .numa_node = -1, .memfd = -1,
	};
	int a;

	if (!access("/sys/kernel/debug/dma-api", F_OK))
		rlx_test_skip("checks of DMA mappings forbid a page more than once");
	if (!access("/sys/kernel/debug/kcsan", F_OK))
		rlx_test_skip("a million pages are too many where accesses are watched");
	*p = k_map_over(size, 64 * MIB);
	c.addr = (uintptr_t)*p;
	a = k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
	CHECKF(a >= 0, "pin: %d", a);
	return a;
}

TEST(just_under_4_gib)
{
	const uint64_t size = 4 * GIB - PAGE;
	uint64_t *p;
	int s = k_open(), a = pin_over_and_over(s, size, &p);

	share_large(s, a, size, p);
}

/* For importers that know how large they are: DRM does. */
TEST(over_4_gib)
{
	const uint64_t size = 4 * GIB + 66 * MIB, far = 4 * GIB + 65 * MIB;
	uint64_t *p, *q;
	int s = k_open(), a = pin_over_and_over(s, size, &p), v = vgem_open();
	struct rlx_ioc_arena_export e = { .length = size, .access = RW };
	uint32_t handle;
	long buf;

	CHECK_EQ(k_ioctl(a, RLX_IOC_ARENA_EXPORT, &e), -EINVAL);
	e.flags = RLX_EXPORT_LARGE;
	buf = k_ioctl(a, RLX_IOC_ARENA_EXPORT, &e);
	CHECKF(buf >= 0, "export: %ld", buf);
	CHECK_EQ(lseek(buf, 0, SEEK_END), size);
	CHECK_EQ(vgem_import(v, buf, &handle), 0);
	q = vgem_map(v, size, PROT_READ | PROT_WRITE);
	CHECK(q);
	p[far / 8] = 11;
	CHECK_EQ(q[far / 8], 11);
	q[far / 8 + 1] = 12;
	CHECK_EQ(p[far / 8 + 1], 12);
	munmap(q, size);
	q = k_map(buf, 2 * MIB, PROT_READ, size - 2 * MIB);
	CHECK_EQ(q[(far - (size - 2 * MIB)) / 8], 11);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, buf, size) == MAP_FAILED);
	vgem_close_handle(v, handle);
	close(buf);
	close(v);
	close(a);
	close(s);
}

TEST(read_only)
{
	int s = k_open(), a = k_arena(s, MIB, 0), v = vgem_open(), buf;
	uint64_t *p = k_map(a, MIB, PROT_READ | PROT_WRITE, 0), *q;

	k_fill(p, MIB, 9);
	buf = k_export(a, 0, MIB, RLX_R);
	CHECK(buf >= 0);
	/* PRIME asks for both directions: a device that may write. */
	vgem_cannot_write(v, buf, MIB);
	k_compare(p, MIB, 9);
	CHECK(mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, buf, 0) ==
	      MAP_FAILED && errno == EACCES);
	q = k_map(buf, MIB, PROT_READ, 0);
	k_compare(q, MIB, 9);
	CHECK(mprotect(q, MIB, PROT_READ | PROT_WRITE) && errno == EACCES);
	/* Sealing: nothing that may write is left, once the mapping is gone. */
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	munmap(p, MIB);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), 0);
	CHECK_EQ(k_export(a, 0, MIB, RW), -EPERM);
	k_compare(q, MIB, 9);
	close(buf);
	buf = k_export(a, 0, MIB, RLX_R);
	CHECK(buf >= 0);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_EXPORT), 0);
	CHECK_EQ(k_export(a, 0, MIB, RLX_R), -EPERM);
	k_compare(k_map(buf, MIB, PROT_READ, 0), MIB, 9);
}

TEST(writable_export_forbids_sealing)
{
	int s = k_open(), a = k_arena(s, MIB, 0), v = vgem_open(), buf;
	struct rlx_ioc_arena_create c = {
		.size = MIB, .flags = RLX_AF_NOEXPORT, .numa_node = -1,
		.memfd = -1,
	};
	uint32_t handle;

	buf = k_export(a, 0, PAGE, RW);
	CHECK(buf >= 0);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	CHECK_EQ(vgem_import(v, buf, &handle), 0);
	close(buf);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	vgem_close_handle(v, handle);
	CHECK_EQ(k_arena_info(a).nr_exports, 0);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), 0);
	a = k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
	CHECK(a >= 0);
	CHECK_EQ(k_export(a, 0, PAGE, RLX_R), -EPERM);
}

struct unfence {
	int vgem;
	uint32_t fence;
};

static void *unfence_main(void *arg)
{
	struct unfence *u = arg;

	usleep(60000);
	CHECK_EQ(vgem_signal(u->vgem, u->fence), 0);
	return NULL;
}

/* SYNC waits for what devices still do; so does the end of an export. */
TEST(fences_are_waited_for)
{
	int s = k_open(), a = k_arena(s, MIB, 0), v = vgem_open(), buf, sf;
	struct unfence u = { .vgem = v };
	struct pollfd pf = { .events = POLLIN };
	uint32_t handle;
	pthread_t t;
	uint64_t t0;

	buf = k_export(a, 0, MIB / 2, RW);
	CHECK_EQ(vgem_import(v, buf, &handle), 0);
	u.fence = vgem_fence(v, handle, true);
	sf = dmabuf_sync_file(buf, false);
	pf.fd = sf;
	CHECK_EQ(poll(&pf, 1, 0), 0);
	/* Another part of the arena does not wait. */
	t0 = k_now();
	CHECK_EQ(arena_sync(a, MIB / 2, MIB / 2, RW, RLX_SYNC_BEGIN), 0);
	CHECK_EQ(arena_sync(a, 0, MIB, RW, RLX_SYNC_END), 0);
	CHECK(!pthread_create(&t, NULL, unfence_main, &u));
	CHECK_EQ(arena_sync(a, MIB / 4, 1, RLX_R, RLX_SYNC_BEGIN), 0);
	CHECK(k_now() - t0 > 50000000);
	pthread_join(t, NULL);
	CHECK_EQ(poll(&pf, 1, 0), 1);
	/* A reader's fence keeps writers alone waiting. */
	u.fence = vgem_fence(v, handle, false);
	CHECK_EQ(arena_sync(a, 0, MIB, RLX_R, RLX_SYNC_BEGIN), 0);
	t0 = k_now();
	CHECK(!pthread_create(&t, NULL, unfence_main, &u));
	CHECK_EQ(arena_sync(a, 0, MIB, RW, RLX_SYNC_BEGIN), 0);
	CHECK(k_now() - t0 > 40000000);
	pthread_join(t, NULL);
	/* With everybody gone the pages stay until the fence is done. */
	u.fence = vgem_fence(v, handle, true);
	close(buf);
	vgem_close_handle(v, handle);
	usleep(100000);
	CHECK_EQ(k_arena_info(a).nr_exports, 1);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	CHECK_EQ(vgem_signal(v, u.fence), 0);
	for (t0 = k_now(); k_arena_info(a).nr_exports && k_now() - t0 < 60000000000ull;)
		usleep(1000);
	CHECK_EQ(k_arena_info(a).nr_exports, 0);
	/* And with the arena's fd gone too. */
	buf = k_export(a, 0, MIB, RW);
	CHECK_EQ(vgem_import(v, buf, &handle), 0);
	u.fence = vgem_fence(v, handle, true);
	close(buf);
	close(a);
	close(s);
	vgem_close_handle(v, handle);
	usleep(20000);
	CHECK_EQ(vgem_signal(v, u.fence), 0);
}

/* An interrupted SYNC can be done again. */
TEST(sync_is_interrupted)
{
	int s = k_open(), a = k_arena(s, MIB, 0), v = vgem_open(), buf, status;
	uint32_t handle;
	pid_t pid;

	buf = k_export(a, 0, MIB, RW);
	CHECK_EQ(vgem_import(v, buf, &handle), 0);
	vgem_fence(v, handle, true);
	pid = fork();
	if (!pid) {
		alarm(1);
		_exit(arena_sync(a, 0, MIB, RW, RLX_SYNC_BEGIN) == 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

/* A dma-buf in a message nobody reads, its maker killed. */
TEST(exporter_is_killed)
{
	int sk[2], status, v = vgem_open(), buf, i;
	uint32_t handle;
	pid_t pid;

	for (i = 0; i < 20; i++) {
		uint64_t *p;

		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sk));
		pid = fork();
		if (!pid) {
			int a = k_arena(k_open(), MIB, 0);

			p = k_map(a, MIB, PROT_READ | PROT_WRITE, 0);
			p[1000] = i + 1;
			rlx_test_send_fd(sk[1], k_export(a, 0, MIB, RW));
			pause();
		}
		if (i % 2) {
			buf = rlx_test_recv_fd(sk[0]);
			CHECK_EQ(vgem_import(v, buf, &handle), 0);
		}
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid);
		if (i % 2) {
			close(buf);
			p = vgem_map(v, MIB, PROT_READ);
			CHECK(p && p[1000] == (uint64_t)i + 1);
			munmap(p, MIB);
			vgem_close_handle(v, handle);
		}
		close(sk[0]);
		close(sk[1]);
	}
}

struct race {
	int arena;
	_Atomic bool stop;
};

static void *race_export(void *arg)
{
	struct race *r = arg;
	int v = vgem_open(), buf;
	uint32_t handle;

	while (!r->stop) {
		buf = k_export(r->arena, 0, MIB, RW);
		if (vgem_import(v, buf, &handle) == 0)
			vgem_close_handle(v, handle);
		close(buf);
	}
	close(v);
	return NULL;
}

static void *race_sync(void *arg)
{
	struct race *r = arg;

	while (!r->stop) {
		CHECK_EQ(arena_sync(r->arena, 0, MIB, RW, RLX_SYNC_BEGIN), 0);
		CHECK_EQ(arena_sync(r->arena, 0, MIB, RW, RLX_SYNC_END), 0);
	}
	return NULL;
}

TEST(races)
{
	struct race r = { .arena = k_arena(k_open(), MIB, 0) };
	pthread_t t[3];
	int i, ret;

	for (i = 0; i < 3; i++)
		CHECK(!pthread_create(&t[i], NULL,
				      i == 2 ? race_sync : race_export, &r));
	for (i = 0; i < 400; i++) {
		usleep(2000);
		if (i < 300)
			continue;
		ret = k_seal(r.arena, RLX_KSEAL_NO_WRITE | RLX_KSEAL_SEAL);
		CHECK(ret == 0 || ret == -EBUSY || ret == -EPERM);
	}
	r.stop = true;
	for (i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	CHECK_EQ(k_arena_info(r.arena).nr_exports, 0);
}

TEST_MAIN()
