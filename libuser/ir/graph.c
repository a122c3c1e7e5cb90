// SPDX-License-Identifier: MIT
/* Graph storage, the builder and its sticky error. */
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "ir/custom.h"
#include "ir/dims.h"
#include "ir/element.h"

static const struct rlx_error no_graph = {
	.status = RLX_ENOMEM, .text = "no graph: out of memory, or it failed to open",
};

struct rlx_graph *rlx_graph_new(const char *name)
{
	struct rlx_graph *g = rlx_calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	atomic_init(&g->refs, 1);
	g->n_val = 1;
	g->name = rlx_bump_str(&g->bump, name ? name : "graph",
			       strlen(name ? name : "graph"));
	if (!g->name || !rlx_grow(&g->val, &g->cap_val, 8, sizeof(*g->val))) {
		rlx_graph_put(g);
		return NULL;
	}
	g->val[0] = (struct rlx_val){ 0 };
	return g;
}

struct rlx_graph *rlx_graph_get(struct rlx_graph *g)
{
	if (g)
		atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
	return g;
}

/* Drop what a node's attributes refer to. */
static void put_args(const struct rlx_op_def *def, void *args)
{
	unsigned int i;

	for (i = 0; i < def->n_field; i++) {
		const struct rlx_field *f = &def->field[i];
		void *p = rlx_field_ptr(f, args);

		if (f->role != RLX_FIELD_ATTR)
			continue;
		if (f->kind == RLX_K_blob)
			rlx_blob_put(*(struct rlx_blob **)p);
		else if (f->kind == RLX_K_graph)
			rlx_graph_put(*(struct rlx_graph **)p);
		else if (f->kind == RLX_K_custom)
			rlx_custom_put(*(struct rlx_custom **)p);
	}
}

void rlx_graph_put(struct rlx_graph *g)
{
	uint32_t i;

	if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (i = 0; i < g->n_node; i++)
		put_args(g->node[i].def, g->node[i].args);
	for (i = 0; i < 3; i++)
		rlx_free(g->io[i].e);
	rlx_map_fini(&g->names);
	rlx_map_fini(&g->outputs);
	rlx_dims_fini(g->dims);
	rlx_free(g->node);
	rlx_free(g->val);
	rlx_free(g->scope_top);
	rlx_bump_fini(&g->bump);
	rlx_free(g);
}

const struct rlx_error *rlx_graph_error(const struct rlx_graph *g)
{
	return g ? &g->err : &no_graph;
}

void rlx_graph_fail(struct rlx_graph *g, enum rlx_status st, const char *fmt, ...)
{
	char text[sizeof(g->err.text)];
	va_list ap;

	if (!g || g->err.status)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rlx_error_set(&g->err, st, NULL, 0, "%s", text);
}

enum rlx_status rlx_graph_finish(struct rlx_graph *g)
{
	if (!g || g->err.status || g->finished)
		return rlx_graph_error(g)->status;
	if (!g->io[RLX_IO_OUTPUT].n)
		return rlx_fail(&g->err, RLX_EINVAL,
				"graph '%s' has no outputs; name one with rlx_output()",
				g->name);
	if (!rlx_graph_verify(g, &g->err))
		g->finished = true;
	return g->err.status;
}

static enum rlx_status out_of_memory(struct rlx_graph *g, const char *file,
				     unsigned int line)
{
	return rlx_error_set(&g->err, RLX_ENOMEM, file, line,
			     "graph '%s': out of memory at node %u", g->name,
			     g->n_node);
}

/* Copy one attribute so that the graph owns or references it. */
static bool copy_attr(struct rlx_graph *g, const struct rlx_field *f, void *args)
{
	void *p = rlx_field_ptr(f, args);

	switch (f->kind) {
	case RLX_K_str: {
		const char **s = p;

		return !*s || (*s = rlx_bump_str(&g->bump, *s, strlen(*s)));
	}
	case RLX_K_ints: {
		struct rlx_ints *l = p;

		l->v = rlx_bump_dup(&g->bump, l->v, l->n * sizeof(*l->v));
		return l->v;
	}
	case RLX_K_floats: {
		struct rlx_floats *l = p;

		l->v = rlx_bump_dup(&g->bump, l->v, l->n * sizeof(*l->v));
		return l->v;
	}
	default:
		return true;
	}
}

