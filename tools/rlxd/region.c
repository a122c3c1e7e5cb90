// SPDX-License-Identifier: MIT
/* Registered shared memory, safe from owners who take it away. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/map.h"
#include "rlx/arena.h"
#include "tools/rlxd/region.h"
#include "tools/rlxd/truncation_guard.h"

enum { BUCKETS = 512 };

struct region {
	struct region		*next;		/* of its bucket */
	char			 name[REGION_NAME_MAX + 1], key[256];
	char			 owner_key[64];
	int			 owner_uid;
	uint64_t		 offset, bytes, mapped;
	struct rlx_arena	*arena;
	atomic_uint		 refs;
	unsigned int		 slot;
};

/*
 * What the fault handler looks at: fixed memory, written before a mapping is used
 * and cleared before it goes. @end 0: free.
 */
static struct {
	_Atomic(uintptr_t)	begin, end;
	atomic_bool		torn;
} mapped[REGIONS_MAX];

/* Guards the table of names, what its regions' owners have, and the slots' use. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct region *regions[REGIONS_MAX];
static struct region *bucket[BUCKETS];
/* Slots from here on were never used: handlers and searches need not look there. */
static atomic_uint slots_used;

static const char model_text[] =
	"rlxd: a mapped file became shorter: was a model's file overwritten in place? Replace it "
	"by renaming a new one over it\n";

static void on_fault(int sig, siginfo_t *info, void *ctx)
{
	uintptr_t at = (uintptr_t)info->si_addr, page = (uintptr_t)sysconf(_SC_PAGESIZE);
	int saved = errno;
	unsigned int i;

	for (i = 0; i < atomic_load(&slots_used); i++) {
		if (at < atomic_load(&mapped[i].begin) || at >= atomic_load(&mapped[i].end))
			continue;
		if (mmap((void *)(at & ~(page - 1)), page, PROT_READ | PROT_WRITE,
			 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			break;
		atomic_store(&mapped[i].torn, true);
		errno = saved;
		return;
	}
	if (truncation_guard_fault(at)) {
		errno = saved;
		return;
	}
	/* None of ours: die of it, but say what it most likely was. */
	if (write(STDERR_FILENO, model_text, sizeof(model_text) - 1) < 0)
		errno = saved;
	signal(SIGBUS, SIG_DFL);
	raise(SIGBUS);
}

void region_thread_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
}

enum rlx_status region_setup(struct rlx_error *err)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };

	sigemptyset(&sa.sa_mask);
	if (sigaction(SIGBUS, &sa, NULL))
		return rlx_fail(err, RLX_EIO, "sigaction(SIGBUS): %m");
	return RLX_OK;
}

static enum rlx_status open_key(const char *key, int uid, int *out_fd, struct rlx_error *err)
{
	struct stat sb;
	int fd;

	if (!*key || strlen(key) > 250 || strchr(key + (*key == '/'), '/'))
		return rlx_fail(err, RLX_EINVAL, "'%.60s' is no name of shared memory: /NAME", key);
	fd = shm_open(key, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		return rlx_fail(err, errno == EACCES ? RLX_EACCES : RLX_ENOENT,
				"shared memory '%.60s': %m", key);
	/* Ours to open does not mean the peer's to read. */
	if (uid >= 0 && (fstat(fd, &sb) || (int)sb.st_uid != uid)) {
		close(fd);
		return rlx_fail(err, RLX_EACCES, "shared memory '%.60s' is not owned by the user "
				"at the other end (uid %d)", key, uid);
	}
	*out_fd = fd;
	return RLX_OK;
}

static void region_free(struct region *g)
{
	atomic_store(&mapped[g->slot].end, 0);
	rlx_arena_put(g->arena);
	rlx_free(g);
}

void region_put(struct region *g)
{
	if (!g)
		return;
	pthread_mutex_lock(&lock);
	if (atomic_fetch_sub(&g->refs, 1) == 1)
		region_free(g);
	pthread_mutex_unlock(&lock);
}

/* With the lock held: a slot that nobody uses, also none of a region on its way out. */
static int free_slot(void)
{
	int i;

	for (i = 0; i < REGIONS_MAX; i++)
		if (!regions[i] && !atomic_load(&mapped[i].end))
			return i;
	return -1;
}

static struct region **bucket_of(const struct region_owner *o, const char *name)
{
	uint64_t h = rlx_hash_bytes(name, strlen(name), (uint64_t)(uint32_t)o->uid);

