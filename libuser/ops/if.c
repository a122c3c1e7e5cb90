// SPDX-License-Identifier: MIT
/* One of two sub-graphs. */
#include "ops/subgraph.h"

/*
 * Shapes:	pred of 1 element, xs[k] -> the outputs of either graph, which have equal types
 * Dtypes:	pred: bool; xs and outputs: any
 * Does:	runs then_g where pred is true, else else_g; both take all of xs as their inputs.
 *		They are finished graphs without params. Its flops are those of the graph that
 *		has more.
 * Gradient:	none of its own: xs get theirs by an if on pred, whose graphs run these again and
 *		back; none to pred
 * Source:	ONNX If-21, XLA Conditional
 */
RLX_OP(if, "then_g(xs) if pred, else else_g(xs); only that one runs",
	IN(pred)
	ATTR(graph, then_g)
	ATTR(graph, else_g)
	INS(xs),
	RLX_T_SUBGRAPH)

static enum rlx_status if_infer(struct rlx_infer *q)
{
	const struct rlx_op_if *a = q->args;
	const struct rlx_graph *t = a->then_g, *e = a->else_g;
	uint32_t n = q->n_in - 1, i;
	enum rlx_status st;

	if (q->in[0]->dtype != RLX_BOOL || rlx_type_count(q->in[0]) != 1)
		return op_fail(q, RLX_ETYPE, "pred must be one bool");
	st = sub_infer(q, t, "then_g", n);
	if (!st)
		st = sub_infer(q, e, "else_g", n);
	for (i = 0; !st && i < n; i++) {
		st = sub_need_type(q, t, RLX_IO_INPUT, i, q->in[1 + i], "then_g");
		if (!st)
			st = sub_need_type(q, e, RLX_IO_INPUT, i, q->in[1 + i], "else_g");
	}
	if (!st && sub_outputs(t) != sub_outputs(e))
		st = op_fail(q, RLX_EINVAL, "then_g has %u outputs, else_g %u",
			     sub_outputs(t), sub_outputs(e));
	if (st)
		return st;
	q->n_out = sub_outputs(t);
	for (i = 0; !st && i < q->n_out; i++) {
		q->out[i] = *sub_type(t, RLX_IO_OUTPUT, i);
		st = sub_need_type(q, e, RLX_IO_OUTPUT, i, &q->out[i], "else_g");
	}
	return st;
}

static enum rlx_status if_eval(struct rlx_eval *q)
{
	const struct rlx_op_if *a = q->args;

	return q->call(q, el_geti(&q->in[0], 0) ? a->then_g : a->else_g, q->in + 1,
		       q->out);
}

static void if_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_op_if *a = q->args;

	c->flops = fmax(rlx_graph_flops(a->then_g), rlx_graph_flops(a->else_g));
}

static struct rlx_graph *branch(struct rlx_sample *s, double by)
{
	struct rlx_graph *g = rlx_graph_new("branch");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	rlx_value y = rlx_input(g, "y", rlx_type(RLX_F32, 3));

	rlx_output(g, "a", rlx_emit(g, add, .a = op_mul_const(g, x, by), .b = y));
	rlx_output(g, "b", by > 0 ? y : rlx_emit(g, neg, .x = y));
	return op_keep_graph(s, g);
}

static int64_t if_captured(const void *args, uint32_t k)
{
	(void)args;
	return (int64_t)k - 1;
}

static bool if_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_if *a = s->args;

	if (i > 1)
		return false;
	s->n_in = 3;
	s->f32_only = true;
	s->tol = 1e-6;
	s->grad_tol = -1;
	s->in[0] = i ? rlx_type(RLX_BOOL, 1) : rlx_scalar(RLX_BOOL);
	s->lo[0] = s->hi[0] = i;
	if (!i)
		s->hi[0] = 1;
	s->in[1] = rlx_type(RLX_F32, 2, 3);
	s->in[2] = rlx_type(RLX_F32, 3);
	a->then_g = branch(s, 2);
	a->else_g = branch(s, -3);
	return a->then_g && a->else_g;
}

const struct rlx_op_impl rlx_op_if_impl = {
	.infer = if_infer, .eval = if_eval, .cost = if_cost, .captured = if_captured,
};
RLX_SAMPLES(if, if_sample)