static void *copy_args(struct rlx_graph *g, const struct rlx_op_def *def,
		       const void *args)
{
	void *copy = rlx_bump_dup(&g->bump, args, def->args_size);
	unsigned int i;

	if (!copy)
		return NULL;
	for (i = 0; i < def->n_field; i++) {
		const struct rlx_field *f = &def->field[i];

		if (f->role == RLX_FIELD_INS)
			*(struct rlx_values *)rlx_field_ptr(f, copy) =
				(struct rlx_values){ 0 };
		else if (f->role != RLX_FIELD_ATTR)
			*(rlx_value *)rlx_field_ptr(f, copy) = RLX_NONE;
		else if (!copy_attr(g, f, copy))
			return NULL;
	}
	/* references last: nothing can fail after they are taken */
	for (i = 0; i < def->n_field; i++) {
		const struct rlx_field *f = &def->field[i];
		void *p = rlx_field_ptr(f, copy);

		if (f->role != RLX_FIELD_ATTR)
			continue;
		if (f->kind == RLX_K_blob)
			rlx_blob_get(*(struct rlx_blob **)p);
		else if (f->kind == RLX_K_graph)
			rlx_graph_get(*(struct rlx_graph **)p);
		else if (f->kind == RLX_K_custom)
			rlx_custom_get(*(struct rlx_custom **)p);
	}
	return copy;
}

enum rlx_status rlx_op_infer(struct rlx_infer *q)
{
	enum rlx_status st;
	uint32_t i;

	q->n_out = 1;
	memset(q->out, 0, sizeof(q->out[0]));
	st = q->def->impl->infer(q);
	for (i = 0; !st && i < q->n_out; i++)
		if (rlx_type_bytes(&q->out[i]) < 0)
			st = rlx_fail(q->err, RLX_ESHAPE,
				      "%s: output %u is over 2^63 bytes or has a dimension below 0",
				      q->def->name, i);
	return st;
}

void rlx_expand_op(struct rlx_expand *q, enum rlx_status (*rule)(struct rlx_expand *))
{
	struct rlx_graph *g = q->g;
	uint32_t i;

	if (rule(q) && !g->err.status)
		rlx_fail(&g->err, RLX_EBUG, "%s: expand failed without a reason", q->def->name);
	for (i = 0; i < q->n_out && !g->err.status; i++) {
		struct rlx_type t = g->val[q->out[i].id].type, want = q->out_type[i];
		bool cast = t.dtype != want.dtype;

		t.dtype = want.dtype;
		if (!q->out[i].id || !rlx_type_equal(&t, &want))
			rlx_fail(&g->err, RLX_EBUG, "%s: expand gives output %u %s", q->def->name,
				 i, q->out[i].id ? "another shape" : "no value");
		else if (cast)
			q->out[i] = rlx_emit(g, cast, .x = q->out[i], .to = want.dtype);
	}
}

/* A body of sizes that nobody gives could not be run. */
static enum rlx_status check_bodies(const struct rlx_infer *q)
{
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = 0; i < q->def->n_field && !st; i++)
		if (q->def->field[i].role == RLX_FIELD_ATTR &&
		    q->def->field[i].kind == RLX_K_graph)
			st = rlx_graph_is_bound(*(struct rlx_graph **)
						rlx_field_ptr(&q->def->field[i], q->args),
						q->def->name, q->err);
	return st;
}

static enum rlx_status infer(struct rlx_graph *g, struct rlx_infer *q, const uint32_t *in)
{
	enum rlx_status st;

