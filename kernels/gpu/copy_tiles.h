/* SPDX-License-Identifier: MIT */
/*
 * Transposes by tiles in shared memory; a part of copy.cu, whose elem is an element.
 *
 * Algorithm: src is contiguous along one dimension, dst along another. One of them, the shorter, is
 * that of the tile's rows in shared memory: whole where it has room, however short (the 9 taps of
 * a filter, the 49 places of an image), and lines of the other one as many as a warp is wide, or
 * more. On the side that is contiguous along rows a block reads (COPY_FORM 2) or writes (3) row
 * after row, which is one piece of memory where rows follow each other; on the other one it reads
 * or writes lines across them, 128 bytes or more each. Both by words of 4 bytes, two or four
 * elements, where addresses and lengths allow, else by elements. The pitch of rows is odd, in
 * elements: so words of a line, taken element by element, are in all 32 banks.
 * Tiles: 256 threads, 4 words of each under way; tiles up to 16 KiB, 32 KiB for long rows
 * (kernels/cpu/copy_plan.c). Traffic: each element read and written once. A word costs about
 * 40 instructions of a thread, a little over half of what an H100 has at its memory's rate.
 * Source: Ruetsch and Micikevicius, "Optimizing matrix transpose in CUDA" (2009).
 * Limits: a tile's rows are of one dimension, so where that is short and rows are not near each
 * other in src (weights [o, i, 9] to [9, i, o]) sectors are read in part, and again from the L2.
 */
#ifndef RLX_G_COPY_TILES_H
#define RLX_G_COPY_TILES_H

#include "kernels/gpu/move.h"

enum { COPY_AHEAD = 4, COPY_PACK = COPY_SIZE < 4 ? 4 / COPY_SIZE : 1 };

/**
 * struct copy_tile - a tile
 * @lines, @row: elements of it; @pitch: of shared memory from a row to the next
 * @most: elements of a row that other tiles have; @by: divides by it
 * @row_stride, @line_stride: elements, on the side of rows and on that of lines
 */
struct copy_tile {
	uint32_t		lines, row, pitch, most, shift;
	struct rlx_k_divisor	by;
	int64_t			row_stride, line_stride;
};

/* Word @i of @W elements, counted along rows: where it is, and whether it is in the tile. */
template <int W>
static DEV inline bool row_word(const struct copy_tile &t, uint32_t i, int64_t *at,
				uint32_t *shared, uint32_t *col)
{
	uint32_t e = i * W, line = ((uint32_t)((uint64_t)e * t.by.mul >> 32) + e) >> t.by.shift;

	*col = e - line * t.most;
	*shared = line * t.pitch + *col;
	*at = (int64_t)line * t.row_stride + *col;
	return line < t.lines && *col < t.row;
}

/* Element @k of a word is in the next row, where rows follow each other. */
static DEV inline uint32_t next_row(const struct copy_tile &t, uint32_t col, int k)
{
	return COPY_PACK > 2 && col + (uint32_t)k >= t.most ? t.pitch - t.most : 0;
}

/* The same, counted along lines. */
template <int W>
static DEV inline bool line_word(const struct copy_tile &t, uint32_t i, int64_t *at,
				 uint32_t *shared)
{
	uint32_t col = i >> t.shift, line = (i & ((1u << t.shift) - 1)) * W;

	*shared = line * t.pitch + col;
	*at = (int64_t)col * t.line_stride + line;
	return line < t.lines && col < t.row;
}

