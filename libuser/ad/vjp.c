// SPDX-License-Identifier: MIT
/*
 * Reverse mode on graphs. First ops without a rule of their own, that lie between
 * the values asked for and an output, are replaced by what they stand for, round
 * by round. Then the last copy is walked backwards, each op's .vjp emitting into
 * that same graph.
 */
#include <string.h>

#include "base/alloc.h"
#include "ops/emit.h"
#include "ir/graph.h"
#include "rlx/grad.h"

/* An op that expands into itself would never end. */
enum { MAX_ROUNDS = 16 };

struct ad {
	struct rlx_graph	*g;		/* the current copy, still open */
	rlx_value		*wrt;		/* in @g */
	uint32_t		 n_wrt;
	bool			*on_path;	/* per value of @g: depends on a wrt */
	bool			*complex;	/* per value of @g: is c64 and depends on one */
	rlx_value		*d;		/* per value of @g: its gradient so far */
	uint32_t		 n_val;		/* when those were made: later ones have none */
	struct rlx_error	*err;
};

static bool is_float(const struct rlx_graph *g, uint32_t v)
{
	return rlx_dtype_is_float(g->val[v].type.dtype);
}

/* Mark all values that depend on a wrt through floats, or through complex numbers. */
static bool mark(struct ad *a)
{
	const struct rlx_graph *g = a->g;
	uint32_t n, i;
	bool any;

	rlx_free(a->on_path);
	rlx_free(a->complex);
	a->on_path = rlx_calloc(g->n_val, sizeof(*a->on_path));
	a->complex = rlx_calloc(g->n_val, sizeof(*a->complex));
	if (!a->on_path || !a->complex)
		return false;
	for (i = 0; i < a->n_wrt; i++)
		a->on_path[a->wrt[i].id] = true;
	for (n = 0; n < g->n_node; n++) {
		const struct rlx_node *v = &g->node[n];

		for (any = false, i = 0; i < v->n_in; i++)
			any = any || a->on_path[v->in[i]] || a->complex[v->in[i]];
		for (i = 0; any && i < v->n_out; i++) {
			a->on_path[v->out + i] = is_float(g, v->out + i);
			a->complex[v->out + i] = g->val[v->out + i].type.dtype == RLX_C64;
		}
	}
	return true;
}

static bool node_on_path(const struct ad *a, const struct rlx_node *v)
{
	uint32_t i;
	bool in = false;

	for (i = 0; i < v->n_in; i++)
		in = in || a->on_path[v->in[i]];
	for (i = 0; in && i < v->n_out; i++)
		if (a->on_path[v->out + i])
			return true;
	return false;
}

static bool must_expand(const struct ad *a, const struct rlx_node *v)
{
	return !v->def->impl->vjp && v->def->impl->expand &&
	       !(v->def->traits & RLX_T_NODIFF) && node_on_path(a, v);
}

/* Copy node @n of @old into @g, its inputs looked up in @map. */
static rlx_value copy_node(struct rlx_graph *g, const struct rlx_graph *old, uint32_t n,
			   const uint32_t *map)
{
	const struct rlx_node *v = &old->node[n];
	const struct rlx_op_input *leaf = v->args;
	rlx_value out = RLX_NONE;
	uint32_t *in, i;

	/* struct rlx_op_param has the same members in the same places */
	if (v->def->index == RLX_OP_input)
		return rlx_input_at(g, leaf->name, leaf->type, v->file, v->line);
	if (v->def->index == RLX_OP_param)
		return rlx_param_at(g, leaf->name, leaf->type, v->file, v->line);
	in = rlx_malloc((v->n_in + 1) * sizeof(*in));
	if (!in) {
		rlx_fail(&g->err, RLX_ENOMEM, "gradient: out of memory");
		return out;
	}
	for (i = 0; i < v->n_in; i++)
		in[i] = map[v->in[i]];
	out = rlx_node_new(g, v->def, v->args, in, v->n_in, v);
	rlx_free(in);
	return out;
}