	if (g->dims)
		return rlx_dims_infer(g, q, in);
	st = rlx_args_are_plain(q->def, q->args, q->err);
	if (!st && q->def->traits & RLX_T_SUBGRAPH)
		st = check_bodies(q);
	return st ? st : rlx_op_infer(q);
}

static bool reserve(struct rlx_graph *g, uint32_t n_out)
{
	return g->n_val < UINT32_MAX - n_out && g->n_node < UINT32_MAX - 1 &&
	       rlx_grow(&g->node, &g->cap_node, g->n_node + 1, sizeof(*g->node)) &&
	       rlx_grow(&g->val, &g->cap_val, g->n_val + n_out, sizeof(*g->val));
}

rlx_value rlx_node_new(struct rlx_graph *g, const struct rlx_op_def *def,
		       const void *args, const uint32_t *in, uint32_t n_in,
		       const struct rlx_node *at)
{
	const struct rlx_type *small[16], **types = small;
	struct rlx_infer q = { .err = &g->err, .def = def, .n_in = n_in };
	const char *file = at ? at->file : NULL;
	unsigned int line = at ? at->line : 0;
	struct rlx_node node = { .def = def, .n_in = n_in, .file = file, .line = line,
				 .scope = at && at->def ? at->scope : g->scope };
	rlx_value v = RLX_NONE;
	uint32_t i;

	if (g->err.status)	/* sticky: the inputs may be none because of it */
		return RLX_NONE;
	node.args = copy_args(g, def, args);
	node.in = rlx_bump_dup(&g->bump, in, n_in * sizeof(*in));
	if (n_in > 16)
		types = rlx_malloc(n_in * sizeof(*types));
	if (!node.args || !node.in || !types) {
		out_of_memory(g, file, line);
		goto out_put_args;
	}
	for (i = 0; i < n_in; i++)
		types[i] = in[i] ? &g->val[in[i]].type : NULL;
	q.args = node.args;
	q.in = types;
	if (rlx_args_resolve(def, node.args, &g->err) || infer(g, &q, in)) {
		g->err.file = file;
		g->err.line = line;
		g->err.node = g->n_node;
		goto out_put_args;
	}
	if (!reserve(g, q.n_out)) {
		out_of_memory(g, file, line);
		goto out_put_args;
	}
	node.n_out = q.n_out;
	node.out = g->n_val;
	for (i = 0; i < q.n_out; i++)
		g->val[g->n_val++] = (struct rlx_val){
			.node = g->n_node, .index = i, .type = q.out[i],
		};
	g->node[g->n_node++] = node;
	v.id = node.out;
	goto out_free_types;
out_put_args:
	if (node.args)
		put_args(def, node.args);
out_free_types:
	if (types != small)
		rlx_free(types);
	return v;
}

/* One input of a call: present, in this graph, and given if it must be. */
static bool take_input(struct rlx_graph *g, const struct rlx_op_def *def,
		       const struct rlx_field *f, rlx_value v, uint32_t *out_id)
{
	if (v.id >= g->n_val) {
		rlx_fail(&g->err, RLX_EINVAL,
			 "%s: input '%s' is value %u, this graph has %u: it is another graph's",
			 def->name, f->name, v.id, g->n_val - 1);
		return false;
	}
	if (!v.id && f->role != RLX_FIELD_OPT) {
		rlx_fail(&g->err, RLX_EINVAL, "%s: input '%s' is missing",
			 def->name, f->name);
		return false;
	}
	*out_id = v.id;
	return true;
}

/* Bring the caller's struct to the size this library knows. */
static bool fit_args(struct rlx_graph *g, const struct rlx_op_def *def,
		     void *known, const void *args, size_t size)
{
	const char *p = args;
	size_t i;

	memset(known, 0, def->args_size);
	if (size < def->args_size)	/* what was added since is absent */
		rlx_args_init(def, known);
	memcpy(known, args, size < def->args_size ? size : def->args_size);
	for (i = def->args_size; i < size; i++)
		if (p[i]) {
			rlx_fail(&g->err, RLX_ENOSUP,
				 "%s: the caller was built for a newer library and uses an "
				 "argument that this one lacks",
				 def->name);
			return false;
		}
	return true;
}

