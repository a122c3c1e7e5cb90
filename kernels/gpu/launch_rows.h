/* SPDX-License-Identifier: MIT */
/*
 * Launches of norms, softmax and reductions; a part of launch.h.
 *
 * Rows are shared out (kernels/gpu/rows_plan.h) by rlx_g_rows_share() alone, from their number,
 * length, types and alignment and the number of multiprocessors. All of them are bound by memory:
 * what counts is how many bytes are under way, and that nothing but loads takes long.
 */
#ifndef RLX_G_LAUNCH_ROWS_H
#define RLX_G_LAUNCH_ROWS_H

#include "kernels/gpu/launch.h"
#include "kernels/gpu/launch_fold.h"
#include "kernels/gpu/launch_ordered.h"
#include "kernels/gpu/rows_plan.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"
#include "kernels/softmax.h"
#include "kernels/sum_squares.h"

/* An operand of rows, of @n or @stride elements each. */
struct rlx_g_rows_operand {
	const void	*p;		/* NULL: none */
	int64_t		stride;		/* elements between rows */
	int		type;
};

/* Largest vector of up to 16 bytes that divides rows of @n and every address of @o. */
static inline int rlx_g_rows_vec(int64_t n, int widest, const struct rlx_g_rows_operand *o,
				 int n_o)
{
	int vec = 16 / widest;

	for (int i = 0; i < n_o; i++) {
		int64_t size = (int64_t)rlx_k_type_size((enum rlx_dtype)o[i].type);

		if (!o[i].p)
			continue;
		while (vec > 1 && ((n | o[i].stride) % vec ||
				   (uint64_t)o[i].p % (uint64_t)(vec * size < 16 ? vec * size : 16)))
			vec /= 2;
	}
	return vec;
}

/*
 * What a row of @chunks vectors costs @lanes threads, in slots of instructions: by element 6, a
 * step of the two trees over a warp 2, the barriers of a block as much as 30 of them.
 */
static inline int64_t rlx_g_rows_cost(int lanes, int vec, int64_t chunks)
{
	int64_t steps = 0;

	for (int i = 1; i < lanes && i < 32; i *= 2)
		steps++;
	return lanes * (chunks * vec * 6 + steps * 4 + (lanes > 32 ? 60 : 0));
}

/*
 * The key of @rows of @n elements by vectors of @vec, of @size bytes each element. Of many rows,
 * the least work: threads with up to ROWS_MOST_OWN() elements, of which neighbours still read 128
 * bytes side by side (or all of a row, or a warp does). Of rows that do not fill the chip the
 * least time: a thread's vectors take their turns, so more threads have fewer each, up to a warp,
 * beyond which they would wait for each other; up to a block where no warp holds the row anyway.
 */
static inline int32_t rlx_g_rows_share(int64_t rows, int64_t n, int vec, int size,
				       const struct rlx_g_launch *l)
{
	int64_t units = n / vec, fill = (l->processors ? (int64_t)l->processors : 1) * 256;
	int64_t best = 0, cost;
	int lanes = 0;

	for (int i = 1; i <= ROWS_MOST_LANES; i *= 2) {
		if (rlx_g_ceil(units, i) * vec > ROWS_MOST_OWN(i) ||
		    (i > 1 && units <= i / 2) ||
		    (i < 32 && i * vec * size < 128 && n * size >= 128))
			continue;
		cost = rlx_g_rows_cost(i, vec, rlx_g_ceil(units, i));
		if (!lanes || cost < best) {
			best = cost;
			lanes = i;
		}
	}
	if (!lanes)
		return ROWS_KEY(ROWS_PIECE_LANES, vec, ROWS_PIECE_OWN / vec, 1);
	while (rows * lanes < fill &&
	       ((lanes < 32 && lanes < units) ||
		(lanes > 32 && lanes < ROWS_MOST_LANES && rlx_g_ceil(units, lanes) * vec > 16)))
		lanes *= 2;
	return ROWS_KEY(lanes, vec, (int)rlx_g_ceil(units, lanes), 0);
}

