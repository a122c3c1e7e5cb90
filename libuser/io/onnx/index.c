// SPDX-License-Identifier: MIT
/* Gathering, scattering and ordering. */
#include "io/onnx/handlers.h"

enum rlx_status onnx_gather(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, gather, .x = onnx_in(q, 0), .indices = onnx_in(q, 1),
			 .axis = onnx_attr_i32(q, "axis", 0)));
	return RLX_OK;
}

enum rlx_status onnx_gather_elements(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, gather_elements, .x = onnx_in(q, 0),
			 .indices = onnx_in(q, 1),
			 .axis = onnx_attr_i32(q, "axis", 0)));
	return RLX_OK;
}

enum rlx_status onnx_gather_nd(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, gather_nd, .x = onnx_in(q, 0),
			 .indices = onnx_in(q, 1),
			 .batch_dims = onnx_attr_i32(q, "batch_dims",
							    0)));
	return RLX_OK;
}

/* In order of enum rlx_scatter_reduction. */
static const char *const reductions[] = {
	"none", "add", "mul", "max", "min", NULL
};

enum rlx_status onnx_scatter_elements(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, scatter_elements, .x = onnx_in(q, 0),
			 .indices = onnx_in(q, 1), .updates = onnx_in(q, 2),
			 .axis = onnx_attr_i32(q, "axis", 0),
			 .reduction = onnx_attr_enum(q, "reduction", reductions,
						     0)));
	return RLX_OK;
}

enum rlx_status onnx_scatter_nd(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, scatter_nd, .x = onnx_in(q, 0),
			 .indices = onnx_in(q, 1), .updates = onnx_in(q, 2),
			 .reduction = onnx_attr_enum(q, "reduction", reductions,
						     0)));
	return RLX_OK;
}

enum rlx_status onnx_one_hot(struct onnx_op *q)
{
	int32_t axis = onnx_attr_i32(q, "axis", -1);
	int64_t depth;
	rlx_value x, k, far;
	enum rlx_status st;

	st = onnx_int(q, 1, 0, &depth);
	if (st)
		return st;
	x = onnx_in(q, 0);
	if (onnx_type(q, x).dtype != RLX_I64)
		x = E(q, cast, .x = x, .to = RLX_I64);
	/* [-depth, 0) counts from the end; what is beyond must stay beyond. */
	if (depth < 0 || depth > 1ll << 40)
		return op_err(q, RLX_ERANGE, "depth %lld", (long long)depth);
	k = onnx_num(q, RLX_I64, (double)depth);
	far = E(q, lt, .a = x, .b = onnx_num(q, RLX_I64, (double)-depth));
	x = E(q, where, .cond = far, .a = k, .b = E(q, where,
	      .cond = E(q, lt, .a = x, .b = onnx_num(q, RLX_I64, 0)),
	      .a = E(q, add, .a = x, .b = k), .b = x));
	onnx_out(q, 0, E(q, one_hot, .indices = x, .values = onnx_in(q, 2),
			 .depth = depth, .axis = axis));
	return RLX_OK;
}

enum rlx_status onnx_topk(struct onnx_op *q)
{
	int64_t k = q->opset < 10 ? onnx_attr_i(q, "k", 0) : 0;
	enum rlx_status st = RLX_OK;
	rlx_value y;

	if (q->opset >= 10)
		st = onnx_int(q, 1, 0, &k);
	if (st)
		return st;
	y = E(q, topk, .x = onnx_in(q, 0), .k = k,
	      .axis = onnx_attr_i32(q, "axis", -1),
	      .smallest = !onnx_attr_i(q, "largest", 1),
	      .unsorted = !onnx_attr_i(q, "sorted", 1));
	onnx_out(q, 0, y);
	onnx_out(q, 1, onnx_nth(q, y, 1));
	return RLX_OK;
}

/* The row's argument is set for ArgMin. */
enum rlx_status onnx_arg_reduce(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, arg_reduce, .x = onnx_in(q, 0),
			 .axis = onnx_attr_i32(q, "axis", 0),
			 .min = q->row->arg != NULL,
			 .keep_dims = onnx_attr_i(q, "keepdims", 1),
			 .last_index = onnx_attr_i(q, "select_last_index",
						   0)));
	return RLX_OK;
}

/* CumSum; CumProd if the row's argument is set. */
enum rlx_status onnx_cumsum(struct onnx_op *q)
{
	bool exclusive = onnx_attr_i(q, "exclusive", 0);
	bool reverse = onnx_attr_i(q, "reverse", 0);
	enum rlx_status st;
	int64_t axis;
	uint32_t a;

	st = onnx_int(q, 1, 0, &axis);
	if (!st)
		st = onnx_axis(q, axis, onnx_type(q, onnx_in(q, 0)).rank, &a);
	if (st)
		return st;
	if (q->row->arg)
		onnx_out(q, 0, E(q, cumprod, .x = onnx_in(q, 0),
				 .axis = (int32_t)a, .exclusive = exclusive,
				 .reverse = reverse));
	else
		onnx_out(q, 0, E(q, cumsum, .x = onnx_in(q, 0),
				 .axis = (int32_t)a, .exclusive = exclusive,
				 .reverse = reverse));
	return RLX_OK;
}
