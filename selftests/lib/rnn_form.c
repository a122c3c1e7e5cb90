// SPDX-License-Identifier: MIT
/* Forms of recurrent ops drawn by chance; see rnn_form.h. */
#include <math.h>

#include "ir/element.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/rnn_form.h"

static int64_t pick(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) % (uint64_t)(hi - lo + 1));
}

static void draw_sizes(struct rnn_form *f, uint64_t *seed)
{
	int64_t *const size[] = { &f->steps, &f->batch, &f->in, &f->hidden };

	f->steps = pick(seed, 1, 7);
	f->batch = pick(seed, 1, 6);
	f->in = pick(seed, 1, 9);
	f->hidden = pick(seed, 1, 3) < 3 ? pick(seed, 1, 9) : pick(seed, 10, 40);
	if (!pick(seed, 0, 11))
		*size[pick(seed, 0, 3)] = 0;
	f->dirs = f->direction == RLX_RNN_BIDI ? 2 : 1;
	f->gates = f->cell == RNN_LSTM ? 4 : f->cell == RNN_GRU ? 3 : 1;
}

static void draw_acts(struct rnn_form *f, uint64_t *seed)
{
	uint32_t n = (uint32_t)(f->dirs * (f->cell == RNN_LSTM ? 3 : f->cell == RNN_GRU ? 2 : 1));

	f->n_act = pick(seed, 0, 2) ? n : 0;
	f->n_alpha = pick(seed, 0, 1) ? n : 0;
	f->n_beta = pick(seed, 0, 1) ? n : 0;
	for (uint32_t i = 0; i < n; i++) {
		f->act[i] = pick(seed, 0, RLX_RNN_SOFTPLUS);
		f->alpha[i] = (double)pick(seed, -2, 6) / 8;
		f->beta[i] = (double)pick(seed, -2, 6) / 8;
	}
}

static void draw_inputs(struct rnn_form *f, enum rlx_dtype dt, uint64_t *seed)
{
	static const enum rlx_dtype lens[] = { RLX_I32, RLX_I64, RLX_U32 };
	int64_t g = f->gates * f->hidden, b = f->batch, d = f->dirs, h = f->hidden;
	int k;

	f->type[RNN_X] = f->batch_first ? rlx_type(dt, b, f->steps, f->in) :
					  rlx_type(dt, f->steps, b, f->in);
	f->type[RNN_W] = rlx_type(dt, d, g, f->in);
	f->type[RNN_R] = rlx_type(dt, d, g, h);
	f->type[RNN_BIAS] = rlx_type(dt, d, 2 * g);
	f->type[RNN_LENS] = rlx_type(lens[pick(seed, 0, 2)], b);
	f->type[RNN_H0] = f->batch_first ? rlx_type(dt, b, d, h) : rlx_type(dt, d, b, h);
	f->type[RNN_C0] = f->type[RNN_H0];
	f->type[RNN_PEEP] = rlx_type(dt, d, 3 * h);
	for (k = RNN_BIAS; k < RNN_INPUTS; k++)
		if ((k >= RNN_C0 && f->cell != RNN_LSTM) || !pick(seed, 0, 2))
			f->type[k].dtype = RLX_NODTYPE;
	for (k = 0; k < RNN_INPUTS; k++)
		f->range[k] = 1;
	f->range[RNN_W] = 1 / sqrt((double)f->in + 1);
	f->range[RNN_R] = 0.5 / sqrt((double)h + 1);
}

void rnn_form_draw(struct rnn_form *f, enum rlx_dtype dt, uint64_t *seed)
{
	*f = (struct rnn_form){ .cell = (int)pick(seed, 0, RNN_CELLS - 1) };
	f->direction = (int32_t)pick(seed, RLX_RNN_FORWARD, RLX_RNN_BIDI);
	f->batch_first = pick(seed, 0, 1);
	f->input_forget = f->cell == RNN_LSTM && !pick(seed, 0, 2);
	f->linear_before_reset = f->cell == RNN_GRU && pick(seed, 0, 1);
	f->clip = pick(seed, 0, 2) ? 0 : 0.625f;
	draw_sizes(f, seed);
	draw_acts(f, seed);
	/* gates without bounds make states grow beyond narrower floats, where double goes on */
	if (f->n_act && dt != RLX_F64)
		f->clip = 0.625f;
	draw_inputs(f, dt, seed);
}

