// SPDX-License-Identifier: MIT
/* Max pooling of signed 64-bit integers. */
#define PT		int64_t
#define PT_LANE		int64_t
#define PT_LEAST	INT64_MIN
#include "kernels/cpu/pool_plain.h"

rlx_k_fn RLX_K(pool_i64);

void RLX_K(pool_i64)(const void *args, size_t begin, size_t end, void *scratch)
{
	pool_plain(args, begin, end, scratch);
}
