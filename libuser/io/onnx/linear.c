// SPDX-License-Identifier: MIT
/* GEMM: MatMul, Gemm, Einsum and their quantised forms. */
#include "io/onnx/handlers.h"

/* numpy's matmul takes vectors; ours does not. */
rlx_value onnx_matmul_of(struct onnx_op *q, rlx_value a, rlx_value b)
{
	struct rlx_type ta = onnx_type(q, a), tb = onnx_type(q, b), ty;
	int64_t dim[RLX_MAX_RANK];
	uint32_t i, n = 0;
	rlx_value y;

	if (ta.rank == 1)
		a = E(q, reshape, .x = a, .shape = RLX_INTS(1, -1));
	if (tb.rank == 1)
		b = E(q, reshape, .x = b, .shape = RLX_INTS(-1, 1));
	y = E(q, matmul, .a = a, .b = b);
	if (ta.rank != 1 && tb.rank != 1)
		return y;
	ty = onnx_type(q, y);
	for (i = 0; i < ty.rank; i++)
		if (!(ta.rank == 1 && i + 2 == ty.rank) &&
		    !(tb.rank == 1 && i + 1 == ty.rank))
			dim[n++] = ty.dim[i];
	return onnx_reshape(q, y, n, dim);
}

enum rlx_status onnx_matmul(struct onnx_op *q)
{
	onnx_out(q, 0, onnx_matmul_of(q, onnx_in(q, 0), onnx_in(q, 1)));
	return RLX_OK;
}

enum rlx_status onnx_gemm(struct onnx_op *q)
{
	double alpha = onnx_attr_f(q, "alpha", 1);
	double beta = onnx_attr_f(q, "beta", 1);
	rlx_value a = onnx_in(q, 0), b = onnx_in(q, 1), c = onnx_in(q, 2), y;

	onnx_attr_i(q, "broadcast", 0);
	if (onnx_attr_i(q, "transA", 0))
		a = E(q, transpose, .x = a);
	if (onnx_attr_i(q, "transB", 0))
		b = E(q, transpose, .x = b);
	y = onnx_scale(q, E(q, matmul, .a = a, .b = b), alpha);
	if (c.id && beta != 0)
		y = E(q, add, .a = y, .b = onnx_scale(q, c, beta));
	onnx_out(q, 0, y);
	return RLX_OK;
}
