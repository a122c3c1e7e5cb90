/* SPDX-License-Identifier: MIT */
/*
 * Activations of an epilogue (enum rlx_act) with strict bits: as the CPU's vectors have them
 * (kernels/simd/gemm_epi.h), of which minima and maxima give the second operand where one is NaN
 * or both are 0.
 */
#ifndef RLX_G_ACT_STRICT_H
#define RLX_G_ACT_STRICT_H

#include "kernels/gpu/dialect.h"
#include "rlx/act.h"

static DEV inline float strict_max(float a, float b) { return a > b ? a : b; }
static DEV inline float strict_min(float a, float b) { return a < b ? a : b; }

/* Those that launch_gemm_f32.h and launch_conv.h let through. */
static DEV inline float act_strict(int act, float lo, float hi, float x)
{
	switch (act) {
	case RLX_ACT_RELU:
		return strict_max(0, x);
	case RLX_ACT_HARD_SWISH: {
		float t = fmaf(x, 1.0f / 6.0f, 0.5f);

		return strict_max(-3, x) * strict_min(1, strict_max(0, t));
	}
	case RLX_ACT_HARD_SIGMOID:
		return strict_min(1, strict_max(0, fmaf(lo, x, hi)));
	case RLX_ACT_CLIP:
		return strict_min(hi, strict_max(lo, x));
	default:
		return x;
	}
}

#endif
