// SPDX-License-Identifier: MIT
/*
 * Conversions from one integer type to another that a lowering asks for (zero points to i32, say);
 * those of graphs are fused into pointwise code, whose rules (kernels/cast.h) these are.
 *
 * A thread an element, neighbours side by side: each element is read and written once.
 * Limits: integers and bool, CAST_FROM to CAST_TO; floats have no kernel here.
 */
#include "kernels/gpu/move.h"
#include "kernels/gpu/pointwise.h"
#include "kernels/cast.h"

RLX_G_KERNEL(cast, struct rlx_k_cast, 256)
{
	for (int64_t i = line_first(); i < a.n; i += line_step())
		ew_store<CAST_TO>(RLX_G_PTR(void, a.dst), i, ew_cast_to<CAST_TO>::of(
				 ew_load<CAST_FROM>(RLX_G_PTR(const void, a.src), i)));
}