/* A list that says it has elements must have them. */
static bool lists_there(struct rlx_graph *g, const struct rlx_op_def *def,
			const void *args)
{
	uint32_t i, n;
	const void *v;

	for (i = 0; i < def->n_field; i++) {
		const struct rlx_field *f = &def->field[i];
		void *p = rlx_field_ptr(f, args);

		if (f->role == RLX_FIELD_INS) {
			n = ((struct rlx_values *)p)->n;
			v = ((struct rlx_values *)p)->v;
		} else if (f->role == RLX_FIELD_ATTR && f->kind == RLX_K_ints) {
			n = ((struct rlx_ints *)p)->n;
			v = ((struct rlx_ints *)p)->v;
		} else if (f->role == RLX_FIELD_ATTR && f->kind == RLX_K_floats) {
			n = ((struct rlx_floats *)p)->n;
			v = ((struct rlx_floats *)p)->v;
		} else {
			continue;
		}
		if (n && !v) {
			rlx_fail(&g->err, RLX_EINVAL, "%s: list '%s' is NULL and has %u elements",
				 def->name, f->name, n);
			return false;
		}
	}
	return true;
}

static uint32_t count_inputs(const struct rlx_op_def *def, const void *args)
{
	uint32_t n = def->n_fixed, i;

	for (i = 0; i < def->n_field; i++)
		if (def->field[i].role == RLX_FIELD_INS)
			n += ((struct rlx_values *)rlx_field_ptr(&def->field[i], args))->n;
	return n;
}

/* Fixed inputs in order of declaration, then the list. */
static bool take_inputs(struct rlx_graph *g, const struct rlx_op_def *def,
			const void *args, uint32_t *in)
{
	uint32_t k = 0, i, j;

	for (i = 0; i < def->n_field; i++) {
		const struct rlx_field *f = &def->field[i];

		if (f->role != RLX_FIELD_IN && f->role != RLX_FIELD_OPT)
			continue;
		if (!take_input(g, def, f, *(rlx_value *)rlx_field_ptr(f, args), &in[k++]))
			return false;
	}
	for (i = 0; i < def->n_field; i++) {
		const struct rlx_field *f = &def->field[i];
		const struct rlx_values *l;

		if (f->role != RLX_FIELD_INS)
			continue;
		l = rlx_field_ptr(f, args);
		for (j = 0; j < l->n; j++)
			if (!take_input(g, def, f, l->v[j], &in[k++]))
				return false;
	}
	return true;
}

rlx_value rlx_emit_raw(struct rlx_graph *g, const struct rlx_op_ref *op,
		       const void *args, size_t size, const char *file,
		       unsigned int line)
{
	const struct rlx_op_def *def;
	rlx_value v = RLX_NONE;
	void *known;
	uint32_t *in;
	uint32_t n;

	if (!g || g->err.status)
		return RLX_NONE;
	if (g->finished) {
		rlx_error_set(&g->err, RLX_EINVAL, file, line,
			      "graph '%s' is finished and takes no more ops", g->name);
		return RLX_NONE;
	}
	if (!op || !op->def || !args) {
		rlx_error_set(&g->err, RLX_EINVAL, file, line, "no op or no arguments");
		return RLX_NONE;
	}
	def = op->def;
	known = rlx_malloc(def->args_size + 1u);
	if (!known) {
		out_of_memory(g, file, line);
		return RLX_NONE;
	}
	if (!fit_args(g, def, known, args, size) || !lists_there(g, def, known))
		goto out_set_place;
	n = count_inputs(def, known);
	in = rlx_malloc((n + 1) * sizeof(*in));
	if (!in) {
		out_of_memory(g, file, line);
		goto out_free_known;
	}
	if (take_inputs(g, def, known, in))
		v = rlx_node_new(g, def, known, in, n,
				 &(struct rlx_node){ .file = file, .line = line });
	rlx_free(in);
out_set_place:
	if (g->err.status && !v.id) {
		g->err.file = file;
		g->err.line = line;
	}
out_free_known:
	rlx_free(known);
	return v;
}

