// SPDX-License-Identifier: MIT
// Attention: RLX_K0 0 a query at a time, 1 by tensor cores, 2 by warpgroups, 3 of f32 by
// tiles, 8 to few keys.
#if RLX_K0 == 0
#include "kernels/gpu/attention_split_kv.h"
#elif RLX_K0 == 3
#include "kernels/gpu/attention_f32.h"
#elif RLX_K0 == 8
#include "kernels/gpu/attention_short_kv_kernel.h"
#elif RLX_K0 == 1
#include "kernels/gpu/attention_mma.h"
#else
#include "kernels/gpu/attention_wgmma.h"
#endif
