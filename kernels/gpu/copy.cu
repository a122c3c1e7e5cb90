// SPDX-License-Identifier: MIT
/*
 * Moving elements: strided copies, transposes, copies by tables of indices, triangles.
 *
 * Algorithm: copy, if neighbours in src are neighbours in dst, or nothing better is known: a thread
 * an element, whose place it works out by a division for each dimension (of 32 bits where that
 * does). Transposes (COPY_TILES): tiles of 32 x 32 through shared memory, so that both reads and
 * writes of a warp lie side by side; a line more of padding keeps columns to different banks.
 * index_copy has for each dimension a table of where to read, or none: the fill value. trilu keeps
 * a triangle and writes zeros beside it.
 * Tiles: 256 threads; a tile is four elements a thread. Traffic: each element read and written
 * once (index_copy: 8 bytes of tables for each dimension too, from caches). A warp's access is
 * 32 elements wide, however small they are.
 * Source: Ruetsch and Micikevicius, "Optimizing matrix transpose in CUDA" (2009).
 * Limits: elements of 1, 2, 4, 8 or 16 bytes (COPY_SIZE); src and dst do not overlap.
 */
#include "kernels/gpu/move.h"

typedef word<COPY_SIZE>::type elem;

#define TILE	32

#ifdef RLX_KERNEL_copy
#if COPY_TILES
/* The last two dimensions by tiles: src runs along the one before, dst along the last. */
RLX_G_KERNEL(copy, struct rlx_k_copy, 256)
{
	SHARED(elem, tile, [TILE][TILE + 1]);
	const elem *src = RLX_G_PTR(const elem, a.src);
	elem *dst = RLX_G_PTR(elem, a.dst);
	int last = a.rank - 1, d = last - 1, x = threadIdx.x % TILE, y = threadIdx.x / TILE;
	int64_t across = (a.dim[last] + TILE - 1) / TILE, down = (a.dim[d] + TILE - 1) / TILE;
	int64_t tiles = a.rows * across * down;

	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
		int64_t col, row, at = divide(t, across, &col), from = 0, to = 0;

		at = divide(at, down, &row);
		row *= TILE;
		col *= TILE;
		for (int k = d - 1; k >= 0; k--) {
			int64_t i;

			at = divide(at, a.dim[k], &i);
			from += i * a.src_stride[k];
			to += i * a.dst_stride[k];
		}
		for (int i = y; i < TILE; i += 256 / TILE)
			if (row + x < a.dim[d] && col + i < a.dim[last])
				tile[i][x] = src[from + (row + x) * a.src_stride[d] +
						 (col + i) * a.src_stride[last]];
		__syncthreads();
		for (int i = y; i < TILE; i += 256 / TILE)
			if (row + i < a.dim[d] && col + x < a.dim[last])
				dst[to + (row + i) * a.dst_stride[d] +
				    (col + x) * a.dst_stride[last]] = tile[x][i];
		__syncthreads();
	}
}
#else
RLX_G_KERNEL(copy, struct rlx_k_copy, 256)
{
	const elem *src = RLX_G_PTR(const elem, a.src);
	elem *dst = RLX_G_PTR(elem, a.dst);
	int64_t n = 1;

	for (int d = 0; d < a.rank; d++)
		n *= a.dim[d];
	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t at = i, from = 0, to = 0;

		for (int d = a.rank - 1; d >= 0; d--) {
			int64_t k;

			at = divide(at, a.dim[d], &k);
			from += k * a.src_stride[d];
			to += k * a.dst_stride[d];
		}
		dst[to] = src[from];
	}
}
#endif

#elif defined(RLX_KERNEL_index_copy)
RLX_G_KERNEL(index_copy, struct rlx_k_index_copy, 256)
{
	const elem *src = RLX_G_PTR(const elem, a.src);
	elem *dst = RLX_G_PTR(elem, a.dst);
	int64_t n = 1;

	for (int d = 0; d < a.rank; d++)
		n *= a.dim[d];
	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t at = i, from = 0;
		bool in = true;

		for (int d = a.rank - 1; d >= 0; d--) {
			int64_t k, t;

			at = divide(at, a.dim[d], &k);
			t = RLX_G_PTR(const int64_t, a.table[d])[k];
			in = in && t != RLX_K_NO_INDEX;
			from += in ? t : 0;
		}
		dst[i] = in ? src[from] : *RLX_G_PTR(const elem, a.fill);
	}
}

#else
RLX_G_KERNEL(trilu, struct rlx_k_trilu, 256)
{
	const elem *src = RLX_G_PTR(const elem, a.src);
	elem *dst = RLX_G_PTR(elem, a.dst);
	int64_t n = a.batch * a.rows * a.cols;

	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t col, row, rest = divide(i, a.cols, &col);

		divide(rest, a.rows, &row);
		if (a.upper ? col - row >= a.k : col - row <= a.k)
			dst[i] = src[i];
		else
			dst[i] = elem{};
	}
}
#endif
