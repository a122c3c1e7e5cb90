// SPDX-License-Identifier: MIT
/* Bytes that requests hold, and how many there may be. */
#include <string.h>

#include "base/alloc.h"
#include "tools/rlxd/budget.h"

enum { LITTLE = 256 << 10 };

/* Of all bytes, for whom @n more are charged. */
static uint64_t most_of(const struct account *a, uint64_t n)
{
	uint64_t most = a->budget->max;

	if (n > LITTLE || atomic_load_explicit(&a->bytes, memory_order_relaxed) + n > LITTLE)
		most -= most / 8;
	return most;
}

bool account_fits(const struct account *a, uint64_t n)
{
	return !a->budget || n <= most_of(a, n);
}

bool account_take(struct account *a, uint64_t n)
{
	struct budget *b = a->budget;
	uint64_t used, most;

	if (!b)
		return true;
	most = most_of(a, n);
	used = atomic_load_explicit(&b->used, memory_order_relaxed);
	do
		if (used > most || n > most - used)
			return false;
	while (!atomic_compare_exchange_weak(&b->used, &used, used + n));
	atomic_fetch_add_explicit(&a->bytes, n, memory_order_relaxed);
	return true;
}

void account_force(struct account *a, uint64_t n)
{
	if (!a->budget)
		return;
	atomic_fetch_add(&a->budget->used, n);
	atomic_fetch_add_explicit(&a->bytes, n, memory_order_relaxed);
}

void account_give(struct account *a, uint64_t n)
{
	if (!a->budget)
		return;
	atomic_fetch_sub(&a->budget->used, n);
	atomic_fetch_sub_explicit(&a->bytes, n, memory_order_relaxed);
}

void account_close(struct account *a)
{
	account_give(a, atomic_load(&a->bytes));
}

void *account_alloc(struct account *a, size_t n, size_t size)
{
	size_t bytes;
	void *p;

	if (!rlx_mul(n, size, &bytes) || !account_take(a, bytes))
		return NULL;
	p = rlx_calloc(n, size);
	if (!p)
		account_give(a, bytes);
	return p;
}

void *account_memdup(struct account *a, const void *p, size_t n)
{
	void *to;

	if (!account_take(a, n))
		return NULL;
	to = rlx_memdup(p, n);
	if (!to)
		account_give(a, n);
	return to;
}
