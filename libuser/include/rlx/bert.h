/* SPDX-License-Identifier: MIT */
/*
 * BERT encoders out of a folder with config.json and model.safetensors, as the
 * common model hubs lay them out. The weights are mapped and used in place by
 * every graph built from them; programs compiled from such graphs share what
 * they prepare of them.
 *
 *	rlx_bert_open("minilm", &b, &err);
 *	rlx_bert_graph(b, &(struct rlx_bert_opts){ .size = sizeof(struct rlx_bert_opts),
 *		       .batch = 1, .seq = 64, .pool = RLX_BERT_MEAN, .normalise = true }, &g, &err);
 */
#ifndef RLX_BERT_H
#define RLX_BERT_H

#include "rlx/graph.h"
#include "rlx/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_bert;

/**
 * rlx_bert_open - read the configuration and map the weights.
 * @dir: holds config.json and model.safetensors; they must not be cut short
 *       while the model or a graph of it lives
 *
 * All tensors that a graph needs are looked for here, and their shapes checked.
 * Context: any thread; allocates, sleeps. Ownership: one reference is the
 * caller's. Return: RLX_ENOENT and others for the files; RLX_EPARSE, naming file
 * and byte; RLX_ESHAPE or RLX_ENOENT, naming a tensor; RLX_ENOSUP for a model_type,
 * activation or kind of position that is not BERT's; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_bert_open(const char *dir, struct rlx_bert **out, struct rlx_error *err);

/* Take and drop a reference; graphs hold what they need. NULL is fine. */
RLX_EXPORT struct rlx_bert *rlx_bert_get(struct rlx_bert *b);
RLX_EXPORT void rlx_bert_put(struct rlx_bert *b);

/**
 * struct rlx_bert_info - what config.json said.
 * @hidden, @layers, @heads, @inner: sizes of a layer and how many there are
 * @vocab, @max_seq, @types:         rows of the three embedding tables
 * @weight_bytes:                    of all tensors in use
 */
struct rlx_bert_info {
	int64_t		hidden, layers, heads, inner, vocab, max_seq, types;
	uint64_t	weight_bytes;
};

/* Fill @out. Context: any thread; no allocation. */
RLX_EXPORT void rlx_bert_info(const struct rlx_bert *b, struct rlx_bert_info *out);

/**
 * rlx_bert_weights - the tensors of the file, where graphs have them as constants:
 * rlx_graph_lora() finds weights by their data. Context: any thread; no allocation.
 * Ownership: @b's. Return: NULL for NULL.
 */
RLX_EXPORT const struct rlx_safetensors *rlx_bert_weights(const struct rlx_bert *b);

/**
 * enum rlx_bert_pool - what a graph gives.
 * @RLX_BERT_TOKENS: "last_hidden_state" f32[batch, seq, hidden]
 * @RLX_BERT_MEAN:   "embedding" f32[batch, hidden], the mean over a row's tokens
 * @RLX_BERT_CLS:    "embedding", the first token
 */
enum rlx_bert_pool { RLX_BERT_TOKENS, RLX_BERT_MEAN, RLX_BERT_CLS };

/**
 * struct rlx_bert_opts - zero means the default.
 * @size:      sizeof(struct rlx_bert_opts)
 * @batch:     rows, at least 1
 * @seq:       tokens of a row with padding, 1 to the model's max_seq
 * @pool:      see enum rlx_bert_pool
 * @normalise: scale each embedding to length 1
 * @type_ids:  the graph has an input for token types; else all are 0
 */
struct rlx_bert_opts {
	size_t		   size;
	int64_t		   batch, seq;
	enum rlx_bert_pool pool;
	bool		   normalise, type_ids;
};

/**
 * rlx_bert_graph - the encoder for one shape.
 * @out_g: finished; its inputs are "input_ids" i64[batch, seq], "lengths"
 *         i64[batch] (tokens of a row, 1 to seq; what stands behind them is padding
 *         and does not matter), and "token_type_ids" i64[batch, seq] if asked for
 *
 * Context: any thread, one at a time for one @b; allocates. Ownership: one
 * reference; the weights live as long as any graph or program of them.
 * Return: RLX_EINVAL, RLX_ERANGE (@seq), RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_bert_graph(struct rlx_bert *b, const struct rlx_bert_opts *opts,
	       struct rlx_graph **out_g, struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
