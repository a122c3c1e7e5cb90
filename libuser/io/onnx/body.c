// SPDX-License-Identifier: MIT
/* Bodies of control-flow ops: graphs of their own with captured values. */
#include <stdio.h>

#include "io/onnx/body.h"

enum rlx_status onnx_body_begin(struct onnx_op *q, struct onnx_body *b,
				  const struct rlx_type *type, uint32_t n,
				  struct onnx_val **vals)
{
	char name[16];
	uint32_t i;

	b->ctx = onnx_ctx_begin(q->b, true);
	b->in = rlx_bump_new(&q->b->mem, n, sizeof(*b->in));
	b->n_in = n;
	if (!b->ctx)
		return RLX_ENOMEM;
	if (!b->in) {
		onnx_ctx_end(q->b);
		return onnx_nomem(q->b);
	}
	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "i%u", i);
		b->in[i] = rlx_input(b->ctx->g, name, type[i]);
		vals[i] = onnx_val_of(q->b, b->in[i]);
		if (!vals[i]) {
			onnx_ctx_end(q->b);
			return onnx_nomem(q->b);
		}
		/* What happens inside is not a function of small inputs. */
		vals[i]->roots = ONNX_ROOT_OPAQUE;
	}
	return RLX_OK;
}

/* Leave the body; ONNX_INNER also if its results are not all tensors. */
enum rlx_status onnx_body_end(struct onnx_op *q, struct onnx_body *b,
				struct onnx_val *const *out, uint32_t n,
				enum rlx_status st)
{
	char name[16];
	uint32_t i;

	for (i = 0; !st && i < n; i++)
		if (out[i]->kind != RLX_SPEC_TENSOR)
			st = ONNX_INNER;
	b->n_out = n;
	b->out = rlx_bump_new(&q->b->mem, n, sizeof(*b->out));
	if (!b->out && !st)
		st = onnx_nomem(q->b);
	for (i = 0; !st && i < n; i++) {
		snprintf(name, sizeof(name), "o%u", i);
		b->out[i] = onnx_use(q->b, out[i]);
		rlx_output(b->ctx->g, name, b->out[i]);
	}
	if (!st)
		st = onnx_graph_status(q);
	onnx_ctx_end(q->b);
	return st;
}

enum rlx_status onnx_body_finish(struct onnx_op *q, struct onnx_body *b)
{
	enum rlx_status st = rlx_graph_finish(b->ctx->g);

	return !st ? RLX_OK : st == RLX_ENOMEM ? onnx_nomem(q->b) : ONNX_INNER;
}

bool onnx_body_gives(const struct onnx_body *b, uint32_t out,
		    const struct rlx_type *t)
{
	const struct rlx_type *have = rlx_type_of(b->ctx->g, b->out[out]);

	return have && rlx_type_equal(have, t);
}

/* Captured values as inputs of the op: used in the graph around it. */
void onnx_captures(struct onnx_op *q, const struct onnx_body *b, rlx_value *v)
{
	uint32_t i;

	for (i = 0; i < b->ctx->n_capture; i++)
		v[i] = onnx_use(q->b, b->ctx->capture[i]);
}

/* Stack steps [n, ...] of one scan output along a new first axis. */
enum rlx_status onnx_stack(struct onnx_op *q, struct onnx_val *const *y,
			     uint32_t n, rlx_value *out)
{
	enum rlx_status st = onnx_charge(q, n, 0);
	int64_t dim[RLX_MAX_RANK];
	struct rlx_type t;
	uint32_t i, k;
	rlx_value *v;

	if (st)
		return st;
	v = rlx_bump_new(&q->b->mem, n, sizeof(*v));
	if (!v)
		return onnx_nomem(q->b);
	for (i = 0; i < n; i++) {
		v[i] = onnx_use(q->b, y[i]);
		t = onnx_type(q, v[i]);
		if (t.rank == RLX_MAX_RANK)
			return op_err(q, RLX_ENOSUP, "rank over %d",
				      RLX_MAX_RANK);
		dim[0] = 1;
		for (k = 0; k < t.rank; k++)
			dim[1 + k] = t.dim[k];
		v[i] = onnx_reshape(q, v[i], t.rank + 1, dim);
	}
	*out = E(q, concat, .axis = 0, .xs = { v, n });
	return RLX_OK;
}
