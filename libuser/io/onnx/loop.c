// SPDX-License-Identifier: MIT
/*
 * Loop. Short loops of known length are unrolled, long ones become our scan,
 * those that end by a condition our while. What cannot stand alone as a graph
 * (sequences, types that change from step to step) is unrolled, and the import
 * waits for the condition at each step.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "io/onnx/body.h"

/* Steps up to this many are unrolled when their number is known. */
#define UNROLL		8
#define TRIPS_ENDLESS	(-1)
#define TRIPS_UNKNOWN	INT64_MIN
#define MAX_TRIPS	(1 << 20)

struct loop {
	const struct onnx_graph	*g;
	uint32_t		 n_carry, n_scan;
	int64_t			 trips;		/* or TRIPS_* */
	struct onnx_val		**carry;	/* current values */
	struct onnx_val		**in, **out;	/* of one step */
	struct onnx_val		***ys;		/* [scan][step] */
	uint32_t		 cap;		/* steps ys has room for */
};

static enum rlx_status loop_init(struct onnx_op *q, struct loop *l)
{
	uint32_t n = q->n_in > 2 ? q->n_in - 2 : 0, i;
	struct rlx_bump *mem = &q->b->mem;

	l->g = onnx_attr_graph(q, "body");
	if (!l->g)
		return q->b->err->status;
	if (l->g->ninputs != n + 2ull || l->g->noutputs < n + 1ull ||
	    l->g->noutputs - 1 != q->n_out)
		return op_err(q, RLX_EPARSE, "the body has %zu inputs and %zu "
			      "outputs for %u carried values", l->g->ninputs,
			      l->g->noutputs, n);
	l->n_carry = n;
	l->n_scan = q->n_out - n;
	l->carry = rlx_bump_new(mem, n, sizeof(*l->carry));
	l->in = rlx_bump_new(mem, n + 2ull, sizeof(*l->in));
	l->out = rlx_bump_new(mem, q->n_out + 1ull, sizeof(*l->out));
	l->ys = rlx_bump_new(mem, l->n_scan, sizeof(*l->ys));
	if (!l->carry || !l->in || !l->out || !l->ys)
		return onnx_nomem(q->b);
	for (i = 0; i < n; i++) {
		l->carry[i] = q->in[2 + i];
		if (!l->carry[i])
			return op_err(q, RLX_EPARSE, "input %u is absent",
				      2 + i);
	}
	return RLX_OK;
}

static struct onnx_val *constant_val(struct onnx_op *q, enum rlx_dtype dt,
				     int64_t v)
{
	bool b = v;
	const void *p = dt == RLX_BOOL ? (const void *)&b : &v;

	return onnx_val_of(q->b, rlx_constant(q->b->ctx->g, rlx_scalar(dt),
					      p));
}

static bool ys_grow(struct onnx_op *q, struct loop *l, uint32_t need)
{
	uint32_t cap = l->cap ? l->cap * 2 : 8, i, k;

	if (need <= l->cap)
		return true;
	for (i = 0; i < l->n_scan; i++) {
		struct onnx_val **v = rlx_bump_new(&q->b->mem, cap,
						   sizeof(*v));

		if (!v)
			return false;
		for (k = 0; k < l->cap; k++)
			v[k] = l->ys[i][k];
		l->ys[i] = v;
	}
	l->cap = cap;
	return true;
}

/* Without a step there is no value to take the type from: the model says it. */
static enum rlx_status empty_scan(struct onnx_op *q,
				  const struct onnx_value_info *o,
				  rlx_value *out)
{
	const struct onnx_tensor_type *tt = o->type ? o->type->tensor : NULL;
	struct rlx_type t = { .rank = 1 };
	char none = 0;
	uint32_t i;

	if (!tt || !onnx_dtype_to_rlx(tt->elem) ||
	    (tt->shape && tt->shape->ndims >= RLX_MAX_RANK))
		return op_err(q, RLX_ENOSUP, "no step, and the type of output "
			      "'%.*s' is not given", ONNX_STR(o->name));
	t.dtype = onnx_dtype_to_rlx(tt->elem);
	for (i = 0; tt->shape && i < tt->shape->ndims; i++)
		t.dim[t.rank++] = tt->shape->dims[i].value > 0 ?
				  tt->shape->dims[i].value : 0;
	*out = rlx_constant(q->b->ctx->g, t, &none);
	return RLX_OK;
}

