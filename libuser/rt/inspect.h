/* SPDX-License-Identifier: MIT */
/* What inspect.c and inside.c share: the values of a run, and those found in bodies. */
#ifndef RLX_RT_INSPECT_H
#define RLX_RT_INSPECT_H

#include "base/bump.h"
#include "ir/graph.h"
#include "rlx/inspect.h"
#include "rt/rt.h"

/* A value of graph @g, a body, as iteration @iteration of its op computed it. */
struct rlx_inner {
	struct rlx_inner	*next;
	const struct rlx_graph	*g;
	int64_t			 iteration;
	struct rlx_inspected	 v;
};

struct rlx_inspection {
	struct rlx_program		 *of;		/* has the graph, its names and constants */
	struct rlx_session		 *s;		/* ran with all values as outputs */
	struct rlx_inspected		 *v;		/* by value id, [0] is unused */
	uint32_t			  n;
	const struct rlx_inspected	**in;
	void				**state;	/* what states held; by their index */
	unsigned int			  n_state;
	struct rlx_bump			  bump;		/* has @inner and what is theirs */
	struct rlx_inner		 *inner;
};

/* What is known of value @id without its elements; inputs are not set. */
struct rlx_inspected rlx_inspected_of(const struct rlx_graph *g, uint32_t id);
/* Count its elements; @v begins as rlx_inspected_of() gives it. */
void rlx_inspected_look(struct rlx_inspected *v);

static inline bool rlx_inspected_is_bad(const struct rlx_inspected *v, uint32_t flags)
{
	return v->nan || (flags & RLX_INSPECT_INF && v->inf);
}

#endif
