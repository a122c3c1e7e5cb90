// SPDX-License-Identifier: MIT
/* What an op takes, and a graph that an op calls: see rlx_op_cost() in ir/opdef.h; what grows. */
#include "base/alloc.h"
#include "ir/graph.h"

struct rlx_cost rlx_op_cost(const struct rlx_infer *q)
{
	struct rlx_cost c = { 0 };
	uint32_t i;

	for (i = 0; i < q->n_in; i++)
		c.bytes += q->in && q->in[i] ? (double)rlx_type_bytes(q->in[i]) : 0;
	for (i = 0; i < q->n_out; i++) {
		c.bytes += (double)rlx_type_bytes(&q->out[i]);
		c.flops += (double)rlx_type_count(&q->out[i]);
	}
	if (q->in && q->def && q->def->impl->cost)
		q->def->impl->cost(q, &c);
	return c;
}

bool rlx_node_grows(const struct rlx_graph *g, const struct rlx_node *n)
{
	double in = 0, out = 0;	/* sums of bytes that are int64 each */
	uint32_t i;

	for (i = 0; i < n->n_in; i++)
		in += n->in[i] ? (double)rlx_type_bytes(&g->val[n->in[i]].type) : 0;
	for (i = 0; i < n->n_out; i++)
		out += (double)rlx_type_bytes(&g->val[n->out + i].type);
	return out > 4 * in + 4096;
}

struct rlx_cost rlx_node_cost(const struct rlx_graph *g, const struct rlx_node *n,
			      const struct rlx_type **types)
{
	struct rlx_infer q = {
		.def = n->def, .args = n->args, .n_in = n->n_in, .in = types, .n_out = n->n_out,
	};
	uint32_t i;

	for (i = 0; i < n->n_in; i++)
		types[i] = n->in[i] ? &g->val[n->in[i]].type : NULL;
	for (i = 0; i < n->n_out; i++)
		q.out[i] = g->val[n->out + i].type;
	return rlx_op_cost(&q);
}

double rlx_graph_flops(const struct rlx_graph *g)
{
	const struct rlx_type **types;
	uint32_t most = 1, n;
	double flops = 0;

	for (n = 0; n < g->n_node; n++)
		most = g->node[n].n_in > most ? g->node[n].n_in : most;
	types = rlx_malloc(most * sizeof(*types));
	for (n = 0; types && n < g->n_node; n++)
		if (!(g->node[n].def->traits & (RLX_T_LEAF | RLX_T_VIEW)))
			flops += rlx_node_cost(g, &g->node[n], types).flops;
	rlx_free(types);
	return flops;
}
