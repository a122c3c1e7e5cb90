/* SPDX-License-Identifier: MIT */
/* An index read from a tensor, checked before it is followed. Not a kernel family. */
#ifndef RLX_CPU_INDEX_AT_H
#define RLX_CPU_INDEX_AT_H

#include "kernels/type.h"

#define RLX_K_ONCE(T, p, i)	((int64_t)__atomic_load_n((const T *)(p) + (i), __ATOMIC_RELAXED))

/*
 * Element @i of what is i64, i32 or u32, read once: where a client of a channel writes meanwhile
 * it may be another one for who reads it again, and what is checked must be what is used.
 */
static inline int64_t rlx_k_index(const void *idx, int type, size_t i)
{
	return type == RLX_I64 ? RLX_K_ONCE(int64_t, idx, i) :
	       type == RLX_I32 ? RLX_K_ONCE(int32_t, idx, i) : RLX_K_ONCE(uint32_t, idx, i);
}

/* Such an index as 0 .. dim - 1, or -1 with *bad set, which may be NULL. */
static inline int64_t rlx_k_index_at(const void *idx, int type, size_t i, int64_t dim,
				     int32_t *bad)
{
	int64_t v = rlx_k_index(idx, type, i);

	if (v < 0)
		v += dim;
	if (v >= 0 && v < dim)
		return v;
	if (bad)
		__atomic_store_n(bad, 1, __ATOMIC_RELAXED);
	return -1;
}

#endif
