// SPDX-License-Identifier: MIT
/* A graph as a part of another: its nodes emitted there, leaves renamed or replaced. */
#include <string.h>

#include "base/alloc.h"
#include "ir/graph.h"

/* What is under way: @map from values of the part to those of the graph. */
struct inliner {
	struct rlx_graph	*g;
	const struct rlx_graph	*part;
	struct rlx_inline	 how;
	uint32_t		*map;
	uint32_t		*scope;		/* per RLX_SCOPE_REMAT of the part: its bits; 0: not yet */
	bool			*used;		/* per name of @how: a leaf has it */
};

static enum rlx_status no_memory(struct rlx_graph *g)
{
	return rlx_fail(&g->err, RLX_ENOMEM, "inline: out of memory");
}

/* The value that takes the place of leaf @name; none if a leaf is to be made. */
static bool given(struct inliner *q, const char *name, const struct rlx_type *t, rlx_value *out)
{
	const struct rlx_type *have;
	char a[96], b[96];
	unsigned int i;

	for (i = 0; i < q->how.n && strcmp(q->how.name[i], name); i++)
		;
	if (i == q->how.n)
		return false;
	q->used[i] = true;
	*out = q->how.value[i];
	have = rlx_type_of(q->g, *out);
	if (!have) {
		rlx_fail(&q->g->err, RLX_EINVAL,
			 "inline of '%s': value %u for '%s' is not in graph '%s'", q->part->name,
			 out->id, name, q->g->name);
	} else if (!rlx_type_equal(have, t)) {
		rlx_type_print(have, a, sizeof(a));
		rlx_type_print(t, b, sizeof(b));
		rlx_fail(&q->g->err, RLX_ESHAPE,
			 "inline of '%s': the value for '%s' is %s, %s is needed", q->part->name,
			 name, a, b);
	}
	return true;
}

static void leaf(struct inliner *q, const struct rlx_node *n)
{
	const struct rlx_op_input *a = n->args;	/* param begins with the same members */
	bool param = n->def->index == RLX_OP_param;
	enum rlx_io io = param && q->how.flags & RLX_INLINE_TRAIN ? RLX_IO_STATE :
			 param ? RLX_IO_PARAM : a->state ? RLX_IO_STATE : RLX_IO_INPUT;
	const char *prefix = q->how.prefix ? q->how.prefix : "";
	size_t len = strlen(prefix) + strlen(a->name) + 1;
	rlx_value v = RLX_NONE;
	char *name;

	if (!given(q, a->name, &a->type, &v)) {
		name = rlx_malloc(len);
		if (!name) {
			no_memory(q->g);
			return;
		}
		snprintf(name, len, "%s%s", prefix, a->name);
		v = rlx_leaf_at(q->g, io, name, a->type, n);
		rlx_free(name);
	}
	q->map[n->out] = v.id;
}

/* Of a node of the part: inside what the graph is in, a RLX_SCOPE_REMAT of its own as one here. */
static uint32_t scope_here(struct inliner *q, uint32_t scope)
{
	uint32_t id = scope >> 8, top = rlx_scope_top(q->part, scope);

	if (!id)
		return scope | q->g->scope;
	if (top != id && !q->scope[top])
		q->scope[top] = rlx_scope_new(q->g, q->g->scope);
	if (!q->scope[id])
		q->scope[id] = rlx_scope_new(q->g, top != id ? q->scope[top] : q->g->scope);
	return q->scope[id] | ((scope | q->g->scope) & 0xff);
}

static void node(struct inliner *q, const struct rlx_node *n)
{
	uint32_t small[16], *in = small, i;
	struct rlx_node at = *n;
	rlx_value v;

	if (n->n_in > 16)
		in = rlx_malloc(n->n_in * sizeof(*in));
	if (!in) {
		no_memory(q->g);
		return;
	}
	for (i = 0; i < n->n_in; i++)
		in[i] = q->map[n->in[i]];
	at.scope = scope_here(q, at.scope);
	v = rlx_node_new(q->g, n->def, n->args, in, n->n_in, &at);
	for (i = 0; v.id && i < n->n_out; i++)
		q->map[n->out + i] = v.id + i;
	if (in != small)
		rlx_free(in);
}