static enum rlx_status loop_outputs(struct onnx_op *q, struct loop *l,
				    uint32_t steps)
{
	enum rlx_status st = RLX_OK;
	rlx_value y = RLX_NONE;
	uint32_t i;

	for (i = 0; i < l->n_carry; i++)
		q->out[i] = l->carry[i];
	for (i = 0; !st && i < l->n_scan; i++) {
		if (steps)
			st = onnx_stack(q, l->ys[i], steps, &y);
		else
			st = empty_scan(q, &l->g->outputs[1 + l->n_carry + i],
					&y);
		if (!st)
			onnx_out(q, l->n_carry + i, y);
	}
	return st;
}

/* One step of the unrolled loop; *@cond tells whether there is another. */
static enum rlx_status loop_step(struct onnx_op *q, struct loop *l,
				 uint32_t step, struct onnx_val **cond)
{
	enum rlx_status st;
	uint32_t i;

	l->in[0] = constant_val(q, RLX_I64, step);
	l->in[1] = *cond;
	if (!l->in[0] || !ys_grow(q, l, step + 1))
		return onnx_nomem(q->b);
	for (i = 0; i < l->n_carry; i++)
		l->in[2 + i] = l->carry[i];
	st = onnx_inline(q, l->g, (struct onnx_vals){ l->in, l->n_carry + 2 },
			 (struct onnx_vals){ l->out,
			 l->n_carry + l->n_scan + 1 }, true);
	if (st)
		return st;
	*cond = l->out[0];
	for (i = 0; i < l->n_carry; i++)
		l->carry[i] = l->out[1 + i];
	for (i = 0; i < l->n_scan; i++)
		l->ys[i][step] = l->out[1 + l->n_carry + i];
	return RLX_OK;
}

/* Step by step, asking for the condition where it is not known. */
static enum rlx_status unroll(struct onnx_op *q, struct loop *l)
{
	struct onnx_val *cond = onnx_given(q, 1) ? q->in[1] :
				constant_val(q, RLX_BOOL, true);
	struct onnx_pin pin[2], *first = q->b->pins;
	enum rlx_status st = RLX_OK;
	const int64_t *go;
	uint32_t step = 0, n;

	pin[0] = (struct onnx_pin){ first, l->carry, l->n_carry };
	pin[1] = (struct onnx_pin){ &pin[0], &cond, 1 };
	q->b->pins = &pin[1];
	while (!st && cond && (l->trips < 0 || step < l->trips)) {
		st = onnx_need(q->b, &cond, 1);
		if (st)
			break;
		go = onnx_val_ints(q->b, cond, &n);
		if (!go || n != 1) {
			st = op_err(q, RLX_ESHAPE, "the condition has %u "
				    "elements", n);
			break;
		}
		if (!go[0])
			break;
		if (step >= MAX_TRIPS) {
			st = op_err(q, RLX_ENOSUP, "more than %d steps",
				    MAX_TRIPS);
			break;
		}
		st = loop_step(q, l, step++, &cond);
	}
	q->b->pins = first;
	return st ? st : loop_outputs(q, l, step);
}

/* Is the value the same input of the body, unchanged, or known to be true? */
static bool stays_true(struct onnx_op *q, struct onnx_val *v,
		       const struct onnx_val *in)
{
	const int64_t *p;
	uint32_t n;

	if (v == in)
		return true;
	if (v->kind != RLX_SPEC_TENSOR || !v->blob)
		return false;
	p = onnx_val_ints(q->b, v, &n);
	return p && n == 1 && p[0];
}

