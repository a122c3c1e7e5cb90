// SPDX-License-Identifier: MIT
/* What is given away of an arena, and forbidden: descriptors, dma-bufs, seals. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/arena.h"

enum rlx_status rlx_arena_dup_readonly(struct rlx_arena *a, int *out_fd,
				       struct rlx_error *err)
{
	int fd;

	if (!a || !out_fd)
		return rlx_fail(err, RLX_EINVAL,
				"arena dup: no arena, or no place for the fd");
	*out_fd = -1;
	if (!a->prov->reopen)
		return rlx_fail(err, RLX_ENOSUP,
				"a \"%s\" arena has no descriptor to share",
				a->prov->name);
	fd = a->prov->reopen(a);
	if (fd >= 0) {
		*out_fd = fd;
		return RLX_OK;
	}
	return rlx_fail(err, fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM ?
			RLX_ENOMEM : RLX_EACCES,
			"arena: opening descriptor %d again, for reading: %s",
			a->fd, strerror(-fd));
}

/*
 * Put a mapping over ours at the same address, in one step for whoever reads
 * meanwhile. The pages stay in the file; what the old mapping had in locks and
 * huge page advice is asked for again.
 */
static bool remap(struct rlx_arena *a, int fd, int prot)
{
	if (mmap(a->base, a->size, prot, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED)
		return false;
	rlx_stat_arena(0, 0, -(int64_t)a->locked);
	a->prov->settle(a, prot & PROT_WRITE);
	rlx_stat_arena(0, 0, (int64_t)a->locked);
	return true;
}

/*
 * Sealing against writing is refused while any mapping could become writable,
 * and ours is one. A mapping of a read-only descriptor never can.
 */
static int seal_write(struct rlx_arena *a, uint32_t seals)
{
	int fd, e;

	if (a->flags & RLX_ARENA_RDONLY)
		return a->prov->add_seals(a, seals);
	fd = a->prov->reopen(a);
	if (fd < 0)
		return fd;
	if (!remap(a, fd, PROT_READ)) {
		e = -errno;
		goto out_close;
	}
	e = a->prov->add_seals(a, seals);
	/* Not possible again after RLX_SEAL_FUTURE_WRITE. */
	if (!e || !remap(a, a->fd, PROT_READ | PROT_WRITE))
		a->flags |= RLX_ARENA_RDONLY;
out_close:
	close(fd);
	return e;
}

enum rlx_status rlx_arena_seal(struct rlx_arena *a, uint32_t seals,
			       struct rlx_error *err)
{
	const uint32_t known = RLX_SEAL_FUTURE_WRITE | RLX_SEAL_WRITE |
			       RLX_SEAL_SEAL;
	int e;

	if (!a || !seals || seals & ~known)
		return rlx_fail(err, RLX_EINVAL,
				"arena seal: no arena, or seals 0x%x unknown",
				seals);
	if (!a->prov->add_seals)
		return rlx_fail(err, RLX_ENOSUP,
				"a \"%s\" arena cannot be sealed",
				a->prov->name);
	pthread_mutex_lock(&a->lock);
	e = seals & RLX_SEAL_WRITE ? seal_write(a, seals)
				   : a->prov->add_seals(a, seals);
	pthread_mutex_unlock(&a->lock);
	switch (e) {
	case 0:
		return RLX_OK;
	case -EBUSY:
		return rlx_fail(err, RLX_EBUSY,
				"arena seal: another process or a device can "
				"still write to it");
	case -EPERM:
	case -EACCES:
		return rlx_fail(err, RLX_EACCES,
				"arena seal: the descriptor is read-only, or no "
				"further seal is allowed");
	case -EINVAL:
		return rlx_fail(err, RLX_ENOSUP,
				"arena seal: this file or kernel does not take "
				"these seals");
	}
	return rlx_fail(err, RLX_ENOMEM, "arena seal: %s", strerror(-e));
}

enum rlx_status rlx_arena_export(struct rlx_buf range, uint32_t flags,
				 int *out_fd, struct rlx_error *err)
{
	bool write = !(flags & RLX_ARENA_RDONLY);
	struct rlx_arena *a = range.arena;
	uint64_t page = rlx_page_bytes();

	if (!a || !out_fd)
		return rlx_fail(err, RLX_EINVAL,
				"arena export: no arena, or no place for the fd");
	*out_fd = -1;
	if (flags & ~(uint32_t)RLX_ARENA_RDONLY)
		return rlx_fail(err, RLX_EINVAL,
				"arena export flags 0x%x: RDONLY is what can be "
				"asked for", flags);
	if (!a->prov->export)
		return rlx_fail(err, RLX_ENOSUP,
				"a \"%s\" arena cannot be exported as a dma-buf",
				a->prov->name);
	if (rlx_buf_slice(range, 0, range.bytes, &range, err))
		return RLX_ERANGE;
	if (!range.bytes || range.offset % page || range.bytes % page)
		return rlx_fail(err, RLX_EINVAL,
				"arena export: %llu bytes at %llu are not whole "
				"pages", (unsigned long long)range.bytes,
				(unsigned long long)range.offset);
	if (range.bytes > UINT32_MAX)
		return rlx_fail(err, RLX_ERANGE,
				"arena export of %llu bytes: importers take less "
				"than 4 GiB; export it in parts",
				(unsigned long long)range.bytes);
	if (write && a->flags & RLX_ARENA_RDONLY)
		return rlx_fail(err, RLX_EACCES,
				"arena export: the arena is read-only; pass "
				"RLX_ARENA_RDONLY");
	return a->prov->export(a, range, write, out_fd, err);
}
