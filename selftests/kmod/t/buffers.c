// SPDX-License-Identifier: MIT
/* Ranges of arenas as fixed buffers of io_uring rings. */
/* rig: timeout=120 memory=3072 also */
#define _FILE_OFFSET_BITS 64
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/rlx.h>
#include <net/if.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"

#define PAGE	4096ul
#define MIB	(1ul << 20)
#define HUGE	(2 * MIB)
#define PLACES	8

/* <liburing.h> may be older than the kernel. */
#define REGISTER_CLONE_BUFFERS	30
struct clone_buffers {
	uint32_t src_fd, flags, src_off, dst_off, nr, pad[3];
};

static bool supported(int session)
{
	return k_features(session) & RLX_FEAT_URING_BUFFERS;
}

static void need_support(void)
{
	int s = k_open();

	if (!supported(s))
		rlx_test_skip("this kernel's rings take no pages of a driver");
	close(s);
}

static struct io_uring ring_new(unsigned int flags)
{
	struct io_uring ring;

	CHECK(!io_uring_queue_init(8, &ring, flags));
	CHECK(!io_uring_register_buffers_sparse(&ring, PLACES));
	return ring;
}

/* What the next SQE's command answers. */
static int done(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int res;

	/* A thread of the ring's may not have counted the one before yet. */
	CHECK(io_uring_submit(ring) >= 1);
	CHECK(!io_uring_wait_cqe(ring, &cqe));
	res = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return res;
}

static int command(struct io_uring *ring, int fd, uint32_t op, const void *arg,
		   uint32_t flags, uint8_t sqe_flags)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct rlx_uring_cmd *p;

	CHECK(sqe);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->flags = sqe_flags;
	sqe->fd = fd;
	sqe->cmd_op = op;
	p = (struct rlx_uring_cmd *)sqe->cmd;
	p->addr = (uintptr_t)arg;
	p->flags = flags;
	return done(ring);
}

static int reg(struct io_uring *ring, int arena, uint64_t offset, uint64_t length,
	       uint32_t access, uint32_t index)
{
	struct rlx_ioc_buffer_register r = {
		.offset = offset, .length = length, .access = access, .index = index,
	};

	return command(ring, arena, RLX_IOC_BUFFER_REGISTER, &r, 0, 0);
}

static int unreg(struct io_uring *ring, int arena, uint32_t index)
{
	struct rlx_ioc_buffer_unregister u = { .index = index };

	return command(ring, arena, RLX_IOC_BUFFER_UNREGISTER, &u, 0, 0);
}

static int read_fixed(struct io_uring *ring, int fd, uint64_t at, unsigned int n, int index)
{
	io_uring_prep_read_fixed(io_uring_get_sqe(ring), fd, (void *)(uintptr_t)at, n, 0,
				 index);
	return done(ring);
}

static int write_fixed(struct io_uring *ring, int fd, uint64_t at, unsigned int n, int index)
{
	io_uring_prep_write_fixed(io_uring_get_sqe(ring), fd, (void *)(uintptr_t)at, n, 0,
				  index);
	return done(ring);
}

/* A file of random words. */
static int file_new(size_t bytes, uint64_t seed)
{
	int fd = memfd_create("rlx-buffers", MFD_CLOEXEC);
	void *p;

	CHECK(fd >= 0 && !ftruncate(fd, bytes));
	p = k_map(fd, bytes, PROT_READ | PROT_WRITE, 0);
	k_fill(p, bytes, seed);
	munmap(p, bytes);
	return fd;
}

static void no_buffers_left(void)
{
	CHECK(k_stat_becomes("nr_buffers", 0));
	CHECK(k_stat_becomes("nr_arenas", 0));
}

/*
 * The ring lets a buffer go with the last request that used it, which its CQE does not end:
 * a worker may have held it still, and what it left a ring with DEFER_TASKRUN ends in the
 * next call alone.
 */
static void buffers_go(struct io_uring *ring, int a)
{
	for (int i = 0; i < 60000 && k_arena_info(a).nr_buffers; i++) {
		usleep(1000);
		CHECK(io_uring_get_events(ring) >= 0);
	}
	CHECK_EQ(k_arena_info(a).nr_buffers, 0);
}

/* ---- on every kernel ---- */

