// SPDX-License-Identifier: MIT
/* A loop of known length over the slices of tensors. */
#include "ops/subgraph.h"

/*
 * Shapes:	xs are n_carry carries, n_xs tensors [length, ..], then captures -> the carries,
 *		then ys[length, ..] for each further output of body_g
 * Dtypes:	any; carries keep their types
 * Does:	for each t below length: body_g takes the carries, slice t of each tensor and the
 *		captures, and gives the next carries and slice t of each y. reverse_xs and
 *		reverse_ys have a number for each tensor or y, or none: other than 0, it is gone
 *		through from the end. n_carry and n_xs are 0 if not given; a length of 0 gives the
 *		carries back. body_g is a finished graph without params.
 * Gradient:	none of its own: by a scan from the last step to the first, which runs body_g
 *		again from the carries that another scan keeps, and back; captures get the sums
 *		over steps
 * Source:	ONNX Scan-11, jax.lax.scan
 */
RLX_OP(scan, "carries, ys[t] = body_g(carries, xs[t], captures) for t < length",
	ATTR(graph, body_g)
	ATTR(i32, n_carry)
	ATTR(i32, n_xs)
	ATTR(i64, length)
	ATTR(ints, reverse_xs)
	ATTR(ints, reverse_ys)
	INS(xs),
	RLX_T_SUBGRAPH | RLX_T_CARRIES)

static enum rlx_status check_args(struct rlx_infer *q)
{
	const struct rlx_op_scan *a = q->args;
	enum rlx_status st = sub_infer(q, a->body_g, "body_g", q->n_in);
	uint32_t n_out;

	if (st)
		return st;
	n_out = sub_outputs(a->body_g);
	if (a->n_carry < 0 || a->n_xs < 0 || a->length < 0 ||
	    (uint64_t)a->n_carry + (uint64_t)a->n_xs > q->n_in)
		return op_fail(q, RLX_EINVAL,
			       "n_carry %d, n_xs %d, length %lld with %u inputs", a->n_carry,
			       a->n_xs, (long long)a->length, q->n_in);
	if (n_out < (uint32_t)a->n_carry)
		return op_fail(q, RLX_EINVAL, "body_g gives %u values, %d are carried",
			       n_out, a->n_carry);
	if ((a->reverse_xs.n && a->reverse_xs.n != (uint32_t)a->n_xs) ||
	    (a->reverse_ys.n && a->reverse_ys.n != n_out - (uint32_t)a->n_carry))
		return op_fail(q, RLX_EINVAL,
			       "%u and %u reversal flags; one for each x and y, or none",
			       a->reverse_xs.n, a->reverse_ys.n);
	return RLX_OK;
}

/* @x without its first dimension. */
static struct rlx_type slice_type(const struct rlx_type *x)
{
	struct rlx_type t = { .dtype = x->dtype, .rank = x->rank - 1 };

	memcpy(t.dim, x->dim + 1, t.rank * sizeof(t.dim[0]));
	return t;
}

static enum rlx_status scan_infer(struct rlx_infer *q)
{
	const struct rlx_op_scan *a = q->args;
	enum rlx_status st = check_args(q);
	uint32_t c, n, i;

	if (st)
		return st;
	c = (uint32_t)a->n_carry;
	n = c + (uint32_t)a->n_xs;
	for (i = 0; !st && i < q->n_in; i++) {
		struct rlx_type t = *q->in[i];

		if (i >= c && i < n) {
			if (!t.rank || t.dim[0] != a->length)
				return op_fail(q, RLX_ESHAPE,
					       "scanned input %u must have %lld slices", i,
					       (long long)a->length);
			t = slice_type(q->in[i]);
		}
		st = sub_need_type(q, a->body_g, RLX_IO_INPUT, i, &t, "body_g");
		if (!st && i < c)
			st = sub_need_type(q, a->body_g, RLX_IO_OUTPUT, i, &t, "body_g");
	}
	q->n_out = sub_outputs(a->body_g);
	if (!st && !q->n_out)
		st = op_fail(q, RLX_EINVAL, "body_g gives nothing");
	for (i = 0; !st && i < q->n_out; i++) {
		struct rlx_type t = *sub_type(a->body_g, RLX_IO_OUTPUT, i);

		q->out[i] = t;
		if (i < c)
			continue;
		if (t.rank == RLX_MAX_RANK)
			return op_fail(q, RLX_ESHAPE, "output %u has rank over %d", i,
				       RLX_MAX_RANK);
		memmove(q->out[i].dim + 1, t.dim, t.rank * sizeof(t.dim[0]));
		q->out[i].dim[0] = a->length;
		q->out[i].rank++;
	}
	return st;
}

