// SPDX-License-Identifier: MIT
/*
 * The active extent: which values only have rows that carry data. A value leads if its
 * first actual / upper elements are the active ones: an input whose leading dimension
 * is a multiple of upper does, and the ops below pass it on. A step whose output does
 * not lead is computed whole, which is slower and never wrong: but for steps that check
 * what they read, to which rows without data must be no fault (rlx_extent_aligned()).
 */
#include <string.h>

#include "backends/common/extent.h"
#include "base/shape.h"

static const struct rlx_type *type_of(const struct rlx_plan *p, uint32_t v)
{
	return &p->val[v].type;
}

/* The dropped steps of views make values of their root's bytes. */
static bool leads(const struct rlx_plan *p, const uint8_t *lead, uint32_t v)
{
	return v && lead[p->val[v].root];
}

static bool same_rows(const struct rlx_type *a, const struct rlx_type *b)
{
	return a->rank && a->rank == b->rank && a->dim[0] == b->dim[0];
}

/* Operands that lead must lie along the output's leading axis. */
static bool pointwise(const struct rlx_plan *p, const struct rlx_plan_step *st,
		      const uint8_t *lead)
{
	bool any = false;
	uint32_t k;

	for (k = 0; k < st->n_in; k++) {
		if (!leads(p, lead, st->in[k]))
			continue;
		if (!same_rows(type_of(p, st->in[k]), type_of(p, st->out[0])))
			return false;
		any = true;
	}
	return any;
}

static bool all_lead(const struct rlx_plan *p, const struct rlx_plan_step *st,
		     const uint8_t *lead)
{
	uint32_t k;

	for (k = 0; k < st->n_in; k++)
		if (!leads(p, lead, st->in[k]))
			return false;
	return true;
}

static bool has_axis_0(struct rlx_ints axes, uint32_t rank)
{
	uint32_t i;

	for (i = 0; i < axes.n; i++)
		if (!shape_axis(axes.v[i], rank))
			return true;
	return !axes.n;		/* none given: all, or the first ones */
}

static bool any_leads(const struct rlx_plan *p, const struct rlx_plan_step *st,
		      const uint8_t *lead, uint32_t in)
{
	uint32_t k;

	for (k = 0; k < st->n_in; k++)
		if (in >> k & 1 && leads(p, lead, st->in[k]))
			return true;
	return false;
}

/* Of gathers and scatters, whose input 1 says where; the rest of rlx_extent_aligned(). */
static bool places_aligned(const struct rlx_plan *p, const struct rlx_plan_step *st,
			   struct rlx_aligned_rows *out)
{
	const struct rlx_type *x = type_of(p, st->in[0]), *at = type_of(p, st->in[1]);
	const void *a = st->args;

	switch (st->def->index) {
	case RLX_OP_gather:
		out->in = 1 << 1;
		out->out = !shape_axis(((const struct rlx_op_gather *)a)->axis, x->rank);
		out->across = !out->out;
		break;
	case RLX_OP_gather_elements:
		out->in = 1 << 1;
		if (shape_axis(((const struct rlx_op_gather_elements *)a)->axis, x->rank) &&
		    same_rows(x, at))
			out->in |= 1 << 0;
		break;
	case RLX_OP_gather_nd:		/* one tuple has no rows */
		if (at->rank > 1)
			out->in = 1 << 1 | !!((const struct rlx_op_gather_nd *)a)->batch_dims;
		break;
	default:
		if (st->def->index == RLX_OP_scatter_elements || at->rank > 1)
			out->in = 1 << 1 | 1 << 2;
		out->out = false;
	}
	return out->in;
}

bool rlx_extent_aligned(const struct rlx_plan *p, const struct rlx_plan_step *st,
			struct rlx_aligned_rows *out)
{
	const struct rlx_type *x = st->n_in ? type_of(p, st->in[0]) : NULL;
	const struct rlx_type *pos = st->n_in > 3 && st->in[3] ? type_of(p, st->in[3]) : NULL;

