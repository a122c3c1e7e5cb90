/* SPDX-License-Identifier: MIT */
/* A decoder of bytes that is trained: pre-norm blocks, learned positions. */
#ifndef TRAIN_DECODER_H
#define TRAIN_DECODER_H

#include "selftests/lib/train_rig.h"

struct train_decoder {
	int64_t	layers, dim, heads, context, batch;
	int64_t	vocab;		/* 0: 256 */
	bool	tied;		/* the embedding is the head, too (GPT-2), else it has its own */
};

static inline rlx_value train_dense(struct train_rig *r, const char *name, rlx_value x,
				    int64_t in, int64_t out, double std)
{
	rlx_vars_enter(r->v, name);
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "weight",
		     rlx_type(RLX_F32, in, out), RLX_NORMAL(std), RLX_VAR_MATRIX));
	x = rlx_emit(r->g, add, .a = x, .b = rlx_var(r->g, r->v, "bias",
		     rlx_type(RLX_F32, out), RLX_ZEROS, RLX_VAR_NO_DECAY));
	rlx_vars_leave(r->v);
	return x;
}

static inline rlx_value train_norm(struct train_rig *r, const char *name, rlx_value x, int64_t d)
{
	rlx_vars_enter(r->v, name);
	x = rlx_emit(r->g, layer_norm, .x = x, .axis = -1, .eps = 1e-5f,
		     .gamma = rlx_var(r->g, r->v, "weight", rlx_type(RLX_F32, d), RLX_ONES,
				      RLX_VAR_NO_DECAY),
		     .beta = rlx_var(r->g, r->v, "bias", rlx_type(RLX_F32, d), RLX_ZEROS,
				     RLX_VAR_NO_DECAY));
	rlx_vars_leave(r->v);
	return x;
}

static inline rlx_value train_block(struct train_rig *r, const struct train_decoder *z,
				    rlx_value x)
{
	double std = 0.02 / sqrt(2 * (double)z->layers);
	rlx_value p[3], h;

	h = train_dense(r, "qkv", train_norm(r, "ln1", x, z->dim), z->dim, 3 * z->dim, 0.02);
	rlx_split(r->g, h, -1, 3, p);
	h = rlx_emit(r->g, attention, .q = p[0], .k = p[1], .v = p[2],
		     .heads = (int32_t)z->heads, .mask = RLX_MASK_CAUSAL);
	x = rlx_emit(r->g, add, .a = x, .b = train_dense(r, "proj", h, z->dim, z->dim, std));
	h = train_dense(r, "fc", train_norm(r, "ln2", x, z->dim), z->dim, 4 * z->dim, 0.02);
	h = rlx_emit(r->g, gelu_tanh, .x = h);
	return rlx_emit(r->g, add, .a = x, .b = train_dense(r, "out", h, 4 * z->dim, z->dim, std));
}

/* The loss of @x and of what follows each, @y, i32[batch, context]. */
static inline rlx_value train_decoder_loss_of(struct train_rig *r, const struct train_decoder *z,
					      rlx_value x, rlx_value y)
{
	int64_t vocab = z->vocab ? z->vocab : 256;
	rlx_value tok, head;
	int l;

	tok = rlx_var(r->g, r->v, "tok", rlx_type(RLX_F32, vocab, z->dim), RLX_NORMAL(0.02), 0);
	x = rlx_emit(r->g, gather, .indices = x, .x = tok);
	x = rlx_emit(r->g, add, .a = x, .b = rlx_var(r->g, r->v, "pos", rlx_type(RLX_F32,
		     z->context, z->dim), RLX_NORMAL(0.02), 0));
	for (l = 0; l < z->layers; l++) {
		rlx_vars_enter(r->v, rlx_name("blocks.%d", l));
		x = train_block(r, z, x);
		rlx_vars_leave(r->v);
	}
	head = z->tied ? rlx_emit(r->g, transpose, .x = tok, .perm = RLX_INTS(1, 0)) :
	       rlx_var(r->g, r->v, "head", rlx_type(RLX_F32, z->dim, vocab), RLX_NORMAL(0.02), 0);
	return rlx_loss_linear_ce(r->g, train_norm(r, "ln", x, z->dim), head, y, NULL);
}

/* The loss of inputs "x" and "y". */
static inline rlx_value train_decoder_loss(struct train_rig *r, const struct train_decoder *z)
{
	const struct rlx_type t = rlx_type(RLX_I32, z->batch, z->context);
	rlx_value x = rlx_input(r->g, "x", t);

	return train_decoder_loss_of(r, z, x, rlx_input(r->g, "y", t));
}

/* Byte @at of a text that follows a rule. */
static inline int32_t train_decoder_byte(int64_t at)
{
	return (int32_t)((at * at / 7 + 3 * at) % 61 + 32);
}

/* Bytes that follow a rule, other ones for each @step. */
static inline void train_decoder_batch(struct train_rig *r, const struct train_decoder *z,
				       int64_t step)
{
	int32_t *x = train_at(r, RLX_IO_INPUT, "x"), *y = train_at(r, RLX_IO_INPUT, "y");
	int64_t b, t, at;
	int32_t c;

	for (b = 0; b < z->batch; b++)
		for (t = 0; t <= z->context; t++) {
			at = t + 97 * (b + z->batch * step);
			c = train_decoder_byte(at);
			if (t < z->context)
				x[b * z->context + t] = c;
			if (t)
				y[b * z->context + t - 1] = c;
		}
}

#endif
