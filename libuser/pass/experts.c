// SPDX-License-Identifier: MIT
/*
 * Under RLX_COMPILE_EXPERTS: which matrices the rows of grouped products choose, as outputs. What
 * those products read is what was chosen, whatever other topk of that size there may be.
 */
#include "pass/pass.h"

rlx_pass_fn rlx_pass_experts;

uint32_t rlx_expert_choice(const struct rlx_graph *g, const struct rlx_node *n)
{
	uint32_t v;

	if (n->def->index != RLX_OP_grouped_matmul &&
	    n->def->index != RLX_OP_dequant_grouped_matmul &&
	    n->def->index != RLX_OP_scaled_grouped_matmul)
		return 0;
	for (v = n->in[2]; rlx_node_of(g, v)->def->index == RLX_OP_reshape ||
	     rlx_node_of(g, v)->def->index == RLX_OP_cast; v = rlx_node_of(g, v)->in[0])
		;
	return v;
}

enum rlx_status rlx_pass_experts(struct rlx_pass_ctx *c, struct rlx_graph *g,
				 struct rlx_graph **out)
{
	const struct rlx_named_list *l = &g->io[RLX_IO_OUTPUT];
	struct rlx_rewrite rw;
	enum rlx_status st;
	uint32_t n, k, v;
	char name[32];

	if (!(c->flags & RLX_COMPILE_EXPERTS))
		return RLX_OK;
	st = rlx_rewrite_begin(&rw, g, c->err);
	if (st)
		return st;
	for (n = 0; n < g->n_node; n++)
		if (rlx_rewrite_live(&rw, n))
			rlx_rewrite_copy(&rw, n);
	rw.outputs_made = true;
	for (k = 0; k < l->n; k++)
		rlx_output(rw.g, l->e[k].name, rlx_rewrite_value(&rw, l->e[k].v.id));
	for (n = k = 0; n < g->n_node; n++) {
		v = rw.live[n] ? rlx_expert_choice(g, &g->node[n]) : 0;
		if (!v || !rw.map[v])
			continue;
		snprintf(name, sizeof(name), "experts.%u", k++);
		rlx_output(rw.g, name, rlx_rewrite_value(&rw, v));
		rw.map[v] = 0;		/* three products of a layer choose by one */
		rw.changed = true;
	}
	return rlx_rewrite_end(&rw, out);
}
