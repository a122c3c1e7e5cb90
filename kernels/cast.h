/* SPDX-License-Identifier: MIT */
/*
 * Conversion between all element types.
 *
 * float to float rounds once, to nearest even; overflow gives inf, but in fp8 the
 * largest value, of infinities too. float to integer truncates toward zero and
 * saturates, NaN gives 0. Integer to integer wraps. To bool: x != 0, so NaN is true.
 */
#ifndef RLX_K_CAST_H
#define RLX_K_CAST_H

#include "kernels/type.h"

/*
 * Kernel: cast. One unit is RLX_K_CAST_BLOCK elements; there are
 * ceil(n / RLX_K_CAST_BLOCK). Scratch: 0. src and dst do not overlap, or are
 * the same address and element size.
 */
#define RLX_K_CAST_BLOCK	4096

struct rlx_k_cast {
	const void	*src;
	void		*dst;
	int64_t		n;		/* elements */
	uint8_t		src_type, dst_type;	/* enum rlx_dtype */
};

static inline size_t rlx_k_cast_units(const struct rlx_k_cast *a)
{
	return (size_t)((a->n + RLX_K_CAST_BLOCK - 1) / RLX_K_CAST_BLOCK);
}

#endif
