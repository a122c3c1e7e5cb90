/* SPDX-License-Identifier: MIT */
/* One side's turn where several are timed in turns. */
#ifndef SELFTESTS_SESSION_TURN_H
#define SELFTESTS_SESSION_TURN_H

#include "base/clock.h"
#include "rlx/run.h"
#include "selftests/lib/rlx_test.h"

/* The fastest run, in nanoseconds, of those that fit into @ns; one at least. */
static inline double session_turn(struct rlx_session *s, uint64_t ns)
{
	uint64_t end = rlx_now() + ns, begin, t, best = UINT64_MAX;

	do {
		begin = rlx_now();
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		t = rlx_now() - begin;
		best = t < best ? t : best;
	} while (rlx_now() < end);
	return (double)best;
}

#endif
