// SPDX-License-Identifier: MIT
/* What a strided copy is for CPUs and for GPUs: the order of its dimensions, units, tiles. */
#include "kernels/copy.h"

static void swap(struct rlx_k_copy *a, int i, int j)
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
static void order(struct rlx_k_copy *a)
{
	int64_t stride[2][RLX_K_DIMS];

	for (int i = 1; i < a->rank; i++)
		for (int j = i; j > 0 && rlx_k_abs64(a->dst_stride[j - 1]) <
					 rlx_k_abs64(a->dst_stride[j]); j--)
			swap(a, j, j - 1);
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

static void plan_units(struct rlx_k_copy *a)
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
				swap(a, j, j + 1);
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
static struct rlx_k_divisor divide_by(int64_t d)
{
	struct rlx_k_divisor by = { 0, 0 };

	while ((int64_t)1 << by.shift < d)
		by.shift++;
	by.mul = (uint32_t)(((((uint64_t)1 << by.shift) - (uint64_t)d) << 32) / (uint64_t)d + 1);
	return by;
}

/*
 * Tiles of src_dim and the last dimension. The shorter one is the row that lies in shared memory:
 * whole, if it has room there, so that where rows follow each other in memory a tile is one piece
 * of that. Lines (of the other dimension) are as many as a warp's access is wide at least, and
 * more where rows are short and blocks are enough all the same.
 */
static void plan_tiles(struct rlx_k_copy *a)
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
	a->by_tile = divide_by(tile);
}

/* After the units, which bring src's contiguous dimension to the last but one, or do not. */
static void plan_gpu(struct rlx_k_copy *a)
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
		a->by[d] = divide_by(a->dim[d]);
	}
	if (a->narrow)
		a->by_row = divide_by(a->dim[last] * a->size);
	for (int d = 0; d < last; d++)
		if (a->src_stride[d] == 1 && a->dst_stride[last] == 1 && a->src_stride[last] &&
		    (a->src_dim == last || a->dim[d] > a->dim[a->src_dim]))
			a->src_dim = (uint8_t)d;
	/* small planes are in the first-level cache by then */
	if (a->src_stride[last] != 1 && a->src_dim != last &&
	    (a->dim[a->src_dim] >= 16 || a->dim[last] >= 16) &&
	    a->dim[a->src_dim] >= 512 / a->dim[last])
		plan_tiles(a);
}

void rlx_k_copy_plan(struct rlx_k_copy *a)
{
	order(a);
	plan_units(a);
	plan_gpu(a);
}
