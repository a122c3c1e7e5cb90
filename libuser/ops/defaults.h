/* SPDX-License-Identifier: MIT */
/*
 * Defaults that follow from an op's shapes or kind, where no constant in its row can
 * say them: for the op's own evaluation and for the backends alike.
 */
#ifndef RLX_OPS_DEFAULTS_H
#define RLX_OPS_DEFAULTS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "rlx/attr.h"

/* What scores are multiplied with: attribute scale, or 1 / sqrt(width) if that is 0. */
static inline double op_attention_scale(float scale, int64_t width)
{
	return scale != 0 ? (double)scale : width ? 1 / sqrt((double)width) : 1;
}

/* How many heads k and v have: attribute kv_heads, or as many as q if that is 0. */
static inline int64_t op_kv_heads(int32_t kv_heads, int64_t heads)
{
	return kv_heads ? kv_heads : heads;
}

/* How many elements of a head turn: attribute n_rot, or all of them if that is 0. */
static inline int64_t op_rope_width(int32_t n_rot, int64_t width)
{
	return n_rot ? n_rot : width;
}

/*
 * Activation @at of all directions of a recurrent op that has @n for each: attribute
 * acts, or if that is empty sigmoid for gates and tanh for what they let through.
 */
static inline int64_t op_rnn_act(struct rlx_ints acts, uint32_t n, uint32_t at)
{
	if (acts.n)
		return acts.v[at];
	return n > 1 && at % n == 0 ? RLX_RNN_SIGMOID : RLX_RNN_TANH;
}

/* Parameters of activation @f, number @at of them: attributes, or if those are empty ONNX's. */
static inline double op_rnn_alpha(struct rlx_floats alpha, int64_t f, uint32_t at)
{
	if (alpha.n)
		return alpha.v[at];
	return f == RLX_RNN_LEAKY_RELU ? 0.01 : f == RLX_RNN_HARD_SIGMOID ? 0.2 : 1;
}

static inline double op_rnn_beta(struct rlx_floats beta, int64_t f, uint32_t at)
{
	if (beta.n)
		return beta.v[at];
	return f == RLX_RNN_HARD_SIGMOID ? 0.5 : f == RLX_RNN_SCALED_TANH ? 1 : 0;
}

/* knn ranks all distances, of so many rows at a time, and looks again at the first ones. */
enum {
	OP_KNN_MARGIN	= 8,		/* candidates beyond k: what rounding may misplace */
	OP_KNN_CHUNK	= 1 << 25,	/* distances at a time, at most, unless of one row */
	OP_KNN_TERMS	= 1 << 29,	/* bytes, at most, of terms of y, and of rows at a time */
};

/* Candidates for the @k nearest of @m points, of which one is the row's own if @self. */
static inline int64_t op_knn_kept(int64_t k, int64_t m, bool self)
{
	return k + OP_KNN_MARGIN + self < m ? k + OP_KNN_MARGIN + self : m;
}

#endif
