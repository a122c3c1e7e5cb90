// SPDX-License-Identifier: MIT
/*
 * Batching: a part of an open graph once more, for many instances at once. Nodes are walked
 * forwards from what is mapped, each op's .batch emitting behind them all. An op without a rule,
 * or one for the form at hand, is walked through what it stands for.
 */
#include <string.h>

#include "base/alloc.h"
#include "ir/graph.h"
#include "ops/batch.h"
#include "ops/emit.h"
#include "rlx/grad.h"

/* An op that expands into itself would never end. */
enum { MAX_DEPTH = 16 };

/*
 * @map: per value of the graph what it is with the batch axis, 0: all instances share it.
 * @wanted: of the values that were there at first, is it needed for what was asked for?
 */
struct walk {
	struct rlx_graph	*g;
	int64_t			 n;
	uint32_t		*map, cap;
	bool			*wanted;
	uint32_t		 n_wanted;
	uint32_t		 depth;
};

static enum rlx_status out_of_memory(struct rlx_graph *g)
{
	return rlx_fail(&g->err, RLX_ENOMEM, "vmap: out of memory");
}

/* Room for values that were emitted since. */
static bool reserve(struct walk *w)
{
	uint32_t was = w->cap;

	if (!rlx_grow(&w->map, &w->cap, w->g->n_val, sizeof(*w->map))) {
		out_of_memory(w->g);
		return false;
	}
	memset(w->map + was, 0, (w->cap - was) * sizeof(*w->map));
	return true;
}

/* What a rule and an expansion see of one node. */
struct view {
	struct rlx_node	 node;		/* a copy: emitting moves the array */
	rlx_value	*in, *out;
	bool		*mapped;
	uint32_t	*to;
	struct rlx_type	*type, *out_type;
};

static bool view_init(const struct walk *w, struct view *v, uint32_t n)
{
	const struct rlx_graph *g = w->g;
	uint32_t n_in, n_out, i;

	*v = (struct view){ .node = g->node[n] };
	n_in = v->node.n_in;
	n_out = v->node.n_out;
	v->in = rlx_calloc((size_t)n_in + n_out + 1, sizeof(*v->in));
	v->mapped = rlx_calloc(n_in + 1ul, sizeof(*v->mapped));
	v->to = rlx_calloc(n_in + 1ul, sizeof(*v->to));
	v->type = rlx_calloc((size_t)n_in + n_out + 1, sizeof(*v->type));
	if (!v->in || !v->mapped || !v->to || !v->type) {
		out_of_memory(w->g);
		return false;
	}
	v->out = v->in + n_in;
	v->out_type = v->type + n_in;
	for (i = 0; i < n_in; i++) {
		uint32_t id = v->node.in[i];

		if (!id)
			continue;
		v->mapped[i] = w->map[id];
		v->in[i].id = v->mapped[i] ? w->map[id] : id;
		v->type[i] = g->val[id].type;
	}
	for (i = 0; i < n_out; i++)
		v->out_type[i] = g->val[v->node.out + i].type;
	return true;
}

static void view_fini(struct view *v)
{
	rlx_free(v->in);
	rlx_free(v->mapped);
	rlx_free(v->to);
	rlx_free(v->type);
}

static void by_rule(struct walk *w, struct view *v)
{
	const struct rlx_op_def *def = v->node.def;
	enum rlx_status (*rule)(struct rlx_batching *q) = def->impl->batch;
	struct rlx_batching q = {
		.g = w->g, .def = def, .args = v->node.args, .n_in = v->node.n_in,
		.n_out = v->node.n_out, .n = w->n, .in = v->in, .mapped = v->mapped,
		.type = v->type, .out_type = v->out_type, .out = v->out, .to = v->to,
		.at = &v->node,
	};

	if (!rule && def->traits & RLX_T_ELEMENTWISE)
		rule = op_batch_pointwise;
	if (rule && rule(&q) && !w->g->err.status)
		rlx_fail(&w->g->err, RLX_EBUG, "%s: the batching rule failed without a reason",
			 def->name);
}

static void refuse(struct walk *w, const struct rlx_node *n)
{
	rlx_fail(&w->g->err, RLX_ENOSUP, "vmap: %s has no batching rule%s", n->def->name,
		 n->def->impl->batch ? " for what is mapped of its inputs" : "");
}

