/* SPDX-License-Identifier: MIT */
/* An index read from a tensor, checked before it is followed. Not a kernel family. */
#ifndef RLX_CPU_INDEX_AT_H
#define RLX_CPU_INDEX_AT_H

#include "kernels/type.h"

/* Element @i of what is i64, i32 or u32. */
static inline int64_t rlx_k_index(const void *idx, int type, size_t i)
{
	return type == RLX_I64 ? ((const int64_t *)idx)[i] :
	       type == RLX_I32 ? ((const int32_t *)idx)[i] :
				 (int64_t)((const uint32_t *)idx)[i];
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