/* The next values of states that came along; others are dropped with their states. */
static void next_values(struct inliner *q)
{
	const struct rlx_named_list *out = &q->part->io[RLX_IO_OUTPUT];
	const struct rlx_named *s;
	const struct rlx_node *n;
	rlx_value state, next;
	uint32_t i;

	for (i = 0; i < out->n && !q->g->err.status; i++) {
		if (!out->e[i].state)
			continue;
		s = &q->part->io[RLX_IO_INPUT].e[out->e[i].state - 1];
		state.id = q->map[s->v.id];
		next.id = q->map[out->e[i].v.id];
		n = rlx_node_of(q->g, state.id);
		if (n->def->index == RLX_OP_input && ((struct rlx_op_input *)n->args)->state &&
		    !rlx_inline_names(&q->how, s->name))
			rlx_state_next(q->g, state, next);
	}
}

static enum rlx_status check(struct inliner *q)
{
	unsigned int i;

	if (!q->part || !q->part->finished)
		return rlx_fail(&q->g->err, RLX_EINVAL,
				"inline: the part is NULL or not finished; see rlx_graph_finish()");
	if (rlx_graph_is_bound(q->part, "inline", &q->g->err))
		return q->g->err.status;
	if (q->g->finished)
		return rlx_fail(&q->g->err, RLX_EINVAL,
				"inline: graph '%s' is finished and takes no more ops", q->g->name);
	for (i = 0; i < q->how.n; i++)
		if (!q->how.name || !q->how.value || !q->how.name[i])
			return rlx_fail(&q->g->err, RLX_EINVAL,
					"inline: %u names and values are said, one is NULL",
					q->how.n);
	if (q->how.flags & ~RLX_INLINE_TRAIN)
		return rlx_fail(&q->g->err, RLX_EINVAL, "inline: unknown flags 0x%x",
				q->how.flags);
	return RLX_OK;
}

bool rlx_inline_names(const struct rlx_inline *how, const char *name)
{
	unsigned int i;

	for (i = 0; i < how->n; i++)
		if (!strcmp(how->name[i], name))
			return true;
	return false;
}

static void emit_all(struct inliner *q, rlx_value *out)
{
	const struct rlx_named_list *l = &q->part->io[RLX_IO_OUTPUT];
	uint32_t n, i;

	for (n = 0; n < q->part->n_node && !q->g->err.status; n++) {
		const struct rlx_node *v = &q->part->node[n];

		if (v->def->index == RLX_OP_input || v->def->index == RLX_OP_param)
			leaf(q, v);
		else
			node(q, v);
	}
	for (n = 0; n < q->how.n && !q->g->err.status; n++)
		if (!q->used[n])
			rlx_fail(&q->g->err, RLX_ENOENT, "inline: graph '%s' has no leaf '%s'",
				 q->part->name, q->how.name[n]);
	if (!q->g->err.status)
		next_values(q);
	for (i = 0, n = 0; out && !q->g->err.status && i < l->n; i++)
		if (!l->e[i].state)
			out[n++].id = q->map[l->e[i].v.id];
}

enum rlx_status rlx_graph_inline(struct rlx_graph *g, const struct rlx_graph *part,
				 const struct rlx_inline *how, rlx_value *out)
{
	struct inliner q = { .g = g, .part = part };

	if (!g || g->err.status)
		return rlx_graph_error(g)->status;
	if (how && !how->size)
		return rlx_fail(&g->err, RLX_EINVAL, "inline: the arguments' size is not set");
	if (how)
		memcpy(&q.how, how, how->size < sizeof(q.how) ? how->size : sizeof(q.how));
	if (check(&q))
		return g->err.status;
	q.map = rlx_calloc(part->n_val, sizeof(*q.map));
	q.used = rlx_calloc(q.how.n + 1ul, sizeof(*q.used));
	q.scope = rlx_calloc(part->last_scope + 1ul, sizeof(*q.scope));
	if (q.map && q.used && q.scope)
		emit_all(&q, out);
	else
		no_memory(g);
	rlx_free(q.map);
	rlx_free(q.used);
	rlx_free(q.scope);
	return g->err.status;
}
