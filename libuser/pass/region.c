// SPDX-License-Identifier: MIT
/*
 * Grow regions of pointwise ops. From the last node back, each pointwise node
 * that no region holds becomes the root of one, which then takes in producers
 * that are pointwise, work in the same kind of register, have the root's shape
 * and are used nowhere else, but as outputs of the graph: those become outputs
 * of the region too, which nothing else waits for. Next values of states are
 * with no other outputs. So it computes nothing twice.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pass/pass.h"
#include "pass/repeat.h"

rlx_pass_fn rlx_pass_region;

enum { MAX_INPUTS = 14, MAX_NODES = 48, MAX_OUTPUTS = 4 };
enum kind { K_NONE, K_ANY, K_F32, K_F64, K_INT };

struct grower {
	const struct rlx_graph	*g;
	const struct rlx_rewrite *rw;
	uint32_t		*region;	/* per node: root + 1; 0: none */
	bool			*kept;		/* per value: other than pointwise ops read it */
	uint32_t		*updates;	/* per node: next values of states that are its first */
	const struct rlx_repeats *repeats;	/* the target's */
	uint32_t		 member[MAX_NODES];
	uint32_t		 n_member;
	uint32_t		 out[MAX_OUTPUTS];	/* members, the root first */
	uint32_t		 n_out;
	enum kind		 kind;
};

static enum kind kind_of(enum rlx_dtype dt)
{
	return dt == RLX_F64 ? K_F64 : rlx_dtype_is_float(dt) && rlx_dtype_size(dt) > 1 ?
	       K_F32 : dt == RLX_BOOL ? K_ANY : rlx_dtype_is_int(dt) ? K_INT : K_NONE;
}

/* @edge: the op reads its operand by a converting load; @last: only as a root. */
static enum kind cast_kind(enum rlx_dtype from, enum rlx_dtype to, bool *edge, bool *last)
{
	enum kind a = kind_of(from), b = kind_of(to);

	*edge = a != b && a != K_ANY;
	*last = false;
	if (a == K_NONE || b == K_NONE)
		return K_NONE;
	if (a == b || a == K_ANY)
		return b == K_ANY ? K_NONE : b;
	if ((a == K_INT && (b == K_F32 || b == K_F64)) || (a == K_F32 && b == K_F64))
		return b;
	/* narrowing: the store converts */
	*edge = false;
	*last = true;
	return a == K_INT ? K_NONE : a;
}

static enum kind node_kind(const struct rlx_graph *g, const struct rlx_node *n,
			   bool *edge, bool *last)
{
	enum rlx_dtype dt;

	*edge = *last = false;
	if (!(n->def->traits & RLX_T_ELEMENTWISE) || n->n_in < 1 || n->n_in > 3)
		return K_NONE;
	dt = g->val[n->in[n->n_in - 1]].type.dtype;
	if (n->def->index == RLX_OP_cast)
		return cast_kind(dt, g->val[n->out].type.dtype, edge, last);
	if (n->n_in > 1)
		dt = rlx_dtype_promote(g->val[n->in[n->n_in - 2]].type.dtype, dt);
	return kind_of(dt);
}

/* Operands of another kind than the op computes in are converted by a load. */
static bool loads_other_kind(const struct grower *gr, const struct rlx_node *n, uint32_t k)
{
	enum kind in = kind_of(gr->g->val[n->in[k]].type.dtype);

	return in != K_ANY && in != gr->kind;
}

static bool in_region(const struct grower *gr, uint32_t node, uint32_t root)
{
	return gr->region[node] == root + 1;
}

/* Readers of what node @node makes: members, and outputs of the graph. */
static uint32_t count_inside(const struct grower *gr, uint32_t node)
{
	uint32_t v = gr->g->node[node].out, inside = 0, i, k;

	for (i = 0; i < gr->n_member; i++) {
		const struct rlx_node *m = &gr->g->node[gr->member[i]];

		for (k = 0; k < m->n_in; k++)
			inside += m->in[k] == v;
	}
	return inside;
}

/*
 * May what @node makes be a result beside the one of @root, with @outside readers that are no
 * members? Only where both are next values of states, and nothing else reads it but through the
 * root, which needs them all: who wants an output by name replaces no state with it. Other outputs
 * are steps of their own, for a device may have a kernel for one and not for the other.
 */
static bool is_result(const struct grower *gr, uint32_t node, uint32_t root, uint32_t outside)
{
	return gr->n_out < MAX_OUTPUTS && gr->updates[root] && gr->updates[node] == outside;
}

