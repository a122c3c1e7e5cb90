// SPDX-License-Identifier: MIT
/*
 * If. A known condition imports one branch in place; else both become bodies of
 * our op, and where that cannot be the import waits for the condition.
 */
#include "io/onnx/body.h"

/* Import every value that @from captured, in its order. */
static void take_captures(struct onnx_op *q, struct onnx_ctx *c,
			  const struct onnx_ctx *from)
{
	struct onnx_ctx *outer = q->b->ctx;
	uint32_t i;

	q->b->ctx = c;
	for (i = 0; i < from->n_capture; i++)
		onnx_use(q->b, from->capture[i]);
	q->b->ctx = outer;
}

/* The body of one branch; its captures begin with those of @like. */
static enum rlx_status branch(struct onnx_op *q, const struct onnx_graph *g,
			      const struct onnx_ctx *like, struct onnx_body *b)
{
	struct onnx_val **out = rlx_bump_new(&q->b->mem, q->n_out,
					     sizeof(*out));
	enum rlx_status st;

	if (!out)
		return onnx_nomem(q->b);
	st = onnx_body_begin(q, b, NULL, 0, NULL);
	if (st)
		return st;
	if (like)
		take_captures(q, b->ctx, like);
	st = onnx_inline(q, g, (struct onnx_vals){ 0 },
			 (struct onnx_vals){ out, q->n_out }, false);
	return onnx_body_end(q, b, out, q->n_out, st);
}

static bool same_results(const struct onnx_body *a, const struct onnx_body *b)
{
	uint32_t i;

	for (i = 0; i < a->n_out; i++)
		if (!onnx_body_gives(b, i, rlx_type_of(a->ctx->g, a->out[i])))
			return false;
	return true;
}

static enum rlx_status emit_if(struct onnx_op *q, struct onnx_body *t,
			       struct onnx_body *e)
{
	enum rlx_status st;
	rlx_value *xs, y;
	uint32_t i;

	/* Now both have one list: @e's began with @t's. */
	take_captures(q, t->ctx, e->ctx);
	st = onnx_body_finish(q, t);
	if (!st)
		st = onnx_body_finish(q, e);
	if (st)
		return st;
	xs = rlx_bump_new(&q->b->mem, t->ctx->n_capture, sizeof(*xs));
	if (!xs)
		return onnx_nomem(q->b);
	onnx_captures(q, t, xs);
	y = E(q, if, .pred = onnx_reshape(q, onnx_in(q, 0), 0, NULL),
	      .then_g = t->ctx->g, .else_g = e->ctx->g,
	      .xs = { xs, t->ctx->n_capture });
	for (i = 0; i < q->n_out; i++)
		onnx_out(q, i, onnx_nth(q, y, i));
	return RLX_OK;
}

static enum rlx_status dynamic_if(struct onnx_op *q,
				  const struct onnx_graph *then_g,
				  const struct onnx_graph *else_g)
{
	struct onnx_body t = { 0 }, e = { 0 };
	enum rlx_status st;

	st = branch(q, then_g, NULL, &t);
	if (!st)
		st = branch(q, else_g, t.ctx, &e);
	if (!st)
		st = same_results(&t, &e) ? emit_if(q, &t, &e) : ONNX_INNER;
	onnx_ctx_free(t.ctx);
	onnx_ctx_free(e.ctx);
	return st;
}

enum rlx_status onnx_if(struct onnx_op *q)
{
	const struct onnx_graph *then_g = onnx_attr_graph(q, "then_branch");
	const struct onnx_graph *else_g = onnx_attr_graph(q, "else_branch");
	struct rlx_error saved = *q->b->err;
	enum rlx_status st;
	int64_t cond;

	if (!then_g || !else_g || !onnx_given(q, 0))
		return op_err(q, RLX_EPARSE, "a branch or the condition is "
			      "missing");
	if (!q->in[0]->blob && q->in[0]->roots & ONNX_ROOT_OPAQUE) {
		st = dynamic_if(q, then_g, else_g);
		if (st != ONNX_INNER && st != RLX_ENOSUP && st != RLX_ESHAPE)
			return st;
		/* Knowing the condition, only one branch has to be possible. */
		*q->b->err = saved;
	}
	st = onnx_int(q, 0, 0, &cond);
	if (st)
		return st;
	return onnx_inline(q, cond ? then_g : else_g, (struct onnx_vals){ 0 },
			   (struct onnx_vals){ q->out, q->n_out }, false);
}