/* What rlx_g_rows_share() and rlx_g_cols_share() give as parameters. */
#define RLX_G_ROW(share)						\
	.ROW_LANES = ROWS_LANES(share), .ROW_VEC = ROWS_VEC(share),	\
	.ROW_CHUNKS = ROWS_CHUNKS(share), .ROW_PIECES = ROWS_PIECES(share)

/*
 * The grid of @rows by key @k: as many blocks as the multiprocessors hold at a time, each
 * with every so manieth row. Rows in
 * pieces that are fewer are split, so that four blocks a multiprocessor have work, of 8 pieces
 * or more.
 */
static inline void rlx_g_rows_grid(struct rlx_g_launch *l, int64_t rows, int64_t n, int32_t k)
{
	int64_t threads = ROWS_THREADS(k), units = l->processors ? (int64_t)l->processors : 1;
	int64_t blocks = rlx_g_ceil(rows, threads / ROWS_LANES(k));
	int64_t most = units * (ROWS_PIECES(k) ? 4 : ROWS_BLOCKS(k)), splits, pieces;

	rlx_g_line(l, blocks < most ? blocks : most, (uint32_t)threads);
	if (!ROWS_PIECES(k) || !rows)
		return;
	pieces = rlx_g_ceil(n, (int64_t)ROWS_PIECE_LANES * ROWS_PIECE_OWN);
	splits = rows < 2 * units ? 4 * units / rows : 1;
	splits = splits < pieces ? splits : pieces;
	if (splits > 1) {
		l->grid[1] = (uint32_t)(splits < ROWS_MOST_SPLITS ? splits : ROWS_MOST_SPLITS);
		l->n_launches = 2;
		l->scratch = (uint64_t)rows * l->grid[1] * 3 * sizeof(float);
	}
}

static inline void rlx_g_norm_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_norm *a = (const struct rlx_k_norm *)args;
	const struct rlx_g_rows_operand o[] = {
		{ a->x, a->n, a->x_type }, { a->sum, a->n, a->x_type },
		{ a->y, a->n, a->y_type }, { a->residual, a->residual_stride, a->residual_type },
		{ a->gamma, 0, a->param_type }, { a->beta, 0, a->param_type },
		{ a->bias, 0, a->param_type },
	};
	bool params = a->gamma || a->beta || a->bias;
	int size, widest;
	int32_t share;

	if (l->strict) {
		rlx_g_norm_ordered(a, l);
		return;
	}
	if (!rlx_g_small_float(a->x_type) || !rlx_g_small_float(a->y_type) ||
	    (params && !rlx_g_small_float(a->param_type)) ||
	    (a->residual && !rlx_g_small_float(a->residual_type)))
		return;
	size = a->x_type == RLX_F32 ? 4 : 2;
	widest = a->y_type == RLX_F32 || (a->residual && a->residual_type == RLX_F32) ? 4 : size;
	share = rlx_g_rows_share(a->rows, a->n,
				 rlx_g_rows_vec(a->n, widest, o, sizeof(o) / sizeof(o[0])), size,
				 l);
	RLX_G_VARIANT(l, norm, RLX_G_ROW(share), .NORM_X_TYPE = a->x_type,
		      .NORM_Y_TYPE = a->y_type,
		      .NORM_RESIDUAL_TYPE = a->residual ? a->residual_type : 0,
		      .NORM_PARAM_TYPE = params ? a->param_type : RLX_F32, .NORM_RMS = a->rms,
		      .NORM_GAMMA = a->gamma != NULL, .NORM_BETA = a->beta != NULL,
		      .NORM_BIAS = a->bias != NULL, .NORM_SUM = a->sum != NULL);
	rlx_g_rows_grid(l, a->n ? a->rows : 0, a->n, share);
}

