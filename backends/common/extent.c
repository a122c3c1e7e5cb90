// SPDX-License-Identifier: MIT
/*
 * The active extent: which values only have rows that carry data. A value leads if its
 * first actual / upper elements are the active ones: an input whose leading dimension
 * is a multiple of upper does, and the ops below pass it on. A step whose output does
 * not lead is computed whole, which is slower and never wrong.
 */
#include <string.h>

#include "backends/common/extent.h"
#include "backends/common/shape.h"

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

/* Does output 0 lead, given which inputs do? */
static bool step_leads(const struct rlx_plan *p, const struct rlx_plan_step *st,
		       const uint8_t *lead)
{
	bool first = st->n_in && leads(p, lead, st->in[0]);
	const struct rlx_type *x = st->n_in ? type_of(p, st->in[0]) : NULL;
	const void *a = st->args;

	if (!st->def)
		return first;
	if (st->def->traits & RLX_T_ELEMENTWISE || st->def->index == RLX_OP_region)
		return pointwise(p, st, lead);
	switch (st->def->index) {
	case RLX_OP_matmul:
		return first && same_rows(x, type_of(p, st->out[0]));
	case RLX_OP_fused_matmul:
		return first && same_rows(x, type_of(p, st->out[0])) &&
		       !((const struct rlx_op_fused_matmul *)a)->trans_a;
	case RLX_OP_layer_norm:
		return first && shape_axis(((const struct rlx_op_layer_norm *)a)->axis, x->rank);
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
		if (!shape_axis(((const struct rlx_op_gather *)a)->axis, x->rank))
			return !first && leads(p, lead, st->in[1]);
		return first;
	case RLX_OP_concat:
		return shape_axis(((const struct rlx_op_concat *)a)->axis, x->rank) &&
		       all_lead(p, st, lead);
	case RLX_OP_slice:
		return first && !has_axis_0(((const struct rlx_op_slice *)a)->axes, x->rank);
	case RLX_OP_reduce:
		return first && !has_axis_0(((const struct rlx_op_reduce *)a)->axes, x->rank);
	}
	return false;
}

/* Are the elements of output @k made side by side with those of output 0? */
static bool is_alike(const struct rlx_plan *p, const struct rlx_plan_step *st, uint32_t k)
{
	return st->def && st->def->index == RLX_OP_region &&
	       same_rows(type_of(p, st->out[k]), type_of(p, st->out[0]));
}

void rlx_extent_find(const struct rlx_plan *p, int64_t upper, uint8_t *lead)
{
	uint32_t i, k;

	memset(lead, 0, p->n_val);
	for (i = 0; i < p->n_io[RLX_IO_INPUT]; i++) {
		uint32_t v = p->io[RLX_IO_INPUT][i].val;
		const struct rlx_type *t = type_of(p, v);

		lead[v] = t->rank && t->dim[0] && t->dim[0] % upper == 0;
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

uint64_t rlx_extent_of(const struct rlx_exec *e, const uint8_t *lead, uint32_t v, uint64_t n)
{
	uint64_t upper = (uint64_t)e->upper;

	return e->extent && n % upper == 0 && leads(e->code->plan, lead, v) ?
	       n / upper * (uint64_t)e->extent : n;
}
