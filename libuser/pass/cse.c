// SPDX-License-Identifier: MIT
/*
 * Merge equal computations: same op, attributes and (already merged) inputs. One that a later one
 * is equal to but for more outputs makes those as well.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "pass/pass.h"

rlx_pass_fn rlx_pass_cse, rlx_pass_cse_again;

/*
 * Open-addressed table of nodes of the new graph, by hash. @more: of the old graph, those that make
 * more outputs, in their order by a hash of op, attributes and inputs: 1 + the first, 1 + the next.
 */
struct table {
	uint32_t	*slot;		/* node + 1 */
	uint64_t	*hash;
	uint32_t	 mask;
	uint32_t	*more, *next;
	bool		 any_more;
	uint64_t	 secret;	/* what is hashed comes from files */
};

/* The attributes of node @n with the outputs that it may make more; in the new graph's memory. */
static void *with_more(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	uint8_t *args = rlx_bump_dup(&rw->g->bump, n->args, n->def->args_size);

	if (args)
		*(bool *)(args + n->def->impl->more) = true;
	else
		rlx_fail(&rw->g->err, RLX_ENOMEM, "cse: out of memory");
	return args;
}

static bool makes_more(const struct rlx_node *n)
{
	return *(const bool *)((const uint8_t *)n->args + n->def->impl->more);
}

/* Of @n's op and inputs, and of @args, by which it makes more. */
static uint32_t more_place(const struct table *t, const struct rlx_node *n, const void *args)
{
	uint64_t h = rlx_args_hash(n->def, args, t->secret ^ n->n_in);

	return (uint32_t)rlx_hash_bytes(n->in, n->n_in * sizeof(*n->in), h) & t->mask;
}

static void list_more(const struct rlx_rewrite *rw, struct table *t)
{
	const struct rlx_node *node = rw->old->node;
	uint32_t n, *first;

	for (n = rw->old->n_node; n-- > 0;) {
		if (!rw->live[n] || !node[n].def->impl->more || !makes_more(&node[n]))
			continue;
		t->any_more = true;
		first = &t->more[more_place(t, &node[n], node[n].args)];
		t->next[n] = *first;
		*first = n + 1;
	}
}

/* Node @n, or what it is to be: a later node of its inputs and attributes makes more outputs. */
static struct rlx_node as_made(struct rlx_rewrite *rw, const struct table *t, uint32_t n)
{
	const struct rlx_graph *g = rw->old;
	struct rlx_node node = g->node[n];
	const void *more;
	uint32_t k;

	if (!t->any_more || !node.def->impl->more || makes_more(&node))
		return node;
	more = with_more(rw, &node);
	for (k = more ? t->more[more_place(t, &node, more)] : 0; k; k = t->next[k - 1]) {
		const struct rlx_node *o = &g->node[k - 1];

		if (k - 1 < n || o->def != node.def || !rlx_scope_equal(o, &node) ||
		    o->n_in != node.n_in ||
		    memcmp(o->in, node.in, node.n_in * sizeof(*node.in)))
			continue;
		if (rlx_args_equal(node.def, more, o->args)) {
			node.args = (void *)(uintptr_t)more;
			break;
		}
	}
	return node;
}

static void merge_or_copy(struct rlx_rewrite *rw, struct table *t, uint32_t n)
{
	const struct rlx_node made = as_made(rw, t, n), *node = &made;
	uint64_t h = rlx_node_hash(node, rw->map, t->secret);
	uint32_t i = (uint32_t)h & t->mask, k;

	for (; t->slot[i]; i = (i + 1) & t->mask) {
		const struct rlx_node *have = &rw->g->node[t->slot[i] - 1];

		if (t->hash[i] != h || !rlx_node_equal(node, rw->map, have))
			continue;
		for (k = 0; k < node->n_out; k++)
			rlx_rewrite_set(rw, node->out + k, (rlx_value){ have->out + k });
		return;
	}
	rlx_rewrite_copy_with(rw, n, node->args);
	t->slot[i] = rw->g->n_node;
	t->hash[i] = h;
}

static bool table_init(struct table *t, const struct rlx_graph *g)
{
	*t = (struct table){ .mask = 15, .secret = rlx_hash_secret() };
	while (t->mask < g->n_node * 2)
		t->mask = t->mask * 2 + 1;
	t->slot = rlx_calloc(t->mask + 1ul, sizeof(*t->slot));
	t->hash = rlx_calloc(t->mask + 1ul, sizeof(*t->hash));
	t->more = rlx_calloc(t->mask + 1ul, sizeof(*t->more));
	t->next = rlx_calloc(g->n_node + 1ul, sizeof(*t->next));
	return t->slot && t->hash && t->more && t->next;
}

static void table_fini(struct table *t)
{
	rlx_free(t->slot);
	rlx_free(t->hash);
	rlx_free(t->more);
	rlx_free(t->next);
}

enum rlx_status rlx_pass_cse(struct rlx_pass_ctx *c, struct rlx_graph *g,
			     struct rlx_graph **out)
{
	struct table t;
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);
	uint32_t n;

	if (st)
		return st;
	if (table_init(&t, g))
		list_more(&rw, &t);
	else
		rlx_fail(&rw.g->err, RLX_ENOMEM, "cse: out of memory");
	for (n = 0; n < g->n_node && !rw.g->err.status; n++) {
		if (!rlx_rewrite_live(&rw, n))
			continue;
		if (rlx_node_merges(&g->node[n]))
			merge_or_copy(&rw, &t, n);
		else
			rlx_rewrite_copy(&rw, n);
	}
	table_fini(&t);
	return rlx_rewrite_end(&rw, out);
}

/* What expansion made: three GEMMs of one input round it once. */
enum rlx_status rlx_pass_cse_again(struct rlx_pass_ctx *c, struct rlx_graph *g,
				   struct rlx_graph **out)
{
	return rlx_pass_cse(c, g, out);
}
