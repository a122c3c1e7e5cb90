// SPDX-License-Identifier: MIT
/* Attention of the standard domain. */
#include <math.h>

#include "io/onnx/handlers.h"

/* [B, S, H D] -> [B, H, S, D] */
static rlx_value split_heads(struct onnx_op *q, rlx_value x, int64_t heads)
{
	struct rlx_type t = onnx_type(q, x);

	if (t.rank != 3 || heads < 1)
		return x;
	x = E(q, reshape, .x = x, .shape = RLX_INTS(t.dim[0], t.dim[1], heads,
						    t.dim[2] / heads));
	return E(q, transpose, .x = x, .perm = RLX_INTS(0, 2, 1, 3));
}

static rlx_value join_heads(struct onnx_op *q, rlx_value x)
{
	struct rlx_type t = onnx_type(q, x);

	x = E(q, transpose, .x = x, .perm = RLX_INTS(0, 2, 1, 3));
	return E(q, reshape, .x = x, .shape = RLX_INTS(t.dim[0], t.dim[2],
						       t.dim[1] * t.dim[3]));
}

/* 0, 1, .. along one of four axes */
static rlx_value steps(struct onnx_op *q, int64_t n, int32_t axis)
{
	return E(q, iota, .type = axis == 2 ? rlx_type(RLX_I64, 1, 1, n, 1) :
		 rlx_type(RLX_I64, 1, 1, 1, n), .axis = axis, .start = 0,
		 .step = 1);
}

struct heads {
	rlx_value	q, k, v;	/* [B, H, S, D] */
	rlx_value	nonpad;		/* valid keys of each batch, or none */
	int64_t		n_q, n_k;	/* rows */
	int64_t		past;		/* keys before the first query */
	int64_t		left, right;	/* window, -1: open */
	bool		causal;
};

static rlx_value both(struct onnx_op *q, rlx_value a, rlx_value b)
{
	return a.id ? E(q, bit_and, .a = a, .b = b) : b;
}

/* Where query i, at position i + offset, may see key j; none: everywhere. */
static rlx_value visible(struct onnx_op *q, const struct heads *h)
{
	rlx_value pos = steps(q, h->n_q, 2), key = steps(q, h->n_k, 3), n;
	rlx_value see = RLX_NONE;

	if (h->nonpad.id) {
		n = E(q, cast, .x = h->nonpad, .to = RLX_I64);
		n = E(q, reshape, .x = n, .shape = RLX_INTS(-1, 1, 1, 1));
		see = E(q, lt, .a = key, .b = n);
		pos = E(q, add, .a = pos, .b = E(q, sub, .a = n,
			.b = onnx_num(q, RLX_I64, (double)h->n_q)));
	} else {
		pos = onnx_shift(q, pos, (double)h->past);
	}
	if (h->causal)
		see = both(q, see, E(q, le, .a = key, .b = pos));
	if (h->left >= 0)
		see = both(q, see, E(q, ge, .a = key, .b =
				     onnx_shift(q, pos, (double)-h->left)));
	if (h->right >= 0)
		see = both(q, see, E(q, le, .a = key, .b =
				     onnx_shift(q, pos, (double)h->right)));
	return see;
}

/* The model's mask, made as wide as the keys, and what is visible, as one. */
static rlx_value bias_of(struct onnx_op *q, rlx_value mask,
			 const struct heads *h)
{
	struct rlx_type t = onnx_type(q, mask);
	rlx_value see = visible(q, h), low = RLX_NONE;
	int64_t pads[2 * RLX_MAX_RANK] = { 0 };

	if (!mask.id)
		return see;
	if (t.dtype != RLX_BOOL)
		low = onnx_num(q, t.dtype, -(double)INFINITY);
	if (t.rank && t.dim[t.rank - 1] < h->n_k) {
		pads[2 * t.rank - 1] = h->n_k - t.dim[t.rank - 1];
		mask = E(q, pad, .x = mask, .value = low,
			 .pads = { pads, 2 * t.rank });
	}
	if (!see.id)
		return mask;
	if (t.dtype == RLX_BOOL)
		return both(q, mask, see);
	return E(q, where, .cond = see, .a = mask, .b = low);
}

/* Key heads repeated for the query heads that share them. */
static rlx_value spread(struct onnx_op *q, rlx_value k, int64_t heads)
{
	struct rlx_type t = onnx_type(q, k);
	int64_t n = t.dim[1] ? heads / t.dim[1] : 1;

	if (n <= 1)
		return k;
	k = E(q, reshape, .x = k, .shape = RLX_INTS(t.dim[0], t.dim[1], 1,
						    t.dim[2], t.dim[3]));
	k = E(q, expand, .x = k, .shape = RLX_INTS(t.dim[0], t.dim[1], n,
						   t.dim[2], t.dim[3]));
	return E(q, reshape, .x = k, .shape = RLX_INTS(t.dim[0], heads,
						       t.dim[2], t.dim[3]));
}

/*
 * The fourth output: the scores as they are (0), after the softcap (1), with
 * the bias added (2), or after softmax (3).
 */
