// SPDX-License-Identifier: MIT
/* An op of the tests' own: what it needs to be emitted, evaluated and differentiated. */
#include <stddef.h>

#include "ir/element.h"
#include "ir/eval.h"
#include "selftests/lib/host_op.h"

struct args {
	rlx_value	x;
};

static enum rlx_status infer(struct rlx_infer *q)
{
	q->out[0] = *q->in[0];
	return RLX_OK;
}

static enum rlx_status eval(struct rlx_eval *q)
{
	int64_t n = rlx_type_count(&q->out[0].type), i;

	for (i = 0; i < n; i++)
		el_copy(&q->out[0], i, &q->in[0], i);
	return RLX_OK;
}

static enum rlx_status vjp(struct rlx_grad *q)
{
	q->d_in[0] = q->d_out[0];
	return RLX_OK;
}

rlx_value host_op(struct rlx_graph *g, rlx_value x)
{
	static const struct rlx_field field[] = {
		{ "x", offsetof(struct args, x), .role = RLX_FIELD_IN },
		{ NULL, sizeof(struct args) },
	};
	static const struct rlx_op_impl impl = { .infer = infer, .eval = eval, .vjp = vjp };
	/* backends look kernels up by the index: that of an op which has none, but is expanded */
	static const struct rlx_op_def def = {
		.name = "on_host", .doc = "a copy", .traits = RLX_T_MOVE,
		.index = RLX_OP_axial_rope, .args_size = sizeof(struct args), .n_fixed = 1,
		.field = field, .n_field = 1, .impl = &impl,
	};
	static const struct rlx_op_ref ref = { &def };

	return rlx_emit_raw(g, &ref, &(struct args){ x }, sizeof(struct args), __FILE__, __LINE__);
}
