/* SPDX-License-Identifier: MIT */
/* Inputs that somebody else writes while programs read them. */
#ifndef SELFTESTS_CHANGING_H
#define SELFTESTS_CHANGING_H

#include <stdbool.h>

/*
 * Runs a grouped GEMM on @device whose indices lie in an arena and change all the time: each row of
 * the result is some expert's, and none shows what lay there. @output: the indices are an output of
 * the program, which changes, instead of an input.
 */
void changing_indices(const char *device, bool output, int runs);

#endif
