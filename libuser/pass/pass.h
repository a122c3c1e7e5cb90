/* SPDX-License-Identifier: MIT */
/*
 * Passes: each builds a new graph out of a finished one. The driver verifies
 * after each and prints, round-trips and dumps as asked; a pass file holds one
 * algorithm and nothing of that.
 */
#ifndef RLX_PASS_PASS_H
#define RLX_PASS_PASS_H

#include "ir/graph.h"
#include "pass/rewrite.h"
#include "rlx/backend.h"

struct rlx_pass_ctx {
	struct rlx_target	 target;
	enum rlx_precision	 precision;
	uint32_t		 flags;		/* enum rlx_compile_flags */
	struct rlx_error	*err;
	FILE			*report;	/* lines on what was fused; may be NULL */
	bool			 no_memory;	/* to ask the target: the pass fails for it */
};

/*
 * Give *@out the rewritten graph (one reference, finished), or leave it NULL if
 * there is nothing to change.
 */
typedef enum rlx_status rlx_pass_fn(struct rlx_pass_ctx *c, struct rlx_graph *g,
				    struct rlx_graph **out);

/* All passes in order (passes.def). @g keeps its reference. */
enum rlx_status rlx_passes_run(struct rlx_pass_ctx *c,
			       const struct rlx_compile_opts *opts,
			       struct rlx_graph *g, struct rlx_graph **out);

/*
 * experts.c: the indices that node @n chooses matrices by, in the shape they were made in; 0: it
 * is no product that chooses. Products of one choice are one layer's.
 */
uint32_t rlx_expert_choice(const struct rlx_graph *g, const struct rlx_node *n);

#endif
