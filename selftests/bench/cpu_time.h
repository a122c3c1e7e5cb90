/* SPDX-License-Identifier: MIT */
/* The clock of benchmarks of one thread. */
#ifndef RLX_BENCH_CPU_TIME_H
#define RLX_BENCH_CPU_TIME_H

#include <time.h>

/* Seconds this thread spent on a CPU: others on the machine count less. */
static inline double cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
