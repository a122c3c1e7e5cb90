// SPDX-License-Identifier: MIT
/* Reference evaluation of one op and of a whole graph, on host tensors. */
#include "base/alloc.h"
#include "ir/eval.h"
#include "ir/graph.h"

static enum rlx_status eval_expanded(const struct rlx_eval *q, const void *args,
				     struct rlx_error *err);

static enum rlx_status call_graph(struct rlx_eval *q, const struct rlx_graph *sub,
				  const struct rlx_tensor *in,
				  struct rlx_tensor *out)
{
	return rlx_graph_eval(sub, in, out, q->err);
}

bool rlx_is_idle(int64_t (*count)(const void *of, uint32_t k), const void *of, uint32_t n_in,
		 uint32_t n_out)
{
	bool empty = false;
	uint32_t k;

	for (k = 0; k < n_out; k++)
		if (count(of, n_in + k))
			return false;
	for (k = 0; k < n_in; k++)
		empty = empty || !count(of, k);
	return empty;
}

static int64_t count_of(const void *infer, uint32_t k)
{
	const struct rlx_infer *q = infer;
	const struct rlx_type *t = k < q->n_in ? q->in[k] : &q->out[k - q->n_in];

	return t ? rlx_type_count(t) : -1;
}

static bool is_idle(const struct rlx_infer *q)
{
	return rlx_is_idle(count_of, q, q->n_in, q->n_out);
}

size_t rlx_op_scratch(const struct rlx_infer *q)
{
	return !q->def->impl->scratch || is_idle(q) ? 0 : q->def->impl->scratch(q);
}

static enum rlx_status eval_typed(struct rlx_eval *q, const struct rlx_infer *types)
{
	size_t bytes = q->scratch ? 0 : rlx_op_scratch(types);
	void *own = NULL;
	enum rlx_status st;

	if (is_idle(types))
		return RLX_OK;
	if (!q->def->impl->eval)
		return eval_expanded(q, q->args, q->err);
	if (bytes) {
		own = bytes == SIZE_MAX ? NULL : rlx_aligned(64, bytes);
		if (!own)
			return rlx_fail(q->err, RLX_ENOMEM, "%s: out of memory", q->def->name);
		q->scratch = own;
	}
	st = q->def->impl->eval(q);
	rlx_free(own);
	return st;
}

enum rlx_status rlx_op_eval(const struct rlx_eval *given)
{
	struct rlx_eval q = *given;
	struct rlx_infer types = { .def = q.def, .args = q.args, .n_in = q.n_in,
				   .n_out = q.n_out };
	const struct rlx_type *few[16], **in = few;
	enum rlx_status st;
	uint32_t i;

	if (q.n_in > sizeof(few) / sizeof(*few))
		in = rlx_calloc(q.n_in, sizeof(*in));
	if (!in)
		return rlx_fail(q.err, RLX_ENOMEM, "%s: out of memory", q.def->name);
	if (!q.call)
		q.call = call_graph;
	types.in = in;
	for (i = 0; i < q.n_in; i++)
		in[i] = q.in[i].type.dtype ? &q.in[i].type : NULL;
	for (i = 0; i < q.n_out; i++)
		types.out[i] = q.out[i].type;
	st = eval_typed(&q, &types);
	if (in != few)
		rlx_free(in);
	return st;
}

/* Build the graph that the op stands for and evaluate that. */
static enum rlx_status eval_expanded(const struct rlx_eval *q, const void *args,
				     struct rlx_error *err)
{
	struct rlx_graph *g = rlx_graph_new(q->def->name);
	rlx_value *v = rlx_calloc(q->n_in + q->n_out + 1, sizeof(*v));
	struct rlx_tensor *in = rlx_calloc(q->n_in + 1, sizeof(*in));
	struct rlx_type *types = rlx_calloc(q->n_out + 1, sizeof(*types));
	struct rlx_expand x = {
		.g = g, .def = q->def, .args = args, .n_in = q->n_in,
		.n_out = q->n_out, .in = v, .out_type = types,
	};
	enum rlx_status st = RLX_ENOMEM;
	struct rlx_error inner = { 0 };
	uint32_t i, n = 0;
	char name[16];

