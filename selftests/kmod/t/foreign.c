// SPDX-License-Identifier: MIT
/* Arenas of a dma-buf that another driver exports, by each exporter there is. */
/* rig: timeout=120 modules=vgem also */
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/dma-heap.h>
#include <linux/rlx.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"
#include "lib/vgem.h"

#define PAGE	4096ul
#define SIZE	(8 * PAGE)

/* ---- exporters ---- */

static int by_rlx(void)
{
	int s = k_open(), a = k_arena(s, SIZE, 0);
	long d = k_export(a, 0, SIZE, RLX_R | RLX_W);

	CHECKF(d >= 0, "export: %ld", d);
	close(a);
	close(s);
	return d;
}

static int by_vgem(void)
{
	int v = vgem_open(), d = vgem_export(v, vgem_create(v, SIZE));

	CHECKF(d >= 0, "vgem: %d", d);
	close(v);
	return d;
}

static int by_udmabuf(void)
{
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), mem, d;
	struct udmabuf_create c = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = SIZE };

	if (dev < 0)
		return -1;
	mem = memfd_create("rlx-foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(!ftruncate(mem, SIZE) && !fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK));
	c.memfd = mem;
	d = k_ioctl(dev, UDMABUF_CREATE, &c);
	CHECKF(d >= 0, "udmabuf: %d", d);
	close(mem);
	close(dev);
	return d;
}

static int by_heap(void)
{
	struct dma_heap_allocation_data h = { .len = SIZE, .fd_flags = O_RDWR | O_CLOEXEC };
	int dev = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);

	if (dev < 0)
		return -1;
	CHECK_EQ(k_ioctl(dev, DMA_HEAP_IOCTL_ALLOC, &h), 0);
	close(dev);
	return h.fd;
}

static const struct {
	const char *name;
	int (*make)(void);
} exporters[] = {
	{ "rlx", by_rlx }, { "vgem", by_vgem }, { "udmabuf", by_udmabuf },
	{ "system heap", by_heap },
};
#define NR_EXPORTERS	(sizeof(exporters) / sizeof(*exporters))

static bool pins_memfds(void)
{
	int s = k_open();
	bool does = k_features(s) & RLX_FEAT_MEMFD;

	close(s);
	return does;
}

/* Calls @fn with a dma-buf of each exporter; @fn closes it. */
static void each(void (*fn)(int dmabuf))
{
	for (size_t i = 0; i < NR_EXPORTERS; i++) {
		int d = exporters[i].make();

		printf("# %s%s\n", exporters[i].name, d < 0 ? ": not in this kernel" : "");
		/* 6.1, which pins no memfds, comes without the last two. */
		CHECKF(d >= 0 || (i > 1 && !pins_memfds()), "no %s", exporters[i].name);
		if (d < 0)
			continue;
		fn(d);
		CHECK(k_stat_becomes("nr_arenas", 0));
		CHECK(k_stat_becomes("nr_dmabufs", 0));
	}
}

static long wrap(int session, int dmabuf, uint32_t flags)
{
	struct rlx_ioc_arena_create c = {
		.size = SIZE, .kind = RLX_KIND_DMABUF, .flags = flags, .numa_node = -1,
		.memfd = dmabuf, .cookie = 77,
	};

	return k_ioctl(session, RLX_IOC_ARENA_CREATE, &c);
}

static int wrapped(int dmabuf)
{
	int s = k_open();
	long a = wrap(s, dmabuf, 0);

	CHECKF(a >= 0, "an arena of it: %ld", a);
	close(s);
	return a;
}

static long sync_arena(int a, uint32_t access, uint32_t op)
{
	struct rlx_ioc_arena_sync y = { .length = PAGE, .access = access, .op = op };

	return k_ioctl(a, RLX_IOC_ARENA_SYNC, &y);
}

/* ---- making one ---- */

