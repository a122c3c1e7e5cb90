// SPDX-License-Identifier: MIT
/* Who runs one op of a graph: it is compiled by itself, and its program asked. */
#include "base/alloc.h"
#include "ir/dims.h"
#include "ir/graph.h"
#include "rlx/reflect.h"
#include "rt/rt.h"

/* An operand of node @n in @one: what is known stays known, as some kernels need it. */
static rlx_value operand(struct rlx_graph *one, const struct rlx_graph *g, const struct rlx_node *n,
			 uint32_t k)
{
	const struct rlx_node *from = rlx_node_of(g, n->in[k]);
	struct rlx_type t = g->val[n->in[k]].type;
	char name[16];

	snprintf(name, sizeof(name), "%u", k);
	if (from->def->index == RLX_OP_constant) {
		const struct rlx_op_constant *c = from->args;

		return rlx_constant_blob(one, t, c->data);
	}
	return from->def->index == RLX_OP_param ? rlx_param(one, name, t) : rlx_input(one, name, t);
}

/* A graph of @n alone; NULL: out of memory. What else is wrong sticks to it. */
static struct rlx_graph *alone(const struct rlx_graph *g, const struct rlx_node *n)
{
	struct rlx_graph *one = rlx_graph_new(n->def->name);
	uint32_t *in = rlx_calloc(n->n_in + 1ul, sizeof(*in)), k, j;
	char name[16];
	rlx_value v;

	for (k = 0; one && in && k < n->n_in; k++) {
		for (j = 0; j < k && n->in[j] != n->in[k]; j++)
			;
		if (n->in[k])
			in[k] = j < k ? in[j] : operand(one, g, n, k).id;
	}
	v = one && in ? rlx_node_new(one, n->def, n->args, in, n->n_in, n) : RLX_NONE;
	for (k = 0; v.id && k < n->n_out; k++) {
		snprintf(name, sizeof(name), "out%u", k);
		rlx_output(one, name, rlx_out(one, v, k));
	}
	rlx_free(in);
	if (v.id && !rlx_graph_finish(one))
		return one;
	rlx_graph_put(one);	/* it was verified before: there is no memory */
	return NULL;
}

/* Of what a device has a kernel for: in which form @n is in the program's graph. */
static enum rlx_support form(const struct rlx_graph *g, const struct rlx_node *n,
			     const struct rlx_program *p)
{
	enum rlx_support is = RLX_SUPPORT_EXPANDED;
	const struct rlx_node *m;
	uint32_t i, k;

	for (i = 0; i < p->g->n_node; i++) {
		m = &p->g->node[i];
		if (m->def != n->def)
			continue;
		is = RLX_SUPPORT_NATIVE;
		for (k = 0; k < n->n_in && k < m->n_in; k++)
			if (n->in[k] && m->in[k] &&
			    rlx_dtype_is_float(g->val[n->in[k]].type.dtype) &&
			    g->val[n->in[k]].type.dtype != p->g->val[m->in[k]].type.dtype)
				is = RLX_SUPPORT_WIDENED;
	}
	return is;
}

static enum rlx_status ask(const struct rlx_graph *g, const struct rlx_node *n,
			   struct rlx_graph *one, const char *device, enum rlx_support *out,
			   struct rlx_error *why)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = device, .threads = 1,
		.flags = RLX_COMPILE_NO_FUSE | RLX_COMPILE_NO_SIMPLIFY | RLX_COMPILE_NATIVE,
	};
	struct rlx_program *p = NULL;
	enum rlx_status st = rlx_compile(one, &o, &p, why);

	if (!st) {
		*out = form(g, n, p);
		rlx_program_put(p);
		return RLX_OK;
	}
	if (st != RLX_ENOSUP)
		return st;
	o.flags &= ~(uint32_t)RLX_COMPILE_NATIVE;
	st = rlx_compile(one, &o, &p, NULL);	/* @why is why there is no kernel */
	*out = st ? RLX_SUPPORT_NONE : RLX_SUPPORT_HOST;
	rlx_program_put(p);
	return st == RLX_ENOSUP ? RLX_OK : st;
}

enum rlx_status rlx_node_support(const struct rlx_graph *g, rlx_value v, const char *device,
				 enum rlx_support *out, struct rlx_error *why)
{
	struct rlx_error own = { 0 };
	const struct rlx_node *n;
	struct rlx_graph *one;
	enum rlx_status st;

	why = why ? why : &own;
	if (!g || !g->finished || !out)
		return rlx_fail(why, RLX_EINVAL, "node support: a finished graph and a place for "
				"the answer are needed");
	if (!v.id || v.id >= g->n_val)
		return rlx_fail(why, RLX_ERANGE, "node support: graph '%s' has no value %%%u",
				g->name, v.id);
	st = rlx_graph_is_bound(g, "node support", why);
	if (st)
		return st;
	n = rlx_node_of(g, v.id);
	*out = RLX_SUPPORT_NATIVE;
	if (n->def->traits & RLX_T_LEAF)
		return RLX_OK;
	one = alone(g, n);
	if (!one)
		return rlx_fail(why, RLX_ENOMEM, "node support: out of memory");
	st = ask(g, n, one, device, out, why);
	rlx_graph_put(one);
	return st;
}
