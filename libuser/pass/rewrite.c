// SPDX-License-Identifier: MIT
/* Copying a graph with changes. */
#include <string.h>

#include "base/alloc.h"
#include "pass/rewrite.h"

static void find_live(struct rlx_rewrite *rw)
{
	const struct rlx_graph *g = rw->old;
	uint32_t n, i;

	for (i = 0; i < g->io[RLX_IO_OUTPUT].n; i++) {
		uint32_t v = g->io[RLX_IO_OUTPUT].e[i].v.id;

		rw->live[g->val[v].node] = true;
		rw->uses[v]++;
	}
	for (n = g->n_node; n-- > 0;) {
		if (!rw->live[n])
			continue;
		for (i = 0; i < g->node[n].n_out && g->node[n].scope & RLX_SCOPE_SHARED; i++)
			rw->uses[g->node[n].out + i]++;
		for (i = 0; i < g->node[n].n_in; i++) {
			uint32_t v = g->node[n].in[i];

			if (!v)
				continue;
			rw->live[g->val[v].node] = true;
			rw->uses[v]++;
		}
	}
}

static void copy_leaf(struct rlx_rewrite *rw, enum rlx_io io)
{
	const struct rlx_named_list *l = &rw->old->io[io];
	uint32_t i;

	for (i = 0; i < l->n; i++) {
		const struct rlx_val *v = &rw->old->val[l->e[i].v.id];
		const struct rlx_node *n = &rw->old->node[v->node];

		rw->map[l->e[i].v.id] = rlx_leaf_at(rw->g, rlx_io_of(io, l->e[i].state),
						    l->e[i].name, v->type, n).id;
	}
}

enum rlx_status rlx_rewrite_begin(struct rlx_rewrite *rw, const struct rlx_graph *old,
				  struct rlx_error *err)
{
	*rw = (struct rlx_rewrite){ .old = old, .err = err };
	rw->g = rlx_graph_new(old->name);
	rw->map = rlx_calloc(old->n_val, sizeof(*rw->map));
	rw->uses = rlx_calloc(old->n_val, sizeof(*rw->uses));
	rw->live = rlx_calloc(old->n_node + 1, sizeof(*rw->live));
	if (!rw->g || !rw->map || !rw->uses || !rw->live || !rlx_scopes_copy(rw->g, old)) {
		rlx_free(rw->map);
		rlx_free(rw->uses);
		rlx_free(rw->live);
		rlx_graph_put(rw->g);
		return rlx_fail(err, RLX_ENOMEM, "graph '%s': out of memory in a pass",
				old->name);
	}
	find_live(rw);
	copy_leaf(rw, RLX_IO_INPUT);
	copy_leaf(rw, RLX_IO_PARAM);
	return RLX_OK;
}

rlx_value rlx_rewrite_value(const struct rlx_rewrite *rw, uint32_t old_value)
{
	return (rlx_value){ rw->map[old_value] };
}

void rlx_rewrite_set(struct rlx_rewrite *rw, uint32_t v, rlx_value with)
{
	rw->map[v] = with.id;
	rw->changed = true;
	if (with.id && rlx_node_of(rw->old, v)->scope & RLX_SCOPE_SHARED)
		rw->g->node[rw->g->val[with.id].node].scope |= RLX_SCOPE_SHARED;
}

void rlx_rewrite_copy(struct rlx_rewrite *rw, uint32_t n)
{
	rlx_rewrite_copy_with(rw, n, rw->old->node[n].args);
}

void rlx_rewrite_copy_with(struct rlx_rewrite *rw, uint32_t n, const void *args)
{
	const struct rlx_node *node = &rw->old->node[n];
	uint32_t small[16], *in = small, i;
	rlx_value v;

	if (node->def->index == RLX_OP_input || node->def->index == RLX_OP_param ||
	    rw->g->err.status)
		return;
	if (node->n_in > 16)
		in = rlx_malloc(node->n_in * sizeof(*in));
	if (!in) {
		rlx_fail(&rw->g->err, RLX_ENOMEM, "out of memory in a pass");
		return;
	}
	for (i = 0; i < node->n_in; i++)
		in[i] = rw->map[node->in[i]];
	v = rlx_node_new(rw->g, node->def, args, in, node->n_in, node);
	for (i = 0; v.id && i < node->n_out; i++)
		rw->map[node->out + i] = v.id + i;
	rw->changed |= args != node->args;
	if (in != small)
		rlx_free(in);
}

enum rlx_status rlx_rewrite_end(struct rlx_rewrite *rw, struct rlx_graph **out)
{
	const struct rlx_named_list *l = &rw->old->io[RLX_IO_OUTPUT];
	enum rlx_status st;
	bool dead = false;
	uint32_t i;

	for (i = 0; i < rw->old->n_node; i++)
		dead = dead || (!rw->live[i] && rw->old->node[i].def->index != RLX_OP_input &&
				rw->old->node[i].def->index != RLX_OP_param);
	for (i = 0; i < l->n && !rw->outputs_made; i++)
		rlx_output(rw->g, l->e[i].name, rlx_rewrite_value(rw, l->e[i].v.id));
	st = rlx_graph_error(rw->g)->status;
	if (!st && (rw->changed || dead))
		st = rlx_graph_finish(rw->g);
	if (st) {
		const struct rlx_error *e = rlx_graph_error(rw->g);

		rlx_error_set(rw->err, st, e->file, e->line, "%s", e->text);
	} else if (rw->changed || dead) {
		*out = rlx_graph_get(rw->g);
	}
	rlx_graph_put(rw->g);
	rlx_free(rw->map);
	rlx_free(rw->uses);
	rlx_free(rw->live);
	return st;
}
