/* SPDX-License-Identifier: MIT */
/* The one clock that deadlines and durations are told by. */
#ifndef RLX_BASE_CLOCK_H
#define RLX_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in nanoseconds, as in struct rlx_desc and the headers. */
static inline uint64_t rlx_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
