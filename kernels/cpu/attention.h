/* SPDX-License-Identifier: MIT */
/* What the two attention loops (many queries, few queries) share. */
#ifndef RLX_CPU_ATTENTION_H
#define RLX_CPU_ATTENTION_H

#include <math.h>

#include "kernels/attention.h"
#include "kernels/cpu/convert.h"
#include "kernels/simd/math.h"
#include "kernels/simd/transpose.h"

#define KEYS	RLX_K_ATT_KEYS

/* Up to RLX_K_ATT_ROWS queries of one (batch row, key head). */
struct att_block {
	const struct rlx_k_attention *a;
	int64_t		b, kvh;		/* batch row, key head */
	int64_t		row, n_rows;	/* first of (head in group, query) */
	int64_t		len;		/* keys that exist for b */
	int64_t		lo, hi;		/* keys any of the queries may see */
	/* scratch */
	float		*rows;		/* n_rows x wide */
	float		*qt, *ot;	/* transposed q and out */
	float		*s, *mask;	/* scores, bias: KEYS x rows */
	float		*kbuf, *vbuf;	/* converted keys and values */
	size_t		d, v, wide;	/* rounded up to 16 */
};

/* The tile of keys at hand, as floats; strides in floats. */
struct att_tile {
	const float	*k, *v;
	size_t		ldk, ldv, n;
	int64_t		at;
};

struct att_row {
	int64_t	head, query;
};

RLX_INLINE struct att_row att_row_at(const struct att_block *t, int64_t r)
{
	int64_t q_len = t->a->q_len;
	int64_t at = t->row + r;

	return (struct att_row){
		t->kvh * (t->a->heads / t->a->kv_heads) + at / q_len,
		at % q_len };
}

/* The keys [*lo, *hi) a query may see. */
RLX_INLINE void att_range(const struct att_block *t, int64_t query, int64_t *lo,
			  int64_t *hi)
{
	const struct rlx_k_attention *a = t->a;
	int64_t at = query + a->q_offset;

	*lo = a->window > 0 && at - a->window + 1 > 0 ? at - a->window + 1 : 0;
	*hi = a->causal && at + 1 < t->len ? at + 1 : t->len;
	if (*hi < *lo)
		*hi = *lo;
}

/* Bytes or floats: the bias of query r of the block, at key 0. */
RLX_INLINE int64_t att_bias_at(const struct att_block *t, struct att_row w)
{
	const int64_t *s = t->a->bias_stride;

	return t->b * s[0] + w.head * s[1] + w.query * s[2];
}

RLX_INLINE float att_bias(const struct att_block *t, int64_t off)
{
	const struct rlx_k_attention *a = t->a;

	if (a->bias_type == RLX_F32)
		return ((const float *)a->bias)[off];
	return ((const uint8_t *)a->bias)[off] ? 0 : -INFINITY;
}

/* A mask leaves a key out whatever its score is; a bias is added, NaN or not. */
RLX_INLINE bool att_is_out(const struct rlx_k_attention *a, float bias)
{
	return a->bias_type != RLX_F32 && bias == -INFINITY;
}

/* Query r, scaled, as floats padded with zeros to t->d, into to. */
void RLX_K(att_query)(const struct att_block *t, int64_t r, float *to);
/* dst for the row of results r, from v_dim floats */
void RLX_K(att_store)(const struct att_block *t, int64_t r, const float *from);
/* Keys [at, at + n), n <= KEYS. */
void RLX_K(att_tile)(const struct att_block *t, struct att_tile *k, int64_t at);
void RLX_K(att_short_kv)(struct att_block *t);
void RLX_K(att_many)(struct att_block *t);

#endif
