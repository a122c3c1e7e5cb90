// SPDX-License-Identifier: MIT
/*
 * Rows of a group each, of which a thread keeps the first HELD quads of its own in registers, so
 * that passes over them read memory once; what a row has beyond is read in each pass. Of rows
 * of whole quads at aligned addresses a quad is one load, and else four elements that lie THREADS
 * apart, so that neighbours read neighbours.
 */
#include "rows.glsl"

layout(constant_id = 6) const uint HELD = 1;
layout(constant_id = 7) const bool WHOLE = false;	/* rows are of whole quads */
layout(constant_id = 8) const uint SUBGROUPS = 1;	/* in a group */

shared float held_parts[SUBGROUPS];

/* A sum over the group, whose threads all come here. */
float group_sum(const in float x)
{
	float r = subgroupAdd(x);

	if (SUBGROUPS == 1)
		return r;
	if (subgroupElect())
		held_parts[gl_SubgroupID] = r;
	barrier();
	r = 0.0;
	for (uint i = 0; i < SUBGROUPS; i++)
		r += held_parts[i];
	barrier();
	return r;
}

float group_max(const in float x)
{
	float r = row_max(x);

	if (SUBGROUPS == 1)
		return r;
	if (subgroupElect())
		held_parts[gl_SubgroupID] = r;
	barrier();
	r = held_parts[0];
	for (uint i = 1; i < SUBGROUPS; i++)
		r = max_nan(held_parts[i], r);
	barrier();
	return r;
}

/* Quads that the group's threads have each, the last ones of some being empty */
uint64_t held_quads(const in uint64_t n)
{
	return (n + 4 * THREADS - 1) / (4 * THREADS);
}

bool held_is_wide(const in uint64_t addresses)
{
	return WHOLE && (uint(addresses) & 15u) == 0;
}

/* Where element @e of this thread's quad @q is in the row */
uint64_t held_at(const in uint64_t q, const in uint e, const in bool wide)
{
	return wide ? (q * THREADS + THREAD) * 4 + e : (q * 4 + e) * THREADS + THREAD;
}

/* Quad @q of a row of @n at @base; beyond the row: @none */
vec4 held_load(const in uint type, const in uint64_t p, const in uint64_t base, const in uint64_t q,
	       const in uint64_t n, const in bool wide, const in float none)
{
	vec4 r = vec4(none);

	if (wide) {
		const uint64_t j = held_at(q, 0, true);

		if (j < n)
			r = load_real4(type, p, base + j);
	} else {
		[[unroll]] for (uint e = 0; e < 4; e++) {
			const uint64_t j = held_at(q, e, false);

			if (j < n)
				r[e] = load_real(type, p, base + j);
		}
	}
	return r;
}

void held_store(const in uint type, const in uint64_t p, const in uint64_t base,
		const in uint64_t q, const in uint64_t n, const in bool wide, const in vec4 x)
{
	if (wide) {
		const uint64_t j = held_at(q, 0, true);

		if (j < n)
			store_real4(type, p, base + j, x);
	} else {
		[[unroll]] for (uint e = 0; e < 4; e++) {
			const uint64_t j = held_at(q, e, false);

			if (j < n)
				store_real(type, p, base + j, x[e]);
		}
	}
}
