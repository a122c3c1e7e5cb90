// SPDX-License-Identifier: MIT
/*
 * The recurrent ops as a scan: the inputs of all steps are projected at once, then a body does
 * a step of a direction. Narrow floats are computed in f32. A row that is over keeps its state,
 * so that the other direction, from the last step on, begins where the row does.
 */
#include "ops/rnn_cell.h"

/* What the directions share. */
struct unroll {
	struct rlx_expand	*q;
	struct rlx_graph	*g;
	const struct rnn_args	*a;
	const struct rnn_graph	*how;
	struct rnn_dims		 m;
	enum rlx_dtype		 dt;
	rlx_value		 x;		/* [t, b, i] */
	rlx_value		 live;		/* [t, b, 1], whether the row has the step; or none */
};

/* Inputs of the scan of a direction, in order. */
enum { MOST = 8 };

struct operands {
	rlx_value	v[MOST];
	uint32_t	n, n_carry, n_xs;
};

static rlx_value range(struct rlx_graph *g, rlx_value x, int64_t axis, int64_t from, int64_t to)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(axis), .starts = RLX_INTS(from),
			.ends = RLX_INTS(to));
}

rlx_value rnn_part(const struct rnn_body *b, rlx_value x, int64_t k)
{
	return range(b->g, x, -1, k * b->m.h, (k + 1) * b->m.h);
}

static rlx_value below(struct rlx_graph *g, rlx_value x, double limit, rlx_value then)
{
	return rlx_emit(g, where, .a = then, .b = x, .cond =
			rlx_emit(g, lt, .a = x, .b = op_const_like(g, x, limit)));
}

static rlx_value bounded(struct rlx_graph *g, rlx_value x, double lo, double hi)
{
	x = rlx_emit(g, min, .a = x, .b = op_const_like(g, x, hi));
	return rlx_emit(g, max, .a = x, .b = op_const_like(g, x, lo));
}

static rlx_value affine(struct rlx_graph *g, rlx_value x, double al, double be)
{
	x = rlx_emit(g, mul, .a = x, .b = op_const_like(g, x, al));
	return op_add_const(g, x, be);
}

static rlx_value activation(struct rlx_graph *g, int64_t f, double al, double be, rlx_value x)
{
	switch (f) {
	case RLX_RNN_SIGMOID:
		return rlx_emit(g, sigmoid, .x = x);
	case RLX_RNN_TANH:
		return rlx_emit(g, tanh, .x = x);
	case RLX_RNN_RELU:
		return rlx_emit(g, relu, .x = x);
	case RLX_RNN_AFFINE:
		return affine(g, x, al, be);
	case RLX_RNN_LEAKY_RELU:
		return below(g, x, 0, affine(g, x, al, 0));
	case RLX_RNN_THRESHOLDED_RELU:
		return below(g, x, al, op_const_like(g, x, 0));
	case RLX_RNN_SCALED_TANH:
		x = rlx_emit(g, tanh, .x = affine(g, x, be, 0));
		return affine(g, x, al, 0);
	case RLX_RNN_HARD_SIGMOID:
		return bounded(g, affine(g, x, al, be), 0, 1);
	case RLX_RNN_ELU:	/* a branch that is not taken must not overflow: 0 inf is NaN */
		return below(g, x, 0, affine(g, rlx_emit(g, expm1, .x =
			     rlx_emit(g, min, .a = x, .b = op_const_like(g, x, 0))), al, 0));
	case RLX_RNN_SOFTSIGN:
		return rlx_emit(g, softsign, .x = x);
	default:
		return rlx_emit(g, softplus, .x = x);
	}
}

rlx_value rnn_emit_act(const struct rnn_body *b, uint32_t k, rlx_value x)
{
	const struct rnn_args *a = b->a;
	uint32_t at = (uint32_t)b->dir * a->n_act + k;
	int64_t f = op_rnn_act(a->acts, a->n_act, at);

	if (a->clip != 0 && k < 2)	/* as rnn_act() */
		x = bounded(b->g, x, -(double)a->clip, (double)a->clip);
	return activation(b->g, f, op_rnn_alpha(a->alpha, f, at), op_rnn_beta(a->beta, f, at), x);
}

static rlx_value given(const struct unroll *u, uint32_t k)
{
	return k < u->q->n_in && u->q->in[k].id ? op_cast(u->g, u->q->in[k], u->dt) : RLX_NONE;
}

/* Direction @d of input @k, without that axis; none if it is not given. */
static rlx_value of_direction(const struct unroll *u, uint32_t k, int64_t d)
{
	const uint32_t axis = (k == 5 || k == 6) && u->a->batch_first;
	rlx_value v = given(u, k);
	struct rlx_type t;
	int64_t dim[RLX_MAX_RANK];
	uint32_t i, n = 0;

	if (!v.id)
		return v;
	t = op_type(u->g, v);
	for (i = 0; i < t.rank; i++)
		if (i != axis)
			dim[n++] = t.dim[i];
	if (u->m.d > 1)
		v = range(u->g, v, axis, d, d + 1);
	return op_reshape(u->g, v, dim, n);
}

