/* SPDX-License-Identifier: GPL-2.0-only */
/* Sleeping until points of timelines are reached. */
#ifndef RLX_TIMELINE_WAIT_H
#define RLX_TIMELINE_WAIT_H

#include <linux/types.h>

struct io_uring_cmd;
struct rlx_call;
struct rlx_timeline;

/*
 * Sleeps, interruptibly, until @value is reached: 0, the error of a poisoned
 * timeline, -EAGAIN (no deadline, not there), -ETIME, -ERESTARTSYS, -ENOMEM,
 * -ENOSPC. @deadline_ns as in struct rlx_ioc_timeline_wait.
 */
int rlx_timeline_wait_one(struct rlx_timeline *tl, u64 value, u64 deadline_ns);

/* RLX_IOC_TIMELINE_WAIT, on a session. */
long rlx_timeline_ioctl_wait(struct rlx_call *call);

/* ->uring_cmd of timelines (timeline_uring.c): TIMELINE_WAIT_ONE. */
int rlx_timeline_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags);

#endif
