// SPDX-License-Identifier: MIT
/* Gated recurrent unit, as ONNX defines it. */
#include "ops/rnn_cell.h"

/*
 * Shapes:	x[t, b, i], w[d, 3 h, i], r[d, 3 h, h], bias[d, 6 h], lens[b], h0[d, b, h] -> y[t,
 *		d, b, h], h[d, b, h]; batch_first: x[b, t, i], h0[b, d, h], y[b, t, d, h], h[b, d,
 *		h]; d = 2 for RLX_RNN_BIDI
 * Dtypes:	f64 f32 f16 bf16; lens: i32 i64 u32; y and h as x
 * Does:	w, r and either half of bias (of x's side, of h's side) hold gates z, s, n in
 *		turn: z = f(x w' + h r' + bias), the reset s likewise, n = g(x w' + (s h) r' +
 *		bias), with linear_before_reset g(x w' + s (h r')), each product with its half of
 *		bias; h = (1 - z) n + z h. direction RLX_RNN_FORWARD (if not given), REVERSE or
 *		BIDI. acts has f and g for each direction, sigmoid and tanh if not given;
 *		act_alpha and act_beta their parameters, else leaky ReLU has 0.01, hard sigmoid
 *		0.2 and 0.5, scaled tanh 1 and 1, others 1 and 0. clip bounds what goes into f and
 *		g, 0 (if not given) does not. bias and h0 are 0 if not given. From lens[b] on y is
 *		0, and h is that of the last step; REVERSE begins there.
 * Errors:	RLX_ERANGE for a length outside 0 to t.
 * Gradient:	that of a scan over the steps, which runs them again; none to lens, nor from
 *		steps from lens[b] on; 0 where clip bounds a gate
 * Source:	Cho et al. 2014; ONNX GRU-14
 */
RLX_OP(gru, "GRU; gates z r h; outputs y, h; activations f g for each direction",
	IN(x) IN(w) IN(r) OPT(bias) OPT(lens) OPT(h0)
	ATTR(i32, direction)
	ATTR(bool, batch_first)
	ATTR(f32, clip)
	ATTR(ints, acts)
	ATTR(floats, act_alpha)
	ATTR(floats, act_beta)
	ATTR(bool, linear_before_reset),
	RLX_T_COMPUTE | RLX_T_CARRIES)

static struct rnn_args args_of(const struct rlx_op_gru *a)
{
	return (struct rnn_args){
		.direction = a->direction, .batch_first = a->batch_first,
		.clip = a->clip, .acts = a->acts, .alpha = a->act_alpha,
		.beta = a->act_beta, .gates = 3, .n_act = 2,
	};
}

static enum rlx_status gru_infer(struct rlx_infer *q)
{
	const struct rnn_args a = args_of(q->args);

	return rnn_infer(q, &a);
}

static size_t gru_scratch(const struct rlx_infer *q)
{
	const struct rnn_args a = args_of(q->args);

	return rnn_scratch(q, &a);
}

/* z = f(..), r = f(..), h = (1 - z) g(.., r) + z h */
static void step(const struct rnn_step *s, bool linear_before_reset)
{
	int64_t h = s->m.h, k, j;
	double z, n;

	for (k = 0; k < 2 * h; k++)
		s->gx[k] = rnn_act(s, 0, s->gx[k] + s->gh[k] + s->rb[k]);
	for (k = 0; k < h; k++) {
		n = linear_before_reset ? s->gh[2 * h + k] : 0;
		for (j = 0; !linear_before_reset && j < h; j++)
			n += s->r[(2 * h + k) * h + j] * s->gx[h + j] * s->h[j];
		n += s->rb[2 * h + k];
		if (linear_before_reset)
			n *= s->gx[h + k];
		s->tmp[k] = rnn_act(s, 1, s->gx[2 * h + k] + n);
	}
	for (k = 0; k < h; k++) {
		z = s->gx[k];
		s->h[k] = (1 - z) * s->tmp[k] + z * s->h[k];
	}
}

static void cell(const struct rnn_step *s)
{
	step(s, false);
}

static void cell_linear(const struct rnn_step *s)
{
	step(s, true);
}

static enum rlx_status gru_eval(struct rlx_eval *q)
{
	const struct rlx_op_gru *l = q->args;
	const struct rnn_args a = args_of(l);

	return rnn_eval(q, &a, l->linear_before_reset ? cell_linear : cell);
}

static rlx_value product(const struct rnn_body *b, rlx_value h, int k)
{
	return rlx_emit(b->g, matmul, .a = h, .b = b->r[k]);
}

static void cell_graph(struct rnn_body *b)
{
	struct rlx_graph *g = b->g;
	rlx_value z, s, n, gh;
	bool late = !b->r[1].id;

	gh = product(b, b->h, 0);
	if (b->rb.id)
		gh = rlx_emit(g, add, .a = gh, .b = b->rb);
	z = rlx_emit(g, add, .a = rnn_part(b, b->gx, 0), .b = rnn_part(b, gh, 0));
	s = rlx_emit(g, add, .a = rnn_part(b, b->gx, 1), .b = rnn_part(b, gh, 1));
	z = rnn_emit_act(b, 0, z);
	s = rnn_emit_act(b, 0, s);
	n = late ? rlx_emit(g, mul, .a = s, .b = rnn_part(b, gh, 2)) :
		   product(b, rlx_emit(g, mul, .a = s, .b = b->h), 1);
	n = rnn_emit_act(b, 1, rlx_emit(g, add, .a = rnn_part(b, b->gx, 2), .b = n));
	b->h = rlx_emit(g, add, .a = rlx_emit(g, mul, .b = n, .a =
			rlx_emit(g, sub, .a = op_const_like(g, z, 1), .b = z)),
			.b = rlx_emit(g, mul, .a = z, .b = b->h));
}

static enum rlx_status gru_expand(struct rlx_expand *q)
{
	const struct rlx_op_gru *l = q->args;
	const struct rnn_args a = args_of(l);

	return rnn_expand(q, &a, &(struct rnn_graph){
			  cell_graph, l->linear_before_reset ? 0 : 2, l->linear_before_reset });
}

static void gru_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_type *x = q->in[0];

	c->flops = 2.0 * (double)(x->dim[0] * x->dim[1]) *
		   (double)(rlx_type_count(q->in[1]) + rlx_type_count(q->in[2]));
}

static bool gru_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_gru *a = s->args;
	struct rnn_args r = args_of(a);

	if (!rnn_sample(i, s, &r))
		return false;
	*a = (struct rlx_op_gru){
		.direction = r.direction, .batch_first = r.batch_first, .clip = r.clip,
		.acts = r.acts, .act_alpha = r.alpha, .act_beta = r.beta,
		.linear_before_reset = i & 1,
	};
	return true;
}

const struct rlx_op_impl rlx_op_gru_impl = {
	.infer = gru_infer, .scratch = gru_scratch, .eval = gru_eval,
	.cost = gru_cost,
	.expand = gru_expand, .bad_data = rnn_bad_data,
};
RLX_SAMPLES(gru, gru_sample)
