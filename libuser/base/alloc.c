// SPDX-License-Identifier: MIT
/* Heap memory with a counter and a fail-nth switch. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static _Atomic uint64_t count;
static _Atomic uint64_t fail_at;	/* value of count that fails; 0: none */
static _Atomic int64_t live;

static bool may_fail(void)
{
	uint64_t n = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);

	return n + 1 == atomic_load_explicit(&fail_at, memory_order_relaxed);
}

void rlx_alloc_fail_nth(uint64_t n)
{
	atomic_store(&fail_at, n ? atomic_load(&count) + n : 0);
}

uint64_t rlx_alloc_count(void)
{
	return atomic_load(&count);
}

int64_t rlx_alloc_live(void)
{
	return atomic_load(&live);
}

static void *counted(void *p)
{
	if (p)
		atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
	return p;
}

void *rlx_malloc(size_t size)
{
	return size && !may_fail() ? counted(malloc(size)) : NULL;
}

void *rlx_calloc(size_t n, size_t size)
{
	return n && size && !may_fail() ? counted(calloc(n, size)) : NULL;
}

void *rlx_realloc(void *p, size_t size)
{
	if (!size || may_fail())
		return NULL;
	return p ? realloc(p, size) : counted(malloc(size));
}

void *rlx_aligned(size_t align, size_t size)
{
	void *p;

	if (!size || may_fail() || posix_memalign(&p, align, size))
		return NULL;
	return counted(p);
}

void *rlx_memdup(const void *p, size_t size)
{
	void *d = rlx_malloc(size ? size : 1);

	if (d && size)
		memcpy(d, p, size);
	return d;
}

char *rlx_strndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *d = rlx_malloc(len + 1);

	if (d) {
		memcpy(d, s, len);
		d[len] = 0;
	}
	return d;
}

char *rlx_strdup(const char *s)
{
	return rlx_strndup(s, strlen(s));
}

void rlx_free(void *p)
{
	if (p)
		atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
	free(p);
}

bool rlx_grow(void *p, uint32_t *cap, uint32_t need, size_t size)
{
	void *old, *new;
	uint64_t want = *cap ? *cap : 8;
	size_t bytes;

	if (need <= *cap)
		return true;
	while (want < need)
		want *= 2;
	if (want > UINT32_MAX || !rlx_mul(want, size, &bytes))
		return false;
	memcpy(&old, p, sizeof(old));
	new = rlx_realloc(old, bytes);
	if (!new)
		return false;
	memcpy(p, &new, sizeof(new));
	*cap = (uint32_t)want;
	return true;
}