/* Replace node @n of @old by what it stands for, into @g and @map. */
static void expand_node(struct rlx_graph *g, const struct rlx_graph *old, uint32_t n,
			uint32_t *map)
{
	const struct rlx_node *v = &old->node[n];
	uint32_t most = v->n_in + v->n_out, i;
	rlx_value *val = rlx_calloc(most + 1, sizeof(*val));
	struct rlx_type *types = rlx_calloc(most + 1, sizeof(*types));
	struct rlx_expand q = {
		.g = g, .def = v->def, .args = v->args, .n_in = v->n_in,
		.n_out = v->n_out, .in = val, .out_type = types,
	};

	if (!val || !types) {
		rlx_fail(&g->err, RLX_ENOMEM, "gradient: out of memory");
		goto out_free;
	}
	q.out = val + v->n_in;
	for (i = 0; i < v->n_in; i++)
		val[i].id = map[v->in[i]];
	for (i = 0; i < v->n_out; i++)
		types[i] = old->val[v->out + i].type;
	if (v->def->impl->expand(&q))
		rlx_fail(&g->err, RLX_EBUG, "%s: expand failed without a reason",
			 v->def->name);
	for (i = 0; i < v->n_out; i++)
		map[v->out + i] = q.out[i].id;
out_free:
	rlx_free(types);
	rlx_free(val);
}

/* A copy of @old, with expansion if @marked says what lies on the path. */
static struct rlx_graph *copy_graph(const struct rlx_graph *old, struct ad *a,
				    bool marked)
{
	struct rlx_graph *g = rlx_graph_new(old->name);
	uint32_t *map = rlx_calloc(old->n_val, sizeof(*map)), n, i;

	if (!g || !map)
		goto out_put;
	for (n = 0; n < old->n_node && !g->err.status; n++) {
		const struct rlx_node *v = &old->node[n];
		rlx_value first;

		if (marked && must_expand(a, v)) {
			expand_node(g, old, n, map);
			continue;
		}
		first = copy_node(g, old, n, map);
		for (i = 0; i < v->n_out; i++)
			map[v->out + i] = first.id + i;
	}
	for (i = 0; i < old->io[RLX_IO_OUTPUT].n; i++) {
		const struct rlx_named *o = &old->io[RLX_IO_OUTPUT].e[i];

		rlx_output(g, o->name, (rlx_value){ map[o->v.id] });
	}
	for (i = 0; i < a->n_wrt && !g->err.status; i++)
		a->wrt[i].id = map[a->wrt[i].id];
	rlx_free(map);
	return g;
out_put:
	rlx_graph_put(g);
	rlx_free(map);
	return NULL;
}

static bool anything_to_expand(const struct ad *a)
{
	uint32_t n;

	for (n = 0; n < a->g->n_node; n++)
		if (must_expand(a, &a->g->node[n]))
			return true;
	return false;
}

static enum rlx_status out_of_memory(struct ad *a)
{
	return rlx_fail(a->err, RLX_ENOMEM, "gradient: out of memory");
}

/* Make a->g: a copy of @g in which everything on the path has a rule, or none. */
static enum rlx_status prepare(struct ad *a, const struct rlx_graph *g)
{
	struct rlx_graph *next;
	int round;

	a->g = copy_graph(g, a, false);
	if (!a->g)
		return out_of_memory(a);
	for (round = 0; round < MAX_ROUNDS; round++) {
		if (a->g->err.status)
			return RLX_OK;	/* told by the graph */
		if (!mark(a))
			return out_of_memory(a);
		if (!anything_to_expand(a))
			return RLX_OK;
		next = copy_graph(a->g, a, true);
		if (!next)
			return out_of_memory(a);
		rlx_graph_put(a->g);
		a->g = next;
	}
	return rlx_fail(a->err, RLX_EBUG, "gradient: expansion does not end");
}

/* Add @d to the gradient of value @v. */
static void add_gradient(struct ad *a, const struct rlx_node *by, uint32_t v, rlx_value d)
{
	struct rlx_type want, have;

	if (!v || !d.id || v >= a->n_val || !is_float(a->g, v))
		return;
	want = a->g->val[v].type;
	d = op_cast(a->g, d, want.dtype);
	have = op_type(a->g, d);
	if (a->g->err.status)
		return;
	if (!rlx_type_equal(&have, &want)) {
		rlx_fail(&a->g->err, RLX_EBUG,
			 "gradient: the rule of %s gives another shape than its input has",
			 by->def->name);
		return;
	}
	a->d[v] = a->d[v].id ? rlx_emit(a->g, add, .a = a->d[v], .b = d) : d;
}

