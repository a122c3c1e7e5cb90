/* SPDX-License-Identifier: MIT */
/*
 * Blocks of models: what decoders and encoders are written of, emitted as ops that passes fuse.
 *
 *	struct rlx_attention_block a = { .size = sizeof(a), .q = { .w = wq }, .k = { .w = wk },
 *					 .v = { .w = wv }, .out = { .w = wo }, .heads = 8,
 *					 .mask = RLX_MASK_CAUSAL };
 *	struct rlx_ffn_block f = { .size = sizeof(f), .gate = { .w = wg, .act = RLX_ACT_SILU },
 *				   .up = { .w = wu }, .down = { .w = wd } };
 *	struct rlx_layer_block l = { .size = sizeof(l), .attention = &a, .ffn = &f,
 *				     .norm1 = { .gamma = g1, .eps = 1e-5f, .kind = RLX_NORM_RMS },
 *				     .norm2 = { .gamma = g2, .eps = 1e-5f, .kind = RLX_NORM_RMS } };
 *
 *	x = rlx_block_layer(g, x, &l);
 *
 * Blocks are no values of their own: a graph has the ops alone, so its text form, gradients and
 * devices know nothing of them. Errors stick to the graph as those of rlx_emit() do, with the
 * file and line of the call; the message begins with the block and the part of it. What an
 * op refuses is refused with its status; besides there is RLX_EINVAL for what is missing or no
 * such number. One thread per graph; allocates. Every function takes a NULL graph.
 */
#ifndef RLX_BLOCKS_H
#define RLX_BLOCKS_H

#include "rlx/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct rlx_linear - the weights of act(x W' + bias).
 * @w:      W: floats [n, k], with @in_out [k, n]; or u8 [n, bytes of k elements], blocks of
 *          @scheme as GGUF has them. Of experts a stack of it, with one more dimension in front
 * @bias:   [n], of experts [experts, n]; may be none
 * @scheme: of u8: RLX_SCHEME_Q4_0 to RLX_SCHEME_NVFP4
 * @act:    of enum rlx_act, but RLX_ACT_CLIP and RLX_ACT_HARD_SIGMOID, which have bounds
 */
struct rlx_linear {
	rlx_value	w, bias;
	int32_t		scheme, act;
	bool		in_out;
};

/**
 * struct rlx_norm - a norm over the last dimension.
 * @gamma, @beta: of its size; may be none
 * @eps:          is added to the variance or mean square
 * @kind:         of enum rlx_norm_kind
 */
struct rlx_norm {
	rlx_value	gamma, beta;
	float		eps;
	int32_t		kind;
};

/**
 * rlx_block_linear - act(x W' + bias + residual).
 * @x:        [.., k]
 * @residual: like the result; may be none
 */
#define rlx_block_linear(g, x, linear, residual) \
	rlx_block_linear_at((g), (x), (linear), (residual), __FILE__, __LINE__)
RLX_EXPORT rlx_value rlx_block_linear_at(struct rlx_graph *g, rlx_value x,
					 const struct rlx_linear *linear, rlx_value residual,
					 const char *file, unsigned int line);

/* rlx_block_norm - the norm of x + @residual, which may be none. */
#define rlx_block_norm(g, x, norm, residual) \
	rlx_block_norm_at((g), (x), (norm), (residual), __FILE__, __LINE__)
RLX_EXPORT rlx_value rlx_block_norm_at(struct rlx_graph *g, rlx_value x,
				       const struct rlx_norm *norm, rlx_value residual,
				       const char *file, unsigned int line);

/**
 * struct rlx_rope_tables - cosines and sines of positions by frequencies.
 * @size:      sizeof(struct rlx_rope_tables)
 * @positions: from 0 on, and @n_rot elements of a head that are rotated, an even number
 * @base:      frequency i is base^(-2 i / n_rot); 0: 10000
 * @scale:     times this; 0: 1
 * @factors:   each frequency is divided by one of these n_rot / 2 numbers above 0; NULL: 1
 */
struct rlx_rope_tables {
	size_t		 size;
	int64_t		 positions, n_rot;
	double		 base, scale;
	const float	*factors;
};

/*
 * rlx_block_rope_tables - two constants, f32[positions, n_rot / 2]; both are none after a failure.
 * RLX_EINVAL, RLX_ENOMEM.
 */
#define rlx_block_rope_tables(g, tables, cos, sin) \
	rlx_block_rope_tables_at((g), (tables), (cos), (sin), __FILE__, __LINE__)
RLX_EXPORT void rlx_block_rope_tables_at(struct rlx_graph *g, const struct rlx_rope_tables *tables,
					 rlx_value *cos, rlx_value *sin, const char *file,
					 unsigned int line);

/**
 * struct rlx_attention_block - projections, rope, attention, projection.
 * @size:     sizeof(struct rlx_attention_block)
 * @q, @k, @v, @out: projections. Without k.w and v.w q has the rows of all three, queries first,
 *            heads all of one size
 * @q_norm, @k_norm: of each head, before it is rotated; none without gamma
 * @heads:    at least 1; @kv_heads: of keys and values; 0: as many
 * @mask, @window, @scale, @bias, @lens: as attention has them
 * @cos, @sin: tables by which queries and keys are rotated; none: they are not
 * @pos:      positions in these tables, as rope has them; none: 0, 1, ..
 * @n_rot, @style: as rope has them
 * @cache:    keys and values of earlier calls and room for more, [2, batch, rows, kv_heads,
 *            d]; x then stands at rows @pos[batch], which is wanted, and on, and sees what is
 *            before. No @mask, @bias or @lens goes with it. May be none
 * @next:     receives the cache with x in it. NULL: @cache is a state (rlx_state()) of the
 *            graph, and this is its next value
 */
