// SPDX-License-Identifier: MIT
/* State-space recurrences. */
#include "backends/common/ssm_desc.h"
#include "backends/cpu/cpu.h"

enum rlx_status cpu_lower_linear_scan(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 1);
	const struct rlx_k_linear_scan *a;

	if (x->dtype != RLX_F32 && x->dtype != RLX_F64)
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	a = rlx_linear_scan_args(lo);
	return rlx_lower_call(lo, RLX_KERNEL_linear_scan, rlx_k_linear_scan_units(a),
			      (double)rlx_type_count(x) * 2, 0);
}

enum rlx_status cpu_lower_selective_scan(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	const struct rlx_k_selective_scan *a;

	if (x->dtype != RLX_F32)
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	if (!x->dim[0] || !x->dim[2])
		return lo->status;
	a = rlx_selective_scan_args(lo);
	return rlx_lower_call(lo, RLX_KERNEL_selective_scan, rlx_k_selective_scan_units(a),
			      (double)rlx_type_count(x) * (double)a->n * 20,
			      rlx_k_selective_scan_scratch(a));
}
