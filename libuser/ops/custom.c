// SPDX-License-Identifier: MIT
/* Ops that a program has registered: its functions behind those of an op of ours. */
#include "ir/custom.h"
#include "ir/graph.h"
#include "ops/emit.h"

/*
 * Shapes:	in -> what the op's own rule says, out of their types and attrs
 * Dtypes:	any; the op's rule says which
 * Does:	what the function registered for op computes; attrs are its bytes. By name in the
 *		text form. Inputs and attrs that are equal give equal results, which are computed
 *		once. Nothing is fused into it, and its dtypes are never changed.
 * Gradient:	by the function registered for it; refused if there is none
 * Source:	rlx/custom.h
 */
RLX_OP(custom, "an op of the program's own, by the name it was registered with",
	INS(in)
	REQ(custom, op, "the name that rlx_custom_register() was given")
	ATTR(blob, attrs),
	0)

/* A node's op, and what the functions of a program get. */
struct call {
	const struct rlx_custom_op	*op;
	struct rlx_custom_call		 c;
	struct rlx_error		 why;
};

static const struct rlx_custom_call *begin(struct call *q, const void *args)
{
	const struct rlx_op_custom *a = args;

	q->op = &a->op->op;
	q->why.status = RLX_OK;
	q->why.text[0] = 0;
	q->c = (struct rlx_custom_call){ q->op->ctx, rlx_blob_data(a->attrs),
					 rlx_blob_bytes(a->attrs), &q->why };
	return &q->c;
}

/* What a function of theirs returned, as the library's own failure, which names the op. */
static enum rlx_status failed(struct rlx_error *err, const struct call *c, const char *what,
			      enum rlx_status st)
{
	const struct rlx_error *why = &c->why;

	if (!strcmp(rlx_status_name(st), "RLX_E?"))
		return rlx_fail(err, RLX_EINVAL, "custom op '%s': %s returned %d, which is no "
				"status", c->op->name, what, (int)st);
	return rlx_fail(err, st, "custom op '%s': %s%s%.400s", c->op->name, what,
			why->status ? ": " : " failed and gave no reason",
			why->status ? why->text : "");
}

static enum rlx_status check_type(struct rlx_infer *q, const struct call *c, uint32_t i)
{
	const struct rlx_type *t = &q->out[i];
	uint32_t d;

	if (!rlx_dtype_size(t->dtype))
		return rlx_fail(q->err, RLX_ETYPE, "custom op '%s': infer gave output %u no dtype",
				c->op->name, i);
	if (t->rank > RLX_MAX_RANK)
		return rlx_fail(q->err, RLX_ESHAPE, "custom op '%s': infer gave output %u rank "
				"%u, the most is %d", c->op->name, i, t->rank, RLX_MAX_RANK);
	for (d = t->rank; d < RLX_MAX_RANK; d++)
		q->out[i].dim[d] = 0;
	if (rlx_type_bytes(t) < 0)
		return rlx_fail(q->err, RLX_ESHAPE, "custom op '%s': infer gave output %u a "
				"dimension below 0 or over 2^63 bytes", c->op->name, i);
	return RLX_OK;
}

static enum rlx_status custom_infer(struct rlx_infer *q)
{
	struct rlx_type in[RLX_CUSTOM_IN];
	struct call c;
	enum rlx_status st;
	uint32_t i;

	begin(&c, q->args);
	if (q->n_in != c.op->n_in)
		return rlx_fail(q->err, RLX_EINVAL, "custom op '%s' takes %u inputs, %u are given",
				c.op->name, c.op->n_in, q->n_in);
	for (i = 0; i < q->n_in; i++)
		in[i] = *q->in[i];
	q->n_out = c.op->n_out;
	memset(q->out, 0, q->n_out * sizeof(q->out[0]));
	st = c.op->infer(&c.c, in, q->out);
	if (st)
		return failed(q->err, &c, "infer", st);
	for (i = 0; !st && i < q->n_out; i++)
		st = check_type(q, &c, i);
	return st;
}

