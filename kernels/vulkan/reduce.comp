// SPDX-License-Identifier: MIT
/*
 * Reductions over any axes (struct rlx_k_reduce): a subgroup for each result where the last
 * axis is one of them, else a thread. Sums of floats are made of parts of 64 terms, so that
 * their error stays small.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "rows.glsl"
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

float reduce_floats(const in reduce_t a, const in uint64_t base)
{
	const uint64_t n = uint64_t(a.n_red), by = SHARED ? THREADS : 1;
	float r = OP == MAX ? -INFINITY : OP == MIN ? INFINITY : OP == PROD ? 1.0 : 0.0, part = 0.0;
	uint count = 0;

	for (uint64_t j = SHARED ? THREAD : 0; j < n; j += by) {
		const float x = load_real(TYPE, a.x, base + offset(a, j, true));

		if (OP == MAX) {
			r = max_nan(x, r);
		} else if (OP == MIN) {
			r = min_nan(x, r);
		} else if (OP == PROD) {
			r *= x;
		} else {
			part += x;
			if (++count == 64) {
				r += part;
				part = 0.0;
				count = 0;
			}
		}
	}
	r = OP == SUM || OP == MEAN ? r + part : r;
	if (SHARED)
		r = OP == MAX ? row_max(r) : OP == MIN ? row_min(r) :
		    OP == PROD ? subgroupMul(r) : subgroupAdd(r);
	return OP == MEAN ? r / float(n) : r;
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

	for (uint64_t i = SHARED ? GROUP : LANE; i < uint64_t(a.n_out); i += step) {
		const uint64_t base = offset(a, i, false);

		if (real) {
			const float r = reduce_floats(a, base);

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
