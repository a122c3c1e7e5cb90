// SPDX-License-Identifier: MIT
/* Leaves: tensors given at each run, set once, or known now. */
#include "ops/op.h"

/*
 * Shapes:	-> a tensor of 'type'
 * Dtypes:	any
 * Does:	made by rlx_input(), or with state by rlx_state(); name is how runs bind it. The
 *		type needs a dtype, a rank up to 8, sizes from 0 on and less than 2^63 bytes.
 * Gradient:	none of its own: gradients may be taken by it
 * Source:	rlx/graph.h
 */
RLX_OP(input, "a tensor given at each run, or a state that runs replace",
	ATTR(str, name)
	ATTR(type, type)
	ATTR(bool, state),
	RLX_T_LEAF)

/*
 * Shapes:	-> a tensor of 'type'
 * Dtypes:	any
 * Does:	made by rlx_param(); name is what weights are set by. The type is as an input's.
 * Gradient:	none of its own: gradients may be taken by it
 * Source:	rlx/graph.h
 */
RLX_OP(param, "a tensor set once: a weight or a state",
	ATTR(str, name)
	ATTR(type, type),
	RLX_T_LEAF)

/*
 * Shapes:	-> a tensor of 'type'
 * Dtypes:	any
 * Does:	made by rlx_constant() or rlx_constant_blob(); data holds the bytes, as many as
 *		the type has.
 * Gradient:	none: it does not vary
 * Source:	rlx/graph.h
 */
RLX_OP(constant, "a tensor known now",
	ATTR(type, type)
	ATTR(blob, data),
	RLX_T_LEAF)

static enum rlx_status leaf_type(struct rlx_infer *q, const struct rlx_type *t)
{
	char text[96];

	if (rlx_type_bytes(t) < 0) {
		rlx_type_print(t, text, sizeof(text));
		return op_fail(q, RLX_ESHAPE,
			       "%s is no type: a dtype, rank <= %d, dims >= 0 and "
			       "less than 2^63 bytes are needed",
			       text, RLX_MAX_RANK);
	}
	q->out[0] = *t;
	return RLX_OK;
}

static enum rlx_status input_infer(struct rlx_infer *q)
{
	const struct rlx_op_input *a = q->args;

	return leaf_type(q, &a->type);
}

static enum rlx_status param_infer(struct rlx_infer *q)
{
	const struct rlx_op_param *a = q->args;

	return leaf_type(q, &a->type);
}

static enum rlx_status constant_infer(struct rlx_infer *q)
{
	const struct rlx_op_constant *a = q->args;
	enum rlx_status st = leaf_type(q, &a->type);

	if (st)
		return st;
	if (!a->data)
		return op_fail(q, RLX_EINVAL, "no data");
	if ((int64_t)rlx_blob_bytes(a->data) != rlx_type_bytes(&a->type))
		return op_fail(q, RLX_ESHAPE, "the type has %lld bytes, the data %zu",
			       (long long)rlx_type_bytes(&a->type),
			       rlx_blob_bytes(a->data));
	return RLX_OK;
}

static enum rlx_status constant_eval(struct rlx_eval *q)
{
	const struct rlx_op_constant *a = q->args;

	memcpy(q->out[0].data, rlx_blob_data(a->data), rlx_blob_bytes(a->data));
	return RLX_OK;
}

const struct rlx_op_impl rlx_op_input_impl = { .infer = input_infer };
const struct rlx_op_impl rlx_op_param_impl = { .infer = param_infer };
const struct rlx_op_impl rlx_op_constant_impl = {
	.infer = constant_infer, .eval = constant_eval,
};