rlx_value rlx_emit_inputs(struct rlx_graph *g, const struct rlx_op_def *def,
			  const rlx_value *in, uint32_t n, const struct rlx_node *at)
{
	_Alignas(16) unsigned char args[4096] = { 0 };
	struct rlx_op_ref ref = { def };
	uint32_t i, k = 0;

	if (g && def->args_size > sizeof(args))
		rlx_fail(&g->err, RLX_EBUG, "%s has %u bytes of arguments", def->name,
			 def->args_size);
	for (i = 0; def->args_size <= sizeof(args) && i < def->n_field && k < n; i++)
		if (def->field[i].role == RLX_FIELD_IN || def->field[i].role == RLX_FIELD_OPT)
			*(rlx_value *)rlx_field_ptr(&def->field[i], args) = in[k++];
	return rlx_emit_raw(g, &ref, args, def->args_size, at ? at->file : NULL,
			    at ? at->line : 0);
}

static rlx_value leaf_new(struct rlx_graph *g, enum rlx_io io, const char *name,
			  struct rlx_type type, const char *file, unsigned int line)
{
	bool state = io == RLX_IO_STATE;
	struct rlx_op_input in = { .name = name, .type = type, .state = state };
	struct rlx_op_param pa = { .name = name, .type = type };
	struct rlx_named_list *l;
	rlx_value v;

	if (!g || g->err.status)
		return RLX_NONE;
	if (!name || !*name) {
		rlx_error_set(&g->err, RLX_EINVAL, file, line,
			      "graph '%s': an input or param needs a name", g->name);
		return RLX_NONE;
	}
	if (rlx_map_get(&g->names, name, strlen(name), &(uint64_t){ 0 })) {
		rlx_error_set(&g->err, RLX_EEXIST, file, line,
			      "graph '%s': the name '%s' is taken", g->name, name);
		return RLX_NONE;
	}
	if (io != RLX_IO_PARAM)
		v = rlx_emit_raw(g, &rlx_op_input, &in, sizeof(in), file, line);
	else
		v = rlx_emit_raw(g, &rlx_op_param, &pa, sizeof(pa), file, line);
	if (!v.id)
		return v;
	l = &g->io[state ? RLX_IO_INPUT : io];
	if (!rlx_map_put(&g->names, name, strlen(name), v.id) ||
	    !rlx_grow(&l->e, &l->cap, l->n + 1, sizeof(*l->e))) {
		out_of_memory(g, file, line);
		return RLX_NONE;
	}
	/* struct rlx_op_param begins with the same members in the same places */
	l->e[l->n++] = (struct rlx_named){
		((struct rlx_op_input *)g->node[g->n_node - 1].args)->name, v, state,
	};
	g->n_state += state;
	return v;
}

rlx_value rlx_leaf_at(struct rlx_graph *g, enum rlx_io io, const char *name,
		      struct rlx_type type, const struct rlx_node *at)
{
	return leaf_new(g, io, name, type, at ? at->file : NULL, at ? at->line : 0);
}

rlx_value rlx_input_at(struct rlx_graph *g, const char *name,
		       struct rlx_type type, const char *file, unsigned int line)
{
	return leaf_new(g, RLX_IO_INPUT, name, type, file, line);
}

rlx_value rlx_param_at(struct rlx_graph *g, const char *name,
		       struct rlx_type type, const char *file, unsigned int line)
{
	return leaf_new(g, RLX_IO_PARAM, name, type, file, line);
}

rlx_value rlx_state_at(struct rlx_graph *g, const char *name,
		       struct rlx_type type, const char *file, unsigned int line)
{
	return leaf_new(g, RLX_IO_STATE, name, type, file, line);
}

