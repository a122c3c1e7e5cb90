/* SPDX-License-Identifier: MIT */
/*
 * Columns of a block (kernels/gpu/rows_plan.h): neighbouring threads have neighbouring vectors of
 * VEC columns each, COLS_ACROSS of them, and LANES threads share each vector.
 */
#ifndef RLX_G_COLUMNS_H
#define RLX_G_COLUMNS_H

#include "kernels/gpu/rows.h"

enum { COLS_ACROSS = COLS_THREADS / LANES, PIECE_ROWS = LANES * CHUNKS };

/*
 * What the threads of a vector of columns make of their values, in one fixed order; all get it.
 * First those of a warp, whose lanes COLS_ACROSS apart have the same vector, then in @smem,
 * COLS_THREADS * VEC floats, which may be used again at once.
 */
template <class OP, class T> static DEV inline void columns_meet(T (&v)[VEC], T *smem)
{
	const int across = COLS_ACROSS, rows = COLS_THREADS / (across < WARP ? WARP : across);
	const int row = across < WARP ? warp_id() : (int)threadIdx.x / across;
	T *at = smem + (int)threadIdx.x % across * VEC;

#pragma unroll
	for (int m = across; m < WARP; m *= 2)
#pragma unroll
		for (int i = 0; i < VEC; i++)
			v[i] = OP::of(v[i], warp_xor(v[i], m));
	if (rows == 1)
		return;
	if (across >= WARP || lane_id() < across)
#pragma unroll
		for (int i = 0; i < VEC; i++)
			at[row * across * VEC + i] = v[i];
	__syncthreads();
#pragma unroll
	for (int i = 0; i < VEC; i++)
		v[i] = at[i];
	for (int r = 1; r < rows; r++)
#pragma unroll
		for (int i = 0; i < VEC; i++)
			v[i] = OP::of(v[i], at[r * across * VEC + i]);
	__syncthreads();
}

#endif
