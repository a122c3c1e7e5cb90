// SPDX-License-Identifier: MIT
/* Templates with sizes put in: arguments, bodies, whole graphs. */
#include <string.h>

#include "base/alloc.h"
#include "ir/dims.h"

enum rlx_status rlx_graph_is_bound(const struct rlx_graph *g, const char *who,
				   struct rlx_error *err)
{
	if (!rlx_graph_dim_count(g))
		return RLX_OK;
	return rlx_fail(err, RLX_EINVAL, "%s: graph '%s' has the dimension '%s', of no size yet: "
			"rlx_graph_bind() gives it one, and rlx_model_from_graph() a model that "
			"runs with any", who, g->name, g->dims->e[g->dims->name[0]].name);
}

enum rlx_status rlx_dim_eval(const struct rlx_dim_at *at, int64_t x, int64_t *out,
			     struct rlx_error *err)
{
	const struct rlx_dim *e;
	enum rlx_status st;
	int64_t a, b;

	*out = x;
	if (!rlx_is_dim(x))
		return RLX_OK;
	if (rlx_dim_place(x) >= at->g->dims->n)
		return rlx_fail(err, RLX_EINVAL, "%lld is no dimension of graph '%s': it is "
				"another graph's", (long long)x, at->g->name);
	e = &at->g->dims->e[rlx_dim_place(x)];
	if (at->sample >= 0) {
		*out = e->sample[at->sample];
		return RLX_OK;
	}
	if (at->sample == RLX_DIM_ALL) {
		*out = at->size[rlx_dim_place(x)];
		return RLX_OK;
	}
	if (e->kind == RLX_DIM_NAME) {
		*out = at->size[rlx_dim_place(x)];
		return *out < 0 ? RLX_EAGAIN : RLX_OK;
	}
	if (e->kind == RLX_DIM_VALUE) {
		if (!at->bound || e->a >= at->bound->n_val)
			return RLX_EAGAIN;
		*out = at->bound->val[e->a].type.dim[e->b];
		return RLX_OK;
	}
	/* at most 16 operands, and so no deeper */
	st = rlx_dim_eval(at, e->a, &a, err);
	if (!st)
		st = rlx_dim_eval(at, e->b, &b, err);
	if (!st && !rlx_dim_compute(e->kind, a, b, out)) {
		char text[RLX_DIM_TEXT];

		rlx_dim_print(at->g, x, text, sizeof(text));
		st = rlx_fail(err, RLX_ERANGE, "graph '%s': the size %.100s is beyond 64 bits, or "
			      "divided by 0", at->g->name, text);
	}
	return st;
}

/* A body for the sizes that its graph has of the same names. */
static enum rlx_status bind_body(const struct rlx_dim_at *at, struct rlx_graph *body,
				 struct rlx_graph **out, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	int64_t *size;
	uint32_t i, k;

	if (!rlx_graph_dim_count(body) || !body->finished || at->sample == RLX_DIM_ALL) {
		*out = rlx_graph_get(body);	/* the op says what is wrong with it */
		return RLX_OK;
	}
	size = rlx_calloc(body->dims->n, sizeof(*size));
	if (!size)
		return rlx_fail(err, RLX_ENOMEM, "bind: out of memory");
	for (i = 0; i < body->dims->n_name && !st; i++) {
		const char *name = body->dims->e[body->dims->name[i]].name;

		k = rlx_dim_find(at->g, name);
		st = k != UINT32_MAX ? rlx_dim_eval(at, RLX_DIM_FIRST + k,
						    &size[body->dims->name[i]], err) :
		     rlx_fail(err, RLX_EINVAL, "body '%s' has the dimension '%s', which graph "
			      "'%s' does not have", body->name, name, at->g->name);
	}
	if (!st)
		st = rlx_graph_bind_sizes(body, size, out, err);
	rlx_free(size);
	return st;
}

static enum rlx_status put_list(struct rlx_args_at *c, const struct rlx_dim_at *at,
				struct rlx_ints *l, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	int64_t *v = rlx_bump_dup(&c->bump, l->v, l->n * sizeof(*v));
	uint32_t i;

	if (!v)
		return rlx_fail(err, RLX_ENOMEM, "bind: out of memory");
	for (i = 0; i < l->n && !st; i++)
		st = rlx_dim_eval(at, v[i], &v[i], err);
	l->v = v;
	return st;
}

static enum rlx_status put_attr(struct rlx_args_at *c, const struct rlx_dim_at *at,
				const struct rlx_field *f, const void *from,
				struct rlx_error *err)
{
	void *p = rlx_field_ptr(f, c->args);
	struct rlx_type *t = p;
	enum rlx_status st = RLX_OK;
	uint32_t i;

	switch (f->kind) {
	case RLX_K_i64:
		return rlx_dim_eval(at, *(int64_t *)p, p, err);
	case RLX_K_ints:
		return put_list(c, at, p, err);
	case RLX_K_type:
		for (i = 0; i < t->rank && i < RLX_MAX_RANK && !st; i++)
			st = rlx_dim_eval(at, t->dim[i], &t->dim[i], err);
		return st;
	case RLX_K_graph:
		return bind_body(at, *(struct rlx_graph **)rlx_field_ptr(f, from), p, err);
	default:
		return RLX_OK;
	}
}