	return &bucket[h % BUCKETS];
}

static bool is_of(const struct region *g, const struct region_owner *o)
{
	return g->owner_uid == o->uid && !strcmp(g->owner_key, o->key);
}

/* With the lock held, as all below. */
static struct region *find(const struct region_owner *o, const char *name)
{
	struct region *g;

	for (g = *bucket_of(o, name); g; g = g->next)
		if (is_of(g, o) && !strcmp(g->name, name))
			break;
	return g;
}

/* Its name is free again; its memory goes with the last request that uses it. */
static void take_out(struct region *g)
{
	struct region_owner o = { g->owner_key, g->owner_uid };
	struct region **p = bucket_of(&o, g->name);

	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	regions[g->slot] = NULL;
	if (atomic_fetch_sub(&g->refs, 1) == 1)
		region_free(g);
}

/* Is there room for @bytes more in what @o may have? */
static enum rlx_status has_room(const struct region_owner *o, const struct region_quota *quota,
				uint64_t bytes, struct rlx_error *err)
{
	uint64_t sum = 0;
	unsigned int i, n = 0;

	for (i = 0; i < atomic_load(&slots_used); i++)
		if (regions[i] && is_of(regions[i], o)) {
			n++;
			sum += regions[i]->mapped;
		}
	if (n >= quota->regions)
		return rlx_fail(err, RLX_EBUSY, "you have %u regions already (max_regions); "
				"unregister some", n);
	if (bytes > quota->bytes || sum > quota->bytes - bytes)
		return rlx_fail(err, RLX_EBUSY, "the files of your regions would have %llu bytes, "
				"%llu may be mapped (max_region_bytes); unregister some",
				(unsigned long long)(sum + bytes),
				(unsigned long long)quota->bytes);
	return RLX_OK;
}

/* The file, mapped; its size is asked first, for a mapping takes address space at once. */
static enum rlx_status map(struct region *g, int fd, const struct region_owner *o,
			   const struct region_quota *quota, struct rlx_error *err)
{
	enum rlx_status st;
	uint64_t size;
	struct stat sb;

	if (fstat(fd, &sb))
		return rlx_fail(err, RLX_EIO, "shared memory '%.60s': %m", g->key);
	st = has_room(o, quota, (uint64_t)sb.st_size, err);
	if (!st)
		st = rlx_arena_open_fd(fd, RLX_ARENA_UNSEALED | RLX_ARENA_LAZY | RLX_ARENA_NOLOCK,
				       &g->arena, err);
	if (st)
		return st;
	size = g->mapped = rlx_arena_size(g->arena);
	st = has_room(o, quota, size, err);	/* it may have grown */
	if (!st && (g->offset > size || g->bytes > size - g->offset || !g->bytes))
		st = rlx_fail(err, RLX_ERANGE, "bytes %llu to %llu are not in '%.60s', which has "
			      "%llu", (unsigned long long)g->offset,
			      (unsigned long long)(g->offset + g->bytes), g->key,
			      (unsigned long long)size);
	if (st)
		rlx_arena_put(g->arena);
	return st;
}

static enum rlx_status add(struct region *g, int fd, const struct region_owner *o,
			   const struct region_quota *quota, struct rlx_error *err)
{
	struct region **p = bucket_of(o, g->name);
	enum rlx_status st;
	int slot = free_slot();
	uintptr_t base;

	if (slot < 0)
		return rlx_fail(err, RLX_EBUSY, "there are %d regions already, of all users; try "
				"again later", REGIONS_MAX);
	st = map(g, fd, o, quota, err);
	if (st)
		return st;
	base = (uintptr_t)rlx_arena_base(g->arena);
	g->slot = (unsigned int)slot;
	atomic_store(&mapped[slot].torn, false);
	atomic_store(&mapped[slot].begin, base);
	atomic_store(&mapped[slot].end, base + g->mapped);
	if (g->slot >= atomic_load(&slots_used))
		atomic_store(&slots_used, g->slot + 1);
	regions[slot] = g;
	g->next = *p;
	*p = g;
	return RLX_OK;
}

enum rlx_status region_register(const struct region_owner *owner,
				const struct region_quota *quota,
				const struct region_place *place, struct rlx_error *err)
{
	enum rlx_status st;
	struct region *g;
	int fd = -1;

	if (strlen(place->name) > REGION_NAME_MAX)
		return rlx_fail(err, RLX_EINVAL, "a region's name has at most %d bytes",
				REGION_NAME_MAX);
	st = open_key(place->key, owner->uid, &fd, err);
	if (st)
		return st;
	g = rlx_calloc(1, sizeof(*g));
	if (!g) {
		close(fd);
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	}
	snprintf(g->name, sizeof(g->name), "%s", place->name);
	snprintf(g->key, sizeof(g->key), "%s", place->key);
	snprintf(g->owner_key, sizeof(g->owner_key), "%s", owner->key);
	g->owner_uid = owner->uid;
	g->offset = place->offset;
	g->bytes = place->bytes;
	atomic_init(&g->refs, 1);
	pthread_mutex_lock(&lock);
	if (find(owner, place->name))
		st = rlx_fail(err, RLX_EEXIST, "region '%s' is registered already; unregister it "
			      "first", place->name);
	else
		st = add(g, fd, owner, quota, err);
	pthread_mutex_unlock(&lock);
	close(fd);
	if (st)
		rlx_free(g);
	return st;
}

bool region_unregister(const struct region_owner *owner, const char *name)
{
	struct region *g;
	unsigned int i;

	pthread_mutex_lock(&lock);
	g = name ? find(owner, name) : NULL;
	if (g)
		take_out(g);
	for (i = 0; !name && i < atomic_load(&slots_used); i++)
		if (regions[i] && is_of(regions[i], owner))
			take_out(regions[i]);
	pthread_mutex_unlock(&lock);
	return g || !name;
}

void region_prune(bool (*stays)(void *ctx, const char *key), void *ctx)
{
	unsigned int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < atomic_load(&slots_used); i++)
		if (regions[i] && !(stays && stays(ctx, regions[i]->owner_key)))
			take_out(regions[i]);
	pthread_mutex_unlock(&lock);
}

