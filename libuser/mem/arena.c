// SPDX-License-Identifier: MIT
/* Arenas as counted objects, the provider table, and wrapped user memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "mem/arena.h"

#define PROVIDER_ENV	"RLX_ARENA_PROVIDER"

/* In order of preference. */
static const struct rlx_arena_provider *const providers[] = {
	&rlx_arena_kmod,
	&rlx_arena_memfd,
	&rlx_arena_user,
};

enum { N_PROVIDERS = sizeof(providers) / sizeof(providers[0]) };

static struct rlx_arena *arena_alloc(void)
{
	struct rlx_arena *a = rlx_calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	atomic_init(&a->refs, 1);
	a->fd = -1;
	pthread_mutex_init(&a->lock, NULL);
	pthread_mutex_init(&a->space.lock, NULL);
	return a;
}

static void arena_free(struct rlx_arena *a)
{
	rlx_space_fini(&a->space);
	pthread_mutex_destroy(&a->space.lock);
	pthread_mutex_destroy(&a->lock);
	rlx_free(a);
}

static void count(const struct rlx_arena *a, int sign)
{
	bool ours = a->prov != &rlx_arena_user;

	rlx_stat_arena(sign, ours ? sign * (int64_t)a->size : 0,
		       sign * (int64_t)a->locked);
}

static enum rlx_status check_opts(const struct rlx_arena_opts *o,
				  struct rlx_error *err)
{
	const uint32_t known = RLX_ARENA_LAZY | RLX_ARENA_NOLOCK |
			       RLX_ARENA_EXACT;
	unsigned int i;

	if (!o->size)
		return rlx_fail(err, RLX_EINVAL, "arena of size 0");
	if (o->size > INT64_MAX - (1ull << 31))
		return rlx_fail(err, RLX_ERANGE,
				"arena of %llu bytes: more than a file holds",
				(unsigned long long)o->size);
	if (o->flags & ~known)
		return rlx_fail(err, RLX_EINVAL,
				"arena flags 0x%x: LAZY, NOLOCK and EXACT are "
				"what can be asked for here", o->flags);
	if (o->pages > RLX_PAGES_HUGETLB)
		return rlx_fail(err, RLX_EINVAL, "arena pages %u: unknown kind",
				o->pages);
	if (o->name && strnlen(o->name, 201) > 200)
		return rlx_fail(err, RLX_EINVAL,
				"arena name \"%.40s...\" is over 200 bytes",
				o->name);
	for (i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
		if (o->reserved[i])
			return rlx_fail(err, RLX_EINVAL,
					"arena options: reserved[%u] is not 0; "
					"built for a newer library?", i);
	return RLX_OK;
}

/* Give back what a failed new left, so that another may try. */
static void arena_clear(struct rlx_arena *a, const struct rlx_arena_opts *o)
{
	a->base = NULL;
	a->size = a->page = a->locked = 0;
	a->fd = -1;
	a->flags = o->flags;
	a->pages = o->pages;
	a->nodes = o->nodes;
	a->why_pages[0] = a->why_lock[0] = a->why_node[0] = 0;
}

static enum rlx_status new_named(struct rlx_arena *a,
				 const struct rlx_arena_opts *o,
				 const char *name, struct rlx_error *err)
{
	unsigned int i;

	for (i = 0; i < N_PROVIDERS; i++) {
		a->prov = providers[i];
		if (a->prov->new && !strcmp(name, a->prov->name))
			return a->prov->new(a, o, err);
	}
	return rlx_fail(err, RLX_ENOENT,
			"arena provider \"%.40s\": there are kmod and memfd%s",
			name, o->provider ? "" : " (" PROVIDER_ENV " said so)");
}

/* The first provider that suits and can; why_prov tells why not an earlier one. */
static enum rlx_status new_any(struct rlx_arena *a,
			       const struct rlx_arena_opts *o,
			       struct rlx_error *err)
{
	enum rlx_status st = RLX_ENOENT;
	unsigned int i;

	for (i = 0; i < N_PROVIDERS; i++) {
		struct rlx_error why = { 0 };

		a->prov = providers[i];
		if (!a->prov->new || (a->prov->suits &&
				      !a->prov->suits(o, a->why_prov)))
			continue;
		st = a->prov->new(a, o, &why);
		if (!st)
			return RLX_OK;
		if (a->prov == &rlx_arena_memfd)
			return rlx_fail(err, st, "%s", why.text);
		snprintf(a->why_prov, RLX_WHY, "%.*s", RLX_WHY - 1, why.text);
		arena_clear(a, o);
	}
	return rlx_fail(err, st, "arena: no provider of memory");
}

enum rlx_status rlx_arena_new(const struct rlx_arena_opts *opts,
			      struct rlx_arena **out, struct rlx_error *err)
{
	const char *name;
	struct rlx_arena *a;
	enum rlx_status st;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "rlx_arena_new: out is NULL");
	*out = NULL;
	if (!opts)
		return rlx_fail(err, RLX_EINVAL, "rlx_arena_new: opts is NULL");
	st = check_opts(opts, err);
	if (st)
		return st;
	a = arena_alloc();
	if (!a)
		return rlx_fail(err, RLX_ENOMEM, "arena: no memory for it");
	arena_clear(a, opts);
	name = opts->provider ? opts->provider : getenv(PROVIDER_ENV);
	st = name && *name ? new_named(a, opts, name, err)
			   : new_any(a, opts, err);
	if (st) {
		arena_free(a);
		return st;
	}
	count(a, 1);
	*out = a;
	return RLX_OK;
}