TEST(where_it_is_not)
{
	int s = k_open(), a = k_arena(s, PAGE, 0), fd = file_new(PAGE, 1);
	struct rlx_ioc_buffer_register r = { .length = PAGE, .access = RLX_R };
	struct io_uring ring;

	/* They are io_uring's alone, everywhere. */
	CHECK_EQ(k_ioctl(a, RLX_IOC_BUFFER_REGISTER, &r), -ENOTTY);
	CHECK_EQ(k_ioctl(a, RLX_IOC_BUFFER_UNREGISTER, &r), -ENOTTY);
	CHECK(!io_uring_queue_init(8, &ring, 0));
	CHECK_EQ(command(&ring, a, RLX_IOC_ARENA_INFO, &r, 0, 0), -EOPNOTSUPP);
	if (!supported(s)) {
		CHECK_EQ(reg(&ring, a, 0, PAGE, RLX_R, 0), -EOPNOTSUPP);
		CHECK_EQ(unreg(&ring, a, 0), -EOPNOTSUPP);
		/* Nor is anything half done. */
		CHECK_EQ(write_fixed(&ring, fd, 0, 8, 0), -EFAULT);
	}
	CHECK_EQ(k_arena_info(a).nr_buffers, 0);
	io_uring_queue_exit(&ring);
	close(fd);
	close(a);
	close(s);
}

/*
 * A user who may lock half as much again as the arena: its own pages go into a ring's
 * table for nothing; a mapping of it, the way of other kernels, is charged once more.
 */
static void charged(uint32_t how, size_t size, uid_t user)
{
	struct rlimit lim = { size + size / 2, size + size / 2 };
	struct iovec v = { .iov_len = size };
	struct io_uring ring;
	int s, a, ret;

	CHECK(!setrlimit(RLIMIT_MEMLOCK, &lim));
	CHECK(!setgid(105) && !setuid(user));
	s = k_open();
	a = k_arena(s, size, how);
	ring = ring_new(0);
	CHECK_EQ(reg(&ring, a, 0, size, RLX_R | RLX_W, 3), supported(s) ? 0 : -EOPNOTSUPP);
	io_uring_queue_exit(&ring);
	v.iov_base = k_map(a, size, PROT_READ | PROT_WRITE, 0);
	CHECK(!io_uring_queue_init(8, &ring, 0));
	ret = io_uring_register_buffers(&ring, &v, 1);
	/* mapping.c has what can be done with it by who may; 6.1 refuses all files. */
	CHECK_EQ(ret, k_features(s) & RLX_FEAT_MEMFD ? -ENOMEM : -EOPNOTSUPP);
	io_uring_queue_exit(&ring);
	close(a);
	close(s);
}

TEST(charged_small)
{
	charged(0, 4 * MIB, 2007);
}

TEST(charged_huge)
{
	/* Another user: what a ring had charged is given back some time after its end. */
	charged(k_huge(k_open()), 2 * HUGE, 2008);
}

/* ---- use ---- */

static void use(uint32_t how, size_t size, unsigned int flags)
{
	/* Begins and ends in the midst of a page. */
	const size_t first = PAGE + 512, bytes = size - 2 * PAGE - 1024;
	uint64_t seed = rlx_test_seed();
	int s = k_open(), a = k_arena(s, size, how), from = file_new(bytes, seed), to, pair[2];
	struct io_uring ring = ring_new(flags);
	uint64_t *p = k_map(a, size, PROT_READ | PROT_WRITE, 0), *q;

	memset(p, 0xa5, size);
	/* Rings of tests before this one let theirs go late. */
	CHECK(k_stat_becomes("bytes", (long)size));
	CHECK_EQ(reg(&ring, a, first, bytes, RLX_R | RLX_W, 5), 0);
	CHECK_EQ(k_arena_info(a).nr_buffers, 1);
	CHECK_EQ(k_file_number(K_TOTALS "nr_buffers"), 1);
	CHECK_EQ(k_file_number(K_TOTALS "bytes"), size);

	CHECK_EQ(read_fixed(&ring, from, 0, bytes, 5), bytes);
	k_compare((uint64_t *)((char *)p + first), bytes, seed);
	for (size_t i = 0; i < first; i++)
		CHECK_EQ(((unsigned char *)p)[i], 0xa5);
	for (size_t i = first + bytes; i < size; i++)
		CHECK_EQ(((unsigned char *)p)[i], 0xa5);
	to = memfd_create("rlx-buffers-to", MFD_CLOEXEC);
	CHECK_EQ(write_fixed(&ring, to, 0, bytes, 5), bytes);
	q = k_map(to, bytes, PROT_READ, 0);
	k_compare(q, bytes, seed);
	munmap(q, bytes);

	/* A part, and what is not all inside. */
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	CHECK_EQ(write_fixed(&ring, pair[0], bytes - 8, 8, 5), 8);
	CHECK_EQ(read(pair[1], &seed, 8), 8);
	CHECK_EQ(seed, *(uint64_t *)((char *)p + first + bytes - 8));
	CHECK_EQ(write_fixed(&ring, pair[0], bytes - 8, 9, 5), -EFAULT);
	CHECK_EQ(write_fixed(&ring, pair[0], first + bytes, 8, 5), -EFAULT);
	CHECK_EQ(unreg(&ring, a, 5), 0);
	buffers_go(&ring, a);
	CHECK_EQ(write_fixed(&ring, pair[0], 0, 8, 5), -EFAULT);
	close(pair[0]);
	close(pair[1]);
	munmap(p, size);
	close(from);
	close(to);
	io_uring_queue_exit(&ring);
	close(a);
	close(s);
	no_buffers_left();
}

