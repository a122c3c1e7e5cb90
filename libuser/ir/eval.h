/* SPDX-License-Identifier: MIT */
/* Reference evaluation of a graph; rlx_op_eval() of one op is in ir/opdef.h. */
#ifndef RLX_IR_EVAL_H
#define RLX_IR_EVAL_H

#include "ir/opdef.h"

/*
 * @in in order of the graph's inputs; @out in order of its outputs, data
 * allocated by the caller. Slow and plain: for folding, tests, host fallback and
 * sub-graphs. A finished graph without params.
 */
enum rlx_status rlx_graph_eval(const struct rlx_graph *g,
			       const struct rlx_tensor *in,
			       struct rlx_tensor *out, struct rlx_error *err);

#endif