/* 1 + the index of the input that is state @name[0..n), or 0. Inputs are in the order of values. */
static uint32_t state_index(const struct rlx_graph *g, const char *name, size_t n)
{
	const struct rlx_named *e = g->io[RLX_IO_INPUT].e;
	uint32_t lo = 0, hi = g->io[RLX_IO_INPUT].n, mid;
	uint64_t v;

	if (!g->n_state || !rlx_map_get(&g->names, name, n, &v))
		return 0;
	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (e[mid].v.id < v)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < g->io[RLX_IO_INPUT].n && e[lo].v.id == v && e[lo].state ? lo + 1 : 0;
}

/* The state whose next value an output of this name is, as 1 + its index; 0: of none. */
static uint32_t next_of(const struct rlx_graph *g, const char *name)
{
	size_t n = strlen(name);

	return n > 6 && !strncmp(name, "next(", 5) && name[n - 1] == ')' ?
	       state_index(g, name + 5, n - 6) : 0;
}

void rlx_state_next(struct rlx_graph *g, rlx_value state, rlx_value v)
{
	const struct rlx_node *n;
	const char *name;
	char *next;
	size_t len;

	if (!g || g->err.status)
		return;
	n = state.id && state.id < g->n_val ? rlx_node_of(g, state.id) : NULL;
	if (!n || n->def->index != RLX_OP_input || !((struct rlx_op_input *)n->args)->state) {
		rlx_fail(&g->err, RLX_EINVAL,
			 "rlx_state_next: value %u is no state: give one of rlx_state()", state.id);
		return;
	}
	name = ((struct rlx_op_input *)n->args)->name;
	if (v.id == state.id)	/* it stays */
		return;
	len = strlen(name);
	next = rlx_bump_new(&g->bump, len + 7, 1);
	if (!next) {
		out_of_memory(g, n->file, n->line);
		return;
	}
	memcpy(next, "next(", 5);
	memcpy(next + 5, name, len);
	next[len + 5] = ')';
	rlx_output_at(g, next, v, n->file, n->line);
}

uint32_t rlx_scope_new(struct rlx_graph *g, uint32_t outer)
{
	uint32_t id = g->last_scope + 1;

	if (id >= 1u << 24 ||
	    !rlx_grow(&g->scope_top, &g->cap_scope_top, id + 1, sizeof(*g->scope_top))) {
		rlx_fail(&g->err, RLX_ENOMEM, "scope: out of memory");
		return 0;
	}
	g->last_scope = id;
	g->scope_top[id] = outer >> 8 ? g->scope_top[outer >> 8] : id;
	return RLX_SCOPE_REMAT | id << 8;
}

bool rlx_scopes_copy(struct rlx_graph *g, const struct rlx_graph *from)
{
	uint32_t n = from->last_scope;

	if (n && !rlx_grow(&g->scope_top, &g->cap_scope_top, n + 1, sizeof(*g->scope_top)))
		return false;
	if (n)
		memcpy(g->scope_top, from->scope_top, (n + 1) * sizeof(*g->scope_top));
	g->last_scope = n;
	return true;
}

void rlx_scope_begin(struct rlx_graph *g, uint32_t scope)
{
	uint32_t known = RLX_SCOPE_AS_WRITTEN | RLX_SCOPE_REMAT | RLX_SCOPE_NOGRAD;

	if (!g || g->err.status)
		return;
	if (scope & ~known || g->n_scope == 32) {
		rlx_fail(&g->err, RLX_EINVAL, "scope: %s", scope & ~known ?
			 "unknown bits; see enum rlx_scope" : "they nest over 32 deep");
		return;
	}
	g->outer_scope[g->n_scope++] = g->scope;
	if (scope & RLX_SCOPE_REMAT)
		scope |= rlx_scope_new(g, g->scope);
	g->scope = scope >> 8 ? (g->scope & known) | scope : g->scope | scope;
}

