// SPDX-License-Identifier: MIT
/*
 * The walk over a model's nodes. Scopes map names to values; functions and the
 * graphs of conditionals are imported in place.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/onnx/imp.h"

#define MAX_DEPTH	64	/* of scopes */
/*
 * Unrolling and nested functions multiply: a bound against hostile models. References to values
 * are kept until the import ends; so many weigh as much as a node.
 */
#define MAX_NODES	(256u << 10)
#define NODE_REFS	32

struct onnx_val *onnx_lookup(struct onnx_scope *s, struct rlx_str name)
{
	uint64_t p;

	if (!name.n)
		return NULL;
	for (; s; s = s->parent)
		if (rlx_map_get(&s->env, name.p, name.n, &p))
			return (struct onnx_val *)(uintptr_t)p;
	return NULL;
}

static enum rlx_status bind(struct onnx_build *b, struct onnx_scope *s,
			    struct rlx_str name, struct onnx_val *v)
{
	uint64_t old;

	if (!name.n)
		return RLX_OK;
	if (rlx_map_get(&s->env, name.p, name.n, &old))
		return rlx_fail(b->err, RLX_EPARSE, "onnx: %s: two values are "
				"named '%.*s'", onnx_file_name(b->file),
				ONNX_STR(name));
	if (!rlx_map_put(&s->env, name.p, name.n, (uintptr_t)v))
		return onnx_nomem(b);
	return RLX_OK;
}

/* The opset that applies to a node of @domain in this scope. */
static int64_t opset_of(const struct onnx_build *b, const struct onnx_scope *s,
			struct rlx_str domain)
{
	int64_t v;

	while (s && !s->opsets)
		s = s->parent;
	v = s ? onnx_opset_find(s->opsets, s->nopsets, domain) : 0;
	/* Before IR version 3 there were no imports, only opset 1. */
	if (!v && b->model->ir_version < 3)
		v = 1;
	return v;
}

/* The three names of a function with their lengths, in b->key. 0: no memory. */
static size_t function_key(struct onnx_build *b, struct rlx_str name, struct rlx_str domain,
			   struct rlx_str overload)
{
	const struct rlx_str s[] = { name, domain, overload };
	size_t n = 0, i;

	for (i = 0; i < 3; i++) {
		size_t to = n + sizeof(s[i].n) + s[i].n;

		if (to < n || to > UINT32_MAX ||
		    !rlx_grow(&b->key, &b->cap_key, (uint32_t)to, 1)) {
			onnx_nomem(b);
			return 0;
		}
		memcpy(b->key + n, &s[i].n, sizeof(s[i].n));
		if (s[i].n)
			memcpy(b->key + n + sizeof(s[i].n), s[i].p, s[i].n);
		n = to;
	}
	return n;
}

/* The first of a name counts. */
static enum rlx_status list_functions(struct onnx_build *b)
{
	const struct onnx_function *f = b->model->functions;
	uint64_t old;
	size_t i, n;

	for (i = 0; i < b->model->nfunctions; i++) {
		n = function_key(b, f[i].name, f[i].domain, f[i].overload);
		if (!n)
			return RLX_ENOMEM;
		if (!rlx_map_get(&b->functions, b->key, n, &old) &&
		    !rlx_map_put(&b->functions, b->key, n, (uintptr_t)&f[i]))
			return onnx_nomem(b);
	}
	return RLX_OK;
}

static enum rlx_status function_of(struct onnx_build *b, const struct onnx_node *n,
				   const struct onnx_function **out)
{
	uint64_t p = 0;
	size_t len;

	*out = NULL;
	if (!b->model->nfunctions)
		return RLX_OK;
	len = function_key(b, n->op_type, n->domain, n->overload);
	if (!len)
		return RLX_ENOMEM;
	if (rlx_map_get(&b->functions, b->key, len, &p))
		*out = (const struct onnx_function *)(uintptr_t)p;
	return RLX_OK;
}

