// SPDX-License-Identifier: MIT
/*
 * Input gather: the first launch of a run brings small inputs from host memory to the device, once
 * over the bus, however many kernels read them.
 *
 * A block of 256 threads a piece (an input): 16 bytes a thread at a time, what is behind the last
 * whole word by bytes. Which pieces there are stands in the table of addresses, so a captured
 * graph serves runs on other buffers; an address of 0 is an input that came another way.
 * Traffic: each byte is read once over the bus and written once. What counts is the bus's latency:
 * all blocks wait at the same time.
 * Limits: inputs in registered memory that the device can map, of up to 64 KiB
 * (GPU_MOST_MAPPED); pieces begin at multiples of 16 bytes. Others are staged by DMA (take_buffer()
 * in backends/gpu/exec.c).
 */
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
