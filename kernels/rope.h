/* SPDX-License-Identifier: MIT */
/* Rotary position embedding. */
#ifndef RLX_K_ROPE_H
#define RLX_K_ROPE_H

#include "kernels/type.h"

/*
 * Kernel: rope. Pairs of the first n_rot elements of each head are rotated by
 * row p of cos and sin, p = pos[b * pos_stride + s] or s:
 *	y0 = x0 c - x1 s, y1 = x1 c + x0 s
 * where element i pairs with i + n_rot / 2, or 2 i with 2 i + 1 if @pairs; the
 * others are copied. Heads have unit stride, other strides are in elements
 * (batch, head, position). A negative position counts from the table's end; one
 * out of range gives zeros, and sets *bad to 1 unless it is that of a (batch, position)
 * from @live on, which carries no data. x and y may be the same memory.
 * One unit is one (batch, position) of all heads; there are batch * len.
 * Scratch: rlx_k_rope_scratch().
 */
struct rlx_k_rope {
	const void	*x, *cos, *sin;	/* tables: positions x n_rot / 2 */
	const void	*pos;		/* i64, i32, u32 or NULL */
	void		*y;
	int32_t		*bad;		/* NULL if pos is */
	int64_t		batch, heads, len, head_dim, n_rot, positions;
	int64_t		x_stride[3], y_stride[3];
	int64_t		live;		/* of batch * len; not looked at if pos is NULL */
	int64_t		pos_stride;	/* len, or 0: one row for all batches */
	uint8_t		type, table_type, pos_type;	/* f32, bf16, f16 */
	bool		pairs;
};

/* A head, and a row of each table, as floats. */
static inline size_t rlx_k_rope_scratch(const struct rlx_k_rope *a)
{
	return ((size_t)a->head_dim + (size_t)a->n_rot + 64) * sizeof(float);
}

#endif
