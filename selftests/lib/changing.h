/* SPDX-License-Identifier: MIT */
/* Inputs that somebody else writes while programs read them. */
#ifndef SELFTESTS_CHANGING_H
#define SELFTESTS_CHANGING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * @n words that a thread sets to one of two values after the other, between begin and end; they
 * stay as they are for @pause_ns.
 */
struct changing {
	_Atomic uint32_t	*at;
	uint32_t		n, value[2];
	uint64_t		pause_ns;
	atomic_bool		over;
	pthread_t		thread;
};

void changing_begin(struct changing *c);
void changing_end(struct changing *c);

/*
 * Runs a grouped GEMM on @device whose indices lie in an arena and change all the time: each row of
 * the result is some expert's, and none shows what lay there. @output: the indices are an output of
 * the program, which changes, instead of an input.
 */
void changing_indices(const char *device, bool output, int runs);

#endif