enum rlx_status onnx_charge(struct onnx_op *q, uint64_t nodes, uint64_t refs)
{
	uint64_t *n = &q->b->n_node;

	/* Each is at most the size of a file, or 2^32. */
	*n += nodes + refs / NODE_REFS;
	if (*n > MAX_NODES)
		return op_err(q, RLX_ENOSUP, "more than %u nodes after unrolling", MAX_NODES);
	return RLX_OK;
}

static enum rlx_status run_nodes(struct onnx_build *b, struct onnx_scope *s,
				 const struct onnx_node *n, size_t count);

static enum rlx_status scope_begin(struct onnx_op *q, struct onnx_scope *s)
{
	struct onnx_build *b = q->b;
	enum rlx_status st;

	if (b->depth >= MAX_DEPTH)
		return op_err(q, RLX_EPARSE, "functions or graphs nest more "
			      "than %d deep", MAX_DEPTH);
	/* A step of a loop is work even if its body has no nodes. */
	st = onnx_charge(q, 1, 0);
	if (st)
		return st;
	b->depth++;
	s->caller = b->scope;
	b->scope = s;
	return RLX_OK;
}

static void scope_end(struct onnx_build *b, struct onnx_scope *s)
{
	b->depth--;
	b->scope = s->caller;
	rlx_map_fini(&s->env);
}

static enum rlx_status bind_initializers(struct onnx_build *b,
					 struct onnx_scope *s,
					 const struct onnx_graph *g)
{
	enum rlx_status st = RLX_OK;
	struct onnx_val *v;
	size_t i;

	for (i = 0; !st && i < g->ninitializers; i++) {
		const struct onnx_tensor *t = &g->initializers[i];
		uint64_t old;

		/* An input of the same name overrides its default. */
		if (t->name.n && rlx_map_get(&s->env, t->name.p, t->name.n,
					     &old))
			continue;
		v = onnx_val_tensor(b, t);
		st = v ? bind(b, s, t->name, v) : b->err->status;
	}
	return st;
}

static enum rlx_status collect(struct onnx_op *q, struct onnx_scope *s,
			       struct rlx_str name, struct onnx_val **out)
{
	*out = onnx_lookup(s, name);
	if (!*out)
		return op_err(q, RLX_EPARSE, "output '%.*s' of the inner graph "
			      "is made by no node", ONNX_STR(name));
	return RLX_OK;
}

enum rlx_status onnx_inline(struct onnx_op *q, const struct onnx_graph *g,
			    struct onnx_vals in, struct onnx_vals out,
			    bool repeats)
{
	struct onnx_scope s = {
		.parent = q->scope, .graph = g, .repeats = repeats,
	};
	enum rlx_status st;
	uint32_t i;

	if (g->ninputs != in.n || g->noutputs != out.n)
		return op_err(q, RLX_EPARSE, "inner graph has %zu inputs and "
			      "%zu outputs, not %u and %u", g->ninputs,
			      g->noutputs, in.n, out.n);
	st = scope_begin(q, &s);
	if (st)
		return st;
	for (i = 0; !st && i < in.n; i++)
		st = bind(q->b, &s, g->inputs[i].name, in.v[i]);
	if (!st)
		st = bind_initializers(q->b, &s, g);
	if (!st)
		st = run_nodes(q->b, &s, g->nodes, g->nnodes);
	for (i = 0; !st && i < out.n; i++)
		st = collect(q, &s, g->outputs[i].name, &out.v[i]);
	scope_end(q->b, &s);
	return st;
}

/* The call's attributes, with references to an outer call resolved. */
static enum rlx_status call_args(struct onnx_op *q,
				 const struct onnx_function *f,
				 struct onnx_scope *s)
{
	struct onnx_attr *a = rlx_bump_new(&q->b->mem, q->n->nattrs +
					   f->nattrs, sizeof(*a));
	size_t i, k;

