/* SPDX-License-Identifier: MIT */
/*
 * A row in the registers of LANES threads (kernels/gpu/rows_plan.h): loads and stores by vectors,
 * and what a row's threads find out together.
 *
 * No access has a tail by elements: VEC divides the row's length and all its addresses, as the
 * launch saw to; what is beyond the end is left out of the last chunk alone. Loads of a row stand
 * before anything that waits for one, so all of them are under way at a time.
 */
#ifndef RLX_G_ROWS_H
#define RLX_G_ROWS_H

#include "kernels/gpu/dialect.h"
#include "kernels/gpu/rows_plan.h"

enum {
	LANES	= ROWS_LANES(ROWS_SHARE),	/* a ROWS_KEY(), by who includes this */
	VEC	= ROWS_VEC(ROWS_SHARE),
	CHUNKS	= ROWS_CHUNKS(ROWS_SHARE),
	PIECES	= ROWS_PIECES(ROWS_SHARE),
	THREADS	= ROWS_THREADS(ROWS_SHARE),
	GROUPS	= THREADS / LANES,		/* rows of a block at a time */
	PIECE	= LANES * VEC * CHUNKS,
};

/* Elements as they lie in memory: one access, or two of 16 bytes. */
template <class M> struct alignas(sizeof(M) * VEC < 16 ? sizeof(M) * VEC : 16) row_vec {
	M	v[VEC];
};

/* What a thread has of @n elements of a row, or of a piece of one. */
struct row_part {
	int	n, lane;

	DEV int at(int c) const { return (c * LANES + lane) * VEC; }
	DEV bool has(int c) const { return (!PIECES && c < CHUNKS - 1) || at(c) < n; }

	/* How many elements */
	DEV int count(void) const
	{
		int sum = 0;

#pragma unroll
		for (int c = 0; c < CHUNKS; c++)
			sum += has(c) ? (int)VEC : 0;
		return sum;
	}

	/* Of the row at @p, if @in; else zeros */
	template <class M> DEV void load(const M *p, bool in, row_vec<M> (&x)[CHUNKS]) const
	{
#pragma unroll
		for (int c = 0; c < CHUNKS; c++)
			if (in && has(c))
				x[c] = *(const row_vec<M> *)(p + at(c));
			else
				x[c] = {};
	}

	/* v by @T's conversion to chunk @c of the row at @p */
	template <class T> DEV void store(typename T::mem *p, bool in, int c,
					  const float (&v)[VEC]) const
	{
		row_vec<typename T::mem> x;

#pragma unroll
		for (int i = 0; i < VEC; i++)
			x.v[i] = T::put(v[i]);
		if (in && has(c))
			*(row_vec<typename T::mem> *)(p + at(c)) = x;
	}
};

template <class T> static DEV inline void row_get(const row_vec<typename T::mem> (&x)[CHUNKS],
						  float (&v)[CHUNKS][VEC])
{
#pragma unroll
	for (int c = 0; c < CHUNKS; c++)
#pragma unroll
		for (int i = 0; i < VEC; i++)
			v[c][i] = (float)T::get(x[c].v[i]);
}

template <class T> static DEV inline void row_add(const row_vec<typename T::mem> (&x)[CHUNKS],
						  float (&v)[CHUNKS][VEC])
{
#pragma unroll
	for (int c = 0; c < CHUNKS; c++)
#pragma unroll
		for (int i = 0; i < VEC; i++)
			v[c][i] += (float)T::get(x[c].v[i]);
}

/*
 * What the threads of a row make of a value each, in one fixed order; all get it. A block
 * has one barrier for it: the next one uses the other half of @smem.
 */
template <class T> struct row_meeting {
	T	(*smem)[MAX_WARPS];
	int	turn;

	template <class OP> DEV T of(T v)
	{
		const int warps = LANES / WARP;
		T *at = smem[turn];

#pragma unroll
		for (int m = (LANES < WARP ? (int)LANES : WARP) / 2; m; m /= 2)
			v = OP::of(v, warp_xor(v, m));
		if (warps <= 1)
			return v;
		turn ^= 1;
		if (lane_id() == 0)
			at[warp_id()] = v;
		__syncthreads();
		v = at[0];
#pragma unroll
		for (int i = 1; i < warps; i++)
			v = OP::of(v, at[i]);
		return v;
	}
};

#endif
