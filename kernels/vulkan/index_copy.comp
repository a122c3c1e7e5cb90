// SPDX-License-Identifier: MIT
/* Elements by a table of offsets for each dimension (struct rlx_k_index_copy). */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint SIZE = 4;
layout(constant_id = 2) const uint RANK = 1;

void main()
{
	index_copy_t a = index_copy_t(push.args);
	int64_t n = 1;

	for (uint d = 0; d < RANK; d++)
		n *= a.dim[d];
	for (int64_t i = int64_t(LANE); i < n; i += int64_t(LANES)) {
		int64_t r = i, at = 0;
		bool none = false;

		for (uint d = RANK; d-- > 0;) {
			const int64_t q = d > 0 ? r / a.dim[d] : 0;
			const uint64_t entry = a.table[d] + uint64_t(r - q * a.dim[d]) * 8;
			const int64_t t = int64_t(u64_p(entry).v);

			none = none || t == int64_t(0x8000000000000000UL);
			at += t;
			r = q;
		}
		move(SIZE, a.dst + uint64_t(i) * SIZE, none ? a.fill : a.src + uint64_t(at) * SIZE);
	}
}
