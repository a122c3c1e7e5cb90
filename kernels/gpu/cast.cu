// SPDX-License-Identifier: MIT
// Conversions that a lowering asks for; those of graphs are written with their steps.
#include "kernels/gpu/move.h"
#include "kernels/gpu/pointwise.h"
#include "kernels/cast.h"

/* RLX_K0: from this type of integers, RLX_K1: to this one */
RLX_G_KERNEL(cast, struct rlx_k_cast, 256)
{
	for (int64_t i = line_first(); i < a.n; i += line_step())
		ew_store<RLX_K1>(RLX_G_PTR(void, a.dst), i, ew_cast_to<RLX_K1>::of(
				 ew_load<RLX_K0>(RLX_G_PTR(const void, a.src), i)));
}
