// SPDX-License-Identifier: MIT
/* Recurrent layers: attributes to ours. */
#include "io/onnx/handlers.h"

/* In the order of enum rlx_rnn_act, with the defaults of alpha and beta. */
static const struct {
	const char	*name;
	double		 alpha, beta;
	bool		 has_alpha, has_beta;
} acts[] = {
	{ "Sigmoid", 0, 0, false, false },
	{ "Tanh", 0, 0, false, false },
	{ "Relu", 0, 0, false, false },
	{ "Affine", 1, 0, true, true },
	{ "LeakyRelu", 0.01, 0, true, false },
	{ "ThresholdedRelu", 1, 0, true, false },
	{ "ScaledTanh", 1, 1, true, true },
	{ "HardSigmoid", 0.2, 0.5, true, true },
	{ "Elu", 1, 0, true, false },
	{ "Softsign", 0, 0, false, false },
	{ "Softplus", 0, 0, false, false },
};

static bool same_name(struct rlx_str s, const char *name)
{
	size_t i;

	if (s.n != strlen(name))
		return false;
	/* The standard says that case does not matter. */
	for (i = 0; i < s.n; i++)
		if ((s.p[i] | 0x20) != (name[i] | 0x20))
			return false;
	return true;
}

struct cell {
	int64_t	act[8];
	double	alpha[8], beta[8];
	uint32_t n_act;
	int	direction;
	bool	batch_first;
	float	clip;
};

static enum rlx_status activations(struct onnx_op *q, struct cell *c)
{
	const struct onnx_attr *a = onnx_attr_of(q, "activations");
	struct rlx_floats alpha = onnx_attr_floats(q, "activation_alpha");
	struct rlx_floats beta = onnx_attr_floats(q, "activation_beta");
	uint32_t i, k, ia = 0, ib = 0;

	if (!a)
		return RLX_OK;
	if (a->nstrings > 8)
		return op_err(q, RLX_EPARSE, "%zu activations", a->nstrings);
	for (i = 0; i < a->nstrings; i++) {
		for (k = 0; k < sizeof(acts) / sizeof(acts[0]); k++)
			if (same_name(a->strings[i], acts[k].name))
				break;
		if (k == sizeof(acts) / sizeof(acts[0]))
			return op_err(q, RLX_ENOSUP, "activation '%.*s' is not "
				      "supported", ONNX_STR(a->strings[i]));
		c->act[i] = k;
		/* Values stand in order of the activations that take one. */
		c->alpha[i] = acts[k].has_alpha && ia < alpha.n ?
			      alpha.v[ia++] : acts[k].alpha;
		c->beta[i] = acts[k].has_beta && ib < beta.n ?
			     beta.v[ib++] : acts[k].beta;
	}
	c->n_act = (uint32_t)a->nstrings;
	return RLX_OK;
}

static enum rlx_status cell_of(struct onnx_op *q, struct cell *c)
{
	static const char *const dirs[] = {
		"forward", "reverse", "bidirectional", NULL
	};

	onnx_attr_i(q, "hidden_size", 0);
	onnx_attr_i(q, "output_sequence", 0);
	c->direction = onnx_attr_enum(q, "direction", dirs, 0);
	c->batch_first = onnx_attr_i(q, "layout", 0);
	c->clip = (float)onnx_attr_f(q, "clip", 0);
	return activations(q, c);
}

static void outputs(struct onnx_op *q, rlx_value y, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		onnx_out(q, i, onnx_nth(q, y, i));
}

enum rlx_status onnx_lstm(struct onnx_op *q)
{
	struct cell c = { .n_act = 0 };
	enum rlx_status st = cell_of(q, &c);

	if (st)
		return st;
	outputs(q, E(q, lstm, .x = onnx_in(q, 0), .w = onnx_in(q, 1),
		     .r = onnx_in(q, 2), .bias = onnx_in(q, 3),
		     .lens = onnx_in(q, 4), .h0 = onnx_in(q, 5),
		     .c0 = onnx_in(q, 6), .peep = onnx_in(q, 7),
		     .direction = c.direction, .batch_first = c.batch_first,
		     .input_forget = onnx_attr_i(q, "input_forget", 0),
		     .clip = c.clip, .acts = { c.act, c.n_act },
		     .act_alpha = { c.alpha, c.n_act },
		     .act_beta = { c.beta, c.n_act }), 3);
	return RLX_OK;
}

enum rlx_status onnx_gru(struct onnx_op *q)
{
	struct cell c = { .n_act = 0 };
	enum rlx_status st = cell_of(q, &c);

	if (st)
		return st;
	outputs(q, E(q, gru, .x = onnx_in(q, 0), .w = onnx_in(q, 1),
		     .r = onnx_in(q, 2), .bias = onnx_in(q, 3),
		     .lens = onnx_in(q, 4), .h0 = onnx_in(q, 5),
		     .direction = c.direction, .batch_first = c.batch_first,
		     .clip = c.clip, .acts = { c.act, c.n_act },
		     .act_alpha = { c.alpha, c.n_act },
		     .act_beta = { c.beta, c.n_act },
		     .linear_before_reset =
		     onnx_attr_i(q, "linear_before_reset", 0)), 2);
	return RLX_OK;
}

enum rlx_status onnx_rnn(struct onnx_op *q)
{
	struct cell c = { .n_act = 0 };
	enum rlx_status st = cell_of(q, &c);

	if (st)
		return st;
	outputs(q, E(q, rnn, .x = onnx_in(q, 0), .w = onnx_in(q, 1),
		     .r = onnx_in(q, 2), .bias = onnx_in(q, 3),
		     .lens = onnx_in(q, 4), .h0 = onnx_in(q, 5),
		     .direction = c.direction, .batch_first = c.batch_first,
		     .clip = c.clip, .acts = { c.act, c.n_act },
		     .act_alpha = { c.alpha, c.n_act },
		     .act_beta = { c.beta, c.n_act }), 2);
	return RLX_OK;
}
