// SPDX-License-Identifier: MIT
/* Normalisations. */
#include "io/onnx/handlers.h"

/* Mean and inverse deviation keep the reduced axes with size 1. */
static void put_stats(struct onnx_op *q, rlx_value y, const struct rlx_type *t,
		      uint32_t axis)
{
	int64_t dim[RLX_MAX_RANK];
	uint32_t i;

	for (i = 0; i < t->rank; i++)
		dim[i] = i < axis ? t->dim[i] : 1;
	for (i = 1; i < q->n_out && i < 3; i++)
		onnx_out(q, i, onnx_reshape(q, onnx_nth(q, y, i), t->rank,
					    dim));
}

enum rlx_status onnx_layer_norm(struct onnx_op *q)
{
	int64_t axis = onnx_attr_i(q, "axis", -1);
	float eps = (float)onnx_attr_f(q, "epsilon", 1e-5f);
	rlx_value x = onnx_in(q, 0), y;
	struct rlx_type t = onnx_type(q, x);
	enum rlx_status st;
	uint32_t a;

	onnx_attr_i(q, "stash_type", 1);
	st = onnx_axis(q, axis, t.rank, &a);
	if (st)
		return st;
	y = E(q, layer_norm, .x = x, .gamma = onnx_in(q, 1),
	      .beta = onnx_in(q, 2), .axis = (int32_t)a, .eps = eps,
	      .stats = q->n_out > 1);
	onnx_out(q, 0, y);
	if (q->n_out > 1)
		put_stats(q, y, &t, a);
	return RLX_OK;
}

enum rlx_status onnx_lp_norm(struct onnx_op *q)
{
	int64_t axis = onnx_attr_i(q, "axis", -1);
	int64_t p = onnx_attr_i(q, "p", 2);
	rlx_value x = onnx_in(q, 0), n;

	if (p != 1 && p != 2)
		return op_err(q, RLX_ENOSUP, "attribute p=%lld is not "
			      "supported", (long long)p);
	n = onnx_reduce_as(q, x, RLX_INTS(axis), p == 1 ? ONNX_L1 : ONNX_L2, true);
	/* An all-zero slice stays zero. */
	n = E(q, where, .cond = E(q, eq, .a = n,
	      .b = onnx_num(q, onnx_type(q, n).dtype, 0)),
	      .a = onnx_num(q, onnx_type(q, n).dtype, 1), .b = n);
	onnx_out(q, 0, E(q, div, .a = x, .b = n));
	return RLX_OK;
}

/* (x - mean) / (sqrt(mean(x^2) - mean^2) + 1e-9) */
enum rlx_status onnx_mvn(struct onnx_op *q)
{
	static const int64_t dflt[] = { 0, 2, 3 };
	struct rlx_ints axes = onnx_attr_ints(q, "axes");
	rlx_value x = onnx_in(q, 0), d, var;

	if (!axes.n)
		axes = (struct rlx_ints){ dflt, 3 };
	d = E(q, sub, .a = x,
	      .b = onnx_reduce(q, x, axes, RLX_REDUCE_MEAN, true));
	var = onnx_reduce(q, E(q, mul, .a = d, .b = d), axes, RLX_REDUCE_MEAN,
			  true);
	onnx_out(q, 0, E(q, div, .a = d,
			 .b = onnx_shift(q, E(q, sqrt, .x = var), 1e-9)));
	return RLX_OK;
}