struct region *region_get(const struct region_owner *owner, const char *name)
{
	struct region *g;

	pthread_mutex_lock(&lock);
	g = find(owner, name);
	if (g)
		atomic_fetch_add(&g->refs, 1);
	pthread_mutex_unlock(&lock);
	return g;
}

void *region_at(struct region *g, uint64_t offset, uint64_t n)
{
	if (offset > g->bytes || n > g->bytes - offset)
		return NULL;
	return (char *)rlx_arena_base(g->arena) + g->offset + offset;
}

bool region_is_torn(const struct region *g)
{
	return atomic_load(&mapped[g->slot].torn);
}

bool region_status(const struct region_owner *owner, const char *name, struct obuf *o)
{
	unsigned int i, n = 0;

	obuf_str(o, "[");
	pthread_mutex_lock(&lock);
	for (i = 0; i < atomic_load(&slots_used); i++) {
		const struct region *g = regions[i];

		if (!g || !is_of(g, owner) || (name && strcmp(g->name, name)))
			continue;
		obuf_str(o, n++ ? ",{\"name\":" : "{\"name\":");
		obuf_json(o, g->name, strlen(g->name));
		obuf_str(o, ",\"key\":");
		obuf_json(o, g->key, strlen(g->key));
		obuf_fmt(o, ",\"offset\":%llu,\"byte_size\":%llu}", (unsigned long long)g->offset,
			 (unsigned long long)g->bytes);
	}
	pthread_mutex_unlock(&lock);
	obuf_str(o, "]");
	return n || !name;
}
