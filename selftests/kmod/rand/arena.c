// SPDX-License-Identifier: MIT
/* Random programs: arenas of the three kinds, their seals and their dma-bufs. */
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/abi.h"
#include "rand/rand.h"

#define PAGE	4096u
#define HUGE	(2ul << 20)
#define USER	(16 * PAGE)	/* of what is pinned for user memory */

static uint64_t rnd_size(struct rnd *r)
{
	if (rnd_one_in(r, 64))
		return HUGE;
	return (1 + rnd_below(r, rnd_one_in(r, 32) ? 256 : 8)) * (uint64_t)PAGE;
}

static void rnd_arena_new(struct rnd *r, struct rlx_ioc_arena_create *c, bool good)
{
	struct rnd_thing *t;
	long fd;

	c->kind = rnd_u32(r, c->kind);
	c->size = rnd_u64(r, c->size);
	c->flags = rnd_u32(r, c->flags);
	c->addr = rnd_u64(r, c->addr);
	c->numa_node = (int)rnd_u32(r, c->numa_node);
	c->nodes = rnd_u64(r, c->nodes);
	fd = rnd_ioctl(r, RND_ARENA_CREATE, rnd_fd(r, rnd_pick(r, RND_SESSION)), c, good);
	if (fd > 2) {
		t = rnd_place(r, RND_ARENA, fd);
		t->size = c->size;
		t->access = c->flags & RLX_AF_RDONLY ? RLX_R : RLX_R | RLX_W;
	}
}

static void op_create(struct rnd *r)
{
	struct rlx_ioc_arena_create *c = rnd_piece(r, sizeof(*c) + 8);

	c->kind = RLX_KIND_KERNEL;
	c->size = rnd_size(r);
	c->numa_node = rnd_one_in(r, 3) ? 0 : -1;
	c->memfd = -1;
	if (rnd_one_in(r, 3))
		c->flags |= RLX_AF_HUGE_TRY;
	if (c->size == HUGE && rnd_one_in(r, 2))
		c->flags |= RLX_AF_HUGE_REQUIRE;
	if (rnd_one_in(r, 10))
		c->flags |= RLX_AF_NOEXPORT;
	if (rnd_one_in(r, 6)) {
		c->flags |= RLX_AF_NUMA_BIND << rnd_below(r, 2);
		c->numa_node = -1;
		c->nodes = 1;
	}
	rnd_arena_new(r, c, true);
}

