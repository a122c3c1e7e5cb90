/* SPDX-License-Identifier: MIT */
/* Graphs drawn by a rig's seed, which all devices compute as the evaluator does. */
#ifndef SELFTESTS_DRAWN_H
#define SELFTESTS_DRAWN_H

#include "selftests/lib/rig.h"

/* Of 0 to @n - 1. */
int64_t drawn_below(struct rig *r, int64_t n);
/* Quarters, which 16 bits hold as well, and sums of few; floats are now and then none. */
rlx_value drawn_input(struct rig *r, struct rlx_type t);

/* $RLX_FUZZ_CASES, if that is set, or @cases. */
unsigned int drawn_cases(unsigned int cases);
/* What @draw puts into a rig, @cases times: equal everywhere; @what names it in a failure. */
void drawn_as_evaluated(const char *what, unsigned int cases, void (*draw)(struct rig *r));

#endif
