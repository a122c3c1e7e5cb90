// SPDX-License-Identifier: MIT
/* Where the pages of a mapping lie: huge, on a node, filled, locked. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/proc.h"
#include "mem/arena.h"

/* Older headers lack these; the kernel answers EINVAL where it does. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif
#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT		1
#endif

/* From linux/mempolicy.h, which not every libc package brings. */
enum { POLICY_PREFERRED = 1, POLICY_INTERLEAVE = 3 };

enum { HUGE_BYTES = 2 << 20 };

#define SHMEM_THP "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

uint64_t rlx_page_bytes(void)
{
	long n = sysconf(_SC_PAGESIZE);

	return n > 0 ? (uint64_t)n : 4096;
}

/*
 * Huge mappings need address and file offset equal modulo 2 MiB, and what mmap
 * returns by itself is so only on newer kernels: reserve more, trim the ends.
 */
char *rlx_place_range(uint64_t bytes)
{
	uint64_t page = rlx_page_bytes(), all, head;
	uint64_t len = (bytes + page - 1) & ~(page - 1);
	char *p, *base;

	all = len + HUGE_BYTES;
	p = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		 MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	head = -(uintptr_t)p & (HUGE_BYTES - 1);
	base = p + head;
	if (head)
		munmap(p, head);
	if (all - head > len)
		munmap(base + len, all - head - len);
	return base;
}

/* Preferred, never bound: a bound node that is full would mean SIGBUS. */
bool rlx_place_nodes(struct rlx_arena *a)
{
	unsigned long mask[2] = { a->nodes, 0 };
	int mode = a->nodes & (a->nodes - 1) ? POLICY_INTERLEAVE
					     : POLICY_PREFERRED;

	if (!a->nodes)
		return true;
	if (!syscall(SYS_mbind, a->base, a->size, mode, mask, 65ul, 0u))
		return true;
	snprintf(a->why_node, sizeof(a->why_node),
		 "mbind to nodes 0x%llx: %s", (unsigned long long)a->nodes,
		 errno == EINVAL ? "this machine has no such node" :
		 errno == ENOSYS ? "this kernel is built without NUMA" :
		 strerror(errno));
	return false;
}

/* At least the file's pages, so that a touch later cannot be fatal. */
static bool reserve(struct rlx_arena *a, uint64_t offset, uint64_t bytes, bool write)
{
	if (a->fd < 0 || !write)
		return true;
	while (fallocate(a->fd, 0, (off_t)offset, (off_t)bytes))
		if (errno != EINTR)
			return false;
	return true;
}

uint64_t rlx_place_size(const struct rlx_arena *a, uint64_t bytes)
{
	uint64_t page = rlx_page_bytes(), size = (bytes + page - 1) & ~(page - 1);
	uint64_t rest = size % HUGE_BYTES;

	/* limits may be just what was asked for */
	if (a->pages == RLX_PAGES_SMALL || a->flags & RLX_ARENA_EXACT)
		return size;
	/* to take a huge page costs less time than the small ones of a quarter of it */
	if (size > HUGE_BYTES && rest >= HUGE_BYTES / 4 && size < UINT64_MAX - HUGE_BYTES)
		size += HUGE_BYTES - rest;
	return size;
}

bool rlx_place_fill(struct rlx_arena *a, bool write)
{
	return rlx_place_fill_range(a, 0, a->size, write);
}

bool rlx_place_fill_range(struct rlx_arena *a, uint64_t offset, uint64_t bytes, bool write)
{
	int how = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
	uint64_t page = rlx_page_bytes(), begin = offset & ~(page - 1);

	bytes += offset - begin;
	while (bytes && madvise(a->base + begin, bytes, how)) {
		if (errno == EINVAL)		/* before 5.14 */
			return reserve(a, begin, bytes, write);
		if (errno != EINTR && errno != EAGAIN)
			return false;
	}
	return true;
}

/* The word in brackets in "always within_size advise [never] deny force". */
static void thp_mode(char *out, size_t size)
{
	char text[128], *s, *e;

	snprintf(out, size, "absent");
	if (!rlx_proc_text(SHMEM_THP, text, sizeof(text)))
		return;
	s = strchr(text, '[');
	e = s ? strchr(s, ']') : NULL;
	if (e)
		snprintf(out, size, "%.*s", (int)(e - s - 1), s + 1);
}

/*
 * Let the kernel build huge pages where it would not give them by itself; that
 * is cheaper than filling 4 KiB pages. One page per 2 MiB is touched first:
 * without a page table it answers EINVAL.
 */
static void collapse(struct rlx_arena *a, const char *pool)
{
	uint64_t whole = a->size & ~(uint64_t)(HUGE_BYTES - 1), at;
	const char *why;

	for (at = 0; at < whole; at += HUGE_BYTES)
		if (madvise(a->base + at, rlx_page_bytes(),
			    MADV_POPULATE_WRITE))
			break;
	if (!madvise(a->base, whole, MADV_COLLAPSE))
		return;
	why = errno == EINVAL ? "kernel before 6.1" :
	      errno == ENOMEM || errno == EAGAIN ?
	      "no 2 MiB of memory in one piece" : strerror(errno);
	snprintf(a->why_pages, sizeof(a->why_pages),
		 "%.60s%sbuilding huge pages: %.40s, and shmem THP is 'never': "
		 "echo advise > " SHMEM_THP, pool, pool[0] ? "; " : "", why);
}

