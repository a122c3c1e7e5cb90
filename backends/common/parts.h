/* SPDX-License-Identifier: MIT */
/*
 * A region that joins parts (libuser/pass/horizontal.c) as kernels walk it: [outer, total, inner],
 * in parts along the middle.
 */
#ifndef RLX_BACKENDS_PARTS_H
#define RLX_BACKENDS_PARTS_H

#include "backends/common/lower.h"
#include "ir/graph.h"
#include "kernels/ew.h"

/* An operand of the chain: one of all parts, or what a concat joins of the parts' own. */
struct rlx_parts_operand {
	uint32_t		value;		/* of the body */
	uint32_t		first;		/* of the step's inputs, one a part if @own */
	uint32_t		own;		/* 1 + which of a part's own; 0: it is shared */
	uint8_t			has;		/* RLX_EW_OUTER and so on */
};

struct rlx_parts {
	const struct rlx_graph		*body;
	const struct rlx_node		*concat;	/* an operand's: all are as long */
	uint32_t			 n, n_operand, n_own;
	int64_t				 outer, total, inner;
	bool				 split;		/* some operand has one of along and inner */
	struct rlx_parts_operand	 operand[RLX_EW_MAX_IN];
};

bool rlx_lower_joins_parts(const struct rlx_graph *body);
/* False: an operand broadcasts otherwise, or there are too many. */
bool rlx_lower_parts(const struct rlx_lower *lo, struct rlx_parts *p);
/* Along the axis. */
int64_t rlx_lower_part_length(const struct rlx_parts *p, uint32_t k);
/* Elements of a part of @length that lie side by side, in what it reads too. */
static inline int64_t rlx_parts_row(const struct rlx_parts *p, int64_t length)
{
	return p->split ? p->inner : length * p->inner;
}

#endif
