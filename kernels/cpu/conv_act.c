// SPDX-License-Identifier: MIT
/* Activations of the convolution epilogue. */
#include "kernels/cpu/conv_tile.h"
#include "kernels/simd/math.h"

/* Below this a x + b <= 0 and x (a x + b) clamped is 0, at -inf as well. */
static float least_of(float a, float b)
{
	float zero = -2 * __builtin_fabsf(b / a) - 1;

	return a > 0 && zero > -__builtin_inff() ? zero : -__builtin_inff();
}

bool RLX_K(conv_act_fuse)(const struct conv_act *act, struct conv_fuse *f)
{
	*f = (struct conv_fuse){ .lo = -__builtin_inff(),
				 .hi = __builtin_inff() };
	switch (act->fn) {
	case RLX_CONV_NONE:
		return true;
	case RLX_CONV_RELU:
		f->lo = 0;
		return true;
	case RLX_CONV_CLIP:
		f->lo = act->a;
		f->hi = act->b;
		return true;
	case RLX_CONV_HSWISH:
		*f = (struct conv_fuse){ least_of(act->a, act->b), 1, act->a,
					 act->b, true };
		return true;
	default:
		return false;
	}
}

RLX_INLINE vf apply(enum rlx_conv_act act, vf x, vf a, vf b, vf least)
{
	const vf zero = vf_zero(), one = vf_set1(1);

	switch (act) {
	case RLX_CONV_RELU:
		return vf_max(zero, x);
	case RLX_CONV_CLIP:
		return vf_min(b, vf_max(a, x));
	case RLX_CONV_LEAKY:
		return vf_sel(vf_lt(x, zero), a * x, x);
	case RLX_CONV_HSIGMOID:
		return vf_min(one, vf_max(zero, vf_fma(a, x, b)));
	case RLX_CONV_HSWISH:
		return vf_max(least, x) *
		       vf_min(one, vf_max(zero, vf_fma(a, x, b)));
	case RLX_CONV_SIGMOID:
		return vf_sigmoid(x);
	case RLX_CONV_SILU:
		return vf_silu(x);
	case RLX_CONV_TANH:
		return vf_tanh(x);
	case RLX_CONV_GELU:
		return vf_gelu_erf(x);
	default:
		return x;
	}
}

#define RUN(name)							\
	case name:							\
		for (i = 0; i < n; i += RLX_VL)				\
			vf_storeu(y + i,				\
				  apply(name, vf_loadu(y + i), a, b, least));	\
		break

void RLX_K(conv_act_run)(const struct conv_act *act, float *y, size_t n)
{
	const vf a = vf_set1(act->a), b = vf_set1(act->b);
	const vf least = vf_set1(least_of(act->a, act->b));
	size_t i;

	switch (act->fn) {
	RUN(RLX_CONV_RELU);
	RUN(RLX_CONV_CLIP);
	RUN(RLX_CONV_LEAKY);
	RUN(RLX_CONV_HSIGMOID);
	RUN(RLX_CONV_HSWISH);
	RUN(RLX_CONV_SIGMOID);
	RUN(RLX_CONV_SILU);
	RUN(RLX_CONV_TANH);
	RUN(RLX_CONV_GELU);
	default:
		break;
	}
}
