// SPDX-License-Identifier: MIT
/*
 * LSTM, GRU and RNN: a GEMM projects the inputs of all steps, then the
 * recurrence runs over them. The backend calls both.
 */
#include "backends/common/rnn_desc.h"

static void take_acts(const struct rlx_recurrence *r, struct rlx_k_rnn *a)
{
	int64_t d, i, act;
	uint32_t at;

	for (d = 0; d < r->dirs; d++)
		for (i = 0; i < r->n_act; i++) {
			at = (uint32_t)(d * r->n_act + i);
			act = op_rnn_act(r->acts, (uint32_t)r->n_act, at);
			a->act[d][i] = (struct rlx_k_rnn_fn){
				.fn = (uint8_t)act,
				.alpha = op_rnn_alpha(r->alpha, act, at),
				.beta = op_rnn_beta(r->beta, act, at),
			};
		}
}

static void strides(const struct rlx_recurrence *r, struct rlx_k_rnn *a)
{
	int64_t n = r->gates * r->hidden, row = n * r->dirs, h = r->hidden;

	a->x_stride[0] = r->batch_first ? row : row * r->batch;
	a->x_stride[1] = r->batch_first ? row * r->steps : row;
	a->x_stride[2] = n;
	a->y_stride[0] = r->batch_first ? r->dirs * h : r->dirs * r->batch * h;
	a->y_stride[1] = r->batch_first ? r->steps * r->dirs * h : h;
	a->y_stride[2] = r->batch_first ? h : r->batch * h;
	a->h_stride[0] = r->batch_first ? r->dirs * h : h;
	a->h_stride[1] = r->batch_first ? h : r->batch * h;
}

struct rlx_k_rnn *rlx_recurrence_args(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	struct rlx_k_rnn *a = rlx_lower_args(lo, sizeof(*a));

	a->steps = r->steps;
	a->batch = r->batch;
	a->hidden = r->hidden;
	a->dirs = r->dirs;
	a->clip = r->clip;
	a->cell = r->cell;
	a->input_forget = r->input_forget;
	a->linear_before_reset = r->linear_before_reset;
	a->strict = lo->strict;
	a->reverse[0] = r->direction == RLX_RNN_REVERSE;
	a->reverse[1] = true;
	strides(r, a);
	take_acts(r, a);
	rlx_lower_ref_tmp(lo, &a->x, r->tmp, 0);
	rlx_lower_ref_in(lo, &a->h0, 5, 0);
	if (rlx_lower_in(lo, 4)) {
		a->lens_type = (uint8_t)rlx_lower_in(lo, 4)->dtype;
		rlx_lower_ref_in(lo, &a->lens, 4, 0);
		rlx_lower_ref_status(lo, &a->bad);
		rlx_lower_checked(lo, &a->live, r->batch);
	}
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_out(lo, &a->yh, 1, 0);
	if (r->cell == RLX_K_RNN_LSTM) {
		rlx_lower_ref_in(lo, &a->c0, 6, 0);
		rlx_lower_ref_in(lo, &a->peep, 7, 0);
		rlx_lower_ref_out(lo, &a->yc, 2, 0);
	}
	return a;
}

double rlx_recurrence_work(const struct rlx_recurrence *r)
{
	return (double)(r->steps * r->batch * r->gates * r->hidden) * (double)r->hidden / 4;
}

static enum rlx_status lower(struct rlx_lower *lo, struct rlx_recurrence *r)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0), *w = rlx_lower_in(lo, 1);
	uint64_t rows;

	r->steps = x->dim[r->batch_first ? 1 : 0];
	r->batch = x->dim[r->batch_first ? 0 : 1];
	r->in = x->dim[2];
	r->dirs = w->dim[0];
	r->gates = rlx_k_rnn_gates(r->cell);
	r->hidden = w->dim[1] / r->gates;
	r->size = x->dtype == RLX_F64 ? 8 : 4;
	rows = rlx_times((uint64_t)r->steps, (uint64_t)r->batch);
	r->tmp = rlx_lower_tmp(lo, rlx_times(rows, rlx_times((uint64_t)(r->dirs * r->gates) *
							     r->size, (uint64_t)r->hidden)));
	return lo->ops->recur(lo, r);
}

enum rlx_status rlx_lower_lstm(struct rlx_lower *lo)
{
	const struct rlx_op_lstm *o = lo->args;
	struct rlx_recurrence r = {
		.cell = RLX_K_RNN_LSTM, .direction = o->direction,
		.batch_first = o->batch_first, .input_forget = o->input_forget,
		.clip = o->clip, .acts = o->acts, .alpha = o->act_alpha,
		.beta = o->act_beta, .n_act = 3,
	};

	return lower(lo, &r);
}

enum rlx_status rlx_lower_gru(struct rlx_lower *lo)
{
	const struct rlx_op_gru *o = lo->args;
	struct rlx_recurrence r = {
		.cell = RLX_K_RNN_GRU, .direction = o->direction,
		.batch_first = o->batch_first, .linear_before_reset = o->linear_before_reset,
		.clip = o->clip, .acts = o->acts, .alpha = o->act_alpha,
		.beta = o->act_beta, .n_act = 2,
	};

	return lower(lo, &r);
}

enum rlx_status rlx_lower_rnn(struct rlx_lower *lo)
{
	const struct rlx_op_rnn *o = lo->args;
	struct rlx_recurrence r = {
		.cell = RLX_K_RNN_PLAIN, .direction = o->direction,
		.batch_first = o->batch_first, .clip = o->clip, .acts = o->acts,
		.alpha = o->act_alpha, .beta = o->act_beta, .n_act = 1,
	};

	return lower(lo, &r);
}
