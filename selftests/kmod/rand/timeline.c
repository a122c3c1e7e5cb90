// SPDX-License-Identifier: MIT
/* Random programs: sessions and timelines, with eventfds and fences. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/abi.h"
#include "rand/rand.h"
#include "lib/vgem.h"

/* Mostly over soon; for ever only where a signal will come. */
static uint64_t rnd_deadline(struct rnd *r)
{
	if (!rnd_one_in(r, 6))
		return 0;
	if (rnd_one_in(r, 100))
		return UINT64_MAX;
	return k_now() + rnd_below(r, 200000);
}

/* ---- sessions ---- */

/* By somebody else, who has a share of services: this thread alone is it meanwhile. */
static int rnd_open_as(uid_t uid)
{
	const gid_t render = 105;
	int fd;

	syscall(SYS_setgroups, 1, &render);
	syscall(SYS_setresuid, uid, uid, 0);
	fd = open("/dev/rlx", O_RDWR | O_CLOEXEC);
	syscall(SYS_setresuid, 0, 0, 0);
	return fd;
}

static void op_open(struct rnd *r)
{
	int fd = rnd_one_in(r, 3) ? rnd_open_as(1000 + rnd_below(r, 2)) :
		 open("/dev/rlx", O_RDWR | O_CLOEXEC);

	rnd_count(r, RND_OPEN, fd < 0 ? -errno : 0);
	if (fd >= 0)
		rnd_place(r, RND_SESSION, fd);
}

static void op_query(struct rnd *r)
{
	struct rlx_ioc_query *q = rnd_piece(r, sizeof(*q) + 8);
	int fd = rnd_fd(r, rnd_pick(r, RND_SESSION));

	q->pad = rnd_u32(r, 0);
	rnd_ioctl(r, RND_QUERY, fd, q, true);
}

/* ---- timelines ---- */

static void op_create(struct rnd *r)
{
	struct rlx_ioc_timeline_create *c = rnd_piece(r, sizeof(*c) + 8);
	struct rnd_thing *t;
	long fd;

	c->initial = rnd_u64(r, rnd_below(r, 4));
	c->flags = rnd_u32(r, 0);
	fd = rnd_ioctl(r, RND_TIMELINE_CREATE, rnd_fd(r, rnd_pick(r, RND_SESSION)), c, true);
	if (fd > 2) {
		t = rnd_place(r, RND_TIMELINE, fd);
		t->size = c->initial;
		t->access = RLX_R | RLX_W;
	}
}

static void op_tquery(struct rnd *r)
{
	struct rlx_ioc_timeline_query *q = rnd_piece(r, sizeof(*q) + 8);
	struct rnd_thing *t = rnd_pick(r, RND_TIMELINE);
	int fd = rnd_fd(r, t);

	if (!rnd_ioctl(r, RND_TIMELINE_QUERY, fd, q, true) && t && !r->wild)
		t->size = q->value;
}

static void op_signal(struct rnd *r)
{
	struct rlx_ioc_timeline_signal *s = rnd_piece(r, sizeof(*s) + 8);
	struct rnd_thing *t = rnd_pick(r, RND_TIMELINE);

	if (!t)
		return;
	/* Others with an fd of it may have gone further. */
	s->value = rnd_u64(r, t->size + 1 + rnd_below(r, 3));
	s->reserved = rnd_one_in(r, 100);
	if (!rnd_ioctl(r, RND_TIMELINE_SIGNAL, rnd_fd(r, t), s, false) &&
	    s->value < 1ull << 40)
		t->size = s->value;
}

static void op_dup(struct rnd *r)
{
	rnd_dup(r, RND_TIMELINE_DUP, RND_TIMELINE, sizeof(struct rlx_ioc_timeline_dup));
}

