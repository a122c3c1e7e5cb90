/* SPDX-License-Identifier: MIT */
/*
 * The one seam through which the library takes heap memory, so that tests can
 * make the n-th allocation fail and count allocations during a run.
 */
#ifndef RLX_BASE_ALLOC_H
#define RLX_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *rlx_malloc(size_t size);			/* NULL on failure, also for 0 */
void *rlx_calloc(size_t n, size_t size);	/* zeroed, overflow-checked */
void *rlx_realloc(void *p, size_t size);	/* @p is kept on failure */
void *rlx_aligned(size_t align, size_t size);	/* freed with rlx_free() */
char *rlx_strdup(const char *s);
char *rlx_strndup(const char *s, size_t n);
void *rlx_memdup(const void *p, size_t size);	/* size 0 gives a 1-byte block */
void rlx_free(void *p);				/* NULL is fine */

/*
 * Grow @p (elements of @size bytes, @cap of them) to hold at least @need.
 * Doubles, so appending is amortised O(1). False on failure: nothing changed.
 */
bool rlx_grow(void *p, uint32_t *cap, uint32_t need, size_t size);

/* False on overflow; *@out is then undefined. */
static inline bool rlx_mul(size_t a, size_t b, size_t *out)
{
	return !__builtin_mul_overflow(a, b, out);
}

static inline bool rlx_add(size_t a, size_t b, size_t *out)
{
	return !__builtin_add_overflow(a, b, out);
}

/* @a times @b, or UINT64_MAX if that is more: a size that nobody has is refused, not wrapped. */
static inline uint64_t rlx_times(uint64_t a, uint64_t b)
{
	uint64_t n;

	return __builtin_mul_overflow(a, b, &n) ? UINT64_MAX : n;
}

/* What all tensors and tables begin at a multiple of: a cache line, the widest vector. */
static inline uint64_t rlx_align64(uint64_t n)
{
	return (n + 63) & ~(uint64_t)63;
}

/* Test hooks: fail the @n-th allocation from now (1 is the next), 0 turns off. */
void rlx_alloc_fail_nth(uint64_t n);
uint64_t rlx_alloc_count(void);		/* allocations so far, all threads */
int64_t rlx_alloc_live(void);		/* blocks not yet freed, all threads */

#endif
