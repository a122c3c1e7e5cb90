// SPDX-License-Identifier: MIT
/*
 * Reductions over any axes (struct rlx_k_reduce): a subgroup for each result where the last
 * axis is one of them, else a thread. Sums of floats are made of parts of 64 terms, so that
 * their error stays small. Where the last axis is the only one, floats are loaded by quads.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "held.glsl"
#include "integers.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint TYPE = 2;
layout(constant_id = 2) const uint OP = 0;	/* enum rlx_k_reduce_op */
layout(constant_id = 3) const uint RANK = 1;
layout(constant_id = 4) const uint AXES = 1;
layout(constant_id = 5) const bool SHARED = true;	/* by a subgroup */

const uint SUM = 0, MEAN = 1, MAX = 2, MIN = 3, PROD = 4;

/* The offset of index @i of those dimensions that are reduced, or of the others */
uint64_t offset(const in reduce_t a, const in uint64_t i, const in bool reduced)
{
	uint64_t r = i, at = 0, stride = 1;
	uint left = 0;

	[[unroll]] for (uint d = 0; d < RANK; d++)
		left += ((AXES >> d & 1) != 0) == reduced ? 1 : 0;
	[[unroll]] for (uint d = RANK; d-- > 0;) {
		const uint64_t dim = uint64_t(a.dim[d]);

		if (((AXES >> d & 1) != 0) == reduced) {
			left--;
			if (left == 0) {	/* the outermost: no division */
				at += r * stride;
				return at;
			}
			at += r % dim * stride;
			r /= dim;
		}
		stride *= dim;
	}
	return at;
}

float none()
{
	return OP == MAX ? -INFINITY : OP == MIN ? INFINITY : OP == PROD ? 1.0 : 0.0;
}

float join(const in float x, const in float r)
{
	return OP == MAX ? max_nan(x, r) : OP == MIN ? min_nan(x, r) : OP == PROD ? r * x : r + x;
}

vec4 join4(const in vec4 x, const in vec4 r)
{
	return vec4(join(x.x, r.x), join(x.y, r.y), join(x.z, r.z), join(x.w, r.w));
}

/* What the lanes of a subgroup have found out */
float join_lanes(const in float r)
{
	return OP == MAX ? row_max(r) : OP == MIN ? row_min(r) :
	       OP == PROD ? subgroupMul(r) : subgroupAdd(r);
}

/* By quads, HELD of which are loaded before any is used */
float reduce_quads(const in reduce_t a, const in uint64_t base, const in bool wide)
{
	const uint64_t n = uint64_t(a.n_red), quads = held_quads(n);
	vec4 r = vec4(none()), part = r, x[HELD];
	uint count = 0;

	for (uint64_t q = 0; q < quads; q += HELD) {
		[[unroll]] for (uint i = 0; i < HELD; i++)
			x[i] = held_load(TYPE, a.x, base, q + i, n, wide, none());
		[[unroll]] for (uint i = 0; i < HELD; i++)
			part = join4(x[i], part);
		count += HELD;
		if (count >= 64) {
			r = join4(part, r);
			part = vec4(none());
			count = 0;
		}
	}
	r = join4(part, r);
	return join(join(r.x, r.y), join(r.z, r.w));
}

float reduce_elements(const in reduce_t a, const in uint64_t base)
{
	const uint64_t n = uint64_t(a.n_red), by = SHARED ? THREADS : 1;
	float r = none(), part = r;
	uint count = 0;

	for (uint64_t j = SHARED ? THREAD : 0; j < n; j += by) {
		part = join(load_real(TYPE, a.x, base + offset(a, j, true)), part);
		if (++count == 64) {
			r = join(part, r);
			part = none();
			count = 0;
		}
	}
	return join(part, r);
}

float reduce_floats(const in reduce_t a, const in uint64_t base, const in bool wide)
{
	const bool by_quads = SHARED && AXES == 1u << (RANK - 1);
	float r = by_quads ? reduce_quads(a, base, wide) : reduce_elements(a, base);

	if (SHARED)
		r = join_lanes(r);
	return OP == MEAN ? r / float(a.n_red) : r;
}

int64_t reduce_ints(const in reduce_t a, const in uint64_t base)
{
	const uint64_t n = uint64_t(a.n_red), by = SHARED ? THREADS : 1;
	/* of no terms, for lanes that have none: the first one of all is as good */
	int64_t r = OP == MAX || OP == MIN ? load_int(TYPE, a.x, base) :
		    int64_t(OP == PROD ? 1 : 0);

	for (uint64_t j = SHARED ? THREAD : 0; j < n; j += by) {
		const int64_t x = load_int(TYPE, a.x, base + offset(a, j, true));

		if (OP == MAX)
			r = int_less(TYPE, r, x) ? x : r;
		else if (OP == MIN)
			r = int_less(TYPE, x, r) ? x : r;
		else if (OP == PROD)
			r *= x;
		else
			r += x;
	}
	return r;
}

void main()
{
	reduce_t a = reduce_t(push.args);
	const uint64_t step = SHARED ? GROUPS : LANES;
	const bool real = TYPE == F32 || TYPE == F16 || TYPE == BF16;
	const bool wide = held_is_wide(a.x);

	for (uint64_t i = SHARED ? GROUP : LANE; i < uint64_t(a.n_out); i += step) {
		const uint64_t base = offset(a, i, false);

		if (real) {
			const float r = reduce_floats(a, base, wide);

			if (!SHARED || THREAD == 0)
				store_real(TYPE, a.y, i, r);
		} else {
			int64_t r = reduce_ints(a, base);

			if (OP == MEAN)
				r = TYPE == U64 ? int64_t(uint64_t(r) / uint64_t(a.n_red)) :
				    r / a.n_red;
			store_int(TYPE, a.y, i, r);
		}
	}
}
