/* SPDX-License-Identifier: MIT */
/* An expression of elementwise.def, emitted as ops of a graph. */
#ifndef RLX_OPS_EW_EXPR_H
#define RLX_OPS_EW_EXPR_H

#include "rlx/graph.h"

struct ew_vars {
	rlx_value x, y, a, b, cond;
};

/* Constants take the dtype of the first variable that is set. Errors stick to @g. */
rlx_value ew_expr_emit(struct rlx_graph *g, const char *text,
		       const struct ew_vars *vars);
/*
 * @by times the expression. Branches of sel() at its root are multiplied one by one, and 0 and
 * 1 not at all, so that inf in @by is no NaN where the expression says 0. None if it is 0.
 */
rlx_value ew_expr_times(struct rlx_graph *g, const char *text, const struct ew_vars *vars,
			rlx_value by);

#endif