struct rlx_attention_block {
	size_t			 size;
	struct rlx_linear	 q, k, v, out;
	struct rlx_norm		 q_norm, k_norm;
	int32_t			 heads, kv_heads, mask, window;
	float			 scale;
	rlx_value		 bias, lens;
	rlx_value		 cos, sin, pos;
	int32_t			 n_rot, style;
	rlx_value		 cache, *next;
};

/* rlx_block_attention - of x[batch, sequence, width], plus @residual, which may be none. */
#define rlx_block_attention(g, x, attention, residual) \
	rlx_block_attention_at((g), (x), (attention), (residual), __FILE__, __LINE__)
RLX_EXPORT rlx_value rlx_block_attention_at(struct rlx_graph *g, rlx_value x,
					    const struct rlx_attention_block *attention,
					    rlx_value residual, const char *file,
					    unsigned int line);

/**
 * struct rlx_ffn_block - down(gate(x) up(x)), or without gate.w down(up(x)).
 * @size: sizeof(struct rlx_ffn_block)
 * @gate: with RLX_ACT_SILU this is SwiGLU
 */
struct rlx_ffn_block {
	size_t			 size;
	struct rlx_linear	 gate, up, down;
};

/* rlx_block_ffn - of x[.., width], plus @residual, which may be none. */
#define rlx_block_ffn(g, x, ffn, residual) \
	rlx_block_ffn_at((g), (x), (ffn), (residual), __FILE__, __LINE__)
RLX_EXPORT rlx_value rlx_block_ffn_at(struct rlx_graph *g, rlx_value x,
				      const struct rlx_ffn_block *ffn, rlx_value residual,
				      const char *file, unsigned int line);

/**
 * struct rlx_moe_block - such networks, of which each row has its own.
 * @size:    sizeof(struct rlx_moe_block)
 * @router:  gives a score for each expert
 * @experts: stacks of their weights
 * @chosen:  how many a row has: those of the highest scores, of equal ones the first; they are
 *           weighed by the softmax of these
 * @choice:  receives which they are, i64[.., chosen]; may be NULL
 */
struct rlx_moe_block {
	size_t			 size;
	struct rlx_linear	 router;
	struct rlx_ffn_block	 experts;
	int64_t			 chosen;
	rlx_value		*choice;
};

/* rlx_block_moe - of x[.., width], plus @residual, which may be none. */
#define rlx_block_moe(g, x, moe, residual) \
	rlx_block_moe_at((g), (x), (moe), (residual), __FILE__, __LINE__)
RLX_EXPORT rlx_value rlx_block_moe_at(struct rlx_graph *g, rlx_value x,
				      const struct rlx_moe_block *moe, rlx_value residual,
				      const char *file, unsigned int line);

/**
 * struct rlx_causal_conv_block - a convolution over time, each channel by itself.
 * @size:  sizeof(struct rlx_causal_conv_block)
 * @w, @bias, @silu: as causal_conv has them
 * @state: the last elements of earlier calls, [batch, taps - 1, channels]; none: zeros
 * @next:  receives what a later call takes for @state. NULL: @state is a state (rlx_state()) of
 *         the graph, and this is its next value
 */
struct rlx_causal_conv_block {
	size_t		 size;
	rlx_value	 w, bias, state, *next;
	bool		 silu;
};

/* rlx_block_causal_conv - of x[batch, sequence, channels]. */
#define rlx_block_causal_conv(g, x, conv) \
	rlx_block_causal_conv_at((g), (x), (conv), __FILE__, __LINE__)
RLX_EXPORT rlx_value rlx_block_causal_conv_at(struct rlx_graph *g, rlx_value x,
					      const struct rlx_causal_conv_block *conv,
					      const char *file, unsigned int line);

/**
 * struct rlx_layer_block - attention and a network, with norms and residuals.
 * @size:      sizeof(struct rlx_layer_block)
 * @attention: of the layer
 * @ffn, @moe: one of them; the other is NULL
 * @norm1, @norm2: of attention and of the network
 * @post_norm: x = norm1(x + attention(x)); norm2(x + ffn(x)), as BERT has it; else
 *             x = x + attention(norm1(x)); x + ffn(norm2(x)), as llama
 */
struct rlx_layer_block {
	size_t					 size;
	const struct rlx_attention_block	*attention;
	const struct rlx_ffn_block		*ffn;
	const struct rlx_moe_block		*moe;
	struct rlx_norm				 norm1, norm2;
	bool					 post_norm;
};

/* rlx_block_layer - of x[batch, sequence, width]. */
#define rlx_block_layer(g, x, layer) \
	rlx_block_layer_at((g), (x), (layer), __FILE__, __LINE__)
RLX_EXPORT rlx_value rlx_block_layer_at(struct rlx_graph *g, rlx_value x,
					const struct rlx_layer_block *layer, const char *file,
					unsigned int line);

#ifdef __cplusplus
}
#endif
#endif