/*
 * Whether step t comes before lens[b]. Turned round up to there, t and what stands in its place
 * sum up to lens - 1 then, and to more behind; turning round tells of lengths out of range.
 */
static rlx_value live_steps(const struct unroll *u, rlx_value lens)
{
	struct rlx_graph *g = u->g;
	rlx_value t = rlx_emit(g, iota, .type = rlx_type(RLX_I64, u->m.t, u->m.b)), back, last;

	back = rlx_emit(g, reverse_sequence, .x = t, .lens = lens, .time_axis = 0,
			.batch_axis = 1);
	last = op_add_const(g, op_cast(g, lens, RLX_I64), -1);
	t = rlx_emit(g, eq, .a = rlx_emit(g, add, .a = t, .b = back), .b = last);
	return op_reshape(g, t, (int64_t[]){ u->m.t, u->m.b, 1 }, 3);
}

/* Without a step nothing is turned round: true for a length of 0, what is gathered for no other. */
static rlx_value no_steps(const struct unroll *u, rlx_value lens)
{
	const bool yes = true;
	rlx_value v = rlx_constant(u->g, rlx_type(RLX_BOOL, 1), &yes);

	v = rlx_emit(u->g, gather, .x = v,
		     .indices = rlx_emit(u->g, abs, .x = op_cast(u->g, lens, RLX_I64)));
	return op_reshape(u->g, v, (int64_t[]){ u->m.b, 1 }, 2);
}

/* [t, b, gates h]: x w' and what of the bias the cell does not add. */
static rlx_value project(const struct unroll *u, int64_t d, rlx_value *out_rb)
{
	struct rlx_graph *g = u->g;
	int64_t n = u->a->gates * u->m.h;
	rlx_value w = of_direction(u, 1, d), b = of_direction(u, 3, d), rb, y;

	y = rlx_emit(g, matmul, .a = u->x, .b = op_swap_last(g, w));
	*out_rb = RLX_NONE;
	if (!b.id)
		return y;
	rb = range(g, b, 0, n, 2 * n);
	b = range(g, b, 0, 0, n);
	if (u->how->late_bias)
		*out_rb = rb;
	else
		b = rlx_emit(g, add, .a = b, .b = rb);
	return rlx_emit(g, add, .a = y, .b = b);
}

static rlx_value state(const struct unroll *u, uint32_t k, int64_t d)
{
	struct rlx_type t = rlx_type(u->dt, u->m.b, u->m.h);
	rlx_value v = of_direction(u, k, d);

	return v.id ? v : op_fill(u->g, &t, 0);
}

static void put(struct operands *o, rlx_value v)
{
	if (v.id)
		o->v[o->n++] = v;
}

/* Carries h and c, slices of gx and live, captures r, rb and peep: those that there are. */
static void operands_of(const struct unroll *u, int64_t d, struct operands *o, struct rnn_body *b)
{
	struct rlx_graph *g = u->g;
	int64_t split = u->how->split * u->m.h;
	rlx_value r;

	b->h = state(u, 5, d);
	b->c = u->a->has_c ? state(u, 6, d) : RLX_NONE;
	b->gx = project(u, d, &b->rb);
	r = op_swap_last(g, of_direction(u, 2, d));
	b->r[0] = split ? range(g, r, 1, 0, split) : r;
	b->r[1] = split ? range(g, r, 1, split, u->a->gates * u->m.h) : RLX_NONE;
	b->peep = u->a->has_c ? of_direction(u, 7, d) : RLX_NONE;
	put(o, b->h);
	put(o, b->c);
	o->n_carry = o->n;
	put(o, b->gx);
	put(o, u->live);
	o->n_xs = o->n - o->n_carry;
	put(o, b->r[0]);
	put(o, b->r[1]);
	put(o, b->rb);
	put(o, b->peep);
}

/* In the place of @v an input of the body, a slice of it if @slice; none stays none. */
static void enter(const struct unroll *u, struct rlx_graph *body, rlx_value *v, const char *name,
		  bool slice)
{
	struct rlx_type t;

	if (!v->id)
		return;
	t = op_type(u->g, *v);
	if (slice) {
		t.rank--;
		memmove(t.dim, t.dim + 1, t.rank * sizeof(t.dim[0]));
	}
	*v = rlx_input(body, name, t);
}

static rlx_value if_live(struct rlx_graph *g, rlx_value live, rlx_value a, rlx_value b)
{
	return live.id && a.id ? rlx_emit(g, where, .cond = live, .a = a, .b = b) : a;
}

