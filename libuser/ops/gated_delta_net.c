// SPDX-License-Identifier: MIT
/* The gated delta rule: a memory that forgets, and writes what it did not know. */
#include "ops/linalg.h"

/*
 * Shapes:	q[b, s, hk, dk], k[b, s, hk, dk], v[b, s, hv, dv], g[b, s, hv], beta[b, s, hv],
 *		state[b, hv, dk, dv] -> y[b, s, hv, dv], last[b, hv, dk, dv]; hv is a multiple of
 *		hk, each head of q and k is for hv / hk of v
 * Dtypes:	f64 f32 f16 bf16; all as q; the state is kept in f32 (f64 of f64)
 * Does:	for each of s and each head S = e^g S, S = S + k (beta (v - S' k))', y = scale S' q,
 *		from state, or 0; last is S behind the last. scale 0 or not given is 1 / sqrt(dk).
 *		By chunks of 32 elements, or of a 128th of s if that is more: all within one by
 *		products and a triangular system (the WY representation).
 *		g below -128 (f64: -800) counts as that where chunks add it up: e^g is 0 from there
 *		on, for -inf too, which forgets all.
 * Gradient:	by those ops: to all
 * Source:	Yang, Kautz and Hatamizadeh 2025 (Gated Delta Networks); Yang et al. 2024
 */
RLX_OP(gated_delta_net, "gated delta rule, by chunks, with state in and out",
	IN(q) IN(k) IN(v) IN(g) IN(beta) OPT(state)
	ATTR(f64, scale),
	RLX_T_REDUCTION | RLX_T_STEPPED | RLX_T_CARRIES)

enum { Q, K, V, G, BETA, STATE };
enum { CHUNK = 32, MOST_CHUNKS = 128 };

static enum rlx_status gated_delta_net_infer(struct rlx_infer *q)
{
	static const char name[][6] = { "q", "k", "v", "g", "beta", "state" };
	const struct rlx_op_gated_delta_net *a = q->args;
	const struct rlx_type *x = q->in[Q], *v = q->in[V];
	enum rlx_status st = op_need_float(q, Q, false);
	struct rlx_type want[6];
	uint32_t i;

	if (!st)
		st = op_need_rank(q, Q, 4, 4);
	if (!st)
		st = op_need_rank(q, V, 4, 4);
	if (!st)
		st = op_need_real(q, "scale", a->scale, -1e300);
	if (st)
		return st;
	if (!x->dim[2] || !x->dim[3] || v->dim[2] % x->dim[2])
		return op_fail(q, RLX_ESHAPE, "%lld heads of v are no multiple of %lld of q, or q "
			       "has nothing in a head", (long long)v->dim[2], (long long)x->dim[2]);
	want[Q] = want[K] = *x;
	want[V] = rlx_type(x->dtype, x->dim[0], x->dim[1], v->dim[2], v->dim[3]);
	want[G] = want[BETA] = rlx_type(x->dtype, x->dim[0], x->dim[1], v->dim[2]);
	want[STATE] = rlx_type(x->dtype, x->dim[0], v->dim[2], x->dim[3], v->dim[3]);
	for (i = 0; i < 6 && i < q->n_in; i++)
		if (q->in[i] && !rlx_type_equal(q->in[i], &want[i]))
			return op_fail(q, RLX_ESHAPE, "%s does not fit q[%lld, %lld, ..] and v[.., "
				       "%lld, %lld] of one dtype", name[i], (long long)x->dim[0],
				       (long long)x->dim[1], (long long)v->dim[2],
				       (long long)v->dim[3]);
	q->n_out = 2;
	q->out[0] = want[V];
	q->out[1] = want[STATE];
	return RLX_OK;
}

/* x[b, s, h, d] as [b, heads, s, d], in the dtype that sums are kept in */
static rlx_value by_heads(struct rlx_graph *g, rlx_value x, int64_t heads)
{
	struct rlx_type t = op_type(g, x);
	int64_t r = heads / t.dim[2];

	x = op_cast(g, op_transpose(g, x, RLX_INTS(0, 2, 1, 3)), op_acc_type(t.dtype));
	if (r == 1)
		return x;
	x = op_reshape(g, x, (int64_t[]){ t.dim[0], t.dim[2], 1, t.dim[1], t.dim[3] }, 5);
	x = rlx_emit(g, expand, .x = x, .shape = RLX_INTS(t.dim[0], t.dim[2], r, t.dim[1],
							    t.dim[3]));
	return op_reshape(g, x, (int64_t[]){ t.dim[0], heads, t.dim[1], t.dim[3] }, 4);
}

/* x[b, s, h] as columns [b, h, s, 1] */
static rlx_value column(struct rlx_graph *g, rlx_value x)
{
	struct rlx_type t = op_type(g, x);

	x = op_reshape(g, x, (int64_t[]){ t.dim[0], t.dim[1], t.dim[2], 1 }, 4);
	return by_heads(g, x, t.dim[2]);
}

static rlx_value times(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	return rlx_emit(g, mul, .a = a, .b = b);
}

/*
 * A chunk of @in, all [b, h, c, ..]: with D_ij = e^(g_j+1 + .. + g_i) for j <= i and S the state
 * before it, u of (1 + beta D k k', below the diagonal) u = beta (v - e^G k S) is what is written.
 */
