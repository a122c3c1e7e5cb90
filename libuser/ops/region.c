// SPDX-License-Identifier: MIT
/*
 * A region: pointwise ops computed together, block by block. Its body is a graph
 * of pointwise ops over the region's inputs, so that printing, hashing and
 * evaluation are those of graphs. Inputs may be repeated (expand) and joined (concat) first; all
 * outputs have one shape.
 */
#include "ir/graph.h"
#include "ops/op.h"

/*
 * Shapes:	xs of the types of the body's inputs -> the body's outputs
 * Dtypes:	those of the body
 * Does:	what body says, a graph of pointwise ops over xs, computed together so that what
 *		is between them is not stored.
 * Errors:	a body that holds any other op is RLX_EINVAL, outputs of several shapes RLX_ESHAPE
 * Gradient:	by the body's ops
 * Source:	those ops
 */
RLX_OP(region, "pointwise ops computed together; the body is a graph of them",
	ATTR(graph, body)
	INS(xs),
	RLX_T_FUSED | RLX_T_SUBGRAPH)

/* May a body hold node @n? Kernels read what repeats and joins inputs by how these lie. */
static bool is_of_body(const struct rlx_node *n)
{
	switch (n->def->index) {
	case RLX_OP_input: case RLX_OP_constant: case RLX_OP_expand: case RLX_OP_concat:
		return true;
	default:
		return n->def->traits & RLX_T_ELEMENTWISE && n->n_in <= 3;
	}
}

static enum rlx_status check_body(struct rlx_infer *q, const struct rlx_graph *b)
{
	const struct rlx_named_list *out = &b->io[RLX_IO_OUTPUT];
	struct rlx_type y;
	uint32_t i;

	for (i = 0; i < b->n_node; i++)
		if (!is_of_body(&b->node[i]))
			return op_fail(q, RLX_EINVAL, "the body has %s, which is no pointwise op",
				       b->node[i].def->name);
	for (i = 1; i < out->n; i++) {
		y = *rlx_type_of(b, out->e[i].v);
		y.dtype = rlx_type_of(b, out->e[0].v)->dtype;
		if (!rlx_type_equal(&y, rlx_type_of(b, out->e[0].v)))
			return op_fail(q, RLX_ESHAPE,
				       "the body's outputs 0 and %u have not one shape", i);
	}
	return RLX_OK;
}

static enum rlx_status region_infer(struct rlx_infer *q)
{
	const struct rlx_op_region *a = q->args;
	enum rlx_status st;
	uint32_t i;

	if (!a->body || !a->body->finished)
		return op_fail(q, RLX_EINVAL, "no finished body");
	if (a->body->io[RLX_IO_INPUT].n != q->n_in ||
	    a->body->io[RLX_IO_OUTPUT].n > RLX_MAX_OUT)
		return op_fail(q, RLX_ESHAPE, "%u inputs for a body of %u", q->n_in,
			       a->body->io[RLX_IO_INPUT].n);
	st = check_body(q, a->body);
	if (st)
		return st;
	for (i = 0; i < q->n_in; i++)
		if (!q->in[i] || !rlx_type_equal(q->in[i], rlx_type_of(a->body,
				a->body->io[RLX_IO_INPUT].e[i].v)))
			return op_fail(q, RLX_ESHAPE, "input %u is not of the body's type", i);
	q->n_out = a->body->io[RLX_IO_OUTPUT].n;
	for (i = 0; i < q->n_out; i++)
		q->out[i] = *rlx_type_of(a->body, a->body->io[RLX_IO_OUTPUT].e[i].v);
	return RLX_OK;
}

static enum rlx_status region_eval(struct rlx_eval *q)
{
	const struct rlx_op_region *a = q->args;

	return q->call(q, a->body, q->in, q->out);
}

/* The body's nodes, emitted where the region stood. */
static enum rlx_status region_expand(struct rlx_expand *q)
{
	const struct rlx_op_region *a = q->args;
	const struct rlx_graph *b = a->body;
	uint32_t n, i, *in;
	uint32_t *map = rlx_bump_new(&q->g->bump, b->n_val, sizeof(*map));

	if (!map)
		return rlx_fail(&q->g->err, RLX_ENOMEM, "region: out of memory");
	for (i = 0; i < q->n_in; i++)
		map[b->io[RLX_IO_INPUT].e[i].v.id] = q->in[i].id;
	for (n = 0; n < b->n_node && !q->g->err.status; n++) {
		const struct rlx_node *v = &b->node[n];

		if (v->def->index == RLX_OP_input)
			continue;
		in = rlx_bump_new(&q->g->bump, v->n_in + 1, sizeof(*in));
		if (!in)
			return rlx_fail(&q->g->err, RLX_ENOMEM, "region: out of memory");
		for (i = 0; i < v->n_in; i++)
			in[i] = map[v->in[i]];
		map[v->out] = rlx_node_new(q->g, v->def, v->args, in, v->n_in, v).id;
	}
	for (i = 0; i < q->n_out; i++)
		q->out[i] = (rlx_value){ map[b->io[RLX_IO_OUTPUT].e[i].v.id] };
	return q->g->err.status;
}

static void region_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_op_region *a = q->args;

	c->flops = (double)rlx_type_count(&q->out[0]) * (a->body->n_node - q->n_in);
}

const struct rlx_op_impl rlx_op_region_impl = {
	.infer = region_infer, .eval = region_eval, .expand = region_expand,
	.cost = region_cost,
};
