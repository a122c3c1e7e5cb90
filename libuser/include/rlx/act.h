/* SPDX-License-Identifier: MIT */
/* Activations, for programs and for kernels, those of GPUs too: nothing but their numbers. */
#ifndef RLX_ACT_H
#define RLX_ACT_H

/* Activations a fused op may apply; CLIP uses act_lo and act_hi. */
enum rlx_act {
	RLX_ACT_NONE,		/* x */
	RLX_ACT_RELU,		/* max(x, 0) */
	RLX_ACT_GELU,		/* x/2 (1 + erf(x / sqrt 2)) */
	RLX_ACT_GELU_TANH,	/* the tanh approximation */
	RLX_ACT_SILU,		/* x sigmoid(x) */
	RLX_ACT_SIGMOID,
	RLX_ACT_TANH,
	RLX_ACT_HARD_SWISH,	/* x clip(x/6 + 1/2, 0, 1) */
	RLX_ACT_HARD_SIGMOID,	/* clip(act_lo x + act_hi, 0, 1) */
	RLX_ACT_CLIP,		/* min(max(x, act_lo), act_hi) */
	RLX_ACT_COUNT,
};

/* Activations of the recurrent ops, ONNX's, with its alpha (a) and beta (b). */
enum rlx_rnn_act {
	RLX_RNN_SIGMOID,
	RLX_RNN_TANH,
	RLX_RNN_RELU,
	RLX_RNN_AFFINE,			/* a x + b */
	RLX_RNN_LEAKY_RELU,		/* x < 0 ? a x : x */
	RLX_RNN_THRESHOLDED_RELU,	/* x >= a ? x : 0 */
	RLX_RNN_SCALED_TANH,		/* a tanh(b x) */
	RLX_RNN_HARD_SIGMOID,		/* clip(a x + b, 0, 1) */
	RLX_RNN_ELU,			/* x < 0 ? a (e^x - 1) : x */
	RLX_RNN_SOFTSIGN,		/* x / (1 + |x|) */
	RLX_RNN_SOFTPLUS,		/* log(1 + e^x) */
};

#endif
