/* SPDX-License-Identifier: GPL-2.0-only */
/* Ranges of arenas as dma-bufs. */
#ifndef RLX_DMABUF_H
#define RLX_DMABUF_H

struct rlx_call;

/* RLX_IOC_ARENA_EXPORT and RLX_IOC_ARENA_SYNC, on an arena. */
long rlx_dmabuf_ioctl_export(struct rlx_call *call);
long rlx_dmabuf_ioctl_sync(struct rlx_call *call);

#endif
