// SPDX-License-Identifier: MIT
/* Max pooling of unsigned 64-bit integers. */
#define PT		uint64_t
#define PT_LANE		int64_t
#define PT_LEAST	0
#include "kernels/cpu/pool_plain.h"

rlx_k_fn RLX_K(pool_u64);

void RLX_K(pool_u64)(const void *args, size_t begin, size_t end, void *scratch)
{
	pool_plain(args, begin, end, scratch);
}
