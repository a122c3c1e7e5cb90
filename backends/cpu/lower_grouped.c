// SPDX-License-Identifier: MIT
/* Grouped GEMM: rows that each choose a matrix. */
#include "backends/cpu/cpu.h"
#include "kernels/blocks.h"
#include "kernels/grouped.h"

/* The experts of a product that has a kernel are where they were given, which is the device's. */
static void note_experts(struct rlx_lower *lo)
{
	const struct rlx_code *code = lo->code;
	struct rlx_expert_product *p = rlx_expert_product(code,
							  (uint32_t)(lo->st - lo->plan->step));
	const bool called = lo->calls->n_call > lo->begin.n_call;

	if (!p)
		return;
	p->placed = true;
	if (called && p == &code->product[code->layer[p->layer].first])
		((struct cpu_call *)rlx_call_at(lo->calls, lo->calls->n_call - 1))->layer =
			p->layer + 1;
}

/* By kernel @id, of which a unit is @cols of @n columns. */
static enum rlx_status lower(struct rlx_lower *lo, struct rlx_k_grouped *a, int64_t n,
			     enum rlx_kernel_id id, int64_t cols, size_t scratch)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	enum rlx_status st = lo->status;

	a->m = x->dim[0];
	a->k = x->dim[1];
	a->n = n;
	a->experts = rlx_lower_in(lo, 1)->dim[0];
	a->type = (uint8_t)x->dtype;
	a->idx_type = (uint8_t)rlx_lower_in(lo, 2)->dtype;
	if (a->m && n) {		/* else no index is looked at */
		rlx_lower_ref_in(lo, &a->x, 0, 0);
		rlx_lower_ref_in(lo, &a->w, 1, 0);
		rlx_lower_ref_in(lo, &a->idx, 2, 0);
		rlx_lower_ref_out(lo, &a->y, 0, 0);
		rlx_lower_ref_status(lo, &a->bad);
		rlx_lower_checked(lo, &a->live, a->m);
		st = rlx_lower_call(lo, id, rlx_k_grouped_units(a, cols),
				    (double)a->m * (double)n * (double)(a->k + 1) / 4, scratch);
	}
	if (!st)
		note_experts(lo);
	return st;
}

enum rlx_status cpu_lower_grouped_matmul(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0), *w = rlx_lower_in(lo, 1);

	if (x->dtype != w->dtype || (x->dtype != RLX_F32 && x->dtype != RLX_F64))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	return lower(lo, rlx_lower_args(lo, sizeof(struct rlx_k_grouped)), w->dim[2],
		     RLX_KERNEL_grouped, RLX_K_GROUPED_COLS, 0);
}

/* The experts' blocks may be any value: nothing is made of them. */
enum rlx_status cpu_lower_dequant_grouped_matmul(struct rlx_lower *lo)
{
	const struct rlx_op_dequant_grouped_matmul *d = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_grouped *a;

	if (x->dtype != RLX_F32)
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	a = rlx_lower_args(lo, sizeof(*a));
	a->scheme = (uint8_t)d->scheme;
	return lower(lo, a, rlx_lower_in(lo, 1)->dim[1], RLX_KERNEL_grouped_blocks,
		     RLX_K_BLOCKS_COLS, rlx_k_blocks_scratch((size_t)x->dim[0]));
}
