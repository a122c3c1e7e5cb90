// SPDX-License-Identifier: MIT
/* State-space recurrences. */
#include "backends/cpu/cpu.h"
#include "kernels/ssm.h"

enum rlx_status cpu_lower_linear_scan(struct rlx_lower *lo)
{
	const struct rlx_op_linear_scan *o = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 1);
	struct rlx_k_linear_scan *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax = shape_axis(o->axis, x->rank);

	if (x->dtype != RLX_F32 && x->dtype != RLX_F64)
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	a->outer = shape_span(x, 0, ax);
	a->n = x->dim[ax];
	a->inner = shape_span(x, ax + 1, x->rank);
	a->type = (uint8_t)x->dtype;
	a->reverse = o->reverse;
	rlx_lower_ref_in(lo, &a->a, 0, 0);
	rlx_lower_ref_in(lo, &a->x, 1, 0);
	if (rlx_lower_in(lo, 2))
		rlx_lower_ref_in(lo, &a->initial, 2, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_linear_scan, rlx_k_linear_scan_units(a),
			      (double)rlx_type_count(x) * 2, 0);
}

enum rlx_status cpu_lower_selective_scan(struct rlx_lower *lo)
{
	const struct rlx_op_selective_scan *o = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_selective_scan *a = rlx_lower_args(lo, sizeof(*a));
	double n;
	const void *in[] = { &a->x, &a->delta, &a->a, &a->b, &a->c, &a->d, &a->z, &a->state };

	if (x->dtype != RLX_F32)
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	a->batch = x->dim[0];
	a->steps = x->dim[1];
	a->h = x->dim[2];
	a->n = rlx_lower_in(lo, 2)->dim[1];
	a->softplus = o->softplus;
	n = (double)rlx_type_count(x) * (double)a->n;
	if (!a->batch || !a->h)
		return lo->status;
	for (uint32_t k = 0; k < 8; k++)
		if (rlx_lower_in(lo, k))
			rlx_lower_ref_in(lo, (void *)in[k], k, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_out(lo, &a->last, 1, 0);
	return rlx_lower_call(lo, RLX_KERNEL_selective_scan, rlx_k_selective_scan_units(a), n * 20,
			      rlx_k_selective_scan_scratch(a));
}
