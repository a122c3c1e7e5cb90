// SPDX-License-Identifier: MIT
/*
 * Softmax and its logarithm along an axis (struct rlx_k_softmax): a group for each row where
 * the axis is the last, else a thread for each column.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "math.glsl"
#include "held.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint X_TYPE = 2;
layout(constant_id = 2) const uint Y_TYPE = 2;
layout(constant_id = 3) const bool LOG = false;
layout(constant_id = 4) const bool BY_ROWS = true;

vec4 exp4(const in vec4 x) { return vec4(m_exp(x.x), m_exp(x.y), m_exp(x.z), m_exp(x.w)); }
float sum4(const in vec4 x) { return (x.x + x.y) + (x.z + x.w); }
float max4(const in vec4 x) { return max_nan(max_nan(x.x, x.y), max_nan(x.z, x.w)); }

/* Of x less the row's largest, and of its exponential */
vec4 result(const in vec4 x, const in vec4 e, const in float scale)
{
	return LOG ? x - scale : e * scale;
}

void put_row(const in softmax_t a, const in uint64_t base, const in bool wide)
{
	const uint64_t n = uint64_t(a.n), quads = held_quads(n);
	float top = -INFINITY, sum = 0.0;
	vec4 x[HELD];

	[[unroll]] for (uint q = 0; q < HELD; q++)
		x[q] = held_load(X_TYPE, a.x, base, q, n, wide, -INFINITY);
	[[unroll]] for (uint q = 0; q < HELD; q++)
		top = max_nan(max4(x[q]), top);
	for (uint64_t q = HELD; q < quads; q++)
		top = max_nan(max4(held_load(X_TYPE, a.x, base, q, n, wide, -INFINITY)), top);
	top = group_max(top);
	[[unroll]] for (uint q = 0; q < HELD; q++) {
		const vec4 e = exp4(x[q] - top);

		/* of what is no element: -inf less -inf is NaN */
		[[unroll]] for (uint i = 0; i < 4; i++)
			sum += held_at(q, i, wide) < n ? e[i] : 0.0;
		x[q] = LOG ? x[q] - top : e;
	}
	for (uint64_t q = HELD; q < quads; q++) {
		const vec4 e = exp4(held_load(X_TYPE, a.x, base, q, n, wide, -INFINITY) - top);

		[[unroll]] for (uint i = 0; i < 4; i++)
			sum += held_at(q, i, wide) < n ? e[i] : 0.0;
	}
	sum = group_sum(sum);

	const float scale = LOG ? m_log(sum) : 1.0 / sum;

	[[unroll]] for (uint q = 0; q < HELD; q++)
		held_store(Y_TYPE, a.y, base, q, n, wide, result(x[q], x[q], scale));
	for (uint64_t q = HELD; q < quads; q++) {
		const vec4 r = held_load(X_TYPE, a.x, base, q, n, wide, -INFINITY) - top;

		held_store(Y_TYPE, a.y, base, q, n, wide, result(r, exp4(r), scale));
	}
}

void put_column(const in softmax_t a, const in uint64_t at)
{
	const uint64_t inner = uint64_t(a.inner), end = at + uint64_t(a.n) * inner;
	float top = -INFINITY, sum = 0.0;

	for (uint64_t k = at; k < end; k += inner)
		top = max_nan(load_real(X_TYPE, a.x, k), top);
	for (uint64_t k = at; k < end; k += inner)
		sum += m_exp(load_real(X_TYPE, a.x, k) - top);

	const float scale = LOG ? m_log(sum) : 1.0 / sum;

	for (uint64_t k = at; k < end; k += inner) {
		const float x = load_real(X_TYPE, a.x, k) - top;

		store_real(Y_TYPE, a.y, k, LOG ? x - scale : m_exp(x) * scale);
	}
}

void main()
{
	softmax_t a = softmax_t(push.args);
	const uint64_t inner = uint64_t(a.inner);

	if (BY_ROWS) {
		const bool wide = held_is_wide(a.x | a.y);

		for (uint64_t i = GROUP; i < uint64_t(a.outer); i += GROUPS)
			put_row(a, i * uint64_t(a.n), wide);
	} else {
		for (uint64_t i = LANE; i < uint64_t(a.outer) * inner; i += LANES)
			put_column(a, i / inner * uint64_t(a.n) * inner + i % inner);
	}
}