static bool write_body(const struct unroll *u, struct rnn_body *b)
{
	struct rlx_graph *g = b->g;
	rlx_value live = u->live, h, c, y;

	enter(u, g, &b->h, "h", false);
	enter(u, g, &b->c, "c", false);
	enter(u, g, &b->gx, "gx", true);
	enter(u, g, &live, "live", true);
	enter(u, g, &b->r[0], "r", false);
	enter(u, g, &b->r[1], "r1", false);
	enter(u, g, &b->rb, "rb", false);
	enter(u, g, &b->peep, "peep", false);
	h = b->h;
	c = b->c;
	u->how->cell(b);
	y = if_live(g, live, b->h, op_const_like(g, b->h, 0));
	rlx_output(g, "h", if_live(g, live, b->h, h));
	if (c.id)
		rlx_output(g, "c", if_live(g, live, b->c, c));
	rlx_output(g, "y", y);
	return op_finish_body(g, u->g);
}

/* Direction @d: y[t, b, h], h, c. */
static void unroll(const struct unroll *u, int64_t d, rlx_value out[3])
{
	bool back = u->a->direction == RLX_RNN_REVERSE || d;
	struct rnn_body b = { .a = u->a, .m = u->m, .dir = d };
	const int64_t flags[2] = { back, back };
	struct operands o = { .n = 0 };
	rlx_value v;

	operands_of(u, d, &o, &b);
	if (op_done(u->g))
		return;
	b.g = rlx_graph_new("step");
	if (!b.g) {
		rlx_graph_fail(u->g, RLX_ENOMEM, "a recurrence's step: out of memory");
		return;
	}
	if (write_body(u, &b)) {
		v = rlx_emit(u->g, scan, .body_g = b.g, .n_carry = (int32_t)o.n_carry,
			     .n_xs = (int32_t)o.n_xs, .length = u->m.t,
			     .reverse_xs = { flags, o.n_xs }, .reverse_ys = { flags, 1 },
			     .xs = { o.v, o.n });
		out[0] = rlx_out(u->g, v, o.n_carry);
		out[1] = v;
		out[2] = u->a->has_c ? rlx_out(u->g, v, 1) : RLX_NONE;
	}
	rlx_graph_put(b.g);
}

/* @v of both directions along a new axis @axis, in the dtype of the op's output @k. */
static void join(const struct unroll *u, uint32_t k, const rlx_value v[2])
{
	struct rlx_graph *g = u->g;
	const struct rlx_type *t = &u->q->out_type[k];
	/* y is [t, b, h], states are [b, h] */
	const uint32_t time = k == 0, axis = u->a->batch_first ? time + 1 : time;
	rlx_value part[2], y;
	int64_t dim[4], i;

	if (time)
		dim[0] = u->m.t;
	dim[axis] = 1;
	dim[axis == time ? time + 1 : time] = u->m.b;
	dim[time + 2] = u->m.h;
	for (i = 0; i < u->m.d; i++)
		part[i] = op_reshape(g, v[i], dim, time + 3);
	y = u->m.d > 1 ? rlx_emit(g, concat, .axis = (int32_t)axis, .xs = { part, 2 }) : part[0];
	if (time && u->a->batch_first)
		y = op_transpose(g, y, RLX_INTS(1, 0, 2, 3));
	u->q->out[k] = op_cast(g, y, t->dtype);
}

enum rlx_status rnn_expand(struct rlx_expand *q, const struct rnn_args *a,
			   const struct rnn_graph *how)
{
	struct unroll u = { .q = q, .g = q->g, .a = a, .how = how };
	struct rlx_type x = op_type(q->g, q->in[0]), r = op_type(q->g, q->in[2]);
	rlx_value out[2][3] = { 0 }, fits = { 0 };
	int64_t d;
	uint32_t k;

	u.m = rnn_dims_of(a, &x, &r);
	u.dt = op_acc_type(q->out_type[0].dtype);
	for (k = 1; k < q->n_in; k++)
		if (k != 4 && q->in[k].id && op_type(q->g, q->in[k]).dtype == RLX_F64)
			u.dt = RLX_F64;
	u.x = given(&u, 0);
	if (a->batch_first)
		u.x = op_transpose(q->g, u.x, RLX_INTS(1, 0, 2));
	if (q->n_in > 4 && q->in[4].id && !u.m.t) {
		fits = no_steps(&u, q->in[4]);
	} else if (q->n_in > 4 && q->in[4].id) {
		u.live = live_steps(&u, q->in[4]);
		/* what stands behind a row's end may be NaN, whose gradient is */
		u.x = rlx_emit(q->g, where, .cond = u.live, .a = u.x,
			       .b = op_const_like(q->g, u.x, 0));
	}
	for (d = 0; d < u.m.d && !op_done(q->g); d++) {
		unroll(&u, d, out[d]);
		for (k = 1; k < q->n_out && fits.id; k++)
			out[d][k] = if_live(q->g, fits, out[d][k], op_zeros_like(q->g, out[d][k]));
	}
	for (k = 0; k < q->n_out && !op_done(q->g); k++)
		join(&u, k, (rlx_value[]){ out[0][k], out[1][k] });
	return op_done(q->g);
}
