// SPDX-License-Identifier: MIT
/* Notes where pages of mapped files went, and tells whose they were. */
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/rlxd/truncation_guard.h"

enum { NOTED = 256 };

static atomic_uint users;		/* between begin and end */
static atomic_flag noting = ATOMIC_FLAG_INIT;	/* held by handlers alone: they do not fault */
static atomic_uint n_torn;
static _Atomic(uintptr_t) torn[NOTED];	/* addresses, the latest NOTED of them */

unsigned int truncation_guard_begin(void)
{
	atomic_fetch_add(&users, 1);
	return atomic_load(&n_torn);
}

bool truncation_guard_fault(uintptr_t at)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	if (!atomic_load(&users) ||
	    mmap((void *)(at & ~(page - 1)), page, PROT_READ | PROT_WRITE,
		 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		return false;
	while (atomic_flag_test_and_set(&noting))
		;
	atomic_store(&torn[atomic_load(&n_torn) % NOTED], at);
	atomic_fetch_add(&n_torn, 1);
	atomic_flag_clear(&noting);
	return true;
}

bool truncation_guard_end(unsigned int begin, const struct guarded_range *r, unsigned int n)
{
	unsigned int end = atomic_load(&n_torn), i, k;
	bool ours = end != begin && (!n || end - begin > NOTED);

	atomic_fetch_sub(&users, 1);
	for (i = begin; !ours && i != end; i++)
		for (k = 0; k < n; k++)
			ours |= torn[i % NOTED] >= r[k].begin && torn[i % NOTED] < r[k].end;
	return ours;
}
