// SPDX-License-Identifier: MIT
/*
 * LSTM, GRU and RNN: one matrix product projects the inputs of all steps, then the
 * recurrence runs over them.
 */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/common/shape.h"
#include "kernels/gemm.h"
#include "kernels/rnn.h"

/* What the three ops have in common. */
struct recurrence {
	uint8_t		cell;
	int32_t		direction;
	bool		batch_first, input_forget, linear_before_reset;
	float		clip;
	struct rlx_ints	acts;
	struct rlx_floats alpha, beta;
	const uint8_t	*defaults;
	int64_t		n_act;
	/* sizes */
	int64_t		steps, batch, in, hidden, dirs, gates;
};

static bool take_acts(const struct recurrence *r, struct rlx_k_rnn *a)
{
	int64_t d, i;

	if (r->alpha.n || r->beta.n)
		return false;
	for (d = 0; d < r->dirs; d++)
		for (i = 0; i < r->n_act; i++) {
			int64_t act = r->acts.n ? r->acts.v[d * r->n_act + i] : r->defaults[i];

			/* the others take parameters with defaults of their own */
			if (act != RLX_RNN_SIGMOID && act != RLX_RNN_TANH &&
			    act != RLX_RNN_RELU && act != RLX_RNN_SOFTSIGN)
				return false;
			a->act[d][i].fn = (uint8_t)act;
		}
	return true;
}

static bool takes(struct rlx_lower *lo, const struct recurrence *r)
{
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (lower_in(lo, k) && k != 4 && lower_in(lo, k)->dtype != RLX_F32)
			return false;
	if (lower_in(lo, 4) && lower_in(lo, 4)->dtype != RLX_I32 &&
	    lower_in(lo, 4)->dtype != RLX_I64)
		return false;
	/* with the batch outermost, states lie [batch, dirs, hidden] */
	if (r->batch_first && r->dirs > 1 && r->batch > 1)
		return false;
	return lower_const(lo, 1) && lower_const(lo, 2) &&
	       (!lower_in(lo, 3) || lower_const(lo, 3)) &&
	       r->steps && r->batch && r->in && r->hidden;
}

/* W of all directions, packed for the product. */
static char *pack_w(struct rlx_lower *lo, const struct recurrence *r, size_t *out_bytes)
{
	enum rlx_isa isa = cpu_isa(lo);
	size_t n = (size_t)(r->gates * r->hidden), k = (size_t)r->in;
	size_t bytes = (rlx_k_gemm_f32_pack_size(n, k, isa) + 63) / 64 * 64;
	const int64_t key[4] = { (int64_t)n, (int64_t)k, isa, r->dirs };
	bool is_new;
	char *dst = cpu_prepare(lo, 1, "rnn_w", key, bytes * (size_t)r->dirs + 64, &is_new);

	for (int64_t d = 0; dst && is_new && d < r->dirs; d++) {
		struct rlx_k_gemm_pack p = {
			.k = k, .n = n, .ldb = k, .trans = true, .dst = dst + (size_t)d * bytes,
			.b = (const float *)lower_const(lo, 1) + (size_t)d * n * k,
		};

		cpu_kernels(lo)->gemm_f32_pack(&p, 0, rlx_k_gemm_panels(n, isa), NULL);
	}
	*out_bytes = bytes;
	return dst;
}

/* Wb + Rb a gate, but only Wb for the last gate of a GRU that resets late. */
static float *sum_bias(struct rlx_lower *lo, const struct recurrence *r)
{
	const float *b = lower_const(lo, 3);
	int64_t n = r->gates * r->hidden, late = (r->gates - 1) * r->hidden, d, i;
	const int64_t key[4] = { n, r->dirs, r->cell, r->linear_before_reset };
	bool is_new;
	float *dst = cpu_prepare(lo, 3, "rnn_bias", key, (size_t)(n * r->dirs) * 4 + 64, &is_new);

	for (d = 0; dst && is_new && d < r->dirs; d++)
		for (i = 0; i < n; i++)
			dst[d * n + i] = b[2 * d * n + i] +
				(r->linear_before_reset && i >= late ? 0 : b[(2 * d + 1) * n + i]);
	return dst;
}

