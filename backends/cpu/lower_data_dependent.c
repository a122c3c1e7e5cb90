// SPDX-License-Identifier: MIT
/* Ops with data-dependent output shapes: a count is told, and checked when they run. */
#include "backends/common/data_dependent.h"
#include "backends/cpu/cpu.h"
#include "kernels/fill.h"
#include "kernels/unique.h"

/* The first of two calls counts, the second writes. */
static enum rlx_status call_nonzero(struct rlx_lower *lo, uint32_t found, bool write)
{
	struct rlx_k_nonzero *a = rlx_nonzero_args(lo);

	rlx_lower_ref_tmp(lo, &a->found, found, 0);
	if (write)
		rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_nonzero, rlx_k_nonzero_units(a), (double)a->n * 2,
			      RLX_K_NONZERO_SCRATCH);
}

enum rlx_status cpu_lower_nonzero(struct rlx_lower *lo)
{
	struct rlx_k_nonzero size = { .n = rlx_type_count(rlx_lower_in(lo, 0)) };
	uint32_t found = rlx_lower_tmp(lo, rlx_k_nonzero_units(&size) * sizeof(int64_t));
	enum rlx_status st;

	if (!size.n)
		return lo->status;
	st = call_nonzero(lo, found, false);
	return st ? st : call_nonzero(lo, found, true);
}

/* Slices of input 0 along @axis, or elements; only the work memory is told. */
static struct rlx_k_unique *begin_unique(struct rlx_lower *lo, bool flat, int32_t axis,
					 uint32_t work)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_unique *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax = flat ? 0 : shape_axis(axis, x->rank);

	a->pre = flat ? 1 : shape_span(x, 0, ax);
	a->n = flat ? rlx_type_count(x) : x->dim[ax];
	a->post = flat ? 1 : shape_span(x, ax + 1, x->rank);
	a->type = (uint8_t)x->dtype;
	/* slices of nothing are all the same, however many are to be counted */
	if (!rlx_type_count(x) && lo->st->def->index == RLX_OP_unique_count)
		a->n = a->n > 0;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_tmp(lo, &a->work, work, 0);
	return a;
}

/* The first of two calls sorts blocks; *out_work is what the second goes on with. */
static enum rlx_status sort_slices(struct rlx_lower *lo, bool flat, int32_t axis,
				   uint32_t *out_work)
{
	struct rlx_k_unique *a = begin_unique(lo, flat, axis, 0);

	*out_work = rlx_lower_tmp(lo, rlx_k_unique_work(a));
	a = begin_unique(lo, flat, axis, *out_work);
	a->sort = true;
	return rlx_lower_call(lo, RLX_KERNEL_unique, rlx_k_unique_units(a), (double)a->n * 64, 0);
}

enum rlx_status cpu_lower_unique(struct rlx_lower *lo)
{
	const struct rlx_op_unique *op = lo->args;
	struct rlx_k_unique *a;
	uint32_t work;

	if (!rlx_type_count(rlx_lower_out(lo, 2)))
		return lo->status;
	if (sort_slices(lo, op->flat, op->axis, &work))
		return lo->status;
	a = begin_unique(lo, op->flat, op->axis, work);
	a->count = op->count;
	a->unsorted = op->unsorted;
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_out(lo, &a->first, 1, 0);
	rlx_lower_ref_out(lo, &a->inverse, 2, 0);
	rlx_lower_ref_out(lo, &a->counts, 3, 0);
	rlx_lower_ref_status(lo, &a->bad);
	return rlx_lower_call(lo, RLX_KERNEL_unique, 1, 0, 0);
}

enum rlx_status cpu_lower_unique_count(struct rlx_lower *lo)
{
	const struct rlx_op_unique_count *op = lo->args;
	struct rlx_k_unique *a;
	uint32_t work;

	if (sort_slices(lo, op->flat, op->axis, &work))
		return lo->status;
	a = begin_unique(lo, op->flat, op->axis, work);
	a->only_count = true;
	rlx_lower_ref_out(lo, &a->counts, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_unique, 1, 0, 0);
}

/* What lies in temporary memory, and whether a call is the one that writes. */
struct nms_call {
	uint32_t	order, kept;
	bool		write;
};

static enum rlx_status call_nms(struct rlx_lower *lo, const struct nms_call *c)
{
	struct rlx_k_nms *a = rlx_nms_args(lo, c->order);
	uint64_t lines = (uint64_t)(a->batch * a->classes);

	rlx_lower_ref_tmp(lo, &a->kept, c->kept, 0);
	rlx_lower_ref_status(lo, &a->bad);
	if (c->write)
		rlx_lower_ref_out(lo, &a->out, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_nms, c->write ? 1 : lines,
			      (double)lines * (double)a->n * 64, rlx_k_nms_scratch(a));
}

static enum rlx_status zero_count(struct rlx_lower *lo)
{
	struct rlx_k_zero *z = rlx_lower_args(lo, sizeof(*z));

	rlx_lower_ref_out(lo, &z->dst, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_zero, sizeof(int64_t), 0, 0);
}

enum rlx_status cpu_lower_nms(struct rlx_lower *lo)
{
	bool only_count = lo->st->def->index == RLX_OP_nms_count;
	const struct rlx_type *s = rlx_lower_in(lo, 1);
	uint64_t n = (uint64_t)rlx_type_count(s), lines = (uint64_t)(s->dim[0] * s->dim[1]);
	struct nms_call c = { .write = false };
	struct rlx_k_topk *a;
	enum rlx_status st;

	if (s->dim[2] > UINT32_MAX / 2)
		return rlx_lower_unsupported(lo, "too many boxes for the sort");
	/* without boxes there are none to keep, in as many classes as there may be */
	if (!n && !only_count && rlx_type_count(rlx_lower_out(lo, 0)))
		return rlx_lower_unsupported(lo, "no boxes, and a count of them");
	if (!n)
		return only_count ? zero_count(lo) : lo->status;
	c.order = rlx_lower_tmp(lo, n * sizeof(int64_t));
	c.kept = rlx_lower_tmp(lo, lines * sizeof(int64_t));
	a = rlx_nms_order_args(lo, c.order);
	st = rlx_lower_call(lo, RLX_KERNEL_topk, (uint64_t)a->outer, (double)n * 32,
			    rlx_k_topk_scratch(a));
	st = st ? st : call_nms(lo, &c);
	c.write = true;
	return st ? st : call_nms(lo, &c);
}

enum rlx_status cpu_lower_nms_count(struct rlx_lower *lo)
{
	return cpu_lower_nms(lo);
}