/* One step inside a body: its results are in l->out. */
static enum rlx_status body_step(struct onnx_op *q, struct loop *l,
				 struct onnx_val *iter, struct onnx_val *cond,
				 struct onnx_val *const *carry)
{
	uint32_t i;

	l->in[0] = iter;
	l->in[1] = cond;
	for (i = 0; i < l->n_carry; i++)
		l->in[2 + i] = carry[i];
	if (!iter || !cond)
		return onnx_nomem(q->b);
	return onnx_inline(q, l->g, (struct onnx_vals){ l->in, l->n_carry + 2 },
			   (struct onnx_vals){ l->out,
			   l->n_carry + l->n_scan + 1 }, true);
}

/* Carried values must keep their types; ONNX_INNER if some are no tensors. */
static enum rlx_status carry_types(const struct loop *l, struct rlx_type *type)
{
	uint32_t i;

	if (l->n_carry + l->n_scan + 3 > RLX_MAX_OUT)
		return ONNX_INNER;
	for (i = 0; i < l->n_carry; i++) {
		if (l->carry[i]->kind != RLX_SPEC_TENSOR)
			return ONNX_INNER;
		type[i] = l->carry[i]->type;
	}
	return RLX_OK;
}

static enum rlx_status same_types(const struct onnx_body *b, uint32_t first,
				  const struct rlx_type *type, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (!onnx_body_gives(b, first + i, &type[i]))
			return ONNX_INNER;
	return RLX_OK;
}

/*
 * Can the body stand alone as a graph (else ONNX_INNER), and does the condition
 * stay true? Imported for the answer only.
 */
static enum rlx_status probe(struct onnx_op *q, struct loop *l, bool *always)
{
	struct rlx_type type[RLX_MAX_OUT];
	struct onnx_val *v[RLX_MAX_OUT];
	struct onnx_body b = { 0 };
	enum rlx_status st;

	st = carry_types(l, type + 2);
	if (st)
		return st;
	type[0] = rlx_scalar(RLX_I64);
	type[1] = rlx_scalar(RLX_BOOL);
	st = onnx_body_begin(q, &b, type, l->n_carry + 2, v);
	if (!st) {
		st = body_step(q, l, v[0], v[1], v + 2);
		*always = !st && stays_true(q, l->out[0], v[1]);
		st = onnx_body_end(q, &b, l->out, l->n_carry + l->n_scan + 1,
				   st);
	}
	if (!st)
		st = same_types(&b, 1, type + 2, l->n_carry);
	onnx_ctx_free(b.ctx);
	return st;
}

/* l->trips steps, whatever the condition says: our scan over the step number. */
static enum rlx_status scan_loop(struct onnx_op *q, struct loop *l)
{
	struct rlx_type type[RLX_MAX_OUT];
	struct onnx_val *v[RLX_MAX_OUT];
	uint32_t n = l->n_carry, i;
	struct onnx_body b = { 0 };
	enum rlx_status st;
	rlx_value *xs, y;

	st = carry_types(l, type);
	if (st)
		return st;
	type[n] = rlx_scalar(RLX_I64);
	st = onnx_body_begin(q, &b, type, n + 1, v);
	if (!st) {
		st = body_step(q, l, v[n], constant_val(q, RLX_BOOL, true), v);
		st = onnx_body_end(q, &b, l->out + 1, n + l->n_scan, st);
	}
	if (!st)
		st = same_types(&b, 0, type, n);
	if (!st)
		st = onnx_body_finish(q, &b);
	if (st)
		goto out_free;
	xs = rlx_bump_new(&q->b->mem, n + 1ull + b.ctx->n_capture, sizeof(*xs));
	if (!xs) {
		st = onnx_nomem(q->b);
		goto out_free;
	}
	for (i = 0; i < n; i++)
		xs[i] = onnx_use(q->b, l->carry[i]);
	xs[n] = E(q, iota, .type = rlx_type(RLX_I64, l->trips), .start = 0,
		  .step = 1);
	onnx_captures(q, &b, xs + n + 1);
	y = E(q, scan, .body_g = b.ctx->g, .n_carry = (int32_t)n, .n_xs = 1,
	      .length = l->trips, .xs = { xs, n + 1 + b.ctx->n_capture });
	for (i = 0; i < q->n_out; i++)
		onnx_out(q, i, onnx_nth(q, y, i));
out_free:
	onnx_ctx_free(b.ctx);
	return st;
}