static void walk_forward(struct walk *w, uint32_t first, uint32_t end);

/* What the node stands for, emitted for one instance, and then mapped. */
static void by_expansion(struct walk *w, struct view *v)
{
	struct rlx_graph *g = w->g;
	const struct rlx_op_def *def = v->node.def;
	uint32_t first = g->n_node, i;
	struct rlx_expand q = {
		.g = g, .def = def, .args = v->node.args, .n_in = v->node.n_in,
		.n_out = v->node.n_out, .in = v->in, .out_type = v->out_type, .out = v->out,
	};

	if (!def->impl->expand || w->depth == MAX_DEPTH) {
		refuse(w, &v->node);
		return;
	}
	for (i = 0; i < v->node.n_in; i++)
		v->in[i].id = v->node.in[i];
	rlx_expand_op(&q, def->impl->expand);
	w->depth++;
	if (!g->err.status && reserve(w))
		walk_forward(w, first, g->n_node);
	w->depth--;
	for (i = 0; i < v->node.n_out && !g->err.status; i++)
		v->out[i] = w->map[v->out[i].id] ? (rlx_value){ w->map[v->out[i].id] } :
			    op_batch_repeat(g, v->out[i], w->n);
}

/* The types that results have to have: a rule that errs is told of by its op's name. */
static bool fits(const struct walk *w, const struct view *v, uint32_t i)
{
	struct rlx_type t = op_type(w->g, v->out[i]), one = v->out_type[i];

	return v->out[i].id && t.rank == one.rank + 1 && t.dtype == one.dtype &&
	       t.dim[0] == w->n && !memcmp(t.dim + 1, one.dim, one.rank * sizeof(t.dim[0]));
}

static void map_node(struct walk *w, uint32_t n)
{
	struct rlx_graph *g = w->g;
	struct view v;
	uint32_t i;

	if (view_init(w, &v, n)) {
		g->scope = v.node.scope & ~RLX_SCOPE_SHARED;
		by_rule(w, &v);
		if (!g->err.status && !v.out[0].id)
			by_expansion(w, &v);
		for (i = 0; i < v.node.n_out && !g->err.status; i++)
			if (!fits(w, &v, i))
				rlx_fail(&g->err, RLX_EBUG, "vmap: the rule of %s gives another "
					 "type than that of all instances", v.node.def->name);
		if (g->err.status && !g->err.file) {
			g->err.file = v.node.file;
			g->err.line = v.node.line;
		}
		if (!g->err.status && reserve(w))
			for (i = 0; i < v.node.n_out; i++)
				if (!w->map[v.node.out + i])	/* given: of list over */
					w->map[v.node.out + i] = v.out[i].id;
	}
	view_fini(&v);
}

static bool is_wanted(const struct walk *w, const struct rlx_node *v)
{
	uint32_t i;

	for (i = 0; i < v->n_out; i++)
		if (v->out + i >= w->n_wanted || w->wanted[v->out + i])
			return true;
	return false;
}

/* Nodes of [@first, @end) that something mapped goes into. */
static void walk_forward(struct walk *w, uint32_t first, uint32_t end)
{
	uint32_t n, i;

	for (n = first; n < end && !w->g->err.status; n++) {
		const struct rlx_node *v = &w->g->node[n];

		for (i = 0; i < v->n_in && !w->map[v->in[i]]; i++)
			;
		if (i < v->n_in && is_wanted(w, v))
			map_node(w, n);
	}
}

/* The batch axis of all of @a->with, whose other dimensions are those of @a->over; -1: failed. */
static int64_t batch_of(struct rlx_graph *g, const struct rlx_vmap *a)
{
	char have[96], need[96];
	int64_t n = -1;
	uint32_t i;

	for (i = 0; i < a->over.n; i++) {
		struct rlx_type t = op_type(g, a->over.v[i]), b = op_type(g, a->with.v[i]), want;

		want = (struct rlx_type){ t.dtype, t.rank + 1, { n < 0 && b.rank ? b.dim[0] : n } };
		if (t.rank < RLX_MAX_RANK)
			memcpy(want.dim + 1, t.dim, t.rank * sizeof(t.dim[0]));
		if (b.rank && rlx_type_equal(&b, &want)) {
			n = b.dim[0];
			continue;
		}
		rlx_type_print(&t, need, sizeof(need));
		rlx_type_print(&b, have, sizeof(have));
		rlx_fail(&g->err, RLX_ESHAPE, "vmap: value %u (over %u) is %s: what maps it has a "
			 "batch axis in front, as long as that of the others, and is %s",
			 a->over.v[i].id, i, need, have);
		return -1;
	}
	return n;
}

