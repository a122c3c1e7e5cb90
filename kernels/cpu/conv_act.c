// SPDX-License-Identifier: MIT
/* Activations of the convolution epilogue. */
#include "kernels/cpu/conv_tile.h"
#include "kernels/simd/act.h"

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

#define RUN(name)							\
	case name:							\
		for (i = 0; i < n; i += RLX_VL)				\
			vf_storeu(y + i,				\
				  vf_act(vf_loadu(y + i), name, a, b));	\
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