static void refuse(struct ad *a, const struct rlx_node *v)
{
	if (a->g->err.status)
		return;
	rlx_fail(&a->g->err, RLX_ENOSUP, "%s has no gradient rule", v->def->name);
	a->g->err.file = v->file;
	a->g->err.line = v->line;
}

/* Complex values have no gradients: what depends on a wrt through one would lose a part. */
static bool through_complex(struct ad *a, const struct rlx_node *v)
{
	uint32_t i;

	for (i = 0; i < v->n_in && !a->complex[v->in[i]]; i++)
		;
	if (i == v->n_in || a->g->err.status)
		return i < v->n_in;
	rlx_fail(&a->g->err, RLX_ENOSUP,
		 "%s: its c64 input %u depends on what the gradient is by; there are none through "
		 "c64: keep real and imaginary parts as floats", v->def->name, i);
	a->g->err.file = v->file;
	a->g->err.line = v->line;
	return true;
}

/* Pass the gradients of a node's outputs on to its inputs. */
static void node_backward(struct ad *a, uint32_t n)
{
	const struct rlx_node v = a->g->node[n];	/* emitting moves the array */
	rlx_value *val, none = RLX_NONE;
	uint32_t total = 2 * (v.n_in + v.n_out), i;
	struct rlx_grad q = { .g = a->g, .def = v.def, .args = v.args, .n_in = v.n_in,
			      .n_out = v.n_out };
	bool any = false;

	for (i = 0; i < v.n_out; i++)
		any = any || a->d[v.out + i].id;
	if (!any || through_complex(a, &v))
		return;
	if (!node_on_path(a, &v) || v.def->traits & (RLX_T_NODIFF | RLX_T_LEAF))
		return;
	if (!v.def->impl->vjp) {
		refuse(a, &v);
		return;
	}
	val = rlx_calloc(total + 1, sizeof(*val));
	if (!val) {
		rlx_fail(&a->g->err, RLX_ENOMEM, "gradient: out of memory");
		return;
	}
	q.in = val;
	q.out = val + v.n_in;
	q.d_out = q.out + v.n_out;
	q.d_in = val + v.n_in + 2 * v.n_out;
	for (i = 0; i < v.n_in; i++) {
		val[i].id = v.in[i];
		q.d_in[i] = none;
	}
	for (i = 0; i < v.n_out; i++) {
		val[v.n_in + i].id = v.out + i;
		val[v.n_in + v.n_out + i] = a->d[v.out + i];
	}
	if (v.def->impl->vjp(&q) && !a->g->err.status)
		rlx_fail(&a->g->err, RLX_ENOMEM, "%s: the gradient rule ran out of memory",
			 v.def->name);
	for (i = 0; i < v.n_in; i++)
		if (a->on_path[v.in[i]])
			add_gradient(a, &v, v.in[i], q.d_in[i]);
	rlx_free(val);
}

/* "d_" and @name, kept with @g; NULL and a sticky error if memory runs out. */
static const char *gradient_name(struct rlx_graph *g, const char *name)
{
	size_t n = strlen(name);
	char *s = rlx_bump_new(&g->bump, n + 3, 1);

	if (!s) {
		rlx_fail(&g->err, RLX_ENOMEM, "gradient: out of memory");
		return NULL;
	}
	memcpy(s, "d_", 2);
	memcpy(s + 2, name, n);
	return s;
}

/* Weights of the outputs: inputs "d_<name>", or 1 for output 0 alone. */
static void seed(struct ad *a, bool loss)
{
	struct rlx_graph *g = a->g;
	uint32_t i, n = g->io[RLX_IO_OUTPUT].n;

	for (i = 0; i < n && !g->err.status; i++) {
		const struct rlx_named o = g->io[RLX_IO_OUTPUT].e[i];
		struct rlx_type t = g->val[o.v.id].type;
		rlx_value d;

		if (loss) {
			d = op_fill(g, &t, 1);
			n = 1;
		} else if (rlx_dtype_is_float(t.dtype)) {
			d = rlx_input(g, gradient_name(g, o.name), t);
		} else {
			continue;
		}
		/* an output may be named twice: weights add up */
		if (a->d[o.v.id].id)
			d = rlx_emit(g, add, .a = a->d[o.v.id], .b = d);
		a->d[o.v.id] = d;
	}
}

