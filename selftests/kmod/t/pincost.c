// SPDX-License-Identifier: MIT
/* What huge pages save: making, touching and pinning 1 GiB of either kind. */
/* rig: kernels=6.1,6.12 memory=3072 timeout=200 own */
#include <errno.h>
#include <liburing.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"

#define SIZE	(1ul << 30)	/* what io_uring takes in one buffer */
#define RUNS	3

struct cost {
	double	make, free;		/* ms */
	double	touch, pin, user;	/* the best of RUNS */
	bool	pinned;
};

static double since(uint64_t *t)
{
	uint64_t now = k_now();
	double ms = (double)(now - *t) * 1e-6;

	*t = now;
	return ms;
}

static void best(double *to, double ms)
{
	if (!*to || ms < *to)
		*to = ms;
}

static void touch(volatile char *p)
{
	size_t i;

	for (i = 0; i < SIZE; i += 4096)
		p[i] = 1;
}

static void pin(void *p, struct cost *c)
{
	struct iovec v = { p, SIZE };
	struct io_uring ring;
	uint64_t t;
	int ret;

	CHECK(!io_uring_queue_init(4, &ring, 0));
	t = k_now();
	ret = io_uring_register_buffers(&ring, &v, 1);
	if (!ret) {
		best(&c->pin, since(&t));
		c->pinned = true;
		CHECK(!io_uring_unregister_buffers(&ring));
	} else {
		CHECK_EQ(ret, -EOPNOTSUPP);	/* a file's, before 6.5 */
	}
	io_uring_queue_exit(&ring);
}

/* The same by our own hand: what is pinned is the mapping, as an arena. */
static void pin_user(int s, void *p, struct cost *c)
{
	struct rlx_ioc_arena_create a = {
		.size = SIZE, .kind = RLX_KIND_USER, .addr = (uintptr_t)p,
		.numa_node = -1, .memfd = -1,
	};
	uint64_t t = k_now();
	int fd = k_ioctl(s, RLX_IOC_ARENA_CREATE, &a);

	CHECKF(fd > 0, "the mapping as an arena: %d", fd);
	best(&c->user, since(&t));
	close(fd);
}

static int make(int s, uint32_t flags, struct cost *c)
{
	struct rlx_ioc_arena_info info = { 0 };
	uint64_t t = k_now();
	int fd = k_arena(s, SIZE, flags);

	c->make = since(&t);
	CHECK_EQ(k_ioctl(fd, RLX_IOC_ARENA_INFO, &info), 0);
	CHECK_EQ(info.nr_huge, flags ? SIZE >> 21 : 0);
	return fd;
}

static void measure(int s, int fd, struct cost *c)
{
	uint64_t t;
	void *p;

	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	t = k_now();
	touch(p);
	best(&c->touch, since(&t));
	pin(p, c);
	pin_user(s, p, c);
	CHECK(!munmap(p, SIZE));
}

static void end(int fd, struct cost *c)
{
	uint64_t t = k_now();

	close(fd);
	c->free = since(&t);
}

/* The machine gets its memory from the host when it touches it first. */
static void warm_up(void)
{
	int s = k_open();

	close(k_arena(s, SIZE, RLX_AF_HUGE_REQUIRE));
	close(s);
}

TEST(huge_against_small)
{
	struct cost huge = { 0 }, small = { 0 };
	int s = k_open(), h, l, i;

	alarm(180);	/* a page is zeroed slowly in an emulated machine */
	warm_up();
	h = make(s, RLX_AF_HUGE_REQUIRE, &huge);
	l = make(s, 0, &small);
	/* In turns: whatever else the machine does slows both. */
	for (i = 0; i < RUNS; i++) {
		measure(s, h, &huge);
		measure(s, l, &small);
	}
	end(h, &huge);
	end(l, &small);
	close(s);
	printf("# 1 GiB, ms, huge against 4 KiB pages: make %.1f %.1f (%.2fx), "
	       "touch %.1f %.1f (%.1fx), free %.1f %.1f (%.1fx)\n",
	       huge.make, small.make, small.make / huge.make,
	       huge.touch, small.touch, small.touch / huge.touch,
	       huge.free, small.free, small.free / huge.free);
	printf("# pin for long as an arena: %.2f %.2f (%.1fx)\n", huge.user,
	       small.user, small.user / huge.user);
	if (huge.pinned)
		printf("# pin for long by io_uring: %.2f %.2f (%.1fx)\n",
		       huge.pin, small.pin, small.pin / huge.pin);
	/* io_uring walks over all page pointers, for both kinds alike. */
	CHECKF(small.user >= 10 * huge.user,
	       "pinning huge pages takes %.2f ms, small ones %.2f: %.1f times",
	       huge.user, small.user, small.user / huge.user);
}

TEST_MAIN()