	*out = (struct rlx_aligned_rows){ .out = true };
	switch (st->def ? st->def->index : RLX_OP_COUNT) {
	case RLX_OP_gather:
	case RLX_OP_gather_elements:
	case RLX_OP_gather_nd:
	case RLX_OP_scatter_elements:
	case RLX_OP_scatter_nd:
		return places_aligned(p, st, out);
	case RLX_OP_rope:		/* positions may be the same for all of the batch */
		out->in = 1 << 0 | (pos && pos->rank == 2 && same_rows(x, pos)) << 3;
		break;
	case RLX_OP_roi_align:
		out->in = 1 << 1 | 1 << 2;
		break;
	case RLX_OP_grouped_matmul:
	case RLX_OP_dequant_grouped_matmul:
		out->in = 1 << 0 | 1 << 2;
		break;
	case RLX_OP_cross_entropy:
		out->in = 1 << 0 | 1 << 1;
		break;
	case RLX_OP_sample:
		out->in = 1 << 0;
		break;
	case RLX_OP_reverse_sequence:
		if (!shape_axis(((const struct rlx_op_reverse_sequence *)st->args)->batch_axis,
				x->rank))
			out->in = 1 << 0 | 1 << 1;
		break;
	case RLX_OP_cached_attention:	/* the cache has its batch behind keys and values */
		out->in = 1 << 1 | 1 << 2;
		out->out = false;
		out->across = true;
		break;
	}
	return out->in;
}

/* Does output 0 lead, given which inputs do? */
static bool step_leads(const struct rlx_plan *p, const struct rlx_plan_step *st,
		       const uint8_t *lead)
{
	bool first = st->n_in && leads(p, lead, st->in[0]);
	const struct rlx_type *x = st->n_in ? type_of(p, st->in[0]) : NULL;
	struct rlx_aligned_rows aligned;
	const void *a = st->args;

	if (!st->def)
		return first;
	if (st->def->traits & RLX_T_ELEMENTWISE || st->def->index == RLX_OP_region)
		return pointwise(p, st, lead);
	if (rlx_extent_aligned(p, st, &aligned) && aligned.out)
		return any_leads(p, st, lead, aligned.in);
	switch (st->def->index) {
	case RLX_OP_matmul:
		return first && same_rows(x, type_of(p, st->out[0]));
	case RLX_OP_fused_matmul:
		return first && same_rows(x, type_of(p, st->out[0])) &&
		       !((const struct rlx_op_fused_matmul *)a)->trans_a;
	case RLX_OP_layer_norm:
		return first && shape_axis(((const struct rlx_op_layer_norm *)a)->axis, x->rank);
	case RLX_OP_rms_norm:
		return first && shape_axis(((const struct rlx_op_rms_norm *)a)->axis, x->rank);
	case RLX_OP_softmax:
	case RLX_OP_log_softmax:
		return first && shape_axis(((const struct rlx_op_softmax *)a)->axis, x->rank);
	case RLX_OP_attention:
	case RLX_OP_conv:
	case RLX_OP_fused_conv:
	case RLX_OP_pool:
	case RLX_OP_block_channels:
	case RLX_OP_unblock_channels:
		return first;
	case RLX_OP_transpose: {
		struct rlx_ints perm = ((const struct rlx_op_transpose *)a)->perm;

		return first && perm.n && !perm.v[0];
	}
	case RLX_OP_gather:
	case RLX_OP_scatter_elements:
	case RLX_OP_scatter_nd:
		return first;
	case RLX_OP_cumsum:
		return first && shape_axis(((const struct rlx_op_cumsum *)a)->axis, x->rank);
	case RLX_OP_arg_reduce:
		return first && shape_axis(((const struct rlx_op_arg_reduce *)a)->axis, x->rank);
	case RLX_OP_topk:
		return first && shape_axis(((const struct rlx_op_topk *)a)->axis, x->rank);
	case RLX_OP_concat:
		return shape_axis(((const struct rlx_op_concat *)a)->axis, x->rank) &&
		       all_lead(p, st, lead);
	case RLX_OP_slice:
		return first && !has_axis_0(((const struct rlx_op_slice *)a)->axes, x->rank);
	case RLX_OP_reduce:
		return first && !has_axis_0(((const struct rlx_op_reduce *)a)->axes, x->rank);
	case RLX_OP_sum_squares:
		return first && !has_axis_0(((const struct rlx_op_sum_squares *)a)->axes, x->rank);
	}
	return false;
}

