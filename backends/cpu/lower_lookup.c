// SPDX-License-Identifier: MIT
/* Functions of a byte, by a table. */
#include "backends/cpu/cpu.h"
#include "kernels/quant.h"

enum rlx_status cpu_lower_lookup(struct rlx_lower *lo)
{
	struct rlx_k_lookup *a = rlx_lower_args(lo, sizeof(*a));

	a->n = (size_t)rlx_type_count(rlx_lower_in(lo, 0));
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->table, 1, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_lookup,
			      (a->n + RLX_K_QUANT_UNIT - 1) / RLX_K_QUANT_UNIT,
			      (double)a->n / 8, 0);
}
