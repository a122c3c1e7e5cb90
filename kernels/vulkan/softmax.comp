// SPDX-License-Identifier: MIT
/*
 * Softmax and its logarithm along an axis (struct rlx_k_softmax): a subgroup for each row
 * where the axis is the last, else a thread for each column.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "math.glsl"
#include "rows.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint X_TYPE = 2;
layout(constant_id = 2) const uint Y_TYPE = 2;
layout(constant_id = 3) const bool LOG = false;
layout(constant_id = 4) const bool BY_ROWS = true;

void main()
{
	softmax_t a = softmax_t(push.args);
	const int64_t n = a.outer * a.inner, step = int64_t(BY_ROWS ? GROUPS : LANES);
	const uint64_t first = BY_ROWS ? uint64_t(THREAD) : 0UL, by = BY_ROWS ? THREADS : 1UL;

	for (int64_t i = int64_t(BY_ROWS ? GROUP : LANE); i < n; i += step) {
		const int64_t o = BY_ROWS ? i : i / a.inner, inner = BY_ROWS ? 1 : a.inner;
		const uint64_t at = uint64_t(o * a.n * inner + (BY_ROWS ? 0 : i - o * inner));
		float top = -INFINITY, sum = 0.0;

		for (uint64_t j = first; j < uint64_t(a.n); j += by)
			top = max_nan(load_real(X_TYPE, a.x, at + j * uint64_t(inner)), top);
		if (BY_ROWS)
			top = row_max(top);
		for (uint64_t j = first; j < uint64_t(a.n); j += by)
			sum += m_exp(load_real(X_TYPE, a.x, at + j * uint64_t(inner)) - top);
		if (BY_ROWS)
			sum = subgroupAdd(sum);

		const float scale = LOG ? m_log(sum) : 1.0 / sum;

		for (uint64_t j = first; j < uint64_t(a.n); j += by) {
			const uint64_t k = at + j * uint64_t(inner);
			const float x = load_real(X_TYPE, a.x, k) - top;

			store_real(Y_TYPE, a.y, k, LOG ? x - scale : m_exp(x) * scale);
		}
	}
}
