// SPDX-License-Identifier: MIT
/* Arity, order and types of every node, from the op definitions alone. */
#include "base/alloc.h"
#include "ir/graph.h"

static enum rlx_status check_inputs(const struct rlx_graph *g, uint32_t n,
				    struct rlx_error *err)
{
	const struct rlx_node *v = &g->node[n];
	uint32_t k = 0, i;

	if (v->n_in < v->def->n_fixed)
		return rlx_fail(err, RLX_EBUG, "node %u %s: %u inputs of %u", n,
				v->def->name, v->n_in, v->def->n_fixed);
	for (i = 0; i < v->n_in; i++)
		if (v->in[i] >= v->out)
			return rlx_fail(err, RLX_EBUG,
					"node %u %s: input %u is not made before it",
					n, v->def->name, i);
	for (i = 0; i < v->def->n_field; i++) {
		const struct rlx_field *f = &v->def->field[i];

		if (f->role != RLX_FIELD_IN && f->role != RLX_FIELD_OPT)
			continue;
		if (!v->in[k] && f->role == RLX_FIELD_IN)
			return rlx_fail(err, RLX_EBUG, "node %u %s: input '%s' is missing",
					n, v->def->name, f->name);
		k++;
	}
	return RLX_OK;
}

static enum rlx_status check_types(const struct rlx_graph *g, uint32_t n,
				   const struct rlx_type **types,
				   struct rlx_error *err)
{
	const struct rlx_node *v = &g->node[n];
	struct rlx_infer q = { .err = err, .def = v->def, .args = v->args,
			       .n_in = v->n_in, .in = types };
	enum rlx_status st;
	uint32_t i;

	for (i = 0; i < v->n_in; i++)
		types[i] = v->in[i] ? &g->val[v->in[i]].type : NULL;
	st = rlx_op_infer(&q);
	if (st)
		return st;
	if (q.n_out != v->n_out)
		return rlx_fail(err, RLX_EBUG, "node %u %s: %u outputs, inferred %u",
				n, v->def->name, v->n_out, q.n_out);
	for (i = 0; i < q.n_out; i++)
		if (!rlx_type_equal(&q.out[i], &g->val[v->out + i].type))
			return rlx_fail(err, RLX_EBUG,
					"node %u %s: output %u is not of the inferred type",
					n, v->def->name, i);
	return RLX_OK;
}

enum rlx_status rlx_graph_verify(const struct rlx_graph *g, struct rlx_error *err)
{
	const struct rlx_type **types;
	enum rlx_status st = RLX_OK;
	uint32_t n, most = 1;

	for (n = 0; n < g->n_node; n++)
		most = g->node[n].n_in > most ? g->node[n].n_in : most;
	types = rlx_malloc(most * sizeof(*types));
	if (!types)
		return rlx_fail(err, RLX_ENOMEM, "verify: out of memory");
	for (n = 0; n < g->n_node && !st; n++) {
		st = check_inputs(g, n, err);
		/* a template's are inferred when a node is made, and anew by each binding */
		if (!st && !g->dims)
			st = check_types(g, n, types, err);
	}
	rlx_free(types);
	return st;
}
