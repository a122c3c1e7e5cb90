// SPDX-License-Identifier: MIT
/* Gaussian splats: blending, and its derivatives. */
#include "backends/common/lower.h"
#include "kernels/splat.h"

enum rlx_status rlx_lower_splat_blend(struct rlx_lower *lo)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_splat_blend *a = rlx_lower_args(lo, sizeof(*a));

	if (y->dtype != RLX_F32)
		return rlx_lower_unsupported(lo, "the kernel is of f32");
	if (!rlx_type_count(y))
		return lo->status;
	a->n = rlx_lower_in(lo, 0)->dim[0];
	a->height = y->dim[0];
	a->width = y->dim[1];
	rlx_lower_ref_in(lo, &a->splats, 0, 0);
	rlx_lower_ref_in(lo, &a->boxes, 1, 0);
	rlx_lower_ref_in(lo, &a->background, 2, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_splat_blend, rlx_k_splat_strips(a),
			      (double)rlx_type_count(y) + (double)a->n * 5000,
			      rlx_k_splat_scratch(a->n));
}

enum rlx_status rlx_lower_splat_blend_grad(struct rlx_lower *lo)
{
	const struct rlx_type *d = rlx_lower_out(lo, 0), *dy = rlx_lower_in(lo, 3);
	struct rlx_k_splat_blend_grad *a = rlx_lower_args(lo, sizeof(*a));

	if (d->dtype != RLX_F32)
		return rlx_lower_unsupported(lo, "the kernel is of f32");
	if (!rlx_type_count(d))
		return lo->status;
	a->parts = d->dim[0];
	a->n = d->dim[1];
	a->height = dy->dim[0];
	a->width = dy->dim[1];
	rlx_lower_ref_in(lo, &a->splats, 0, 0);
	rlx_lower_ref_in(lo, &a->boxes, 1, 0);
	rlx_lower_ref_in(lo, &a->background, 2, 0);
	rlx_lower_ref_in(lo, &a->dy, 3, 0);
	rlx_lower_ref_out(lo, &a->d, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_splat_blend_grad, (uint64_t)a->parts,
			      (double)rlx_type_count(d) + (double)a->n * 20000,
			      rlx_k_splat_scratch(a->n));
}
