/* SPDX-License-Identifier: MIT */
/* Attention: softmax(scale q k^T + bias) v without the scores ever in memory. */
#ifndef RLX_K_ATTENTION_H
#define RLX_K_ATTENTION_H

#include "kernels/type.h"

/*
 * Kernel: attention. For each batch row b, head h, query i and key j:
 *	s = scale * q[b][h][i] . k[b][h'][j], h' = h / (heads / kv_heads)
 *	s = softcap * tanh(s / softcap)		if softcap > 0
 *	s += bias[b][h][i][j], or -inf where the bool mask is false
 *	s = -inf unless j < kv_lens[b]
 *	s = -inf unless j <= i + q_offset	if causal
 *	s = -inf unless j > i + q_offset - window	if window > 0
 * A query that may see no key gives zeros (and lse -inf). What stands at keys that no
 * query sees is not looked at; of keys that some see and others do not, values that are
 * not finite may reach all of them on a GPU, which multiplies them by 0.
 * q, k, v and out have unit stride along the head; their other strides, in
 * elements, are free, so BSHD, BHSD and slices of a packed QKV all serve.
 *
 * One unit is RLX_K_ATT_ROWS queries of the heads that share one (batch row,
 * key head), taken in order (head, query); there are rlx_k_attention_units().
 * Scratch: rlx_k_attention_scratch(). Everything is accumulated in f32.
 */
#define RLX_K_ATT_ROWS	64	/* queries of a unit */
#define RLX_K_ATT_KEYS	64	/* keys of a tile */

struct rlx_k_attention {
	const void	*q, *k, *v;
	void		*out;
	const void	*bias;		/* f32 (added) or bool (true: keep) */
	const void	*kv_lens;	/* batch, i32 or i64, or NULL */
	float		*lse;		/* batch x heads x q_len or NULL: log of
					 * the sum of exp(s), for the gradient */
	int64_t		batch, heads, kv_heads, q_len, kv_len;
	int64_t		head_dim, v_dim;	/* each 1 .. 1024 */
	/* batch, head, position */
	int64_t		q_stride[3], k_stride[3], v_stride[3], out_stride[3];
	int64_t		bias_stride[4];		/* batch, head, query, key */
	float		scale, softcap;
	int64_t		q_offset, window;	/* q_offset: kv_len - q_len */
	bool		causal;
	uint8_t		q_type, kv_type, out_type;	/* f32, bf16, f16 */
	uint8_t		bias_type, lens_type;
	bool		strict;		/* CPU: a query alone as among others */
};

static inline int64_t rlx_k_attention_blocks(const struct rlx_k_attention *a)
{
	int64_t rows = a->heads / a->kv_heads * a->q_len;

	return (rows + RLX_K_ATT_ROWS - 1) / RLX_K_ATT_ROWS;
}

static inline size_t rlx_k_attention_units(const struct rlx_k_attention *a)
{
	return (size_t)(a->batch * a->kv_heads * rlx_k_attention_blocks(a));
}

static inline size_t rlx_k_attention_scratch(const struct rlx_k_attention *a)
{
	size_t d = ((size_t)a->head_dim + 15) / 16 * 16;
	size_t v = ((size_t)a->v_dim + 15) / 16 * 16;
	size_t wide = d > v ? d : v;

	/* rows in and out, q transposed, out transposed; scores and bias;
	 * converted keys and values */
	return sizeof(float) * (RLX_K_ATT_ROWS * (wide + d + v) +
				2 * RLX_K_ATT_KEYS * RLX_K_ATT_ROWS +
				RLX_K_ATT_KEYS * (d + v));
}

#endif
