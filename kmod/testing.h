/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Places where a test makes a call stop, to kill or race it there, and what it may
 * know of the slot machine. Only in builds with RLX_TESTING=1, which are never
 * packaged; nothing else.
 */
#ifndef RLX_TESTING_H
#define RLX_TESTING_H

#ifdef RLX_TESTING
#include <linux/jump_label.h>

/**
 * rlx_stall - stop here while the parameter stall_at is @where.
 *
 * Until the parameter changes or the task is killed. The parameter stalled
 * counts those who wait. Process context, no spinlock held.
 */
void rlx_stall(const char *where);

/* Where a service begins to number its channels: the last number is soon reached. */
u32 rlx_first_channel(void);

DECLARE_STATIC_KEY_FALSE(rlx_seeing);
void rlx_seen_count(unsigned int state, unsigned int event);

/**
 * rlx_seen - an event happens to a slot in a state.
 *
 * The parameter seen tells which have, once it was set to 1; until then this is a
 * NOP, for figures are taken with these builds too. Any context.
 */
static inline void rlx_seen(unsigned int state, unsigned int event)
{
	if (static_branch_unlikely(&rlx_seeing))
		rlx_seen_count(state, event);
}
#else
static inline void rlx_stall(const char *where) { }
static inline u32 rlx_first_channel(void) { return 1; }
static inline void rlx_seen(unsigned int state, unsigned int event) { }
#endif

#endif