TEST(small)
{
	need_support();
	use(0, 37 * PAGE, 0);
}

TEST(huge)
{
	need_support();
	use(k_huge(k_open()), 3 * HUGE, 0);
}

TEST(mixed)
{
	need_support();
	use(RLX_AF_HUGE_TRY, 2 * HUGE + 19 * PAGE, 0);
}

TEST(other_rings)
{
	need_support();
	use(0, 9 * PAGE, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
	use(0, 9 * PAGE, IORING_SETUP_SQPOLL);
}

/* A guest begins without. */
static void loopback_up(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	CHECK(fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &r));
	close(fd);
}

static void tcp_pair(int pair[2])
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	loopback_up();
	CHECK(!bind(listener, (struct sockaddr *)&at, len) && !listen(listener, 1));
	CHECK(!getsockname(listener, (struct sockaddr *)&at, &len));
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(pair[0], (struct sockaddr *)&at, len));
	pair[1] = accept(listener, NULL, NULL);
	CHECK(pair[1] >= 0);
	close(listener);
}

/* The network takes the pages; the notification comes when it has let them go. */
static void send_zc(uint32_t how)
{
	const size_t n = 5 * PAGE + 100;
	int s = k_open(), a = k_arena(s, HUGE, how), pair[2];
	struct io_uring ring = ring_new(0);
	uint64_t *p = k_map(a, HUGE, PROT_READ | PROT_WRITE, 0), seed = rlx_test_seed();
	struct io_uring_cqe *cqe;
	char *got = malloc(n);
	size_t have = 0;

	k_fill(p, HUGE, seed);
	tcp_pair(pair);
	CHECK_EQ(reg(&ring, a, 0, HUGE, RLX_R, 0), 0);
	io_uring_prep_send_zc_fixed(io_uring_get_sqe(&ring), pair[0],
				    (void *)(uintptr_t)(3 * PAGE + 8), n, 0, 0, 0);
	CHECK_EQ(io_uring_submit(&ring), 1);
	CHECK(!io_uring_wait_cqe(&ring, &cqe));
	CHECK_EQ(cqe->res, n);
	CHECK(cqe->flags & IORING_CQE_F_MORE);
	io_uring_cqe_seen(&ring, cqe);
	/* Unregistered meanwhile, it stays for the network. */
	CHECK_EQ(unreg(&ring, a, 0), 0);
	while (have < n) {
		ssize_t more = read(pair[1], got + have, n - have);

		CHECK(more > 0);
		have += more;
	}
	CHECK(!memcmp(got, (char *)p + 3 * PAGE + 8, n));
	free(got);
	munmap(p, HUGE);
	close(pair[0]);
	close(pair[1]);
	io_uring_queue_exit(&ring);
	close(a);
	close(s);
	no_buffers_left();
}

TEST(send_zc_small)
{
	need_support();
	send_zc(0);
}

TEST(send_zc_huge)
{
	need_support();
	send_zc(k_huge(k_open()));
}

