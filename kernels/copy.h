/* SPDX-License-Identifier: MIT */
/* Strided copies: arguments, and what is planned of them for CPUs and for GPUs. */
#ifndef RLX_K_COPY_H
#define RLX_K_COPY_H

#include "kernels/type.h"

/* x / d = ((x * mul >> 32) + x) >> shift, for x < 2^31 */
struct rlx_k_divisor {
	uint32_t	mul, shift;
};

/*
 * Kernel: copy. dst[sum i_d * dst_stride_d] = src[sum i_d * src_stride_d] over
 * all i < dim. Strides are in elements, may be negative (src and dst then point
 * at the element with index 0), src strides may be 0. It is transpose, slice,
 * expand, tile ([rep, n] with source stride 0), concat (one copy a piece), pad
 * with a constant (one fill, one copy) and fill (all source strides 0).
 * Fill the upper members, call rlx_k_copy_plan once; afterwards only the
 * pointers may change. One unit is about 16 KiB; there are rlx_k_copy_units().
 * Scratch: 0. src and dst do not overlap.
 */
struct rlx_k_copy {
	const void	*src;
	void		*dst;
	int		rank;
	int64_t		dim[RLX_K_DIMS];
	int64_t		src_stride[RLX_K_DIMS], dst_stride[RLX_K_DIMS];
	uint8_t		size;		/* bytes an element: 1 2 4 8 16 */
	/* set by rlx_k_copy_plan */
	uint8_t		mode;
	int64_t		rows, per, pieces;
	/* and for GPUs (kernels/gpu/copy.cu) */
	uint8_t		form;		/* enum rlx_k_copy_form */
	uint8_t		src_dim;	/* of tiles: along which src is contiguous */
	uint8_t		tile_shift;	/* a tile has 1 << that elements of the other dimension */
	bool		narrow;		/* 31 bits hold every offset in bytes */
	int32_t		tile;		/* elements of the dimension that lies in shared memory */
	struct rlx_k_divisor by_tile, by_row;	/* by_row: the last dimension's bytes */
	struct rlx_k_divisor by[RLX_K_DIMS];
};

/*
 * What GPUs do: words side by side in dst, wherever they are in src; one element many times; tiles
 * through shared memory, whose rows are pieces of src's rows, or of dst's.
 */
enum rlx_k_copy_form {
	RLX_K_COPY_WORDS,
	RLX_K_COPY_FILL,
	RLX_K_COPY_READ_ROWS,
	RLX_K_COPY_WRITE_ROWS,
};

enum { RLX_COPY_ROWS, RLX_COPY_TILES, RLX_COPY_STRIDED };
enum { RLX_COPY_UNIT = 16384 };

static inline int64_t rlx_k_abs64(int64_t x)
{
	return x < 0 ? -x : x;
}

static inline void rlx_k_copy_swap(struct rlx_k_copy *a, int i, int j)
{
	int64_t d = a->dim[i], s = a->src_stride[i], t = a->dst_stride[i];

	a->dim[i] = a->dim[j];
	a->src_stride[i] = a->src_stride[j];
	a->dst_stride[i] = a->dst_stride[j];
	a->dim[j] = d;
	a->src_stride[j] = s;
	a->dst_stride[j] = t;
}

/* Outermost the dimension with the longest stride in dst; then merge. */
static inline void rlx_k_copy_order(struct rlx_k_copy *a)
{
	int64_t stride[2][RLX_K_DIMS];

	for (int i = 1; i < a->rank; i++)
		for (int j = i; j > 0 && rlx_k_abs64(a->dst_stride[j - 1]) <
					 rlx_k_abs64(a->dst_stride[j]); j--)
			rlx_k_copy_swap(a, j, j - 1);
	for (int d = 0; d < a->rank; d++) {
		stride[0][d] = a->src_stride[d];
		stride[1][d] = a->dst_stride[d];
	}
	a->rank = rlx_k_collapse(a->rank, a->dim, 2, stride);
	for (int d = 0; d < a->rank; d++) {
		a->src_stride[d] = stride[0][d];
		a->dst_stride[d] = stride[1][d];
	}
}

static inline void rlx_k_copy_plan_units(struct rlx_k_copy *a)
{
	int64_t inner, most = RLX_COPY_UNIT / a->size;
	int last = a->rank - 1;

	a->mode = a->src_stride[last] == 1 && a->dst_stride[last] == 1 ?
		  RLX_COPY_ROWS : RLX_COPY_STRIDED;
	for (int d = 0; d < last; d++)
		if (a->src_stride[d] == 1 && a->dst_stride[last] == 1 &&
		    a->dim[d] >= 4 && a->dim[last] >= 4 && a->size < 16 &&
		    a->src_stride[last] != 0) {
			for (int j = d; j < last - 1; j++)
				rlx_k_copy_swap(a, j, j + 1);
			a->mode = RLX_COPY_TILES;
			break;
		}
	inner = a->dim[last];
	a->rows = 1;
	for (int d = 0; d < last - (a->mode == RLX_COPY_TILES); d++)
		a->rows *= a->dim[d];
	a->pieces = 1;
	if (inner == 0 || a->rows == 0) {
		a->rows = 0;
		a->per = 1;
	} else if (a->mode == RLX_COPY_TILES) {
		/* per: rows of the tiled dimension, whole tiles */
		a->per = (most / inner + 16) / 16 * 16;
		a->pieces = (a->dim[last - 1] + a->per - 1) / a->per;
	} else if (inner > 2 * most) {
		a->per = most;	/* elements of a piece of one row */
		a->pieces = (inner + most - 1) / most;
	} else {
		a->per = most / inner > 0 ? most / inner : 1; /* whole rows */
	}
}

