// SPDX-License-Identifier: MIT
/* Bytes become 0 (struct rlx_k_zero, and how many of them behind it). */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "args.glsl"

void main()
{
	const uint64_t to = zero_t(push.args).dst, n = u64_p(push.args + 8).v;

	for (uint64_t i = LANE; i < n; i += LANES)
		u8_p(to + i).v = uint8_t(0);
}
