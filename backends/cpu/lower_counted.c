// SPDX-License-Identifier: MIT
/* Ops whose sizes are data: a count is told, and checked when they run. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "kernels/nonzero.h"
#include "kernels/unique.h"

/* The first of two calls counts, the second writes. */
static enum rlx_status call_nonzero(struct rlx_lower *lo, uint64_t found, bool write)
{
	const struct rlx_op_nonzero *op = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_nonzero *a = rlx_lower_args(lo, sizeof(*a));

	a->n = rlx_type_count(x);
	a->count = op->count;
	a->rank = (int)x->rank;
	memcpy(a->dim, x->dim, sizeof(a->dim));
	a->type = (uint8_t)x->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_tmp(lo, &a->found, found);
	rlx_lower_ref_status(lo, &a->bad);
	if (write)
		rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_nonzero, rlx_k_nonzero_units(a), (double)a->n * 2,
			      RLX_K_NONZERO_SCRATCH);
}

enum rlx_status cpu_lower_nonzero(struct rlx_lower *lo)
{
	struct rlx_k_nonzero size = { .n = rlx_type_count(rlx_lower_in(lo, 0)) };
	uint64_t found = rlx_lower_tmp(lo, rlx_k_nonzero_units(&size) * sizeof(int64_t));
	enum rlx_status st;

	if (!size.n)
		return lo->status;
	st = call_nonzero(lo, found, false);
	return st ? st : call_nonzero(lo, found, true);
}

/* Slices of input 0 along @axis, or elements. */
static struct rlx_k_unique *begin_unique(struct rlx_lower *lo, bool flat, int32_t axis)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_unique *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax = flat ? 0 : shape_axis(axis, x->rank);

	a->pre = flat ? 1 : shape_span(x, 0, ax);
	a->n = flat ? rlx_type_count(x) : x->dim[ax];
	a->post = flat ? 1 : shape_span(x, ax + 1, x->rank);
	a->type = (uint8_t)x->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	return a;
}

static enum rlx_status finish_unique(struct rlx_lower *lo, struct rlx_k_unique *a)
{
	rlx_lower_ref_tmp(lo, &a->work, rlx_lower_tmp(lo, rlx_k_unique_work(a)));
	return rlx_lower_call(lo, RLX_KERNEL_unique, 1, 0, 0);
}

enum rlx_status cpu_lower_unique(struct rlx_lower *lo)
{
	const struct rlx_op_unique *op = lo->args;
	struct rlx_k_unique *a = begin_unique(lo, op->flat, op->axis);

	if (!a->n)
		return lo->status;
	a->count = op->count;
	a->unsorted = op->unsorted;
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_out(lo, &a->first, 1, 0);
	rlx_lower_ref_out(lo, &a->inverse, 2, 0);
	rlx_lower_ref_out(lo, &a->counts, 3, 0);
	rlx_lower_ref_status(lo, &a->bad);
	return finish_unique(lo, a);
}

enum rlx_status cpu_lower_unique_count(struct rlx_lower *lo)
{
	const struct rlx_op_unique_count *op = lo->args;
	struct rlx_k_unique *a = begin_unique(lo, op->flat, op->axis);

	a->only_count = true;
	/* slices of nothing are all the same, however many */
	if (!rlx_type_count(rlx_lower_in(lo, 0)))
		a->n = a->n > 0;
	rlx_lower_ref_out(lo, &a->counts, 0, 0);
	return finish_unique(lo, a);
}
