/* SPDX-License-Identifier: MIT */
/* Forms of lstm, gru and rnn drawn by chance: every attribute and input, sizes down to 0. */
#ifndef SELFTESTS_RNN_FORM_H
#define SELFTESTS_RNN_FORM_H

#include <stdio.h>

#include "ir/opdef.h"
#include "rlx/graph.h"

enum { RNN_LSTM, RNN_GRU, RNN_PLAIN, RNN_CELLS };
/* Inputs in the order of the ops'; the last two are an lstm's alone. */
enum { RNN_X, RNN_W, RNN_R, RNN_BIAS, RNN_LENS, RNN_H0, RNN_C0, RNN_PEEP, RNN_INPUTS };

struct rnn_form {
	int		cell;
	int32_t		direction;
	bool		batch_first, input_forget, linear_before_reset;
	float		clip;
	int64_t		act[6];
	double		alpha[6], beta[6];
	uint32_t	n_act, n_alpha, n_beta;	/* 0: not given */
	int64_t		steps, batch, in, hidden, dirs, gates;
	struct rlx_type	type[RNN_INPUTS];	/* of no dtype: not given */
	double		range[RNN_INPUTS];	/* of values: as much to both sides of 0 */
};

/* @dt: of all but lens, which has one of its own. Narrower ones than f64 bound states. */
void rnn_form_draw(struct rnn_form *f, enum rlx_dtype dt, uint64_t *seed);
/* Draw @lens of each row, 0 to f->steps. */
void rnn_form_lens(const struct rnn_form *f, const struct rlx_tensor *lens, uint64_t *seed);
/* Are there activations with a step in them, which rounding may push a value over? */
bool rnn_form_steps(const struct rnn_form *f);
unsigned int rnn_form_outputs(const struct rnn_form *f);
/* Output 0; the others follow it. @in[k] is looked at where input @k is given. */
rlx_value rnn_form_emit(struct rlx_graph *g, const struct rnn_form *f,
			const rlx_value in[RNN_INPUTS]);
/* As text, for messages: until the next call. */
const char *rnn_form_text(const struct rnn_form *f);

#endif
