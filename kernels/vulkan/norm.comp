// SPDX-License-Identifier: MIT
/*
 * Layer and RMS norm of x + residual + bias over rows (struct rlx_k_norm), a group for each.
 * The row is read for the mean, for the variance and for the result, which may lie in its place.
 * The mean is that of what the first element is exceeded by, so that of equal ones nothing is
 * left.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "held.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint X_TYPE = 2;
layout(constant_id = 2) const uint Y_TYPE = 2;
layout(constant_id = 3) const uint RESIDUAL_TYPE = 2;
layout(constant_id = 4) const uint PARAM_TYPE = 2;
layout(constant_id = 5) const bool RMS = false;

float first_of(const in norm_t a, const in uint64_t row)
{
	float x = load_real(X_TYPE, a.x, row * uint64_t(a.n));

	if (a.residual != 0)
		x += load_real(RESIDUAL_TYPE, a.residual, row * uint64_t(a.residual_stride));
	if (a.bias != 0)
		x += load_real(PARAM_TYPE, a.bias, 0);
	return x;
}

vec4 value(const in norm_t a, const in uint64_t row, const in uint64_t q, const in bool wide)
{
	const uint64_t n = uint64_t(a.n);
	vec4 x = held_load(X_TYPE, a.x, row * n, q, n, wide, 0.0);

	if (a.residual != 0)
		x += held_load(RESIDUAL_TYPE, a.residual, row * uint64_t(a.residual_stride), q, n,
			       wide, 0.0);
	if (a.bias != 0)
		x += held_load(PARAM_TYPE, a.bias, 0, q, n, wide, 0.0);
	return x;
}

/* The sum of what exceeds @by, or of its squares */
float sum_of(const in vec4 x, const in float by, const in uint64_t q, const in uint64_t n,
	     const in bool wide, const in bool squares)
{
	const vec4 d = x - by, r = squares ? d * d : d;
	float sum = 0.0;

	[[unroll]] for (uint e = 0; e < 4; e++)
		sum += held_at(q, e, wide) < n ? r[e] : 0.0;
	return sum;
}

/* @how: the mean, and the inverse deviation */
void put(const in norm_t a, const in uint64_t row, const in uint64_t q, const in bool wide,
	 const in vec4 x, const in vec2 how)
{
	const uint64_t n = uint64_t(a.n);
	vec4 y = (x - how[0]) * how[1];

	if (a.gamma != 0)
		y *= held_load(PARAM_TYPE, a.gamma, 0, q, n, wide, 1.0);
	if (a.beta != 0)
		y += held_load(PARAM_TYPE, a.beta, 0, q, n, wide, 0.0);
	if (a.sum != 0)
		held_store(X_TYPE, a.sum, row * n, q, n, wide, x);
	held_store(Y_TYPE, a.y, row * n, q, n, wide, y);
}

void put_row(const in norm_t a, const in uint64_t row, const in bool wide)
{
	const uint64_t n = uint64_t(a.n), quads = held_quads(n);
	float mean = 0.0, sum = 0.0;
	vec4 x[HELD];

	[[unroll]] for (uint q = 0; q < HELD; q++)
		x[q] = value(a, row, q, wide);
	if (!RMS) {
		const float first = first_of(a, row);

		[[unroll]] for (uint q = 0; q < HELD; q++)
			sum += sum_of(x[q], first, q, n, wide, false);
		for (uint64_t q = HELD; q < quads; q++)
			sum += sum_of(value(a, row, q, wide), first, q, n, wide, false);
		mean = first + group_sum(sum) / float(a.n);
		sum = 0.0;
	}
	[[unroll]] for (uint q = 0; q < HELD; q++)
		sum += sum_of(x[q], mean, q, n, wide, true);
	for (uint64_t q = HELD; q < quads; q++)
		sum += sum_of(value(a, row, q, wide), mean, q, n, wide, true);

	const float inv = 1.0 / sqrt(group_sum(sum) / float(a.n) + a.eps);

	[[unroll]] for (uint q = 0; q < HELD; q++)
		put(a, row, q, wide, x[q], vec2(mean, inv));
	for (uint64_t q = HELD; q < quads; q++)
		put(a, row, q, wide, value(a, row, q, wide), vec2(mean, inv));
	if (THREAD == 0 && a.mean != 0)
		f32_p(a.mean + row * 4).v = mean;
	if (THREAD == 0 && a.inv != 0)
		f32_p(a.inv + row * 4).v = inv;
}

void main()
{
	norm_t a = norm_t(push.args);
	const bool wide = held_is_wide(a.x | a.residual | uint64_t(a.residual_stride % 4) | a.bias |
				       a.gamma | a.beta | a.y | a.sum);

	for (uint64_t row = GROUP; row < uint64_t(a.rows); row += GROUPS)
		put_row(a, row, wide);
}
