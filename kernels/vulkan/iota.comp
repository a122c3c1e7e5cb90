// SPDX-License-Identifier: MIT
/* Numbers in a row (struct rlx_k_iota): floats in double, rounded once. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "integers.glsl"
#include "doubles.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint TYPE = 2;

void main()
{
	iota_t a = iota_t(push.args);

	for (int64_t i = int64_t(LANE); i < a.n; i += int64_t(LANES)) {
		/* exact: below 2^53 */
		const double at = double(uint(i >> 32)) * 4294967296.0lf + double(uint(i));

		if (TYPE == F64)
			f64_p(a.dst + uint64_t(i) * 8).v = a.start + at * a.step;
		else if (TYPE == F32)
			f32_p(a.dst + uint64_t(i) * 4).v = float(a.start + at * a.step);
		else if (TYPE == F16 || TYPE == BF16)
			store_real(TYPE, a.dst, uint64_t(i), f64_to_odd(a.start + at * a.step));
		else
			store_int(TYPE, a.dst, uint64_t(i), a.istart + i * a.istep);
	}
}