static void op_eventfd(struct rnd *r)
{
	struct rlx_ioc_timeline_eventfd *e = rnd_piece(r, sizeof(*e) + 8);
	struct rnd_thing *t = rnd_pick(r, RND_TIMELINE), *ev = rnd_pick(r, RND_EVENTFD);

	if (!t)
		return;
	if (!ev) {
		rnd_place(r, RND_EVENTFD, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		return;
	}
	e->value = rnd_u64(r, t->size + rnd_below(r, 4));
	e->eventfd = rnd_fd(r, ev);
	e->pad = rnd_u32(r, 0);
	rnd_ioctl(r, RND_TIMELINE_EVENTFD, rnd_fd(r, t), e, true);
}

static void op_wait(struct rnd *r)
{
	struct rlx_ioc_timeline_wait *w = rnd_piece(r, sizeof(*w) + 8);
	struct rlx_point *p = rnd_piece(r, RLX_WAIT_MAX * sizeof(*p));
	uint32_t nr = 1 + (rnd_one_in(r, 3) ? rnd_below(r, RLX_WAIT_MAX) : 0);

	for (uint32_t i = 0; i < nr; i++) {
		struct rnd_thing *t = rnd_pick(r, RND_TIMELINE);

		p[i].fd = rnd_fd(r, t);
		p[i].value = rnd_u64(r, (t ? t->size : 0) + rnd_below(r, 2));
		p[i].pad = rnd_u32(r, 0);
	}
	w->points = rnd_ptr(r, p);
	w->nr = rnd_u32(r, nr);
	w->flags = rnd_u32(r, rnd_one_in(r, 2) ? RLX_WAIT_ANY : RLX_WAIT_ALL);
	w->deadline_ns = rnd_deadline(r);
	w->index = rnd_u32(r, 0);
	rnd_ioctl(r, RND_TIMELINE_WAIT, rnd_fd(r, rnd_pick(r, RND_SESSION)), w, true);
}

static void op_wait_one(struct rnd *r)
{
	struct rlx_ioc_timeline_wait_one *w = rnd_piece(r, sizeof(*w) + 8);
	struct rnd_thing *t = rnd_pick(r, RND_TIMELINE);

	w->value = rnd_u64(r, (t ? t->size : 0) + rnd_below(r, 2));
	w->deadline_ns = rnd_deadline(r);
	rnd_ioctl(r, RND_TIMELINE_WAIT_ONE, rnd_fd(r, t), w, true);
}

/* ---- fences ---- */

#define SW_INC	_IOW('W', 1, uint32_t)

struct sw_create {
	uint32_t value;
	char name[32];
	int32_t fence;
};
#define SW_CREATE _IOWR('W', 0, struct sw_create)

static void op_fence(struct rnd *r)
{
	struct rnd_thing *sw = rnd_pick(r, RND_SW_SYNC);
	struct sw_create c = { .name = "rlx" };
	uint32_t by = 1;
	int fd;

	if (!sw || rnd_one_in(r, 30)) {
		fd = sw_sync_open();
		if (fd >= 0)
			rnd_place(r, RND_SW_SYNC, fd);
		return;
	}
	if (rnd_one_in(r, 3)) {
		rnd_count(r, RND_FILE, ioctl(sw->fd, SW_INC, &by) ? -errno : 0);
		sw->size++;
		return;
	}
	c.value = (uint32_t)sw->size + rnd_below(r, 3);
	if (!ioctl(sw->fd, SW_CREATE, &c))
		rnd_place(r, RND_SYNC_FILE, c.fence);
}

static void op_import(struct rnd *r)
{
	struct rlx_ioc_timeline_import *i = rnd_piece(r, sizeof(*i) + 8);
	struct rnd_thing *t = rnd_pick(r, RND_TIMELINE), *f = rnd_pick(r, RND_SYNC_FILE);

	if (!t)
		return;
	i->value = rnd_u64(r, t->size + 1 + rnd_below(r, 3));
	i->sync_file = rnd_fd(r, f);
	i->pad = rnd_u32(r, 0);
	rnd_ioctl(r, RND_TIMELINE_IMPORT, rnd_fd(r, t), i, f != NULL);
}

static void op_map(struct rnd *r)
{
	uint32_t slot = rnd_below(r, RND_SLOTS);
	int prot = rnd_one_in(r, 8) ? PROT_READ | PROT_WRITE : PROT_READ;
	size_t size = rnd_one_in(r, 16) ? 8192 : 4096;
	int fd = rnd_fd(r, rnd_pick(r, RND_TIMELINE));
	long ret = rnd_mmap(r->window + slot * RND_SLOT, size, prot, MAP_SHARED, fd, 0);

	rnd_count(r, RND_MMAP_TIMELINE, ret);
	if (!ret)
		r->mapped[slot] = size;
}

const struct rnd_op rnd_ops_timeline[] = {
	{ op_open, 1 },		{ op_query, 12 },	{ op_create, 6 },
	{ op_tquery, 40 },	{ op_signal, 60 },	{ op_dup, 4 },
	{ op_eventfd, 20 },	{ op_wait, 30 },	{ op_wait_one, 20 },
	{ op_fence, 10 },	{ op_import, 12 },	{ op_map, 4 },
	{ NULL, 0 },
};
