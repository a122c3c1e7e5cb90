// SPDX-License-Identifier: MIT
/*
 * Equal nodes as one, before it is chosen what a backward pass keeps: who reads a value decides
 * what passes put together, so it is to be known which readers there will be.
 */
#include "ad/remat.h"
#include "base/alloc.h"
#include "base/map.h"

bool *rlx_ad_live(const struct rlx_graph *g, const rlx_value *d, uint32_t n_d)
{
	bool *live = rlx_calloc(g->n_node + 1ul, sizeof(*live));
	uint32_t n, i;

	if (!live)
		return NULL;
	for (i = 0; i < n_d; i++)
		live[g->val[d[i].id].node] = true;
	for (i = 0; i < g->io[RLX_IO_OUTPUT].n; i++)
		live[g->val[g->io[RLX_IO_OUTPUT].e[i].v.id].node] = true;
	for (n = g->n_node; n-- > 0;)
		for (i = 0; i < g->node[n].n_in && live[n]; i++)
			if (g->node[n].in[i])
				live[g->val[g->node[n].in[i]].node] = true;
	return live;
}

/* Its inputs are those that others are equal to. False: out of memory. */
static bool read_first(struct rlx_graph *g, struct rlx_node *n, const uint32_t *first)
{
	uint32_t i, *in;

	for (i = 0; i < n->n_in && first[n->in[i]] == n->in[i]; i++)
		;
	if (i == n->n_in)
		return true;
	in = rlx_bump_dup(&g->bump, n->in, n->n_in * sizeof(*in));
	for (i = 0; in && i < n->n_in; i++)
		in[i] = first[n->in[i]];
	n->in = in ? in : n->in;
	return in;
}

bool rlx_ad_merge_equal(struct rlx_graph *g, rlx_value *d, uint32_t n_d)
{
	const uint64_t secret = rlx_hash_secret();
	uint32_t mask = 15, n, i, k, *slot, *first = rlx_calloc(g->n_val, sizeof(*first));
	bool ok, *live = rlx_ad_live(g, d, n_d);

	while (mask < 2 * g->n_node)
		mask = mask * 2 + 1;
	slot = rlx_calloc(mask + 1ul, sizeof(*slot));
	ok = slot && first && live;
	for (n = 0; n < g->n_node && ok; n++) {
		struct rlx_node *v = &g->node[n];

		for (i = 0; i < v->n_out; i++)
			first[v->out + i] = v->out + i;
		ok = read_first(g, v, first);
		if (!live[n] || !rlx_node_merges(v))
			continue;
		k = (uint32_t)rlx_node_hash(v, NULL, secret) & mask;
		for (; slot[k]; k = (k + 1) & mask)
			if (rlx_node_equal(v, NULL, &g->node[slot[k] - 1]))
				break;
		for (i = 0; i < v->n_out && slot[k]; i++)
			first[v->out + i] = g->node[slot[k] - 1].out + i;
		slot[k] = slot[k] ? slot[k] : n + 1;
	}
	for (i = 0; i < n_d && ok; i++)
		d[i].id = first[d[i].id];
	rlx_free(slot);
	rlx_free(live);
	rlx_free(first);
	return ok;
}