static inline void rlx_g_channel_norm_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_channel_norm *a = (const struct rlx_k_channel_norm *)args;

	RLX_G_VARIANT(l, channel_norm);
	rlx_g_each(l, a->outer * a->channels * a->inner);
}

static inline void rlx_g_group_norm_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_group_norm *a = (const struct rlx_k_group_norm *)args;

	if (l->strict) {
		rlx_g_group_norm_ordered(a, l);
		return;
	}
	RLX_G_VARIANT(l, group_norm);
	rlx_g_line(l, a->channels && a->inner ? a->batch * a->groups : 0, 256);
}

static inline void rlx_g_lrn_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_lrn *a = (const struct rlx_k_lrn *)args;

	if (l->strict)
		RLX_G_VARIANT(l, lrn_ordered);
	else
		RLX_G_VARIANT(l, lrn);
	rlx_g_each(l, a->batch * a->channels * a->inner);
}

/*
 * The gradient of a norm, of rows that registers hold, and a second launch that adds up what
 * blocks found for gamma and beta.
 */
static inline void rlx_g_norm_grad_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_norm_grad *a = (const struct rlx_k_norm_grad *)args;
	const struct rlx_g_rows_operand o[] = {
		{ a->x, a->n, a->x_type }, { a->dy, a->n, a->dy_type },
		{ a->dx, a->n, a->x_type }, { a->gamma, 0, a->param_type },
		{ a->residual, a->n, a->x_type },
	};
	int64_t units = l->processors ? (int64_t)l->processors : 1, blocks, most;
	int size = a->x_type == RLX_F32 ? 4 : 2, widest = a->dy_type == RLX_F32 ? 4 : size;
	bool sums = a->dgamma || a->dbeta;
	int32_t share;

	if (!rlx_g_small_float(a->x_type) || !rlx_g_small_float(a->dy_type) ||
	    (a->gamma && !rlx_g_small_float(a->param_type)))
		return;
	share = rlx_g_rows_share(a->rows, a->n,
				 rlx_g_rows_vec(a->n, widest, o, sizeof(o) / sizeof(o[0])), size,
				 l);
	if (ROWS_PIECES(share))
		return;
	blocks = rlx_g_ceil(a->rows, ROWS_THREADS(share) / ROWS_LANES(share));
	most = units * ROWS_GRAD_BLOCKS(share);
	rlx_g_line(l, blocks < most ? blocks : most, (uint32_t)ROWS_THREADS(share));
	RLX_G_VARIANT(l, norm_grad, RLX_G_ROW(share), .NORM_X_TYPE = a->x_type,
		      .NORM_DY_TYPE = a->dy_type,
		      .NORM_PARAM_TYPE = a->gamma ? a->param_type : RLX_F32, .NORM_RMS = a->rms,
		      .NORM_GAMMA = a->gamma != NULL, .NORM_SUMS = sums,
		      .NORM_ADD = a->residual != NULL);
	if (!sums)
		return;
	l->n_launches = 2;
	l->scratch = (uint64_t)l->grid[0] * 2 * (uint64_t)a->n * sizeof(float);
}

/*
 * The most threads for a column, of @along elements side by side in memory. COLS_LEAST() vectors
 * stand side by side in a block where memory has so many; where it has fewer, further ones would
 * be other columns' from far away, while the next rows follow at once.
 */
static inline int rlx_g_cols_most(int64_t along, int vec, int size)
{
	int least = COLS_LEAST(vec, size);

	while (least > 1 && least / 2 >= along / vec)
		least /= 2;
	return COLS_THREADS / least;
}

/*
 * The key of @vectors of columns of @n, of @vec elements of @size bytes. As few threads a column
 * as registers need: each costs steps to meet. More where the chip is not full of them, up to
 * @most (rlx_g_cols_most()).
 */
