// SPDX-License-Identifier: MIT
/*
 * The K best along an axis in order (struct rlx_k_topk): a thread a line, which it reads once
 * for each, looking for the next behind the last. For short lines, or few of long ones.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "integers.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint TYPE = 2;
layout(constant_id = 2) const uint SIZE = 4;
layout(constant_id = 3) const uint IDX_TYPE = 7;
layout(constant_id = 4) const bool SMALLEST = false;

/* A key in the order of the numbers: NaN above all, -0 as 0 */
int64_t key(const in uint64_t p, const in uint64_t i)
{
	int64_t k;

	if (TYPE == F32 || TYPE == F16 || TYPE == BF16) {
		const float x = load_real(TYPE, p, i);
		const uint u = floatBitsToUint(x == 0.0 ? 0.0 : x);

		k = x != x ? widen(0x7fffffff) :
		    widen((u >> 31) != 0 ? -int(u & 0x7fffffffu) : int(u));
	} else {
		k = load_int(TYPE, p, i);
		if (TYPE == U64)
			k = int64_t(uint64_t(k) ^ 0x8000000000000000UL);
	}
	return SMALLEST ? ~k : k;
}

void main()
{
	topk_t a = topk_t(push.args);
	const uint64_t n = uint64_t(a.n), inner = uint64_t(a.inner);

	for (uint64_t u = LANE; u < uint64_t(a.outer) * inner; u += LANES) {
		const uint64_t o = u / inner, j = u - o * inner, at = o * n * inner + j;
		int64_t last = int64_t(0x7fffffffffffffffUL), behind = -1;

		for (uint64_t r = 0; r < uint64_t(a.k); r++) {
			int64_t best = int64_t(0x8000000000000000UL), where = -1;
			const uint64_t to = (o * uint64_t(a.k) + r) * inner + j;

			for (uint64_t i = 0; i < n; i++) {
				const int64_t k = key(a.x, at + i * inner);

				/* behind the last one in order, and before all others */
				if ((k < last || (k == last && int64_t(i) > behind)) &&
				    (where < 0 || k > best)) {
					best = k;
					where = int64_t(i);
				}
			}
			/* x may have changed, and none be behind the last */
			where = max(where, int64_t(0));
			last = best;
			behind = where;
			if (a.values != 0)
				move(SIZE, a.values + to * SIZE,
				     a.x + (at + uint64_t(where) * inner) * SIZE);
			if (a.idx != 0)
				store_int(IDX_TYPE, a.idx, to, where);
		}
	}
}