	if (!a)
		return onnx_nomem(q->b);
	s->args = a;
	for (i = 0; i < q->n->nattrs; i++) {
		char name[128];
		const struct onnx_attr *v;

		if ((size_t)snprintf(name, sizeof(name), "%.*s",
				     (int)(q->n->attrs[i].name.n & 0xffff),
				     q->n->attrs[i].name.p) >= sizeof(name))
			return op_err(q, RLX_ENOSUP, "an attribute's name is "
				      "longer than 127 bytes");
		v = onnx_attr_of(q, name);
		if (!v)
			continue;	/* refers to an absent argument */
		a[s->nargs] = *v;
		a[s->nargs++].name = q->n->attrs[i].name;
	}
	for (i = 0; i < f->nattrs; i++) {
		for (k = 0; k < q->n->nattrs; k++)
			if (onnx_str_eq(q->n->attrs[k].name, f->attrs[i].name))
				break;
		if (k == q->n->nattrs)
			a[s->nargs++] = f->attrs[i];
	}
	return RLX_OK;
}

static enum rlx_status call(struct onnx_op *q, const struct onnx_function *f)
{
	struct onnx_scope s = {
		.fn = f, .opsets = f->opsets, .nopsets = f->nopsets,
	};
	enum rlx_status st;
	uint32_t i;

	if (q->n_in > f->ninputs || q->n_out > f->noutputs)
		return op_err(q, RLX_EPARSE, "%u inputs and %u outputs, the "
			      "function has %zu and %zu", q->n_in, q->n_out,
			      f->ninputs, f->noutputs);
	st = call_args(q, f, &s);
	if (!st)
		st = scope_begin(q, &s);
	if (st)
		return st;
	for (i = 0; !st && i < q->n_in; i++)
		if (q->in[i])
			st = bind(q->b, &s, f->inputs[i], q->in[i]);
	if (!st)
		st = run_nodes(q->b, &s, f->nodes, f->nnodes);
	for (i = 0; !st && i < q->n_out; i++)
		st = collect(q, &s, f->outputs[i], &q->out[i]);
	scope_end(q->b, &s);
	return st;
}

/* Inputs the handler cannot do without knowing, all in one stop. */
static enum rlx_status host_inputs(struct onnx_op *q)
{
	struct onnx_val *need[32];
	uint32_t i, n = 0;

	for (i = 0; i < q->n_in && i < 32; i++)
		if (q->row->host & 1u << i && q->in[i])
			need[n++] = q->in[i];
	return onnx_need(q->b, need, n);
}

/* What does a node: a function of the model, or a row of the table. */
static enum rlx_status find_op(struct onnx_op *q, const struct onnx_function **out_f)
{
	enum rlx_status st = function_of(q->b, q->n, out_f);
	bool is_known;

	if (st || *out_f)
		return st;
	q->row = onnx_row_find(q->n->domain, q->n->op_type, q->opset, &is_known);
	if (q->row)
		return RLX_OK;
	return op_err(q, RLX_ENOSUP, "domain '%.*s': %s", ONNX_STR(q->n->domain), is_known ?
		      "this version of the op is not supported" : "the op is not supported");
}

/* The same of all nodes of a function; graphs inside nodes may never be imported. */
static enum rlx_status check(struct onnx_op *q)
{
	const struct onnx_function *f;
	enum rlx_status st = find_op(q, &f);
	struct onnx_scope s;

	if (st || !f)
		return st;
	s = (struct onnx_scope){ .fn = f, .opsets = f->opsets, .nopsets = f->nopsets };
	st = scope_begin(q, &s);
	if (st)
		return st;
	st = run_nodes(q->b, &s, f->nodes, f->nnodes);
	scope_end(q->b, &s);
	return st;
}

static enum rlx_status handle(struct onnx_op *q)
{
	const struct onnx_function *f;
	const struct onnx_attr *odd;
	enum rlx_status st;
	uint32_t i;

