// SPDX-License-Identifier: MIT
/*
 * Fusion: wherever a fused op's declared pattern (struct rlx_pattern in its op
 * file, syntax in ir/match.h) matches, the fused op takes the place of the
 * match. Roots are tried from the last node back, so that the largest match
 * around a node is found before a smaller one inside it.
 */
#include <string.h>

#include "base/alloc.h"
#include "ir/match.h"
#include "pass/pass.h"

rlx_pass_fn rlx_pass_fuse;

struct plan {
	const struct rlx_op_def	*def;	/* NULL: copy the node */
	void			*args;
};

static void index_roots(const struct rlx_op_def *def, const struct rlx_pattern *p,
			uint8_t *has)
{
	char name[64];
	size_t n;

	for (; p && p->text; p++) {
		const char *s = p->text, *colon = strchr(s, ':'), *open = strchr(s, '(');
		const struct rlx_op_def *root;

		if (colon && open && colon < open)
			s = colon + 1;
		n = open ? (size_t)(open - s) : 0;
		if (!n || n >= sizeof(name))
			continue;
		root = rlx_op_find(s, n);
		if (root)
			has[root->index] = 1;
	}
	(void)def;
}

/* Is every node of the match still free, and is the result of the root's type? */
static bool free_and_typed(const struct rlx_match *m, const uint8_t *taken,
			   const struct rlx_op_def *def, void *args)
{
	const struct rlx_type *types[RLX_MAX_FIELDS];
	struct rlx_error quiet = { 0 };
	struct rlx_infer q = { .err = &quiet, .def = def, .args = args, .in = types };
	unsigned int i;

	for (i = 0; i < m->n_node; i++)
		if (taken[m->node[i]])
			return false;
	for (i = 0; i < def->n_field; i++) {
		const struct rlx_field *f = &def->field[i];

		if (f->role == RLX_FIELD_IN || f->role == RLX_FIELD_OPT)
			types[q.n_in++] = rlx_type_of(m->g, *(rlx_value *)rlx_field_ptr(f, args));
	}
	return !rlx_args_resolve(def, args, &quiet) && !rlx_op_infer(&q) &&
	       rlx_type_equal(&q.out[0], &m->g->val[m->g->node[m->root].out].type);
}

/* Try all patterns of all ops on one root; the first that fits wins. */
static bool try_root(struct rlx_pass_ctx *c, const struct rlx_rewrite *rw, uint32_t n,
		     uint8_t *taken, struct plan *plan)
{
	struct rlx_match m;
	unsigned int d, i;

	for (d = 0; d < rlx_op_count; d++) {
		const struct rlx_op_def *def = rlx_op_defs[d];
		const struct rlx_pattern *p = def->impl->pattern;

		for (; p && p->text; p++) {
			void *args;

			if (!rlx_match_try(&m, rw->old, rw->uses, n, p->text))
				continue;
			args = rlx_calloc(1, def->args_size);
			if (!args) {
				rlx_fail(&rw->g->err, RLX_ENOMEM, "fuse: out of memory");
				return false;
			}
			if (!p->accept(&m, args) || !free_and_typed(&m, taken, def, args)) {
				rlx_free(args);
				continue;
			}
			for (i = 0; i < m.n_node; i++)
				taken[m.node[i]] = 1;
			*plan = (struct plan){ def, args };
			return true;
		}
	}
	return false;
}

/* Emit the fused op with its inputs mapped into the new graph. */
static void emit(struct rlx_rewrite *rw, uint32_t n, const struct plan *plan)
{
	const struct rlx_node *node = &rw->old->node[n];
	uint32_t in[RLX_MAX_FIELDS], k = 0, i;
	rlx_value v;

	for (i = 0; i < plan->def->n_field; i++) {
		const struct rlx_field *f = &plan->def->field[i];

		if (f->role == RLX_FIELD_IN || f->role == RLX_FIELD_OPT)
			in[k++] = rw->map[((rlx_value *)rlx_field_ptr(f, plan->args))->id];
	}
	v = rlx_node_new(rw->g, plan->def, plan->args, in, k, node);
	rlx_rewrite_set(rw, node->out, v);
}

enum rlx_status rlx_pass_fuse(struct rlx_pass_ctx *c, struct rlx_graph *g,
			      struct rlx_graph **out)
{
	uint8_t has[RLX_OP_COUNT] = { 0 };
	unsigned int fused[RLX_OP_COUNT] = { 0 }, d;
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);
	uint8_t *taken = rlx_calloc(g->n_node + 1, 1);
	struct plan *plan = rlx_calloc(g->n_node + 1, sizeof(*plan));
	uint32_t n;

	if (st)
		goto out_free;
	if (!taken || !plan) {
		rlx_fail(&rw.g->err, RLX_ENOMEM, "fuse: out of memory");
		st = rlx_rewrite_end(&rw, out);
		goto out_free;
	}
	for (d = 0; d < rlx_op_count; d++)
		index_roots(rlx_op_defs[d], rlx_op_defs[d]->impl->pattern, has);
	for (n = g->n_node; n-- > 0;)
		if (rlx_rewrite_live(&rw, n) && !taken[n] && has[g->node[n].def->index] &&
		    try_root(c, &rw, n, taken, &plan[n]))
			fused[plan[n].def->index]++;
	for (n = 0; n < g->n_node; n++) {
		if (plan[n].def)
			emit(&rw, n, &plan[n]);
		else if (rlx_rewrite_live(&rw, n) && !taken[n])
			rlx_rewrite_copy(&rw, n);
		rlx_free(plan[n].args);
	}
	st = rlx_rewrite_end(&rw, out);
	for (d = 0; c->report && d < rlx_op_count; d++)
		if (fused[d])
			fprintf(c->report, "fused %u into %s\n", fused[d], rlx_op_defs[d]->name);
out_free:
	rlx_free(plan);
	rlx_free(taken);
	return st;
}
