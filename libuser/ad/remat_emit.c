// SPDX-License-Identifier: MIT
/*
 * A backward pass with what it computes once more: its nodes are taken off the graph and come back
 * among the others, in the order that was found.
 */
#include "ad/remat_impl.h"
#include "base/alloc.h"

struct rebuild {
	struct remat	*m;
	struct rlx_node	*node;		/* of the backward pass, as it was */
	struct rlx_val	*val;
	uint32_t	*map;		/* per value as it was */
	uint32_t	*in;
	uint8_t		*uses;		/* per value before: its readers, as they were; up to 2 */
	uint32_t	scope;
};

static void count_uses(struct rebuild *b)
{
	const struct rlx_graph *g = b->m->g;
	const struct rlx_named_list *l = &g->io[RLX_IO_OUTPUT];
	uint32_t n, i, v;

	for (i = 0; i < l->n; i++)
		if (l->e[i].v.id < b->m->first_val && b->uses[l->e[i].v.id] < 2)
			b->uses[l->e[i].v.id]++;
	for (n = 0; n < g->n_node; n++)
		for (i = 0; i < g->node[n].n_in && b->m->live[n]; i++) {
			v = g->node[n].in[i];
			if (v < b->m->first_val && b->uses[v] < 2)
				b->uses[v]++;
		}
}

static uint32_t *inputs(struct rebuild *b, const struct rlx_node *n)
{
	uint32_t i;

	for (i = 0; i < n->n_in; i++)
		b->in[i] = b->map[n->in[i]];
	return b->in;
}

static void emit_again(struct rebuild *b, uint32_t n)
{
	struct rlx_graph *g = b->m->g;
	struct rlx_node v = g->node[n];
	bool shared = false;
	uint32_t i;
	rlx_value x;

	for (i = 0; i < v.n_out; i++)
		shared = shared || b->uses[v.out + i] > 1;
	if (shared)
		v.scope = g->node[n].scope |= RLX_SCOPE_SHARED;
	v.scope = (v.scope & 0xff) | b->scope;
	x = rlx_node_new(g, v.def, v.args, inputs(b, &v), v.n_in, &v);
	for (i = 0; i < v.n_out && x.id; i++)
		if (!b->m->kept[b->m->root[v.out + i]])
			b->map[v.out + i] = x.id + i;
}

/* It has room, and what its attributes refer to goes along. */
static void emit_back(struct rebuild *b, uint32_t n)
{
	struct rlx_graph *g = b->m->g;
	struct rlx_node v = b->node[n - b->m->first];
	uint32_t i, *in = rlx_bump_dup(&g->bump, inputs(b, &v), v.n_in * sizeof(*in));

	if (in)
		v.in = in;
	else
		b->m->no_memory = true;
	for (i = 0; i < v.n_out; i++) {
		b->map[v.out + i] = g->n_val;
		g->val[g->n_val] = b->val[v.out + i - b->m->first_val];
		g->val[g->n_val++].node = g->n_node;
	}
	v.out = b->map[v.out];
	g->node[g->n_node++] = v;
}

static bool rebuild_begin(struct rebuild *b)
{
	struct rlx_graph *g = b->m->g;
	uint32_t i, n, most = 1, n_val = g->n_val;

	for (i = 0; i < g->n_node; i++)
		most = g->node[i].n_in > most ? g->node[i].n_in : most;
	for (i = 0; i < b->m->n_order; i++) {
		n = b->m->order[i];
		n_val += n < b->m->first ? g->node[n].n_out : 0;
	}
	b->node = rlx_memdup(g->node + b->m->first,
			     (g->n_node - b->m->first) * sizeof(*g->node));
	b->val = rlx_memdup(g->val + b->m->first_val,
			    (g->n_val - b->m->first_val) * sizeof(*g->val));
	b->map = rlx_calloc(g->n_val, sizeof(*b->map));
	b->in = rlx_calloc(most, sizeof(*b->in));
	b->uses = rlx_calloc(b->m->first_val, sizeof(*b->uses));
	b->scope = rlx_scope_new(g, 0);
	for (i = 0; b->map && i < b->m->first_val; i++)
		b->map[i] = i;
	if (b->uses)
		count_uses(b);
	return b->node && b->val && b->map && b->in && b->uses && b->scope &&
	       rlx_grow(&g->node, &g->cap_node, b->m->first + b->m->n_order, sizeof(*g->node)) &&
	       rlx_grow(&g->val, &g->cap_val, n_val, sizeof(*g->val));
}

void rlx_ad_rebuild(struct remat *m, rlx_value *d, uint32_t n)
{
	struct rlx_graph *g = m->g;
	struct rebuild b = { .m = m };
	uint32_t i;

	if (rebuild_begin(&b)) {
		g->n_node = m->first;
		g->n_val = m->first_val;
		for (i = 0; i < m->n_order; i++) {
			if (m->order[i] < m->first)
				emit_again(&b, m->order[i]);
			else
				emit_back(&b, m->order[i]);
		}
		for (i = 0; i < n; i++)
			d[i].id = b.map[d[i].id];
	} else {
		m->no_memory = true;
	}
	rlx_free(b.node);
	rlx_free(b.val);
	rlx_free(b.map);
	rlx_free(b.in);
	rlx_free(b.uses);
}
