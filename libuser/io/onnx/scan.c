// SPDX-License-Identifier: MIT
/* Scan, our op with other axes moved to the front, and ReverseSequence. */
#include "io/onnx/body.h"

#define MAX_BATCH	(1 << 12)

struct scan {
	const struct onnx_graph	*g;
	uint32_t		 n_carry, n_x, n_y;
	struct rlx_ints		 in_axes, out_axes, in_dirs, out_dirs;
	int64_t			 length;
	rlx_value		*x;		/* scanned inputs, axis first */
};

/* Move @given to the front, or the front to @given. */
static enum rlx_status move_axis(struct onnx_op *q, rlx_value *x, int64_t given,
				 bool back)
{
	struct rlx_type t = onnx_type(q, *x);
	int64_t perm[RLX_MAX_RANK];
	enum rlx_status st;
	uint32_t i, axis;

	st = onnx_axis(q, given, t.rank, &axis);
	if (st || !axis)
		return st;
	for (i = 0; i < t.rank; i++) {
		if (back)
			perm[i] = i < axis ? i + 1 : i == axis ? 0 : i;
		else
			perm[i] = !i ? axis : i <= axis ? i - 1 : i;
	}
	*x = E(q, transpose, .x = *x, .perm = { perm, t.rank });
	return RLX_OK;
}

/* Inputs that are scanned: the axis first, of one length. */
static enum rlx_status scan_inputs(struct onnx_op *q, struct scan *s)
{
	enum rlx_status st;
	struct rlx_type t;
	uint32_t i;

	s->x = rlx_bump_new(&q->b->mem, s->n_x, sizeof(*s->x));
	if (!s->x)
		return onnx_nomem(q->b);
	for (i = 0; i < s->n_x; i++) {
		if (!onnx_given(q, s->n_carry + i))
			return op_err(q, RLX_EPARSE, "input %u is absent",
				      s->n_carry + i);
		s->x[i] = onnx_in(q, s->n_carry + i);
		st = move_axis(q, &s->x[i], s->in_axes.n ? s->in_axes.v[i] : 0, false);
		if (st)
			return st;
		t = onnx_type(q, s->x[i]);
		if (!t.rank || (i && t.dim[0] != s->length))
			return op_err(q, RLX_ESHAPE, "the scanned inputs "
				      "differ in length");
		s->length = t.dim[0];
	}
	return RLX_OK;
}

static enum rlx_status scan_init(struct onnx_op *q, struct scan *s)
{
	int64_t n_x = onnx_attr_i(q, "num_scan_inputs", 0);

	s->g = onnx_attr_graph(q, "body");
	s->in_axes = onnx_attr_ints(q, "scan_input_axes");
	s->out_axes = onnx_attr_ints(q, "scan_output_axes");
	s->in_dirs = onnx_attr_ints(q, q->opset < 9 ? "directions" : "scan_input_directions");
	s->out_dirs = onnx_attr_ints(q, "scan_output_directions");
	if (!s->g)
		return q->b->err->status;
	if (n_x < 1 || n_x > q->n_in || q->n_in - n_x > q->n_out)
		return op_err(q, RLX_EPARSE, "%lld scanned inputs of %u",
			      (long long)n_x, q->n_in);
	s->n_x = (uint32_t)n_x;
	s->n_carry = q->n_in - s->n_x;
	s->n_y = q->n_out - s->n_carry;
	if ((s->in_axes.n && s->in_axes.n != s->n_x) ||
	    (s->in_dirs.n && s->in_dirs.n != s->n_x) ||
	    (s->out_axes.n && s->out_axes.n != s->n_y) ||
	    (s->out_dirs.n && s->out_dirs.n != s->n_y))
		return op_err(q, RLX_EPARSE, "axes or directions do not fit");
	return scan_inputs(q, s);
}

static enum rlx_status scan_body(struct onnx_op *q, const struct scan *s,
				 struct onnx_body *b)
{
	uint32_t n = s->n_carry + s->n_x, i, k;
	struct rlx_type *type = rlx_bump_new(&q->b->mem, n, sizeof(*type));
	struct onnx_val **v = rlx_bump_new(&q->b->mem, n, sizeof(*v));
	struct onnx_val **out = rlx_bump_new(&q->b->mem, q->n_out,
					     sizeof(*out));
	enum rlx_status st;

	if (!type || !v || !out)
		return onnx_nomem(q->b);
	for (i = 0; i < s->n_carry; i++)
		type[i] = onnx_type(q, onnx_in(q, i));
	for (; i < n; i++) {
		struct rlx_type t = onnx_type(q, s->x[i - s->n_carry]);

		type[i] = (struct rlx_type){ .dtype = t.dtype,
					     .rank = t.rank - 1 };
		for (k = 1; k < t.rank; k++)
			type[i].dim[k - 1] = t.dim[k];
	}
	st = onnx_body_begin(q, b, type, n, v);
	if (st)
		return st;
	st = onnx_inline(q, s->g, (struct onnx_vals){ v, n },
			 (struct onnx_vals){ out, q->n_out }, true);
	st = onnx_body_end(q, b, out, q->n_out, st);
	for (i = 0; !st && i < s->n_carry; i++)
		if (!onnx_body_gives(b, i, &type[i]))
			st = op_err(q, RLX_ESHAPE, "carried value %u changes "
				    "its type", i);
	return st;
}

