// SPDX-License-Identifier: MIT
/*
 * Layer and RMS norm of x + residual + bias over rows (struct rlx_k_norm), a subgroup for
 * each. The row is read for the mean, for the variance and for the result, which may lie in
 * its place. The mean is that of what the first element is exceeded by, so that of equal ones
 * nothing is left.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "rows.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint X_TYPE = 2;
layout(constant_id = 2) const uint Y_TYPE = 2;
layout(constant_id = 3) const uint RESIDUAL_TYPE = 2;
layout(constant_id = 4) const uint PARAM_TYPE = 2;
layout(constant_id = 5) const bool RMS = false;

float value(const in norm_t a, const in uint64_t row, const in uint64_t j)
{
	float x = load_real(X_TYPE, a.x, row * uint64_t(a.n) + j);

	if (a.residual != 0)
		x += load_real(RESIDUAL_TYPE, a.residual, row * uint64_t(a.residual_stride) + j);
	if (a.bias != 0)
		x += load_real(PARAM_TYPE, a.bias, j);
	return x;
}

void main()
{
	norm_t a = norm_t(push.args);
	const uint64_t n = uint64_t(a.n);

	for (uint64_t row = GROUP; row < uint64_t(a.rows); row += GROUPS) {
		float mean = 0.0, sum = 0.0;

		if (!RMS) {
			const float first = value(a, row, 0);

			for (uint64_t j = THREAD; j < n; j += THREADS)
				sum += value(a, row, j) - first;
			mean = first + subgroupAdd(sum) / float(a.n);
			sum = 0.0;
		}
		for (uint64_t j = THREAD; j < n; j += THREADS) {
			const float x = value(a, row, j) - mean;

			sum += x * x;
		}

		const float inv = 1.0 / sqrt(subgroupAdd(sum) / float(a.n) + a.eps);

		for (uint64_t j = THREAD; j < n; j += THREADS) {
			const float x = value(a, row, j);
			float y = (x - mean) * inv;

			if (a.gamma != 0)
				y *= load_real(PARAM_TYPE, a.gamma, j);
			if (a.beta != 0)
				y += load_real(PARAM_TYPE, a.beta, j);
			if (a.sum != 0)
				store_real(X_TYPE, a.sum, row * n + j, x);
			store_real(Y_TYPE, a.y, row * n + j, y);
		}
		if (THREAD == 0 && a.mean != 0)
			f32_p(a.mean + row * 4).v = mean;
		if (THREAD == 0 && a.inv != 0)
			f32_p(a.inv + row * 4).v = inv;
	}
}