static bool is_immediate(const struct rlx_graph *g, uint32_t v)
{
	return rlx_node_of(g, v)->def->index == RLX_OP_constant &&
	       rlx_type_count(&g->val[v].type) == 1;
}

/* Values that come into the region from outside, immediates apart. */
static uint32_t list_inputs(const struct grower *gr, uint32_t root, uint32_t *out,
			    uint32_t max)
{
	uint32_t n = 0, i, k, j;

	for (i = 0; i < gr->n_member; i++) {
		const struct rlx_node *m = &gr->g->node[gr->member[i]];

		for (k = 0; k < m->n_in; k++) {
			uint32_t v = m->in[k];

			if (in_region(gr, gr->g->val[v].node, root) || is_immediate(gr->g, v))
				continue;
			for (j = 0; j < n && out[j] != v; j++)
				;
			if (j == n) {
				if (n == max)
					return max + 1;
				out[n++] = v;
			}
		}
	}
	return n;
}

/* May input @k of member @m bring its producer into the region? */
static bool may_join(struct grower *gr, uint32_t m, uint32_t k, uint32_t root,
		     const struct rlx_type *shape)
{
	const struct rlx_node *n = &gr->g->node[m];
	uint32_t p = gr->g->val[n->in[k]].node, list[MAX_INPUTS + 1], outside;
	bool edge, last, m_edge, m_last;
	enum kind kind = node_kind(gr->g, &gr->g->node[p], &edge, &last);
	struct rlx_type t = gr->g->val[n->in[k]].type;

	t.dtype = shape->dtype;
	node_kind(gr->g, n, &m_edge, &m_last);
	if (kind == K_NONE || last || m_edge || gr->region[p] ||
	    (kind != K_ANY && kind != gr->kind) || loads_other_kind(gr, n, k) ||
	    !rlx_type_equal(&t, shape) || gr->n_member == MAX_NODES)
		return false;
	outside = gr->rw->uses[gr->g->node[p].out] - count_inside(gr, p);
	if (outside && !is_result(gr, p, root, outside))
		return false;
	gr->region[p] = root + 1;
	gr->member[gr->n_member++] = p;
	if (outside)
		gr->out[gr->n_out++] = p;
	if (list_inputs(gr, root, list, MAX_INPUTS) <= MAX_INPUTS)
		return true;
	gr->n_member--;
	gr->n_out -= outside != 0;
	gr->region[p] = 0;
	return false;
}

/* Grow from @root; false if it is none of a region. */
static bool grow(struct grower *gr, uint32_t root)
{
	struct rlx_type shape = gr->g->val[gr->g->node[root].out].type;
	bool edge, last, more = true;
	uint32_t i, k;

	gr->kind = node_kind(gr->g, &gr->g->node[root], &edge, &last);
	if (gr->kind == K_NONE || gr->kind == K_ANY)
		return false;
	gr->member[0] = gr->out[0] = root;
	gr->n_member = gr->n_out = 1;
	gr->region[root] = root + 1;
	while (more) {
		more = false;
		for (i = 0; i < gr->n_member; i++)
			for (k = 0; k < gr->g->node[gr->member[i]].n_in; k++)
				more |= may_join(gr, gr->member[i], k, root, &shape);
	}
	return true;
}

/* What a region reads: values as its members know them, and as it gets them. */
struct inputs {
	uint32_t		n, n_view, n_out;
	uint32_t		out[MAX_OUTPUTS];	/* what it makes */
	uint32_t		value[MAX_INPUTS], from[MAX_INPUTS];
	bool			view[MAX_INPUTS];
	struct rlx_type		type[MAX_INPUTS];
	struct rlx_split	split;
	struct rlx_type		whole;		/* the result's shape, split */
};

