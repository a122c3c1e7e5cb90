// SPDX-License-Identifier: MIT
/* The upper or lower part of matrices (struct rlx_k_trilu). */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint SIZE = 4;
layout(constant_id = 2) const bool UPPER = true;

void main()
{
	trilu_t a = trilu_t(push.args);
	const int64_t each = a.rows * a.cols, n = a.batch * each;

	for (int64_t i = int64_t(LANE); i < n; i += int64_t(LANES)) {
		const int64_t at = i % each, row = at / a.cols, off = at - row * a.cols - row;

		if (UPPER ? off >= a.k : off <= a.k)
			move(SIZE, a.dst + uint64_t(i) * SIZE, a.src + uint64_t(i) * SIZE);
		else
			set_zero(SIZE, a.dst + uint64_t(i) * SIZE);
	}
}
