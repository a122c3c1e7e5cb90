// SPDX-License-Identifier: MIT
/* Reductions of which the other backends have no kernel. */
#include "backends/cpu/cpu.h"

enum rlx_status cpu_lower_sum_squares(struct rlx_lower *lo)
{
	const struct rlx_op_sum_squares *s = lo->args;

	if (rlx_lower_in(lo, 1) || rlx_lower_in(lo, 2))
		return rlx_lower_unsupported(lo, "sums of squares alone");
	return rlx_lower_reduction(lo, s->axes, s->mean ? RLX_REDUCE_MEAN : RLX_REDUCE_SUM, true);
}