static enum rlx_status project(struct rlx_lower *lo, const struct recurrence *r,
			       uint64_t tmp)
{
	size_t n = (size_t)(r->gates * r->hidden), w_bytes;
	enum rlx_status st = RLX_OK;
	const float *bias = NULL;
	int64_t d;
	char *w;

	w = pack_w(lo, r, &w_bytes);
	if (w && lower_in(lo, 3))
		bias = sum_bias(lo, r);
	if (!w || (lower_in(lo, 3) && !bias))
		return lo->status;
	for (d = 0; d < r->dirs && !st; d++) {
		struct rlx_k_gemm *g = lower_args(lo, sizeof(*g));

		g->m = (size_t)(r->steps * r->batch);
		g->n = n;
		g->k = g->lda = (size_t)r->in;
		g->ldc = n * (size_t)r->dirs;
		g->b = w + (size_t)d * w_bytes;
		g->b_form = RLX_B_PACKED;
		g->bias = bias ? bias + (size_t)d * n : NULL;
		g->alpha = 1;
		lower_ref_in(lo, &g->a, 0, 0);
		lower_ref_tmp(lo, &g->c, tmp + (uint64_t)d * n * 4);
		st = lower_call(lo, RLX_KERNEL_gemm_f32, rlx_k_gemm_units(g, cpu_isa(lo)),
				(double)g->m * (double)n * (double)g->k / 4,
				rlx_k_gemm_scratch(g, cpu_isa(lo)));
	}
	return st;
}

static float *pack_r(struct rlx_lower *lo, const struct recurrence *r)
{
	size_t floats = rlx_k_rnn_packed(r->cell, r->hidden);
	const int64_t key[4] = { r->cell, r->hidden, r->dirs, 0 };
	struct rlx_k_rnn_pack p = {
		.r = lower_const(lo, 2), .dirs = r->dirs, .hidden = r->hidden, .cell = r->cell,
	};
	bool is_new;

	p.dst = cpu_prepare(lo, 2, "rnn_r", key, floats * (size_t)r->dirs * 4 + 64, &is_new);
	if (p.dst && is_new)
		cpu_kernels(lo)->rnn_pack(&p, 0, (size_t)r->dirs, NULL);
	return p.dst;
}

static void strides(const struct recurrence *r, struct rlx_k_rnn *a)
{
	int64_t n = r->gates * r->hidden, row = n * r->dirs, h = r->hidden;

	a->x_stride[0] = r->batch_first ? row : row * r->batch;
	a->x_stride[1] = r->batch_first ? row * r->steps : row;
	a->x_stride[2] = n;
	a->y_stride[0] = r->batch_first ? r->dirs * h : r->dirs * r->batch * h;
	a->y_stride[1] = r->batch_first ? r->steps * r->dirs * h : h;
	a->y_stride[2] = r->batch_first ? h : r->batch * h;
}