/* Pages of a memfd, and of the caller: those that are pinned. */
TEST(pinned_arenas)
{
	need_support();
	int s = k_open(), fd = file_new(4 * PAGE, 7), a[2], mem;
	struct io_uring ring = ring_new(0);
	struct rlx_ioc_arena_create c = {
		.size = 4 * PAGE, .kind = RLX_KIND_MEMFD, .numa_node = -1,
	};
	char *p;

	mem = memfd_create("rlx-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(!ftruncate(mem, 4 * PAGE) && !fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK));
	c.memfd = mem;
	a[0] = k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	c = (struct rlx_ioc_arena_create){
		.size = 4 * PAGE, .kind = RLX_KIND_USER, .numa_node = -1, .memfd = -1,
		.addr = (uintptr_t)p,
	};
	a[1] = k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
	for (int i = 0; i < 2; i++) {
		CHECKF(a[i] > 0, "arena %d: %d", i, a[i]);
		CHECK_EQ(reg(&ring, a[i], 0, 4 * PAGE, RLX_W, i), 0);
		CHECK_EQ(read_fixed(&ring, fd, 0, 4 * PAGE, i), 4 * PAGE);
	}
	k_compare((uint64_t *)p, 4 * PAGE, 7);
	munmap(p, 4 * PAGE);
	p = k_map(mem, 4 * PAGE, PROT_READ, 0);
	k_compare((uint64_t *)p, 4 * PAGE, 7);
	munmap(p, 4 * PAGE);
	close(a[0]);
	close(a[1]);
	close(mem);
	close(fd);
	io_uring_queue_exit(&ring);
	close(s);
	no_buffers_left();
}

/* ---- rights ---- */

TEST(directions)
{
	need_support();
	int s = k_open(), a = k_arena(s, PAGE, 0), ro = k_dup(a, RLX_R), fd = file_new(PAGE, 2);
	struct io_uring ring = ring_new(0);

	CHECK_EQ(reg(&ring, ro, 0, PAGE, RLX_W, 0), -EACCES);
	CHECK_EQ(reg(&ring, ro, 0, PAGE, RLX_R | RLX_W, 0), -EACCES);
	CHECK_EQ(reg(&ring, ro, 0, PAGE, RLX_R, 0), 0);
	CHECK_EQ(read_fixed(&ring, fd, 0, 64, 0), -EFAULT);
	CHECK_EQ(write_fixed(&ring, fd, 0, 64, 0), 64);
	CHECK_EQ(reg(&ring, a, 0, PAGE, RLX_W, 1), 0);
	CHECK_EQ(read_fixed(&ring, fd, 0, 64, 1), 64);
	CHECK_EQ(write_fixed(&ring, fd, 0, 64, 1), -EFAULT);
	io_uring_queue_exit(&ring);
	close(fd);
	close(ro);
	close(a);
	close(s);
	no_buffers_left();
}

TEST(seals)
{
	need_support();
	int s = k_open(), a = k_arena(s, PAGE, 0), b = k_arena(s, PAGE, 0);
	struct io_uring ring = ring_new(0);

	CHECK_EQ(reg(&ring, a, 0, PAGE, RLX_W, 0), 0);
	CHECK_EQ(reg(&ring, a, 0, PAGE, RLX_R, 1), 0);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	CHECK_EQ(unreg(&ring, a, 0), 0);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), 0);
	CHECK_EQ(reg(&ring, a, 0, PAGE, RLX_W, 0), -EPERM);
	CHECK_EQ(reg(&ring, a, 0, PAGE, RLX_R, 0), 0);

	/* One that is there stays; neither is a matter of exports and attachments. */
	CHECK_EQ(reg(&ring, b, 0, PAGE, RLX_W, 2), 0);
	CHECK_EQ(k_seal(b, RLX_KSEAL_FUTURE_WRITE | RLX_KSEAL_NO_EXPORT |
			RLX_KSEAL_NO_ATTACH), 0);
	CHECK_EQ(reg(&ring, b, 0, PAGE, RLX_W, 3), -EPERM);
	CHECK_EQ(reg(&ring, b, 0, PAGE, RLX_R, 3), 0);
	CHECK_EQ(k_seal(b, RLX_KSEAL_NO_WRITE), -EBUSY);
	CHECK_EQ(unreg(&ring, a, 2), 0);	/* by the fd of any arena */
	CHECK_EQ(k_seal(b, RLX_KSEAL_NO_WRITE), 0);
	io_uring_queue_exit(&ring);
	close(a);
	close(b);
	close(s);
	no_buffers_left();
}

