// SPDX-License-Identifier: MIT
/*
 * A narrowing cast behind an op that can write any dtype (its attribute out_dtype) becomes
 * the op's own: what it sums is rounded once either way, and the wide result is neither
 * written nor read. Ops that only move elements may stand between the two, and maxima over
 * windows, as what is rounded keeps its order.
 */
#include <string.h>

#include "base/alloc.h"
#include "pass/legal.h"

rlx_pass_fn rlx_pass_cast_out;

static const struct rlx_field *out_dtype_of(const struct rlx_op_def *def)
{
	uint32_t i;

	for (i = 0; i < def->n_field; i++)
		if (!strcmp(def->field[i].name, "out_dtype"))
			return &def->field[i];
	return NULL;
}

/* Is rounding to @to all that happens to a value of @from? f32 holds what 16 bits sum. */
static bool only_rounds(enum rlx_dtype from, enum rlx_dtype to)
{
	return (from == RLX_F32 || from == RLX_F64) && rlx_dtype_is_float(to) &&
	       rlx_dtype_size(to) > 1 && rlx_dtype_size(to) < rlx_dtype_size(from);
}

/* Does the target run it on rounded elements, and give the rounded ones of what it gave? */
static bool rounds_before(const struct rlx_legal *l, const struct rlx_node *n, enum rlx_dtype to)
{
	const struct rlx_op_pool *a = n->args;

	if (n->def->index == RLX_OP_pool)
		return a->kind == RLX_POOL_MAX && !a->indices &&
		       rlx_legal_as(l, n, NULL, (enum rlx_dtype[RLX_LEGAL_INPUTS]){ to });
	return n->n_in == 1 && n->def->traits & (RLX_T_VIEW | RLX_T_MOVE) &&
	       l->g->val[n->in[0]].type.dtype == l->g->val[n->out].type.dtype;
}

/* What is rounded by @cast alone, past such ops; 0: something else reads it too. */
static uint32_t rounded_value(const struct rlx_legal *l, const struct rlx_rewrite *rw,
			      const struct rlx_node *cast)
{
	enum rlx_dtype to = ((const struct rlx_op_cast *)cast->args)->to;
	const struct rlx_graph *g = rw->old;
	uint32_t v = cast->in[0];

	for (;;) {
		const struct rlx_node *n = rlx_node_of(g, v);

		if (rw->uses[v] != 1)
			return 0;
		if (!rounds_before(l, n, to))
			return v;
		v = n->in[0];
	}
}

/* The args with which @n writes @to; NULL: it may not. */
static void *writing(const struct rlx_legal *l, struct rlx_rewrite *rw, const struct rlx_node *n,
		     enum rlx_dtype to)
{
	const struct rlx_field *f = out_dtype_of(n->def);
	void *args;

	if (!l->c->target.dev || !f)
		return NULL;
	args = rlx_malloc(n->def->args_size);
	if (!args) {
		rlx_fail(&rw->g->err, RLX_ENOMEM, "cast_out: out of memory");
		return NULL;
	}
	memcpy(args, n->args, n->def->args_size);
	*(int32_t *)rlx_field_ptr(f, args) = (int32_t)to;
	if (rlx_legal_as(l, n, args, NULL))
		return args;
	rlx_free(args);
	return NULL;
}

static enum rlx_dtype cast_to(const struct rlx_graph *g, uint32_t n)
{
	return ((const struct rlx_op_cast *)g->node[n].args)->to;
}

/*
 * Is all that @args change of @n's results what a cast to @to does to each alone? Those casts
 * are @gone then. @cast: per value the one that rounds it, or 0.
 */
static bool take_casts(const struct rlx_rewrite *rw, const struct rlx_node *n, const void *args,
		       enum rlx_dtype to, const uint32_t *cast, bool *gone)
{
	const struct rlx_graph *g = rw->old;
	const struct rlx_type *in[RLX_LEGAL_INPUTS];
	struct rlx_error quiet = { 0 };
	struct rlx_infer q = { .err = &quiet, .def = n->def, .args = args, .n_in = n->n_in,
			       .in = in, .n_out = 1 };
	uint32_t mine[RLX_MAX_OUT], n_mine = 0, k;

	for (k = 0; k < n->n_in; k++)
		in[k] = n->in[k] ? &g->val[n->in[k]].type : NULL;
	if (rlx_op_infer(&q) || q.n_out != n->n_out)
		return false;
	for (k = 0; k < n->n_out; k++) {
		uint32_t v = n->out + k;

		if (q.out[k].dtype == g->val[v].type.dtype || !rw->uses[v])
			continue;
		if (!cast[v] || cast_to(g, cast[v]) != to)
			return false;
		mine[n_mine++] = cast[v];
	}
	for (k = 0; k < n_mine; k++)
		gone[mine[k]] = true;
	return n_mine > 0;
}

static void find(const struct rlx_legal *l, struct rlx_rewrite *rw, void **args, uint32_t *cast,
		 bool *gone)
{
	const struct rlx_graph *g = rw->old;
	uint32_t n, v, k;

	for (n = 0; n < g->n_node; n++) {
		if (!rw->live[n] || g->node[n].def->index != RLX_OP_cast)
			continue;
		v = rounded_value(l, rw, &g->node[n]);
		if (only_rounds(g->val[v].type.dtype, cast_to(g, n)))
			cast[v] = n;
	}
	for (n = 0; n < g->n_node && !rw->g->err.status; n++) {
		const struct rlx_node *p = &g->node[n];
		enum rlx_dtype to;

		for (k = 0; k < p->n_out && !cast[p->out + k]; k++)
			;
		if (!rw->live[n] || k == p->n_out)
			continue;
		to = cast_to(g, cast[p->out + k]);
		args[n] = writing(l, rw, p, to);
		if (args[n] && !take_casts(rw, p, args[n], to, cast, gone)) {
			rlx_free(args[n]);
			args[n] = NULL;
		}
	}
}

enum rlx_status rlx_pass_cast_out(struct rlx_pass_ctx *c, struct rlx_graph *g,
				  struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	struct rlx_legal legal;
	enum rlx_status st = rlx_legal_begin(&legal, c, g);
	void **args = rlx_calloc(g->n_node + 1, sizeof(*args));	/* of ops that write a cast's */
	bool *gone = rlx_calloc(g->n_node + 1, sizeof(*gone));
	uint32_t *cast = rlx_calloc(g->n_val + 1, sizeof(*cast));	/* node 0 is none */
	uint32_t n;

	if (!st)
		st = rlx_rewrite_begin(&rw, g, c->err);
	if (st)
		goto out;
	if (args && gone && cast)
		find(&legal, &rw, args, cast, gone);
	else
		rlx_fail(&rw.g->err, RLX_ENOMEM, "cast_out: out of memory");
	/* what stands between follows the dtype that it is given */
	for (n = 0; n < g->n_node && !rw.g->err.status; n++) {
		if (!rlx_rewrite_live(&rw, n))
			continue;
		if (gone[n])
			rlx_rewrite_set(&rw, g->node[n].out,
					rlx_rewrite_value(&rw, g->node[n].in[0]));
		else if (args[n])
			rlx_rewrite_copy_with(&rw, n, args[n]);
		else
			rlx_rewrite_copy(&rw, n);
	}
	for (n = 0; args && n < g->n_node; n++)
		rlx_free(args[n]);
	st = rlx_rewrite_end(&rw, out);
out:
	rlx_legal_end(&legal);
	rlx_free(args);
	rlx_free(gone);
	rlx_free(cast);
	return st;
}
