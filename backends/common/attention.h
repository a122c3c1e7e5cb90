/* SPDX-License-Identifier: MIT */
/* What backends share of attention, which struct rlx_k_attention describes up to the kernel. */
#ifndef RLX_BACKENDS_ATTENTION_H
#define RLX_BACKENDS_ATTENTION_H

#include "backends/common/lower.h"
#include "kernels/attention.h"

/*
 * Attributes, sizes and inputs 0 to 4 of the step, q, k, v, bias and lens, into @a, for a result
 * of type @y; with @slices q, k and v may lie within what they are slices of. False: a dtype or
 * size that no kernel takes.
 */
bool rlx_lower_attention_args(struct rlx_lower *lo, const struct rlx_op_attention *at,
			      const struct rlx_type *y, bool slices, struct rlx_k_attention *a);

#endif