static enum rlx_status recur(struct rlx_lower *lo, const struct recurrence *r,
			     uint64_t tmp)
{
	float *packed = pack_r(lo, r);
	struct rlx_k_rnn *a = lower_args(lo, sizeof(*a));
	int64_t n = r->gates * r->hidden, d;
	const float *b = lower_const(lo, 3);
	float *rb = NULL;
	bool is_new;

	if (!packed)
		return lo->status;
	if (r->linear_before_reset && b) {
		const int64_t key[4] = { n, r->dirs, 0, 0 };

		rb = cpu_prepare(lo, 3, "rnn_rb", key, (size_t)(r->hidden * r->dirs) * 4 + 64,
				 &is_new);
		for (d = 0; rb && is_new && d < r->dirs; d++)
			memcpy(rb + d * r->hidden, b + (2 * d + 2) * n - r->hidden,
			       (size_t)r->hidden * 4);
		if (!rb)
			return lo->status;
	}
	a->r = packed;
	a->rb = rb;
	a->steps = r->steps;
	a->batch = r->batch;
	a->hidden = r->hidden;
	a->dirs = r->dirs;
	a->clip = r->clip;
	a->cell = r->cell;
	a->input_forget = r->input_forget;
	a->linear_before_reset = r->linear_before_reset;
	a->reverse[0] = r->direction == RLX_RNN_REVERSE;
	a->reverse[1] = true;
	strides(r, a);
	take_acts(r, a);
	lower_ref_tmp(lo, &a->x, tmp);
	lower_ref_in(lo, &a->h0, 5, 0);
	if (lower_in(lo, 4)) {
		a->lens_type = (uint8_t)lower_in(lo, 4)->dtype;
		lower_ref_in(lo, &a->lens, 4, 0);
	}
	lower_ref_out(lo, &a->y, 0, 0);
	lower_ref_out(lo, &a->yh, 1, 0);
	if (r->cell == RLX_K_RNN_LSTM) {
		lower_ref_in(lo, &a->c0, 6, 0);
		lower_ref_in(lo, &a->peep, 7, 0);
		lower_ref_out(lo, &a->yc, 2, 0);
	}
	return lower_call(lo, RLX_KERNEL_rnn, rlx_k_rnn_units(a),
			  (double)(r->steps * r->batch * n) * (double)r->hidden / 4,
			  rlx_k_rnn_scratch(a));
}

static enum rlx_status lower(struct rlx_lower *lo, struct recurrence *r)
{
	const struct rlx_type *x = lower_in(lo, 0), *w = lower_in(lo, 1);
	struct rlx_k_rnn probe = { 0 };
	enum rlx_status st;
	uint64_t tmp;

	r->steps = x->dim[r->batch_first ? 1 : 0];
	r->batch = x->dim[r->batch_first ? 0 : 1];
	r->in = x->dim[2];
	r->dirs = w->dim[0];
	r->gates = rlx_k_rnn_gates(r->cell);
	r->hidden = w->dim[1] / r->gates;
	if (!takes(lo, r) || !take_acts(r, &probe))
		return lower_no(lo, "no kernel for these dtypes, layout or activations");
	tmp = lower_tmp(lo, (uint64_t)(r->steps * r->batch * r->dirs * r->gates * r->hidden) * 4);
	st = project(lo, r, tmp);
	return st ? st : recur(lo, r, tmp);
}

enum rlx_status cpu_lower_lstm(struct rlx_lower *lo)
{
	static const uint8_t defaults[] = { RLX_RNN_SIGMOID, RLX_RNN_TANH, RLX_RNN_TANH };
	const struct rlx_op_lstm *o = lo->args;
	struct recurrence r = {
		.cell = RLX_K_RNN_LSTM, .direction = o->direction,
		.batch_first = o->batch_first, .input_forget = o->input_forget,
		.clip = o->clip, .acts = o->acts, .alpha = o->act_alpha,
		.beta = o->act_beta, .defaults = defaults, .n_act = 3,
	};

	return lower(lo, &r);
}

enum rlx_status cpu_lower_gru(struct rlx_lower *lo)
{
	static const uint8_t defaults[] = { RLX_RNN_SIGMOID, RLX_RNN_TANH };
	const struct rlx_op_gru *o = lo->args;
	struct recurrence r = {
		.cell = RLX_K_RNN_GRU, .direction = o->direction,
		.batch_first = o->batch_first, .linear_before_reset = o->linear_before_reset,
		.clip = o->clip, .acts = o->acts, .alpha = o->act_alpha,
		.beta = o->act_beta, .defaults = defaults, .n_act = 2,
	};

	return lower(lo, &r);
}

enum rlx_status cpu_lower_rnn(struct rlx_lower *lo)
{
	static const uint8_t defaults[] = { RLX_RNN_TANH };
	const struct rlx_op_rnn *o = lo->args;
	struct recurrence r = {
		.cell = RLX_K_RNN_PLAIN, .direction = o->direction,
		.batch_first = o->batch_first, .clip = o->clip, .acts = o->acts,
		.alpha = o->act_alpha, .beta = o->act_beta, .defaults = defaults, .n_act = 1,
	};

	return lower(lo, &r);
}