	st = find_op(q, &f);
	if (st || f)
		return st ? st : call(q, f);
	st = host_inputs(q);
	if (!st)
		st = q->row->fn(q);
	if (!st)
		st = onnx_graph_status(q);
	if (st)
		return st;
	odd = onnx_attr_unused(q);
	if (odd)
		return op_err(q, RLX_ENOSUP, "attribute %.*s is not supported",
			      ONNX_STR(odd->name));
	for (i = 0; i < q->n_out; i++)
		if (!q->out[i] && q->n->outputs[i].n)
			return op_err(q, RLX_ENOSUP, "output %u is not "
				      "supported", i);
	return RLX_OK;
}

/* A function's optional input that the call left out is absent. */
static bool may_be_absent(const struct onnx_scope *s, struct rlx_str name)
{
	size_t i;

	while (s && !s->fn)
		s = s->parent;
	for (i = 0; s && i < s->fn->ninputs; i++)
		if (onnx_str_eq(s->fn->inputs[i], name))
			return true;
	return false;
}

static enum rlx_status run_node(struct onnx_build *b, struct onnx_scope *s,
				const struct onnx_node *n)
{
	struct onnx_op q = { .b = b, .n = n, .scope = s };
	enum rlx_status st;
	uint32_t i;

	q.opset = opset_of(b, s, n->domain);
	st = onnx_charge(&q, 1, (uint64_t)n->ninputs + n->noutputs);
	if (st || !b->want)
		return st ? st : check(&q);
	q.n_in = (uint32_t)n->ninputs;
	q.n_out = (uint32_t)n->noutputs;
	q.in = rlx_bump_new(&b->mem, n->ninputs, sizeof(*q.in));
	q.out = rlx_bump_new(&b->mem, n->noutputs, sizeof(*q.out));
	if (!q.in || !q.out)
		return onnx_nomem(b);
	for (i = 0; i < q.n_in; i++) {
		q.in[i] = onnx_lookup(s, n->inputs[i]);
		if (!q.in[i] && n->inputs[i].n &&
		    !may_be_absent(s, n->inputs[i]))
			return op_err(&q, RLX_EPARSE, "input '%.*s' is made by "
				      "no earlier node",
				      ONNX_STR(n->inputs[i]));
	}
	/* Trailing absent inputs say nothing. */
	while (q.n_in && !q.in[q.n_in - 1])
		q.n_in--;
	st = handle(&q);
	for (i = 0; !st && i < q.n_out; i++)
		st = bind(b, s, n->outputs[i], q.out[i]);
	return st;
}

static enum rlx_status run_nodes(struct onnx_build *b, struct onnx_scope *s,
				 const struct onnx_node *n, size_t count)
{
	enum rlx_status st;

	for (s->pos = 0; s->pos < count; s->pos++) {
		st = run_node(b, s, &n[s->pos]);
		if (st)
			return st;
	}
	return RLX_OK;
}

/* What the model says about an input must hold for the instance. */
static enum rlx_status check_type(struct onnx_build *b,
				  const struct rlx_spec *s,
				  const struct onnx_type *t)
{
	const struct onnx_shape *shape;
	uint32_t i;

	if (!t || !t->tensor || s->kind != RLX_SPEC_TENSOR)
		return RLX_OK;
	if (t->tensor->elem && s->type.dtype !=
	    onnx_dtype_to_rlx(t->tensor->elem))
		return rlx_fail(b->err, RLX_ETYPE, "onnx: input '%s' has type "
				"%s, the model wants %s", s->name,
				rlx_dtype_name(s->type.dtype),
				onnx_dtype_name(t->tensor->elem));
	shape = t->tensor->shape;
	if (!shape)
		return RLX_OK;
	if (shape->ndims != s->type.rank)
		return rlx_fail(b->err, RLX_ESHAPE, "onnx: input '%s' has rank "
				"%u, the model wants %zu", s->name,
				s->type.rank, shape->ndims);
	for (i = 0; i < s->type.rank; i++) {
		const struct onnx_dim *d = &shape->dims[i];

		/* Exporters write 0 and -1 for a dim they do not know. */
		if (d->has & ONNX_DIM_VALUE && d->value > 0 &&
		    d->value != s->type.dim[i])
			return rlx_fail(b->err, RLX_ESHAPE, "onnx: dim %u of "
					"input '%s' is %lld, the model wants "
					"%lld", i, s->name,
					(long long)s->type.dim[i],
					(long long)d->value);
	}
	return RLX_OK;
}