/* Input and output lists of a step, then data of carries, in turn with the outputs. */
static size_t scan_scratch(const struct rlx_infer *q)
{
	const struct rlx_op_scan *a = q->args;
	size_t n = ((size_t)q->n_in + q->n_out) * sizeof(struct rlx_tensor) + 64;
	int32_t i;

	for (i = 0; i < a->n_carry; i++)
		if (!rlx_add(n, sub_aligned_bytes(q->in[i]), &n))
			return SIZE_MAX;
	return n;
}

static struct rlx_tensor slice_at(const struct rlx_tensor *x, struct rlx_ints reverse,
				  uint32_t k, int64_t t)
{
	struct rlx_tensor s = { slice_type(&x->type), x->data };
	int64_t at = reverse.n && reverse.v[k] ? x->type.dim[0] - 1 - t : t;
	int64_t bytes = rlx_type_bytes(&s.type);

	if (bytes)
		s.data = (char *)x->data + at * bytes;
	return s;
}

static enum rlx_status scan_eval(struct rlx_eval *q)
{
	const struct rlx_op_scan *a = q->args;
	struct rlx_tensor *in = q->scratch, *out = in + q->n_in;
	uint32_t c = (uint32_t)a->n_carry, n = c + (uint32_t)a->n_xs, i;
	char *scratch = (char *)(out + q->n_out);
	enum rlx_status st = RLX_OK;
	int64_t t;

	scratch += 64 - (uintptr_t)scratch % 64;
	memcpy(in, q->in, q->n_in * sizeof(*in));
	memcpy(out, q->out, c * sizeof(*out));
	for (t = 0; !st && t < a->length; t++) {
		for (i = c; i < n; i++)
			in[i] = slice_at(&q->in[i], a->reverse_xs, i - c, t);
		for (i = c; i < q->n_out; i++)
			out[i] = slice_at(&q->out[i], a->reverse_ys, i - c, t);
		st = q->call(q, a->body_g, in, out);
		if (!st)
			sub_next_iteration(in, out, c, t ? NULL : scratch);
	}
	if (!st)
		sub_settle(in, q->out, c);
	return st;
}

static void scan_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_op_scan *a = q->args;

	c->flops = (double)a->length * rlx_graph_flops(a->body_g);
}

static int64_t scan_captured(const void *args, uint32_t k)
{
	const struct rlx_op_scan *a = args;

	return (int64_t)k < (int64_t)a->n_carry + a->n_xs ? -1 : (int64_t)k;
}

/* s = s * w + x_t; gives s and s + x_t */
static bool scan_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_scan *a = s->args;
	struct rlx_graph *g;
	rlx_value v[4];

	if (i > 3)
		return false;
	s->n_in = 4;
	s->f32_only = true;
	s->tol = 1e-5;
	s->grad_tol = -1;
	a->length = i == 2 ? 0 : i == 3 ? 1 : 5;
	s->in[0] = rlx_type(RLX_F32, 2, 3);
	s->in[1] = rlx_type(RLX_F32, a->length, 2, 3);
	s->in[2] = rlx_type(RLX_F32, a->length);
	s->in[3] = rlx_type(RLX_F32, 3);
	g = rlx_graph_new("body");
	v[0] = rlx_input(g, "s", s->in[0]);
	v[1] = rlx_input(g, "x", s->in[0]);
	v[2] = rlx_input(g, "b", rlx_scalar(RLX_F32));
	v[3] = rlx_input(g, "w", s->in[3]);
	v[0] = rlx_emit(g, mul, .a = v[0], .b = v[3]);
	v[0] = rlx_emit(g, add, .a = v[0], .b = v[1]);
	rlx_output(g, "s", v[0]);
	rlx_output(g, "y", rlx_emit(g, add, .a = v[0], .b = v[2]));
	rlx_output(g, "z", v[2]);
	a->body_g = op_keep_graph(s, g);
	a->n_carry = 1;
	a->n_xs = 2;
	if (i == 1) {
		a->reverse_xs = op_keep(s, RLX_INTS(1, 0));
		a->reverse_ys = op_keep(s, RLX_INTS(0, 1));
	}
	return a->body_g;
}

const struct rlx_op_impl rlx_op_scan_impl = {
	.infer = scan_infer, .scratch = scan_scratch, .eval = scan_eval,
	.cost = scan_cost, .captured = scan_captured,
};
RLX_SAMPLES(scan, scan_sample)
