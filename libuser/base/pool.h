/* SPDX-License-Identifier: MIT */
/*
 * A thread pool for steps of some microseconds. Workers spin between the steps
 * of one run and sleep between runs: waking a sleeping CPU costs tens of
 * microseconds, handing a step to a spinning one a tenth of one.
 *
 *	rlx_pool_begin(pool);
 *	for (each step)
 *		rlx_pool_run(pool, fn, ctx, rows, 16);
 *	rlx_pool_end(pool);
 *
 * Workers are help, never needed: whatever they do not take, the caller does.
 * So a pool that is busy with another thread, a nested call, the child of a
 * fork() and a NULL pool all mean: the caller does it alone, in place.
 */
#ifndef RLX_BASE_POOL_H
#define RLX_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "rlx/status.h"

struct rlx_pool;

/*
 * Do units [begin, end). @worker is below rlx_pool_size() and, within one
 * rlx_pool_run(), never given to two threads at once: an index for scratch.
 */
typedef void (*rlx_pool_fn)(void *ctx, uint64_t begin, uint64_t end,
			    unsigned int worker);

/*
 * @threads counts the caller; 0 takes RLX_WORKERS, else the CPUs allowed by
 * affinity and cgroup quota. Fails with RLX_EINVAL (over 1024, RLX_WORKERS no
 * number) or RLX_ENOMEM (memory or threads ran out).
 */
enum rlx_status rlx_pool_new(unsigned int threads, struct rlx_pool **out,
			     struct rlx_error *err);
/* No run may be under way. Joins the workers. NULL is fine. */
void rlx_pool_free(struct rlx_pool *p);

unsigned int rlx_pool_size(const struct rlx_pool *p);	/* NULL: 1 */

/*
 * Call @fn for all units in chunks of @grain, beginning at multiples of it
 * whoever does them, and return when all are done. Chunks are handed out one by
 * one, so uneven ones balance. @grain 0 takes about four chunks per thread, one
 * of a single thread: the bounds then depend on the pool's size. Allocates
 * nothing, takes no lock.
 */
void rlx_pool_run(struct rlx_pool *p, rlx_pool_fn fn, void *ctx,
		  uint64_t units, uint64_t grain);

/*
 * Between begin and end the pool is the calling thread's, and its workers stay
 * awake (for half a millisecond after each step; then they sleep too and the
 * next step wakes them). May nest. Begin returns false if another thread has
 * the pool: runs then go inline, and end must be called all the same.
 */
bool rlx_pool_begin(struct rlx_pool *p);
void rlx_pool_end(struct rlx_pool *p);

#endif