static inline int32_t rlx_g_cols_share(int64_t vectors, int64_t n, int vec, int most,
				       const struct rlx_g_launch *l)
{
	int64_t fill = (l->processors ? (int64_t)l->processors : 1) * 512;
	int lanes = 1;

	while (lanes < most && rlx_g_ceil(n, lanes) > 1 &&
	       (rlx_g_ceil(n, lanes) * vec > ROWS_MOST_OWN(1) || vectors * lanes < fill))
		lanes *= 2;
	if (rlx_g_ceil(n, lanes) * vec > ROWS_MOST_OWN(1))
		return ROWS_KEY(lanes, vec, ROWS_PIECE_OWN / vec, 1);
	return ROWS_KEY(lanes, vec, (int)rlx_g_ceil(n, lanes), 0);
}

/* The grid of @vectors of columns of @n by key @k, split as rows in pieces are; @scratch: of one */
static inline void rlx_g_cols_grid(struct rlx_g_launch *l, int64_t vectors, int64_t n, int32_t k,
				   uint64_t scratch)
{
	int64_t units = l->processors ? (int64_t)l->processors : 1, splits, pieces;
	int64_t blocks = rlx_g_ceil(vectors, COLS_THREADS / ROWS_LANES(k));
	int64_t most = units * COLS_BLOCKS(k);

	rlx_g_line(l, blocks < most ? blocks : most, COLS_THREADS);
	if (!ROWS_PIECES(k) || !vectors)
		return;
	pieces = rlx_g_ceil(n, ROWS_LANES(k) * ROWS_CHUNKS(k));
	splits = blocks < 2 * units ? 4 * units / blocks : 1;
	splits = splits < pieces ? splits : pieces;
	if (splits > 1) {
		l->grid[1] = (uint32_t)(splits < ROWS_MOST_SPLITS ? splits : ROWS_MOST_SPLITS);
		l->n_launches = 2;
		l->scratch = (uint64_t)vectors * (uint64_t)ROWS_VEC(k) * l->grid[1] * scratch;
	}
}

static inline void rlx_g_softmax_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_softmax *a = (const struct rlx_k_softmax *)args;
	bool cols = a->inner > 1;
	int64_t along = cols ? a->inner : a->n, outer = a->n ? a->outer : 0;
	const struct rlx_g_rows_operand o[] = {
		{ a->x, along, a->x_type }, { a->y, along, a->y_type },
	};
	int size, widest, vec;
	int32_t share;

	if (l->strict) {
		rlx_g_softmax_ordered(a, l);
		return;
	}
	if (!rlx_g_small_float(a->x_type) || !rlx_g_small_float(a->y_type))
		return;
	size = a->x_type == RLX_F32 ? 4 : 2;
	widest = a->y_type == RLX_F32 ? 4 : size;
	vec = rlx_g_rows_vec(along, widest, o, sizeof(o) / sizeof(o[0]));
	share = cols ? rlx_g_cols_share(outer * a->inner / vec, a->n, vec,
					rlx_g_cols_most(along, vec, size), l) :
		rlx_g_rows_share(a->outer, a->n, vec, size, l);
	RLX_G_VARIANT(l, softmax, RLX_G_ROW(share), .SOFTMAX_X_TYPE = a->x_type,
		      .SOFTMAX_Y_TYPE = a->y_type, .SOFTMAX_LOG = a->log, .SOFTMAX_COLUMNS = cols);
	if (cols)
		rlx_g_cols_grid(l, outer * a->inner / vec, a->n, share, 8);
	else
		rlx_g_rows_grid(l, outer, a->n, share);
}