/* A bool scalar out of whatever one-element tensor the condition is. */
static struct onnx_val *scalar_bool(struct onnx_op *q, struct onnx_val *v)
{
	return onnx_val_of(q->b, onnx_reshape(q, onnx_use(q->b, v), 0, NULL));
}

/* The graph that says whether there is another step: same inputs as @body. */
static struct rlx_graph *cond_graph(const struct onnx_body *body, uint32_t n,
				    bool limit)
{
	unsigned int total = rlx_graph_io_count(body->ctx->g, RLX_IO_INPUT), i;
	struct rlx_graph *g = rlx_graph_new(NULL);
	rlx_value v, go = RLX_NONE, step = RLX_NONE;
	char name[16];

	for (i = 0; i < total; i++) {
		snprintf(name, sizeof(name), "i%u", i);
		v = rlx_input(g, name, *rlx_type_of(body->ctx->g,
			rlx_graph_io_value(body->ctx->g, RLX_IO_INPUT, i)));
		if (!i)
			step = v;
		if (i == 1)
			go = v;
		if (limit && i == n - 1)
			go = rlx_emit(g, bit_and, .a = go,
				      .b = rlx_emit(g, lt, .a = step, .b = v));
	}
	rlx_output(g, "go", go);
	if (!rlx_graph_finish(g))
		return g;
	rlx_graph_put(g);
	return NULL;
}

/*
 * Our while: carried are the step number, the condition, the loop's own values
 * and, if the limit is not known, the limit. Outputs of @y in this order.
 */
static enum rlx_status while_loop(struct onnx_op *q, struct loop *l,
				  rlx_value *y)
{
	struct rlx_type type[RLX_MAX_OUT];
	struct onnx_val *v[RLX_MAX_OUT], *out[RLX_MAX_OUT];
	bool limit = l->trips == TRIPS_UNKNOWN;
	uint32_t n = l->n_carry + 2 + limit, i;
	struct rlx_graph *cond = NULL;
	struct onnx_body b = { 0 };
	enum rlx_status st;
	rlx_value *xs;

	st = carry_types(l, type + 2);
	if (st)
		return st;
	type[0] = type[n - 1] = rlx_scalar(RLX_I64);
	type[1] = rlx_scalar(RLX_BOOL);
	for (i = 2; i < 2 + l->n_carry; i++)
		type[i] = l->carry[i - 2]->type;
	st = onnx_body_begin(q, &b, type, n, v);
	if (st)
		goto out_free;
	st = body_step(q, l, v[0], v[1], v + 2);
	if (!st) {
		out[0] = onnx_val_of(q->b, onnx_shift(q, b.in[0], 1));
		out[1] = scalar_bool(q, l->out[0]);
		for (i = 0; i < l->n_carry; i++)
			out[2 + i] = l->out[1 + i];
		if (limit)
			out[n - 1] = v[n - 1];
		if (!out[0] || !out[1])
			st = ONNX_INNER;
	}
	st = onnx_body_end(q, &b, out, n, st);
	if (!st)
		st = same_types(&b, 0, type, n);
	if (!st)
		st = onnx_body_finish(q, &b);
	cond = st ? NULL : cond_graph(&b, n, limit);
	xs = rlx_bump_new(&q->b->mem, n + (b.ctx ? b.ctx->n_capture : 0ull),
			  sizeof(*xs));
	if (!st && (!cond || !xs))
		st = onnx_nomem(q->b);
	if (st)
		goto out_free;
	xs[0] = onnx_num(q, RLX_I64, 0);
	xs[1] = onnx_given(q, 1) ? onnx_reshape(q, onnx_in(q, 1), 0, NULL) :
		onnx_num(q, RLX_BOOL, 1);
	for (i = 0; i < l->n_carry; i++)
		xs[2 + i] = onnx_use(q->b, l->carry[i]);
	if (limit)
		xs[n - 1] = onnx_reshape(q, onnx_in(q, 0), 0, NULL);
	onnx_captures(q, &b, xs + n);
	*y = E(q, while, .cond_g = cond, .body_g = b.ctx->g,
	       .max_trip = l->trips > 0 ? l->trips : 0, .n_carry = (int32_t)n,
	       .xs = { xs, n + b.ctx->n_capture });
out_free:
	rlx_graph_put(cond);
	onnx_ctx_free(b.ctx);
	return st;
}

