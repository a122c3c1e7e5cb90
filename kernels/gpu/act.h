/* SPDX-License-Identifier: MIT */
/*
 * The activations of an epilogue (enum rlx_act), applied while a sum is in a register.
 *
 * In f32 GELU, SiLU and sigmoid are made of fast exponentials and reciprocals, as each element
 * of a result pays for them; in f64 they are the plain functions. NaN stays NaN in all of them.
 */
#ifndef RLX_G_ACT_H
#define RLX_G_ACT_H

#include "kernels/gpu/dialect.h"
#include "rlx/act.h"

static DEV inline float fast_sigmoid(float x)
{
	return fast_reciprocal(1 + fast_exp2(-1.44269504f * x));
}

/*
 * x Phi(x), which needs no branch: Phi(-|x|) is exp(-x^2 / 2) times a polynomial in
 * 1 / (1 + 0.304 |x|), fitted: off by 2^-23 of itself. What is left of 1 is computed, so that
 * nothing cancels where Phi is small; beyond 14 nothing is left.
 */
static DEV inline float gelu_erf(float x)
{
	float z = fminf(fabsf(x), 14.0f), t = fast_reciprocal(1 + 0.304f * z);
	float p = t * (0.121234674f + t * (0.122170838f + t * (0.102421966f + t * (0.123555554f +
		  t * (-0.0431340553f + t * (0.192193902f + t * (-0.155302244f +
		  t * 0.0368594058f)))))));

	return (x > 0 || x != x ? x : 0) - z * p * fast_exp2(-0.72134752f * z * z);
}

/*
 * x, but finite below 0: gelu, silu and their like are this times what is 0 at -inf,
 * which is to be 0, their limit. What multiplies it is NaN where x is.
 */
static DEV inline float act_above(float x) { return fmaxf(x, -1e30f); }
static DEV inline double act_above(double x) { return x < -1e30 ? -1e30 : x; }

static DEV inline float act_of(int act, float lo, float hi, float x)
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
		float y = lo * x + hi;

		return y < 0 ? 0 : y > 1 ? 1 : y;
	}
	case RLX_ACT_CLIP:
		return x < lo ? lo : x > hi ? hi : x;
	default:
		return x;
	}
}

static DEV inline double act_of(int act, double lo, double hi, double x)
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
		double y = lo * x + hi;

		return y < 0 ? 0 : y > 1 ? 1 : y;
	}
	case RLX_ACT_CLIP:
		return x < lo ? lo : x > hi ? hi : x;
	default:
		return x;
	}
}

#endif
