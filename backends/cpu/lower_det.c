// SPDX-License-Identifier: MIT
/* Determinants of small matrices, as the evaluator has them to the last bit. */
#include "backends/common/det_desc.h"
#include "backends/cpu/cpu.h"

enum rlx_status cpu_lower_small_det(struct rlx_lower *lo)
{
	struct rlx_k_det *a = rlx_det_args(lo);
	double n = (double)a->n;
	uint64_t elements = (uint64_t)rlx_type_count(rlx_lower_in(lo, 0));

	rlx_lower_ref_tmp(lo, &a->work, rlx_lower_tmp(lo, elements * sizeof(double)), 0);
	return rlx_lower_call(lo, RLX_KERNEL_det, (uint64_t)a->batch,
			      (double)a->batch * n * n * (n / 3 + 2), 0);
}