	if (!g || !v || !in || !types) {
		rlx_fail(err, RLX_ENOMEM, "%s: out of memory", q->def->name);
		goto out_free;
	}
	x.out = v + q->n_in;
	for (i = 0; i < q->n_in; i++) {
		if (!q->in[i].data && rlx_type_bytes(&q->in[i].type))
			continue;
		if (!q->in[i].type.dtype)
			continue;
		snprintf(name, sizeof(name), "%u", i);
		v[i] = rlx_input(g, name, q->in[i].type);
		in[n++] = q->in[i];
	}
	for (i = 0; i < q->n_out; i++)
		types[i] = q->out[i].type;
	rlx_expand_op(&x, q->def->impl->expand);
	for (i = 0; i < q->n_out; i++) {
		snprintf(name, sizeof(name), "%u", i);
		rlx_output(g, name, x.out[i]);
	}
	st = rlx_graph_finish(g);
	if (st) {
		rlx_fail(err, st, "%s: %s", q->def->name, rlx_graph_error(g)->text);
		goto out_free;
	}
	/* whoever asks knows of this op, and not of those that it stands for */
	st = rlx_graph_eval(g, in, q->out, &inner);
	if (st)
		rlx_error_set(err, st, inner.file, inner.line, "%s: %s", q->def->name, inner.text);
out_free:
	rlx_free(types);
	rlx_free(in);
	rlx_free(v);
	rlx_graph_put(g);
	return st;
}

/* The evaluation of node @n with the tensors of its values at @t, but for its err. */
static enum rlx_status take_node(const struct rlx_graph *g, uint32_t n,
				 struct rlx_tensor *t, struct rlx_tensor *in, struct rlx_eval *q)
{
	const struct rlx_node *v = &g->node[n];
	uint32_t i;

	*q = (struct rlx_eval){
		.err = q->err, .def = v->def, .args = v->args, .n_in = v->n_in, .in = in,
		.n_out = v->n_out, .out = &t[v->out],
	};
	for (i = 0; i < v->n_in; i++)
		in[i] = v->in[i] ? t[v->in[i]] : (struct rlx_tensor){ 0 };
	for (i = 0; i < v->n_out; i++) {
		struct rlx_tensor *o = &t[v->out + i];

		o->type = g->val[v->out + i].type;
		o->data = rlx_aligned(64, (size_t)rlx_type_bytes(&o->type) + 1);
		if (!o->data)
			return rlx_fail(q->err, RLX_ENOMEM, "%s: out of memory",
					v->def->name);
	}
	return RLX_OK;
}

static void copy_outputs(const struct rlx_graph *g, const struct rlx_tensor *t,
			 struct rlx_tensor *out)
{
	uint32_t i;

	for (i = 0; i < g->io[RLX_IO_OUTPUT].n; i++) {
		const struct rlx_tensor *s = &t[g->io[RLX_IO_OUTPUT].e[i].v.id];

		__builtin_memcpy(out[i].data, s->data, (size_t)rlx_type_bytes(&s->type));
		out[i].type = s->type;
	}
}

enum rlx_status rlx_graph_eval(const struct rlx_graph *g,
			       const struct rlx_tensor *in,
			       struct rlx_tensor *out, struct rlx_error *err)
{
	return rlx_graph_eval_by(g, in, out, NULL, NULL, err);
}

enum rlx_status rlx_graph_eval_by(const struct rlx_graph *g, const struct rlx_tensor *in,
				  struct rlx_tensor *out, rlx_eval_node *by, void *ctx,
				  struct rlx_error *err)
{
	struct rlx_tensor *t = rlx_calloc(g->n_val, sizeof(*t)), *args;
	struct rlx_eval q = { .err = err };
	enum rlx_status st = RLX_OK;
	uint32_t n, i, most = 1;

	for (n = 0; n < g->n_node; n++)
		most = g->node[n].n_in > most ? g->node[n].n_in : most;
	args = rlx_calloc(most, sizeof(*args));
	if (!t || !args) {
		st = rlx_fail(err, RLX_ENOMEM, "graph '%s': out of memory", g->name);
		goto out_free;
	}
	for (i = 0; i < g->io[RLX_IO_INPUT].n; i++)
		t[g->io[RLX_IO_INPUT].e[i].v.id] = in[i];
	for (n = 0; n < g->n_node && !st; n++) {
		if (g->node[n].def->index == RLX_OP_input)
			continue;
		if (g->node[n].def->index == RLX_OP_param)
			st = rlx_fail(err, RLX_EINVAL,
				      "graph '%s': a graph evaluated here cannot have params",
				      g->name);
		else
			st = take_node(g, n, t, args, &q);
		if (!st)
			st = by ? by(ctx, g, n, &q) : rlx_op_eval(&q);
	}
	if (!st)
		copy_outputs(g, t, out);
	for (i = 1; i < g->n_val; i++)
		if (rlx_node_of(g, i)->def->index != RLX_OP_input)
			rlx_free(t[i].data);
out_free:
	rlx_free(args);
	rlx_free(t);
	return st;
}