static rlx_value scores(struct onnx_op *q, const struct heads *h,
			rlx_value bias, double scale, double cap)
{
	int64_t mode = onnx_attr_i(q, "qk_matmul_output_mode", 0);
	struct rlx_type t = onnx_type(q, h->q);
	rlx_value s, k = spread(q, h->k, t.dim[1]), low, top, none;

	k = E(q, transpose, .x = k, .perm = RLX_INTS(0, 1, 3, 2));
	s = onnx_scale(q, E(q, matmul, .a = h->q, .b = k), scale);
	if (mode && cap > 0)
		s = onnx_scale(q, E(q, tanh, .x = onnx_scale(q, s, 1 / cap)),
			       cap);
	if (mode < 2)
		return s;
	low = onnx_num(q, t.dtype, -(double)INFINITY);
	if (bias.id && onnx_type(q, bias).dtype == RLX_BOOL)
		s = E(q, where, .cond = bias, .a = s, .b = low);
	else if (bias.id)
		s = E(q, add, .a = s, .b = bias);
	if (mode == 2)
		return s;
	/* A row that sees nothing is 0. */
	top = onnx_reduce(q, s, RLX_INTS(3), RLX_REDUCE_MAX, true);
	none = E(q, eq, .a = top, .b = low);
	s = E(q, softmax, .x = E(q, where, .cond = none,
	      .a = onnx_num(q, t.dtype, 0), .b = s), .axis = 3);
	return E(q, where, .cond = none, .a = onnx_num(q, t.dtype, 0), .b = s);
}

static enum rlx_status heads_of(struct onnx_op *q, struct heads *h)
{
	int64_t n_q = onnx_attr_i(q, "q_num_heads", 0);
	int64_t n_k = onnx_attr_i(q, "kv_num_heads", 0);
	struct rlx_type t;

	h->q = onnx_in(q, 0);
	h->k = onnx_in(q, 1);
	h->v = onnx_in(q, 2);
	t = onnx_type(q, h->q);
	if ((t.rank != 3 && t.rank != 4) || (t.rank == 3 && (n_q < 1 || n_k < 1)))
		return op_err(q, RLX_ESHAPE, "queries of rank %u, %lld and "
			      "%lld heads", t.rank, (long long)n_q,
			      (long long)n_k);
	h->q = split_heads(q, h->q, n_q);
	h->k = split_heads(q, h->k, n_k);
	h->v = split_heads(q, h->v, n_k);
	if (onnx_given(q, 4) && onnx_given(q, 5)) {
		h->past = onnx_type(q, onnx_in(q, 4)).dim[2];
		h->k = E(q, concat, .axis = 2,
			 .xs = RLX_VALUES(onnx_in(q, 4), h->k));
		h->v = E(q, concat, .axis = 2,
			 .xs = RLX_VALUES(onnx_in(q, 5), h->v));
	}
	h->n_q = onnx_type(q, h->q).dim[2];
	h->n_k = onnx_type(q, h->k).dim[2];
	h->nonpad = onnx_in(q, 6);
	h->causal = onnx_attr_i(q, "is_causal", 0);
	h->left = onnx_attr_i(q, "left_window_size", -1);
	h->right = onnx_attr_i(q, "right_window_size", -1);
	return RLX_OK;
}

/* Heads side by side in each row: the op reads and writes them so, and nothing is moved. */
static bool in_rows(struct onnx_op *q, const struct heads *h)
{
	int k;

	for (k = 0; k < 3; k++)
		if (onnx_type(q, onnx_in(q, k)).rank != 3)
			return false;
	return !onnx_given(q, 4) && onnx_type(q, h->q).dim[1];
}

static rlx_value attend(struct onnx_op *q, const struct heads *heads, struct rlx_op_attention *a)
{
	struct heads h = *heads;
	bool rows = in_rows(q, &h);
	rlx_value y;

	a->q = rows ? onnx_in(q, 0) : h.q;
	a->k = rows ? onnx_in(q, 1) : h.k;
	a->v = rows ? onnx_in(q, 2) : h.v;
	a->heads = (int32_t)onnx_type(q, h.q).dim[1];
	a->kv_heads = (int32_t)onnx_type(q, h.k).dim[1];
	a->layout = rows ? RLX_BSHD : RLX_BHSD;
	if (h.nonpad.id && !h.causal && h.left < 0 && h.right < 0) {
		a->lens = h.nonpad;
		h.nonpad = RLX_NONE;
	}
	a->bias = bias_of(q, onnx_in(q, 3), &h);
	y = E(q, attention, .q = a->q, .k = a->k, .v = a->v, .bias = a->bias, .lens = a->lens,
	      .heads = a->heads, .kv_heads = a->kv_heads, .layout = a->layout,
	      .scale = a->scale, .softcap = a->softcap, .mask = a->mask);
	return onnx_type(q, onnx_in(q, 0)).rank == 3 && !rows ? join_heads(q, y) : y;
}

enum rlx_status onnx_attention(struct onnx_op *q)
{
	double cap = onnx_attr_f(q, "softcap", 0);
	double scale = onnx_attr_f(q, "scale", 0);
	struct heads h = { .past = 0 };
	enum rlx_status st;
	rlx_value y;
	bool whole;

	onnx_attr_i(q, "softmax_precision", 0);
	st = heads_of(q, &h);
	if (st)
		return st;
	/* Ours aligns the last query with the last key. */
	whole = h.causal && !h.nonpad.id && h.n_k - h.n_q == h.past;
	h.causal = h.causal && !whole;
	y = attend(q, &h, &(struct rlx_op_attention){ .scale = (float)scale, .softcap = (float)cap,
		   .mask = whole ? RLX_MASK_CAUSAL : RLX_MASK_NONE });
	onnx_out(q, 0, y);
	onnx_out(q, 1, h.k);
	onnx_out(q, 2, h.v);
	onnx_attr_i(q, "qk_matmul_output_mode", 0);
	if (q->n_out < 4 || !q->n->outputs[3].n)
		return RLX_OK;
	h.causal = h.causal || whole;
	onnx_out(q, 3, scores(q, &h, bias_of(q, onnx_in(q, 3), &h), scale,
			      cap));
	return RLX_OK;
}
