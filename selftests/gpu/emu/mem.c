// SPDX-License-Identifier: MIT
// Device memory nobody but the device may touch, and registered host memory.
#include "emu.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * One range of addresses is the devices'. A byte of shadow says how many of the 16 bytes
 * it stands for are allocated, and for which device (in its upper bits); a gap between
 * allocations has none.
 */
#define SHADOW(device, n)	((uint8_t)((device) << 5 | (n)))
#define RANGE		((uint64_t)64 << 30)
#define GAP		512

struct piece {
	struct piece	*next;		/* by address */
	uint64_t	at, n;
	bool		shared, mapped;	/* addresses of memory that processes share */
	int		device;
};

static struct {
	pthread_mutex_t	lock;
	char		*base;
	uint8_t		*shadow;
	uint32_t	*writer;	/* of each 16 bytes: see emu_mem_wrote() */
	struct piece	*pieces;
	uint64_t	used[EMU_DEVICES], end, high;	/* high: pages ever given out */
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
	mem.writer = mmap(NULL, RANGE / 16 * sizeof(*mem.writer), PROT_READ | PROT_WRITE, flags,
			  -1, 0);
	if (mem.shadow == MAP_FAILED || mem.writer == MAP_FAILED)
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

bool emu_mem_device(const void *p, uint64_t n, int device)
{
	uint64_t at = (uint64_t)((const char *)p - mem.base), last = at + n - 1;

	if (!n)
		return true;
	if (last >= RANGE || last < at)
		return false;
	if (device < 0)
		device = mem.shadow[at / 16] >> 5;
	/* gaps are as wide as any access of a kernel; copies are looked at whole */
	for (uint64_t i = at / 16; i < last / 16; i++)
		if (mem.shadow[i] != SHADOW(device, 16))
			return false;
	return mem.shadow[last / 16] >> 5 == device &&
	       (mem.shadow[last / 16] & 31) > last % 16;
}

void emu_mem_wrote(const void *p, uint64_t n, uint32_t run)
{
	uint64_t at = (uint64_t)((const char *)p - mem.base);

	for (uint64_t i = at / 16; n && i <= (at + n - 1) / 16; i++)
		__atomic_store_n(&mem.writer[i], run, __ATOMIC_RELAXED);
}

bool emu_mem_is_of(const void *p, uint64_t n, uint32_t run)
{
	uint64_t at = (uint64_t)((const char *)p - mem.base);

	for (uint64_t i = at / 16; n && i <= (at + n - 1) / 16; i++)
		if (__atomic_load_n(&mem.writer[i], __ATOMIC_RELAXED) == run)
			return true;
	return false;
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

/* With the lock held: is there so much left of the device's memory? */
static bool has_left(int device, uint64_t n)
{
	return n <= emu_config.memory && mem.used[device] <= emu_config.memory - n;
}

/* With the lock held: addresses for @n bytes, of which @counted are memory of @device. */
static struct piece *take(uint64_t n, uint64_t align, uint64_t counted, int device)
{
	struct piece **where, *p;
	uint64_t at;

	if (!has_left(device, counted))
		return NULL;
	p = calloc(1, sizeof(*p));
	where = p ? place(n + align - 1, &at) : NULL;
	if (!where) {
		free(p);
		return NULL;
	}
	at = (at + align - 1) / align * align;
	p->at = at;
	p->n = n;
	p->device = device;
	p->next = *where;
	*where = p;
	mem.used[device] += counted;
	if (at + n + 2 * GAP > mem.end)
		mem.end = (at + n + 2 * GAP - 1) / GAP * GAP;
	if (at + n > mem.high) {
		mem.high = (at + n + 4095) / 4096 * 4096;
		if (mem.open)
			mprotect(mem.base, mem.high, PROT_READ | PROT_WRITE);
	}
	return p;
}

/* Bytes that kernels may touch, or no more. */
static void mark(const struct piece *p, bool there)
{
	memset(mem.shadow + p->at / 16, there ? SHADOW(p->device, 16) : 0, p->n / 16);
	if (p->n % 16)
		mem.shadow[(p->at + p->n) / 16] = there ? SHADOW(p->device, p->n % 16) : 0;
}

EMU_API int cuMemAlloc_v2(uint64_t *out, size_t n);
EMU_API int cuMemAlloc_v2(uint64_t *out, size_t n)
{
	int err = emu_enter("cuMemAlloc");
	struct piece *p;

	if (err)
		return err;
	if (!out || !n)
		return EMU_INVALID_VALUE;
	if (emu_device() < 0)
		return EMU_INVALID_CONTEXT;
	pthread_mutex_lock(&mem.lock);
	p = take(n, 1, n, emu_device());
	if (p)
		mark(p, true);
	pthread_mutex_unlock(&mem.lock);
	if (!p)
		return EMU_OUT_OF_MEMORY;
	emu_count(EMU_MEMORY, 1);
	emu_mem_open();
	if (n <= (size_t)256 << 20)
		memset(mem.base + p->at, 0xff, n);
	emu_mem_close();
	*out = (uint64_t)(uintptr_t)(mem.base + p->at);
	return 0;
}

EMU_API int cuMemFree_v2(uint64_t d);
EMU_API int cuMemFree_v2(uint64_t d)
{
	uint64_t at = d - (uint64_t)(uintptr_t)mem.base;
	int err = emu_enter("cuMemFree");
	struct piece **p = &mem.pieces, *gone;

	if (!d)
		return err;
	if (emu_device() < 0)
		return EMU_INVALID_CONTEXT;
	/* as the driver: whatever runs may still use it, and what failed is told late */
	err = err ? err : emu_sync_all();
	pthread_mutex_lock(&mem.lock);
	while (*p && ((*p)->at != at || (*p)->shared))
		p = &(*p)->next;
	gone = *p;
	if (gone) {
		*p = gone->next;
		mem.used[gone->device] -= gone->n;
		mark(gone, false);
		madvise(mem.base + (at + 4095) / 4096 * 4096,
			gone->n > 8191 ? (gone->n - 4095) / 4096 * 4096 : 0,
			MADV_DONTNEED);
	}
	pthread_mutex_unlock(&mem.lock);
	if (gone)
		emu_count(EMU_MEMORY, -1);
	free(gone);
	return err ? err : gone ? 0 : EMU_INVALID_VALUE;
}

EMU_API int cuMemGetInfo_v2(size_t *left, size_t *all);
EMU_API int cuMemGetInfo_v2(size_t *left, size_t *all)
{
	int err = emu_enter("cuMemGetInfo");

	if (err)
		return err;
	if (emu_device() < 0)
		return EMU_INVALID_CONTEXT;
	pthread_mutex_lock(&mem.lock);
	*left = emu_config.memory - mem.used[emu_device()];
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

/* ---- memory that processes share: a file, which descriptors and mappings keep ---- */

enum { STEP = 2 << 20, MOST_HANDLES = 64 };

static struct {
	int		fd;	/* + 1; 0: free */
	int		device;
	uint64_t	n, counted;
} handles[MOST_HANDLES];

/* The file's name tells whose memory it is to those who import it. */
static const char file_name[] = "rlx-emulated-device";

/* As CUmemAllocationProp begins, and CUmemAccessDesc. */
struct emu_share {
	int	type, handle, place, device;
};

struct emu_access {
	int	place, device, flags;
};

static int handle_new(int fd, int device, uint64_t n, uint64_t counted, uint64_t *out)
{
	int i;

	pthread_mutex_lock(&mem.lock);
	for (i = 0; i < MOST_HANDLES && handles[i].fd; i++)
		;
	if (i < MOST_HANDLES) {
		handles[i].fd = fd + 1;
		handles[i].device = device;
		handles[i].n = n;
		handles[i].counted = counted;
		mem.used[device] += counted;
		*out = (uint64_t)i + 1;
		emu_count(EMU_SHARE, 1);
	}
	pthread_mutex_unlock(&mem.lock);
	return i < MOST_HANDLES ? 0 : EMU_OUT_OF_MEMORY;
}

static bool is_handle(uint64_t h)
{
	return h - 1 < MOST_HANDLES && handles[h - 1].fd;
}

EMU_API int cuMemGetAllocationGranularity(size_t *out, const struct emu_share *how, int option);
EMU_API int cuMemGetAllocationGranularity(size_t *out, const struct emu_share *how, int option)
{
	int err = emu_enter("cuMemGetAllocationGranularity");

	if (!err)
		*out = STEP;
	return err;
}

EMU_API int cuMemCreate(uint64_t *out, size_t n, const struct emu_share *how, uint64_t flags);
EMU_API int cuMemCreate(uint64_t *out, size_t n, const struct emu_share *how, uint64_t flags)
{
	int err = emu_enter("cuMemCreate"), fd;
	char name[32];

	if (err)
		return err;
	if (!n || n % STEP || how->type != 1 || how->handle != 1 || how->place != 1 ||
	    how->device < 0 || how->device >= emu_config.devices)
		return EMU_INVALID_VALUE;
	if (!has_left(how->device, n))
		return EMU_OUT_OF_MEMORY;
	snprintf(name, sizeof(name), "%s:%d", file_name, how->device);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && !ftruncate(fd, (off_t)n) && !handle_new(fd, how->device, n, n, out))
		return 0;
	if (fd >= 0)
		close(fd);
	return EMU_OUT_OF_MEMORY;
}

EMU_API int cuMemRelease(uint64_t h);
EMU_API int cuMemRelease(uint64_t h)
{
	int err = emu_enter("cuMemRelease");

	if (!is_handle(h))
		return EMU_INVALID_VALUE;
	pthread_mutex_lock(&mem.lock);
	close(handles[h - 1].fd - 1);
	handles[h - 1].fd = 0;
	mem.used[handles[h - 1].device] -= handles[h - 1].counted;
	emu_count(EMU_SHARE, -1);
	pthread_mutex_unlock(&mem.lock);
	return err;
}

EMU_API int cuMemExportToShareableHandle(int *out, uint64_t h, int type, uint64_t flags);
EMU_API int cuMemExportToShareableHandle(int *out, uint64_t h, int type, uint64_t flags)
{
	int err = emu_enter("cuMemExportToShareableHandle");

	if (err)
		return err;
	/* what was imported is not, as on an H200 */
	if (!is_handle(h) || !handles[h - 1].counted || type != 1)
		return EMU_INVALID_VALUE;
	*out = fcntl(handles[h - 1].fd - 1, F_DUPFD_CLOEXEC, 0);
	return *out < 0 ? EMU_OUT_OF_MEMORY : 0;
}

EMU_API int cuMemImportFromShareableHandle(uint64_t *out, void *fd, int type);
EMU_API int cuMemImportFromShareableHandle(uint64_t *out, void *fd, int type)
{
	int err = emu_enter("cuMemImportFromShareableHandle"), own, device = -1;
	char link[64], name[64] = "";
	struct stat s;

	if (err)
		return err;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", (int)(intptr_t)fd);
	if (readlink(link, name, sizeof(name) - 1) < 0 ||
	    sscanf(name, "/memfd:rlx-emulated-device:%d", &device) != 1 || device < 0 ||
	    device >= emu_config.devices || fstat((int)(intptr_t)fd, &s))
		return EMU_UNKNOWN;
	own = fcntl((int)(intptr_t)fd, F_DUPFD_CLOEXEC, 0);
	return own < 0 ? EMU_OUT_OF_MEMORY :
	       handle_new(own, device, (uint64_t)s.st_size, 0, out);
}

/* With the lock held. */
static struct piece *piece_at(uint64_t d, size_t n)
{
	uint64_t at = d - (uint64_t)(uintptr_t)mem.base;
	struct piece *p = mem.pieces;

	while (p && p->at != at)
		p = p->next;
	return p && p->shared && p->n == n ? p : NULL;
}

EMU_API int cuMemAddressReserve(uint64_t *out, size_t n, size_t align, uint64_t where,
				uint64_t flags);
EMU_API int cuMemAddressReserve(uint64_t *out, size_t n, size_t align, uint64_t where,
				uint64_t flags)
{
	int err = emu_enter("cuMemAddressReserve");
	struct piece *p;

	if (err)
		return err;
	if (!n || n % STEP)
		return EMU_INVALID_VALUE;
	pthread_mutex_lock(&mem.lock);
	p = take(n, STEP, 0, 0);
	if (p) {
		p->shared = true;
		emu_count(EMU_ADDRESS, 1);
		*out = (uint64_t)(uintptr_t)(mem.base + p->at);
	}
	pthread_mutex_unlock(&mem.lock);
	return p ? 0 : EMU_OUT_OF_MEMORY;
}

/* Of a file, or of nothing again. */
static int map_at(struct piece *p, int fd)
{
	int prot = mem.open ? PROT_READ | PROT_WRITE : PROT_NONE;
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;

	return mmap(mem.base + p->at, p->n, prot, flags | MAP_FIXED, fd, 0) == MAP_FAILED ?
	       EMU_OUT_OF_MEMORY : 0;
}

EMU_API int cuMemMap(uint64_t d, size_t n, size_t offset, uint64_t h, uint64_t flags);
EMU_API int cuMemMap(uint64_t d, size_t n, size_t offset, uint64_t h, uint64_t flags)
{
	int err = emu_enter("cuMemMap");
	struct piece *p;

	if (err)
		return err;
	pthread_mutex_lock(&mem.lock);
	p = piece_at(d, n);
	if (!p || p->mapped || offset || !is_handle(h) || handles[h - 1].n != n)
		err = EMU_INVALID_VALUE;
	else
		err = map_at(p, handles[h - 1].fd - 1);
	if (!err) {
		p->mapped = true;
		p->device = handles[h - 1].device;
	}
	pthread_mutex_unlock(&mem.lock);
	return err;
}

EMU_API int cuMemSetAccess(uint64_t d, size_t n, const struct emu_access *how, size_t count);
EMU_API int cuMemSetAccess(uint64_t d, size_t n, const struct emu_access *how, size_t count)
{
	int err = emu_enter("cuMemSetAccess");
	struct piece *p;

	if (err)
		return err;
	pthread_mutex_lock(&mem.lock);
	p = piece_at(d, n);
	/* a device reaches another's memory only where there is a link */
	if (p && p->mapped && count == 1 && how->place == 1 && how->flags &&
	    (how->device == p->device || emu_config.peers)) {
		p->device = how->device;
		mark(p, true);
	} else {
		err = EMU_INVALID_VALUE;
	}
	pthread_mutex_unlock(&mem.lock);
	return err;
}

EMU_API int cuMemUnmap(uint64_t d, size_t n);
EMU_API int cuMemUnmap(uint64_t d, size_t n)
{
	int err = emu_enter("cuMemUnmap");
	struct piece *p;

	err = err ? err : emu_sync_all();
	pthread_mutex_lock(&mem.lock);
	p = piece_at(d, n);
	if (p && p->mapped) {
		mark(p, false);
		p->mapped = false;
		err = map_at(p, -1) ? EMU_OUT_OF_MEMORY : err;
	} else {
		err = EMU_INVALID_VALUE;
	}
	pthread_mutex_unlock(&mem.lock);
	return err;
}

EMU_API int cuMemAddressFree(uint64_t d, size_t n);
EMU_API int cuMemAddressFree(uint64_t d, size_t n)
{
	int err = emu_enter("cuMemAddressFree");
	struct piece **at = &mem.pieces, *p;

	pthread_mutex_lock(&mem.lock);
	p = piece_at(d, n);
	if (p && !p->mapped) {
		emu_count(EMU_ADDRESS, -1);
		while (*at != p)
			at = &(*at)->next;
		*at = p->next;
		free(p);
	} else {
		err = EMU_INVALID_VALUE;
	}
	pthread_mutex_unlock(&mem.lock);
	return err;
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
	if (!err) {
		host.r[host.n++] = (struct range){ p, n };
		emu_count(EMU_PIN, 1);
	}
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
			emu_count(EMU_PIN, -1);
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
	return emu_device() < 0 ? EMU_INVALID_CONTEXT : host_add(p, n);
}

EMU_API int cuMemHostUnregister(void *p);
EMU_API int cuMemHostUnregister(void *p)
{
	int err = emu_enter("cuMemHostUnregister"), gone;

	err = err ? err : emu_sync_all();
	gone = host_remove(p);
	return err ? err : gone;
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
	bool dev = emu_mem_reserved(q) && emu_mem_device(q, 1, -1);
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
