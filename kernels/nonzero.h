/* SPDX-License-Identifier: MIT */
/* Where elements that are not zero stand. */
#ifndef RLX_K_NONZERO_H
#define RLX_K_NONZERO_H

#include "kernels/type.h"

/*
 * y[d][i] is coordinate d of the i-th element of x that is not zero (a NaN is not), in
 * row-major order. If they are not @count, *bad becomes 1 and y means nothing; so it is where x
 * changes meanwhile, and nothing is written beside y.
 *
 * CPU kernel: nonzero, called twice. One unit is RLX_K_NONZERO_BLOCK elements; there are
 * rlx_k_nonzero_units(). With @y NULL unit u leaves its number in found[u]; the second call
 * writes what the first has found. Scratch: RLX_K_NONZERO_SCRATCH.
 */
#define RLX_K_NONZERO_BLOCK	16384
#define RLX_K_NONZERO_SCRATCH	(RLX_K_NONZERO_BLOCK * sizeof(uint32_t))

struct rlx_k_nonzero {
	const void	*x;
	int64_t		*y;		/* [rank][count] */
	int32_t		*bad;
	int64_t		n, count, dim[RLX_K_DIMS];
	int		rank;
	uint8_t		type;
	int64_t		*found;		/* CPU alone */
};

static inline size_t rlx_k_nonzero_units(const struct rlx_k_nonzero *a)
{
	return (size_t)((a->n + RLX_K_NONZERO_BLOCK - 1) / RLX_K_NONZERO_BLOCK);
}

#endif