/* Words of both kinds, from memory to shared memory (@TO) or back. */
template <int W, bool ROWS, bool TO>
static DEV inline void move_words(const struct copy_tile &t, elem *tile, elem *p)
{
	typedef typename word<W * COPY_SIZE>::type vec;
	struct vec_elems { elem e[W]; };
	uint32_t shift = t.shift - (W == 4 ? 2 : W == 2 ? 1 : 0), step = ROWS ? 1 : t.pitch;
	uint32_t n = ROWS ? (t.lines * t.most + W - 1) / W : t.row << shift;
	struct copy_tile own = t;

	own.shift = shift;
	for (uint32_t i = threadIdx.x; i < n; i += COPY_AHEAD * 256) {
		uint32_t shared[COPY_AHEAD], col[COPY_AHEAD] = {};
		int64_t at[COPY_AHEAD];
		bool in[COPY_AHEAD];
		vec v[COPY_AHEAD];

#pragma unroll
		for (int k = 0; k < COPY_AHEAD; k++) {
			in[k] = ROWS ? row_word<W>(own, i + k * 256u, &at[k], &shared[k], &col[k]) :
				       line_word<W>(own, i + k * 256u, &at[k], &shared[k]);
			if (TO)		/* a tile has a first word: no branch */
				v[k] = *(const vec *)(p + (in[k] ? at[k] : 0));
		}
#pragma unroll
		for (int k = 0; k < COPY_AHEAD; k++) {
			vec_elems e;

			if (!in[k])
				continue;
			if (TO)
				memcpy(&e, &v[k], sizeof(e));
			for (int j = 0; j < W; j++) {
				uint32_t s = shared[k] + j * step +
					     (ROWS ? next_row(t, col[k], j) : 0);

				if (TO)
					tile[s] = e.e[j];
				else
					e.e[j] = tile[s];
			}
			if (!TO) {
				memcpy(&v[k], &e, sizeof(e));
				*(vec *)(p + at[k]) = v[k];
			}
		}
	}
}

/* All of a tile; words do where none is cut and all are aligned. */
template <bool ROWS, bool TO>
static DEV inline void move_tile(const struct copy_tile &t, elem *tile, elem *p)
{
	bool one_piece = t.row_stride == t.most && t.row == t.most;
	uint32_t cut = !ROWS ? t.lines | (uint32_t)t.line_stride :
		       one_piece ? t.lines * t.row : t.row | t.most | (uint32_t)t.row_stride;

	if (COPY_PACK > 1 && (cut | (uint32_t)((uint64_t)p / COPY_SIZE)) % COPY_PACK == 0)
		move_words<COPY_PACK, ROWS, TO>(t, tile, p);
	else
		move_words<1, ROWS, TO>(t, tile, p);
}

/* Tile @i, and where it begins on both sides. */
static DEV inline struct copy_tile copy_tile_of(const struct rlx_k_copy &a, int64_t i,
						int64_t *from, int64_t *to)
{
	const bool reads = COPY_FORM == RLX_K_COPY_READ_ROWS;
	int last = a.rank - 1, row = reads ? a.src_dim : last, line = reads ? last : a.src_dim;
	int64_t most = 1ll << a.tile_shift, across = (a.dim[line] + most - 1) >> a.tile_shift;
	int64_t l, r, k, at = divide(i, across, &l);
	struct copy_tile t;

	at = divide(at, (a.dim[row] + a.tile - 1) / a.tile, &r);
	l <<= a.tile_shift;
	r *= a.tile;
	t.lines = (uint32_t)(a.dim[line] - l < most ? a.dim[line] - l : most);
	t.row = (uint32_t)(a.dim[row] - r < a.tile ? a.dim[row] - r : a.tile);
	t.most = (uint32_t)a.tile;
	t.pitch = t.most | 1;
	t.shift = a.tile_shift;
	t.by = a.by_tile;
	t.row_stride = reads ? a.src_stride[line] : a.dst_stride[line];
	t.line_stride = reads ? a.dst_stride[row] : a.src_stride[row];
	*from = l * a.src_stride[line] + r * a.src_stride[row];
	*to = l * a.dst_stride[line] + r * a.dst_stride[row];
	for (int d = last - 1; d >= 0; d--)
		if (d != a.src_dim) {
			at = divide(at, a.dim[d], &k);
			*from += k * a.src_stride[d];
			*to += k * a.dst_stride[d];
		}
	return t;
}

static DEV inline void copy_tiles(const struct rlx_k_copy &a, const elem *src, elem *dst,
				  elem *tile)
{
	const bool reads = COPY_FORM == RLX_K_COPY_READ_ROWS;
	int row = reads ? a.src_dim : a.rank - 1, line = reads ? a.rank - 1 : a.src_dim;
	int64_t n = rlx_k_copy_tiles(&a, 1ll << a.tile_shift, a.tile, row, line);

	for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
		int64_t from, to;
		struct copy_tile t = copy_tile_of(a, i, &from, &to);

		/* read here, for all that the type says */
		move_tile<reads, true>(t, tile, (elem *)src + from);
		__syncthreads();
		move_tile<!reads, false>(t, tile, dst + to);
		__syncthreads();
	}
}

#endif
