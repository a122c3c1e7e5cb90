/* SPDX-License-Identifier: MIT */
/* Moving elements without computing on them: copies, gathers, scatters, fills. */
#ifndef RLX_K_MOVE_H
#define RLX_K_MOVE_H

#include "kernels/copy.h"

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

/*
 * Which of @teams teams of a GPU's blocks adds to place @p. Places that are used much are often
 * near each other, as frequent tokens are: multiplied by the golden ratio, neighbours part. Those
 * a Fibonacci number apart would meet again, so each 256 places begin at a random one.
 */
#define RLX_K_SCATTER_RUN(p)	\
	((uint32_t)((uint64_t)(p) >> 8 ^ (uint64_t)(p) >> 37) * 0x7feb352du)
#define RLX_K_SCATTER_BEGIN(p)	\
	((RLX_K_SCATTER_RUN(p) ^ RLX_K_SCATTER_RUN(p) >> 15) * 0x846ca68bu)
#define RLX_K_SCATTER_TEAM(p, teams)	\
	((int64_t)((uint64_t)((uint32_t)(p) * 0x9e3779b9u + RLX_K_SCATTER_BEGIN(p)) * \
		   (uint64_t)(teams) >> 32))

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