/*
 * A condition that only running tells. Outputs stacked over the steps need their
 * number first: the loop runs once to count, and then that many steps.
 */
static enum rlx_status dynamic_loop(struct onnx_op *q, struct loop *l)
{
	enum rlx_status st;
	rlx_value y;
	uint32_t i;

	st = while_loop(q, l, &y);
	if (st)
		return st;
	if (l->n_scan) {
		st = onnx_need_value(q, y, &l->trips);
		if (st)
			return st;
		return l->trips ? scan_loop(q, l) : loop_outputs(q, l, 0);
	}
	for (i = 0; i < l->n_carry; i++)
		onnx_out(q, i, onnx_nth(q, y, 2 + i));
	return RLX_OK;
}

/* Known contents of a one-element input, or what stands for unknown ones. */
static enum rlx_status known_int(struct onnx_op *q, uint32_t i, int64_t dflt,
				 int64_t *out)
{
	if (onnx_given(q, i) && q->in[i]->kind == RLX_SPEC_TENSOR &&
	    !q->in[i]->blob && q->in[i]->roots & ONNX_ROOT_OPAQUE &&
	    !q->in[i]->input) {
		*out = TRIPS_UNKNOWN;
		return RLX_OK;
	}
	return onnx_int(q, i, dflt, out);
}

enum rlx_status onnx_loop(struct onnx_op *q)
{
	struct rlx_error saved = *q->b->err;
	struct loop l = { 0 };
	enum rlx_status st;
	bool always = false;
	int64_t cond;

	st = loop_init(q, &l);
	if (!st)
		st = known_int(q, 0, TRIPS_ENDLESS, &l.trips);
	if (!st)
		st = known_int(q, 1, 1, &cond);
	if (st)
		return st;
	if (l.trips < 0 && l.trips != TRIPS_UNKNOWN && onnx_given(q, 0))
		l.trips = 0;
	if (!cond || !l.trips)
		return loop_outputs(q, &l, 0);
	st = probe(q, &l, &always);
	/* The number of steps is the size of the stacked outputs. */
	if (!st && always && cond != TRIPS_UNKNOWN && l.n_scan &&
	    l.trips == TRIPS_UNKNOWN) {
		st = onnx_int(q, 0, 0, &l.trips);
		if (st || l.trips < 1)
			return st ? st : loop_outputs(q, &l, 0);
	}
	if (!st && always && cond != TRIPS_UNKNOWN && l.trips > UNROLL)
		st = scan_loop(q, &l);
	else if (!st && (!always || cond == TRIPS_UNKNOWN || l.trips < 0))
		st = dynamic_loop(q, &l);
	else if (!st)
		return unroll(q, &l);
	if (st != ONNX_INNER && st != RLX_ESHAPE && st != RLX_ENOSUP)
		return st;
	/* No graph of its own: step by step. */
	*q->b->err = saved;
	st = onnx_int(q, 0, TRIPS_ENDLESS, &l.trips);
	return st ? st : unroll(q, &l);
}
