// SPDX-License-Identifier: MIT
/* Counts of the whole process: copies made, arenas alive. */
#include "mem/arena.h"

static _Atomic uint64_t copied, copies, arenas, mapped, pinned, made;

void rlx_stat_copied(uint64_t bytes)
{
	atomic_fetch_add_explicit(&copied, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&copies, 1, memory_order_relaxed);
}

void rlx_stat_arena(int64_t n, int64_t map, int64_t pin)
{
	/* Unsigned wrap-around makes adding a negative number a subtraction. */
	atomic_fetch_add_explicit(&arenas, (uint64_t)n, memory_order_relaxed);
	atomic_fetch_add_explicit(&mapped, (uint64_t)map, memory_order_relaxed);
	atomic_fetch_add_explicit(&pinned, (uint64_t)pin, memory_order_relaxed);
	if (n > 0)
		atomic_fetch_add_explicit(&made, (uint64_t)n,
					  memory_order_relaxed);
}

void rlx_stats_read(struct rlx_stats *out)
{
	if (!out)
		return;
	*out = (struct rlx_stats){
		.bytes_copied = atomic_load(&copied),
		.copies = atomic_load(&copies),
		.arenas = atomic_load(&arenas),
		.bytes_mapped = atomic_load(&mapped),
		.bytes_pinned = atomic_load(&pinned),
		.arenas_made = atomic_load(&made),
	};
}
