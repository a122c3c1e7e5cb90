// SPDX-License-Identifier: MIT
/* Ops of com.microsoft that optimised exports of transformers contain. */
#include "io/onnx/handlers.h"

/* Optional x + y. */
static rlx_value plus(struct onnx_op *q, rlx_value x, rlx_value y)
{
	return y.id ? E(q, add, .a = x, .b = y) : x;
}

/* Gelu and FastGelu with an optional bias; the row's argument: tanh form. */
enum rlx_status onnx_ms_gelu(struct onnx_op *q)
{
	rlx_value x = plus(q, onnx_in(q, 0), onnx_in(q, 1));

	onnx_out(q, 0, q->row->arg ? E(q, gelu_tanh, .x = x) :
		 E(q, gelu, .x = x));
	return RLX_OK;
}

/*
 * SkipLayerNormalization: norm(input + skip + bias); the row's argument: RMS.
 * Inputs: input, skip, gamma, [beta,] bias. The sum is the fourth output.
 */
enum rlx_status onnx_ms_skip_norm(struct onnx_op *q)
{
	bool rms = q->row->arg;
	float eps = (float)onnx_attr_f(q, "epsilon", 1e-12f);
	rlx_value s = plus(q, onnx_in(q, 0), onnx_in(q, 1));

	s = plus(q, s, onnx_in(q, rms ? 3 : 4));
	if (rms)
		onnx_out(q, 0, E(q, rms_norm, .x = s, .gamma = onnx_in(q, 2),
				 .axis = -1, .eps = eps));
	else
		onnx_out(q, 0, E(q, layer_norm, .x = s, .gamma = onnx_in(q, 2),
				 .beta = onnx_in(q, 3), .axis = -1,
				 .eps = eps));
	onnx_out(q, 3, s);
	return RLX_OK;
}

static rlx_value swap_last(struct onnx_op *q, rlx_value x)
{
	struct rlx_type t = onnx_type(q, x);
	int64_t perm[RLX_MAX_RANK];
	uint32_t i;

	if (t.rank < 2)
		return x;
	for (i = 0; i < t.rank; i++)
		perm[i] = i;
	perm[t.rank - 1] = t.rank - 2;
	perm[t.rank - 2] = t.rank - 1;
	return E(q, transpose, .x = x, .perm = { perm, t.rank });
}

enum rlx_status onnx_ms_fused_matmul(struct onnx_op *q)
{
	rlx_value a = onnx_in(q, 0), b = onnx_in(q, 1);
	double alpha = onnx_attr_f(q, "alpha", 1);

	if (onnx_attr_i(q, "transBatchA", 0) ||
	    onnx_attr_i(q, "transBatchB", 0))
		return op_err(q, RLX_ENOSUP, "attribute transBatchA or "
			      "transBatchB is not supported");
	if (onnx_attr_i(q, "transA", 0))
		a = swap_last(q, a);
	if (onnx_attr_i(q, "transB", 0))
		b = swap_last(q, b);
	onnx_out(q, 0, onnx_scale(q, onnx_matmul_of(q, a, b), alpha));
	return RLX_OK;
}

/* Additive f32 mask, or lengths, from the forms the mask input may have. */
static enum rlx_status mask_of(struct onnx_op *q, uint32_t i, rlx_value *bias,
			       rlx_value *lens)
{
	double low = onnx_attr_f(q, "mask_filter_value", -10000);
	rlx_value m = onnx_in(q, i);
	struct rlx_type t = onnx_type(q, m);

	if (!m.id)
		return RLX_OK;
	if (t.rank == 1) {
		*lens = m;
		return RLX_OK;
	}
	if (t.rank != 2)
		return op_err(q, RLX_ENOSUP, "a mask of rank %u is not "
			      "supported", t.rank);
	/* 1 where a key is seen: 0 or the filter value, as the op says. */
	m = E(q, cast, .x = m, .to = RLX_F32);
	m = E(q, sub, .a = onnx_num(q, RLX_F32, 1), .b = m);
	m = onnx_scale(q, m, low);
	*bias = E(q, reshape, .x = m, .shape = RLX_INTS(t.dim[0], 1, 1,
							t.dim[1]));
	return RLX_OK;
}

/* Attention: x [B,S,I] W [I,3H] bias [3H] mask; no past, no relative bias. */
enum rlx_status onnx_ms_attention(struct onnx_op *q)
{
	int64_t heads = onnx_attr_i32(q, "num_heads", 0), h;
	rlx_value x, y, bias = RLX_NONE, lens = RLX_NONE;
	enum rlx_status st;
	uint32_t i;

