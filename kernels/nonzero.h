/* SPDX-License-Identifier: MIT */
/* Where elements that are not zero stand. GPU only. */
#ifndef RLX_K_NONZERO_H
#define RLX_K_NONZERO_H

#include "kernels/type.h"

/*
 * y[d][i] is coordinate d of the i-th element of x that is not zero (a NaN is not), in
 * row-major order. If they are not @count, *bad becomes 1 and y means nothing.
 */
struct rlx_k_nonzero {
	const void	*x;
	int64_t		*y;		/* [rank][count] */
	int32_t		*bad;
	int64_t		n, count, dim[RLX_K_DIMS];
	int		rank;
	uint8_t		type;
};

#endif