enum rlx_status rlx_args_at(struct rlx_args_at *c, const struct rlx_dim_at *at,
			    const struct rlx_op_def *def, const void *args,
			    struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	uint32_t i;

	*c = (struct rlx_args_at){ .def = def };
	c->args = rlx_bump_dup(&c->bump, args, def->args_size);
	if (!c->args)
		return rlx_fail(err, RLX_ENOMEM, "bind: out of memory");
	for (i = 0; i < def->n_field; i++)	/* none is ours yet */
		if (def->field[i].role == RLX_FIELD_ATTR && def->field[i].kind == RLX_K_graph)
			*(void **)rlx_field_ptr(&def->field[i], c->args) = NULL;
	for (i = 0; i < def->n_field && !st; i++)
		if (def->field[i].role == RLX_FIELD_ATTR)
			st = put_attr(c, at, &def->field[i], args, err);
	if (st)
		rlx_args_at_fini(c);
	return st;
}

enum rlx_status rlx_args_are_plain(const struct rlx_op_def *def, const void *args,
				   struct rlx_error *err)
{
	const struct rlx_type *t;
	const int64_t *v;
	uint32_t i, k, n;

	for (i = 0; i < def->n_field; i++) {
		const struct rlx_field *f = &def->field[i];
		const void *p = rlx_field_ptr(f, (void *)args);

		if (f->role != RLX_FIELD_ATTR)
			continue;
		v = p;
		n = f->kind == RLX_K_i64;
		if (f->kind == RLX_K_ints) {
			v = ((const struct rlx_ints *)p)->v;
			n = ((const struct rlx_ints *)p)->n;
		} else if (f->kind == RLX_K_type) {
			t = p;
			v = t->dim;
			n = t->rank < RLX_MAX_RANK ? t->rank : RLX_MAX_RANK;
		}
		for (k = 0; k < n; k++)
			if (rlx_is_dim(v[k]))
				return rlx_fail(err, RLX_EINVAL, "%s: %s has %lld, which stands for "
						"a dimension of another graph", def->name, f->name,
						(long long)v[k]);
	}
	return RLX_OK;
}

void rlx_args_at_fini(struct rlx_args_at *c)
{
	uint32_t i;

	for (i = 0; c->args && i < c->def->n_field; i++)
		if (c->def->field[i].role == RLX_FIELD_ATTR &&
		    c->def->field[i].kind == RLX_K_graph)
			rlx_graph_put(*(struct rlx_graph **)rlx_field_ptr(&c->def->field[i],
									  c->args));
	rlx_bump_fini(&c->bump);
	c->args = NULL;
}

/* Are the types of node @n what the template says? Then whoever relied on it was right. */
static enum rlx_status check_types(const struct rlx_dim_at *at, const struct rlx_node *n,
				   struct rlx_error *err)
{
	char want[160], have[96];
	uint32_t i, d;

	for (i = 0; i < n->n_out; i++) {
		const struct rlx_type *t = &at->g->val[n->out + i].type;
		const struct rlx_type *b = &at->bound->val[n->out + i].type;
		bool same = b->dtype == t->dtype && b->rank == t->rank;
		int64_t x;

		for (d = 0; d < t->rank && same; d++)
			same = !rlx_dim_eval(at, t->dim[d], &x, err) && x == b->dim[d];
		if (same)
			continue;
		rlx_graph_type_print(at->g, t, want, sizeof(want));
		rlx_type_print(b, have, sizeof(have));
		rlx_error_set(err, RLX_ESHAPE, n->file, n->line, "bind: output %u of %s is %s with "
			      "these sizes, and graph '%s' says %s: give its dimensions a "
			      "range in which that is so", i, n->def->name, have, at->g->name, want);
		return err ? err->status : RLX_ESHAPE;
	}
	return RLX_OK;
}

/* The same node: values keep their numbers, as all nodes come in their order. */
static enum rlx_status bind_node(const struct rlx_dim_at *at, struct rlx_graph *out,
				 const struct rlx_node *n)
{
	struct rlx_args_at c;
	struct rlx_op_input *leaf;
	rlx_value v;

	if (rlx_args_at(&c, at, n->def, n->args, &out->err)) {
		rlx_fail(&out->err, RLX_EBUG, "bind: a size of %s comes of what follows it",
			 n->def->name);
		out->err.file = n->file;
		out->err.line = n->line;
		return out->err.status;
	}
	leaf = c.args;		/* param begins with the same members */
	if (n->def->index == RLX_OP_input)
		v = rlx_leaf_at(out, leaf->state ? RLX_IO_STATE : RLX_IO_INPUT, leaf->name,
				leaf->type, n);
	else if (n->def->index == RLX_OP_param)
		v = rlx_leaf_at(out, RLX_IO_PARAM, leaf->name, leaf->type, n);
	else
		v = rlx_node_new(out, n->def, c.args, n->in, n->n_in, n);
	rlx_args_at_fini(&c);
	if (!v.id)
		return out->err.status;
	out->node[out->n_node - 1].scope = n->scope;
	return check_types(at, n, &out->err);
}

