/* SPDX-License-Identifier: MIT */
/*
 * Threads that do what would hold up a loop. Runs of models come first, and always find a
 * thread: two at most read requests, in turn between clients, and one at most a long one.
 */
#ifndef RLXD_WORKER_POOL_H
#define RLXD_WORKER_POOL_H

#include <stddef.h>

#include "rlx/status.h"
#include "tools/rlxd/read_queue.h"

struct worker_pool;

enum { WORKER_POOL_READERS = 2, WORKER_POOL_SLICE_NS = 5000000 };

struct task {
	void		(*fn)(struct task *t);
	struct task	*next;
	/* Of what is read: whose it is, which stays while it is there; the rest is the queue's. */
	struct read_share *share;
	struct task	*child;
	uint64_t	 cost, tag;
	enum read_size	 size;
};

enum rlx_status __rlx_must_check worker_pool_open(unsigned int threads, struct worker_pool **out,
						  struct rlx_error *err);
/*
 * So that there are at least @threads: WORKER_POOL_READERS and one for each replica,
 * the extra ones of models included.
 */
enum rlx_status __rlx_must_check worker_pool_grow(struct worker_pool *c, unsigned int threads,
						  struct rlx_error *err);
void worker_pool_post(struct worker_pool *c, struct task *t);
/*
 * Likewise, of a request of t->share and of @bytes, whose reading begins. One that takes long
 * is to stop after WORKER_POOL_SLICE_NS and post itself once more, for others to have their turn.
 */
void worker_pool_post_read(struct worker_pool *c, struct task *t, size_t bytes);
void worker_pool_post_rest(struct worker_pool *c, struct task *t);
/* Does what is posted, then ends the threads. NULL is fine. */
void worker_pool_close(struct worker_pool *c);

#endif
