// SPDX-License-Identifier: MIT
/*
 * Convolution and transposed convolution in up to three dimensions, plain layout
 * (struct rlx_k_conv_nd): a thread has a pixel of CHANNELS output channels, which share what
 * it reads of the input. Sums run over input channels, then taps.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "math.glsl"
#include "args.glsl"

layout(constant_id = 3) const uint ACT = 0;
#include "act.glsl"

layout(constant_id = 1) const uint TYPE = 2;
layout(constant_id = 2) const uint BIAS_TYPE = 2;
layout(constant_id = 4) const bool TRANSPOSED = false;
layout(constant_id = 5) const uint CHANNELS = 4;	/* that divide those of a group */

/* Where tap @t of output coordinate @o reads dimension @d; false: padding */
bool tap(const in conv_nd_t a, const in uint d, const in int o, const in int t, out int at)
{
	if (TRANSPOSED) {
		const int x = o + int(a.p[d]) - t * int(a.d[d]), s = int(a.s[d]);

		at = x / s;
		return x >= 0 && at * s == x && at < int(a.in_[d]);
	}
	at = o * int(a.s[d]) - int(a.p[d]) + t * int(a.d[d]);
	return at >= 0 && at < int(a.in_[d]);
}

void main()
{
	conv_nd_t a = conv_nd_t(push.args);
	const uint64_t pixels = a.out_[0] * a.out_[1] * a.out_[2];
	const uint64_t in_pixels = a.in_[0] * a.in_[1] * a.in_[2], taps = a.k[0] * a.k[1] * a.k[2];
	const uint64_t ic = a.ic / a.groups, oc = a.oc / a.groups, blocks = a.oc / CHANNELS;
	const uint64_t units = a.n * blocks * pixels;

	for (uint64_t u = LANE; u < units; u += LANES) {
		const uint64_t pixel = u % pixels, nb = u / pixels, n = nb / blocks;
		const uint64_t first = nb % blocks * CHANNELS, group = first / oc;
		/* of planes and rows there may be more together than an int counts */
		const uint64_t oyz = pixel / a.out_[2];
		const int ox = int(pixel - oyz * a.out_[2]);
		const int oz = int(oyz / a.out_[1]), oy = int(oyz - uint64_t(oz) * a.out_[1]);
		const uint64_t x = n * a.x_n + group * ic * in_pixels;
		/* from an output channel's weights to the next one's, from an input's as well */
		const uint64_t wo = TRANSPOSED ? taps : ic * taps;
		const uint64_t wi = TRANSPOSED ? oc * taps : taps;
		const uint64_t w = TRANSPOSED ? group * ic * wi + (first - group * oc) * wo :
				   first * wo;
		float acc[CHANNELS];

		[[unroll]] for (uint c = 0; c < CHANNELS; c++)
			acc[c] = 0.0;
		for (int kz = 0; kz < int(a.k[0]); kz++)
			for (int ky = 0; ky < int(a.k[1]); ky++)
				for (int kx = 0; kx < int(a.k[2]); kx++) {
					int iz, iy, ix;
					const bool z = tap(a, 0, oz, kz, iz), y = tap(a, 1, oy, ky, iy);
					uint64_t at, t;

					if (!tap(a, 2, ox, kx, ix) || !y || !z)
						continue;
					at = x + (uint64_t(iz) * a.in_[1] + uint64_t(iy)) * a.in_[2] +
					     uint64_t(ix);
					t = w + (uint64_t(kz) * a.k[1] + uint64_t(ky)) * a.k[2] +
					    uint64_t(kx);
					for (uint64_t i = 0; i < ic; i++) {
						const float v = load_real(TYPE, a.x, at + i * in_pixels);

						[[unroll]] for (uint c = 0; c < CHANNELS; c++)
							acc[c] += v * load_real(TYPE, a.w,
								t + i * wi + c * wo);
					}
				}
		[[unroll]] for (uint c = 0; c < CHANNELS; c++) {
			const uint64_t out_at = (first + c) * pixels + pixel;
			float v = acc[c];

			if (a.bias != 0)
				v += load_real(BIAS_TYPE, a.bias, first + c);
			if (a.res != 0)
				v += load_real(TYPE, a.res, n * a.res_n + out_at);
			store_real(TYPE, a.y, n * a.y_n + out_at,
				   activate(v, a.act_a, a.act_b));
		}
	}
}
