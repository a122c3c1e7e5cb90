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

/* Fills the lower members out of the upper ones. */
void rlx_k_copy_plan(struct rlx_k_copy *a);

static inline size_t rlx_k_copy_units(const struct rlx_k_copy *a)
{
	if (a->mode == RLX_COPY_TILES || a->pieces > 1)
		return (size_t)(a->rows * a->pieces);
	return (size_t)((a->rows + a->per - 1) / a->per);
}

#endif