static void name_gradients(struct ad *a)
{
	struct rlx_graph *g = a->g;
	const char *name;
	char text[24];
	uint32_t i;

	for (i = 0; i < a->n_wrt && !g->err.status; i++) {
		uint32_t v = a->wrt[i].id;
		const struct rlx_node *n = rlx_node_of(g, v);
		rlx_value d = v < a->n_val ? a->d[v] : RLX_NONE;

		if (n->def->index == RLX_OP_input || n->def->index == RLX_OP_param)
			name = ((const struct rlx_op_input *)n->args)->name;
		else
			name = text;
		snprintf(text, sizeof(text), "wrt_%u", i);
		name = gradient_name(g, name);
		rlx_output(g, name, d.id ? d : op_zeros_like(g, a->wrt[i]));
	}
}

static enum rlx_status check(const struct rlx_graph *g, const rlx_value *wrt,
			     unsigned int n, struct rlx_error *err)
{
	unsigned int i;

	if (!g || !g->finished)
		return rlx_fail(err, RLX_EINVAL,
				"gradient: the graph is NULL or not finished");
	if (n && !wrt)
		return rlx_fail(err, RLX_EINVAL, "gradient: no values to differentiate by");
	for (i = 0; i < n; i++) {
		if (!wrt[i].id || wrt[i].id >= g->n_val)
			return rlx_fail(err, RLX_EINVAL,
					"gradient: value %u (wrt %u) is not in graph '%s'",
					wrt[i].id, i, g->name);
		if (!is_float(g, wrt[i].id))
			return rlx_fail(err, RLX_ETYPE, "gradient: wrt %u is %s, no float", i,
					rlx_dtype_name(g->val[wrt[i].id].type.dtype));
	}
	return RLX_OK;
}

static enum rlx_status differentiate(struct ad *a, const struct rlx_graph *g, bool loss)
{
	enum rlx_status st = prepare(a, g);
	uint32_t n;

	if (st)
		return st;
	if (!a->g->err.status) {
		a->n_val = a->g->n_val;
		a->d = rlx_calloc(a->n_val, sizeof(*a->d));
		if (!a->d)
			return out_of_memory(a);
		n = a->g->n_node;
		seed(a, loss);
		while (n-- > 0 && !a->g->err.status)
			node_backward(a, n);
		name_gradients(a);
	}
	st = rlx_graph_finish(a->g);
	if (st)		/* keeps the file and line of the op concerned */
		rlx_error_set(a->err, st, a->g->err.file, a->g->err.line, "%s",
			      a->g->err.text);
	return st;
}

static enum rlx_status run(const struct rlx_graph *g, const rlx_value *wrt,
			   unsigned int n, bool loss, struct rlx_graph **out,
			   struct rlx_error *err)
{
	struct ad a = { .n_wrt = n, .err = err };
	enum rlx_status st = check(g, wrt, n, err);

	if (st)
		return st;
	a.wrt = rlx_memdup(n ? wrt : &RLX_NONE, n * sizeof(*wrt));
	st = a.wrt ? differentiate(&a, g, loss) : out_of_memory(&a);
	if (!st) {
		*out = a.g;
		a.g = NULL;
	}
	rlx_graph_put(a.g);
	rlx_free(a.d);
	rlx_free(a.on_path);
	rlx_free(a.complex);
	rlx_free(a.wrt);
	return st;
}

enum rlx_status rlx_graph_vjp(const struct rlx_graph *g, const rlx_value *wrt,
			      unsigned int n, struct rlx_graph **out,
			      struct rlx_error *err)
{
	return run(g, wrt, n, false, out, err);
}

enum rlx_status rlx_graph_grad(const struct rlx_graph *g, const rlx_value *wrt,
			       unsigned int n, struct rlx_graph **out,
			       struct rlx_error *err)
{
	const struct rlx_type *t;

	if (g && g->finished) {
		t = rlx_type_of(g, g->io[RLX_IO_OUTPUT].e[0].v);
		if (!rlx_dtype_is_float(t->dtype) || rlx_type_count(t) != 1)
			return rlx_fail(err, RLX_ESHAPE,
					"gradient: output 0 of graph '%s' is not one float",
					g->name);
	}
	return run(g, wrt, n, true, out, err);
}
