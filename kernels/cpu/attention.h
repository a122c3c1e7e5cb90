/* SPDX-License-Identifier: MIT */
/* What the two attention loops (many queries, few queries) share. */
#ifndef RLX_CPU_ATTENTION_H
#define RLX_CPU_ATTENTION_H

#include <math.h>

#include "kernels/attention.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/index_at.h"
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

static inline int64_t att_keys(const struct rlx_k_attention *a, int64_t b)
{
	int64_t n = a->kv_len;

	if (a->kv_lens)
		n = rlx_k_index(a->kv_lens, a->lens_type, (size_t)b);
	n = n < a->kv_len ? n : a->kv_len;
	return n < 0 ? 0 : n;
}

/* Cut scratch of rlx_k_attention_scratch() bytes. */
static inline void att_scratch(struct att_block *t, const struct rlx_k_attention *a, float *s)
{
	t->a = a;
	t->d = ((size_t)a->head_dim + 15) / 16 * 16;
	t->v = ((size_t)a->v_dim + 15) / 16 * 16;
	t->wide = t->d > t->v ? t->d : t->v;
	t->rows = s;
	t->qt = t->rows + RLX_K_ATT_ROWS * t->wide;
	t->ot = t->qt + RLX_K_ATT_ROWS * t->d;
	t->s = t->ot + RLX_K_ATT_ROWS * t->v;
	t->mask = t->s + KEYS * RLX_K_ATT_ROWS;
	t->kbuf = t->mask + KEYS * RLX_K_ATT_ROWS;
	t->vbuf = t->kbuf + KEYS * t->d;
}

/* The queries of unit @u, and the keys that any of them may see. */
static inline void att_unit(struct att_block *t, size_t u)
{
	const struct rlx_k_attention *a = t->a;
	const int64_t all = a->heads / a->kv_heads * a->q_len;
	const int64_t blocks = rlx_k_attention_blocks(a);
	int64_t bh = (int64_t)u / blocks, lo, hi;

	t->row = (int64_t)u % blocks * RLX_K_ATT_ROWS;
	t->n_rows = all - t->row < RLX_K_ATT_ROWS ? all - t->row : RLX_K_ATT_ROWS;
	t->b = bh / a->kv_heads;
	t->kvh = bh % a->kv_heads;
	t->len = att_keys(a, t->b);
	t->lo = t->len;
	t->hi = 0;
	for (int64_t r = 0; r < t->n_rows; r++) {
		att_range(t, att_row_at(t, r).query, &lo, &hi);
		t->lo = lo < t->lo ? lo : t->lo;
		t->hi = hi > t->hi ? hi : t->hi;
	}
	t->hi = t->hi < t->len ? t->hi : t->len;
	if (a->strict)	/* tiles begin where they do for other queries */
		t->lo -= t->lo % KEYS;
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