enum rlx_status rlx_arena_open_fd(int fd, uint32_t flags,
				  struct rlx_arena **out,
				  struct rlx_error *err)
{
	const uint32_t known = RLX_ARENA_LAZY | RLX_ARENA_NOLOCK |
			       RLX_ARENA_RDONLY | RLX_ARENA_UNSEALED;
	const struct rlx_arena_provider *p = NULL;
	struct rlx_arena *a;
	enum rlx_status st;
	unsigned int i;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "arena open: out is NULL");
	*out = NULL;
	if (flags & ~known)
		return rlx_fail(err, RLX_EINVAL,
				"arena open flags 0x%x: unknown", flags);
	for (i = 0; i < N_PROVIDERS && !p; i++)
		if (providers[i]->claims && providers[i]->claims(fd))
			p = providers[i];
	if (!p)
		return rlx_fail(err, RLX_EBADFD,
				"fd %d is not memory: an arena opens a memfd, "
				"a file on tmpfs or hugetlbfs, or what the "
				"module made", fd);
	a = arena_alloc();
	if (!a)
		return rlx_fail(err, RLX_ENOMEM, "arena: no memory for it");
	a->prov = p;
	a->flags = flags;
	st = p->open(a, fd, err);
	if (st) {
		arena_free(a);
		return st;
	}
	count(a, 1);
	*out = a;
	return RLX_OK;
}

static void user_free(struct rlx_arena *a)
{
	if (a->release)
		a->release(a->ctx, a->base, a->size);
}

/* No new: the memory is somebody's already. */
const struct rlx_arena_provider rlx_arena_user = {
	.name	= "user",
	.free	= user_free,
};

enum rlx_status rlx_arena_wrap(const struct rlx_arena_user *user,
			       struct rlx_arena **out, struct rlx_error *err)
{
	uintptr_t end;
	struct rlx_arena *a;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "arena wrap: out is NULL");
	*out = NULL;
	if (!user || !user->base || !user->size)
		return rlx_fail(err, RLX_EINVAL,
				"arena wrap: no memory given (base NULL or size 0)");
	if (user->flags & ~(uint32_t)RLX_ARENA_RDONLY)
		return rlx_fail(err, RLX_EINVAL,
				"arena wrap flags 0x%x: RDONLY is what can be "
				"asked for", user->flags);
	if (user->size > INT64_MAX ||
	    __builtin_add_overflow((uintptr_t)user->base, user->size, &end))
		return rlx_fail(err, RLX_ERANGE,
				"arena wrap: %p + %llu bytes leaves the "
				"address space", user->base,
				(unsigned long long)user->size);
	a = arena_alloc();
	if (!a)
		return rlx_fail(err, RLX_ENOMEM, "arena: no memory for it");
	a->prov = &rlx_arena_user;
	a->base = user->base;
	a->size = user->size;
	a->page = rlx_page_bytes();
	a->flags = user->flags;
	a->release = user->release;
	a->ctx = user->ctx;
	strcpy(a->why_pages, "the caller's memory: taken as it is");
	strcpy(a->why_lock, "the caller's memory: not locked by us");
	count(a, 1);
	*out = a;
	return RLX_OK;
}

struct rlx_arena *rlx_arena_get(struct rlx_arena *a)
{
	/* Relaxed: the caller holds a reference, so nothing can be freed. */
	if (a)
		atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
	return a;
}

void rlx_arena_put(struct rlx_arena *a)
{
	/* Release our writes to, and acquire the others' from, the last put. */
	if (!a || atomic_fetch_sub_explicit(&a->refs, 1,
					    memory_order_acq_rel) != 1)
		return;
	count(a, -1);
	a->prov->free(a);
	arena_free(a);
}

void *rlx_arena_base(const struct rlx_arena *a)
{
	return a ? a->base : NULL;
}

uint64_t rlx_arena_size(const struct rlx_arena *a)
{
	return a ? a->size : 0;
}

uint32_t rlx_arena_flags(const struct rlx_arena *a)
{
	return a ? atomic_load(&a->flags) : 0;
}

int rlx_arena_fd(const struct rlx_arena *a)
{
	return a ? a->fd : -1;
}