/* Integers this few are sizes or switches: worth an instance per contents. */
#define SMALL_INPUT	8

static struct onnx_val *spec_val(struct onnx_build *b,
				 const struct rlx_spec *s, const char *name,
				 uint32_t index);

static bool spec_items(struct onnx_build *b, const struct rlx_spec *s,
		       struct onnx_val *v, uint32_t index)
{
	size_t size = strlen(v->input) + 16;
	uint32_t i;
	char *name;

	v->item = rlx_bump_new(&b->mem, s->n_item, sizeof(*v->item));
	if (!v->item)
		return false;
	for (i = 0; i < s->n_item; i++) {
		name = rlx_bump_new(&b->mem, size, 1);
		if (!name)
			return false;
		snprintf(name, size, "%s[%u]", v->input, i);
		v->item[i] = spec_val(b, &s->item[i], name, index);
		if (!v->item[i])
			return false;
	}
	v->n_item = s->n_item;
	return true;
}

static bool spec_tensor(struct onnx_build *b, const struct rlx_spec *s,
			struct onnx_val *v, uint32_t index)
{
	int64_t bytes = rlx_type_bytes(&s->type);

	if (bytes < 0) {
		rlx_fail(b->err, RLX_ESHAPE, "onnx: input '%s' has no valid "
			 "type", v->input);
		return false;
	}
	if (s->data) {
		v->blob = rlx_blob_copy(s->data, (size_t)bytes);
		return v->blob;
	}
	v->roots = index < 63 ? 1ull << index : ONNX_ROOT_OPAQUE;
	if (rlx_dtype_is_float(s->type.dtype) ||
	    rlx_type_count(&s->type) > SMALL_INPUT)
		v->roots |= ONNX_ROOT_OPAQUE;
	/* A graph input even if nothing uses it: binding must not depend on that. */
	onnx_use(b, v);
	return true;
}

static struct onnx_val *spec_val(struct onnx_build *b,
				 const struct rlx_spec *s, const char *name,
				 uint32_t index)
{
	struct onnx_val *v = onnx_val_new(b, s->kind);
	bool ok = true;

	if (!v)
		return NULL;
	v->type = s->type;
	v->str = s->str;
	v->input = name;
	if (s->kind == RLX_SPEC_LIST)
		ok = spec_items(b, s, v, index);
	else if (s->kind == RLX_SPEC_TENSOR)
		ok = spec_tensor(b, s, v, index);
	if (ok)
		return v;
	if (!b->err->status)
		onnx_nomem(b);
	return NULL;
}

/* What the caller gives input @i of the graph by name. */
static enum rlx_status bind_spec(struct onnx_build *b, struct onnx_scope *s,
				 const struct onnx_value_info *in, uint32_t i)
{
	const struct rlx_spec *sp = &b->want->spec[i];
	enum rlx_status st = check_type(b, sp, in->type);
	struct onnx_val *v;

	if (st)
		return st;
	v = spec_val(b, sp, sp->name, i);
	if (!v)
		return b->err->status;
	if (in->type && in->type->tensor)
		v->elem = in->type->tensor->elem;
	return bind(b, s, in->name, v);
}

static enum rlx_status bind_specs(struct onnx_build *b, struct onnx_scope *s)
{
	const struct onnx_graph *g = b->model->graph;
	enum rlx_status st = RLX_OK;
	struct rlx_map inputs = { 0 };
	uint64_t p;
	uint32_t i;
	size_t k;

