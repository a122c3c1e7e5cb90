/* SPDX-License-Identifier: MIT */
/* Arguments of the kernel that det calls, on any device. */
#ifndef RLX_BACKENDS_DET_DESC_H
#define RLX_BACKENDS_DET_DESC_H

#include "backends/common/lower.h"
#include "kernels/det.h"

static inline struct rlx_k_det *rlx_det_args(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_det *a = rlx_lower_args(lo, sizeof(*a));

	a->n = x->dim[x->rank - 1];
	a->batch = rlx_type_count(rlx_lower_out(lo, 0));
	a->type = (uint8_t)x->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return a;
}

#endif
