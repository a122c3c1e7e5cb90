// SPDX-License-Identifier: MIT
// Device memory nobody but the device may touch, and registered host memory.
#include "emu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * One range of addresses is the device's. A byte of shadow says how many of the
 * 16 bytes it stands for are allocated; a gap between allocations has none.
 */
#define RANGE		((uint64_t)64 << 30)
#define GAP		512

struct piece {
	struct piece	*next;		/* by address */
	uint64_t	at, n;
};

static struct {
	pthread_mutex_t	lock;
	char		*base;
	uint8_t		*shadow;
	struct piece	*pieces;
	uint64_t	used, end, high;	/* high: pages ever given out */
	int		open;
} mem = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct range {
	const char	*p;
	uint64_t	n;
};

static struct {
	pthread_rwlock_t	lock;
	struct range		*r;
	int			n, cap;
} host = { .lock = PTHREAD_RWLOCK_INITIALIZER };

int emu_mem_init(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

	if (mem.base)
		return 0;
	mem.shadow = mmap(NULL, RANGE / 16, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (mem.shadow == MAP_FAILED)
		return EMU_OUT_OF_MEMORY;
	mem.base = mmap(NULL, RANGE, PROT_NONE, flags, -1, 0);
	if (mem.base == MAP_FAILED) {
		mem.base = NULL;
		return EMU_OUT_OF_MEMORY;
	}
	return 0;
}

void emu_mem_open(void)
{
	pthread_mutex_lock(&mem.lock);
	if (mem.open++ == 0 && mem.high)
		mprotect(mem.base, mem.high, PROT_READ | PROT_WRITE);
	pthread_mutex_unlock(&mem.lock);
}

void emu_mem_close(void)
{
	pthread_mutex_lock(&mem.lock);
	if (--mem.open == 0 && mem.high)
		mprotect(mem.base, mem.high, PROT_NONE);
	pthread_mutex_unlock(&mem.lock);
}

bool emu_mem_reserved(const void *p)
{
	return (uint64_t)((const char *)p - mem.base) < RANGE;
}

bool emu_mem_device(const void *p, uint64_t n)
{
	uint64_t at = (uint64_t)((const char *)p - mem.base), last = at + n - 1;

	if (!n)
		return true;
	if (last >= RANGE || last < at)
		return false;
	/* gaps are as wide as any access of a kernel; copies are looked at whole */
	for (uint64_t i = at / 16; i < last / 16; i++)
		if (mem.shadow[i] != 16)
			return false;
	return mem.shadow[last / 16] > last % 16;
}

/* Where @n bytes and a gap fit: behind the last one given, else the first hole. */
static struct piece **place(uint64_t n, uint64_t *at)
{
	struct piece **p = &mem.pieces;
	uint64_t from = 0;

	if (mem.end + n + GAP <= RANGE) {
		while (*p)
			p = &(*p)->next;
		*at = mem.end;
		return p;
	}
	for (; *p; p = &(*p)->next) {
		if ((*p)->at >= from + n + GAP)
			break;
		from = ((*p)->at + (*p)->n + 2 * GAP - 1) / GAP * GAP;
	}
	*at = from;
	return from + n + GAP <= RANGE ? p : NULL;
}

EMU_API int cuMemAlloc_v2(uint64_t *out, size_t n);
EMU_API int cuMemAlloc_v2(uint64_t *out, size_t n)
{
	int err = emu_enter("cuMemAlloc");
	struct piece **where, *p;
	uint64_t at;

	if (err)
		return err;
	if (!out || !n)
		return EMU_INVALID_VALUE;
	pthread_mutex_lock(&mem.lock);
	p = calloc(1, sizeof(*p));
	where = n <= emu_config.memory && mem.used <= emu_config.memory - n ?
			place(n, &at) : NULL;
	if (!p || !where) {
		pthread_mutex_unlock(&mem.lock);
		free(p);
		return EMU_OUT_OF_MEMORY;
	}
	p->at = at;
	p->n = n;
	p->next = *where;
	*where = p;
	mem.used += n;
	if (at + n + 2 * GAP > mem.end)
		mem.end = (at + n + 2 * GAP - 1) / GAP * GAP;
	if (at + n > mem.high) {
		mem.high = (at + n + 4095) / 4096 * 4096;
		if (mem.open)
			mprotect(mem.base, mem.high, PROT_READ | PROT_WRITE);
	}
	memset(mem.shadow + at / 16, 16, n / 16);
	if (n % 16)
		mem.shadow[(at + n) / 16] = n % 16;
	pthread_mutex_unlock(&mem.lock);
	emu_mem_open();
	if (n <= (size_t)256 << 20)
		memset(mem.base + at, 0xff, n);
	emu_mem_close();
	*out = (uint64_t)(uintptr_t)(mem.base + at);
	return 0;
}

EMU_API int cuMemFree_v2(uint64_t d);
EMU_API int cuMemFree_v2(uint64_t d)
{
	uint64_t at = d - (uint64_t)(uintptr_t)mem.base;
	int err = emu_enter("cuMemFree");
	struct piece **p = &mem.pieces, *gone;

	if (err)
		return err;
	if (!d)
		return 0;
	/* as the driver: whatever runs may still use it */
	err = emu_sync_all();
	if (err)
		return err;
	pthread_mutex_lock(&mem.lock);
	while (*p && (*p)->at != at)
		p = &(*p)->next;
	gone = *p;
	if (gone) {
		*p = gone->next;
		mem.used -= gone->n;
		memset(mem.shadow + at / 16, 0, (gone->n + 15) / 16);
		madvise(mem.base + (at + 4095) / 4096 * 4096,
			gone->n > 8191 ? (gone->n - 4095) / 4096 * 4096 : 0,
			MADV_DONTNEED);
	}
	pthread_mutex_unlock(&mem.lock);
	free(gone);
	return gone ? 0 : EMU_INVALID_VALUE;
}

EMU_API int cuMemGetInfo_v2(size_t *left, size_t *all);
EMU_API int cuMemGetInfo_v2(size_t *left, size_t *all)
{
	int err = emu_enter("cuMemGetInfo");

	if (err)
		return err;
	pthread_mutex_lock(&mem.lock);
	*left = emu_config.memory - mem.used;
	*all = emu_config.memory;
	pthread_mutex_unlock(&mem.lock);
	return 0;
}

EMU_API int cuMemGetAddressRange_v2(uint64_t *base, size_t *n, uint64_t d);
EMU_API int cuMemGetAddressRange_v2(uint64_t *base, size_t *n, uint64_t d)
{
	uint64_t at = d - (uint64_t)(uintptr_t)mem.base;
	int err = emu_enter("cuMemGetAddressRange");
	struct piece *p;

	if (err)
		return err;
	pthread_mutex_lock(&mem.lock);
	for (p = mem.pieces; p && !(at >= p->at && at < p->at + p->n); p = p->next)
		;
	if (p && base)
		*base = (uint64_t)(uintptr_t)(mem.base + p->at);
	if (p && n)
		*n = p->n;
	pthread_mutex_unlock(&mem.lock);
	return p ? 0 : EMU_NOT_FOUND;
}

/* ---- host memory ---- */

bool emu_mem_registered(const void *p, uint64_t n)
{
	const char *c = p;
	bool yes = false;

	pthread_rwlock_rdlock(&host.lock);
	for (int i = 0; i < host.n && !yes; i++)
		yes = c >= host.r[i].p &&
		      (uint64_t)(c - host.r[i].p) < host.r[i].n &&
		      n <= host.r[i].n - (uint64_t)(c - host.r[i].p);
	pthread_rwlock_unlock(&host.lock);
	return yes;
}

static int host_add(const char *p, uint64_t n)
{
	int err = 0;

	pthread_rwlock_wrlock(&host.lock);
	for (int i = 0; i < host.n; i++)
		if (p < host.r[i].p + host.r[i].n && host.r[i].p < p + n)
			err = EMU_ALREADY_REGISTERED;
	if (!err && host.n == host.cap) {
		int cap = host.cap ? host.cap * 2 : 16;
		struct range *r = realloc(host.r, (size_t)cap * sizeof(*r));

		if (r) {
			host.r = r;
			host.cap = cap;
		} else {
			err = EMU_OUT_OF_MEMORY;
		}
	}
	if (!err)
		host.r[host.n++] = (struct range){ p, n };
	pthread_rwlock_unlock(&host.lock);
	return err;
}

static int host_remove(const char *p)
{
	int err = EMU_NOT_REGISTERED;

	pthread_rwlock_wrlock(&host.lock);
	for (int i = 0; i < host.n; i++)
		if (host.r[i].p == p) {
			host.r[i] = host.r[--host.n];
			err = 0;
			break;
		}
	pthread_rwlock_unlock(&host.lock);
	return err;
}

EMU_API int cuMemHostRegister_v2(void *p, size_t n, unsigned int flags);
EMU_API int cuMemHostRegister_v2(void *p, size_t n, unsigned int flags)
{
	int err = emu_enter("cuMemHostRegister");

	if (err)
		return err;
	/* portable, device map, I/O memory, read-only */
	if (!p || !n || flags & ~15u)
		return EMU_INVALID_VALUE;
	return host_add(p, n);
}

EMU_API int cuMemHostUnregister(void *p);
EMU_API int cuMemHostUnregister(void *p)
{
	int err = emu_enter("cuMemHostUnregister");

	if (!err)
		err = emu_sync_all();
	return err ? err : host_remove(p);
}

EMU_API int cuMemHostGetDevicePointer_v2(uint64_t *out, void *p, unsigned int flags);
EMU_API int cuMemHostGetDevicePointer_v2(uint64_t *out, void *p, unsigned int flags)
{
	int err = emu_enter("cuMemHostGetDevicePointer");

	if (err)
		return err;
	if (!out || flags || !emu_mem_registered(p, 1))
		return EMU_INVALID_VALUE;
	*out = (uint64_t)(uintptr_t)p;
	return 0;
}

EMU_API int cuMemHostAlloc(void **out, size_t n, unsigned int flags);
EMU_API int cuMemHostAlloc(void **out, size_t n, unsigned int flags)
{
	int err = emu_enter("cuMemHostAlloc");

	if (err)
		return err;
	if (!out || !n || flags & ~7u)
		return EMU_INVALID_VALUE;
	if (posix_memalign(out, 4096, n))
		return EMU_OUT_OF_MEMORY;
	err = host_add(*out, n);
	if (err)
		free(*out);
	return err;
}

EMU_API int cuMemFreeHost(void *p);
EMU_API int cuMemFreeHost(void *p)
{
	int err = emu_enter("cuMemFreeHost");

	if (!err)
		err = emu_sync_all();
	if (!err)
		err = host_remove(p);
	if (!err)
		free(p);
	return err;
}

enum { POINTER_MEMORY_TYPE = 2, POINTER_DEVICE_POINTER = 3, POINTER_HOST_POINTER = 4 };

EMU_API int cuPointerGetAttribute(void *out, int what, uint64_t p);
EMU_API int cuPointerGetAttribute(void *out, int what, uint64_t p)
{
	const void *q = (const void *)(uintptr_t)p;
	bool dev = emu_mem_reserved(q) && emu_mem_device(q, 1);
	int err = emu_enter("cuPointerGetAttribute");

	if (err)
		return err;
	if (!dev && !emu_mem_registered(q, 1))
		return EMU_INVALID_VALUE;
	switch (what) {
	case POINTER_MEMORY_TYPE:
		*(unsigned int *)out = dev ? 2 : 1;
		return 0;
	case POINTER_DEVICE_POINTER:
		*(uint64_t *)out = p;
		return 0;
	case POINTER_HOST_POINTER:
		*(const void **)out = q;
		return dev ? EMU_INVALID_VALUE : 0;
	default:
		return EMU_NOT_SUPPORTED;
	}
}