void rnn_form_lens(const struct rnn_form *f, const struct rlx_tensor *lens, uint64_t *seed)
{
	int64_t i;

	for (i = 0; i < f->batch; i++)
		el_seti(lens, i, (int64_t)(rlx_test_rand(seed) % (uint64_t)(f->steps + 1)));
}

bool rnn_form_steps(const struct rnn_form *f)
{
	uint32_t i;

	for (i = 0; i < f->n_act; i++)
		if (f->act[i] == RLX_RNN_THRESHOLDED_RELU)
			return true;
	return false;
}

unsigned int rnn_form_outputs(const struct rnn_form *f)
{
	return f->cell == RNN_LSTM ? 3 : 2;
}

rlx_value rnn_form_emit(struct rlx_graph *g, const struct rnn_form *f,
			const rlx_value in[RNN_INPUTS])
{
	const struct rlx_ints acts = { f->act, f->n_act };
	const struct rlx_floats alpha = { f->alpha, f->n_alpha }, beta = { f->beta, f->n_beta };
	rlx_value v[RNN_INPUTS];
	int k;

	for (k = 0; k < RNN_INPUTS; k++)
		v[k] = f->type[k].dtype ? in[k] : RLX_NONE;
	switch (f->cell) {
	case RNN_LSTM:
		return rlx_emit(g, lstm, .x = v[RNN_X], .w = v[RNN_W], .r = v[RNN_R],
				.bias = v[RNN_BIAS], .lens = v[RNN_LENS], .h0 = v[RNN_H0],
				.c0 = v[RNN_C0], .peep = v[RNN_PEEP], .direction = f->direction,
				.batch_first = f->batch_first, .input_forget = f->input_forget,
				.clip = f->clip, .acts = acts, .act_alpha = alpha,
				.act_beta = beta);
	case RNN_GRU:
		return rlx_emit(g, gru, .x = v[RNN_X], .w = v[RNN_W], .r = v[RNN_R],
				.bias = v[RNN_BIAS], .lens = v[RNN_LENS], .h0 = v[RNN_H0],
				.direction = f->direction, .batch_first = f->batch_first,
				.clip = f->clip, .acts = acts, .act_alpha = alpha,
				.act_beta = beta, .linear_before_reset = f->linear_before_reset);
	default:
		return rlx_emit(g, rnn, .x = v[RNN_X], .w = v[RNN_W], .r = v[RNN_R],
				.bias = v[RNN_BIAS], .lens = v[RNN_LENS], .h0 = v[RNN_H0],
				.direction = f->direction, .batch_first = f->batch_first,
				.clip = f->clip, .acts = acts, .act_alpha = alpha,
				.act_beta = beta);
	}
}

const char *rnn_form_text(const struct rnn_form *f)
{
	static const char *const cell[] = { "lstm", "gru", "rnn" };
	static char text[800];
	int n, k;

	n = snprintf(text, sizeof(text), "%s of %s: steps %lld, batch %lld, in %lld, hidden %lld, "
		     "direction %d%s%s%s, clip %g, inputs", cell[f->cell],
		     rlx_dtype_name(f->type[RNN_X].dtype), (long long)f->steps,
		     (long long)f->batch, (long long)f->in, (long long)f->hidden, f->direction,
		     f->batch_first ? ", batch_first" : "",
		     f->input_forget ? ", input_forget" : "",
		     f->linear_before_reset ? ", linear_before_reset" : "", (double)f->clip);
	for (k = 0; k < RNN_INPUTS; k++)
		if (f->type[k].dtype)
			n += snprintf(text + n, sizeof(text) - (size_t)n, " %d", k);
	n += snprintf(text + n, sizeof(text) - (size_t)n, "; acts%s%s",
		      f->n_alpha ? ", alpha" : "", f->n_beta ? ", beta" : "");
	for (k = 0; k < (int)f->n_act; k++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " %d:%g:%g", (int)f->act[k],
			      f->alpha[k], f->beta[k]);
	return text;
}
