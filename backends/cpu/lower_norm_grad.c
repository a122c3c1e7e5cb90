// SPDX-License-Identifier: MIT
/* Gradients of norms: what rows make, and what they add up to. */
#include "backends/common/norm_grad.h"
#include "backends/cpu/cpu.h"

static enum rlx_status lower(struct rlx_lower *lo)
{
	struct rlx_k_norm_grad *a = rlx_lower_norm_grad_args(lo);
	size_t units, scratch;
	uint32_t partial;
	double work;

	if (!a)
		return lo->status;
	units = rlx_k_norm_grad_units(a);
	scratch = rlx_k_norm_grad_scratch(a);
	work = (double)a->rows * (double)a->n * 6;
	partial = rlx_lower_tmp(lo, units * 2 * (uint64_t)a->n * sizeof(float));
	rlx_lower_ref_tmp(lo, &a->partial, partial, 0);
	if (rlx_lower_call(lo, RLX_KERNEL_norm_grad, units, work, scratch))
		return lo->status;
	a = rlx_lower_norm_grad_args(lo);
	if (!a || (!rlx_lower_out_is_read(lo, 1) && !rlx_lower_out_is_read(lo, 2)))
		return lo->status;
	rlx_lower_ref_tmp(lo, &a->partial, partial, 0);
	return rlx_lower_call(lo, RLX_KERNEL_norm_grad_sums, rlx_k_norm_grad_sum_units(a),
			      (double)units * (double)a->n * 2, 0);
}

enum rlx_status cpu_lower_layer_norm_grad(struct rlx_lower *lo)
{
	return lower(lo);
}

enum rlx_status cpu_lower_rms_norm_grad(struct rlx_lower *lo)
{
	return lower(lo);
}
