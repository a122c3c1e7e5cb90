// SPDX-License-Identifier: MIT
/* Where in the bodies of control flow a NaN comes from: its op evaluated again, node by node. */
#include <string.h>

#include "base/alloc.h"
#include "ir/eval.h"
#include "rt/inspect.h"

/* One evaluation of an op that calls graphs, up to the first bad value in them. */
struct replay {
	struct rlx_inspection	*a;
	uint32_t		 flags;
	const struct rlx_graph	*body[2];	/* those it called so far, and how often */
	int64_t			 calls[2];
	int64_t			 iteration;	/* of the one that runs */
	struct rlx_inner	*found;
};

static enum rlx_status no_memory(struct rlx_error *err)
{
	return rlx_fail(err, RLX_ENOMEM, "inspect: out of memory");
}

/* Value @id with a copy of its elements. False: out of memory. */
static bool keep_value(struct replay *r, const struct rlx_graph *g, uint32_t id,
		       const struct rlx_tensor *t, struct rlx_inspected *v)
{
	const struct rlx_node *n = rlx_node_of(g, id);
	size_t bytes = (size_t)rlx_type_bytes(&t->type);
	void *copy = rlx_bump_new(&r->a->bump, bytes + 1, 1);

	if (!copy)
		return false;
	memcpy(copy, t->data, bytes);
	*v = rlx_inspected_of(g, id);
	if (n->def->index == RLX_OP_input)
		v->name = ((const struct rlx_op_input *)n->args)->name;
	v->data = copy;
	rlx_inspected_look(v);
	return true;
}

/* Output @o of node @n, and of what it was computed. */
static enum rlx_status keep(struct replay *r, const struct rlx_graph *g, uint32_t n, uint32_t o,
			    const struct rlx_eval *q)
{
	const struct rlx_node *node = &g->node[n];
	struct rlx_bump *bump = &r->a->bump;
	struct rlx_inner *found = rlx_bump_new(bump, 1, sizeof(*found));
	struct rlx_inspected *of = rlx_bump_new(bump, node->n_in + 1ul, sizeof(*of));
	const struct rlx_inspected **in = rlx_bump_new(bump, node->n_in + 1ul, sizeof(*in));
	uint32_t k;

	if (!found || !of || !in || !keep_value(r, g, node->out + o, &q->out[o], &found->v))
		return no_memory(q->err);
	for (k = 0; k < node->n_in; k++) {
		if (!node->in[k])
			continue;
		if (!keep_value(r, g, node->in[k], &q->in[k], &of[k]))
			return no_memory(q->err);
		of[k].n_in = 0;		/* theirs are not told */
		in[k] = &of[k];
	}
	found->v.in = in;
	found->g = g;
	found->iteration = r->iteration;
	found->next = r->a->inner;
	r->a->inner = r->found = found;
	return RLX_OK;
}

static enum rlx_status see_node(void *ctx, const struct rlx_graph *g, uint32_t n,
				const struct rlx_eval *q)
{
	enum rlx_status st = rlx_op_eval(q);
	struct replay *r = ctx;
	uint32_t o;

	for (o = 0; !st && o < q->n_out; o++) {
		struct rlx_inspected v = rlx_inspected_of(g, g->node[n].out + o);

		v.data = q->out[o].data;
		rlx_inspected_look(&v);
		if (!rlx_inspected_is_bad(&v, r->flags))
			continue;
		st = keep(r, g, n, o, q);
		return st ? st : RLX_EBUSY;	/* any but OK: it ends here */
	}
	return st;
}

static enum rlx_status call_body(struct rlx_eval *q, const struct rlx_graph *sub,
				 const struct rlx_tensor *in, struct rlx_tensor *out)
{
	struct replay *r = q->call_ctx;
	int k = r->body[0] && r->body[0] != sub;

	r->body[k] = sub;
	r->iteration = r->calls[k]++;
	return rlx_graph_eval_by(sub, in, out, see_node, r, q->err);
}

/* The graph that has @v; NULL: it is not of this inspection. */
static const struct rlx_graph *graph_of(const struct rlx_inspection *a,
					const struct rlx_inspected *v)
{
	const struct rlx_inner *i;

	if (v > a->v && v < a->v + a->n)
		return a->of->g;
	for (i = a->inner; i; i = i->next)
		if (&i->v == v)
			return i->g;
	return NULL;
}

/* Op and outputs of @v once more, on the values that it took. */
static enum rlx_status replay(struct replay *r, const struct rlx_graph *g,
			      const struct rlx_inspected *v, struct rlx_error *err)
{
	const struct rlx_node *n = rlx_node_of(g, v->id);
	struct rlx_tensor *t = rlx_calloc((size_t)n->n_in + n->n_out + 1, sizeof(*t));
	struct rlx_eval q = { .err = err, .def = n->def, .args = n->args, .n_in = n->n_in,
			      .in = t, .n_out = n->n_out, .out = t ? t + n->n_in : NULL,
			      .call = call_body, .call_ctx = r };
	enum rlx_status st = t ? RLX_OK : no_memory(err);
	uint32_t k;

	for (k = 0; !st && k < n->n_in; k++) {
		if (!v->in[k])
			continue;
		t[k] = (struct rlx_tensor){ v->in[k]->type, (void *)(uintptr_t)v->in[k]->data };
		if (!t[k].data && rlx_type_bytes(&t[k].type))
			st = rlx_fail(err, RLX_ENOSUP, "inspect: a plan file left the contents of "
				      "a constant out that %s reads", v->op);
	}
	for (k = 0; !st && k < n->n_out; k++) {
		q.out[k].type = g->val[n->out + k].type;
		q.out[k].data = rlx_aligned(64, (size_t)rlx_type_bytes(&q.out[k].type) + 1);
		if (!q.out[k].data)
			st = no_memory(err);
	}
	if (!st)
		st = rlx_op_eval(&q);
	for (k = 0; t && k < n->n_out; k++)
		rlx_free(q.out[k].data);
	rlx_free(t);
	return r->found ? RLX_OK : st;
}

enum rlx_status rlx_inspection_inside(struct rlx_inspection *a, const struct rlx_inspected *v,
				      uint32_t flags, const struct rlx_inspected **out,
				      int64_t *iteration, struct rlx_error *err)
{
	struct replay r = { .a = a, .flags = flags };
	const struct rlx_graph *g = a && v ? graph_of(a, v) : NULL;
	enum rlx_status st;

	if (!g || !out || !iteration || flags & ~(uint32_t)RLX_INSPECT_INF)
		return rlx_fail(err, RLX_EINVAL, "inspect: a value of this inspection, known flags "
				"and places for one of a body and its iteration, are needed");
	*out = NULL;
	*iteration = 0;
	if (!rlx_calls_bodies(rlx_node_of(g, v->id)->def))
		return RLX_OK;
	st = replay(&r, g, v, err);
	if (!st && r.found) {
		*out = &r.found->v;
		*iteration = r.found->iteration;
	}
	return st;
}