/* Views in the place of moves that nothing else needs, as far as the axes can be split. */
static void take_inputs(const struct grower *gr, uint32_t root, struct inputs *in)
{
	const struct rlx_type *shape = &gr->g->val[gr->g->node[root].out].type;
	struct rlx_repeat_span span[MAX_INPUTS][RLX_MAX_RANK];
	uint32_t i, list[MAX_INPUTS + 1];

	*in = (struct inputs){ .n = list_inputs(gr, root, list, MAX_INPUTS), .n_out = gr->n_out };
	for (i = 0; i < gr->n_out; i++)
		in->out[i] = gr->g->node[gr->out[i]].out;
	memcpy(in->value, list, in->n * sizeof(*list));
	memcpy(in->from, list, in->n * sizeof(*list));
	rlx_split_init(&in->split, shape);
	for (i = 0; i < in->n; i++) {
		const struct rlx_node *n = rlx_node_of(gr->g, list[i]);

		in->view[i] = !gr->kept[list[i]] && rlx_repeat_of(gr->g, n, shape, span[i]) &&
			      rlx_repeat_pays(gr->repeats, shape,
					      gr->g->val[list[i]].type.dtype, span[i]) &&
			      rlx_split_add(&in->split, span[i]);
		in->n_view += in->view[i];
		in->from[i] = in->view[i] ? n->in[0] : list[i];
	}
	for (i = 0; i < in->n; i++) {
		const struct rlx_type *t = &gr->g->val[list[i]].type;

		in->type[i] = in->view[i] ? rlx_split_span(&in->split, span[i], t->dtype) :
			      in->split.rank > shape->rank ? rlx_split_type(&in->split, t) : *t;
	}
	in->whole = rlx_split_type(&in->split, shape);
}

