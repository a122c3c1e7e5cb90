// SPDX-License-Identifier: MIT
/* Gradients of norms. */
#include "backends/common/norm_grad.h"
#include "backends/gpu/gpu.h"

enum rlx_status gpu_lower_layer_norm_grad(struct rlx_lower *lo)
{
	if (!rlx_lower_norm_grad_args(lo))
		return lo->status;
	return rlx_lower_call(lo, RLX_KERNEL_norm_grad, 0, 0, 0);
}

enum rlx_status gpu_lower_rms_norm_grad(struct rlx_lower *lo)
{
	return gpu_lower_layer_norm_grad(lo);
}
