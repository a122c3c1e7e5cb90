/* SPDX-License-Identifier: MIT */
/*
 * What all GEMM kernels share: C = act(alpha A B + bias + row bias + beta R) of a batch index.
 *
 * The epilogue is applied while a sum is in a register, so that C is written once and never read;
 * R, if there is one, is read once. The biases and R may be NULL. In f32 GELU, SiLU and sigmoid
 * are made of fast exponentials and reciprocals, as each element of C pays for them; in f64 they
 * are the plain functions. GEMM_SCALED adds scales, one or one a column (quantized weights),
 * which multiply the sum before alpha.
 *
 * gemm_tile() orders tiles in bands of eight rows of tiles, column after column within a band:
 * blocks that run together share panels of A and B in the L2.
 * Source: "grouped ordering" of Triton's matrix multiplication tutorial.
 * Limits: two batch dimensions; a step of 0 lets all of a batch read one matrix.
 */
#ifndef RLX_G_GEMM_H
#define RLX_G_GEMM_H

#include "kernels/gpu/dialect.h"
#include "kernels/gemm.h"

/* Who includes this may have said so: sums are multiplied by scales, if there are any. */
#ifndef GEMM_SCALED
#define GEMM_SCALED	0
#endif

/* enum rlx_k_num to a type */
template <int NUM> struct gemm_type;
template <> struct gemm_type<RLX_NUM_F32> { typedef float type; };
template <> struct gemm_type<RLX_NUM_BF16> { typedef bf16 type; };
template <> struct gemm_type<RLX_NUM_F16> { typedef f16 type; };

static DEV inline float fast_sigmoid(float x)
{
	return fast_reciprocal(1 + fast_exp2(-1.44269504f * x));
}

/*
 * x Phi(x) by Abramowitz and Stegun's 7.1.26, which is off by 1.5e-7 at most and needs
 * no branch: at the end of a product there is an erf for each sum. What is left of 1
 * is computed, so that nothing cancels where Phi is small; beyond 9 nothing is left.
 */
static DEV inline float gelu_erf(float x)
{
	float z = fminf(fabsf(x), 9.0f), t = fast_reciprocal(1 + 0.23164189f * z);
	float p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f +
		  t * (-1.453152027f + t * 1.061405429f))));

	return (x > 0 || x != x ? x : 0) - 0.5f * z * p *
	       fast_exp2(-0.72134752f * z * z);
}

/*
 * x, but finite below 0: gelu, silu and their like are this times what is 0 at -inf,
 * which is to be 0, their limit. What multiplies it is NaN where x is.
 */
static DEV inline float act_above(float x) { return fmaxf(x, -1e30f); }
static DEV inline double act_above(double x) { return x < -1e30 ? -1e30 : x; }

static DEV inline float gemm_act(int act, const struct rlx_k_gemm &a, float x)
{
	switch (act) {
	case RLX_ACT_RELU:
		return x > 0 || x != x ? x : 0;
	case RLX_ACT_GELU:
		return gelu_erf(x);
	case RLX_ACT_GELU_TANH:	/* 1 + tanh(u) is 2 sigmoid(2 u) */
		return act_above(x) *
		       fast_sigmoid(1.59576912f * (x + 0.044715f * x * x * x));
	case RLX_ACT_SILU:
		return act_above(x) * fast_sigmoid(x);
	case RLX_ACT_SIGMOID:
		return fast_sigmoid(x);
	case RLX_ACT_TANH:
		return tanhf(x);
	case RLX_ACT_HARD_SWISH: {
		float y = x / 6 + 0.5f;

		return act_above(x) * (y < 0 ? 0 : y > 1 ? 1 : y);
	}
	case RLX_ACT_HARD_SIGMOID: {
		float y = (float)a.lo * x + (float)a.hi;

		return y < 0 ? 0 : y > 1 ? 1 : y;
	}
	case RLX_ACT_CLIP:
		return x < (float)a.lo ? (float)a.lo : x > (float)a.hi ? (float)a.hi : x;
	default:
		return x;
	}
}

