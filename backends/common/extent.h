/* SPDX-License-Identifier: MIT */
/* How much of each value an active extent leaves to do, for every backend. */
#ifndef RLX_BACKENDS_EXTENT_H
#define RLX_BACKENDS_EXTENT_H

#include "plan/plan.h"
#include "rlx/backend.h"

/* Of the plan's values, by their roots: do the first rows of @upper hold all data? */
void rlx_extent_find(const struct rlx_plan *p, int64_t upper, uint8_t *lead);

/* Of @n rows (elements, bytes) of value @v, those that carry data; @n if it does not lead. */
uint64_t rlx_extent_of(const struct rlx_exec *e, const uint8_t *lead, uint32_t v, uint64_t n);

#endif