	for (i = 4; i < q->n_in; i++)
		if (q->in[i])
			return op_err(q, RLX_ENOSUP, "input %u is not "
				      "supported", i);
	if (onnx_has(q, "qkv_hidden_sizes") || q->n_out > 1)
		return op_err(q, RLX_ENOSUP, "attribute qkv_hidden_sizes or "
			      "output present is not supported");
	st = mask_of(q, 3, &bias, &lens);
	if (st)
		return st;
	x = onnx_matmul_of(q, onnx_in(q, 0), onnx_in(q, 1));
	x = plus(q, x, onnx_in(q, 2));
	h = onnx_type(q, x).dim[2] / 3;
	y = E(q, attention, .q = onnx_cut(q, x, 2, 0, h),
	      .k = onnx_cut(q, x, 2, h, 2 * h),
	      .v = onnx_cut(q, x, 2, 2 * h, 3 * h), .bias = bias, .lens = lens,
	      .heads = (int32_t)heads, .layout = RLX_BSHD,
	      .mask = onnx_attr_i(q, "unidirectional", 0) ? RLX_MASK_CAUSAL :
	      RLX_MASK_NONE, .scale = (float)onnx_attr_f(q, "scale", 0));
	onnx_out(q, 0, y);
	return RLX_OK;
}

/* MultiHeadAttention with separate 3-D query, key and value. */
enum rlx_status onnx_ms_mha(struct onnx_op *q)
{
	int64_t heads = onnx_attr_i32(q, "num_heads", 0), h, hv;
	rlx_value k[3], bias = RLX_NONE, lens = RLX_NONE, b = onnx_in(q, 3);
	enum rlx_status st;
	uint32_t i;

	for (i = 0; i < 3; i++) {
		k[i] = onnx_in(q, i);
		if (onnx_type(q, k[i]).rank != 3)
			return op_err(q, RLX_ENOSUP, "packed inputs are not "
				      "supported");
	}
	for (i = 6; i < q->n_in; i++)
		if (q->in[i])
			return op_err(q, RLX_ENOSUP, "input %u is not "
				      "supported", i);
	st = mask_of(q, 4, &bias, &lens);
	if (st)
		return st;
	if (bias.id && onnx_given(q, 5))
		bias = plus(q, bias, onnx_in(q, 5));
	else if (onnx_given(q, 5))
		bias = onnx_in(q, 5);
	h = onnx_type(q, k[0]).dim[2];
	hv = onnx_type(q, k[2]).dim[2];
	if (b.id) {
		k[0] = plus(q, k[0], onnx_cut(q, b, 0, 0, h));
		k[1] = plus(q, k[1], onnx_cut(q, b, 0, h, 2 * h));
		k[2] = plus(q, k[2], onnx_cut(q, b, 0, 2 * h, 2 * h + hv));
	}
	onnx_out(q, 0, E(q, attention, .q = k[0], .k = k[1], .v = k[2],
		.bias = bias, .lens = lens, .heads = (int32_t)heads,
		.layout = RLX_BSHD,
		.mask = onnx_attr_i(q, "unidirectional", 0) ? RLX_MASK_CAUSAL :
		RLX_MASK_NONE, .scale = (float)onnx_attr_f(q, "scale", 0)));
	return RLX_OK;
}

/* ids, segment ids, word, position, segment tables, gamma, beta, mask, pos. */
enum rlx_status onnx_ms_embed_norm(struct onnx_op *q)
{
	float eps = (float)onnx_attr_f(q, "epsilon", 1e-12f);
	rlx_value ids = onnx_in(q, 0), seg = onnx_in(q, 1), pos, s;
	struct rlx_type t = onnx_type(q, ids);

	if (t.rank != 2)
		return op_err(q, RLX_ESHAPE, "ids of rank %u", t.rank);
	pos = onnx_in(q, 8);
	if (!pos.id)
		pos = E(q, iota, .type = rlx_type(RLX_I64, 1, t.dim[1]),
			.axis = 1, .start = 0, .step = 1);
	s = E(q, add, .a = E(q, gather, .x = onnx_in(q, 2), .indices = ids,
			     .axis = 0),
	      .b = E(q, gather, .x = onnx_in(q, 3), .indices = pos, .axis = 0));
	if (seg.id)
		s = plus(q, s, E(q, gather, .x = onnx_in(q, 4), .indices = seg,
				 .axis = 0));
	else if (onnx_given(q, 4))	/* all are of the first segment */
		s = plus(q, s, onnx_cut(q, onnx_in(q, 4), 0, 0, 1));
	onnx_out(q, 0, E(q, layer_norm, .x = s, .gamma = onnx_in(q, 5),
			 .beta = onnx_in(q, 6), .axis = -1, .eps = eps));
	/* The mask index: how many tokens of each row are real. */
	if (onnx_given(q, 7))
		onnx_out(q, 1, E(q, cast, .x = onnx_reduce(q, onnx_in(q, 7),
			 RLX_INTS(1), RLX_REDUCE_SUM, false), .to = RLX_I32));
	else
		onnx_out(q, 1, E(q, expand, .x = onnx_num(q, RLX_I32, 0),
				 .shape = RLX_INTS(t.dim[0])));
	onnx_out(q, 2, s);
	return RLX_OK;
}
