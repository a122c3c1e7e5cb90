/* SPDX-License-Identifier: MIT */
/*
 * What max_memory allows: one budget for bodies, what is read out of them, results and
 * replies. A request has an account of it, so that nothing that was charged outlives the
 * request. Any thread.
 */
#ifndef RLXD_BUDGET_H
#define RLXD_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget {
	_Atomic(uint64_t)	used;
	uint64_t		max;
};

struct account {
	struct budget		*budget;	/* NULL: anything is allowed */
	_Atomic(uint64_t)	 bytes;		/* charged and not given back */
};

/*
 * Charge @n bytes that are about to be allocated. False: there are none. An eighth of the
 * budget is for requests that have little, so that they go on beside those that fill it.
 */
bool account_take(struct account *a, uint64_t n);
/* Could they ever be charged, if nothing else were held? */
bool account_fits(const struct account *a, uint64_t n);
/* Charge them in any case: for what is small, and needed to say what went wrong. */
void account_force(struct account *a, uint64_t n);
void account_give(struct account *a, uint64_t n);
/* Give back all of it. */
void account_close(struct account *a);

/* From base/alloc.h, charged before; NULL: neither memory nor a charge. */
void *account_alloc(struct account *a, size_t n, size_t size);
void *account_memdup(struct account *a, const void *p, size_t n);

#endif
