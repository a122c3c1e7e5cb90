// SPDX-License-Identifier: MIT
/* Quantising to integers of 8 and 16 bits by scales and zero points, and back (rlx_k_quant). */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "integers.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint X_TYPE = 2;
layout(constant_id = 2) const uint Y_TYPE = 2;
layout(constant_id = 3) const uint SCALE_TYPE = 2;
layout(constant_id = 4) const bool BACK = false;

const float low = Y_TYPE == I8 ? -128.0 : Y_TYPE == I16 ? -32768.0 : 0.0;
const float top = Y_TYPE == I8 ? 127.0 : Y_TYPE == U8 ? 255.0 : Y_TYPE == I16 ? 32767.0 : 65535.0;

void main()
{
	quant_t a = quant_t(push.args);
	const int64_t n = a.outer * a.axis * a.inner;

	for (int64_t e = int64_t(LANE); e < n; e += int64_t(LANES)) {
		const int64_t j = e % a.inner, oi = e / a.inner, i = oi % a.axis, o = oi / a.axis;
		const uint64_t at = uint64_t(o * a.stride[0] + i / a.block * a.stride[1] +
					     j * a.stride[2]);
		const float scale = load_real(SCALE_TYPE, a.scale, at);
		const int zp = a.zp != 0 ? int(load_int(BACK ? X_TYPE : Y_TYPE, a.zp, at)) : 0;

		if (BACK) {
			const int x = int(load_int(X_TYPE, a.x, uint64_t(e)));

			store_real(Y_TYPE, a.y, uint64_t(e), float(x - zp) * scale);
		} else {
			const float x = load_real(X_TYPE, a.x, uint64_t(e)) / scale;
			const float v = roundEven(clamp(x, -1e6, 1e6)) + float(zp);

			store_int(Y_TYPE, a.y, uint64_t(e),
				  widen(x != x ? zp : int(clamp(v, low, top))));
		}
	}
}
