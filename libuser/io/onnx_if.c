// SPDX-License-Identifier: MIT
/* If: one branch is imported in place; the import waits for the condition. */
#include "io/onnx_handlers.h"

enum rlx_status onnx_if(struct onnx_op *q)
{
	const struct onnx_graph *then_g = onnx_attr_graph(q, "then_branch");
	const struct onnx_graph *else_g = onnx_attr_graph(q, "else_branch");
	enum rlx_status st;
	int64_t cond;

	if (!then_g || !else_g || !onnx_given(q, 0))
		return op_err(q, RLX_EPARSE, "a branch or the condition is "
			      "missing");
	st = onnx_int(q, 0, 0, &cond);
	if (st)
		return st;
	return onnx_inline(q, cond ? then_g : else_g, (struct onnx_vals){ 0 },
			   (struct onnx_vals){ q->out, q->n_out }, false);
}