void rlx_scope_end(struct rlx_graph *g)
{
	if (!g || g->err.status)
		return;
	if (g->n_scope)
		g->scope = g->outer_scope[--g->n_scope];
	else
		rlx_fail(&g->err, RLX_EINVAL, "scope: an end without a beginning");
}

rlx_value rlx_constant_blob(struct rlx_graph *g, struct rlx_type type,
			    struct rlx_blob *blob)
{
	return rlx_emit(g, constant, .type = type, .data = blob);
}

rlx_value rlx_constant_at(struct rlx_graph *g, struct rlx_type type,
			  const void *data, const char *file, unsigned int line)
{
	int64_t bytes = rlx_type_bytes(&type);
	struct rlx_op_constant a = { .type = type };
	rlx_value v;

	if (!g || g->err.status)
		return RLX_NONE;
	if (bytes < 0 || (bytes && !data)) {
		rlx_error_set(&g->err, RLX_EINVAL, file, line,
			      "constant: the type is malformed or the data is NULL");
		return RLX_NONE;
	}
	a.data = rlx_blob_copy(data, (size_t)bytes);
	if (!a.data) {
		out_of_memory(g, file, line);
		return RLX_NONE;
	}
	v = rlx_emit_raw(g, &rlx_op_constant, &a, sizeof(a), file, line);
	rlx_blob_put(a.data);
	return v;
}

rlx_value rlx_scalar_const(struct rlx_graph *g, enum rlx_dtype dt, double x)
{
	unsigned char bytes[16] = { 0 };
	struct rlx_tensor t = { rlx_scalar(dt), bytes };

	if (rlx_dtype_size(dt))	/* else rlx_constant() says what is wrong */
		el_set(&t, 0, x);
	return rlx_constant(g, t.type, bytes);
}

static bool next_fits(struct rlx_graph *g, uint32_t input, rlx_value v)
{
	const struct rlx_named *s = &g->io[RLX_IO_INPUT].e[input];
	char have[96], need[96];

	if (rlx_type_equal(&g->val[v.id].type, &g->val[s->v.id].type))
		return true;
	rlx_type_print(&g->val[v.id].type, have, sizeof(have));
	rlx_type_print(&g->val[s->v.id].type, need, sizeof(need));
	rlx_fail(&g->err, RLX_ESHAPE, "state '%s' is %s, its next value %s", s->name, need, have);
	return false;
}

enum { FEW_OUTPUTS = 16 };

/* Where output @name is in the list; UINT32_MAX: there is none. */
static uint32_t output_index(const struct rlx_graph *g, const char *name)
{
	const struct rlx_named_list *l = &g->io[RLX_IO_OUTPUT];
	uint64_t at;
	uint32_t i;

	if (l->n > FEW_OUTPUTS)
		return rlx_map_get(&g->outputs, name, strlen(name), &at) ? (uint32_t)at :
									  UINT32_MAX;
	for (i = 0; i < l->n; i++)
		if (!strcmp(l->e[i].name, name))
			return i;
	return UINT32_MAX;
}

/* Append an output whose name is none of those there are. False: out of memory. */
static bool add_output(struct rlx_graph *g, struct rlx_named e)
{
	struct rlx_named_list *l = &g->io[RLX_IO_OUTPUT];
	uint32_t i = l->n == FEW_OUTPUTS ? 0 : l->n;

	if (!rlx_grow(&l->e, &l->cap, l->n + 1, sizeof(*l->e)))
		return false;
	l->e[l->n] = e;
	for (; l->n >= FEW_OUTPUTS && i <= l->n; i++)
		if (!rlx_map_put(&g->outputs, l->e[i].name, strlen(l->e[i].name), i))
			return false;
	l->n++;
	return true;
}

