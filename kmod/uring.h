/* SPDX-License-Identifier: GPL-2.0-only */
/* The io_uring front end: the same calls as the ioctls, and parking. */
#ifndef RLX_URING_H
#define RLX_URING_H

#include <linux/types.h>

struct io_uring_cmd;
struct rlx_executor;
struct rlx_fetcher;

/* ->uring_cmd of the two kinds of file. */
int rlx_channel_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags);
int rlx_executor_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags);

/* Names the request that @cmd is parked at; before the slot is published. */
void rlx_uring_parked(struct io_uring_cmd *cmd, u32 tag, u64 seq);
/* The claimed @cmd ends with @result. Any context. */
void rlx_uring_answer(struct io_uring_cmd *cmd, s32 result, u64 aux);
/* The claimed fetcher looks at its queue again, in its task. Any context. */
void rlx_uring_wake(struct rlx_fetcher *f);
/*
 * All parked fetchers of @ex look whether their task is still alive; those of dead
 * ones end. Process context; under svc->lock, or no locks.
 */
void rlx_uring_muster(struct rlx_executor *ex);

#endif
