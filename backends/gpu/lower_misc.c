// SPDX-License-Identifier: MIT
/* Ops with data-dependent output shapes, and det. */
#include "backends/common/data_dependent.h"
#include "backends/common/det_desc.h"
#include "backends/gpu/gpu.h"

/* Larger ones want the tiles that a product has. */
enum { MOST_ROWS = 4096 };

enum rlx_status gpu_lower_det(struct rlx_lower *lo)
{
	const struct rlx_k_det *a = rlx_det_args(lo);

	if (a->n > MOST_ROWS)
		return rlx_lower_unsupported(lo, "the matrices are too large");
	return gpu_call_kernel(lo, rlx_g_det_launch, 0);
}

enum rlx_status gpu_lower_nonzero(struct rlx_lower *lo)
{
	struct rlx_k_nonzero *a = rlx_nonzero_args(lo);

	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return gpu_call_kernel(lo, rlx_g_nonzero_launch, 0);
}

enum rlx_status gpu_lower_nms(struct rlx_lower *lo)
{
	const struct rlx_type *s = rlx_lower_in(lo, 1);
	int64_t n = rlx_type_count(s);
	uint32_t order = rlx_lower_tmp(lo, (uint64_t)n * sizeof(int64_t));
	struct rlx_k_nms *a;

	if (!n || s->dim[2] > UINT32_MAX / 2)
		return rlx_lower_unsupported(lo, "no boxes, or too many for the sort");
	rlx_nms_order_args(lo, order);
	if (rlx_lower_call(lo, RLX_KERNEL_topk, 0, 0, 0))
		return lo->status;
	a = rlx_nms_args(lo, order);
	rlx_lower_ref_out(lo, &a->out, 0, 0);
	if (!a->only_count)
		rlx_lower_ref_status(lo, &a->bad);
	return gpu_call_kernel(lo, rlx_g_nms_launch, 0);
}

enum rlx_status gpu_lower_nms_count(struct rlx_lower *lo)
{
	return gpu_lower_nms(lo);
}
