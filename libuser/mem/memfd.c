// SPDX-License-Identifier: MIT
/* The memfd provider: files without a name, from the hugetlb pool or shmem. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/udmabuf.h>

#include "base/proc.h"
#include "mem/arena.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL		8u
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE	16
#endif

/* File system types, from linux/magic.h. */
#define MAGIC_TMPFS	0x01021994
#define MAGIC_HUGETLB	0x958458f6u

#define UDMABUF		"/dev/udmabuf"

static uint64_t pool_number(uint64_t page, const char *name)
{
	char path[128];
	uint64_t n;

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%llukB/%s",
		 (unsigned long long)page / 1024, name);
	return rlx_proc_u64(path, &n) ? n : 0;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Free pages of the pool of @page bytes, reserved ones not counted. */
static uint64_t pool_free(uint64_t page, uint64_t *total)
{
	uint64_t more = pool_number(page, "nr_overcommit_hugepages"), n = 0;

	/* of a pool that is empty and stays so nothing else is asked: each file takes its time */
	*total = pool_number(page, "nr_hugepages");
	if (*total)
		n = less(pool_number(page, "free_hugepages"), pool_number(page, "resv_hugepages"));
	if (more)
		n += less(more, pool_number(page, "surplus_hugepages"));
	return n;
}

/* The kernel's, which never changes; 0: it has none. */
static uint64_t pool_page(void)
{
	static _Atomic uint64_t once;
	uint64_t page = once;

	if (!page && rlx_proc_key("/proc/meminfo", "Hugepagesize", &page))
		once = page;
	return page;
}

static int memfd_make(const char *name, bool hugetlb)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	char full[256];
	int fd;

	if (hugetlb)
		flags |= MFD_HUGETLB;	/* the default size of the machine */
	snprintf(full, sizeof(full), "rlx%s%.200s", name ? "-" : "",
		 name ? name : "");
	fd = memfd_create(full, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)		/* before 6.3 */
		fd = memfd_create(full, flags);
	return fd;
}

static enum rlx_status fail_mem(struct rlx_arena *a, const char *what, int e,
				struct rlx_error *err)
{
	enum rlx_status st = e == EPERM || e == EACCES ? RLX_EACCES : RLX_ENOMEM;

	return rlx_fail(err, st, "arena of %llu bytes: %s: %s",
			(unsigned long long)a->size, what, strerror(e));
}

/*
 * Size, seal, map and fill the file; undone on failure. @pool is why the
 * hugetlb pool was not used.
 */
static enum rlx_status build(struct rlx_arena *a, const char *pool,
			     struct rlx_error *err)
{
	bool lazy = a->flags & RLX_ARENA_LAZY;
	const char *what = "ftruncate";
	int e;

