/* SPDX-License-Identifier: MIT */
/*
 * Activations of the convolution epilogue, for kernels of levels that conv_act.c is not built for.
 */
#ifndef RLX_CPU_CONV_ACT_H
#define RLX_CPU_CONV_ACT_H

#include "kernels/cpu/conv_tile.h"
#include "kernels/simd/act.h"

/* False: @act is more than @f can be; conv_act_apply() after. */
RLX_INLINE bool conv_fuse_of(const struct conv_act *act, struct conv_fuse *f)
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

/* An activation in place, of @n floats, n a multiple of RLX_VL. */
#define CONV_ACT(name)							\
	case name:							\
		for (i = 0; i < n; i += RLX_VL)				\
			vf_storeu(y + i,				\
				  vf_act(vf_loadu(y + i), name, a, b));	\
		break

RLX_INLINE void conv_act_apply(const struct conv_act *act, float *y, size_t n)
{
	const vf a = vf_set1(act->a), b = vf_set1(act->b);
	size_t i;

	switch (act->fn) {
	CONV_ACT(RLX_ACT_RELU);
	CONV_ACT(RLX_ACT_CLIP);
	CONV_ACT(RLX_ACT_HARD_SIGMOID);
	CONV_ACT(RLX_ACT_HARD_SWISH);
	CONV_ACT(RLX_ACT_SIGMOID);
	CONV_ACT(RLX_ACT_SILU);
	CONV_ACT(RLX_ACT_TANH);
	CONV_ACT(RLX_ACT_GELU);
	CONV_ACT(RLX_ACT_GELU_TANH);
	default:
		break;
	}
}
#undef CONV_ACT

#endif
