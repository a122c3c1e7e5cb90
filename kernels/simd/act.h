/* SPDX-License-Identifier: MIT */
/*
 * Activations (enum rlx_act) of vectors, which epilogues of products and convolutions have; on
 * GPUs with strict bits too, where a vector is one number.
 */
#ifndef RLX_SIMD_ACT_H
#define RLX_SIMD_ACT_H

#include "rlx/act.h"
#include "kernels/simd/math.h"

RLX_INLINE vf vf_act(vf x, const int act, vf lo, vf hi)
{
	switch (act) {
	case RLX_ACT_RELU:	return vf_max(vf_zero(), x);
	case RLX_ACT_GELU:	return vf_gelu_erf(x);
	case RLX_ACT_GELU_TANH:	return vf_gelu_tanh(x);
	case RLX_ACT_SILU:	return vf_silu(x);
	case RLX_ACT_SIGMOID:	return vf_sigmoid(x);
	case RLX_ACT_TANH:	return vf_tanh(x);
	case RLX_ACT_HARD_SWISH: return vf_hard_swish(x);
	case RLX_ACT_HARD_SIGMOID:
		return vf_min(vf_set1(1), vf_max(vf_zero(), vf_fma(lo, x, hi)));
	case RLX_ACT_CLIP:	return vf_min(hi, vf_max(lo, x));
	default:		return x;
	}
}

#endif
