/* SPDX-License-Identifier: MIT */
/*
 * One step of a decoder of llama's shape as a graph: of a token at a position to the
 * next token, with the caches as inputs that outputs replace.
 */
#ifndef RLX_SELFTESTS_DECODER_H
#define RLX_SELFTESTS_DECODER_H

#include "rlx/graph.h"
#include "selftests/lib/rlx_test.h"

struct decoder_size {
	int64_t	layers, hidden, heads, kv_heads, width, inner, vocab, rows;
};

/* "name" of layer @l: good until the next call. */
static inline const char *decoder_name(const char *name, int64_t l)
{
	static char s[48];

	snprintf(s, sizeof(s), "%s.%lld", name, (long long)l);
	return s;
}

static inline rlx_value decoder_table(struct rlx_graph *g, const struct decoder_size *z,
				      double (*fn)(double))
{
	int64_t half = z->width / 2, p, i;
	float *t = malloc((size_t)(z->rows * half) * sizeof(*t));
	rlx_value v;

	CHECK(t);
	for (p = 0; p < z->rows; p++)
		for (i = 0; i < half; i++)
			t[p * half + i] = (float)fn((double)p * pow(500000, -(double)i /
								     (double)half));
	v = rlx_constant(g, rlx_type(RLX_F32, z->rows, half), t);
	free(t);
	return v;
}

static inline rlx_value decoder_layer(struct rlx_graph *g, const struct decoder_size *z,
				      enum rlx_dtype dt, int64_t l, rlx_value x,
				      const rlx_value *at)
{
	int64_t q = z->heads * z->width, all = q + 2 * z->kv_heads * z->width;
	rlx_value y, w, gamma;

	w = rlx_param(g, decoder_name("qkv", l), rlx_type(dt, all, z->hidden));
	gamma = rlx_param(g, decoder_name("norm", l), rlx_type(dt, z->hidden));
	y = rlx_emit(g, fused_norm_matmul, .x = x, .w = w, .gamma = gamma, .eps = 1e-5f,
		     .trans_w = true);
	y = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(1, 1, all));
	w = rlx_input(g, decoder_name("cache", l),
		      rlx_type(dt, 2, 1, z->rows, z->kv_heads, z->width));
	y = rlx_emit(g, cached_attention, .cache = w, .x = y, .pos = at[0], .cos = at[1],
		     .sin = at[2], .heads = (int32_t)z->heads, .kv_heads = (int32_t)z->kv_heads);
	rlx_output(g, decoder_name("cached", l), y);
	y = rlx_emit(g, reshape, .x = rlx_out(g, y, 1), .shape = RLX_INTS(1, q));
	w = rlx_param(g, decoder_name("out", l), rlx_type(dt, z->hidden, q));
	x = rlx_emit(g, fused_matmul, .a = y, .b = w, .residual = x, .trans_b = true);
	w = rlx_param(g, decoder_name("up", l), rlx_type(dt, 2 * z->inner, z->hidden));
	gamma = rlx_param(g, decoder_name("norm2", l), rlx_type(dt, z->hidden));
	y = rlx_emit(g, fused_norm_matmul, .x = x, .w = w, .gamma = gamma, .eps = 1e-5f,
		     .trans_w = true, .gate = RLX_SWIGLU_FIRST);
	w = rlx_param(g, decoder_name("down", l), rlx_type(dt, z->hidden, z->inner));
	return rlx_emit(g, fused_matmul, .a = y, .b = w, .residual = x, .trans_b = true);
}

/*
 * Inputs "token", "pos" (i64 [1]) and "cache.<l>"; outputs "next" (i64 [1]), "logits" in
 * f32, "cached.<l>". Finished.
 */
static inline struct rlx_graph *decoder_graph(const struct decoder_size *z, enum rlx_dtype dt)
{
	struct rlx_graph *g = rlx_graph_new("decoder");
	rlx_value token = rlx_input(g, "token", rlx_type(RLX_I64, 1)), x, w, gamma, at[3];
	int64_t l;

	at[0] = rlx_input(g, "pos", rlx_type(RLX_I64, 1));
	at[1] = decoder_table(g, z, cos);
	at[2] = decoder_table(g, z, sin);
	w = rlx_param(g, "words", rlx_type(dt, z->vocab, z->hidden));
	x = rlx_emit(g, gather, .x = w, .indices = token);
	for (l = 0; l < z->layers; l++)
		x = decoder_layer(g, z, dt, l, x, at);
	w = rlx_param(g, "head", rlx_type(dt, z->vocab, z->hidden));
	gamma = rlx_param(g, "norm", rlx_type(dt, z->hidden));
	x = rlx_emit(g, fused_norm_matmul, .x = x, .w = w, .gamma = gamma, .eps = 1e-5f,
		     .trans_w = true);
	rlx_output(g, "next", rlx_emit(g, arg_reduce, .x = x, .axis = -1));
	rlx_output(g, "logits", rlx_emit(g, cast, .x = x, .to = RLX_F32));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

#endif
