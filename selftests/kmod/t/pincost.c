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
/*
 * What is pinned at a time, short enough for a share of a busy machine's processor. Of each
 * part the least counts: in turns with the other kind, and until the ratio is what is wanted
 * or ROUNDS are over, for whatever else runs only makes it longer.
 */
#define PART	(SIZE / NR_PARTS)
#define NR_PARTS	16
#define FEWEST	10
#define ROUNDS	40
#define TIMES	10	/* so many times as long do small pages take, or longer */

struct side {
	int	fd;		/* the arena, */
	char	*p;		/* mapped */
	double	make, free;	/* ms */
	double	touch, ring;	/* ms; 0: such a ring takes no pages of a driver */
	double	part[NR_PARTS];	/* ms to pin each, the least of all rounds */
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

static void touch(struct side *k)
{
	volatile char *p = k->p;
	uint64_t t = k_now();
	size_t i;

	for (i = 0; i < SIZE; i += 4096)
		p[i] = 1;
	k->touch = since(&t);
}

static void pin_by_ring(struct side *k)
{
	struct iovec v = { k->p, SIZE };
	struct io_uring ring;
	uint64_t t;
	int ret;

	CHECK(!io_uring_queue_init(4, &ring, 0));
	t = k_now();
	ret = io_uring_register_buffers(&ring, &v, 1);
	if (!ret) {
		best(&k->ring, since(&t));
		CHECK(!io_uring_unregister_buffers(&ring));
	} else {
		CHECK_EQ(ret, -EOPNOTSUPP);	/* a file's, before 6.5 */
	}
	io_uring_queue_exit(&ring);
}

/* The same by our own hand: what is pinned is a part of the mapping, as an arena. */
static void pin_part(int s, struct side *k, int i)
{
	struct rlx_ioc_arena_create a = {
		.size = PART, .kind = RLX_KIND_USER, .addr = (uintptr_t)k->p + i * PART,
		.numa_node = -1, .memfd = -1,
	};
	uint64_t t = k_now();
	int fd = k_ioctl(s, RLX_IOC_ARENA_CREATE, &a);

	CHECKF(fd > 0, "the mapping as an arena: %d", fd);
	best(&k->part[i], since(&t));
	close(fd);
}

static double pinned(const struct side *k)
{
	double ms = 0;
	int i;

	for (i = 0; i < NR_PARTS; i++)
		ms += k->part[i];
	return ms;
}

/* In turns: whatever else the machine does slows both. How many rounds. */
static int pin_in_turns(int s, struct side *huge, struct side *small)
{
	int n = 0, i;

	do {
		for (i = 0; i < NR_PARTS; i++) {
			pin_part(s, huge, i);
			pin_part(s, small, i);
		}
		n++;
	} while (n < FEWEST || (n < ROUNDS && pinned(small) < TIMES * pinned(huge)));
	return n;
}

static void make(int s, uint32_t flags, struct side *k)
{
	struct rlx_ioc_arena_info info = { 0 };
	uint64_t t = k_now();

	k->fd = k_arena(s, SIZE, flags);
	k->make = since(&t);
	CHECK_EQ(k_ioctl(k->fd, RLX_IOC_ARENA_INFO, &info), 0);
	CHECK_EQ(info.nr_huge, flags ? SIZE >> 21 : 0);
	k->p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, k->fd, 0);
	CHECK(k->p != MAP_FAILED);
}

static void end(struct side *k)
{
	uint64_t t;

	CHECK(!munmap(k->p, SIZE));
	t = k_now();
	close(k->fd);
	k->free = since(&t);
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
	struct side huge = { 0 }, small = { 0 };
	int s = k_open(), n;

	warm_up();
	make(s, RLX_AF_HUGE_REQUIRE, &huge);
	make(s, 0, &small);
	touch(&huge);
	touch(&small);
	pin_by_ring(&huge);
	pin_by_ring(&small);
	n = pin_in_turns(s, &huge, &small);
	end(&huge);
	end(&small);
	close(s);
	printf("# 1 GiB, ms, huge against 4 KiB pages: make %.1f %.1f (%.2fx), "
	       "touch %.1f %.1f (%.1fx), free %.1f %.1f (%.1fx)\n",
	       huge.make, small.make, small.make / huge.make,
	       huge.touch, small.touch, small.touch / huge.touch,
	       huge.free, small.free, small.free / huge.free);
	/* io_uring walks over all page pointers, for both kinds alike. */
	if (huge.ring)
		printf("# pin for long by io_uring: %.2f %.2f (%.1fx)\n",
		       huge.ring, small.ring, small.ring / huge.ring);
	printf("# pin for long as an arena: %.2f %.2f (%.1fx), in %d rounds\n", pinned(&huge),
	       pinned(&small), pinned(&small) / pinned(&huge), n);
	CHECKF(pinned(&small) >= TIMES * pinned(&huge),
	       "pinning huge pages takes %.2f ms, small ones %.2f: %.1f times", pinned(&huge),
	       pinned(&small), pinned(&small) / pinned(&huge));
}

TEST_MAIN()
