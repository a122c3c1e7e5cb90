/* SPDX-License-Identifier: GPL-2.0-only */
/* Ranges of arenas as fixed buffers of io_uring rings. */
#ifndef RLX_BUFFER_H
#define RLX_BUFFER_H

struct io_uring_cmd;

/* ->uring_cmd of arenas: RLX_IOC_BUFFER_REGISTER and RLX_IOC_BUFFER_UNREGISTER. */
int rlx_arena_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags);

#endif
