// SPDX-License-Identifier: MIT
/* A loop over values of fixed types. */
#include "ops/subgraph.h"

/*
 * Shapes:	xs are n_carry carries, at least 1, then captures -> the carries
 * Dtypes:	any; carries keep their types
 * Does:	as long as cond_g gives true for carries and captures, body_g gives the next
 *		carries; max_trip times at most, without a limit if it is 0. Both are finished
 *		graphs without params, and take all of xs. How often is known when it runs: its
 *		flops are those of one iteration.
 * Gradient:	with max_trip that of a scan over so many iterations, which keeps the carries of
 *		each and does nothing once cond_g was false; without it RLX_ENOSUP
 * Source:	ONNX Loop-21, XLA While
 */
RLX_OP(while, "while cond_g(carries, captures): carries = body_g(carries, captures)",
	ATTR(graph, cond_g)
	ATTR(graph, body_g)
	ATTR(i64, max_trip)
	ATTR(i32, n_carry)
	INS(xs),
	RLX_T_SUBGRAPH | RLX_T_CARRIES)

static enum rlx_status while_infer(struct rlx_infer *q)
{
	const struct rlx_op_while *a = q->args;
	enum rlx_status st = sub_infer(q, a->cond_g, "cond_g", q->n_in);
	uint32_t n = (uint32_t)a->n_carry, i;

	if (!st)
		st = sub_infer(q, a->body_g, "body_g", q->n_in);
	if (st)
		return st;
	if (a->n_carry < 1 || n > q->n_in || n > RLX_MAX_OUT || a->max_trip < 0)
		return op_fail(q, RLX_EINVAL,
			       "n_carry is %d of %u inputs (at most %d), max_trip %lld",
			       a->n_carry, q->n_in, RLX_MAX_OUT, (long long)a->max_trip);
	if (sub_outputs(a->body_g) != n)
		return op_fail(q, RLX_EINVAL, "body_g gives %u values, %u are carried",
			       sub_outputs(a->body_g), n);
	if (sub_outputs(a->cond_g) != 1 ||
	    sub_type(a->cond_g, RLX_IO_OUTPUT, 0)->dtype != RLX_BOOL ||
	    rlx_type_count(sub_type(a->cond_g, RLX_IO_OUTPUT, 0)) != 1)
		return op_fail(q, RLX_ETYPE, "cond_g must give one bool");
	for (i = 0; !st && i < q->n_in; i++) {
		st = sub_need_type(q, a->cond_g, RLX_IO_INPUT, i, q->in[i], "cond_g");
		if (!st)
			st = sub_need_type(q, a->body_g, RLX_IO_INPUT, i, q->in[i],
					   "body_g");
	}
	q->n_out = n;
	for (i = 0; !st && i < n; i++) {
		q->out[i] = *q->in[i];
		st = sub_need_type(q, a->body_g, RLX_IO_OUTPUT, i, q->in[i], "body_g");
	}
	return st;
}

/* Input list, next carries' list, one bool; then data of carries, in turn with the outputs. */
static size_t while_scratch(const struct rlx_infer *q)
{
	const struct rlx_op_while *a = q->args;
	size_t n = (q->n_in + (size_t)a->n_carry + 1) * sizeof(struct rlx_tensor) + 128;
	int32_t i;

	for (i = 0; i < a->n_carry; i++)
		if (!rlx_add(n, sub_aligned_bytes(q->in[i]), &n))
			return SIZE_MAX;
	return n;
}

static enum rlx_status while_eval(struct rlx_eval *q)
{
	const struct rlx_op_while *a = q->args;
	struct rlx_tensor *in = q->scratch, *next = in + q->n_in;
	uint32_t n = (uint32_t)a->n_carry;
	char *scratch = (char *)(next + n);
	struct rlx_tensor go = { rlx_scalar(RLX_BOOL), scratch };
	enum rlx_status st = RLX_OK;
	int64_t trip;

	scratch += 64 - (uintptr_t)scratch % 64 + 64;
	memcpy(in, q->in, q->n_in * sizeof(*in));
	memcpy(next, q->out, n * sizeof(*next));
	for (trip = 0; !a->max_trip || trip < a->max_trip; trip++) {
		st = q->call(q, a->cond_g, in, &go);
		if (st || !el_geti(&go, 0))
			break;
		st = q->call(q, a->body_g, in, next);
		if (st)
			break;
		sub_next_iteration(in, next, n, trip ? NULL : scratch);
	}
	if (!st)
		sub_settle(in, q->out, n);
	return st;
}

static void while_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_op_while *a = q->args;

	c->flops = rlx_graph_flops(a->cond_g) + rlx_graph_flops(a->body_g);
}

static int64_t while_captured(const void *args, uint32_t k)
{
	const struct rlx_op_while *a = args;

	return (int64_t)k < a->n_carry ? -1 : (int64_t)k;
}

/* What @part's inputs are called, and the graph @g's inputs @in in their places. */
static void run_part(struct rlx_graph *g, const struct rlx_graph *part, const rlx_value *in,
		     rlx_value *out)
{
	uint32_t n = sub_inputs(part), i;
	const char **name = rlx_bump_new(&g->bump, n + 1ul, sizeof(*name));
	struct rlx_inline how = { .size = sizeof(how), .name = name, .value = in, .n = n };

	for (i = 0; name && i < n; i++)
		name[i] = rlx_graph_io_name(part, RLX_IO_INPUT, i);
	if (name)
		rlx_graph_inline(g, part, &how, out);
	else
		rlx_graph_fail(g, RLX_ENOMEM, "while: out of memory");
}

