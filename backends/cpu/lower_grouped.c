// SPDX-License-Identifier: MIT
/* Grouped GEMM: rows that each choose a matrix. */
#include "backends/cpu/cpu.h"
#include "kernels/blocks.h"
#include "kernels/grouped.h"

enum rlx_status cpu_lower_grouped_matmul(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0), *w = rlx_lower_in(lo, 1);
	const struct rlx_type *idx = rlx_lower_in(lo, 2);
	struct rlx_k_grouped *a = rlx_lower_args(lo, sizeof(*a));

	if (x->dtype != w->dtype || (x->dtype != RLX_F32 && x->dtype != RLX_F64))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	if (!rlx_type_count(rlx_lower_out(lo, 0)))	/* no index is looked at */
		return lo->status;
	a->m = x->dim[0];
	a->k = x->dim[1];
	a->n = w->dim[2];
	a->experts = w->dim[0];
	a->type = (uint8_t)x->dtype;
	a->idx_type = (uint8_t)idx->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->w, 1, 0);
	rlx_lower_ref_in(lo, &a->idx, 2, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, a->m);
	return rlx_lower_call(lo, RLX_KERNEL_grouped, rlx_k_grouped_units(a),
			      (double)a->m * (double)a->n * (double)(a->k + 1) / 4, 0);
}

/* The experts' blocks may be any value: nothing is made of them. */
enum rlx_status cpu_lower_dequant_grouped_matmul(struct rlx_lower *lo)
{
	const struct rlx_op_dequant_grouped_matmul *d = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *w = rlx_lower_in(lo, 1);
	struct rlx_k_grouped_blocks *a = rlx_lower_args(lo, sizeof(*a));

	if (x->dtype != RLX_F32)
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	if (!rlx_type_count(rlx_lower_out(lo, 0)))	/* no index is looked at */
		return lo->status;
	a->m = x->dim[0];
	a->k = x->dim[1];
	a->n = w->dim[1];
	a->experts = w->dim[0];
	a->scheme = (uint8_t)d->scheme;
	a->idx_type = (uint8_t)rlx_lower_in(lo, 2)->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->w, 1, 0);
	rlx_lower_ref_in(lo, &a->idx, 2, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, a->m);
	return rlx_lower_call(lo, RLX_KERNEL_grouped_blocks, rlx_k_grouped_blocks_units(a),
			      (double)a->m * (double)a->n * (double)(a->k + 1) / 4,
			      rlx_k_blocks_scratch((size_t)a->m));
}
