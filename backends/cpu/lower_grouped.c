// SPDX-License-Identifier: MIT
/* Grouped GEMM: rows that each choose a matrix. */
#include "backends/cpu/cpu.h"
#include "kernels/blocks.h"
#include "kernels/copy.h"
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

/*
 * Each expert looks which rows chose it. In memory that the caller has, and others may write, an
 * index may be another one by then: its row would be nobody's, and show what lay there before. So
 * they are copied; 0: they need not be.
 */
static uint32_t copied_indices(struct rlx_lower *lo)
{
	const enum rlx_place_kind kind = lo->plan->val[lo->st->in[2]].place.kind;
	const struct rlx_type *t = rlx_lower_in(lo, 2);
	struct rlx_k_copy *c;
	uint32_t tmp;

	if (kind != RLX_PLACE_INPUT && kind != RLX_PLACE_OUTPUT && kind != RLX_PLACE_STATE)
		return 0;
	tmp = rlx_lower_tmp(lo, (uint64_t)rlx_type_bytes(t));
	c = rlx_lower_args(lo, sizeof(*c));
	c->rank = 1;
	c->dim[0] = t->dim[0];
	c->src_stride[0] = c->dst_stride[0] = 1;
	c->size = (uint8_t)rlx_dtype_size(t->dtype);
	rlx_k_copy_plan(c);
	rlx_lower_ref_in(lo, &c->src, 2, 0);
	rlx_lower_ref_tmp(lo, &c->dst, tmp, 0);
	return rlx_lower_call(lo, RLX_KERNEL_copy, rlx_k_copy_units(c), 0, 0) ? 0 : tmp;
}

/* By kernel @id, of which a unit is @cols of @n columns; @scheme: of its blocks, or 0. */
static enum rlx_status lower(struct rlx_lower *lo, uint8_t scheme, int64_t n,
			     enum rlx_kernel_id id, int64_t cols)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	const size_t scratch = id == RLX_KERNEL_grouped_blocks ?
			       rlx_k_blocks_scratch((size_t)x->dim[0]) : 0;
	const bool any = x->dim[0] && n;	/* else no index is looked at */
	const uint32_t indices = any ? copied_indices(lo) : 0;
	struct rlx_k_grouped *a = rlx_lower_args(lo, sizeof(*a));
	enum rlx_status st = lo->status;

	a->scheme = scheme;
	a->m = x->dim[0];
	a->k = x->dim[1];
	a->n = n;
	a->experts = rlx_lower_in(lo, 1)->dim[0];
	a->type = (uint8_t)x->dtype;
	a->idx_type = (uint8_t)rlx_lower_in(lo, 2)->dtype;
	if (any) {
		rlx_lower_ref_in(lo, &a->x, 0, 0);
		rlx_lower_ref_in(lo, &a->w, 1, 0);
		if (indices)
			rlx_lower_ref_tmp(lo, &a->idx, indices, 0);
		else
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
	return lower(lo, 0, w->dim[2], RLX_KERNEL_grouped, RLX_K_GROUPED_COLS);
}

/* The experts' blocks may be any value: nothing is made of them. */
enum rlx_status cpu_lower_dequant_grouped_matmul(struct rlx_lower *lo)
{
	const struct rlx_op_dequant_grouped_matmul *d = lo->args;

	if (rlx_lower_in(lo, 0)->dtype != RLX_F32)
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	return lower(lo, (uint8_t)d->scheme, rlx_lower_in(lo, 1)->dim[1],
		     RLX_KERNEL_grouped_blocks, RLX_K_BLOCKS_COLS);
}
