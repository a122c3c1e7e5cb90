// SPDX-License-Identifier: MIT
// Attention: RLX_K0 0 a query at a time, 1 by tensor cores.
#if RLX_K0 == 0
#include "kernels/gpu/attention_row.h"
#else
#include "kernels/gpu/attention_mma.h"
#endif
