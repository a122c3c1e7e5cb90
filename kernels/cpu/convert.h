/* SPDX-License-Identifier: MIT */
/*
 * Blocks of any element type into float, double or int64_t and back; shared by
 * the kernels that compute in one of these. Not a kernel family.
 */
#ifndef RLX_CPU_CONVERT_H
#define RLX_CPU_CONVERT_H

#include "kernels/kernel.h"
#include "kernels/ew.h"

typedef void rlx_convert_fn(void *restrict dst, const void *restrict src,
			    size_t n);

/*
 * Converters of n elements between a class (enum rlx_k_ew_class) and a type;
 * NULL for an unknown type. dst and src do not overlap.
 */
rlx_convert_fn *RLX_K(loader)(int cls, int type);
rlx_convert_fn *RLX_K(storer)(int cls, int type);
/* u64 to doubles whose rounding to 11 bits or fewer is that of the integer */
void RLX_K(load_sticky_u64)(void *restrict dst, const void *restrict src,
			    size_t n);
void RLX_K(load_sticky_i64)(void *restrict dst, const void *restrict src,
			    size_t n);

#endif
