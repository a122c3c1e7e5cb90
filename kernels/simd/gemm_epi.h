/* SPDX-License-Identifier: MIT */
/*
 * What happens to a tile of f32 sums on the way to C: factor, biases, residual,
 * activation, conversion.
 */
#ifndef RLX_SIMD_GEMM_EPI_H
#define RLX_SIMD_GEMM_EPI_H

#include "kernels/gemm.h"
#include "kernels/simd/math.h"

/*
 * @t, @ldt: sums; rows are readable in whole vectors
 * @c, @ldc, @r, @ldr: as in struct rlx_k_gemm, at this tile's first element
 * @bias: whole vectors, or NULL; @row_bias: one for each row, or NULL
 */
struct ge {
	const float		*t;
	size_t			ldt;
	char			*c;
	const char		*r;
	size_t			ldc, ldr;
	const float		*bias, *row_bias;
	size_t			rows, cols;
	float			alpha, beta, lo, hi;
	enum rlx_k_num		num;
};

RLX_INLINE size_t ge_size(enum rlx_k_num num)
{
	return num == RLX_NUM_F32 ? 4 : 2;
}

RLX_INLINE vf ge_load(const char *p, enum rlx_k_num num, size_t n)
{
	if (num == RLX_NUM_BF16)
		return vf_loadn_bf16(p, n);
	if (num == RLX_NUM_F16)
		return vf_loadn_f16(p, n);
	return n >= RLX_VL ? vf_loadu(p) : vf_loadn(p, n);
}

RLX_INLINE void ge_store(char *p, vf x, enum rlx_k_num num, size_t n)
{
	if (num == RLX_NUM_BF16)
		vf_storen_bf16(p, x, n);
	else if (num == RLX_NUM_F16)
		vf_storen_f16(p, x, n);
	else if (n >= RLX_VL)
		vf_storeu(p, x);
	else
		vf_storen(p, x, n);
}

RLX_INLINE vf ge_act(vf x, const int act, vf lo, vf hi)
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

RLX_INLINE void ge_run(const struct ge *args, const int act)
{
	/* a copy, which stores to C cannot change behind the compiler's back */
	const struct ge e = *args;
	const vf alpha = vf_set1(e.alpha), beta = vf_set1(e.beta);
	const vf lo = vf_set1(e.lo), hi = vf_set1(e.hi);
	size_t es = ge_size(e.num), i, j;

	for (j = 0; j < e.cols; j += RLX_VL) {
		size_t n = e.cols - j;
		vf bias = e.bias ? vf_loadu(e.bias + j) : vf_zero();
		const float *t = e.t + j;
		const char *r = e.r ? e.r + j * es : NULL;
		char *c = e.c + j * es;

		for (i = 0; i < e.rows; i++, t += e.ldt, c += e.ldc * es) {
			vf x = vf_loadu(t), b = bias;

			if (e.row_bias)
				b += vf_set1(e.row_bias[i]);
			x = vf_fma(x, alpha, b);
			if (r)
				x = vf_fma(ge_load(r + i * e.ldr * es, e.num,
						   n), beta, x);
			ge_store(c, ge_act(x, act, lo, hi), e.num, n);
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
static void (*const ge_fns[])(const struct ge *) = {
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

#endif