/* A chain, or one op that reads a view; what a lone cast reads it converts by itself. */
static bool is_worth(const struct grower *gr, uint32_t root, const struct inputs *in)
{
	return gr->n_member > 1 || (in->n_view && gr->g->node[root].def->index != RLX_OP_cast);
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The body's input @i, as the members read it. */
static uint32_t body_input(struct rlx_graph *b, const struct inputs *l, uint32_t i)
{
	char name[16];
	rlx_value v;

	snprintf(name, sizeof(name), "%u", i);
	v = rlx_input(b, name, l->type[i]);
	if (l->view[i])
		v = rlx_emit(b, expand, .x = v, .shape = { l->whole.dim, l->whole.rank });
	return v.id;
}

/* The body: the members over fresh inputs, in the old order. */
static struct rlx_graph *make_body(const struct grower *gr, const struct inputs *l)
{
	struct rlx_graph *b = rlx_graph_new("region");
	uint32_t order[MAX_NODES], map[MAX_NODES], in[3], i, j, k;
	uint32_t from[MAX_INPUTS];

	for (i = 0; i < l->n; i++)
		from[i] = body_input(b, l, i);
	memcpy(order, gr->member, gr->n_member * sizeof(*order));
	qsort(order, gr->n_member, sizeof(*order), by_number);
	for (i = 0; b && i < gr->n_member; i++) {
		const struct rlx_node *n = &gr->g->node[order[i]];

		for (k = 0; k < n->n_in; k++) {
			in[k] = 0;
			for (j = 0; j < i; j++)
				if (gr->g->node[order[j]].out == n->in[k])
					in[k] = map[j];
			for (j = 0; !in[k] && j < l->n; j++)
				if (l->value[j] == n->in[k])
					in[k] = from[j];
			if (!in[k] && !b->err.status) {
				const struct rlx_op_constant *c = rlx_node_of(gr->g, n->in[k])->args;

				in[k] = rlx_constant_blob(b, c->type, c->data).id;
			}
		}
		map[i] = b->err.status ? 0 : rlx_node_new(b, n->def, n->args, in, n->n_in, n).id;
	}
	for (k = 0; b && k < gr->n_out; k++) {
		char name[16];

		for (i = 0; order[i] != gr->out[k]; i++)
			;
		snprintf(name, sizeof(name), k ? "y%u" : "y", k);
		rlx_output(b, name, (rlx_value){ b->err.status ? 0 : map[i] });
	}
	return b;
}

struct region_list {
	struct rlx_graph	**body;		/* per root node */
	struct inputs		**inputs;
};

static enum rlx_status collect(struct grower *gr, struct region_list *l,
			       struct rlx_pass_ctx *c, unsigned int *count)
{
	struct inputs in;
	uint32_t n;

	for (n = gr->g->n_node; n-- > 0;) {
		if (!gr->rw->live[n] || gr->region[n] || !grow(gr, n))
			continue;
		take_inputs(gr, n, &in);
		if (!is_worth(gr, n, &in)) {
			gr->region[n] = 0;
			continue;
		}
		l->inputs[n] = rlx_memdup(&in, sizeof(in));
		l->body[n] = make_body(gr, &in);
		if (!l->inputs[n] || rlx_graph_finish(l->body[n]))
			return rlx_fail(c->err, rlx_graph_error(l->body[n])->status ?
					rlx_graph_error(l->body[n])->status : RLX_ENOMEM,
					"region: %s", rlx_graph_error(l->body[n])->text);
		(*count)++;
	}
	return RLX_OK;
}

/* @v as of type @t, which has as many elements. */
static rlx_value seen_as(struct rlx_rewrite *rw, rlx_value v, const struct rlx_type *t)
{
	if (rw->g->err.status || rlx_type_equal(rlx_type_of(rw->g, v), t))
		return v;
	return rlx_emit(rw->g, reshape, .x = v, .shape = { t->dim, t->rank });
}

static void emit_region(struct rlx_rewrite *rw, const struct rlx_node *root,
			struct rlx_graph *body, const struct inputs *l)
{
	struct rlx_op_region a = { .body = body };
	uint32_t in[MAX_INPUTS], i;
	rlx_value v;

	for (i = 0; i < l->n; i++)
		in[i] = seen_as(rw, rlx_rewrite_value(rw, l->from[i]), &l->type[i]).id;
	v = rw->g->err.status ? RLX_NONE :
	    rlx_node_new(rw->g, rlx_op_region.def, &a, in, l->n, root);
	for (i = 0; i < l->n_out; i++)
		rlx_rewrite_set(rw, l->out[i], seen_as(rw, (rlx_value){ v.id ? v.id + i : 0 },
						       &rw->old->val[l->out[i]].type));
}

static void emit_all(struct rlx_rewrite *rw, const struct grower *gr,
		     const struct region_list *l)
{
	uint32_t n;

	for (n = 0; n < gr->g->n_node; n++) {
		if (!rw->live[n] || (gr->region[n] && gr->region[n] != n + 1))
			continue;
		if (l->body[n])
			emit_region(rw, &gr->g->node[n], l->body[n], l->inputs[n]);
		else
			rlx_rewrite_copy(rw, n);
	}
}

/* Values that are needed anyway: a move that makes one is no part of a region. */
static void mark_kept(struct grower *gr)
{
	const struct rlx_graph *g = gr->g;
	bool edge, last;
	uint32_t n, k;

	for (k = 0; k < g->io[RLX_IO_OUTPUT].n; k++) {
		n = g->io[RLX_IO_OUTPUT].e[k].v.id;
		gr->kept[n] = true;
		if (g->io[RLX_IO_OUTPUT].e[k].state && !g->val[n].index)
			gr->updates[g->val[n].node]++;
	}
	for (n = 0; n < g->n_node; n++)
		for (k = 0; k < g->node[n].n_in && gr->rw->live[n]; k++)
			if (node_kind(g, &g->node[n], &edge, &last) == K_NONE)
				gr->kept[g->node[n].in[k]] = true;
}

enum rlx_status rlx_pass_region(struct rlx_pass_ctx *c, struct rlx_graph *g,
				struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	struct grower gr = { .g = g, .rw = &rw, .repeats = &c->target.repeats };
	struct region_list l = { 0 };
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err), end;
	unsigned int count = 0;
	uint32_t n;

	if (st)
		return st;
	gr.region = rlx_calloc(g->n_node + 1, sizeof(*gr.region));
	l.body = rlx_calloc(g->n_node + 1, sizeof(*l.body));
	l.inputs = rlx_calloc(g->n_node + 1, sizeof(*l.inputs));
	gr.kept = rlx_calloc(g->n_val, sizeof(*gr.kept));
	gr.updates = rlx_calloc(g->n_node + 1, sizeof(*gr.updates));
	if (!gr.region || !l.body || !l.inputs || !gr.kept || !gr.updates)
		st = rlx_fail(c->err, RLX_ENOMEM, "region: out of memory");
	if (!st) {
		mark_kept(&gr);
		st = collect(&gr, &l, c, &count);
	}
	if (!st)
		emit_all(&rw, &gr, &l);
	else
		rlx_fail(&rw.g->err, st, "%s", c->err->text);
	end = rlx_rewrite_end(&rw, out);
	if (!st && !end && c->report && count)
		fprintf(c->report, "made %u regions\n", count);
	for (n = 0; l.body && l.inputs && n < g->n_node; n++) {
		rlx_graph_put(l.body[n]);
		rlx_free(l.inputs[n]);
	}
	rlx_free(gr.region);
	rlx_free(l.body);
	rlx_free(l.inputs);
	rlx_free(gr.kept);
	rlx_free(gr.updates);
	return st ? st : end;
}
