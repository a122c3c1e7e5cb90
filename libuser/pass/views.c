// SPDX-License-Identifier: MIT
/*
 * Simplify reshapes, views, transposes, casts, slices and expansions: those that change
 * nothing go, two in a row become one, and a transpose that only moves
 * dimensions of size 1 becomes a reshape, which costs nothing.
 */
#include <string.h>

#include "base/shape.h"
#include "pass/pass.h"

rlx_pass_fn rlx_pass_views;

/* The node of the new graph that makes the new value of old value @v. */
static const struct rlx_node *maker(const struct rlx_rewrite *rw, uint32_t v)
{
	return rlx_node_of(rw->g, rw->map[v]);
}

static uint32_t perm_at(const struct rlx_op_transpose *a, uint32_t rank, uint32_t i)
{
	return a->perm.n ? (uint32_t)a->perm.v[i] : rank - 1 - i;
}

/* Does the order of dimensions over 1 stay? */
static bool keeps_order(const struct rlx_op_transpose *a, const struct rlx_type *x)
{
	uint32_t i, p, last = 0;
	bool any = false;

	for (i = 0; i < x->rank; i++) {
		p = perm_at(a, x->rank, i);
		if (x->dim[p] == 1)
			continue;
		if (any && p < last)
			return false;
		last = p;
		any = true;
	}
	return true;
}

static rlx_value simpler_transpose(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	const struct rlx_op_transpose *a = n->args, *b;
	const struct rlx_node *below = maker(rw, n->in[0]);
	const struct rlx_type *y = &rw->old->val[n->out].type;
	struct rlx_type x = rw->old->val[n->in[0]].type;
	int64_t perm[RLX_MAX_RANK];
	uint32_t i;

	if (keeps_order(a, &x))
		return rlx_emit(rw->g, reshape, .x = rlx_rewrite_value(rw, n->in[0]),
				.shape = { y->dim, y->rank });
	if (below->def->index != RLX_OP_transpose)
		return RLX_NONE;
	b = below->args;
	for (i = 0; i < x.rank; i++)
		perm[i] = perm_at(b, x.rank, perm_at(a, x.rank, i));
	return rlx_emit(rw->g, transpose, .x = { below->in[0] }, .perm = { perm, x.rank });
}

static rlx_value simpler_reshape(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	const struct rlx_node *below = maker(rw, n->in[0]);
	const struct rlx_type *y = &rw->old->val[n->out].type;

	if (below->def->index != RLX_OP_reshape)
		return RLX_NONE;
	if (rlx_type_equal(&rw->g->val[below->in[0]].type, y))
		return (rlx_value){ below->in[0] };
	return rlx_emit(rw->g, reshape, .x = { below->in[0] }, .shape = { y->dim, y->rank });
}

/* A view back of what is, but for its shape, the view @other of something. */
static rlx_value back(struct rlx_rewrite *rw, const struct rlx_node *n, uint16_t other)
{
	const struct rlx_node *below = maker(rw, n->in[0]);
	const struct rlx_type *y = &rw->old->val[n->out].type;

	if (below->def->index == RLX_OP_reshape)
		below = rlx_node_of(rw->g, below->in[0]);
	if (below->def->index != other)
		return RLX_NONE;
	if (rlx_type_equal(&rw->g->val[below->in[0]].type, y))
		return (rlx_value){ below->in[0] };
	return rlx_emit(rw->g, reshape, .x = { below->in[0] }, .shape = { y->dim, y->rank });
}

static bool forward(const struct rlx_op_slice *a)
{
	uint32_t i;

	for (i = 0; i < a->steps.n; i++)
		if (a->steps.v[i] < 1)
			return false;
	return true;
}

static rlx_value simpler(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	uint32_t v = n->n_in ? n->in[0] : 0;
	rlx_value x = v ? rlx_rewrite_value(rw, v) : RLX_NONE;
	const struct rlx_type *in = rlx_type_of(rw->g, x);
	const struct rlx_type *out = &rw->old->val[n->out].type;

	switch (n->def->index) {
	case RLX_OP_reshape:
		return rlx_type_equal(in, out) ? x : simpler_reshape(rw, n);
	case RLX_OP_transpose:
		return simpler_transpose(rw, n);
	case RLX_OP_view_as_real:
		return back(rw, n, RLX_OP_view_as_complex);
	case RLX_OP_view_as_complex:
		return back(rw, n, RLX_OP_view_as_real);
	case RLX_OP_expand:
	case RLX_OP_cast:
	case RLX_OP_tile:
		return rlx_type_equal(in, out) ? x : RLX_NONE;
	case RLX_OP_slice:	/* all of it, in order */
		return rlx_type_equal(in, out) && forward(n->args) ? x : RLX_NONE;
	case RLX_OP_concat:
		return n->n_in == 1 ? x : RLX_NONE;
	}
	return RLX_NONE;
}

/* Drop an expansion whose readers all broadcast; shapes then follow. */
static void mark_uses(const struct rlx_graph *g, uint8_t *other_use)
{
	uint32_t n, k;

	for (k = 0; k < g->io[RLX_IO_OUTPUT].n; k++)
		other_use[g->io[RLX_IO_OUTPUT].e[k].v.id] = 1;
	for (n = 0; n < g->n_node; n++) {
		const struct rlx_node *v = &g->node[n];
		bool pointwise = v->def->traits & RLX_T_ELEMENTWISE && v->n_in > 1;

		for (k = 0; k < v->n_in; k++) {
			struct rlx_type alone = { 0 };
			uint32_t j;

			/* the others must give the full shape without it */
			for (j = 0; pointwise && j < v->n_in; j++)
				if (j != k && v->in[j] != v->in[k] &&
				    shape_same(&g->val[v->in[j]].type, &g->val[v->out].type) &&
				    rlx_node_of(g, v->in[j])->def->index != RLX_OP_expand)
					alone = g->val[v->in[j]].type;
			if (!alone.dtype)
				other_use[v->in[k]] = 1;
		}
	}
}

enum rlx_status rlx_pass_views(struct rlx_pass_ctx *c, struct rlx_graph *g,
			       struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);
	uint8_t *other_use;
	uint32_t n;

	if (st)
		return st;
	other_use = rlx_bump_new(&rw.g->bump, g->n_val, 1);
	if (!other_use) {
		rlx_fail(&rw.g->err, RLX_ENOMEM, "views: out of memory");
		return rlx_rewrite_end(&rw, out);
	}
	mark_uses(g, other_use);
	for (n = 0; n < g->n_node && !rw.g->err.status; n++) {
		const struct rlx_node *node = &g->node[n];
		rlx_value v;

		if (!rlx_rewrite_live(&rw, n))
			continue;
		if (node->def->index == RLX_OP_stop_gradient ||
		    (node->def->index == RLX_OP_expand &&
		     !other_use[node->out]))	/* its readers broadcast by themselves */
			v = rlx_rewrite_value(&rw, node->in[0]);
		else
			v = simpler(&rw, node);
		if (v.id)
			rlx_rewrite_set(&rw, node->out, v);
		else
			rlx_rewrite_copy(&rw, n);
	}
	return rlx_rewrite_end(&rw, out);
}