static enum rlx_status scan_emit(struct onnx_op *q, const struct scan *s,
				 struct onnx_body *b)
{
	uint32_t k = b->ctx->n_capture, i, n = q->n_in + k;
	rlx_value *xs = rlx_bump_new(&q->b->mem, n, sizeof(*xs)), y, o;
	enum rlx_status st;

	if (!xs)
		return onnx_nomem(q->b);
	st = onnx_body_finish(q, b);
	if (st)
		return st;
	for (i = 0; i < s->n_carry; i++)
		xs[i] = onnx_in(q, i);
	for (i = 0; i < s->n_x; i++)
		xs[s->n_carry + i] = s->x[i];
	onnx_captures(q, b, xs + q->n_in);
	y = E(q, scan, .body_g = b->ctx->g, .n_carry = (int32_t)s->n_carry,
	      .n_xs = (int32_t)s->n_x, .length = s->length,
	      .reverse_xs = s->in_dirs, .reverse_ys = s->out_dirs,
	      .xs = { xs, n });
	for (i = 0; i < q->n_out; i++) {
		o = onnx_nth(q, y, i);
		st = onnx_graph_status(q);
		if (!st && i >= s->n_carry && s->out_axes.n)
			st = move_axis(q, &o, s->out_axes.v[i - s->n_carry], true);
		if (st)
			return st;
		onnx_out(q, i, o);
	}
	return RLX_OK;
}

static enum rlx_status run_scan(struct onnx_op *q)
{
	struct scan s = { 0 };
	struct onnx_body b = { 0 };
	enum rlx_status st;

	st = scan_init(q, &s);
	if (!st)
		st = scan_body(q, &s, &b);
	if (!st)
		st = scan_emit(q, &s, &b);
	onnx_ctx_free(b.ctx);
	if (st == ONNX_INNER)
		st = op_err(q, RLX_ENOSUP, "the body depends on the contents "
			    "of its inputs");
	return st;
}

/* One batch of every input: x[i], without the batch axis. */
static enum rlx_status pick_batch(struct onnx_op *q, struct onnx_val **in,
				  uint32_t n, int64_t i)
{
	uint32_t k;

	for (k = 0; k < n; k++) {
		struct rlx_type t = in[k]->type;
		rlx_value x = onnx_use(q->b, in[k]);

		if (!t.rank || t.dim[0] <= i)
			return op_err(q, RLX_ESHAPE, "input %u has no batch "
				      "%lld", k, (long long)i);
		x = onnx_cut(q, x, 0, i, i + 1);
		x = onnx_reshape(q, x, t.rank - 1, t.dim + 1);
		in[k] = onnx_val_of(q->b, x);
		if (!in[k])
			return onnx_graph_status(q);
	}
	return RLX_OK;
}

/* Opset 8: a first input of lengths, and a batch axis before all others. */
static enum rlx_status batched_scan(struct onnx_op *q)
{
	struct onnx_op one = *q;
	struct onnx_val ***ys;
	enum rlx_status st;
	int64_t batch, i;
	uint32_t k, n = q->n_in - 1;
	rlx_value y;

	if (q->n_in < 2)
		return op_err(q, RLX_EPARSE, "%u inputs", q->n_in);
	if (onnx_given(q, 0))
		return op_err(q, RLX_ENOSUP, "input sequence_lens is not "
			      "supported");
	for (k = 1; k < q->n_in; k++)
		if (!q->in[k] || q->in[k]->kind != RLX_SPEC_TENSOR)
			return op_err(q, RLX_ETYPE, "input %u is no tensor", k);
	batch = n && q->in[1]->type.rank ? q->in[1]->type.dim[0] : 0;
	if (batch < 1 || batch > MAX_BATCH)
		return op_err(q, RLX_ESHAPE, "%lld batches", (long long)batch);
	ys = rlx_bump_new(&q->b->mem, q->n_out, sizeof(*ys));
	for (k = 0; ys && k < q->n_out; k++) {
		ys[k] = rlx_bump_new(&q->b->mem, (size_t)batch,
				     sizeof(**ys));
		if (!ys[k])
			return onnx_nomem(q->b);
	}
	if (!ys)
		return onnx_nomem(q->b);
	for (i = 0; i < batch; i++) {
		one.in = rlx_bump_new(&q->b->mem, n, sizeof(*one.in));
		one.n_in = n;
		if (!one.in)
			return onnx_nomem(q->b);
		for (k = 0; k < n; k++)
			one.in[k] = q->in[1 + k];
		st = pick_batch(&one, one.in, n, i);
		if (!st)
			st = run_scan(&one);
		if (!st)
			st = onnx_graph_status(&one);
		if (st)
			return st;
		for (k = 0; k < q->n_out; k++)
			ys[k][i] = one.out[k];
	}
	q->used |= one.used;
	for (k = 0; k < q->n_out; k++) {
		st = onnx_stack(q, ys[k], (uint32_t)batch, &y);
		if (st)
			return st;
		onnx_out(q, k, y);
	}
	return RLX_OK;
}

enum rlx_status onnx_scan(struct onnx_op *q)
{
	return q->opset < 9 ? batched_scan(q) : run_scan(q);
}

enum rlx_status onnx_reverse_sequence(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, reverse_sequence, .x = onnx_in(q, 0),
			 .lens = onnx_in(q, 1),
			 .time_axis = onnx_attr_i32(q, "time_axis", 0),
			 .batch_axis = onnx_attr_i32(q, "batch_axis",
							    1)));
	return RLX_OK;
}
