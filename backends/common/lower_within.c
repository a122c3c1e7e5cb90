// SPDX-License-Identifier: MIT
/* Inputs and outputs that are parts of others, as far as kernels may go there instead. */
#include "backends/common/lower.h"
#include "ops/slice_axis.h"

/* Does no step but one write the storage of @v, which is the run's own? */
static bool is_written_once(const struct rlx_plan *p, uint32_t v)
{
	uint32_t root = p->val[v].root, s, k, n = 0;

	for (s = 0; s < p->n_step; s++)
		for (k = 0; k < p->step[s].n_out; k++)
			n += p->val[p->step[s].out[k]].root == root;
	return n == 1 && p->val[root].place.kind == RLX_PLACE_WORK;
}

static int64_t last_dim(const struct rlx_type *t)
{
	return t->rank ? t->dim[t->rank - 1] : 1;
}

/* The step that makes @v before the one that is lowered; NULL: none. */
static const struct rlx_plan_step *maker_of(const struct rlx_lower *lo, uint32_t v)
{
	const struct rlx_plan_step *s = lo->st;

	while (s-- > lo->plan->step)
		if (s->n_out == 1 && s->out[0] == v)
			return s;
	return NULL;
}

bool rlx_lower_slice_run(const struct rlx_plan *p, const struct rlx_plan_step *st,
			 uint64_t *out_off)
{
	const struct rlx_type *x = &p->val[st->in[0]].type;
	struct op_slice_axis r[RLX_MAX_RANK];
	bool part = false;	/* of an axis behind this one: it may have 1 alone */
	int64_t at = 0, each = 1;
	uint32_t d;

	op_slice_axes(st->args, x, r);
	for (d = x->rank; d-- > 0;) {
		if (!r[d].n || (r[d].n > 1 && (r[d].step != 1 || part)))
			return false;
		part = part || r[d].n != x->dim[d];
		at += r[d].start * each;
		each *= x->dim[d];
	}
	*out_off = (uint64_t)at * rlx_dtype_size(x->dtype);
	return true;
}

/* What input @k is a slice of, in one run of bytes or, if not @run, along its last axis. */
static uint32_t slice_along(struct rlx_lower *lo, uint32_t k, bool run, uint64_t *out_off)
{
	const struct rlx_plan *p = lo->plan;
	struct op_slice_axis r[RLX_MAX_RANK];
	const struct rlx_plan_step *s;
	const struct rlx_type *x;
	uint32_t d, ax;

	if (!lo->ops->may_read || lo->trial || k >= lo->st->n_in || !lo->st->in[k])
		return 0;
	s = maker_of(lo, lo->st->in[k]);
	if (!s || !s->def || s->def->index != RLX_OP_slice || s->once ||
	    !is_written_once(p, s->in[0]) || !lo->ops->may_read(lo, s->in[0]))
		return 0;
	x = &p->val[s->in[0]].type;
	if (run)
		return rlx_lower_slice_run(p, s, out_off) ? s->in[0] : 0;
	op_slice_axes(s->args, x, r);
	ax = x->rank ? x->rank - 1 : 0;
	for (d = 0; d < x->rank; d++)
		if (r[d].step != 1 || (d != ax && r[d].n != x->dim[d]))
			return 0;
	*out_off = x->rank ? (uint64_t)r[ax].start * rlx_dtype_size(x->dtype) : 0;
	return s->in[0];
}

uint32_t rlx_lower_slice_of(struct rlx_lower *lo, uint32_t k, uint64_t *out_off)
{
	return slice_along(lo, k, false, out_off);
}

void rlx_lower_ref_rows(struct rlx_lower *lo, void *field, uint32_t k)
{
	uint64_t off = 0;
	uint32_t v = slice_along(lo, k, true, &off);

	if (v)
		rlx_lower_ref_add(lo, field, (struct rlx_ref){ .val = v, .off = off,
							       .access = RLX_READ });
	else
		rlx_lower_ref_in(lo, field, k, 0);
}

uint32_t rlx_lower_part_of(const struct rlx_lower *lo, uint32_t k, uint64_t *out_off)
{
	const struct rlx_plan *p = lo->plan;
	const struct rlx_plan_step *s, *by = NULL;
	uint32_t v = lo->st->out[k], i, n = 0;
	const struct rlx_type *y;
	int64_t at = 0;

	if (!lo->lies_in || lo->trial || p->val[v].root != v ||
	    p->val[v].place.kind != RLX_PLACE_WORK)
		return 0;
	for (s = p->step; s < p->step + p->n_step; s++)
		for (i = 0; i < s->n_in; i++)
			if (s->in[i] && p->val[s->in[i]].root == v) {
				n++;
				by = s;
			}
	if (n != 1 || !by->def || by->def->index != RLX_OP_concat || by->once ||
	    !is_written_once(p, by->out[0]) || p->val[by->out[0]].root != by->out[0])
		return 0;
	y = &p->val[by->out[0]].type;
	if (shape_axis(((const struct rlx_op_concat *)by->args)->axis, y->rank) + 1 != y->rank)
		return 0;
	/* what is joined may be a view of it, whose last axis is another */
	for (i = 0; i < by->n_in && by->in[i] != v; i++)
		at += last_dim(&p->val[by->in[i]].type);
	if (i == by->n_in)
		return 0;
	*out_off = (uint64_t)at * rlx_dtype_size(y->dtype);
	return by->out[0];
}