	if (ftruncate(a->fd, (off_t)a->size))
		goto out_unmap;
	what = "sealing the size";
	if (fcntl(a->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		goto out_unmap;
	what = "mmap";
	if (!rlx_place_map(a))
		goto out_unmap;
	rlx_place_nodes(a);
	if (a->page == rlx_page_bytes())
		rlx_place_huge(a, pool);
	what = "filling it";
	if (!lazy && !rlx_place_fill(a, true))
		goto out_unmap;
	a->flags |= RLX_ARENA_SHARED;
	return RLX_OK;

out_unmap:
	e = errno;
	rlx_place_unmap(a);
	return fail_mem(a, what, e, err);
}

/* Try the pool; on false @why (RLX_WHY bytes) says why not. */
static bool new_hugetlb(struct rlx_arena *a, const struct rlx_arena_opts *o,
			char *why)
{
	uint64_t page = pool_page(), have, total, need;
	struct rlx_error err = { 0 };

	if (!page) {
		snprintf(why, RLX_WHY, "kernel without hugetlb");
		return false;
	}
	if (o->pages != RLX_PAGES_HUGETLB && o->size < page) {
		snprintf(why, RLX_WHY, "smaller than a huge page");
		return false;
	}
	need = o->size / page + !!(o->size % page);
	have = pool_free(page, &total);
	if (have < need) {
		snprintf(why, RLX_WHY,
			 "hugetlb pool has %llu of %llu pages free, %llu needed",
			 (unsigned long long)have, (unsigned long long)total,
			 (unsigned long long)need);
		return false;
	}
	a->fd = memfd_make(o->name, true);
	if (a->fd < 0) {
		snprintf(why, RLX_WHY, "hugetlb memfd: %s",
			 strerror(errno));
		return false;
	}
	a->page = page;
	a->size = need * page;
	if (build(a, "", &err)) {		/* somebody else was faster, a limit */
		snprintf(why, RLX_WHY, "hugetlb: %.200s", err.text);
		return false;
	}
	return true;
}

static enum rlx_status memfd_new(struct rlx_arena *a,
				 const struct rlx_arena_opts *o,
				 struct rlx_error *err)
{
	uint64_t page = rlx_page_bytes();
	char pool[RLX_WHY] = "";
	enum rlx_status st;

	if (o->pages != RLX_PAGES_SMALL && !new_hugetlb(a, o, pool) &&
	    o->pages == RLX_PAGES_HUGETLB)
		return rlx_fail(err, RLX_ENOSUP, "arena of %llu bytes: %s",
				(unsigned long long)o->size, pool);
	if (a->fd < 0) {
		a->page = page;
		a->size = rlx_place_size(a, o->size);
		st = rlx_place_room(a, err);
		if (st)
			return st;
		a->fd = memfd_make(o->name, false);
		if (a->fd < 0)
			return fail_mem(a, "memfd_create", errno, err);
		st = build(a, pool, err);
		if (st)
			return st;
	}
	rlx_place_lock(a);
	st = rlx_place_exact(a, err);
	if (st)
		rlx_place_unmap(a);
	return st;
}

static bool memfd_claims(int fd)
{
	struct statfs fs;
	struct stat s;
	int fl = fcntl(fd, F_GETFL);

	if (fl < 0 || fl & O_PATH || fstat(fd, &s) || !S_ISREG(s.st_mode) ||
	    fstatfs(fd, &fs))
		return false;
	return (uint32_t)fs.f_type == MAGIC_TMPFS ||
	       (uint32_t)fs.f_type == MAGIC_HUGETLB;
}

/* See that nobody can shrink the file under our mapping. */
static enum rlx_status pin_size(const struct rlx_arena *a, struct rlx_error *err)
{
	int seals = fcntl(a->fd, F_GET_SEALS);

	if ((seals >= 0 && seals & F_SEAL_SHRINK) ||
	    a->flags & RLX_ARENA_UNSEALED)
		return RLX_OK;
	if (!fcntl(a->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return RLX_OK;
	return rlx_fail(err, RLX_EACCES,
			"fd: whoever owns it may shrink it, and using it then "
			"is SIGBUS; seal it with F_SEAL_SHRINK, or pass "
			"RLX_ARENA_UNSEALED if the owner is trusted");
}

static enum rlx_status open_map(struct rlx_arena *a, struct rlx_error *err)
{
	struct statfs fs;
	struct stat s;
	int seals, acc;

	acc = fcntl(a->fd, F_GETFL) & O_ACCMODE;
	if (acc == O_WRONLY)
		return rlx_fail(err, RLX_EACCES,
				"fd is open for writing only; an arena reads");
	/* Sealed before the size is read, so that the size stays true. */
	if (pin_size(a, err))
		return RLX_EACCES;
	if (fstat(a->fd, &s) || fstatfs(a->fd, &fs))
		return rlx_fail(err, RLX_EIO, "fstat: %s", strerror(errno));
	if (s.st_size <= 0)
		return rlx_fail(err, RLX_ERANGE, "fd holds an empty file");
	a->size = (uint64_t)s.st_size;
	a->page = (uint64_t)fs.f_bsize;
	seals = fcntl(a->fd, F_GET_SEALS);
	if (acc == O_RDONLY ||
	    (seals > 0 && seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
		a->flags |= RLX_ARENA_RDONLY;
	if ((uint64_t)s.st_blocks < a->size / 512) {	/* holes to be filled */
		if (rlx_place_room(a, err))
			return RLX_ENOMEM;
	}
	if (!rlx_place_map(a))
		return fail_mem(a, "mmap", errno, err);
	if (!(a->flags & RLX_ARENA_LAZY) &&
	    !rlx_place_fill(a, !(a->flags & RLX_ARENA_RDONLY)))
		return fail_mem(a, "filling it", errno, err);
	a->flags |= RLX_ARENA_SHARED;
	return RLX_OK;
}

static enum rlx_status memfd_open(struct rlx_arena *a, int fd,
				  struct rlx_error *err)
{
	enum rlx_status st;

	a->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (a->fd < 0)
		return rlx_fail(err, RLX_ENOMEM, "arena: dup of fd %d: %s", fd,
				strerror(errno));
	st = open_map(a, err);
	if (st) {
		rlx_place_unmap(a);
		return st;
	}
	snprintf(a->why_pages, RLX_WHY, "as the process that made it chose");
	rlx_place_lock(a);
	return RLX_OK;
}

static int memfd_reopen(struct rlx_arena *a)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int memfd_add_seals(struct rlx_arena *a, uint32_t seals)
{
	int set = 0;

	if (seals & RLX_SEAL_FUTURE_WRITE)
		set |= F_SEAL_FUTURE_WRITE;
	if (seals & RLX_SEAL_WRITE)
		set |= F_SEAL_WRITE;
	if (seals & RLX_SEAL_SEAL)
		set |= F_SEAL_SEAL;
	return fcntl(a->fd, F_ADD_SEALS, set) ? -errno : 0;
}

static uint32_t memfd_seals(struct rlx_arena *a)
{
	int s = fcntl(a->fd, F_GET_SEALS);

	if (s < 0)
		return 0;
	return (s & F_SEAL_FUTURE_WRITE ? RLX_SEAL_FUTURE_WRITE : 0) |
	       (s & F_SEAL_WRITE ? RLX_SEAL_WRITE : 0) |
	       (s & F_SEAL_SEAL ? RLX_SEAL_SEAL : 0);
}

static void memfd_settle(struct rlx_arena *a, bool write)
{
	if (a->page == rlx_page_bytes() && a->pages != RLX_PAGES_SMALL)
		madvise(a->base, a->size, MADV_HUGEPAGE);
	/* The pages are there; failing to map them now costs a fault later. */
	if (!(a->flags & RLX_ARENA_LAZY))
		rlx_place_fill(a, write);
	rlx_place_lock(a);
}

/*
 * Exports of a memfd are udmabuf's, which gives no read-only ones and refuses a
 * file that was sealed against writing.
 */
static enum rlx_status memfd_export(struct rlx_arena *a, struct rlx_buf r,
				    bool write, int *out_fd,
				    struct rlx_error *err)
{
	struct udmabuf_create c = {
		.memfd = (uint32_t)a->fd, .flags = UDMABUF_FLAGS_CLOEXEC,
		.offset = r.offset, .size = r.bytes,
	};
	int dev, e;

	if (!write)
		return rlx_fail(err, RLX_ENOSUP,
				"arena export: read-only dma-bufs need the module "
				"(" RLX_KMOD_NODE "); this is a memfd");
	dev = open(UDMABUF, O_RDWR | O_CLOEXEC);
	if (dev < 0)
		return rlx_fail(err, errno == EMFILE || errno == ENFILE ?
				RLX_ENOMEM : RLX_ENOSUP,
				"arena export: dma-bufs need the module ("
				RLX_KMOD_NODE "), or of a memfd " UDMABUF ": %s",
				strerror(errno));
	*out_fd = ioctl(dev, UDMABUF_CREATE, &c);
	e = errno;
	close(dev);
	if (*out_fd >= 0)
		return RLX_OK;
	*out_fd = -1;
	return rlx_fail(err, e == EINVAL ? RLX_ENOSUP : RLX_ENOMEM,
			"arena export: " UDMABUF " of %llu bytes: %s%s",
			(unsigned long long)r.bytes, strerror(e), e != EINVAL ?
			"" : "; it takes no more than its size_limit_mb, and no "
			"file sealed against writing");
}

const struct rlx_arena_provider rlx_arena_memfd = {
	.name	 = "memfd",
	.new	 = memfd_new,
	.claims	 = memfd_claims,
	.open	 = memfd_open,
	.reopen	 = memfd_reopen,
	.add_seals = memfd_add_seals,
	.seals	 = memfd_seals,
	.settle	 = memfd_settle,
	.export	 = memfd_export,
	.free	 = rlx_place_unmap,
};