/* Inputs like the op's; the carries as they are. */
static struct rlx_graph *unchanged(const struct rlx_expand *q, uint32_t n)
{
	struct rlx_graph *g = rlx_graph_new("unchanged");
	rlx_value v;
	char name[32];
	uint32_t i;

	for (i = 0; i < q->n_in; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		v = rlx_input(g, name, op_type(q->g, q->in[i]));
		if (i < n)
			rlx_output(g, name, v);
	}
	return g;
}

/* One iteration: whether it goes on, and the carries, which else stay; then the captures. */
static struct rlx_graph *iteration(const struct rlx_expand *q, struct rlx_graph *stay)
{
	const struct rlx_op_while *a = q->args;
	struct rlx_type flag = *sub_type(a->cond_g, RLX_IO_OUTPUT, 0);
	struct rlx_graph *g = rlx_graph_new("iteration");
	rlx_value *in = g ? rlx_bump_new(&g->bump, q->n_in + 1ul, sizeof(*in)) : NULL, go, more, v;
	char name[32];
	uint32_t i;

	if (!in) {
		rlx_graph_fail(g, RLX_ENOMEM, "while: out of memory");
		return g;
	}
	go = rlx_input(g, "go", flag);
	for (i = 0; i < q->n_in; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		in[i] = rlx_input(g, name, op_type(q->g, q->in[i]));
	}
	run_part(g, a->cond_g, in, &more);
	go = rlx_emit(g, bit_and, .a = go, .b = more);
	v = rlx_emit(g, if, .pred = go, .then_g = a->body_g, .else_g = stay,
		     .xs = { in, q->n_in });
	rlx_output(g, "go", go);
	for (i = 0; i < (uint32_t)a->n_carry; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		rlx_output(g, name, rlx_out(g, v, i));
	}
	return g;
}

static enum rlx_status while_grad_expand(struct rlx_expand *q)
{
	const struct rlx_op_while *a = q->args;
	struct rlx_type flag = *sub_type(a->cond_g, RLX_IO_OUTPUT, 0);
	rlx_value *xs = rlx_bump_new(&q->g->bump, q->n_in + 1ul, sizeof(*xs)), v;
	struct rlx_graph *stay, *step = NULL;
	uint32_t i;

	if (!a->max_trip) {
		rlx_graph_fail(q->g, RLX_ENOSUP, "while has a gradient only if max_trip bounds how "
			       "often it runs; it is 0");
		return op_done(q->g);
	}
	stay = unchanged(q, (uint32_t)a->n_carry);
	if (!xs)
		rlx_graph_fail(q->g, RLX_ENOMEM, "while: out of memory");
	if (op_finish_body(stay, q->g))
		step = iteration(q, stay);
	if (!op_done(q->g) && op_finish_body(step, q->g)) {
		xs[0] = op_fill(q->g, &flag, 1);
		memcpy(xs + 1, q->in, q->n_in * sizeof(*xs));
		v = rlx_emit(q->g, scan, .body_g = step, .n_carry = a->n_carry + 1,
			     .length = a->max_trip, .xs = { xs, q->n_in + 1 });
		for (i = 0; i < q->n_out; i++)
			q->out[i] = rlx_out(q->g, v, i + 1);
	}
	rlx_graph_put(step);
	rlx_graph_put(stay);
	return op_done(q->g);
}

/* i < stop, and x = x * y + 1 with i counted up */
static bool while_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_while *a = s->args;
	struct rlx_graph *g[2];
	unsigned int k;

	if (i > 2)
		return false;
	s->n_in = 4;
	s->f32_only = true;
	s->tol = 1e-5;
	s->grad_tol = -1;
	s->in[0] = s->in[3] = rlx_scalar(RLX_I64);
	s->in[1] = rlx_type(RLX_F32, i == 2 ? 0 : 2, 3);
	s->in[2] = rlx_type(RLX_F32, 3);
	s->lo[3] = s->hi[3] = i ? 9 : 4;
	s->hi[0] = 4;
	for (k = 0; k < 2; k++) {
		rlx_value v[4];

		g[k] = rlx_graph_new(k ? "body" : "cond");
		v[0] = rlx_input(g[k], "i", s->in[0]);
		v[1] = rlx_input(g[k], "x", s->in[1]);
		v[2] = rlx_input(g[k], "y", s->in[2]);
		v[3] = rlx_input(g[k], "stop", s->in[3]);
		if (k) {
			rlx_output(g[k], "i", op_add_const(g[k], v[0], 1));
			v[1] = rlx_emit(g[k], mul, .a = v[1], .b = v[2]);
			rlx_output(g[k], "x", op_add_const(g[k], v[1], 1));
		} else {
			rlx_output(g[k], "go", rlx_emit(g[k], lt, .a = v[0], .b = v[3]));
		}
		g[k] = op_keep_graph(s, g[k]);
	}
	a->cond_g = g[0];
	a->body_g = g[1];
	a->n_carry = 2;
	a->max_trip = i == 1 ? 3 : 0;
	return g[0] && g[1];
}

const struct rlx_op_impl rlx_op_while_impl = {
	.infer = while_infer, .scratch = while_scratch, .eval = while_eval,
	.grad_expand = while_grad_expand,
	.cost = while_cost, .captured = while_captured,
};
RLX_SAMPLES(while, while_sample)
