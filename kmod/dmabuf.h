/* SPDX-License-Identifier: GPL-2.0-only */
/* Ranges of arenas as dma-bufs. */
#ifndef RLX_DMABUF_H
#define RLX_DMABUF_H

#include <linux/dma-direction.h>
#include <linux/rlx.h>

struct rlx_call;

/* Of what the CPU does: RLX_R, RLX_W or both. */
static inline enum dma_data_direction rlx_sync_direction(u32 access)
{
	if (access == RLX_R)
		return DMA_FROM_DEVICE;
	return access == RLX_W ? DMA_TO_DEVICE : DMA_BIDIRECTIONAL;
}

/* RLX_IOC_ARENA_EXPORT and RLX_IOC_ARENA_SYNC, on an arena. */
long rlx_dmabuf_ioctl_export(struct rlx_call *call);
long rlx_dmabuf_ioctl_sync(struct rlx_call *call);

#endif