static rlx_value chunk(struct rlx_graph *g, const rlx_value in[5], rlx_value *state)
{
	const rlx_value q = in[Q], k = in[K];
	rlx_value sum = rlx_emit(g, cumsum, .x = in[G], .axis = 2), decay, d, u, m, y, end;
	struct rlx_type t = op_type(g, sum);
	const int64_t c = t.dim[2];

	/* above the diagonal it would grow, and is not used */
	d = rlx_emit(g, sub, .a = sum, .b = op_turned(g, sum));
	d = rlx_emit(g, trilu, .x = rlx_emit(g, exp, .x = rlx_emit(g, trilu, .x = d)));
	decay = rlx_emit(g, exp, .x = sum);
	u = rlx_emit(g, sub, .a = in[V], .b = op_product(g, times(g, decay, k), *state));
	m = times(g, times(g, op_product(g, k, op_turned(g, k)), d), in[BETA]);
	u = rlx_emit(g, triangular_solve, .a = m, .b = times(g, in[BETA], u), .unit = true);
	m = times(g, op_product(g, q, op_turned(g, k)), d);
	y = rlx_emit(g, add, .a = op_product(g, times(g, decay, q), *state),
		     .b = op_product(g, m, u));
	end = rlx_emit(g, slice, .x = sum, .axes = RLX_INTS(2), .starts = RLX_INTS(c - 1),
		       .ends = RLX_INTS(c));
	m = times(g, k, rlx_emit(g, exp, .x = rlx_emit(g, sub, .a = end, .b = sum)));
	*state = rlx_emit(g, add, .a = times(g, rlx_emit(g, exp, .x = end), *state),
			  .b = op_product(g, op_turned(g, m), u));
	return y;
}

static enum rlx_status gated_delta_net_expand(struct rlx_expand *e)
{
	const struct rlx_op_gated_delta_net *a = e->args;
	struct rlx_graph *g = e->g;
	const struct rlx_type x = op_type(g, e->in[Q]), y = e->out_type[0], last = e->out_type[1];
	const int64_t s = x.dim[1], heads = y.dim[2], c = s > CHUNK * MOST_CHUNKS ?
			(s + MOST_CHUNKS - 1) / MOST_CHUNKS : CHUNK;
	struct rlx_type acc = last;
	rlx_value in[5], part[5], state, out, done[MOST_CHUNKS];
	uint32_t n = 0;
	int64_t from, to;
	int i;

	acc.dtype = op_acc_type(x.dtype);
	state = e->n_in > STATE && e->in[STATE].id ? op_cast(g, e->in[STATE], acc.dtype) :
						     op_fill(g, &acc, 0);
	if (!rlx_type_count(&y)) {
		e->out[0] = op_fill(g, &y, 0);
		e->out[1] = op_cast(g, state, x.dtype);
		return op_done(g);
	}
	for (i = 0; i < 5; i++)
		in[i] = i < G ? by_heads(g, e->in[i], heads) : column(g, e->in[i]);
	/* sums over a chunk: -inf less itself is NaN, and what lies far below 0 leaves no digits */
	in[G] = rlx_emit(g, max, .a = in[G],
			 .b = op_const_like(g, in[G], acc.dtype == RLX_F64 ? -800 : -128));
	in[Q] = op_mul_const(g, in[Q], a->scale ? a->scale : 1 / sqrt((double)x.dim[3]));
	for (from = 0; from < s; from = to) {
		to = from + c < s ? from + c : s;
		for (i = 0; i < 5; i++)
			part[i] = to - from == s ? in[i] : rlx_emit(g, slice, .x = in[i],
				.axes = RLX_INTS(2), .starts = RLX_INTS(from), .ends = RLX_INTS(to));
		done[n++] = chunk(g, part, &state);
	}
	out = n > 1 ? rlx_emit(g, concat, .axis = 2, .xs = { done, n }) : done[0];
	out = op_transpose(g, out, RLX_INTS(0, 2, 1, 3));
	e->out[0] = op_cast(g, out, x.dtype);
	e->out[1] = op_cast(g, state, x.dtype);
	return op_done(g);
}

static bool gated_delta_net_sample(unsigned int i, struct rlx_sample *s)
{
	/* b, s, hk, dk, hv, dv */
	static const int64_t c[][6] = {
		{ 1, 3, 2, 4, 2, 3 }, { 2, 5, 1, 3, 2, 2 }, { 1, 70, 1, 2, 1, 2 },
		{ 1, 1, 1, 1, 1, 1 }, { 2, 0, 1, 2, 1, 3 },
	};
	const int64_t *d = c[i < 5 ? i : 0];
	uint32_t k;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 6;
	s->in[Q] = s->in[K] = rlx_type(RLX_F32, d[0], d[1], d[2], d[3]);
	s->in[V] = rlx_type(RLX_F32, d[0], d[1], d[4], d[5]);
	s->in[G] = s->in[BETA] = rlx_type(RLX_F32, d[0], d[1], d[4]);
	if (i % 2 == 0)
		s->in[STATE] = rlx_type(RLX_F32, d[0], d[4], d[3], d[5]);
	s->lo[K] = i == 3 ? 0.3 : -0.6;
	s->hi[K] = 0.6;
	s->lo[G] = -0.5;
	s->hi[BETA] = 0.9;
	for (k = 0; i == 3 && k < s->n_in; k++)	/* nothing is beside one element */
		if (!s->lo[k] && !s->hi[k]) {
			s->lo[k] = 0.3;
			s->hi[k] = 1;
		}
	s->tol = 1e-5;
	return true;
}

const struct rlx_op_impl rlx_op_gated_delta_net_impl = {
	.infer = gated_delta_net_infer, .expand = gated_delta_net_expand,
};
RLX_SAMPLES(gated_delta_net, gated_delta_net_sample)