void rlx_output_at(struct rlx_graph *g, const char *name, rlx_value v,
		   const char *file, unsigned int line)
{
	uint32_t state;

	if (!g || g->err.status)
		return;
	if (!name || !*name || !v.id || v.id >= g->n_val || g->finished) {
		rlx_error_set(&g->err, RLX_EINVAL, file, line,
			      "output '%s': %s", name ? name : "(null)",
			      g->finished ? "the graph is finished" :
			      "a name and a value of this graph are needed");
		return;
	}
	if (output_index(g, name) != UINT32_MAX) {
		rlx_error_set(&g->err, RLX_EEXIST, file, line,
			      "graph '%s': output '%s' exists", g->name, name);
		return;
	}
	state = next_of(g, name);
	if (state && !next_fits(g, state - 1, v)) {
		g->err.file = file;
		g->err.line = line;
		return;
	}
	name = rlx_bump_str(&g->bump, name, strlen(name));
	if (!name || !add_output(g, (struct rlx_named){ name, v, state }))
		out_of_memory(g, file, line);
}

rlx_value rlx_out(const struct rlx_graph *g, rlx_value v, unsigned int i)
{
	const struct rlx_node *n;

	if (!g || !v.id || v.id >= g->n_val)
		return RLX_NONE;
	n = rlx_node_of(g, v.id);
	return i < n->n_out ? (rlx_value){ n->out + i } : RLX_NONE;
}

const struct rlx_type *rlx_type_of(const struct rlx_graph *g, rlx_value v)
{
	return g && v.id && v.id < g->n_val ? &g->val[v.id].type : NULL;
}

/* Entry @i of what callers see as @io, or, for @i UINT32_MAX, NULL and *@n how many there are. */
static const struct rlx_named *io_entry(const struct rlx_graph *g, enum rlx_io io, uint32_t i,
					uint32_t *n)
{
	const struct rlx_named_list *l;
	uint32_t k;

	*n = 0;
	if (!g || (unsigned int)io > RLX_IO_STATE)
		return NULL;
	l = &g->io[io == RLX_IO_STATE ? RLX_IO_INPUT : io];
	if (!g->n_state && io != RLX_IO_STATE) {
		*n = l->n;
		return i < l->n ? &l->e[i] : NULL;
	}
	for (k = 0; k < l->n; k++)
		if (rlx_io_of(io == RLX_IO_STATE ? RLX_IO_INPUT : io, l->e[k].state) == io &&
		    (*n)++ == i)
			return &l->e[k];
	return NULL;
}

unsigned int rlx_graph_io_count(const struct rlx_graph *g, enum rlx_io io)
{
	uint32_t n;

	io_entry(g, io, UINT32_MAX, &n);
	return n;
}

const char *rlx_graph_io_name(const struct rlx_graph *g, enum rlx_io io,
			      unsigned int i)
{
	const struct rlx_named *e = io_entry(g, io, i, &(uint32_t){ 0 });

	return e ? e->name : NULL;
}

rlx_value rlx_graph_io_value(const struct rlx_graph *g, enum rlx_io io,
			     unsigned int i)
{
	const struct rlx_named *e = io_entry(g, io, i, &(uint32_t){ 0 });

	return e ? e->v : RLX_NONE;
}

rlx_value rlx_graph_io_find(const struct rlx_graph *g, enum rlx_io io, const char *name)
{
	const struct rlx_op_input *a;
	const struct rlx_node *n;
	uint64_t v = 0;
	uint32_t i;

	if (!g || !name || (unsigned int)io > RLX_IO_STATE)
		return RLX_NONE;
	if (io == RLX_IO_OUTPUT) {
		i = output_index(g, name);
		return i == UINT32_MAX || g->io[io].e[i].state ? RLX_NONE : g->io[io].e[i].v;
	}
	if (!rlx_map_get(&g->names, name, strlen(name), &v))
		return RLX_NONE;
	n = rlx_node_of(g, (uint32_t)v);
	a = n->args;
	if (io != (n->def->index == RLX_OP_param ? RLX_IO_PARAM :
		   a->state ? RLX_IO_STATE : RLX_IO_INPUT))
		return RLX_NONE;
	return (rlx_value){ (uint32_t)v };
}

unsigned int rlx_graph_size(const struct rlx_graph *g)
{
	return g ? g->n_node : 0;
}