static void op_create_user(struct rnd *r)
{
	struct rlx_ioc_arena_create *c = rnd_piece(r, sizeof(*c) + 8);
	uint32_t slot = rnd_below(r, RND_SLOTS);
	char *p = r->window + slot * RND_SLOT;

	/* What is there, or something fresh. */
	if (!r->mapped[slot] || rnd_one_in(r, 2)) {
		rnd_mmap(p, USER, PROT_READ | PROT_WRITE,
			 (rnd_one_in(r, 2) ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
		r->mapped[slot] = USER;
	}
	c->kind = RLX_KIND_USER;
	c->size = (1 + rnd_below(r, 8)) * (uint64_t)PAGE;
	c->addr = (uintptr_t)p + rnd_below(r, 4) * PAGE;
	c->numa_node = -1;
	c->memfd = -1;
	if (rnd_one_in(r, 3))
		c->flags = RLX_AF_RDONLY;
	rnd_arena_new(r, c, true);
}

static void op_create_memfd(struct rnd *r)
{
	struct rlx_ioc_arena_create *c = rnd_piece(r, sizeof(*c) + 8);
	struct rnd_thing *m = rnd_pick(r, RND_MEMFD);
	bool huge = rnd_one_in(r, 16);
	int fd;

	if (!m || rnd_one_in(r, 8)) {
		fd = memfd_create("rlx-random", MFD_CLOEXEC | MFD_ALLOW_SEALING |
				  (huge ? MFD_HUGETLB : 0));
		if (fd < 0)
			return;
		if (ftruncate(fd, huge ? HUGE : 32 * PAGE)) {
			close(fd);
			return;
		}
		if (!rnd_one_in(r, 16))
			fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
		rnd_place(r, RND_MEMFD, fd);
		return;
	}
	c->kind = RLX_KIND_MEMFD;
	c->size = (1 + rnd_below(r, 16)) * (uint64_t)PAGE;
	c->addr = rnd_below(r, 16) * (uint64_t)PAGE;
	c->numa_node = -1;
	c->memfd = rnd_fd(r, m);
	if (rnd_one_in(r, 3))
		c->flags = RLX_AF_RDONLY;
	rnd_arena_new(r, c, false);
}

/* Of what is exported, arenas of this module's for the most part. */
static void op_create_dmabuf(struct rnd *r)
{
	struct rlx_ioc_arena_create *c = rnd_piece(r, sizeof(*c) + 8);
	struct rnd_thing *d = rnd_pick(r, RND_DMABUF);

	if (!d)
		return;
	c->kind = RLX_KIND_DMABUF;
	c->size = d->size;
	c->numa_node = -1;
	c->memfd = rnd_fd(r, d);
	if (!(d->access & RLX_W) || rnd_one_in(r, 8))
		c->flags = RLX_AF_RDONLY;
	if (rnd_one_in(r, 10))
		c->flags |= RLX_AF_NOEXPORT;
	rnd_arena_new(r, c, false);
}

/* Its owner seals it, and punches holes into what is pinned. */
static void op_memfd(struct rnd *r)
{
	static const int seals[] = {
		F_SEAL_WRITE, F_SEAL_WRITE, F_SEAL_FUTURE_WRITE, F_SEAL_GROW, F_SEAL_SHRINK,
	};
	struct rnd_thing *m = rnd_pick(r, RND_MEMFD);
	uint64_t page = rnd_below(r, 32), pages = 1 + rnd_below(r, 8);
	int ret;

	if (!m)
		return;
	if (rnd_one_in(r, 4))
		ret = fcntl(m->fd, F_ADD_SEALS, seals[rnd_below(r, 5)]);
	else
		ret = fallocate(m->fd, FALLOC_FL_KEEP_SIZE |
				(rnd_one_in(r, 2) ? FALLOC_FL_PUNCH_HOLE : 0),
				page * PAGE, pages * PAGE);
	rnd_count(r, RND_FILE, ret ? -errno : 0);
}

static void op_info(struct rnd *r)
{
	struct rlx_ioc_arena_info *i = rnd_piece(r, sizeof(*i) + 8);

	i->pad = rnd_u32(r, 0);
	rnd_ioctl(r, RND_ARENA_INFO, rnd_fd(r, rnd_pick(r, RND_ARENA)), i, true);
}

static void op_dup(struct rnd *r)
{
	rnd_dup(r, RND_ARENA_DUP, RND_ARENA, sizeof(struct rlx_ioc_arena_dup));
}

static void op_seal(struct rnd *r)
{
	struct rlx_ioc_arena_seal *s = rnd_piece(r, sizeof(*s) + 8);

	s->seals = rnd_u32(r, 1u << rnd_below(r, 5));
	/* One that forbids more seals is a dull end. */
	if (s->seals == RLX_KSEAL_SEAL && !rnd_one_in(r, 4))
		s->seals = RLX_KSEAL_NO_WRITE;
	s->pad = rnd_u32(r, 0);
	rnd_ioctl(r, RND_ARENA_SEAL, rnd_fd(r, rnd_pick(r, RND_ARENA)), s, true);
}

static uint64_t rnd_range(struct rnd *r, uint64_t size, uint64_t *length)
{
	uint64_t pages = size / PAGE, at;

	if (!pages || pages > HUGE)
		pages = 1;
	at = rnd_below(r, (uint32_t)pages);
	*length = (1 + rnd_below(r, (uint32_t)(pages - at))) * (uint64_t)PAGE;
	return at * PAGE;
}

/* Whether it is of a dma-buf; in a race it may be another by then. */
static bool rnd_foreign(const struct rnd_thing *t)
{
	struct rlx_ioc_arena_info i = { 0 };

	return !k_ioctl(t->fd, RLX_IOC_ARENA_INFO, &i) && i.kind == RLX_KIND_DMABUF;
}

static void op_export(struct rnd *r)
{
	struct rlx_ioc_arena_export *e = rnd_piece(r, sizeof(*e) + 8);
	struct rnd_thing *t = rnd_pick(r, RND_ARENA), *n;
	uint64_t length;
	long fd;

	if (!t)
		return;
	e->offset = rnd_u64(r, rnd_range(r, t->size, &length));
	e->length = rnd_u64(r, length);
	if (rnd_one_in(r, 4)) {
		e->offset = 0;
		e->length = t->size;
	}
	e->access = rnd_u32(r, rnd_one_in(r, 2) ? RLX_R : RLX_R | RLX_W);
	e->flags = rnd_u32(r, rnd_one_in(r, 4) ? RLX_EXPORT_LARGE : 0);
	/* Of one of a dma-buf only all can be had. */
	fd = rnd_ioctl(r, RND_ARENA_EXPORT, rnd_fd(r, t), e,
		       t->size < 1ull << 30 && !rnd_foreign(t));
	if (fd > 2) {
		n = rnd_place(r, RND_DMABUF, fd);
		n->size = e->length;
		n->access = e->access;
	}
}

static void op_sync(struct rnd *r)
{
	struct rlx_ioc_arena_sync *s = rnd_piece(r, sizeof(*s) + 8);
	struct rnd_thing *t = rnd_pick(r, RND_ARENA);
	uint64_t length;

	if (!t)
		return;
	s->offset = rnd_u64(r, rnd_range(r, t->size, &length) + rnd_below(r, 64));
	s->length = rnd_u64(r, length - 64);
	s->access = rnd_u32(r, 1 + rnd_below(r, 3));
	s->op = rnd_u32(r, rnd_below(r, 2));
	rnd_ioctl(r, RND_ARENA_SYNC, rnd_fd(r, t), s, t->size < 1ull << 30);
}

/* ---- the dma-buf's own calls ---- */

static void op_dmabuf(struct rnd *r)
{
	struct rnd_thing *t = rnd_pick(r, RND_DMABUF), *f = rnd_pick(r, RND_SYNC_FILE);
	struct dma_buf_sync sync = { .flags = 1 + rnd_below(r, 3) };
	struct dma_buf_export_sync_file out = { .flags = DMA_BUF_SYNC_RW, .fd = -1 };
	struct dma_buf_import_sync_file in = { .flags = DMA_BUF_SYNC_WRITE };
	long ret;

	if (!t)
		return;
	switch (rnd_below(r, 6)) {
	case 0:
		ret = lseek(t->fd, 0, rnd_one_in(r, 2) ? SEEK_END : SEEK_SET);
		ret = ret < 0 ? -errno : 0;
		break;
	case 1:
		in.fd = f ? rnd_fd(r, f) : -1;
		ret = k_ioctl(t->fd, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &in);
		break;
	case 2:
		ret = k_ioctl(t->fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &out);
		if (!ret)
			rnd_place(r, RND_SYNC_FILE, out.fd);
		break;
	default:
		if (rnd_one_in(r, 2))
			sync.flags |= DMA_BUF_SYNC_END;
		ret = k_ioctl(t->fd, DMA_BUF_IOCTL_SYNC, &sync);
	}
	rnd_count(r, RND_DMABUF_IOCTL, ret);
}

/* ---- mappings ---- */

static void rnd_map(struct rnd *r, enum rnd_kind kind, enum rnd_call call)
{
	static const int prots[] = {
		PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_NONE,
		PROT_READ | PROT_EXEC,
	};
	struct rnd_thing *t = rnd_pick(r, kind);
	uint32_t slot = rnd_below(r, RND_SLOTS);
	int flags = rnd_one_in(r, 12) ? MAP_PRIVATE : MAP_SHARED;
	uint64_t offset, length;
	long ret;

	if (!t)
		return;
	offset = rnd_range(r, t->size, &length);
	if (rnd_one_in(r, 16))
		length += PAGE;
	if (rnd_one_in(r, 16))
		offset = rnd_u64(r, offset) & ~(uint64_t)(PAGE - 1);
	if (length > RND_SLOT)
		length = RND_SLOT;
	if (rnd_one_in(r, 16))
		flags |= MAP_POPULATE;
	ret = rnd_mmap(r->window + slot * RND_SLOT, length, prots[rnd_below(r, 5)], flags,
		       t->fd, offset);
	rnd_count(r, call, ret);
	if (!ret)
		r->mapped[slot] = length;
}

static void op_map_arena(struct rnd *r)
{
	rnd_map(r, RND_ARENA, RND_MMAP_ARENA);
}

static void op_map_dmabuf(struct rnd *r)
{
	rnd_map(r, RND_DMABUF, RND_MMAP_DMABUF);
}

const struct rnd_op rnd_ops_arena[] = {
	{ op_create, 10 },	{ op_create_user, 3 },	{ op_create_memfd, 5 },
	{ op_create_dmabuf, 4 },
	{ op_memfd, 6 },
	{ op_info, 20 },	{ op_dup, 8 },		{ op_seal, 4 },
	{ op_export, 10 },	{ op_sync, 30 },	{ op_dmabuf, 30 },
	{ op_map_arena, 15 },	{ op_map_dmabuf, 8 },
	{ NULL, 0 },
};