static size_t custom_scratch(const struct rlx_infer *q)
{
	struct rlx_type in[RLX_CUSTOM_IN];
	struct call c;
	uint32_t i;

	begin(&c, q->args);
	for (i = 0; i < q->n_in; i++)
		in[i] = *q->in[i];
	return c.op->scratch ? c.op->scratch(&c.c, in) : 0;
}

static enum rlx_status custom_eval(struct rlx_eval *q)
{
	struct call c;
	enum rlx_status st;

	begin(&c, q->args);
	st = c.op->eval(&c.c, q->in, q->out, q->scratch);
	return st ? failed(q->err, &c, "eval", st) : RLX_OK;
}

/* A gradient is of this graph and of its input's type. */
static void check_gradient(struct rlx_grad *q, const struct call *c, uint32_t k)
{
	const struct rlx_type *have = rlx_type_of(q->g, q->d_in[k]);
	const struct rlx_type *want = rlx_type_of(q->g, q->in[k]);
	char a[96], b[96];

	if (!q->d_in[k].id || q->g->err.status || (have && rlx_type_equal(have, want)))
		return;
	rlx_type_print(want, b, sizeof(b));
	if (!have) {
		rlx_fail(&q->g->err, RLX_EINVAL, "custom op '%s': vjp's d_in[%u] is no value of "
			 "the graph", c->op->name, k);
		return;
	}
	rlx_type_print(have, a, sizeof(a));
	rlx_fail(&q->g->err, RLX_ESHAPE, "custom op '%s': vjp's d_in[%u] is %s, its input %s",
		 c->op->name, k, a, b);
}

static enum rlx_status custom_vjp(struct rlx_grad *q)
{
	const struct rlx_node n = *rlx_node_of(q->g, q->out[0].id);
	struct rlx_error *err = &q->g->err;
	struct call c;
	enum rlx_status st;
	uint32_t k;

	begin(&c, q->args);
	if (!c.op->vjp) {
		rlx_fail(err, RLX_ENOSUP, "custom op '%s' was registered without a gradient rule",
			 c.op->name);
	} else {
		st = c.op->vjp(&c.c, q->g, q->in, q->out, q->d_out, q->d_in);
		if (st)
			failed(err, &c, "vjp", st);
		for (k = 0; k < q->n_in; k++)
			if (q->need[k])
				check_gradient(q, &c, k);
	}
	if (err->status) {
		err->file = n.file;
		err->line = n.line;
	}
	return err->status;
}

const struct rlx_op_impl rlx_op_custom_impl = {
	.infer = custom_infer, .eval = custom_eval, .scratch = custom_scratch, .vjp = custom_vjp,
};

rlx_value rlx_custom_at(struct rlx_graph *g, const char *name, struct rlx_values in,
			struct rlx_bytes attrs, const char *file, unsigned int line)
{
	struct rlx_op_custom a = { .in = in };
	rlx_value v = RLX_NONE;

	if (!g || rlx_graph_error(g)->status)
		return v;
	if (!name || (attrs.n && !attrs.p)) {
		rlx_error_set(&g->err, RLX_EINVAL, file, line, "custom op: %s",
			      name ? "attributes at NULL" : "no name");
		return v;
	}
	a.op = rlx_custom_find(name);
	a.attrs = attrs.n ? rlx_blob_copy(attrs.p, attrs.n) : NULL;
	if (!a.op)
		rlx_error_set(&g->err, RLX_ENOENT, file, line, RLX_CUSTOM_UNKNOWN, name);
	else if (attrs.n && !a.attrs)
		rlx_error_set(&g->err, RLX_ENOMEM, file, line, "custom op: out of memory");
	else
		v = rlx_emit_raw(g, &rlx_op_custom, &a, sizeof(a), file, line);
	rlx_blob_put(a.attrs);
	rlx_custom_put(a.op);
	return v;
}
