// SPDX-License-Identifier: MIT
/* Programs with strict bits: what has no kernel that keeps the CPU's order is refused, by name. */
#include "backends/gpu/gpu.h"
#include "ir/graph.h"

static bool is_whole(const struct rlx_type *t)
{
	return !t || rlx_dtype_is_int(t->dtype) || t->dtype == RLX_BOOL;
}

/* A sub-graph may have floats between integers that go in and come out. */
static bool graphs_round(const struct rlx_op_def *def, const void *args)
{
	const struct rlx_graph *g;
	uint32_t f, k;

	for (f = 0; def->traits & RLX_T_SUBGRAPH && f < def->n_field; f++) {
		if (def->field[f].role != RLX_FIELD_ATTR || def->field[f].kind != RLX_K_graph)
			continue;
		g = *(struct rlx_graph **)rlx_field_ptr(&def->field[f], args);
		for (k = 0; k < g->n_node; k++)
			if (graphs_round(g->node[k].def, g->node[k].args))
				return true;
		for (k = 1; k < g->n_val; k++)
			if (!is_whole(&g->val[k].type))
				return true;
	}
	return false;
}

bool gpu_step_rounds(const struct rlx_lower *lo)
{
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (!is_whole(rlx_lower_in(lo, k)))
			return true;
	for (k = 0; k < lo->st->n_out; k++)
		if (!is_whole(rlx_lower_out(lo, k)))
			return true;
	return graphs_round(lo->st->def, lo->args);
}

enum rlx_status gpu_refuse_host(struct rlx_lower *lo, const struct rlx_error *why)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0), *y = rlx_lower_out(lo, 0);
	char in[64] = "nothing", out[64] = "nothing";

	if (!lo->strict || !gpu_step_rounds(lo))
		return RLX_OK;
	if (x)
		rlx_type_print(x, in, sizeof(in));
	if (y)
		rlx_type_print(y, out, sizeof(out));
	rlx_error_set(lo->err, RLX_ENOSUP, lo->st->file, lo->st->line, "%s: strict bits: %s (node "
		      "%u, of %s to %s) has no kernel with the CPU's order; compile for cpu, or "
		      "without strict bits%s%.90s", lo->code->dev->be->name, lo->st->def->name,
		      lo->st->node, in, out, why->status ? ": " : "", why->text);
	lo->err->node = lo->st->node;
	return RLX_ENOSUP;
}
