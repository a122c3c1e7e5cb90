/* SPDX-License-Identifier: MIT */
/* Decoders of the llama family, and gpt2, out of .gguf files. */
#ifndef RLX_MODEL_LLAMA_H
#define RLX_MODEL_LLAMA_H

#include "rlx/gguf.h"
#include "rlx/graph.h"

struct llama;

/*
 * Map and check a file: every key and tensor that graphs need is there, in shapes that fit one
 * another, and no tensor is there that they would not use. Return: what rlx_gguf_open() returns;
 * RLX_ENOSUP, naming it, for an architecture, key or format that is not built; RLX_ENOENT,
 * RLX_ESHAPE, RLX_ERANGE and RLX_EPARSE, naming tensor or key; RLX_ENOMEM.
 */
enum rlx_status llama_open(const char *path, struct llama **out, struct rlx_error *err);
void llama_put(struct llama *m);

const struct rlx_gguf *llama_gguf(const struct llama *m);
int64_t llama_vocab(const struct llama *m);

/* A graph from "input_ids" i64[batch, seq] to "logits" f32[batch, seq, vocab]. [any] */
enum rlx_status llama_graph(struct llama *m, int64_t batch, int64_t seq, struct rlx_graph **out,
			    struct rlx_error *err);

#endif
