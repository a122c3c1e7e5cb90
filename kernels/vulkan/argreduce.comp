// SPDX-License-Identifier: MIT
/* Where along an axis the largest or smallest element is (struct rlx_k_argreduce). */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "integers.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint TYPE = 2;
layout(constant_id = 2) const uint IDX_TYPE = 7;
layout(constant_id = 3) const bool LEAST = false;
layout(constant_id = 4) const bool LAST = false;

void main()
{
	argreduce_t a = argreduce_t(push.args);
	const uint64_t n = uint64_t(a.n), inner = uint64_t(a.inner);
	const uint64_t units = uint64_t(a.outer) * inner;
	const bool real = TYPE == F32 || TYPE == F16 || TYPE == BF16;

	for (uint64_t u = LANE; u < units; u += LANES) {
		const uint64_t o = u / inner, at = o * n * inner + (u - o * inner);
		uint64_t best = 0;

		if (real) {
			float top = load_real(TYPE, a.x, at);

			for (uint64_t j = 1; j < n; j++) {
				const float x = load_real(TYPE, a.x, at + j * inner);
				const bool more = LEAST ? x < top : x > top;

				/* NaN beats all, and of several the first or last */
				if (top == top ? more || x != x || (LAST && x == top) :
				    LAST && x != x) {
					top = x;
					best = j;
				}
			}
		} else {
			int64_t top = load_int(TYPE, a.x, at);

			for (uint64_t j = 1; j < n; j++) {
				const int64_t x = load_int(TYPE, a.x, at + j * inner);
				const bool more = LEAST ? int_less(TYPE, x, top) :
							  int_less(TYPE, top, x);

				if (more || (LAST && x == top)) {
					top = x;
					best = j;
				}
			}
		}
		store_int(IDX_TYPE, a.idx, u, int64_t(best));
	}
}
