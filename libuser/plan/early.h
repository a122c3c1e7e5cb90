/* SPDX-License-Identifier: MIT */
/*
 * Nodes that come before where they stand: sums over ranks, which others are waited for in, as
 * soon as what they sum is there. On a GPU what stands behind them runs meanwhile.
 */
#ifndef RLX_PLAN_EARLY_H
#define RLX_PLAN_EARLY_H

#include "ir/graph.h"

/*
 * @is: per node, does it come early; @after: per node, the first that comes right after it, plus
 * 1; @next: of an early one, the next after the same node, plus 1. All NULL: there are none.
 */
struct rlx_early {
	bool		*is;
	uint32_t	*after, *next;
};

/* @late: nodes that stay behind all others. False: out of memory. */
bool rlx_early_find(struct rlx_early *e, const struct rlx_graph *g, const bool *live,
		    const bool *late);
void rlx_early_free(struct rlx_early *e);

#endif
