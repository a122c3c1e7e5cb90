/* SPDX-License-Identifier: MIT */
/* What backends share of gradients of norms. */
#ifndef RLX_BACKENDS_NORM_GRAD_H
#define RLX_BACKENDS_NORM_GRAD_H

#include "backends/common/lower.h"
#include "kernels/norm.h"

/*
 * The arguments of the step, a layer_norm_grad or rms_norm_grad, staged anew; NULL: no kernel
 * takes its dtypes or shapes, and lo->status says so.
 */
struct rlx_k_norm_grad *rlx_lower_norm_grad_args(struct rlx_lower *lo);

#endif