static bool of_graph(struct rlx_graph *g, const struct rlx_values *l, const char *what)
{
	uint32_t i;

	if (l->n && !l->v) {
		rlx_fail(&g->err, RLX_EINVAL, "vmap: list '%s' is NULL and has %u elements", what,
			 l->n);
		return false;
	}
	for (i = 0; i < l->n; i++)
		if (!l->v[i].id || l->v[i].id >= g->n_val) {
			rlx_fail(&g->err, RLX_EINVAL, "vmap: value %u (%s %u) is not in graph "
				 "'%s'", l->v[i].id, what, i, g->name);
			return false;
		}
	return true;
}

/* Bring the caller's struct to the size this library knows; false with a message. */
static bool take_args(struct rlx_graph *g, const struct rlx_vmap *a, struct rlx_vmap *own)
{
	*own = (struct rlx_vmap){ 0 };
	if (a)
		memcpy(own, a, a->size < sizeof(*own) ? a->size : sizeof(*own));
	if (!g || g->err.status)
		return false;
	if (!a || !a->size || g->finished) {
		rlx_fail(&g->err, RLX_EINVAL, "vmap: %s", g->finished ?
			 "the graph is finished and takes no more ops" :
			 "no arguments, or their size is not set");
		return false;
	}
	if (rlx_graph_is_bound(g, "vmap", &g->err))
		return false;
	if (!of_graph(g, &own->of, "of") || !of_graph(g, &own->over, "over") ||
	    !of_graph(g, &own->with, "with"))
		return false;
	if (own->over.n == own->with.n && own->over.n)
		return true;
	rlx_fail(&g->err, RLX_EINVAL, "vmap: %u values of list 'with' for %u of list 'over'",
		 own->with.n, own->over.n);
	return false;
}

/* Mark the values that those asked for are made of. */
static void mark(struct walk *w, const struct rlx_values *of, uint32_t end)
{
	const struct rlx_graph *g = w->g;
	uint32_t n, i;

	w->wanted = rlx_calloc(g->n_val, sizeof(*w->wanted));
	if (!w->wanted) {
		out_of_memory(w->g);
		return;
	}
	w->n_wanted = g->n_val;
	for (i = 0; i < of->n; i++)
		w->wanted[of->v[i].id] = true;
	for (n = end; n-- > 0;) {
		const struct rlx_node *v = &g->node[n];

		for (i = 0; is_wanted(w, v) && i < v->n_in; i++)
			w->wanted[v->in[i]] = true;
	}
}

static void map_graph(struct walk *w, const struct rlx_vmap *a, rlx_value *out)
{
	struct rlx_graph *g = w->g;
	uint32_t i, end = 0, scope = g->scope;

	w->n = batch_of(g, a);
	for (i = 0; i < a->of.n; i++)
		if (g->val[a->of.v[i].id].node >= end)
			end = g->val[a->of.v[i].id].node + 1;
	if (!g->err.status && reserve(w)) {
		for (i = 0; i < a->over.n; i++)
			w->map[a->over.v[i].id] = a->with.v[i].id;
		mark(w, &a->of, end);
		walk_forward(w, 0, end);
	}
	g->scope = scope;
	for (i = 0; i < a->of.n && !g->err.status; i++) {
		uint32_t v = a->of.v[i].id;

		out[i] = w->map[v] ? (rlx_value){ w->map[v] } :
			 op_batch_repeat(g, a->of.v[i], w->n);
	}
}

void rlx_vmap(struct rlx_graph *g, const struct rlx_vmap *a, rlx_value *out)
{
	struct walk w = { .g = g };
	struct rlx_vmap own;
	uint32_t i;

	if (take_args(g, a, &own))
		map_graph(&w, &own, out);
	for (i = 0; (!g || g->err.status) && i < own.of.n; i++)
		out[i] = RLX_NONE;
	rlx_free(w.map);
	rlx_free(w.wanted);
}
