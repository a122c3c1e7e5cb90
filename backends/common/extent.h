/* SPDX-License-Identifier: MIT */
/* How much of each value an active extent leaves to do, for every backend. */
#ifndef RLX_BACKENDS_EXTENT_H
#define RLX_BACKENDS_EXTENT_H

#include "backends/common/lower.h"
#include "plan/plan.h"
#include "rlx/backend.h"

/* Of the plan's values, by their roots: do the first rows of @upper hold all data? */
void rlx_extent_find(const struct rlx_plan *p, int64_t upper, uint8_t *lead);

/* What an exec keeps of the extent of its last run. @leads: of rlx_extent_find(). */
struct rlx_extent {
	uint8_t	*leads;		/* per value of the plan */
	int64_t	 leads_of;	/* the upper that they are of; 0: none */
	int64_t	 rows, upper;
};

/* For the run to come, whose extent may be another; true: it is. */
bool rlx_extent_changes(const struct rlx_exec *e, struct rlx_extent *x);

/* Of @n rows (elements, bytes) of value @v, those that carry data; @n if it does not lead. */
uint64_t rlx_extent_of(const struct rlx_exec *e, const uint8_t *lead, uint32_t v, uint64_t n);

/*
 * The inputs of a step, as a mask, whose rows are one by one those that it looks at, and
 * checks: if one of them leads, the rows behind carry no data. @out: so are output 0's,
 * row by row; @across: not, and the step is not one of fewer rows. False: it checks none.
 */
struct rlx_aligned_rows {
	uint32_t	in;
	bool		out, across;
};
bool rlx_extent_aligned(const struct rlx_plan *p, const struct rlx_plan_step *st,
			struct rlx_aligned_rows *out);

/* Leave rows without data out of the tensors of such a step. */
void rlx_extent_cut(const struct rlx_exec *e, const uint8_t *lead,
		    const struct rlx_plan_step *st, struct rlx_tensor *in, struct rlx_tensor *out);

/* Of what a call checks one by one: how many carry data. */
int64_t rlx_extent_checked(const struct rlx_exec *e, const uint8_t *lead,
			   const struct rlx_checked *c);

#endif
