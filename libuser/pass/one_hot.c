// SPDX-License-Identifier: MIT
/*
 * A scatter of one update a line into zeros, whose readers are pointwise, becomes the update where
 * the coordinate equals the index and 0 elsewhere: that is part of a region, while the zeros and
 * what is scattered to them are tensors of their own, of a loss's gradient as wide as its classes.
 * A comparison finds no index out of range, so another op must look at the indices as well: the
 * gather whose gradient this is.
 */
#include "ir/match.h"
#include "ops/emit.h"
#include "pass/pass.h"

rlx_pass_fn rlx_pass_one_hot;

/* Do pointwise ops alone read value @v? */
static bool is_read_pointwise(const struct rlx_rewrite *rw, uint32_t v)
{
	const struct rlx_graph *g = rw->old;
	uint32_t n, k, readers = 0;

	for (n = 0; n < g->n_node; n++)
		for (k = 0; rw->live[n] && k < g->node[n].n_in; k++)
			if (g->node[n].in[k] == v) {
				readers++;
				if (!(g->node[n].def->traits & RLX_T_ELEMENTWISE))
					return false;
			}
	return readers == rw->uses[v];		/* else it is an output */
}

/* Does a gather along axis @ax fail for those of @indices that are outside of @dim? */
static bool is_looked_at(const struct rlx_rewrite *rw, uint32_t indices, uint32_t ax, int64_t dim)
{
	const struct rlx_graph *g = rw->old;
	const struct rlx_op_gather_elements *a;
	const struct rlx_type *x;
	uint32_t n, own;

	for (n = 0; n < g->n_node; n++) {
		if (!rw->live[n] || g->node[n].def->index != RLX_OP_gather_elements ||
		    g->node[n].in[1] != indices)
			continue;
		a = g->node[n].args;
		x = &g->val[g->node[n].in[0]].type;
		if (op_axis(a->axis, x->rank, &own) && own == ax && x->dim[ax] == dim)
			return true;
	}
	return false;
}

/* Into zeros, each line along @ax of the result getting one update. */
static bool is_one_hot(const struct rlx_graph *g, const struct rlx_node *n, uint32_t ax)
{
	const struct rlx_op_scatter_elements *a = n->args;
	const struct rlx_type *y = &g->val[n->out].type, *idx = &g->val[n->in[1]].type;
	double zero;
	uint32_t i;

	if ((a->reduction != RLX_SCATTER_ADD && a->reduction != RLX_SCATTER_NONE) ||
	    !rlx_dtype_is_float(y->dtype) || y->dim[ax] > INT32_MAX ||
	    !rlx_value_scalar(g, n->in[0], &zero) || zero != 0)
		return false;
	for (i = 0; i < y->rank; i++)
		if (idx->dim[i] != (i == ax ? 1 : y->dim[i]))
			return false;
	return true;
}

/*
 * Is the coordinate along @ax of a tensor of type @y index @idx, i32? In f32 where that tells all
 * coordinates apart, as regions of floats take no comparison of integers in; an index beyond them
 * is rounded to none of them.
 */
static rlx_value is_at(struct rlx_graph *g, const struct rlx_type *y, uint32_t ax, rlx_value idx)
{
	const bool exact = y->dim[ax] <= 1 << 24;
	struct rlx_type at = { .dtype = exact ? RLX_F32 : RLX_I32, .rank = y->rank };
	rlx_value v;
	uint32_t i;

	for (i = 0; i < y->rank; i++)
		at.dim[i] = i == ax ? y->dim[ax] : 1;
	rlx_scope_begin(g, RLX_SCOPE_AS_WRITTEN);	/* 16 bits tell few of them apart */
	v = rlx_emit(g, eq, .a = rlx_emit(g, iota, .type = at, .axis = (int32_t)ax),
		     .b = op_cast(g, idx, at.dtype));
	rlx_scope_end(g);
	return v;
}

static rlx_value compared(struct rlx_rewrite *rw, const struct rlx_node *n, uint32_t ax)
{
	const struct rlx_type *y = &rw->old->val[n->out].type;
	const bool is_signed = rw->old->val[n->in[1]].type.dtype != RLX_U32;
	rlx_value idx = op_cast(rw->g, rlx_rewrite_value(rw, n->in[1]), RLX_I32);
	struct rlx_graph *g = rw->g;

	if (is_signed)		/* it may be counted from the end */
		idx = rlx_emit(g, where, .a = op_add_const(g, idx, (double)y->dim[ax]), .b = idx,
			       .cond = rlx_emit(g, lt, .a = idx, .b = op_const_like(g, idx, 0)));
	return rlx_emit(g, where, .a = rlx_rewrite_value(rw, n->in[2]),
			.b = rlx_scalar_const(g, y->dtype, 0), .cond = is_at(g, y, ax, idx));
}

enum rlx_status rlx_pass_one_hot(struct rlx_pass_ctx *c, struct rlx_graph *g,
				 struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);
	uint32_t n, ax;

	if (st)
		return st;
	for (n = 0; n < g->n_node && !rw.g->err.status; n++) {
		const struct rlx_node *node = &g->node[n];
		const struct rlx_op_scatter_elements *a = node->args;
		const struct rlx_type *y = &g->val[node->out].type;

		if (!rlx_rewrite_live(&rw, n))
			continue;
		if (node->def->index == RLX_OP_scatter_elements && op_axis(a->axis, y->rank, &ax) &&
		    is_one_hot(g, node, ax) && is_looked_at(&rw, node->in[1], ax, y->dim[ax]) &&
		    is_read_pointwise(&rw, node->out))
			rlx_rewrite_set(&rw, node->out, compared(&rw, node, ax));
		else
			rlx_rewrite_copy(&rw, n);
	}
	return rlx_rewrite_end(&rw, out);
}
