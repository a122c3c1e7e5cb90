/* SPDX-License-Identifier: MIT */
/* What scaled products share: operands in f8, and scales along K. */
#ifndef RLX_OPS_SCALED_H
#define RLX_OPS_SCALED_H

#include "ops/emit.h"

/* @x as products of tensor cores take it without a rounding: f16 has all of both f8. */
static inline rlx_value op_scaled_wide(struct rlx_graph *g, rlx_value x)
{
	enum rlx_dtype dt = op_type(g, x).dtype;

	return dt == RLX_F8E4M3 || dt == RLX_F8E5M2 ? op_cast(g, x, RLX_F16) : x;
}

/* The dtype of sums of inputs 0 and 1. */
static inline enum rlx_dtype op_scaled_acc(enum rlx_dtype a, enum rlx_dtype b)
{
	return a == RLX_F64 || b == RLX_F64 ? RLX_F64 : RLX_F32;
}

#endif
