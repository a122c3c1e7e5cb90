// SPDX-License-Identifier: MIT
/* Long short-term memory, as ONNX defines it. */
#include "ops/rnn_cell.h"

RLX_OP(lstm, "LSTM; gates i o f c; outputs y, h, c; activations f g h for each direction",
	IN(x) IN(w) IN(r) OPT(bias) OPT(lens) OPT(h0) OPT(c0) OPT(peep)
	ATTR(i32, direction)
	ATTR(bool, batch_first)
	ATTR(bool, input_forget)
	ATTR(f32, clip)
	ATTR(ints, acts)
	ATTR(floats, act_alpha)
	ATTR(floats, act_beta),
	RLX_T_COMPUTE)

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
	.cost = lstm_cost, .sample = lstm_sample,
	.bad_data = rnn_bad_data,
};
