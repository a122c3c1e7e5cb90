// SPDX-License-Identifier: MIT
/* Checks of the sub-graphs that control flow calls. */
#include "ops/subgraph.h"

enum rlx_status sub_infer(struct rlx_infer *q, const struct rlx_graph *g,
			  const char *what, uint32_t n)
{
	if (!g)
		return op_fail(q, RLX_EINVAL, "%s is missing", what);
	if (!g->finished)
		return op_fail(q, RLX_EINVAL, "%s is not finished: call rlx_graph_finish()",
			       what);
	if (rlx_graph_io_count(g, RLX_IO_PARAM))
		return op_fail(q, RLX_EINVAL,
			       "%s has params; pass weights in as captured inputs", what);
	if (sub_inputs(g) != n)
		return op_fail(q, RLX_EINVAL, "%s takes %u inputs, %u are given", what,
			       sub_inputs(g), n);
	if (sub_outputs(g) > RLX_MAX_OUT)
		return op_fail(q, RLX_ENOSUP, "%s has %u outputs, at most %d are taken",
			       what, sub_outputs(g), RLX_MAX_OUT);
	return RLX_OK;
}

enum rlx_status sub_need_type(struct rlx_infer *q, const struct rlx_graph *g,
			      enum rlx_io io, uint32_t i, const struct rlx_type *t,
			      const char *what)
{
	char have[96], need[96];

	if (rlx_type_equal(sub_type(g, io, i), t))
		return RLX_OK;
	rlx_type_print(sub_type(g, io, i), have, sizeof(have));
	rlx_type_print(t, need, sizeof(need));
	return op_fail(q, sub_type(g, io, i)->dtype != t->dtype ? RLX_ETYPE : RLX_ESHAPE,
		       "%s %u of %s is %s, %s is needed",
		       io == RLX_IO_INPUT ? "input" : "output", i, what, have, need);
}
