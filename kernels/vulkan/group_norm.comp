// SPDX-License-Identifier: MIT
/* Group and instance norm (struct rlx_k_group_norm), a subgroup for each group of channels. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "rows.glsl"
#include "args.glsl"

void main()
{
	group_norm_t a = group_norm_t(push.args);
	const uint64_t channels = uint64_t(a.channels / a.groups), n = channels * uint64_t(a.inner);
	const uint64_t units = uint64_t(a.batch * a.groups);

	for (uint64_t u = GROUP; u < units; u += GROUPS) {
		const uint64_t x = a.x + u * n * 4, y = a.y + u * n * 4;
		const uint64_t first = (u % uint64_t(a.groups)) * channels;
		const float start = f32_p(x).v;		/* of equal values nothing is left */
		float sum = 0.0, mean;

		for (uint64_t j = THREAD; j < n; j += THREADS)
			sum += f32_p(x + j * 4).v - start;
		mean = start + subgroupAdd(sum) / float(n);
		sum = 0.0;
		for (uint64_t j = THREAD; j < n; j += THREADS) {
			const float v = f32_p(x + j * 4).v - mean;

			sum += v * v;
		}

		const float inv = 1.0 / sqrt(subgroupAdd(sum) / float(n) + a.eps);

		for (uint64_t c = 0; c < channels; c++) {
			const float scale = a.gamma != 0 ? f32_p(a.gamma + (first + c) * 4).v : 1.0;
			const float shift = a.beta != 0 ? f32_p(a.beta + (first + c) * 4).v : 0.0;

			for (uint64_t j = THREAD; j < uint64_t(a.inner); j += THREADS) {
				const uint64_t at = (c * uint64_t(a.inner) + j) * 4;

				f32_p(y + at).v = (f32_p(x + at).v - mean) * inv * scale + shift;
			}
		}
	}
}
