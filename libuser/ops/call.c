// SPDX-License-Identifier: MIT
/* A graph used as an op, with a gradient of its own. */
#include "ops/subgraph.h"
#include "rlx/custom.h"

/*
 * Shapes:	xs[k] -> the outputs of body_g
 * Dtypes:	any
 * Does:	what body_g computes of xs, its inputs in their order: compiling puts its nodes in
 *		the place of the call. Neither graph has params or states. vjp_g has inputs by
 *		name: those of body_g, its outputs, and "d_" and an output's name for what weighs
 *		it, any of them; its outputs are "d_" and an input's name, any of them.
 * Gradient:	by vjp_g; what it has no output for gets zero
 * Source:	JAX custom_vjp
 */
RLX_OP(call, "what a graph computes, with a gradient of its own",
	ATTR(graph, body_g)
	ATTR(graph, vjp_g)
	INS(xs),
	RLX_T_SUBGRAPH | RLX_T_FUSED)

/* The input or output of @g called @prefix and @name; -1: there is none. */
static int64_t find(const struct rlx_graph *g, enum rlx_io io, const char *prefix, const char *name)
{
	size_t n = strlen(prefix);
	uint32_t i;

	for (i = 0; i < rlx_graph_io_count(g, io); i++) {
		const char *have = rlx_graph_io_name(g, io, i);

		if (!strncmp(have, prefix, n) && !strcmp(have + n, name))
			return i;
	}
	return -1;
}

/*
 * What the rule's input @name stands for, as a number: body_g's inputs, then its outputs, then
 * what weighs these. -1: for nothing.
 */
static int64_t meaning(const struct rlx_graph *body, const char *name, const struct rlx_type **t)
{
	int64_t n = sub_inputs(body), i = find(body, RLX_IO_INPUT, "", name);

	if (i >= 0) {
		*t = sub_type(body, RLX_IO_INPUT, (uint32_t)i);
		return i;
	}
	i = find(body, RLX_IO_OUTPUT, "", name);
	if (i < 0 && !strncmp(name, "d_", 2)) {
		i = find(body, RLX_IO_OUTPUT, "", name + 2);
		n += i >= 0 ? sub_outputs(body) : 0;
	}
	if (i < 0)
		return -1;
	*t = sub_type(body, RLX_IO_OUTPUT, (uint32_t)i);
	return n + i;
}

/* The input of @body whose gradient the rule's output @name is. -1: of none. */
static int64_t gradient_of(const struct rlx_graph *body, const char *name)
{
	return strncmp(name, "d_", 2) ? -1 : find(body, RLX_IO_INPUT, "", name + 2);
}

/* Every input and output of the rule has a meaning, and the type of it. */
static enum rlx_status check_rule(struct rlx_infer *q, const struct rlx_graph *body,
				  const struct rlx_graph *rule)
{
	const struct rlx_type *t = NULL;
	enum rlx_status st;
	const char *name;
	uint32_t i;

	st = sub_infer(q, rule, "vjp_g", sub_inputs(rule));
	for (i = 0; !st && i < sub_inputs(rule); i++) {
		name = rlx_graph_io_name(rule, RLX_IO_INPUT, i);
		if (meaning(body, name, &t) < 0)
			return op_fail(q, RLX_ENOENT, "vjp_g's input '%s' is no input or output of "
				       "body_g, nor d_ and an output", name);
		st = sub_need_type(q, rule, RLX_IO_INPUT, i, t, "vjp_g");
	}
	for (i = 0; !st && i < sub_outputs(rule); i++) {
		int64_t k;

		name = rlx_graph_io_name(rule, RLX_IO_OUTPUT, i);
		k = gradient_of(body, name);
		if (k < 0)
			return op_fail(q, RLX_ENOENT, "vjp_g's output '%s' is not d_ and an input "
				       "of body_g", name);
		st = sub_need_type(q, rule, RLX_IO_OUTPUT, i, sub_type(body, RLX_IO_INPUT,
				   (uint32_t)k), "vjp_g");
	}
	if (!st && rlx_graph_io_count(rule, RLX_IO_STATE))
		st = op_fail(q, RLX_EINVAL, "vjp_g has states");
	return st;
}

static enum rlx_status call_infer(struct rlx_infer *q)
{
	const struct rlx_op_call *a = q->args;
	enum rlx_status st = sub_infer(q, a->body_g, "body_g", q->n_in);
	uint32_t i;

	if (!st && rlx_graph_io_count(a->body_g, RLX_IO_STATE))
		st = op_fail(q, RLX_EINVAL, "body_g has states");
	for (i = 0; !st && i < q->n_in; i++)
		st = sub_need_type(q, a->body_g, RLX_IO_INPUT, i, q->in[i], "body_g");
	if (!st && a->vjp_g)
		st = check_rule(q, a->body_g, a->vjp_g);
	if (st)
		return st;
	q->n_out = sub_outputs(a->body_g);
	for (i = 0; i < q->n_out; i++)
		q->out[i] = *sub_type(a->body_g, RLX_IO_OUTPUT, i);
	return RLX_OK;
}

