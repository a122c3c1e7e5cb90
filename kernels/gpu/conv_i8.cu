// SPDX-License-Identifier: MIT
/*
 * Convolutions of 8-bit integers, exactly: a thread sums up one output, directly.
 *
 * Algorithm: the window is walked channel by channel, tap by tap; zero points are subtracted from
 * each factor, so padding is left out and no correction follows. Sums wrap modulo 2^32, as ONNX's
 * ConvInteger has them, or are scaled, rounded to even, and saturated in [lo, hi] (QLinearConv).
 * Traffic: y once; of x and w 2 bytes are read for each multiply-add, from caches: neighbouring
 * threads have neighbouring pixels, and the same weights. No tensor cores and no dp4a: loads of
 * single bytes bound it.
 * Limits: NCHW of u8 or s8, weights of u8 or s8 as they lie; 1 to 3 dimensions, groups, dilation;
 * not transposed. bias is i32; zero points of weights are one for each output channel.
 */
#include "kernels/conv.h"
#include "kernels/gpu/move.h"

static DEV inline int byte_at(const uint8_t *p, int64_t i, bool is_signed)
{
	return is_signed ? (int)(int8_t)p[i] : (int)p[i];
}

/* Where an output begins to read: in its image, and the first pixel's coordinates. */
struct window {
	const uint8_t	*x, *w;
	int64_t		at[3];
};

static DEV inline int32_t sum_window(const struct rlx_k_conv_i8 &a, const struct window &v,
				     int x_zero, int w_zero)
{
	const struct rlx_k_conv_nd &s = a.shape;
	int64_t channels = (int64_t)(s.ic / s.groups), w = 0;
	uint32_t sum = 0;

	for (int64_t c = 0; c < channels; c++)
		for (int64_t z = 0; z < (int64_t)s.k[0]; z++)
			for (int64_t y = 0; y < (int64_t)s.k[1]; y++) {
				int64_t pz = v.at[0] + z * (int64_t)s.d[0];
				int64_t py = v.at[1] + y * (int64_t)s.d[1];
				int64_t line = ((c * (int64_t)s.in[0] + pz) * (int64_t)s.in[1] +
						py) * (int64_t)s.in[2];
				bool in = pz >= 0 && pz < (int64_t)s.in[0] && py >= 0 &&
					  py < (int64_t)s.in[1];

				for (int64_t k = 0; k < (int64_t)s.k[2]; k++, w++) {
					int64_t px = v.at[2] + k * (int64_t)s.d[2];

					if (!in || px < 0 || px >= (int64_t)s.in[2])
						continue;
					sum += (uint32_t)((byte_at(v.x, line + px, a.x_signed) -
							   x_zero) *
							  (byte_at(v.w, w, a.w_signed) - w_zero));
				}
			}
	return (int32_t)sum;
}

RLX_G_KERNEL(conv_i8, struct rlx_k_conv_i8, 256)
{
	const struct rlx_k_conv_nd &s = a.shape;
	const int32_t *bias = RLX_G_PTR(const int32_t, a.bias);
	const int32_t *zeros = RLX_G_PTR(const int32_t, a.w_zero);
	const float *scale = RLX_G_PTR(const float, a.scale);
	const uint8_t *x_zero_at = RLX_G_PTR(const uint8_t, a.x_zero_at);
	int x_zero = x_zero_at ? byte_at(x_zero_at, 0, a.x_signed) : a.x_zero;
	int64_t plane = (int64_t)(s.out[0] * s.out[1] * s.out[2]);
	int64_t n = (int64_t)(s.n * s.oc) * plane, channels = (int64_t)(s.ic / s.groups);
	int64_t pixels = (int64_t)(s.in[0] * s.in[1] * s.in[2]);
	int64_t taps = (int64_t)(s.k[0] * s.k[1] * s.k[2]);

	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t rest = i, channel, image, at, o;
		struct window v;
		int32_t sum;

		for (int d = 2; d >= 0; d--) {
			rest = divide(rest, (int64_t)s.out[d], &o);
			v.at[d] = o * (int64_t)s.s[d] - (int64_t)s.p[d];
		}
		image = divide(rest, (int64_t)s.oc, &channel);
		v.x = RLX_G_PTR(const uint8_t, a.x) + image * (int64_t)s.x_n +
		      channel / (int64_t)(s.oc / s.groups) * channels * pixels;
		v.w = RLX_G_PTR(const uint8_t, a.w) + channel * channels * taps;
		sum = sum_window(a, v, x_zero, zeros ? zeros[channel] : 0);
		if (bias)
			sum = (int32_t)((uint32_t)sum + (uint32_t)bias[channel]);
		at = image * (int64_t)s.y_n + i % ((int64_t)s.oc * plane);
		if (a.out == RLX_CONV_I32) {
			RLX_G_PTR(int32_t, a.y)[at] = sum;
		} else {
			float x = rintf((float)sum * scale[channel]) + (float)a.y_zero;

			x = x < (float)a.lo ? (float)a.lo : x > (float)a.hi ? (float)a.hi : x;
			RLX_G_PTR(uint8_t, a.y)[at] = (uint8_t)(int)x;
		}
	}
}
