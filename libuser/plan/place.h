/* SPDX-License-Identifier: MIT */
/* Places in the workspace: given once it is known what runs, and in which order. */
#ifndef RLX_PLAN_PLACE_H
#define RLX_PLAN_PLACE_H

#include "base/log.h"
#include "plan/plan.h"

/* What runs at position @at of an order uses the storage of value @val. */
struct rlx_use {
	uint32_t	at, val;
};

/* By ascending positions. Begins as zeros; @use is freed with rlx_free(). */
struct rlx_uses {
	struct rlx_use	*use;
	uint32_t	 n, cap;
};

/* False: out of memory. */
bool rlx_uses_add(struct rlx_uses *u, uint32_t at, uint32_t val);

/* Most streams of a program. */
enum { RLX_STREAMS = 4 };

/*
 * What runs before what, where streams run side by side. Per position:
 * @stream: where it runs
 * @section: the first one of those it may run beside; what is before that has ended
 * @ended: how many of each stream (1 + the last one's position) have, once it has itself
 */
struct rlx_order {
	uint8_t		*stream;
	uint32_t	*section;
	uint32_t	(*ended)[RLX_STREAMS];
};

/* Has @a ended when @b begins? */
static inline bool rlx_runs_before(const struct rlx_order *o, uint32_t a, uint32_t b)
{
	return a < b && (a < o->section[b] || o->ended[b][o->stream[a]] > a);
}

/*
 * Give storage in the workspace that is used its place: two values share bytes only if all
 * uses of one run before the first use of the other, and neither is kept from run to run.
 * @o NULL: they run in ascending order.
 * Sets work_bytes and naive_bytes. May be called again, for another order.
 * Context: allocates. O(n log n) in one stream, else O(n^2).
 * Errors: RLX_ENOMEM, also for over 2^64 bytes. With RLX_DEBUG=plan rlx_plan_check()'s.
 */
enum rlx_status rlx_plan_place(struct rlx_plan *p, const struct rlx_uses *u,
			       const struct rlx_order *o, struct rlx_error *err);
/* For steps that run as they are, one after the other. */
enum rlx_status rlx_plan_place_steps(struct rlx_plan *p, struct rlx_error *err);

/* RLX_EBUG if two values share bytes that both use, or one lies beyond the workspace. */
enum rlx_status rlx_plan_check(const struct rlx_plan *p, const struct rlx_uses *u,
			       const struct rlx_order *o, struct rlx_error *err);

#endif
