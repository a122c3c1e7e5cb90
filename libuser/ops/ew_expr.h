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

#endif
