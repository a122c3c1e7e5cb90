// SPDX-License-Identifier: MIT
/*
 * Replace ops that the target cannot run natively by what they stand for, until
 * every op is one it can run, one the host can, or one with no simpler form.
 */
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "pass/legal.h"

rlx_pass_fn rlx_pass_expand, rlx_pass_inline_calls;

/* An op that expands into itself would never end; calls do, as no graph is inside itself. */
enum { MAX_ROUNDS = 16, ALL_CALLS = INT_MAX };

static bool must_expand(void *ctx, const struct rlx_node *n)
{
	enum rlx_dtype to[RLX_LEGAL_INPUTS];

	/* the reference runs everything that has .eval */
	return rlx_legal(ctx, n, to) == RLX_LEGAL_NONE;
}

static bool is_call(void *ctx, const struct rlx_node *n)
{
	(void)ctx;
	return n->def->index == RLX_OP_call;
}

static void expand_node(struct rlx_rewrite *rw, uint32_t idx, rlx_value *v,
			struct rlx_type *types)
{
	const struct rlx_node *n = &rw->old->node[idx];
	struct rlx_expand q = {
		.g = rw->g, .def = n->def, .args = n->args, .n_in = n->n_in,
		.n_out = n->n_out, .in = v, .out = v + n->n_in, .out_type = types,
	};
	uint32_t i;

	for (i = 0; i < n->n_in; i++)
		v[i] = rlx_rewrite_value(rw, n->in[i]);
	for (i = 0; i < n->n_out; i++) {
		types[i] = rw->old->val[n->out + i].type;
		q.out[i] = RLX_NONE;
	}
	rlx_expand_op(&q, n->def->impl->expand);
	for (i = 0; i < n->n_out; i++)
		rlx_rewrite_set(rw, n->out + i, q.out[i]);
}

enum rlx_status rlx_expand_once(const struct rlx_graph *g, rlx_expand_fn *must, void *ctx,
				struct rlx_graph **out, struct rlx_error *err)
{
	struct rlx_type *out_types;
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, err);
	uint32_t n, most = 1;
	rlx_value *v;

	if (st)
		return st;
	for (n = 0; n < g->n_node; n++)
		if (g->node[n].n_in + g->node[n].n_out > most)
			most = g->node[n].n_in + g->node[n].n_out;
	out_types = rlx_calloc(most, sizeof(*out_types));
	v = rlx_calloc(most, sizeof(*v));
	if (!v || !out_types)
		rlx_fail(&rw.g->err, RLX_ENOMEM, "expand: out of memory");
	for (n = 0; n < g->n_node && !rw.g->err.status; n++) {
		if (!rlx_rewrite_live(&rw, n))
			continue;
		if (g->node[n].def->impl->expand && must(ctx, &g->node[n]))
			expand_node(&rw, n, v, out_types);
		else
			rlx_rewrite_copy(&rw, n);
	}
	rlx_free(out_types);
	rlx_free(v);
	return rlx_rewrite_end(&rw, out);
}

static enum rlx_status one_round(struct rlx_pass_ctx *c, rlx_expand_fn *must, struct rlx_graph *g,
				 struct rlx_graph **out)
{
	struct rlx_legal legal;
	enum rlx_status st = rlx_legal_begin(&legal, c, g);

	if (!st)
		st = rlx_expand_once(g, must, &legal, out, c->err);
	rlx_legal_end(&legal);
	return st;
}

static enum rlx_status all_rounds(struct rlx_pass_ctx *c, rlx_expand_fn *must, int most,
				  struct rlx_graph *g, struct rlx_graph **out)
{
	struct rlx_graph *cur = g, *next;
	enum rlx_status st;
	int i;

	for (i = 0; i < most; i++) {
		next = NULL;
		st = one_round(c, must, cur, &next);
		if (st || !next)
			break;
		if (cur != g)
			rlx_graph_put(cur);
		cur = next;
	}
	if (cur != g && !st)
		*out = cur;
	else if (cur != g)
		rlx_graph_put(cur);
	if (!st && i == most)
		st = rlx_fail(c->err, RLX_EBUG, "expand: no end after %d rounds", most);
	return st;
}

enum rlx_status rlx_pass_expand(struct rlx_pass_ctx *c, struct rlx_graph *g,
				struct rlx_graph **out)
{
	return all_rounds(c, must_expand, MAX_ROUNDS, g, out);
}

/* First of all, so that the others see what is in a call. */
enum rlx_status rlx_pass_inline_calls(struct rlx_pass_ctx *c, struct rlx_graph *g,
				      struct rlx_graph **out)
{
	uint32_t n;

	for (n = 0; n < g->n_node; n++)
		if (is_call(NULL, &g->node[n]))
			return all_rounds(c, is_call, ALL_CALLS, g, out);
	return RLX_OK;
}
