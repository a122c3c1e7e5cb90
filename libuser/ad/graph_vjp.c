// SPDX-License-Identifier: MIT
/* Derivatives of finished graphs as new graphs: a copy, and rlx_vjp() in it. */
#include <string.h>

#include "base/alloc.h"
#include "ir/graph.h"
#include "rlx/grad.h"

/* What is under way: values of the copy. */
struct copy {
	const struct rlx_graph	*old;
	struct rlx_graph	*g;
	rlx_value		*wrt, *of, *seed, *d;
	uint32_t		 n_wrt, n_of;
};

static bool is_number(const struct rlx_type *t)
{
	return rlx_dtype_is_float(t->dtype) || t->dtype == RLX_C64;
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

/* Nodes one by one, so that values keep their ids; then outputs, by their names. */
static void copy_nodes(struct copy *c)
{
	const struct rlx_graph *old = c->old;
	const struct rlx_named_list *l = &old->io[RLX_IO_OUTPUT];
	const struct rlx_op_input *leaf;
	uint32_t n, i;

	for (n = 0; n < old->n_node && !c->g->err.status; n++) {
		const struct rlx_node *v = &old->node[n];

		leaf = v->args;	/* param begins with the same members */
		if (v->def->index == RLX_OP_input)
			rlx_leaf_at(c->g, leaf->state ? RLX_IO_STATE : RLX_IO_INPUT, leaf->name,
				    leaf->type, v);
		else if (v->def->index == RLX_OP_param)
			rlx_leaf_at(c->g, RLX_IO_PARAM, leaf->name, leaf->type, v);
		else
			rlx_node_new(c->g, v->def, v->args, v->in, v->n_in, v);
	}
	if (!rlx_scopes_copy(c->g, old))
		rlx_fail(&c->g->err, RLX_ENOMEM, "gradient: out of memory");
	for (i = 0; i < l->n; i++)
		rlx_output(c->g, l->e[i].name, l->e[i].v);
}

/* Weights of the outputs: inputs "d_<name>", or 1 for output 0 alone. */
static void seed(struct copy *c, bool loss)
{
	uint32_t i, n = rlx_graph_io_count(c->old, RLX_IO_OUTPUT);
	rlx_value v;

	for (i = 0; i < n && !c->g->err.status; i++) {
		v = rlx_graph_io_value(c->old, RLX_IO_OUTPUT, i);
		if (loss && i)
			break;
		if (!is_number(&c->g->val[v.id].type))
			continue;
		c->of[c->n_of] = v;
		if (!loss)
			c->seed[c->n_of] = rlx_input(c->g, gradient_name(c->g,
					rlx_graph_io_name(c->old, RLX_IO_OUTPUT, i)),
					c->g->val[v.id].type);
		c->n_of++;
	}
}

static void name_gradients(struct copy *c)
{
	const struct rlx_node *n;
	const char *name;
	char text[24];
	uint32_t i;

	for (i = 0; i < c->n_wrt && !c->g->err.status; i++) {
		n = rlx_node_of(c->g, c->wrt[i].id);
		snprintf(text, sizeof(text), "wrt_%u", i);
		name = n->def->index == RLX_OP_input || n->def->index == RLX_OP_param ?
		       ((const struct rlx_op_input *)n->args)->name : text;
		name = gradient_name(c->g, name);
		rlx_output(c->g, name, c->d[i]);
	}
}

static enum rlx_status check(const struct rlx_graph *g, const rlx_value *wrt,
			     unsigned int n, struct rlx_error *err)
{
	unsigned int i;

	if (!g || !g->finished)
		return rlx_fail(err, RLX_EINVAL,
				"gradient: the graph is NULL or not finished");
	if (rlx_graph_is_bound(g, "gradient", err))
		return RLX_EINVAL;
	if (n && !wrt)
		return rlx_fail(err, RLX_EINVAL, "gradient: no values to differentiate by");
	for (i = 0; i < n; i++) {
		if (!wrt[i].id || wrt[i].id >= g->n_val)
			return rlx_fail(err, RLX_EINVAL,
					"gradient: value %u (wrt %u) is not in graph '%s'",
					wrt[i].id, i, g->name);
		if (!is_number(&g->val[wrt[i].id].type))
			return rlx_fail(err, RLX_ETYPE,
					"gradient: wrt %u is %s, no float and no c64", i,
					rlx_dtype_name(g->val[wrt[i].id].type.dtype));
	}
	return RLX_OK;
}

static enum rlx_status differentiate(struct copy *c, bool loss, struct rlx_error *err)
{
	struct rlx_ad a = { .size = sizeof(a), .wrt = { c->wrt, c->n_wrt } };
	enum rlx_status st;

	copy_nodes(c);
	seed(c, loss);
	a.of = (struct rlx_values){ c->of, c->n_of };
	if (!loss)
		a.seed = (struct rlx_values){ c->seed, c->n_of };
	if (c->n_of)
		rlx_vjp(c->g, &a, c->d);
	name_gradients(c);
	st = rlx_graph_finish(c->g);
	if (st)		/* keeps the file and line of the op concerned */
		rlx_error_set(err, st, c->g->err.file, c->g->err.line, "%s", c->g->err.text);
	return st;
}

static enum rlx_status run(const struct rlx_graph *g, const rlx_value *wrt,
			   unsigned int n, bool loss, struct rlx_graph **out,
			   struct rlx_error *err)
{
	struct copy c = { .old = g, .n_wrt = n };
	enum rlx_status st = check(g, wrt, n, err);
	uint32_t outs;

	if (st)
		return st;
	outs = g->io[RLX_IO_OUTPUT].n;
	c.g = rlx_graph_new(g->name);
	c.wrt = rlx_memdup(n ? wrt : &RLX_NONE, n * sizeof(*wrt));
	c.of = rlx_calloc(2 * (size_t)outs + n + 1, sizeof(*c.of));
	if (c.g && c.wrt && c.of) {
		c.seed = c.of + outs;
		c.d = c.seed + outs;
		st = differentiate(&c, loss, err);
	} else {
		st = rlx_fail(err, RLX_ENOMEM, "gradient: out of memory");
	}
	if (!st) {
		*out = c.g;
		c.g = NULL;
	}
	rlx_graph_put(c.g);
	rlx_free(c.of);
	rlx_free(c.wrt);
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
		t = rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_OUTPUT, 0));
		if (!t || !rlx_dtype_is_float(t->dtype) || rlx_type_count(t) != 1)
			return rlx_fail(err, RLX_ESHAPE,
					"gradient: output 0 of graph '%s' is not one float",
					g->name);
	}
	return run(g, wrt, n, true, out, err);
}
