// SPDX-License-Identifier: MIT
/*
 * Activations that follow a sum: enum rlx_act. Which one is the kernel's parameter ACT, before
 * this; as an argument drivers would have all of them wherever the function is called.
 */
const uint ACT_RELU = 1, ACT_GELU = 2, ACT_GELU_TANH = 3, ACT_SILU = 4, ACT_SIGMOID = 5,
	   ACT_TANH = 6, ACT_HARD_SWISH = 7, ACT_HARD_SIGMOID = 8, ACT_CLIP = 9;

float clip01(const in float x) { return min_nan(max_nan(x, 0.0), 1.0); }

float activate(const in float x, const in float lo, const in float hi)
{
	switch (ACT) {
	case ACT_RELU:
		return max_nan(x, 0.0);
	case ACT_GELU:
		return 0.5 * max_nan(x, -40.0) * (1.0 + m_erf(x * 0.7071067811865476));
	case ACT_GELU_TANH:
		return 0.5 * max_nan(x, -40.0) *
		       (1.0 + m_tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
	case ACT_SILU:
		return max_nan(x, -1000.0) / (1.0 + m_exp(-x));
	case ACT_SIGMOID:
		return 1.0 / (1.0 + m_exp(-x));
	case ACT_TANH:
		return m_tanh(x);
	case ACT_HARD_SWISH:
		return max_nan(x, -3.0) * clip01(x / 6.0 + 0.5);
	case ACT_HARD_SIGMOID:
		return clip01(lo * x + hi);
	case ACT_CLIP:
		return min_nan(max_nan(x, lo), hi);
	default:
		return x;
	}
}
