// SPDX-License-Identifier: MIT
/* State-space recurrences. */
#include <math.h>

#include "backends/common/ssm_desc.h"
#include "backends/gpu/gpu.h"

enum rlx_status gpu_lower_linear_scan(struct rlx_lower *lo)
{
	rlx_linear_scan_args(lo);
	return rlx_lower_call(lo, RLX_KERNEL_linear_scan, 0, 0, 0);
}

enum rlx_status gpu_lower_selective_scan(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);

	if (!x->dim[0] || !x->dim[2])
		return lo->status;
	rlx_selective_scan_args(lo);
	return rlx_lower_call(lo, RLX_KERNEL_selective_scan, 0, 0, 0);
}

enum rlx_status gpu_lower_gated_delta_net(struct rlx_lower *lo)
{
	const struct rlx_op_gated_delta_net *o = lo->args;
	const struct rlx_type *q = rlx_lower_in(lo, 0), *v = rlx_lower_in(lo, 2);
	struct rlx_k_gated_delta *a = rlx_lower_args(lo, sizeof(*a));
	const void *in[] = { &a->q, &a->k, &a->v, &a->g, &a->beta, &a->state };

	a->batch = q->dim[0];
	a->steps = q->dim[1];
	a->hk = q->dim[2];
	a->dk = q->dim[3];
	a->hv = v->dim[2];
	a->dv = v->dim[3];
	a->scale = o->scale ? o->scale : 1 / sqrt((double)a->dk);
	a->type = (uint8_t)q->dtype;
	for (uint32_t k = 0; k < 6; k++)
		if (rlx_lower_in(lo, k))
			rlx_lower_ref_in(lo, (void *)in[k], k, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_out(lo, &a->last, 1, 0);
	return gpu_call_kernel(lo, rlx_g_gated_delta_net_launch, 0);
}
