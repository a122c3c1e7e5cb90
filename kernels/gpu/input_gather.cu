// SPDX-License-Identifier: MIT
// A block for each small input: once over the bus, however many kernels read it.
#include "kernels/gpu/move.h"
#include "kernels/gpu/input_gather.h"

RLX_G_KERNEL(input_gather, struct rlx_g_input_gather, 256)
{
	struct rlx_g_piece p = ((const struct rlx_g_piece *)(env.table + a.at))[blockIdx.x];
	int64_t words = (int64_t)(p.bytes / 16), i;

	if (!p.from)
		return;
	/* buffers begin at 64 bytes; what stands behind the last word goes alone */
	for (i = threadIdx.x; i < words; i += 256)
		((struct word16 *)p.to)[i] = ((const struct word16 *)p.from)[i];
	for (i = words * 16 + threadIdx.x; i < (int64_t)p.bytes; i += 256)
		((uint8_t *)p.to)[i] = ((const uint8_t *)p.from)[i];
}