TEST(refusals)
{
	int s = k_open(), d = by_rlx(), a = k_arena(s, SIZE, 0), mem, ro;
	struct rlx_ioc_arena_create good = {
		.size = SIZE, .kind = RLX_KIND_DMABUF, .numa_node = -1, .memfd = d,
	}, c;
	static const uint32_t flags[] = {
		RLX_AF_HUGE_TRY, RLX_AF_HUGE_REQUIRE, RLX_AF_NUMA_BIND,
		RLX_AF_NUMA_INTERLEAVE, 1u << 6,
	};
	struct rlx_ioc_query q = { 0 };

	CHECK_EQ(k_ioctl(s, RLX_IOC_QUERY, &q), 0);
	CHECK(q.features & RLX_FEAT_DMABUF_ARENA);
	CHECK_EQ(wrap(s, 1000, 0), -EBADF);
	CHECK_EQ(wrap(s, -1, 0), -EBADF);
	CHECK_EQ(wrap(s, a, 0), -EINVAL);
	CHECK_EQ(wrap(s, s, 0), -EINVAL);
	mem = memfd_create("rlx-foreign", MFD_CLOEXEC);
	CHECK(!ftruncate(mem, SIZE));
	CHECK_EQ(wrap(s, mem, 0), -EINVAL);
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		c = good;
		c.flags = flags[i];
		c.nodes = flags[i] & (RLX_AF_NUMA_BIND | RLX_AF_NUMA_INTERLEAVE) ? 1 : 0;
		CHECK_EQ(k_ioctl(s, RLX_IOC_ARENA_CREATE, &c), -EINVAL);
	}
	for (int i = 0; i < 6; i++) {
		c = good;
		switch (i) {
		case 0: c.size = SIZE - PAGE; break;
		case 1: c.size = SIZE + PAGE; break;
		case 2: c.addr = PAGE; break;
		case 3: c.nodes = 1; break;
		case 4: c.numa_node = 0; break;
		case 5: c.reserved[0] = 1; break;
		}
		CHECKF(k_ioctl(s, RLX_IOC_ARENA_CREATE, &c) == -EINVAL, "case %d", i);
	}
	/* What is exported for reading alone. */
	ro = k_export(a, 0, SIZE, RLX_R);
	CHECK_EQ(wrap(s, ro, 0), -EACCES);
	CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 2);
	close(ro);
	close(mem);
	close(a);
	close(d);
	close(s);
}

static long one_more(void *arg)
{
	int *fds = arg;
	long a = wrap(fds[0], fds[1], 0);

	if (a >= 0)
		close(a);
	return a < 0 ? a : 0;
}

TEST(faults)
{
	int fds[2] = { k_open(), by_rlx() };

	k_fail_nth("CREATE of a dma-buf", one_more, fds, NULL);
	close(fds[1]);
	close(fds[0]);
	CHECK(k_stat_becomes("nr_arenas", 0));
}

static void check_info(int d)
{
	int a = wrapped(d);
	struct rlx_ioc_arena_info i = k_arena_info(a);
	long long bytes = k_file_number(K_TOTALS "bytes");

	CHECK_EQ(i.size, SIZE);
	CHECK_EQ(i.kind, RLX_KIND_DMABUF);
	CHECK_EQ(i.access, RLX_R | RLX_W);
	CHECK_EQ(i.cookie, 77);
	CHECK(!i.flags && !i.seals && !i.nr_huge && !i.nr_chunks && !i.nr_leases &&
	      !i.nr_exports && !i.nr_buffers && i.numa_node == -1);
	close(a);
	CHECK_EQ(k_file_number(K_TOTALS "bytes"), bytes);
	close(d);
}

TEST(info)
{
	each(check_info);
}

/* Who may not lock a page, for it locks none; but no more arenas than others. */
TEST(not_charged)
{
	struct rlimit none = { 0, 0 };
	struct rlx_ioc_arena_create c = {
		.size = PAGE, .numa_node = -1, .memfd = -1,
	};
	int d = by_rlx(), s, a;

	CHECK(!setrlimit(RLIMIT_MEMLOCK, &none));
	CHECK(!setgid(105) && !setuid(2008));
	s = k_open();
	CHECK_EQ(k_ioctl(s, RLX_IOC_ARENA_CREATE, &c), -EPERM);
	a = wrap(s, d, 0);
	CHECKF(a >= 0, "an arena of it: %d", a);
	close(a);
	close(d);
	close(s);
}

/* ---- the CPU ---- */