TEST(refusals)
{
	need_support();
	int s = k_open(), a = k_arena(s, 4 * PAGE, 0), big;
	struct rlx_ioc_buffer_register r = { .length = PAGE, .access = RLX_R };
	struct rlx_ioc_buffer_unregister u = { 0 };
	struct io_uring ring = ring_new(0), bare;
	struct iovec v = { .iov_len = PAGE };

	CHECK_EQ(reg(&ring, a, 0, 0, RLX_R, 0), -EINVAL);
	CHECK_EQ(reg(&ring, a, PAGE, 4 * PAGE, RLX_R, 0), -EINVAL);
	CHECK_EQ(reg(&ring, a, 4 * PAGE, 1, RLX_R, 0), -EINVAL);
	CHECK_EQ(reg(&ring, a, UINT64_MAX, 2, RLX_R, 0), -EOVERFLOW);
	CHECK_EQ(reg(&ring, a, 0, PAGE, 0, 0), -EINVAL);
	CHECK_EQ(reg(&ring, a, 0, PAGE, 4, 0), -EINVAL);
	CHECK_EQ(reg(&ring, a, 0, PAGE, RLX_R, PLACES), -EINVAL);
	CHECK_EQ(reg(&ring, a, 0, PAGE, RLX_R, UINT32_MAX), -EINVAL);
	for (int i = 0; i < 2; i++) {
		r.reserved[i] = 1ull << 40;
		CHECK_EQ(command(&ring, a, RLX_IOC_BUFFER_REGISTER, &r, 0, 0), -EINVAL);
		r.reserved[i] = 0;
	}
	CHECK_EQ(command(&ring, a, RLX_IOC_BUFFER_REGISTER, &r, RLX_URING_POST, 0), -EINVAL);
	CHECK_EQ(command(&ring, a, RLX_IOC_BUFFER_REGISTER, NULL, 0, 0), -EFAULT);
	CHECK_EQ(command(&ring, a, RLX_IOC_BUFFER_UNREGISTER, NULL, 0, 0), -EFAULT);
	CHECK_EQ(k_arena_info(a).nr_buffers, 0);

	/* A worker of the ring's does the same. */
	CHECK_EQ(command(&ring, a, RLX_IOC_BUFFER_REGISTER, &r, 0, IOSQE_ASYNC), 0);
	CHECK_EQ(reg(&ring, a, 0, PAGE, RLX_R, 0), -EBUSY);
	CHECK_EQ(k_arena_info(a).nr_buffers, 1);
	u.pad = 1;
	CHECK_EQ(command(&ring, a, RLX_IOC_BUFFER_UNREGISTER, &u, 0, 0), -EINVAL);
	u = (struct rlx_ioc_buffer_unregister){ .reserved = 1 };
	CHECK_EQ(command(&ring, a, RLX_IOC_BUFFER_UNREGISTER, &u, 0, 0), -EINVAL);
	u.reserved = 0;
	CHECK_EQ(command(&ring, a, RLX_IOC_BUFFER_UNREGISTER, &u, 0, IOSQE_ASYNC), 0);
	CHECK_EQ(unreg(&ring, a, 0), -EINVAL);
	CHECK_EQ(unreg(&ring, a, PLACES), -EINVAL);
	buffers_go(&ring, a);
	io_uring_queue_exit(&ring);

	/* No table; one of user memory. */
	CHECK(!io_uring_queue_init(8, &bare, 0));
	CHECK_EQ(reg(&bare, a, 0, PAGE, RLX_R, 0), -EINVAL);
	v.iov_base = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	CHECK(!io_uring_register_buffers(&bare, &v, 1));
	CHECK_EQ(reg(&bare, a, 0, PAGE, RLX_R, 0), -EBUSY);
	CHECK_EQ(unreg(&bare, a, 0), -EBUSY);
	io_uring_queue_exit(&bare);
	close(a);

	/* As large as io_uring's own. */
	big = k_arena(s, (1ul << 30) + HUGE, RLX_AF_HUGE_TRY);
	ring = ring_new(0);
	CHECK_EQ(reg(&ring, big, 0, (1ul << 30) + 1, RLX_R, 0), -EINVAL);
	CHECK_EQ(reg(&ring, big, HUGE, 1ul << 30, RLX_R, 0), 0);
	io_uring_queue_exit(&ring);
	close(big);
	close(s);
	no_buffers_left();
}

/* ---- lives ---- */