	/* Of one name the first; bind() refuses two. */
	for (k = g->ninputs; !st && k > 0; k--) {
		struct rlx_str name = g->inputs[k - 1].name;

		if (!rlx_map_put(&inputs, name.n ? name.p : "", name.n,
				 (uintptr_t)&g->inputs[k - 1]))
			st = onnx_nomem(b);
	}
	for (i = 0; !st && i < b->want->n_spec; i++) {
		const char *name = b->want->spec[i].name;

		if (!rlx_map_get(&inputs, name, strlen(name), &p))
			st = rlx_fail(b->err, RLX_ENOENT, "onnx: %s has no "
				      "input '%s'", onnx_file_name(b->file), name);
		else
			st = bind_spec(b, s, (const struct onnx_value_info *)(uintptr_t)p, i);
	}
	rlx_map_fini(&inputs);
	return st;
}

static enum rlx_status bind_inputs(struct onnx_build *b, struct onnx_scope *s)
{
	const struct onnx_graph *g = b->model->graph;
	enum rlx_status st = bind_specs(b, s);
	size_t k;

	if (!st)
		st = bind_initializers(b, s, g);
	for (k = 0; !st && k < g->ninputs; k++)
		if (!onnx_lookup(s, g->inputs[k].name))
			st = rlx_fail(b->err, RLX_ENOENT, "onnx: %s: nothing "
				      "is said about input '%.*s'",
				      onnx_file_name(b->file),
				      ONNX_STR(g->inputs[k].name));
	return st;
}

/* The strings may lie in the import's memory: copy them. */
static enum rlx_status put_strings(struct onnx_build *b, struct rlx_spec *o,
				   const struct onnx_val *v,
				   struct rlx_bump *mem)
{
	struct rlx_str *str;
	size_t n = 1, i;
	char *s;

	for (i = 0; i < v->type.rank; i++)
		n *= (size_t)v->type.dim[i];
	o->str = str = rlx_bump_new(mem, n, sizeof(*str));
	if (!str)
		return onnx_nomem(b);
	for (i = 0; i < n; i++) {
		s = rlx_bump_new(mem, v->str[i].n + 1, 1);
		if (!s)
			return onnx_nomem(b);
		if (v->str[i].n)
			memcpy(s, v->str[i].p, v->str[i].n);
		str[i] = (struct rlx_str){ s, v->str[i].n };
	}
	return RLX_OK;
}

static enum rlx_status put_output(struct onnx_build *b, struct rlx_spec *o,
				  struct onnx_val *v, const char *name,
				  struct rlx_bump *mem)
{
	size_t size = strlen(name) + 16;
	enum rlx_status st = RLX_OK;
	struct rlx_spec *item;
	char *s, *sub;
	uint32_t i;

	o->kind = v->kind;
	o->type = v->type;
	o->name = s = rlx_bump_new(mem, size, 1);
	o->item = item = rlx_bump_new(mem, v->n_item, sizeof(*item));
	sub = rlx_bump_new(mem, size, 1);
	if (!s || !item || !sub)
		return onnx_nomem(b);
	strcpy(s, name);
	if (v->kind == RLX_SPEC_TENSOR)
		rlx_output(b->ctx->g, name, onnx_use(b, v));
	if (v->kind == RLX_SPEC_STRINGS)
		return put_strings(b, o, v, mem);
	o->n_item = v->n_item;
	for (i = 0; !st && i < v->n_item; i++) {
		snprintf(sub, size, "%s[%u]", name, i);
		st = put_output(b, &item[i], v->item[i], sub, mem);
	}
	return st;
}

static enum rlx_status put_outputs(struct onnx_build *b, struct onnx_scope *s)
{
	const struct onnx_graph *g = b->model->graph;
	struct rlx_bump *mem = rlx_calloc(1, sizeof(*mem));
	enum rlx_status st = RLX_OK;
	struct onnx_val *v;
	char name[256];
	size_t i;

