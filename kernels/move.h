/* SPDX-License-Identifier: MIT */
/* Moving elements without computing on them: copies, gathers, scatters, fills. */
#ifndef RLX_K_MOVE_H
#define RLX_K_MOVE_H

#include "kernels/type.h"

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

static inline void rlx_k_copy_plan(struct rlx_k_copy *a)
{
	int64_t inner, most = RLX_COPY_UNIT / a->size;
	int last;

	rlx_k_copy_order(a);
	last = a->rank - 1;
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

static inline size_t rlx_k_copy_units(const struct rlx_k_copy *a)
{
	if (a->mode == RLX_COPY_TILES || a->pieces > 1)
		return (size_t)(a->rows * a->pieces);
	return (size_t)((a->rows + a->per - 1) / a->per);
}

/*
 * Kernel: index_copy. dst, contiguous over dim, takes at index i the element of
 * src at offset sum table_d[i_d] elements; where any entry is RLX_K_NO_INDEX it
 * takes *fill. It is pad in every mode, roll, nearest resize, and slices by
 * tables. One unit is one row of the last dimension; there are
 * total / dim[rank - 1]. Scratch: 0.
 */
#define RLX_K_NO_INDEX	INT64_MIN

struct rlx_k_index_copy {
	const void	*src, *fill;
	void		*dst;
	int		rank;
	int64_t		dim[RLX_K_DIMS];
	const int64_t	*table[RLX_K_DIMS];	/* dim[d] entries */
	uint8_t		size;
};

/*
 * Indices below are i64, i32 or u32 (enum rlx_dtype); a negative one counts
 * from the end. One out of range is not followed: *bad is set to 1 (any thread
 * may, all write the same), gathers write zeros there, scatters nothing. Only the
 * first @live of all indices (tuples, where those count) carry data: others may be
 * anything, set nothing bad and scatter nothing.
 */

/*
 * Kernel: gather. out[o][i] = table[o][idx[i]], pieces of inner bytes.
 * One unit is one piece; there are outer * n_idx. Scratch: 0.
 */
struct rlx_k_gather {
	const void	*table;		/* outer x rows x inner bytes */
	const void	*idx;		/* n_idx */
	void		*out;		/* outer x n_idx x inner bytes */
	int32_t		*bad;
	int64_t		outer, rows, n_idx, inner;	/* inner in bytes */
	int64_t		live;		/* of n_idx */
	uint8_t		idx_type;
};

/*
 * Kernel: gather_elements. out[i] = data[i with i_axis replaced by idx[i]];
 * dim is the shape of idx and out. One unit is one row of the last dimension;
 * there are total / dim[rank - 1]. Scratch: 0.
 */
struct rlx_k_gather_elements {
	const void	*data, *idx;
	void		*out;
	int32_t		*bad;
	int		rank, axis;
	int64_t		dim[RLX_K_DIMS];
	int64_t		data_stride[RLX_K_DIMS];	/* elements */
	int64_t		axis_dim;			/* of data */
	int64_t		live;				/* of all in idx */
	uint8_t		size, idx_type;
};

/*
 * Kernel: gather_nd. out[b][i] = data[b][idx[b][i][0]] .. [idx[b][i][k - 1]],
 * pieces of inner bytes. One unit is one piece; there are batch * n.
 * Scratch: 0.
 */
struct rlx_k_gather_nd {
	const void	*data;	/* batch x dim[0] x .. x dim[k - 1] x inner */
	const void	*idx;	/* batch x n x k */
	void		*out;	/* batch x n x inner */
	int32_t		*bad;
	int64_t		batch, n, inner;
	int64_t		live;	/* of batch * n tuples */
	int		k;
	int64_t		dim[RLX_K_DIMS];
	uint8_t		idx_type;
};

enum rlx_k_scatter {
	RLX_K_SCATTER_NONE,	/* the last update in order of idx wins */
	RLX_K_SCATTER_ADD,
	RLX_K_SCATTER_MUL,
	RLX_K_SCATTER_MAX,	/* NaN wins */
	RLX_K_SCATTER_MIN,
};

/*
 * Kernel: scatter_elements. For all i in the shape of idx, in order:
 * out[i with i_axis replaced by idx[i]] op= upd[i]. out holds the data before.
 * One unit is one line of idx along axis (only those can collide); there are
 * total / dim[axis]. Scratch: 0.
 */
struct rlx_k_scatter_elements {
	const void	*upd, *idx;
	void		*out;
	int32_t		*bad;
	int		rank, axis;
	int64_t		dim[RLX_K_DIMS];		/* of idx and upd */
	int64_t		out_stride[RLX_K_DIMS];		/* elements */
	int64_t		axis_dim;			/* of out */
	int64_t		live;				/* of all in idx */
	uint8_t		type, idx_type, op;
};

/*
 * Kernel: scatter_nd. For i < n in order:
 * out[idx[i][0]] .. [idx[i][k - 1]] op= upd[i], pieces of inner elements. out
 * holds the data before. One unit is RLX_K_SCATTER_BLOCK elements of every
 * piece; there are ceil(inner / RLX_K_SCATTER_BLOCK). Scratch: 0.
 * With k = 1 and ADD it is the gradient of gather.
 */
#define RLX_K_SCATTER_BLOCK	1024

struct rlx_k_scatter_nd {
	const void	*upd, *idx;
	void		*out;
	int32_t		*bad;
	int64_t		n, inner;
	int64_t		live;	/* of n tuples */
	int		k;
	int64_t		dim[RLX_K_DIMS];
	uint8_t		type, idx_type, op;
};

/*
 * Kernel: reverse. Each sequence's first lens[b] steps in reverse order, the rest as it is. src
 * and dst are [pre, dim[0], mid, dim[1], post]: dim[time] steps, batches along the other one. A
 * length of lens[0..live) outside 0 .. dim[time] sets *bad, and its sequence is left as it is,
 * as those behind live may be. One unit is all dim[1] at a place of the outer ones; there are
 * pre * dim[0] * mid. Scratch: 0.
 */
struct rlx_k_reverse {
	const void	*src, *lens;
	void		*dst;
	int32_t		*bad;
	int64_t		pre, dim[2], mid, post;		/* post in bytes */
	int64_t		live;				/* of all in lens */
	uint8_t		time, lens_type;		/* time: 0 or 1 */
};

/*
 * Kernel: iota. dst[i] = start + i * step, in f64 and rounded once for floats (so
 * that all devices decide ties of the result's type alike), in i64 (istart, istep)
 * for integers. Units of RLX_K_IOTA_BLOCK elements; there are
 * ceil(n / RLX_K_IOTA_BLOCK). Scratch: 0.
 */
#define RLX_K_IOTA_BLOCK	4096

struct rlx_k_iota {
	void		*dst;
	int64_t		n;
	double		start, step;
	int64_t		istart, istep;
	uint8_t		type;
};

/*
 * Kernel: trilu. Each [rows, cols] matrix of batch keeps the elements with
 * col - row >= k (upper) or <= k (lower), the others become 0 bits. One unit is
 * one row; there are batch * rows. Scratch: 0. src and dst may be the same.
 */
struct rlx_k_trilu {
	const void	*src;
	void		*dst;
	int64_t		batch, rows, cols, k;
	bool		upper;
	uint8_t		size;
};

#endif