static void check_map(int d)
{
	int a = wrapped(d), ro = k_dup(a, RLX_R);
	uint64_t seed = rlx_test_seed();
	uint64_t *p = k_map(a, SIZE, PROT_READ | PROT_WRITE, 0), *q, *direct;

	CHECK_EQ(sync_arena(a, RLX_R | RLX_W, RLX_SYNC_BEGIN), 0);
	k_fill(p, SIZE, seed);
	CHECK_EQ(sync_arena(a, RLX_R | RLX_W, RLX_SYNC_END), 0);
	/* By the dma-buf, a part by the arena, and for reading. */
	q = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, d, 0);
	CHECK(q != MAP_FAILED);
	k_compare(q, SIZE, seed);
	munmap(q, SIZE);
	/* vgem shows the beginning at any offset (drm_gem_shmem_fault()): to both. */
	q = k_map(a, 2 * PAGE, PROT_READ, 5 * PAGE);
	direct = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, d, 5 * PAGE);
	CHECK(direct != MAP_FAILED);
	CHECK(!memcmp(q, direct, 2 * PAGE));
	if (memcmp(q, p, PAGE))
		CHECK(!memcmp(q, (char *)p + 5 * PAGE, 2 * PAGE));
	munmap(direct, 2 * PAGE);
	munmap(q, 2 * PAGE);
	q = k_map(ro, SIZE, PROT_READ, 0);
	CHECK_EQ(sync_arena(ro, RLX_R, RLX_SYNC_BEGIN), 0);
	k_compare(q, SIZE, seed);
	CHECK_EQ(sync_arena(ro, RLX_R, RLX_SYNC_END), 0);

	/* Who may read writes in no way. */
	CHECK_EQ(sync_arena(ro, RLX_W, RLX_SYNC_BEGIN), -EACCES);
	CHECK_EQ(sync_arena(ro, RLX_R | RLX_W, RLX_SYNC_END), -EACCES);
	CHECK(mprotect(q, SIZE, PROT_READ | PROT_WRITE) && errno == EACCES);
	CHECK(remap_file_pages(q, SIZE, 0, 0, 0) && errno == EINVAL);
	CHECK(mprotect(q, SIZE, PROT_READ | PROT_WRITE) && errno == EACCES);
	CHECK(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0) == MAP_FAILED);
	CHECK_EQ(errno, EACCES);
	CHECK_EQ(k_dup(ro, RLX_R | RLX_W), -EACCES);

	CHECK(mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, a, 0) == MAP_FAILED);
	CHECK_EQ(errno, EINVAL);
	CHECK(mmap(NULL, SIZE, PROT_READ, MAP_SHARED, a, PAGE) == MAP_FAILED);
	CHECK_EQ(errno, EINVAL);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, a, SIZE) == MAP_FAILED);
	CHECK_EQ(errno, EINVAL);
	CHECK(mremap(p, SIZE, SIZE + PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
	munmap(q, SIZE);
	munmap(p, SIZE);
	close(ro);
	close(a);
	close(d);
}

TEST(mapped)
{
	each(check_map);
}

/* Made for reading: as a duplicate for reading. */
TEST(read_only)
{
	int s = k_open(), d = by_rlx();
	long a = wrap(s, d, RLX_AF_RDONLY);

	CHECKF(a >= 0, "read-only: %ld", a);
	CHECK_EQ(k_arena_info(a).access, RLX_R);
	CHECK_EQ(k_arena_info(a).seals, 0);
	CHECK(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a, 0) == MAP_FAILED);
	CHECK_EQ(errno, EACCES);
	CHECK_EQ(k_export(a, 0, SIZE, RLX_R), -EACCES);
	CHECK_EQ(k_export(a, 0, SIZE, RLX_R | RLX_W), -EACCES);
	close(a);
	close(d);
	close(s);
}

static _Atomic bool begun;

static void *begin(void *arg)
{
	CHECK_EQ(sync_arena(*(int *)arg, RLX_R, RLX_SYNC_BEGIN), 0);
	begun = true;
	return NULL;
}

/* Who reads waits for a device that writes. */
TEST(sync_waits)
{
	int v = vgem_open(), d, a;
	uint32_t handle = vgem_create(v, SIZE), fence;
	pthread_t t;

	d = vgem_export(v, handle);
	a = wrapped(d);
	fence = vgem_fence(v, handle, true);
	pthread_create(&t, NULL, begin, &a);
	usleep(300000);
	CHECK(!begun);
	CHECK_EQ(vgem_signal(v, fence), 0);
	pthread_join(t, NULL);
	CHECK(begun);
	CHECK_EQ(sync_arena(a, RLX_R, RLX_SYNC_END), 0);
	close(a);
	close(d);
	close(v);
}