	b->seg->mem = mem;
	if (!mem)
		return onnx_nomem(b);
	b->seg->n_out = (uint32_t)g->noutputs;
	b->seg->out = rlx_bump_new(mem, g->noutputs, sizeof(*b->seg->out));
	if (!b->seg->out)
		return onnx_nomem(b);
	for (i = 0; !st && i < g->noutputs; i++) {
		v = onnx_lookup(s, g->outputs[i].name);
		if (!v)
			return rlx_fail(b->err, RLX_EPARSE, "onnx: %s: output "
					"'%.*s' is made by no node",
					onnx_file_name(b->file),
					ONNX_STR(g->outputs[i].name));
		if (g->outputs[i].name.n >= sizeof(name))
			return rlx_fail(b->err, RLX_ENOSUP, "onnx: %s: an "
					"output's name has over 255 bytes",
					onnx_file_name(b->file));
		snprintf(name, sizeof(name), "%.*s",
			 (int)g->outputs[i].name.n, g->outputs[i].name.p);
		st = put_output(b, &b->seg->out[i], v, name, mem);
	}
	return st;
}

static enum rlx_status finish_graph(struct onnx_build *b)
{
	struct rlx_graph *g = b->ctx->g;
	enum rlx_status st;

	if (b->seg->need == RLX_NEED_INPUTS ||
	    (!rlx_graph_io_count(g, RLX_IO_OUTPUT) &&
	     !rlx_graph_error(g)->status))
		return RLX_OK;
	st = rlx_graph_finish(g);
	if (st)
		return rlx_fail(b->err, st, "onnx: %s: %s",
				onnx_file_name(b->file),
				rlx_graph_error(g)->text);
	b->seg->g = rlx_graph_get(g);
	return RLX_OK;
}

static enum rlx_status run_model(struct onnx_build *b)
{
	struct onnx_scope s = {
		.graph = b->model->graph, .opsets = b->model->opsets,
		.nopsets = b->model->nopsets,
	};
	enum rlx_status st;

	b->scope = &s;
	st = list_functions(b);
	if (!st && b->want)
		st = bind_inputs(b, &s);
	if (!st)
		st = run_nodes(b, &s, s.graph->nodes, s.graph->nnodes);
	if (!st && b->want)
		st = put_outputs(b, &s);
	if (st == ONNX_STOP)
		st = RLX_OK;
	if (st == ONNX_INNER)
		st = rlx_fail(b->err, RLX_EBUG, "onnx: %s: a stop escaped from "
			      "a body", onnx_file_name(b->file));
	if (!st && b->err->status)
		st = b->err->status;
	if (!st)
		st = finish_graph(b);
	rlx_map_fini(&s.env);
	return st;
}

enum rlx_status onnx_build(struct onnx_file *f,
			   const struct rlx_instance *want,
			   struct rlx_segment *seg, struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct onnx_build b = {
		.file = f, .model = onnx_file_model(f), .want = want,
		.err = &own, .seg = seg,
	};
	struct onnx_val *v;
	enum rlx_status st;
	uint32_t i;

	*seg = (struct rlx_segment){ 0 };
	if (!b.model)
		return rlx_fail(err, RLX_EINVAL, "onnx: %s is no model",
				onnx_file_name(f));
	st = onnx_ctx_begin(&b, false) ? RLX_OK : RLX_ENOMEM;
	if (!st) {
		b.all_ctx[0] = b.ctx;
		st = run_model(&b);
	}
	for (i = 0; i <= b.n_segment; i++)
		onnx_ctx_free(b.all_ctx[i]);
	for (v = b.vals; v; v = v->next)
		rlx_blob_put(v->blob);
	rlx_bump_fini(&b.mem);
	rlx_map_fini(&b.functions);
	rlx_free(b.key);
	if (!st)
		return RLX_OK;
	rlx_segment_fini(seg);
	return rlx_error_set(err, own.status ? own.status : st, own.file,
			     own.line, "%s", own.text);
}
