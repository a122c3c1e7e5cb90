// SPDX-License-Identifier: MIT
/* Mamba's selective state space. */
#include "ops/emit.h"

/*
 * Shapes:	x[b, s, h], delta[b, s, h], a[h, n], b[b, s, n], c[b, s, n], d[h], z[b, s, h],
 *		state[b, h, n] -> y[b, s, h], last[b, h, n]
 * Dtypes:	f64 f32 f16 bf16; all as x
 * Does:	H = exp(delta a) H + delta x b from state, or 0, for each of s; y = sum of c H over
 *		n, plus d x, times silu(z); last is H behind the last. softplus: delta becomes log(1
 *		+ exp(delta)) before.
 * Gradient:	by linear_scan, exp, mul and reduce: to all
 * Source:	Gu and Dao 2023 (Mamba)
 */
RLX_OP(selective_scan, "Mamba's recurrence, with state in and out",
	IN(x) IN(delta) IN(a) IN(b) IN(c) OPT(d) OPT(z) OPT(state)
	ATTR(bool, softplus),
	RLX_T_REDUCTION | RLX_T_STEPPED | RLX_T_CARRIES)

enum { X, DELTA, A, B, C, D, Z, STATE };

static enum rlx_status selective_scan_infer(struct rlx_infer *q)
{
	static const char name[][8] = { "x", "delta", "a", "b", "c", "d", "z", "state" };
	const struct rlx_type *x = q->in[X], *a = q->in[A];
	enum rlx_status st = op_need_float(q, X, false);
	struct rlx_type want[8];
	uint32_t k;

	if (!st)
		st = op_need_rank(q, X, 3, 3);
	if (!st)
		st = op_need_rank(q, A, 2, 2);
	if (st)
		return st;
	want[X] = want[DELTA] = want[Z] = *x;
	want[A] = rlx_type(x->dtype, x->dim[2], a->dim[1]);
	want[B] = want[C] = rlx_type(x->dtype, x->dim[0], x->dim[1], a->dim[1]);
	want[D] = rlx_type(x->dtype, x->dim[2]);
	want[STATE] = rlx_type(x->dtype, x->dim[0], x->dim[2], a->dim[1]);
	for (k = 0; k < 8 && k < q->n_in; k++)
		if (q->in[k] && !rlx_type_equal(q->in[k], &want[k]))
			return op_fail(q, RLX_ESHAPE, "%s does not fit x[%lld, %lld, %lld] and "
				       "a[.., %lld] of one dtype", name[k], (long long)x->dim[0],
				       (long long)x->dim[1], (long long)x->dim[2],
				       (long long)a->dim[1]);
	q->n_out = 2;
	q->out[0] = *x;
	q->out[1] = want[STATE];
	return RLX_OK;
}

/* A dimension of 1 at @at */
static rlx_value with_one(struct rlx_graph *g, rlx_value x, uint32_t at)
{
	struct rlx_type t = op_type(g, x);

	if (!x.id)
		return x;
	memmove(t.dim + at + 1, t.dim + at, (t.rank - at) * sizeof(t.dim[0]));
	t.dim[at] = 1;
	return op_reshape(g, x, t.dim, t.rank + 1);
}

static enum rlx_status selective_scan_expand(struct rlx_expand *q)
{
	const struct rlx_op_selective_scan *o = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type x = op_type(g, q->in[X]), last = q->out_type[1];
	rlx_value in[8] = { 0 }, decay, h, y, d;
	uint32_t k;

	if (!x.dim[1]) {
		q->out[0] = op_fill(g, &q->out_type[0], 0);
		q->out[1] = STATE < q->n_in && q->in[STATE].id ? q->in[STATE] :
			    op_fill(g, &last, 0);
		return op_done(g);
	}
	for (k = 0; k < 8 && k < q->n_in; k++)
		if (q->in[k].id)
			in[k] = op_cast(g, q->in[k], op_acc_type(x.dtype));
	d = in[DELTA];
	if (o->softplus)
		d = rlx_emit(g, softplus, .x = d);
	decay = rlx_emit(g, exp, .x = rlx_emit(g, mul, .a = with_one(g, d, 3), .b = in[A]));
	h = rlx_emit(g, mul, .a = with_one(g, rlx_emit(g, mul, .a = d, .b = in[X]), 3),
		     .b = with_one(g, in[B], 2));
	h = rlx_emit(g, linear_scan, .a = decay, .x = h, .initial = in[STATE], .axis = 1);
	y = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = h, .b = with_one(g, in[C], 2)),
		     .axes = RLX_INTS(3));
	if (in[D].id)
		y = rlx_emit(g, add, .a = y, .b = rlx_emit(g, mul, .a = in[D], .b = in[X]));
	if (in[Z].id)
		y = rlx_emit(g, mul, .a = y, .b = rlx_emit(g, mul, .a = in[Z],
			     .b = rlx_emit(g, sigmoid, .x = in[Z])));
	q->out[0] = op_cast(g, y, x.dtype);
	h = rlx_emit(g, slice, .x = h, .axes = RLX_INTS(1), .starts = RLX_INTS(x.dim[1] - 1),
		     .ends = RLX_INTS(x.dim[1]));
	q->out[1] = op_cast(g, op_reshape(g, h, last.dim, last.rank), last.dtype);
	return op_done(g);
}

static bool selective_scan_sample(unsigned int i, struct rlx_sample *s)
{
	static const int64_t c[][4] = {
		{ 2, 7, 5, 3 }, { 1, 4, 19, 16 }, { 2, 0, 3, 2 }, { 1, 1, 1, 1 },
	};
	struct rlx_op_selective_scan *o = s->args;
	int64_t b, n, h, w;
	uint32_t k;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	b = c[i][0];
	n = c[i][1];
	h = c[i][2];
	w = c[i][3];
	s->n_in = 8;
	s->in[X] = s->in[DELTA] = rlx_type(RLX_F32, b, n, h);
	s->in[A] = rlx_type(RLX_F32, h, w);
	s->in[B] = s->in[C] = rlx_type(RLX_F32, b, n, w);
	if (i != 1) {
		s->in[D] = rlx_type(RLX_F32, h);
		s->in[Z] = s->in[X];
		s->in[STATE] = rlx_type(RLX_F32, b, h, w);
	}
	s->lo[DELTA] = o->softplus ? -1 : 0.1;
	s->hi[DELTA] = 1;
	s->lo[A] = -1;
	s->hi[A] = -0.1;
	for (k = 0; i == 3 && k < s->n_in; k++)	/* nothing is beside one element */
		if (!s->lo[k] && !s->hi[k]) {
			s->lo[k] = 0.3;
			s->hi[k] = 1;
		}
	s->tol = 5e-6;
	o->softplus = i == 1;
	return true;
}

const struct rlx_op_impl rlx_op_selective_scan_impl = {
	.infer = selective_scan_infer, .expand = selective_scan_expand,
};
RLX_SAMPLES(selective_scan, selective_scan_sample)