/* ---- rights ---- */

static ino_t inode(int fd)
{
	struct stat st;

	CHECK(!fstat(fd, &st));
	return st.st_ino;
}

static void check_export(int d)
{
	int a = wrapped(d), ro = k_dup(a, RLX_R), v;
	uint32_t handle;
	long e;

	CHECK_EQ(k_export(a, 0, SIZE, RLX_R), -EACCES);
	CHECK_EQ(k_export(ro, 0, SIZE, RLX_R), -EACCES);
	CHECK_EQ(k_export(ro, 0, SIZE, RLX_R | RLX_W), -EACCES);
	CHECK_EQ(k_export(a, 0, SIZE - PAGE, RLX_R | RLX_W), -EINVAL);
	CHECK_EQ(k_export(a, PAGE, SIZE - PAGE, RLX_R | RLX_W), -EINVAL);
	e = k_export(a, 0, SIZE, RLX_R | RLX_W);
	CHECKF(e >= 0, "export: %ld", e);
	CHECK(fcntl(e, F_GETFD) & FD_CLOEXEC);
	CHECK(inode(e) == inode(d));
	CHECK_EQ(k_arena_info(a).nr_exports, 0);
	/* It is what it was to others. */
	v = vgem_open();
	CHECK_EQ(vgem_import(v, e, &handle), 0);
	vgem_close_handle(v, handle);
	close(v);
	close(e);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_EXPORT), 0);
	CHECK_EQ(k_export(a, 0, SIZE, RLX_R | RLX_W), -EPERM);
	close(ro);
	close(a);
	close(d);
}

TEST(exported)
{
	each(check_export);
}

static long export_again(void *arg)
{
	long e = k_export(*(int *)arg, 0, SIZE, RLX_R | RLX_W);

	if (e >= 0)
		close(e);
	return e < 0 ? e : 0;
}

TEST(no_descriptor)
{
	int d = by_rlx(), a = wrapped(d), fill;

	/* No hole below them. */
	do {
		fill = dup(0);
	} while (fill < d || fill < a);
	close(fill);
	k_no_fd(export_again, &a);
	close(a);
	close(d);
	CHECK(k_stat_becomes("nr_dmabufs", 0));
}

TEST(seals)
{
	int d = by_rlx(), a = wrapped(d);
	void *p;

	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	CHECK_EQ(k_seal(a, RLX_KSEAL_FUTURE_WRITE), -EBUSY);
	CHECK_EQ(k_seal(a, RLX_KSEAL_FUTURE_WRITE | RLX_KSEAL_NO_ATTACH), -EBUSY);
	CHECK_EQ(k_arena_info(a).seals, 0);
	p = k_map(a, SIZE, PROT_READ | PROT_WRITE, 0);
	munmap(p, SIZE);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_ATTACH), 0);
	CHECK_EQ(k_seal(a, RLX_KSEAL_SEAL), 0);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_EXPORT), -EPERM);
	close(a);
	close(d);
}

/* No pages of it go into a ring. */
TEST(no_fixed_buffer)
{
	int d = by_rlx(), a = wrapped(d), s = k_open();
	struct rlx_ioc_buffer_register r = { .length = PAGE, .access = RLX_R };
	struct rlx_ioc_query q = { 0 };
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	CHECK_EQ(k_ioctl(s, RLX_IOC_QUERY, &q), 0);
	CHECK(!io_uring_queue_init(4, &ring, 0));
	CHECK(!io_uring_register_buffers_sparse(&ring, 1));
	sqe = io_uring_get_sqe(&ring);
	CHECK(sqe);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = a;
	sqe->cmd_op = RLX_IOC_BUFFER_REGISTER;
	((struct rlx_uring_cmd *)sqe->cmd)->addr = (uintptr_t)&r;
	CHECK_EQ(io_uring_submit(&ring), 1);
	CHECK(!io_uring_wait_cqe(&ring, &cqe));
	CHECK_EQ(cqe->res, q.features & RLX_FEAT_URING_BUFFERS ? -ENODEV : -EOPNOTSUPP);
	io_uring_queue_exit(&ring);
	close(a);
	close(d);
	close(s);
}