/* @d from 1 to 2^31 */
static inline struct rlx_k_divisor rlx_k_divide_by(int64_t d)
{
	struct rlx_k_divisor by = { 0, 0 };

	while ((int64_t)1 << by.shift < d)
		by.shift++;
	by.mul = (uint32_t)(((((uint64_t)1 << by.shift) - (uint64_t)d) << 32) / (uint64_t)d + 1);
	return by;
}

/* Elements of a word of 4 bytes, which tiles are read and written by; larger ones are words. */
static inline int64_t rlx_k_copy_pack(const struct rlx_k_copy *a)
{
	return a->size < 4 ? 4 / a->size : 1;
}

/* Bytes of shared memory of a tile of @lines rows; an odd pitch keeps columns to all banks. */
static inline int64_t rlx_k_copy_tile_bytes(const struct rlx_k_copy *a, int64_t lines, int64_t tile)
{
	return lines * (tile | 1) * a->size;
}

/* How many tiles there are of the plane of dimensions @row and @line, in all planes. */
static inline int64_t rlx_k_copy_tiles(const struct rlx_k_copy *a, int64_t lines, int64_t tile,
				       int row, int line)
{
	int64_t n = ((a->dim[row] + tile - 1) / tile) * ((a->dim[line] + lines - 1) / lines);

	for (int d = 0; d < a->rank; d++)
		n *= d == row || d == line ? 1 : a->dim[d];
	return n;
}

/*
 * Tiles of src_dim and the last dimension. The shorter one is the row that lies in shared memory:
 * whole, if it has room there, so that where rows follow each other in memory a tile is one piece
 * of that. Lines (of the other dimension) are as many as a warp's access is wide at least, and
 * more where rows are short and blocks are enough all the same.
 */
static inline void rlx_k_copy_plan_tiles(struct rlx_k_copy *a)
{
	enum { MOST_WHOLE = 32768, WANTED = 16384, BLOCKS = 264 };
	int last = a->rank - 1, row = a->src_dim, line = last;
	int64_t warp = 32 * rlx_k_copy_pack(a), lines = warp, tile;

	a->form = RLX_K_COPY_READ_ROWS;
	if (a->dim[last] < a->dim[row]) {
		a->form = RLX_K_COPY_WRITE_ROWS;
		line = row;
		row = last;
	}
	tile = a->dim[row];
	if (rlx_k_copy_tile_bytes(a, lines, tile) > MOST_WHOLE ||
	    (tile > warp && rlx_k_copy_tiles(a, lines, tile, row, line) < BLOCKS))
		tile = warp;
	while (lines < a->dim[line] && rlx_k_copy_tile_bytes(a, 2 * lines, tile) <= WANTED &&
	       rlx_k_copy_tiles(a, 2 * lines, tile, row, line) >= BLOCKS)
		lines *= 2;
	for (a->tile_shift = 0; (int64_t)1 << a->tile_shift < lines; a->tile_shift++)
		;
	a->tile = (int32_t)tile;
	a->by_tile = rlx_k_divide_by(tile);
}

/* After the units, which bring src's contiguous dimension to the last but one, or do not. */
static inline void rlx_k_copy_plan_gpu(struct rlx_k_copy *a)
{
	int64_t bytes = a->size, src = a->size, dst = a->size, most = INT32_MAX;
	int last = a->rank - 1;

	a->form = a->src_stride[last] == 0 && a->dst_stride[last] == 1 ? RLX_K_COPY_FILL :
									 RLX_K_COPY_WORDS;
	a->src_dim = (uint8_t)last;
	a->narrow = true;
	if (!a->rows)
		return;
	for (int d = 0; d <= last && a->narrow; d++) {
		a->narrow = a->dim[d] <= most / bytes &&
			(a->dim[d] == 1 || (rlx_k_abs64(a->src_stride[d]) <= most / a->dim[d] &&
					    rlx_k_abs64(a->dst_stride[d]) <= most / a->dim[d]));
		if (!a->narrow)
			break;
		bytes *= a->dim[d];
		src += (a->dim[d] - 1) * rlx_k_abs64(a->src_stride[d]) * a->size;
		dst += (a->dim[d] - 1) * rlx_k_abs64(a->dst_stride[d]) * a->size;
		a->narrow = src <= most && dst <= most;
		a->by[d] = rlx_k_divide_by(a->dim[d]);
	}
	if (a->narrow)
		a->by_row = rlx_k_divide_by(a->dim[last] * a->size);
	for (int d = 0; d < last; d++)
		if (a->src_stride[d] == 1 && a->dst_stride[last] == 1 && a->src_stride[last] &&
		    (a->src_dim == last || a->dim[d] > a->dim[a->src_dim]))
			a->src_dim = (uint8_t)d;
	/* small planes are in the first-level cache by then */
	if (a->src_stride[last] != 1 && a->src_dim != last &&
	    (a->dim[a->src_dim] >= 16 || a->dim[last] >= 16) &&
	    a->dim[a->src_dim] >= 512 / a->dim[last])
		rlx_k_copy_plan_tiles(a);
}

static inline void rlx_k_copy_plan(struct rlx_k_copy *a)
{
	rlx_k_copy_order(a);
	rlx_k_copy_plan_units(a);
	rlx_k_copy_plan_gpu(a);
}

static inline size_t rlx_k_copy_units(const struct rlx_k_copy *a)
{
	if (a->mode == RLX_COPY_TILES || a->pieces > 1)
		return (size_t)(a->rows * a->pieces);
	return (size_t)((a->rows + a->per - 1) / a->per);
}

#endif