/* Emit @part with @in for its inputs, in their order. */
static enum rlx_status emit_part(struct rlx_graph *g, const struct rlx_graph *part,
				 const rlx_value *in, rlx_value *out)
{
	uint32_t n = sub_inputs(part), i;
	const char **name = rlx_malloc((n + 1) * sizeof(*name));
	struct rlx_inline how = { .size = sizeof(how), .name = name, .value = in, .n = n };
	enum rlx_status st;

	if (!name)
		return rlx_fail(&g->err, RLX_ENOMEM, "call: out of memory");
	for (i = 0; i < n; i++)
		name[i] = rlx_graph_io_name(part, RLX_IO_INPUT, i);
	st = rlx_graph_inline(g, part, &how, out);
	rlx_free(name);
	return st;
}

static enum rlx_status call_expand(struct rlx_expand *q)
{
	return emit_part(q->g, ((const struct rlx_op_call *)q->args)->body_g, q->in, q->out);
}

/* The rule's input @i; none if it stands for nothing that the call has. */
static rlx_value rule_input(struct rlx_grad *q, const struct rlx_op_call *a, uint32_t i)
{
	const struct rlx_type *t;
	int64_t k = meaning(a->body_g, rlx_graph_io_name(a->vjp_g, RLX_IO_INPUT, i), &t);

	if (k < 0 || k >= (int64_t)q->n_in + 2 * (int64_t)q->n_out)
		return (rlx_value){ 0 };
	if (k < q->n_in)
		return q->in[k];
	k -= q->n_in;
	if (k < q->n_out)
		return q->out[k];
	k -= q->n_out;
	return q->d_out[k].id ? q->d_out[k] : op_zeros_like(q->g, q->out[k]);
}

/* Of a call whose types nobody inferred; see check_rule(). */
static enum rlx_status no_meaning(struct rlx_graph *g, const struct rlx_graph *rule,
				  enum rlx_io io, uint32_t i)
{
	return rlx_fail(&g->err, RLX_ENOENT, "call: vjp_g's '%s' has no meaning in body_g",
			rlx_graph_io_name(rule, io, i));
}

static enum rlx_status call_vjp(struct rlx_grad *q)
{
	const struct rlx_op_call *a = q->args;
	uint32_t n = a->vjp_g ? sub_inputs(a->vjp_g) : 0;
	uint32_t n_out = a->vjp_g ? sub_outputs(a->vjp_g) : 0, i;
	rlx_value *in = rlx_calloc((size_t)n + n_out + 1, sizeof(*in)), *out = in + n;
	enum rlx_status st = RLX_OK;
	int64_t k;

	if (!in)
		return rlx_fail(&q->g->err, RLX_ENOMEM, "call: out of memory");
	if (!a->vjp_g)
		st = rlx_fail(&q->g->err, RLX_ENOSUP, "call: vjp_g is missing; rlx_call() puts the "
			      "body's nodes there without one");
	for (i = 0; !st && i < n; i++) {
		in[i] = rule_input(q, a, i);
		if (!in[i].id)
			st = no_meaning(q->g, a->vjp_g, RLX_IO_INPUT, i);
	}
	if (!st)
		st = emit_part(q->g, a->vjp_g, in, out);
	for (i = 0; !st && i < n_out; i++) {
		k = gradient_of(a->body_g, rlx_graph_io_name(a->vjp_g, RLX_IO_OUTPUT, i));
		if (k < 0 || k >= q->n_in)
			st = no_meaning(q->g, a->vjp_g, RLX_IO_OUTPUT, i);
		else
			q->d_in[k] = out[i];
	}
	rlx_free(in);
	return st;
}

static struct rlx_graph *sample_graph(struct rlx_sample *s, bool rule)
{
	struct rlx_graph *g = rlx_graph_new(rule ? "rule" : "body");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	rlx_value y = rlx_input(g, rule ? "d_z" : "y", rlx_type(RLX_F32, 2, 3));

	rlx_output(g, rule ? "d_y" : "z", rlx_emit(g, mul, .a = x, .b = y));
	return op_keep_graph(s, g);
}

static bool call_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_call *a = s->args;

	if (i)
		return false;
	s->n_in = 2;
	s->f32_only = true;
	s->tol = 1e-6;
	s->grad_tol = -1;	/* the rule leaves out x */
	s->in[0] = s->in[1] = rlx_type(RLX_F32, 2, 3);
	a->body_g = sample_graph(s, false);
	a->vjp_g = sample_graph(s, true);
	return a->body_g && a->vjp_g;
}

const struct rlx_op_impl rlx_op_call_impl = {
	.infer = call_infer, .expand = call_expand, .vjp = call_vjp,
};
RLX_SAMPLES(call, call_sample)

enum rlx_status rlx_call(struct rlx_graph *g, struct rlx_graph *body, struct rlx_values in,
			 struct rlx_graph *vjp, rlx_value *out)
{
	rlx_value v;
	uint32_t i;

	if (!g || g->err.status)
		return rlx_graph_error(g)->status;
	if (!body || !body->finished || in.n != sub_inputs(body) || (in.n && !in.v))
		return rlx_fail(&g->err, RLX_EINVAL, "call: the body is not there, not finished, "
				"or takes %u inputs, not %u", body ? sub_inputs(body) : 0, in.n);
	if (!vjp)
		return emit_part(g, body, in.v, out);
	v = rlx_emit(g, call, .body_g = body, .vjp_g = vjp, .xs = in);
	for (i = 0; v.id && i < sub_outputs(body); i++)
		out[i] = rlx_out(g, v, i);
	return g->err.status;
}