/* Are the elements of output @k made side by side with those of output 0? */
static bool is_alike(const struct rlx_plan *p, const struct rlx_plan_step *st, uint32_t k)
{
	return st->def && (st->def->index == RLX_OP_region || st->def->index == RLX_OP_topk) &&
	       same_rows(type_of(p, st->out[k]), type_of(p, st->out[0]));
}

void rlx_extent_find(const struct rlx_plan *p, int64_t upper, uint8_t *lead)
{
	uint32_t i, k;

	memset(lead, 0, p->n_val);
	for (i = 0; i < p->n_io[RLX_IO_INPUT]; i++) {
		uint32_t v = p->io[RLX_IO_INPUT][i].val;

		lead[v] = rlx_plan_has_rows(type_of(p, v), upper);
	}
	for (i = 0; i < p->n_step; i++) {
		const struct rlx_plan_step *st = &p->step[i];
		bool yes = step_leads(p, st, lead);

		for (k = 0; k < st->n_out; k++) {
			uint32_t v = st->out[k], root = p->val[v].root;

			/* written over an input: both must lead */
			lead[root] = yes && (!k || is_alike(p, st, k)) &&
				     (root == v || lead[root]);
		}
	}
}

bool rlx_extent_changes(const struct rlx_exec *e, struct rlx_extent *x)
{
	if (e->extent == x->rows && (!e->extent || e->upper == x->upper))
		return false;
	x->rows = e->extent;
	x->upper = e->upper;
	if (e->extent && e->upper != x->leads_of) {
		rlx_extent_find(e->code->plan, e->upper, x->leads);
		x->leads_of = e->upper;
	}
	return true;
}

uint64_t rlx_extent_of(const struct rlx_exec *e, const uint8_t *lead, uint32_t v, uint64_t n)
{
	uint64_t upper = (uint64_t)e->upper;

	return e->extent && n % upper == 0 && leads(e->code->plan, lead, v) ?
	       n / upper * (uint64_t)e->extent : n;
}

int64_t rlx_extent_checked(const struct rlx_exec *e, const uint8_t *lead,
			   const struct rlx_checked *c)
{
	const struct rlx_plan_step *st = &e->code->plan->step[c->step];
	uint64_t least = (uint64_t)c->n, n;
	struct rlx_aligned_rows rows;
	uint32_t k;

	if (!rlx_extent_aligned(e->code->plan, st, &rows))
		return c->n;
	for (k = 0; k < st->n_in; k++) {
		if (!(rows.in >> k & 1))
			continue;
		n = rlx_extent_of(e, lead, st->in[k], (uint64_t)c->n);
		least = n < least ? n : least;
	}
	return (int64_t)least;
}

static void cut(struct rlx_tensor *t, const struct rlx_exec *e)
{
	t->type.dim[0] = t->type.dim[0] / e->upper * e->extent;
}

void rlx_extent_cut(const struct rlx_exec *e, const uint8_t *lead,
		    const struct rlx_plan_step *st, struct rlx_tensor *in, struct rlx_tensor *out)
{
	struct rlx_aligned_rows rows;
	uint32_t k;

	if (!e->extent || !rlx_extent_aligned(e->code->plan, st, &rows) || rows.across ||
	    !any_leads(e->code->plan, st, lead, rows.in))
		return;
	for (k = 0; k < st->n_in; k++)
		if (rows.in >> k & 1)
			cut(&in[k], e);
	if (rows.out)
		cut(&out[0], e);
}
