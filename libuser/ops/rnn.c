// SPDX-License-Identifier: MIT
/* The plain recurrent layer, as ONNX defines it. */
#include "ops/rnn_cell.h"

/*
 * Shapes:	x[t, b, i], w[d, h, i], r[d, h, h], bias[d, 2 h], lens[b], h0[d, b, h] -> y[t, d,
 *		b, h], h[d, b, h]; batch_first: x[b, t, i], h0[b, d, h], y[b, t, d, h], h[b, d,
 *		h]; d = 2 for RLX_RNN_BIDI
 * Dtypes:	f64 f32 f16 bf16; lens: i32 i64 u32; y and h as x
 * Does:	h = f(x w' + h r' + both halves of bias). direction RLX_RNN_FORWARD (if not
 *		given), REVERSE or BIDI. acts has f for each direction, tanh if not given;
 *		act_alpha, act_beta as for gru. clip bounds what goes into f, 0 (if not given)
 *		does not. bias and h0 are 0 if not given. From lens[b] on y is 0, and h is that of
 *		the last step; REVERSE begins there.
 * Errors:	RLX_ERANGE for a length outside 0 to t.
 * Gradient:	that of a scan over the steps, which runs them again; none to lens, nor from
 *		steps from lens[b] on; 0 where clip bounds a gate
 * Source:	Elman 1990; ONNX RNN-14
 */
RLX_OP(rnn, "h = f(x w' + h r' + bias); outputs y, h; one activation for each direction",
	IN(x) IN(w) IN(r) OPT(bias) OPT(lens) OPT(h0)
	ATTR(i32, direction)
	ATTR(bool, batch_first)
	ATTR(f32, clip)
	ATTR(ints, acts)
	ATTR(floats, act_alpha)
	ATTR(floats, act_beta),
	RLX_T_COMPUTE | RLX_T_CARRIES)

static struct rnn_args args_of(const struct rlx_op_rnn *a)
{
	return (struct rnn_args){
		.direction = a->direction, .batch_first = a->batch_first,
		.clip = a->clip, .acts = a->acts, .alpha = a->act_alpha,
		.beta = a->act_beta, .gates = 1, .n_act = 1,
	};
}

static enum rlx_status rnn_op_infer(struct rlx_infer *q)
{
	const struct rnn_args a = args_of(q->args);

	return rnn_infer(q, &a);
}

static size_t rnn_op_scratch(const struct rlx_infer *q)
{
	const struct rnn_args a = args_of(q->args);

	return rnn_scratch(q, &a);
}

static void cell(const struct rnn_step *s)
{
	int64_t k;

	for (k = 0; k < s->m.h; k++)
		s->h[k] = rnn_act(s, 0, s->gx[k] + s->gh[k] + s->rb[k]);
}

static enum rlx_status rnn_op_eval(struct rlx_eval *q)
{
	const struct rnn_args a = args_of(q->args);

	return rnn_eval(q, &a, cell);
}

static void cell_graph(struct rnn_body *b)
{
	struct rlx_graph *g = b->g;

	b->h = rnn_emit_act(b, 0, rlx_emit(g, add, .a = b->gx,
			    .b = rlx_emit(g, matmul, .a = b->h, .b = b->r[0])));
}

static enum rlx_status rnn_op_expand(struct rlx_expand *q)
{
	const struct rnn_args a = args_of(q->args);

	return rnn_expand(q, &a, &(struct rnn_graph){ cell_graph });
}

static void rnn_op_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_type *x = q->in[0];

	c->flops = 2.0 * (double)(x->dim[0] * x->dim[1]) *
		   (double)(rlx_type_count(q->in[1]) + rlx_type_count(q->in[2]));
}

static bool rnn_op_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_rnn *a = s->args;
	struct rnn_args r = args_of(a);

	if (!rnn_sample(i, s, &r))
		return false;
	*a = (struct rlx_op_rnn){
		.direction = r.direction, .batch_first = r.batch_first, .clip = r.clip,
		.acts = r.acts, .act_alpha = r.alpha, .act_beta = r.beta,
	};
	return true;
}

const struct rlx_op_impl rlx_op_rnn_impl = {
	.infer = rnn_op_infer, .scratch = rnn_op_scratch, .eval = rnn_op_eval,
	.cost = rnn_op_cost,
	.expand = rnn_op_expand, .bad_data = rnn_bad_data,
};
RLX_SAMPLES(rnn, rnn_op_sample)