TEST(outlives_its_fds)
{
	need_support();
	int s = k_open(), a = k_arena(s, HUGE, k_huge(s)), fd = file_new(PAGE, 3), to;
	struct io_uring ring = ring_new(0);
	uint64_t *p;

	CHECK_EQ(reg(&ring, a, HUGE - PAGE, PAGE, RLX_R | RLX_W, 1), 0);
	close(a);
	close(s);
	CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), 1);
	CHECK_EQ(read_fixed(&ring, fd, 0, PAGE, 1), PAGE);
	to = memfd_create("rlx-buffers-to", MFD_CLOEXEC);
	CHECK_EQ(write_fixed(&ring, to, 0, PAGE, 1), PAGE);
	p = k_map(to, PAGE, PROT_READ, 0);
	k_compare(p, PAGE, 3);
	munmap(p, PAGE);
	close(to);
	close(fd);
	io_uring_queue_exit(&ring);
	no_buffers_left();
}

/* What a request under way uses stays until it has ended. */
TEST(in_flight)
{
	need_support();
	int s = k_open(), a = k_arena(s, PAGE, 0), pipes[2];
	struct io_uring ring = ring_new(0);
	struct io_uring_cqe *cqe;
	char *p;

	CHECK(!pipe(pipes));
	CHECK_EQ(reg(&ring, a, 0, PAGE, RLX_W, 0), 0);
	io_uring_prep_read_fixed(io_uring_get_sqe(&ring), pipes[0], (void *)100, 5, 0, 0);
	CHECK_EQ(io_uring_submit(&ring), 1);
	CHECK_EQ(unreg(&ring, a, 0), 0);
	CHECK_EQ(k_arena_info(a).nr_buffers, 1);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	p = k_map(a, PAGE, PROT_READ, 0);
	CHECK_EQ(write(pipes[1], "later", 5), 5);
	CHECK(!io_uring_wait_cqe(&ring, &cqe));
	CHECK_EQ(cqe->res, 5);
	io_uring_cqe_seen(&ring, cqe);
	CHECK(!memcmp(p + 100, "later", 5));
	buffers_go(&ring, a);
	munmap(p, PAGE);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), 0);
	close(pipes[0]);
	close(pipes[1]);
	io_uring_queue_exit(&ring);
	close(a);
	close(s);
	no_buffers_left();
}

/* A table that another ring took over: the last of the two lets go. */
TEST(cloned)
{
	need_support();
	int s = k_open(), a = k_arena(s, PAGE, 0), fd = file_new(PAGE, 4);
	struct io_uring one = ring_new(0), two;
	struct clone_buffers c = { .src_fd = one.ring_fd };
	uint64_t *p;
	long ret;

	CHECK(!io_uring_queue_init(8, &two, 0));
	CHECK_EQ(reg(&one, a, 0, PAGE, RLX_W, 1), 0);
	ret = syscall(SYS_io_uring_register, two.ring_fd, REGISTER_CLONE_BUFFERS, &c, 1);
	CHECKF(!ret, "clone: %s", strerror(errno));
	io_uring_queue_exit(&one);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	CHECK_EQ(read_fixed(&two, fd, 0, PAGE, 1), PAGE);
	p = k_map(a, PAGE, PROT_READ, 0);
	k_compare(p, PAGE, 4);
	CHECK_EQ(k_arena_info(a).nr_buffers, 1);
	io_uring_queue_exit(&two);
	CHECK(k_stat_becomes("nr_buffers", 0));
	munmap(p, PAGE);
	close(fd);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), 0);
	close(a);
	close(s);
	no_buffers_left();
}

/* Killed with buffers, and a read under way into one. */
TEST(killed)
{
	need_support();
	for (int round = 0; round < 8; round++) {
		int ready[2], never[2];
		pid_t pid;
		char c;

		CHECK(!pipe(ready) && !pipe(never));
		pid = fork();
		if (!pid) {
			int s = k_open(), a = k_arena(s, 8 * PAGE, 0);
			struct io_uring ring = ring_new(0);

			for (int i = 0; i < PLACES; i++)
				CHECK_EQ(reg(&ring, a, i * PAGE, PAGE, RLX_R | RLX_W, i), 0);
			io_uring_prep_read_fixed(io_uring_get_sqe(&ring), never[0], NULL, 8,
						 0, 1);
			CHECK_EQ(io_uring_submit(&ring), 1);
			CHECK_EQ(write(ready[1], "x", 1), 1);
			pause();
			_exit(0);
		}
		CHECK_EQ(read(ready[0], &c, 1), 1);
		CHECK_EQ(k_file_number(K_TOTALS "nr_buffers"), PLACES);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, NULL, 0) == pid);
		no_buffers_left();
		close(ready[0]);
		close(ready[1]);
		close(never[0]);
		close(never[1]);
	}
}

TEST_MAIN()
