// SPDX-License-Identifier: MIT
/* Which nodes come early, and after which others. */
#include "base/alloc.h"
#include "ir/eval.h"
#include "plan/early.h"

/* Sums, and what lays their tensors side by side, if that is all it is for. */
static void mark(bool *is, const struct rlx_graph *g, const bool *live, const bool *late,
		 uint8_t *read)
{
	enum { BY_EARLY = 1, BY_OTHERS = 2 };
	const struct rlx_named_list *out = &g->io[RLX_IO_OUTPUT];
	uint32_t n, i;

	for (i = 0; i < out->n; i++)
		read[g->val[out->e[i].v.id].node] = BY_OTHERS;
	for (n = g->n_node; n-- > 0;) {
		const struct rlx_node *v = &g->node[n];

		if (!live[n])
			continue;
		is[n] = !late[n] && (rlx_op_waits_for_ranks(v->def) || (read[n] == BY_EARLY &&
			(v->def->traits & (RLX_T_VIEW | RLX_T_MOVE) ||
			 v->def->index == RLX_OP_cast)));
		for (i = 0; i < v->n_in; i++)
			if (v->in[i])
				read[g->val[v->in[i]].node] |= is[n] ? BY_EARLY : BY_OTHERS;
	}
}

/* The last node that @n needs and that stays in its place. */
static uint32_t needed(const struct rlx_early *e, const struct rlx_graph *g, uint32_t n,
		       const uint32_t *from)
{
	const struct rlx_node *v = &g->node[n];
	uint32_t last = 0, i, k;

	for (i = 0; i < v->n_in; i++) {
		if (!v->in[i])
			continue;
		k = g->val[v->in[i]].node;
		k = e->is[k] ? from[k] : k;
		last = k > last ? k : last;
	}
	return last;
}

static void list(struct rlx_early *e, const struct rlx_graph *g, uint32_t *from)
{
	uint32_t n;

	for (n = 0; n < g->n_node; n++)
		if (e->is[n])
			from[n] = needed(e, g, n, from);
	for (n = g->n_node; n-- > 0;)	/* so that those of one place are in their order */
		if (e->is[n]) {
			e->next[n] = e->after[from[n]];
			e->after[from[n]] = n + 1;
		}
}

bool rlx_early_find(struct rlx_early *e, const struct rlx_graph *g, const bool *live,
		    const bool *late)
{
	uint32_t *from, n;
	uint8_t *read;
	bool ok;

	*e = (struct rlx_early){ 0 };
	for (n = 0; n < g->n_node && !(live[n] && rlx_op_waits_for_ranks(g->node[n].def)); n++)
		;
	if (n == g->n_node)
		return true;
	e->is = rlx_calloc(g->n_node, sizeof(*e->is));
	e->after = rlx_calloc(g->n_node, sizeof(*e->after));
	e->next = rlx_calloc(g->n_node, sizeof(*e->next));
	from = rlx_calloc(g->n_node, sizeof(*from));
	read = rlx_calloc(g->n_node, sizeof(*read));
	ok = e->is && e->after && e->next && from && read;
	if (ok) {
		mark(e->is, g, live, late, read);
		list(e, g, from);
	} else {
		rlx_early_free(e);
	}
	rlx_free(from);
	rlx_free(read);
	return ok;
}

void rlx_early_free(struct rlx_early *e)
{
	rlx_free(e->is);
	rlx_free(e->after);
	rlx_free(e->next);
	*e = (struct rlx_early){ 0 };
}
