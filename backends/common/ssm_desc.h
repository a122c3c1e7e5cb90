/* SPDX-License-Identifier: MIT */
/* State-space recurrences as their kernels take them, for every backend that has those. */
#ifndef RLX_BACKENDS_SSM_DESC_H
#define RLX_BACKENDS_SSM_DESC_H

#include "backends/common/lower.h"
#include "kernels/ssm.h"

/* Staged arguments of kernel linear_scan. */
static inline struct rlx_k_linear_scan *rlx_linear_scan_args(struct rlx_lower *lo)
{
	const struct rlx_op_linear_scan *o = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 1);
	struct rlx_k_linear_scan *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax = shape_axis(o->axis, x->rank);

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
	return a;
}

/* Staged arguments of kernel selective_scan. */
static inline struct rlx_k_selective_scan *rlx_selective_scan_args(struct rlx_lower *lo)
{
	const struct rlx_op_selective_scan *o = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_selective_scan *a = rlx_lower_args(lo, sizeof(*a));
	const void *in[] = { &a->x, &a->delta, &a->a, &a->b, &a->c, &a->d, &a->z, &a->state };

	a->batch = x->dim[0];
	a->steps = x->dim[1];
	a->h = x->dim[2];
	a->n = rlx_lower_in(lo, 2)->dim[1];
	a->type = (uint8_t)x->dtype;
	a->softplus = o->softplus;
	for (uint32_t k = 0; k < 8; k++)
		if (rlx_lower_in(lo, k))
			rlx_lower_ref_in(lo, (void *)in[k], k, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_out(lo, &a->last, 1, 0);
	return a;
}

#endif
