/* SPDX-License-Identifier: MIT */
/*
 * What a step of a recurrence takes of memory: where it is, and a thread's N states @E that lie
 * side by side, VEC of them in an access, which divides all addresses as the launch saw to.
 *
 * Of few steps a block's time is the latency of its loads, so nothing here branches or waits:
 * what is asked for in a row is under way at once.
 */
#ifndef RLX_G_SSM_STATES_H
#define RLX_G_SSM_STATES_H

#include "kernels/gpu/dialect.h"

/* As RLX_G_PTR(). */
template <class T> static DEV inline T *ssm_ptr(const void *p, const struct rlx_g_env &env)
{
	const uint64_t u = (uint64_t)p;
	const bool in = u & RLX_G_INDIRECT;
	const uint64_t base = load_if(env.table + (in ? (u >> 48) & 0x7fff : 0), in);

	return (T *)(base + (in ? u & 0xffffffffffff : u));
}

template <class E, int N, int VEC> struct ssm_states {
	typedef typename E::mem mem;
	typedef typename E::acc num;

	struct alignas(sizeof(mem) * VEC) vec {
		mem	v[VEC];
	};

	vec	part[N / VEC];

	/* @count of them from @p on; zeros behind these. */
	DEV inline void load(const mem *p, int count)
	{
#pragma unroll
		for (int j = 0; j < N; j += VEC)
			part[j / VEC] = load_or((const vec *)p + j / VEC, j < count, 0);
	}

	DEV inline num get(int j) const
	{
		return E::get(part[j / VEC].v[j % VEC]);
	}

	DEV inline void put(int j, num x)
	{
		part[j / VEC].v[j % VEC] = E::put(x);
	}

	DEV inline void store(mem *p, int count) const
	{
#pragma unroll
		for (int j = 0; j < N; j += VEC)
			if (j < count)
				((vec *)p)[j / VEC] = part[j / VEC];
	}
};

#endif