/* ---- requests ---- */

static void check_request(int d)
{
	struct k_scene k = k_scene_new(&(struct k_scene_opts){ .depth = 8 });
	int a = wrapped(d), got;
	uint64_t seed = rlx_test_seed(), *p = k_map(a, SIZE, PROT_READ | PROT_WRITE, 0);
	long handle = k_attach(k.ch, a, RLX_R);
	struct rlx_ioc_exec_arena out = { 0 };
	struct rlx_rq rq = k_rq(1, 1);
	struct rlx_cqe cqe;
	uint32_t tag;

	CHECKF(handle > 0, "attach: %ld", handle);
	k_fill(p, SIZE, seed);
	munmap(p, SIZE);
	close(d);
	rq.nr_slices = 1;
	rq.slice[0] = (struct rlx_slice){ handle, RLX_R, PAGE, SIZE };
	CHECK_EQ(k_submit(k.ch, &rq, 1, NULL), -EINVAL);
	rq.slice[0] = (struct rlx_slice){ handle, RLX_R, 0, SIZE };
	CHECK_EQ(k_submit(k.ch, &rq, 1, NULL), 1);
	/* A list of slices would have to be read by the module. */
	rq.flags = RLX_RQ_INDIRECT;
	rq.slice[0] = (struct rlx_slice){ handle, RLX_R, 0, sizeof(struct rlx_slice) };
	CHECK_EQ(k_submit(k.ch, &rq, 1, NULL), -EINVAL);
	CHECK_EQ(k_arena_info(a).nr_leases, 1);
	close(a);
	tag = k_fetch1(k.ex);
	CHECK_EQ(k.desc[tag].slice[0].length, SIZE);
	got = k_exec_arena(k.ex, k.id, handle, &out);
	CHECKF(got >= 0, "EXEC_ARENA: %d", got);
	CHECK_EQ(out.size, SIZE);
	CHECK_EQ(k_arena_info(got).kind, RLX_KIND_DMABUF);
	CHECK_EQ(k_arena_info(got).access, RLX_R);
	p = k_map(got, SIZE, PROT_READ, 0);
	k_compare(p, SIZE, seed);
	munmap(p, SIZE);
	CHECK_EQ(k_export(got, 0, SIZE, RLX_R), -EACCES);
	close(got);
	CHECK_EQ(k_commit1(k.ex, k.desc, tag, 5, 0), 1);
	CHECK_EQ(k_reap(k.ch, &cqe, 1, 1, K_SOON), 1);
	k_scene_free(&k);
}

TEST(in_a_request)
{
	each(check_request);
}

/* ---- deaths ---- */

static void check_orders(int d)
{
	int a = wrapped(d), e;
	uint64_t *p = k_map(a, SIZE, PROT_READ | PROT_WRITE, 0), *q;

	/* The exporter's fd first. */
	close(d);
	k_fill(p, SIZE, 1);
	q = k_map(a, SIZE, PROT_READ, 0);
	k_compare(q, SIZE, 1);
	munmap(q, SIZE);
	e = k_export(a, 0, SIZE, RLX_R | RLX_W);
	CHECK(e >= 0);
	/* The arena; a mapping and the dma-buf stay. */
	close(a);
	k_compare(p, SIZE, 1);
	q = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, e, 0);
	CHECK(q != MAP_FAILED);
	k_compare(q, SIZE, 1);
	munmap(q, SIZE);
	/* At last the mapping alone. */
	close(e);
	k_fill(p, SIZE, 2);
	k_compare(p, SIZE, 2);
	munmap(p, SIZE);
}

TEST(each_order)
{
	each(check_orders);
}

/* The exporter's module stays as long as the arena, and no longer. */
TEST(holds_the_module)
{
	const char *refs = "/sys/module/vgem/refcnt";
	long long before = k_file_number(refs);
	int a, d = by_vgem();

	a = wrapped(d);
	close(d);
	CHECK(k_file_number(refs) > before);
	close(a);
	for (int i = 0; i < 60000 && k_file_number(refs) != before; i++)
		usleep(1000);
	CHECK_EQ(k_file_number(refs), before);
}

TEST_MAIN()