static DEV inline double gemm_act(int act, const struct rlx_k_gemm &a, double x)
{
	switch (act) {
	case RLX_ACT_RELU:
		return x > 0 || x != x ? x : 0;
	case RLX_ACT_GELU:
		return 0.5 * act_above(x) * (1 + erf(x * 0.70710678118654752));
	case RLX_ACT_GELU_TANH:
		return 0.5 * act_above(x) *
		       (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
	case RLX_ACT_SILU:
		return act_above(x) / (1 + exp(-x));
	case RLX_ACT_SIGMOID:
		return 1 / (1 + exp(-x));
	case RLX_ACT_TANH:
		return tanh(x);
	case RLX_ACT_HARD_SWISH: {
		double y = x / 6 + 0.5;

		return act_above(x) * (y < 0 ? 0 : y > 1 ? 1 : y);
	}
	case RLX_ACT_HARD_SIGMOID: {
		double y = a.lo * x + a.hi;

		return y < 0 ? 0 : y > 1 ? 1 : y;
	}
	case RLX_ACT_CLIP:
		return x < a.lo ? a.lo : x > a.hi ? a.hi : x;
	default:
		return x;
	}
}

/* The operands of one batch index. T: of sums and biases; TA .. TC: of elements. */
template <class T, class TA, class TB, class TC> struct gemm_operands {
	const TA	*a;
	const TB	*b;
	TC		*c;
	const TC	*r;
	const T		*bias, *row_bias;
#if GEMM_SCALED
	const void	*scales;
#endif

	DEV gemm_operands(const struct rlx_k_gemm &g, const struct rlx_g_env &env,
			  int64_t batch)
	{
		int64_t inner = g.batch[1] ? (int64_t)g.batch[1] : 1;
		size_t i = batch < inner ? 0 : (size_t)(batch / inner);
		size_t j = (size_t)batch - i * (size_t)inner;

		a = RLX_G_PTR(const TA, g.a) + i * g.a_step[0] + j * g.a_step[1];
		b = RLX_G_PTR(const TB, g.b) + i * g.b_step[0] + j * g.b_step[1];
		c = RLX_G_PTR(TC, g.c) + i * g.c_step[0] + j * g.c_step[1];
		r = g.residual ? RLX_G_PTR(const TC, g.residual) + i * g.r_step[0] +
					 j * g.r_step[1] : (const TC *)0;
		bias = RLX_G_PTR(const T, g.bias);
		row_bias = RLX_G_PTR(const T, g.row_bias);
#if GEMM_SCALED
		scales = RLX_G_PTR(const void, g.scales);
#endif
	}

	/* What is added to the product at (row, col). */
	struct added {
		T	bias, row_bias, r;
	};

	template <class GET>
	DEV struct added adds(const struct rlx_k_gemm &g, size_t row, size_t col, GET get) const
	{
		struct added x = { 0, 0, 0 };

		if (bias)
			x.bias = bias[col];
		if (row_bias)
			x.row_bias = row_bias[row];
		if (r)
			x.r = (T)g.beta * get(r[row * g.ldr + col]);
		return x;
	}

	/* What becomes of a sum of column @col. */
	DEV T value(const struct rlx_k_gemm &g, size_t col, T sum, const struct added &x) const
	{
#if GEMM_SCALED
		sum *= load_float(scales, g.one_scale ? 0 : (int64_t)col, g.scale_type);
#endif
		return gemm_act(g.act, g, (T)g.alpha * sum + x.bias + x.row_bias + x.r);
	}

	/* What becomes of the sum at (row, col); TC's conversions by get and put. */
	template <class GET, class PUT>
	DEV void finish(const struct rlx_k_gemm &g, size_t row, size_t col, T sum, GET get,
			PUT put) const
	{
		c[row * g.ldc + col] = put(value(g, col, sum, adds(g, row, col, get)));
	}
};

/* Of @tiles in rows of @across: tiles near in time share rows and columns. */
template <class I>
static DEV inline void gemm_tile(I t, I down, I across, I *row, I *col)
{
	const I group = 8;
	I band = t / (group * across), first = band * group;
	I rows = down - first < group ? down - first : group;

	t -= band * group * across;
	*row = first + t % rows;
	*col = t / rows;
}

#endif
