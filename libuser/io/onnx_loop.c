// SPDX-License-Identifier: MIT
/*
 * Loop. Short loops of known length are unrolled, long ones become our scan;
 * what changes its types from step to step, or ends by a condition, is unrolled
 * and the import waits for the condition at each step.
 */
#include "base/alloc.h"
#include "io/onnx_body.h"

/* Steps up to this many are unrolled when their number is known. */
#define UNROLL		8
#define MAX_TRIPS	(1 << 20)

struct loop {
	const struct onnx_graph	*g;
	uint32_t		 n_carry, n_scan;
	int64_t			 trips;		/* < 0: no limit */
	struct onnx_val		**carry;	/* current values */
	struct onnx_val		**in, **out;	/* of one step */
	struct onnx_val		***ys;		/* [scan][step] */
	uint32_t		 cap;		/* steps ys has room for */
};

static enum rlx_status loop_init(struct onnx_op *q, struct loop *l)
{
	uint32_t n = q->n_in > 2 ? q->n_in - 2 : 0, i;
	struct onnx_arena *mem = &q->b->mem;

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
	l->carry = onnx_arena_alloc(mem, n, sizeof(*l->carry));
	l->in = onnx_arena_alloc(mem, n + 2ull, sizeof(*l->in));
	l->out = onnx_arena_alloc(mem, q->n_out + 1ull, sizeof(*l->out));
	l->ys = onnx_arena_alloc(mem, l->n_scan, sizeof(*l->ys));
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
		struct onnx_val **v = onnx_arena_alloc(&q->b->mem, cap,
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
	if (v->kind != ONNX_TENSOR || !v->blob)
		return false;
	p = onnx_val_ints(q->b, v, &n);
	return p && n == 1 && p[0];
}

/*
 * A loop of a known number of steps whose condition stays true and whose
 * carried types stay the same: our scan over the step number.
 */
static enum rlx_status scan_loop(struct onnx_op *q, struct loop *l)
{
	uint32_t n = l->n_carry, i, k;
	struct rlx_type *type = onnx_arena_alloc(&q->b->mem, n + 1,
						 sizeof(*type));
	struct onnx_val **v = onnx_arena_alloc(&q->b->mem, n + 1, sizeof(*v));
	struct onnx_body b = { 0 };
	enum rlx_status st;
	rlx_value *xs, y;

	if (!type || !v)
		return onnx_nomem(q->b);
	for (i = 0; i < n; i++) {
		if (l->carry[i]->kind != ONNX_TENSOR)
			return ONNX_INNER;
		type[i] = l->carry[i]->type;
	}
	type[n] = rlx_scalar(RLX_I64);
	st = onnx_body_begin(q, &b, type, n + 1, v);
	if (st)
		goto out_free;
	l->in[0] = v[n];
	l->in[1] = constant_val(q, RLX_BOOL, true);
	for (i = 0; i < n; i++)
		l->in[2 + i] = v[i];
	st = l->in[1] ? onnx_inline(q, l->g,
			(struct onnx_vals){ l->in, n + 2 },
			(struct onnx_vals){ l->out, n + l->n_scan + 1 }, true) :
	     onnx_nomem(q->b);
	if (!st && !stays_true(q, l->out[0], l->in[1]))
		st = ONNX_INNER;
	st = onnx_body_end(q, &b, l->out + 1, n + l->n_scan, st);
	for (i = 0; !st && i < n; i++)
		if (!onnx_body_gives(&b, i, &type[i]))
			st = ONNX_INNER;
	if (st)
		goto out_free;
	k = b.ctx->n_capture;
	xs = onnx_arena_alloc(&q->b->mem, n + 1ull + k, sizeof(*xs));
	if (!xs || rlx_graph_finish(b.ctx->g)) {
		st = ONNX_INNER;
		goto out_free;
	}
	for (i = 0; i < n; i++)
		xs[i] = onnx_use(q->b, l->carry[i]);
	xs[n] = E(q, iota, .type = rlx_type(RLX_I64, l->trips), .start = 0,
		  .step = 1);
	onnx_captures(q, &b, xs + n + 1);
	y = E(q, scan, .body_g = b.ctx->g, .n_carry = (int32_t)n, .n_xs = 1,
	      .length = l->trips, .xs = { xs, n + 1 + k });
	for (i = 0; i < q->n_out; i++)
		onnx_out(q, i, onnx_nth(q, y, i));
out_free:
	onnx_ctx_free(b.ctx);
	return st;
}

enum rlx_status onnx_loop(struct onnx_op *q)
{
	struct rlx_error saved = *q->b->err;
	struct loop l = { 0 };
	enum rlx_status st;

	st = loop_init(q, &l);
	if (!st)
		st = onnx_int(q, 0, -1, &l.trips);
	if (st)
		return st;
	if (onnx_given(q, 0) && l.trips < 0)
		l.trips = 0;
	if (l.trips > UNROLL && (!onnx_given(q, 1) || q->in[1]->blob)) {
		st = scan_loop(q, &l);
		if (st != ONNX_INNER && st != RLX_ESHAPE && st != RLX_ENOSUP)
			return st;
		*q->b->err = saved;
	}
	return unroll(q, &l);
}
