// SPDX-License-Identifier: MIT
/* Running sums and products along an axis (struct rlx_k_scan), a thread for each line. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "integers.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint TYPE = 2;
layout(constant_id = 2) const bool PROD = false;
layout(constant_id = 3) const bool EXCLUSIVE = false;
layout(constant_id = 4) const bool REVERSE = false;

void main()
{
	scan_t a = scan_t(push.args);
	const uint64_t n = uint64_t(a.n), inner = uint64_t(a.inner);
	const uint64_t units = uint64_t(a.outer) * inner;
	const bool real = TYPE == F32 || TYPE == F16 || TYPE == BF16;

	for (uint64_t u = LANE; u < units; u += LANES) {
		const uint64_t o = u / inner, at = o * n * inner + (u - o * inner);
		double f = PROD ? 1.0lf : 0.0lf;
		int64_t s = PROD ? 1 : 0;

		for (uint64_t j = 0; j < n; j++) {
			const uint64_t k = at + (REVERSE ? n - 1 - j : j) * inner;

			if (real) {
				const double before = f, x = double(load_real(TYPE, a.x, k));

				f = PROD ? f * x : f + x;
				store_real(TYPE, a.y, k, float(EXCLUSIVE ? before : f));
			} else {
				const int64_t before = s, x = load_int(TYPE, a.x, k);

				s = PROD ? s * x : s + x;
				store_int(TYPE, a.y, k, EXCLUSIVE ? before : s);
			}
		}
	}
}