bool rlx_place_extend(struct rlx_arena *a, uint64_t *taken, uint64_t need, bool exact)
{
	bool huge = a->page == rlx_page_bytes() && a->pages != RLX_PAGES_SMALL && a->fd >= 0;
	uint64_t page = rlx_page_bytes(), begin, end;

	while (*taken < need) {
		begin = *taken & ~(uint64_t)(HUGE_BYTES - 1);
		end = begin + HUGE_BYTES;
		if (end > a->size || (exact && end > need))
			end = exact ? (need + page - 1) & ~(page - 1) : a->size;
		/* One page first, as in collapse(); harmless where it was a huge one. */
		if (huge && end - begin == HUGE_BYTES &&
		    rlx_place_fill_range(a, begin, page, true))
			madvise(a->base + begin, HUGE_BYTES, MADV_COLLAPSE);
		if (!rlx_place_fill_range(a, *taken, end - *taken, true))
			return false;
		*taken = end;
	}
	return true;
}

void rlx_place_huge(struct rlx_arena *a, const char *pool)
{
	bool advised;
	char mode[32];

	if (a->pages == RLX_PAGES_SMALL)
		return;
	if (a->size < HUGE_BYTES) {
		snprintf(a->why_pages, sizeof(a->why_pages),
			 "smaller than a huge page");
		return;
	}
	thp_mode(mode, sizeof(mode));
	advised = !madvise(a->base, a->size, MADV_HUGEPAGE);
	if (advised && (!strcmp(mode, "advise") || !strcmp(mode, "always") ||
			!strcmp(mode, "within_size") || !strcmp(mode, "force")))
		return;		/* given on first touch */
	if (!strcmp(mode, "never") && !(a->flags & RLX_ARENA_LAZY)) {
		collapse(a, pool);
		return;
	}
	snprintf(a->why_pages, sizeof(a->why_pages),
		 "%.60s%sshmem THP is '%s': echo advise > " SHMEM_THP, pool,
		 pool[0] ? "; " : "", mode);
}

static bool lock_range(const struct rlx_arena *a, uint64_t bytes)
{
	unsigned int how = a->flags & RLX_ARENA_LAZY ? MLOCK_ONFAULT : 0;

	return !syscall(SYS_mlock2, a->base, bytes, how);
}

void rlx_place_lock(struct rlx_arena *a)
{
	uint64_t page = rlx_page_bytes(), room = 0, used = 0;
	struct rlimit lim = { 0 };

	a->locked = 0;
	a->why_lock[0] = 0;
	if (a->page > page) {		/* hugetlb pages never leave memory */
		a->locked = a->flags & RLX_ARENA_LAZY ? 0 : a->size;
		return;
	}
	if (a->flags & RLX_ARENA_NOLOCK) {
		snprintf(a->why_lock, sizeof(a->why_lock),
			 "not asked for (RLX_ARENA_NOLOCK)");
		return;
	}
	if (lock_range(a, a->size)) {
		a->locked = a->size;
		return;
	}
	getrlimit(RLIMIT_MEMLOCK, &lim);
	if (rlx_proc_key("/proc/self/status", "VmLck", &used) &&
	    lim.rlim_cur > used)
		room = lim.rlim_cur - used;
	room = (room < a->size ? room : a->size) & ~(page - 1);
	/* Another thread may take room between the look and the call: halve. */
	while (room && !lock_range(a, room))
		room = (room / 2) & ~(page - 1);
	a->locked = room;
	snprintf(a->why_lock, sizeof(a->why_lock),
		 "RLIMIT_MEMLOCK is %llu bytes, %llu used before: locked %llu "
		 "of %llu; raise it (ulimit -l, LimitMEMLOCK=) or give "
		 "CAP_IPC_LOCK", (unsigned long long)lim.rlim_cur,
		 (unsigned long long)used, (unsigned long long)room,
		 (unsigned long long)a->size);
}

bool rlx_place_map(struct rlx_arena *a)
{
	int prot = PROT_READ;
	void *p;

	if (!(a->flags & RLX_ARENA_RDONLY))
		prot |= PROT_WRITE;
	if (a->page > (2u << 20)) {	/* the kernel knows the alignment */
		p = mmap(NULL, a->size, prot, MAP_SHARED, a->fd, 0);
		if (p == MAP_FAILED)
			return false;
		a->base = p;
		return true;
	}
	a->base = rlx_place_range(a->size);
	if (!a->base)
		return false;
	p = mmap(a->base, a->size, prot, MAP_SHARED | MAP_FIXED, a->fd, 0);
	if (p != MAP_FAILED)
		return true;
	munmap(a->base, a->size);
	a->base = NULL;
	return false;
}

void rlx_place_unmap(struct rlx_arena *a)
{
	if (a->base)
		munmap(a->base, a->size);
	if (a->fd >= 0)
		close(a->fd);
	a->base = NULL;
	a->fd = -1;
}

enum rlx_status rlx_place_room(const struct rlx_arena *a, struct rlx_error *err)
{
	uint64_t have = rlx_mem_available();

	if (a->flags & RLX_ARENA_LAZY || a->size <= have)
		return RLX_OK;
	return rlx_fail(err, RLX_ENOMEM,
			"arena of %llu bytes: %llu are available on this "
			"machine or in this cgroup", (unsigned long long)a->size,
			(unsigned long long)have);
}

enum rlx_status rlx_place_exact(const struct rlx_arena *a, struct rlx_error *err)
{
	const char *why = NULL;

	if (!(a->flags & RLX_ARENA_EXACT))
		return RLX_OK;
	if (a->pages >= RLX_PAGES_HUGE && a->why_pages[0])
		why = a->why_pages;
	else if (a->why_node[0])
		why = a->why_node;
	else if (!(a->flags & RLX_ARENA_NOLOCK) && a->why_lock[0])
		why = a->why_lock;
	if (!why)
		return RLX_OK;
	return rlx_fail(err, RLX_EACCES, "arena, exactly as asked: %s", why);
}
