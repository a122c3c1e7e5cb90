/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Places where a test makes a call stop, to kill or race it there. Only in
 * builds with RLX_TESTING=1, which are never packaged; nothing else.
 */
#ifndef RLX_TESTING_H
#define RLX_TESTING_H

#ifdef RLX_TESTING
/**
 * rlx_stall - stop here while the parameter stall_at is @where.
 *
 * Until the parameter changes or the task is killed. The parameter stalled
 * counts those who wait. Process context, no spinlock held.
 */
void rlx_stall(const char *where);
#else
static inline void rlx_stall(const char *where) { }
#endif

#endif
