/* SPDX-License-Identifier: MIT */
/* Attention of one new row over a cache that it joins. GPU only. */
#ifndef RLX_K_KV_CACHE_H
#define RLX_K_KV_CACHE_H

#include "kernels/type.h"

/**
 * struct rlx_k_kv_cache - for each batch row: k and v of x go to row pos of the cache,
 * k turned by rope; the turned q looks at rows 0 .. pos
 * @cache:	[2, batch, rows, kv_heads, dim], keys first; written in place
 * @x:		[batch, (heads + 2 kv_heads) * dim]: q, k, v
 * @pos:	batch; one out of range gives zeros, and sets *bad to 1 unless it is of a
 *		row from @live on, which carries no data
 * @cos, @sin:	positions x dim / 2, or NULL: nothing is turned
 * @out:	[batch, heads * dim]
 * @type:	of cache, x and out: bf16 or f16
 * @settled:	no preceding launch writes to the cache, cos or sin
 * @pairs:	element 2i turns with 2i + 1, else i with i + dim / 2
 */
struct rlx_k_kv_cache {
	void		*cache;
	const void	*x, *pos, *cos, *sin;
	void		*out;
	int32_t		*bad;
	int64_t		batch, live, heads, kv_heads, dim, rows, positions;
	float		scale;
	uint8_t		type, table_type, pos_type;
	bool		pairs, settled;
};

/* Heads that share keys, and widths, of which there is a kernel. */
#define RLX_K_KV_CACHE_GROUP	8
#define RLX_K_KV_CACHE_DIM	256

#endif
