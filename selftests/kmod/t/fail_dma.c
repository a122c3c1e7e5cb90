// SPDX-License-Identifier: MIT
/* Every allocation failing in turn, in all calls on timelines, exports, pins. */
/* rig: kernels=debug modules=vgem timeout=200 */
#include <errno.h>
#include <fcntl.h>
#include <linux/rlx.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/vgem.h"

#define MIB	(1u << 20)

/* What a call may end with, other than 0 and -ENOMEM, when something fails. */
static const int errors[] = { -EFAULT, -ENFILE, -EINTR, 0 };

struct world {
	int session, arena, timeline, vgem, dmabuf, sync_file, event, memfd;
	void *user;
};

static struct world make_world(void)
{
	struct rlx_ioc_arena_export e = { .length = MIB,
					  .access = RLX_R | RLX_W };
	struct world w = { .session = k_open(), .vgem = vgem_open() };
	uint32_t handle;

	w.arena = k_arena(w.session, MIB, 0);
	w.timeline = k_timeline(w.session, 0);
	w.event = eventfd(0, EFD_NONBLOCK);
	w.user = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	w.memfd = memfd_create("fail", MFD_ALLOW_SEALING);
	CHECK(!ftruncate(w.memfd, MIB));
	CHECK(!fcntl(w.memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	w.dmabuf = k_ioctl(w.arena, RLX_IOC_ARENA_EXPORT, &e);
	CHECK(w.dmabuf >= 0);
	CHECK_EQ(vgem_import(w.vgem, w.dmabuf, &handle), 0);
	vgem_fence(w.vgem, handle, true);
	w.sync_file = dmabuf_sync_file(w.dmabuf, true);
	CHECK(w.sync_file >= 0);
	return w;
}

static long done(long fd)
{
	if (fd > 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static long do_create(void *arg)
{
	struct world *w = arg;
	struct rlx_ioc_timeline_create c = { 0 };

	return done(k_ioctl(w->session, RLX_IOC_TIMELINE_CREATE, &c));
}

static long do_dup(void *arg)
{
	struct world *w = arg;
	struct rlx_ioc_timeline_dup d = { .access = RLX_R };

	return done(k_ioctl(w->timeline, RLX_IOC_TIMELINE_DUP, &d));
}

static long do_wait(void *arg)
{
	struct world *w = arg;
	struct rlx_point p[3] = { { .fd = w->timeline },
				  { .fd = w->timeline, .value = 0 },
				  { .fd = w->timeline, .value = 0 } };
	struct rlx_ioc_timeline_wait t = { .points = (uintptr_t)p, .nr = 3,
					   .flags = RLX_WAIT_ALL };

	return k_ioctl(w->session, RLX_IOC_TIMELINE_WAIT, &t);
}

static long do_wait_one(void *arg)
{
	struct world *w = arg;
	struct rlx_ioc_timeline_wait_one t = { 0 };

	return k_ioctl(w->timeline, RLX_IOC_TIMELINE_WAIT_ONE, &t);
}

static long do_signal(void *arg)
{
	static uint64_t value;
	struct world *w = arg;

	return k_signal(w->timeline, ++value);
}

static long do_query(void *arg)
{
	struct world *w = arg;
	struct rlx_ioc_timeline_query q = { 0 };

	return k_ioctl(w->timeline, RLX_IOC_TIMELINE_QUERY, &q);
}

static long do_eventfd(void *arg)
{
	struct world *w = arg;
	struct rlx_ioc_timeline_eventfd e = { .value = 1ull << 40,
					      .eventfd = w->event };

	return k_ioctl(w->timeline, RLX_IOC_TIMELINE_EVENTFD, &e);
}

static long do_import(void *arg)
{
	struct world *w = arg;
	struct rlx_ioc_timeline_import i = { .value = 1ull << 41,
					     .sync_file = w->sync_file };

	return k_ioctl(w->timeline, RLX_IOC_TIMELINE_IMPORT, &i);
}

static long do_page(void *arg)
{
	struct world *w = arg;
	struct rlx_timeline_page *p;
	int err;

	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, w->timeline, 0);
	err = p == MAP_FAILED ? errno : 0;
	if (!err)
		munmap(p, 4096);
	return -err;
}

static long do_export(void *arg)
{
	struct world *w = arg;
	struct rlx_ioc_arena_export e = { .length = MIB,
					  .access = RLX_R | RLX_W };

	return done(k_ioctl(w->arena, RLX_IOC_ARENA_EXPORT, &e));
}

static long do_sync(void *arg)
{
	struct world *w = arg;
	struct rlx_ioc_arena_sync s = { .length = MIB, .op = RLX_SYNC_END,
					.access = RLX_R | RLX_W };

	return k_ioctl(w->arena, RLX_IOC_ARENA_SYNC, &s);
}

/* Maps for vgem: the failures are those of map_dma_buf, and of vgem. */
static long do_prime(void *arg)
{
	struct world *w = arg;
	uint32_t handle;
	int v = w->vgem, ret;
	struct rlx_ioc_arena_export e = { .length = MIB,
					  .access = RLX_R | RLX_W };
	int buf = k_ioctl(w->arena, RLX_IOC_ARENA_EXPORT, &e);

	if (buf < 0)
		return buf;
	ret = vgem_import(v, buf, &handle);
	if (!ret)
		vgem_close_handle(v, handle);
	close(buf);
	return ret;
}

static long do_map_export(void *arg)
{
	struct world *w = arg;
	void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED,
		       w->dmabuf, 0);
	int err = p == MAP_FAILED ? errno : 0;

	if (!err)
		munmap(p, MIB);
	return -err;
}

static long do_user(void *arg)
{
	struct world *w = arg;
	struct rlx_ioc_arena_create c = {
		.size = MIB, .kind = RLX_KIND_USER, .numa_node = -1,
		.memfd = -1, .addr = (uintptr_t)w->user,
	};

	return done(k_ioctl(w->session, RLX_IOC_ARENA_CREATE, &c));
}

static long do_memfd(void *arg)
{
	struct world *w = arg;
	struct rlx_ioc_arena_create c = {
		.size = MIB, .kind = RLX_KIND_MEMFD, .numa_node = -1,
		.memfd = w->memfd,
	};

	return done(k_ioctl(w->session, RLX_IOC_ARENA_CREATE, &c));
}

static void sweep(const char *name, long (*fn)(void *), int least)
{
	struct world w = make_world();
	int n = k_fail_nth(name, fn, &w, errors);

	CHECKF(n >= least, "%s has %d allocations, not %d", name, n, least);
	/* The rest of the world is as it was. */
	CHECK_EQ(k_signal(w.timeline, 1ull << 39), 0);
	close(w.vgem);		/* ends the fences */
}

#define SWEEP(name, least)						\
	TEST(name)							\
	{								\
		sweep(#name, do_##name, least);				\
	}

SWEEP(create, 3)
SWEEP(dup, 2)
SWEEP(wait, 1)
SWEEP(wait_one, 1)
SWEEP(signal, 0)
SWEEP(query, 0)
SWEEP(eventfd, 1)
SWEEP(import, 1)
SWEEP(page, 2)
SWEEP(export, 3)
SWEEP(sync, 1)
SWEEP(prime, 5)
SWEEP(map_export, 1)
SWEEP(user, 4)
SWEEP(memfd, 4)

TEST_MAIN()
