// SPDX-License-Identifier: MIT
/* Activations of the convolution epilogue. */
#include "kernels/cpu/conv_tile.h"
#include "kernels/simd/math.h"

bool RLX_K(conv_act_fuse)(const struct conv_act *act, struct conv_fuse *f)
{
	*f = (struct conv_fuse){ .lo = -__builtin_inff(),
				 .hi = __builtin_inff() };
	switch (act->fn) {
	case RLX_ACT_NONE:
		return true;
	case RLX_ACT_RELU:
		f->lo = 0;
		return true;
	case RLX_ACT_CLIP:
		f->lo = act->a;
		f->hi = act->b;
		return true;
	case RLX_ACT_HARD_SWISH:
		/* from -3 down it is 0, at -inf as well */
		*f = (struct conv_fuse){ -3, 1, 1.0f / 6, 0.5f, true };
		return true;
	default:
		return false;
	}
}

RLX_INLINE vf apply(enum rlx_act act, vf x, vf a, vf b)
{
	const vf zero = vf_zero(), one = vf_set1(1);

	switch (act) {
	case RLX_ACT_RELU:
		return vf_max(zero, x);
	case RLX_ACT_CLIP:
		return vf_min(b, vf_max(a, x));
	case RLX_ACT_HARD_SIGMOID:
		return vf_min(one, vf_max(zero, vf_fma(a, x, b)));
	case RLX_ACT_HARD_SWISH:
		return vf_hard_swish(x);
	case RLX_ACT_SIGMOID:
		return vf_sigmoid(x);
	case RLX_ACT_SILU:
		return vf_silu(x);
	case RLX_ACT_TANH:
		return vf_tanh(x);
	case RLX_ACT_GELU:
		return vf_gelu_erf(x);
	case RLX_ACT_GELU_TANH:
		return vf_gelu_tanh(x);
	default:
		return x;
	}
}

#define RUN(name)							\
	case name:							\
		for (i = 0; i < n; i += RLX_VL)				\
			vf_storeu(y + i,				\
				  apply(name, vf_loadu(y + i), a, b));	\
		break

void RLX_K(conv_act_run)(const struct conv_act *act, float *y, size_t n)
{
	const vf a = vf_set1(act->a), b = vf_set1(act->b);
	size_t i;

	switch (act->fn) {
	RUN(RLX_ACT_RELU);
	RUN(RLX_ACT_CLIP);
	RUN(RLX_ACT_HARD_SIGMOID);
	RUN(RLX_ACT_HARD_SWISH);
	RUN(RLX_ACT_SIGMOID);
	RUN(RLX_ACT_SILU);
	RUN(RLX_ACT_TANH);
	RUN(RLX_ACT_GELU);
	RUN(RLX_ACT_GELU_TANH);
	default:
		break;
	}
}
