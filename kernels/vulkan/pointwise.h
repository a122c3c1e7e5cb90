/* SPDX-License-Identifier: MIT */
/* Arguments of the pointwise kernels that the Vulkan backend writes for a step. */
#ifndef RLX_VK_POINTWISE_H
#define RLX_VK_POINTWISE_H

#include "kernels/type.h"

enum { RLX_VK_EW_IN = 14, RLX_VK_EW_OUT = 4 };

/*
 * Operand k's element of index i is in[k][sum i_d * stride[k * RLX_K_DIMS + d]]. For fewer than
 * 2^31 elements i / dim[d] is (mul_hi(i, magic[d]) + i) >> shift[d]: Granlund and Montgomery,
 * "Division by Invariant Integers using Multiplication" (1994).
 */
struct rlx_k_vk_ew {
	int64_t		n;			/* elements */
	const void	*in[RLX_VK_EW_IN];
	void		*out[RLX_VK_EW_OUT];
	int32_t		rank;
	int64_t		dim[RLX_K_DIMS];
	int64_t		stride[RLX_VK_EW_IN * RLX_K_DIMS];
	uint32_t	magic[RLX_K_DIMS], shift[RLX_K_DIMS];
};

#endif
