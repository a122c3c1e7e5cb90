// SPDX-License-Identifier: MIT
/* The epilogues of GEMMs of floats: from f32 sums to C. */
#include "kernels/simd/gemm_epi.h"

RLX_INLINE void ge_run(const struct ge *args, const int act)
{
	/* a copy, which stores to C cannot change behind the compiler's back */
	const struct ge e = *args;
	const vf alpha = vf_set1(e.alpha), beta = vf_set1(e.beta);
	const vf lo = vf_set1(e.lo), hi = vf_set1(e.hi);
	size_t es = ge_size(e.type), i, j;

	for (j = 0; j < e.cols; j += RLX_VL) {
		size_t n = e.cols - j;
		/* to add -0 leaves a sum as it is, be it -0 */
		vf bias = e.bias ? vf_loadu(e.bias + j) : vf_set1(-0.0f);
		const float *t = e.t + j;
		const char *r = e.r ? e.r + j * es : NULL;
		char *c = e.c + j * es;

		for (i = 0; i < e.rows; i++, t += e.ldt, c += e.ldc * es) {
			vf x = vf_loadu(t), b = bias;

			if (e.row_bias)
				b += vf_set1(e.row_bias[i]);
			x = vf_fma(x, alpha, b);
			if (r)
				x = vf_fma(ge_load(r + i * e.ldr * es, e.type,
						   n), beta, x);
			ge_store(c, vf_act(x, act, lo, hi), e.type, n);
		}
	}
}

#define GE_ACT(name, act)						\
static void ge_##name(const struct ge *e) { ge_run(e, act); }
GE_ACT(none, RLX_ACT_NONE)
GE_ACT(relu, RLX_ACT_RELU)
GE_ACT(gelu_erf, RLX_ACT_GELU)
GE_ACT(gelu_tanh, RLX_ACT_GELU_TANH)
GE_ACT(silu, RLX_ACT_SILU)
GE_ACT(sigmoid, RLX_ACT_SIGMOID)
GE_ACT(tanh, RLX_ACT_TANH)
GE_ACT(hard_swish, RLX_ACT_HARD_SWISH)
GE_ACT(hard_sigmoid, RLX_ACT_HARD_SIGMOID)
GE_ACT(clip, RLX_ACT_CLIP)
#undef GE_ACT

/* by enum rlx_act */
void (*const GE_FNS[])(const struct ge *) = {
	[RLX_ACT_NONE] = ge_none,
	[RLX_ACT_RELU] = ge_relu,
	[RLX_ACT_GELU] = ge_gelu_erf,
	[RLX_ACT_GELU_TANH] = ge_gelu_tanh,
	[RLX_ACT_SILU] = ge_silu,
	[RLX_ACT_SIGMOID] = ge_sigmoid,
	[RLX_ACT_TANH] = ge_tanh,
	[RLX_ACT_HARD_SWISH] = ge_hard_swish,
	[RLX_ACT_HARD_SIGMOID] = ge_hard_sigmoid,
	[RLX_ACT_CLIP] = ge_clip,
};