/* Where kept and reduced axes take turns, or there is nothing to reduce. */
static inline void rlx_g_reduce_any(const struct rlx_k_reduce *a, struct rlx_g_launch *l)
{
	bool rows = a->axes >> (a->rank - 1) & 1;
	int lanes = !rows ? 1 : a->n_red <= 1024 ? 32 : 256;

	/* warps may have 64 lanes: then a block has half as many and goes on once more */
	rlx_g_line(l, rlx_g_ceil(a->n_out, 256 / lanes), 256);
	RLX_G_VARIANT(l, reduce_any, .ELEM_TYPE = a->type, .REDUCE_OP = a->op,
		      .REDUCE_LANES = lanes, .REDUCE_TERM = a->squares);
	if (!a->n_out)
		return;
	l->grid[1] = rlx_g_splits(a->n_out, a->n_red, lanes);
	if (l->grid[1] > 1) {
		l->n_launches = 2;
		l->scratch = (uint64_t)a->n_out * l->grid[1] * 8;
	}
}

/*
 * Collapsed axes take turns: by rows the last ones are [reduced], [kept, reduced], [reduced, kept,
 * reduced] or [kept, reduced, kept, reduced], else by columns; of three or four, rows are cut into
 * segments. More of them, or more split results than there are counters, go by elements.
 */
static inline void rlx_g_reduce_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_reduce *a = (const struct rlx_k_reduce *)args;
	bool rows = a->axes >> (a->rank - 1) & 1, cut = a->rank > (rows ? 2 : 3);
	int64_t along = a->dim[a->rank - 1];
	const struct rlx_g_rows_operand o[] = {
		{ a->x, along, a->type }, { rows ? NULL : a->y, along, a->type },
		{ a->by, along, a->type }, { a->by_sum, along, a->type },
	};
	int size = (int)rlx_k_type_size((enum rlx_dtype)a->type), vec;
	int32_t share;

	if (l->strict && rlx_k_type_float((enum rlx_dtype)a->type)) {
		rlx_g_reduce_ordered(a, l);
		return;
	}
	if (!a->n_out || !a->n_red || l->processors > RLX_G_ZEROS / 2 || a->rank > 4 ||
	    (!rows && a->rank < 2) || (cut && a->n_red > INT32_MAX)) {
		rlx_g_reduce_any(a, l);
		return;
	}
	vec = rlx_g_rows_vec(along, size > 2 ? size : 2, o, a->by_sum ? 4 : a->by ? 3 : 2);
	if (rows) {
		share = rlx_g_rows_share(a->n_out, a->n_red, vec, size, l);
		rlx_g_rows_grid(l, a->n_out, a->n_red, share);
		RLX_G_VARIANT(l, reduce_rows, .ELEM_TYPE = a->type, .REDUCE_OP = a->op,
			      RLX_G_ROW(share), .REDUCE_SEGMENTS = cut,
			      .REDUCE_TERM = a->squares);
	} else {
		share = rlx_g_cols_share(a->n_out / vec, a->n_red, vec,
					 rlx_g_cols_most(along, vec, size), l);
		rlx_g_cols_grid(l, a->n_out / vec, a->n_red, share, 8);
		RLX_G_VARIANT(l, reduce_columns, .ELEM_TYPE = a->type, .REDUCE_OP = a->op,
			      RLX_G_ROW(share), .REDUCE_SEGMENTS = cut,
			      .REDUCE_TERM = (a->by ? 2 : a->squares) +
					     (a->centre ? 4 : 0) + (a->by_sum ? 8 : 0));
	}
	l->n_launches = 0;	/* the block that comes last does the rest */
}

/* Up to eight blocks a multiprocessor, and once more to add up what they found. */
static inline void rlx_g_sum_squares_all_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_sum_squares_all *a = (const struct rlx_k_sum_squares_all *)args;
	int64_t most = 8 * (l->processors ? (int64_t)l->processors : 1);

	rlx_g_line(l, a->chunks < most ? a->chunks : most, 256);
	RLX_G_VARIANT(l, sum_squares_all);
	l->n_launches = 2;
	l->scratch = (uint64_t)l->grid[0] * sizeof(double);
}

#endif
