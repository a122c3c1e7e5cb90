// SPDX-License-Identifier: MIT
/* Long short-term memory, as ONNX defines it. */
#include "ops/rnn_cell.h"

/*
 * Shapes:	x[t, b, i], w[d, 4 h, i], r[d, 4 h, h], bias[d, 8 h], lens[b], h0 and c0[d, b, h],
 *		peep[d, 3 h] -> y[t, d, b, h], h and c[d, b, h]; batch_first: x[b, t, i], h0 and
 *		c0[b, d, h], y[b, t, d, h], h and c[b, d, h]; d = 2 for RLX_RNN_BIDI
 * Dtypes:	f64 f32 f16 bf16; lens: i32 i64 u32; y, h and c as x
 * Does:	w, r and either half of bias (of x's side, of h's side) hold gates i, o, f and the
 *		cell's input n in turn: i = f(x w' + h r' + bias + peep c), f likewise, or 1 - i
 *		with input_forget, n = g(..) without peep; c = f c + i n; o as i, by the new c; h
 *		is o times the third activation of c. peep has i, o, f. direction RLX_RNN_FORWARD
 *		(if not given), REVERSE or BIDI. acts has f, g and that third for each direction,
 *		sigmoid, tanh and tanh if not given; act_alpha, act_beta as for gru. clip bounds
 *		what goes into f and g, 0 (if not given) does not. bias, h0, c0 and peep are 0 if
 *		not given. From lens[b] on y is 0, and h and c are those of the last step; REVERSE
 *		begins there.
 * Errors:	RLX_ERANGE for a length outside 0 to t.
 * Gradient:	that of a scan over the steps, which runs them again; none to lens, nor from
 *		steps from lens[b] on; 0 where clip bounds a gate
 * Source:	Hochreiter and Schmidhuber 1997; ONNX LSTM-14
 */
RLX_OP(lstm, "LSTM; gates i o f c; outputs y, h, c; activations f g h for each direction",
	IN(x) IN(w) IN(r) OPT(bias) OPT(lens) OPT(h0) OPT(c0) OPT(peep)
	ATTR(i32, direction)
	ATTR(bool, batch_first)
	ATTR(bool, input_forget)
	ATTR(f32, clip)
	ATTR(ints, acts)
	ATTR(floats, act_alpha)
	ATTR(floats, act_beta),
	RLX_T_COMPUTE | RLX_T_CARRIES)

static struct rnn_args args_of(const struct rlx_op_lstm *a)
{
	return (struct rnn_args){
		.direction = a->direction, .batch_first = a->batch_first,
		.clip = a->clip, .acts = a->acts, .alpha = a->act_alpha,
		.beta = a->act_beta, .gates = 4, .n_act = 3,
		.has_c = true,
	};
}

static enum rlx_status lstm_infer(struct rlx_infer *q)
{
	const struct rnn_args a = args_of(q->args);

	return rnn_infer(q, &a);
}

static size_t lstm_scratch(const struct rlx_infer *q)
{
	const struct rnn_args a = args_of(q->args);

	return rnn_scratch(q, &a);
}

static void step(const struct rnn_step *s, bool input_forget)
{
	int64_t h = s->m.h, k;
	double i, o, f, c;

	for (k = 0; k < 4 * h; k++)
		s->gx[k] += s->gh[k] + s->rb[k];
	for (k = 0; k < h; k++) {
		i = s->gx[k] + (s->peep ? s->peep[k] * s->c[k] : 0);
		f = s->gx[2 * h + k] + (s->peep ? s->peep[2 * h + k] * s->c[k] : 0);
		i = rnn_act(s, 0, i);
		f = input_forget ? 1 - i : rnn_act(s, 0, f);
		c = f * s->c[k] + i * rnn_act(s, 1, s->gx[3 * h + k]);
		o = s->gx[h + k] + (s->peep ? s->peep[h + k] * c : 0);
		s->c[k] = c;
		s->h[k] = rnn_act(s, 0, o) * rnn_act(s, 2, c);
	}
}

static void cell(const struct rnn_step *s)
{
	step(s, false);
}

static void cell_coupled(const struct rnn_step *s)
{
	step(s, true);
}

static enum rlx_status lstm_eval(struct rlx_eval *q)
{
	const struct rlx_op_lstm *l = q->args;
	const struct rnn_args a = args_of(l);

	return rnn_eval(q, &a, l->input_forget ? cell_coupled : cell);
}

static rlx_value peephole(const struct rnn_body *b, rlx_value x, int64_t k, rlx_value c)
{
	if (!b->peep.id)
		return x;
	return rlx_emit(b->g, add, .a = x,
			.b = rlx_emit(b->g, mul, .a = c, .b = rnn_part(b, b->peep, k)));
}

static void step_graph(struct rnn_body *b, bool input_forget)
{
	struct rlx_graph *g = b->g;
	rlx_value all, i, f, n, o;

	all = rlx_emit(g, add, .a = b->gx, .b = rlx_emit(g, matmul, .a = b->h, .b = b->r[0]));
	i = rnn_emit_act(b, 0, peephole(b, rnn_part(b, all, 0), 0, b->c));
	if (input_forget)
		f = rlx_emit(g, sub, .a = op_const_like(g, i, 1), .b = i);
	else
		f = rnn_emit_act(b, 0, peephole(b, rnn_part(b, all, 2), 2, b->c));
	n = rnn_emit_act(b, 1, rnn_part(b, all, 3));
	b->c = rlx_emit(g, add, .a = rlx_emit(g, mul, .a = f, .b = b->c),
			.b = rlx_emit(g, mul, .a = i, .b = n));
	o = rnn_emit_act(b, 0, peephole(b, rnn_part(b, all, 1), 1, b->c));
	b->h = rlx_emit(g, mul, .a = o, .b = rnn_emit_act(b, 2, b->c));
}

static void cell_graph(struct rnn_body *b)
{
	step_graph(b, false);
}

static void cell_graph_coupled(struct rnn_body *b)
{
	step_graph(b, true);
}

static enum rlx_status lstm_expand(struct rlx_expand *q)
{
	const struct rlx_op_lstm *l = q->args;
	const struct rnn_args a = args_of(l);

	return rnn_expand(q, &a, &(struct rnn_graph){
			  l->input_forget ? cell_graph_coupled : cell_graph });
}

static void lstm_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_type *x = q->in[0];

	c->flops = 2.0 * (double)(x->dim[0] * x->dim[1]) *
		   (double)(rlx_type_count(q->in[1]) + rlx_type_count(q->in[2]));
}

static bool lstm_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_lstm *a = s->args;
	struct rnn_args r = args_of(a);

	if (!rnn_sample(i, s, &r))
		return false;
	*a = (struct rlx_op_lstm){
		.direction = r.direction, .batch_first = r.batch_first, .clip = r.clip,
		.acts = r.acts, .act_alpha = r.alpha, .act_beta = r.beta,
		.input_forget = i == 3,
	};
	return true;
}

const struct rlx_op_impl rlx_op_lstm_impl = {
	.infer = lstm_infer, .scratch = lstm_scratch, .eval = lstm_eval,
	.cost = lstm_cost,
	.expand = lstm_expand, .bad_data = rnn_bad_data,
};
RLX_SAMPLES(lstm, lstm_sample)