static enum rlx_status in_range(const struct rlx_graph *g, const int64_t *size,
				struct rlx_error *err)
{
	uint32_t i;

	for (i = 0; i < g->dims->n_name; i++) {
		const struct rlx_dim *e = &g->dims->e[g->dims->name[i]];
		int64_t n = size[g->dims->name[i]];

		if (n < e->a || n > e->b)
			return rlx_fail(err, RLX_ERANGE, "graph '%s': the dimension '%s' is %lld; "
					"%lld to %lld are right", g->name, e->name, (long long)n,
					(long long)e->a, (long long)e->b);
	}
	return RLX_OK;
}

enum rlx_status rlx_graph_bind_sizes(const struct rlx_graph *g, const int64_t *size,
				     struct rlx_graph **out, struct rlx_error *err)
{
	const struct rlx_named_list *l = &g->io[RLX_IO_OUTPUT];
	struct rlx_dim_at at = { .g = g, .sample = RLX_DIM_NAMES, .size = size };
	enum rlx_status st = in_range(g, size, err);
	struct rlx_graph *b;
	uint32_t i;

	if (st)
		return st;
	b = rlx_graph_new(g->name);
	if (!b)
		return rlx_fail(err, RLX_ENOMEM, "bind: out of memory");
	at.bound = b;
	if (!rlx_scopes_copy(b, g))
		rlx_fail(&b->err, RLX_ENOMEM, "bind: out of memory");
	for (i = 0; i < g->n_node && !b->err.status; i++)
		bind_node(&at, b, &g->node[i]);
	for (i = 0; i < l->n && !b->err.status; i++)
		rlx_output_at(b, l->e[i].name, l->e[i].v, NULL, 0);
	st = rlx_graph_finish(b);
	if (st) {
		rlx_error_set(err, st, b->err.file, b->err.line, "%s", b->err.text);
		rlx_graph_put(b);
		return st;
	}
	*out = b;
	return RLX_OK;
}

/* The caller's sizes by place; each name once, none left out. */
static enum rlx_status take_sizes(const struct rlx_graph *g, const struct rlx_binding *b,
				  unsigned int n, int64_t *size, struct rlx_error *err)
{
	const struct rlx_dims *d = g->dims;
	uint32_t i, at;

	for (i = 0; i < d->n; i++)
		size[i] = -1;
	for (i = 0; i < n; i++) {
		at = b[i].name ? rlx_dim_find(g, b[i].name) : UINT32_MAX;
		if (at == UINT32_MAX)
			return rlx_fail(err, RLX_ENOENT, "bind: graph '%s' has no dimension "
					"'%.40s'", g->name, b[i].name ? b[i].name : "(null)");
		if (size[at] >= 0)
			return rlx_fail(err, RLX_EINVAL, "bind: the dimension '%s' is given twice",
					b[i].name);
		if (b[i].size < 0)
			return rlx_fail(err, RLX_ERANGE, "bind: the dimension '%s' is %lld; %lld "
					"to %lld are right", b[i].name, (long long)b[i].size,
					(long long)d->e[at].a, (long long)d->e[at].b);
		size[at] = b[i].size;
	}
	for (i = 0; i < d->n_name; i++)
		if (size[d->name[i]] < 0)
			return rlx_fail(err, RLX_EINVAL, "bind: the dimension '%s' of graph '%s' "
					"has no size", d->e[d->name[i]].name, g->name);
	return RLX_OK;
}

enum rlx_status rlx_graph_bind(const struct rlx_graph *g, const struct rlx_binding *b,
			       unsigned int n, struct rlx_graph **out, struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	enum rlx_status st;
	int64_t *size;

	err = err ? err : &own;
	if (!g || !g->finished || !out || (n && !b))
		return rlx_fail(err, RLX_EINVAL, "bind: a finished graph, names with sizes, and a "
				"place for the result are needed");
	*out = NULL;
	if (!rlx_graph_dim_count(g)) {
		if (n)
			return rlx_fail(err, RLX_ENOENT, "bind: graph '%s' has no dimension "
					"'%.40s'", g->name, b[0].name ? b[0].name : "(null)");
		/* references are counted whoever looks: the graph itself stays as it is */
		*out = rlx_graph_get((struct rlx_graph *)(uintptr_t)g);
		return RLX_OK;
	}
	size = rlx_malloc(g->dims->n * sizeof(*size));
	if (!size)
		return rlx_fail(err, RLX_ENOMEM, "bind: out of memory");
	st = take_sizes(g, b, n, size, err);
	if (!st)
		st = rlx_graph_bind_sizes(g, size, out, err);
	rlx_free(size);
	return st;
}
