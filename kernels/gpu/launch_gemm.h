/* SPDX-License-Identifier: MIT */
/*
 * Launches of GEMMs: which kernel, in which tiles; a part of launch.h.
 *
 * What is tried, in this order. f16, bf16: GEMV (up to 8 rows), small M (up to 64 rows, B by
 * columns), wgmma (sm_90, lines at 16 bytes), tiles by MMA. f32: small M where its tiles are no
 * more than the multiprocessors, GEMV, tiled (gemm_tiled.h), or, if the precision policy allows,
 * TF32 by MMA. f64 and int8 by tiles. The weight-streaming GEMV is asked before them all.
 *
 * Tiles are chosen by a model of the time in ns on an H200 (rlx_g_gemm_ns(),
 * rlx_g_gemm_f32_ns()): rounds of tiles over the multiprocessors times the steps of k, and the end.
 * A smaller tile must gain a twentieth, as it loads more for the same work.
 * Limits: m, n, k below 2^30 or so in most of them; packed B is the CPU's and has no kernel here.
 */
#ifndef RLX_G_LAUNCH_GEMM_H
#define RLX_G_LAUNCH_GEMM_H

#include "kernels/gpu/gemm_grouped.h"
#include "kernels/gpu/gemm_tile.h"
#include "kernels/gpu/launch.h"

/* Blocks that tiles of @edge x @edge make of a product. */
static inline int64_t rlx_g_gemm_tiles(const struct rlx_k_gemm *a, int64_t edge)
{
	return rlx_g_ceil((int64_t)a->m, edge) * rlx_g_ceil((int64_t)a->n, edge) *
	       (int64_t)rlx_k_gemm_batches(a);
}

/* Large tiles where they still make a block for each multiprocessor. */
static inline bool rlx_g_gemm_large(const struct rlx_k_gemm *a)
{
	return rlx_g_gemm_tiles(a, 128) >= 96;
}

/* The types of a product as parameters. */
#define RLX_G_GEMM_TYPES(a)						\
	.GEMM_TYPE_A = (a)->a_num, .GEMM_TYPE_B = (a)->b_num, .GEMM_TYPE_C = (a)->c_num
#define RLX_G_GEMM_SCALED_TYPES(a)	RLX_G_GEMM_TYPES(a), .GEMM_SCALED = (a)->scales != NULL

#define RLX_G_GEMM_EDGE(large)	((large) ? 128 : 64)	/* rows and columns of such a tile */

#define RLX_G_GEMV_ROWS	8	/* so few rows go at the speed of b's memory */

static inline bool rlx_g_gemv(const struct rlx_k_gemm *a, struct rlx_g_launch *l)
{
	if (a->m > RLX_G_GEMV_ROWS || a->trans_a || a->b_form == RLX_B_PACKED)
		return false;
	rlx_g_line(l, a->m ? rlx_g_ceil((int64_t)a->n, 32) *
			     (int64_t)rlx_k_gemm_batches(a) : 0, 256);
	return l->grid[0] < 1 << 30;
}

enum { RLX_G_SMALL_M_BLOCKS = 40 };	/* of a launch */

/*
 * Columns of a block: as many more than eight as let those of some launches find room on
 * the chip at once, so that the next ones wait there with their weights. @blocks: of eight.
 */
static inline uint32_t rlx_g_small_m_cols(int64_t blocks)
{
	uint32_t cols = 8;

	if (blocks > 1024)
		return 32;
	while (cols < 64 && blocks * 8 > RLX_G_SMALL_M_BLOCKS * (int64_t)cols)
		cols *= 2;
	return cols;
}

/*
 * Up to 64 rows by blocks of 16 (gemm_small_m.h): more of them than a row of tiles has,
 * and warps that split k (split-K), for it is the time of one block that counts.
 */
static inline bool rlx_g_gemm_small_m(const struct rlx_k_gemm *a, struct rlx_g_launch *l)
{
	int64_t down = rlx_g_ceil((int64_t)a->m, 16) * (int64_t)rlx_k_gemm_batches(a);
	int64_t steps = rlx_g_ceil((int64_t)a->k, 32), blocks = rlx_g_ceil((int64_t)a->n, 8) * down;
	uint32_t cols = rlx_g_small_m_cols(blocks), warps = steps < 12 ? (uint32_t)steps : 12;

	if (a->m > (blocks <= 1024 ? 64 : 16) || a->trans_a || a->b_form != RLX_B_COLS ||
	    a->k > INT32_MAX / 2 || a->n > INT32_MAX / 2)
		return false;
	warps = warps < 4 ? 4 : warps + warps % 2;	/* whole ones of 64 lanes too */
	rlx_g_line(l, a->m ? rlx_g_ceil((int64_t)a->n, cols) * down : 0, warps * 32);
	l->shared = warps * 16 * (cols + 4) * (uint32_t)sizeof(float);
	RLX_G_VARIANT(l, gemm_small_m, RLX_G_GEMM_SCALED_TYPES(a), .GEMM_COLS = (int32_t)cols);
	return l->grid[0] < 1 << 30;
}

/* ---- f32 ---- */

/* Rows and columns of a tile. */
struct rlx_g_gemm_tile {
	int32_t	m, n;
};

/* Few rows in tiles @t, by warps that split k (split-K), @most of them. */
static inline void rlx_g_gemm_small_m_f32_by(const struct rlx_k_gemm *a, struct rlx_g_gemm_tile t,
					     uint32_t most, struct rlx_g_launch *l)
{
	int64_t steps = rlx_g_ceil((int64_t)a->k, GEMM_SMALL_M_F32_STEP(t.m, t.n));
	uint32_t warps = steps < most ? (uint32_t)steps : most;

	warps = warps < 4 ? 4 : warps + warps % 2;	/* whole ones of 64 lanes too */
	rlx_g_line(l,
		   rlx_g_ceil((int64_t)a->m, t.m) * rlx_g_ceil((int64_t)a->n, t.n) *
			   (int64_t)rlx_k_gemm_batches(a),
		   warps * 32);
	l->shared = warps * (uint32_t)(t.m * (t.n + 4) * 4);
	RLX_G_VARIANT(l, gemm_small_m_f32, .GEMM_B_COLS = a->b_form == RLX_B_COLS,
		      .GEMM_TILE_M = t.m, .GEMM_TILE_N = t.n);
}

/*
 * So few that tiles small enough for it find a multiprocessor each: the narrowest of them,
 * for it is the time of one block that counts.
 */
static inline bool rlx_g_gemm_small_m_f32(const struct rlx_k_gemm *a, struct rlx_g_launch *l)
{
	static const struct rlx_g_gemm_tile tile[] = { { 8, 16 }, { 16, 8 }, { 8, 32 }, { 16, 16 },
						       { 16, 32 }, { 32, 32 } };
	const size_t most = INT32_MAX / 2;
	struct rlx_g_launch with = *l;

	if (a->m > 256 || a->trans_a || a->k > most || a->n > most ||
	    a->b_form == RLX_B_PACKED)
		return false;
	for (int i = a->m > 8; i < 6; i++) {
		if (tile[i].m == 8 && a->m > 16)
			continue;
		rlx_g_gemm_small_m_f32_by(a, tile[i], 12, &with);
		if (with.grid[0] <= l->processors) {
			*l = with;
			return true;
		}
	}
	if (a->m <= RLX_G_GEMV_ROWS || a->m > 32 || with.grid[0] >= 1 << 30)
		return false;
	rlx_g_gemm_small_m_f32_by(a, tile[a->m > 16 ? 5 : 4], 12, l);
	return true;
}

/* A tile for f32, teams of threads and how many blocks share out the k of each (split-K). */
struct rlx_g_tiling {
	struct rlx_g_gemm_tile	tile;
	int32_t			teams;
	int64_t			shares;
};

static inline void rlx_g_gemm_tiled_by(const struct rlx_k_gemm *a, struct rlx_g_tiling by,
				       struct rlx_g_launch *l)
{
	int32_t m = by.tile.m, n = by.tile.n, loaded = GEMM_TILED_LOADED(m, n, by.teams);
	int32_t sums = GEMM_TILED_SUMS(m, n, by.teams);
	int64_t tiles = rlx_g_ceil((int64_t)a->m, m) * rlx_g_ceil((int64_t)a->n, n) *
			(int64_t)rlx_k_gemm_batches(a);

	if (tiles > RLX_G_ZEROS)	/* which count the shares that are done */
		by.shares = 1;
	rlx_g_line(l, tiles * by.shares, (uint32_t)(GEMM_TILED_TEAM(m, n) * by.teams));
	l->can = tiles < 1 << 30;	/* a block does not go on to another tile */
	if (by.shares > 1)
		l->scratch = (uint64_t)(tiles * by.shares * m * n * 4);
	l->shared = (uint32_t)(loaded > sums ? loaded : sums);
	RLX_G_VARIANT(l, gemm_tiled, .GEMM_TRANS_A = a->trans_a,
		      .GEMM_B_COLS = a->b_form == RLX_B_COLS, .GEMM_TILE_M = m, .GEMM_TILE_N = n,
		      .GEMM_TEAMS = by.teams, .GEMM_SPLIT_K = by.shares > 1);
}

/*
 * Nanoseconds that a GEMM of f32 takes so, about, of an H200, whose multiprocessors have
 * two blocks at a time: a step of k takes one of them nearly as long as both, and sums that
 * meet in memory take their time.
 */
static inline int64_t rlx_g_gemm_f32_ns(const struct rlx_k_gemm *a, struct rlx_g_tiling by,
					uint32_t processors)
{
	int64_t tiles = rlx_g_ceil((int64_t)a->m, by.tile.m) *
			rlx_g_ceil((int64_t)a->n, by.tile.n) * (int64_t)rlx_k_gemm_batches(a);
	int64_t depth = GEMM_TILED_K * by.teams;
	int64_t steps = rlx_g_ceil(rlx_g_ceil((int64_t)a->k, depth), by.shares);
	int64_t each = rlx_g_ceil(tiles * by.shares, processors);

	return each / 2 * (steps * 1600 + 6000) + each % 2 * (steps * 1450 + 4000) +
	       (by.shares > 1 ? 5000 : 0);
}

/* Small tiles, and several blocks for each, where they gain a twentieth. */
static inline struct rlx_g_tiling rlx_g_gemm_f32_tiling(const struct rlx_k_gemm *a,
							uint32_t processors)
{
	struct rlx_g_tiling best = { { 128, 128 }, 1, 1 }, t;
	int64_t least = rlx_g_gemm_f32_ns(a, best, processors), ns;

	for (t = (struct rlx_g_tiling){ { 64, 64 }, 4, 1 }; t.shares <= 8; t.shares++) {
		ns = rlx_g_gemm_f32_ns(a, t, processors);
		if (ns < least - least / 20) {
			least = ns;
			best = t;
		}
	}
	return best;
}

static inline void rlx_g_gemm_f32_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;

	if (a->b_form == RLX_B_PACKED || rlx_g_gemm_small_m_f32(a, l))
		return;
	if (rlx_g_gemv(a, l))
		RLX_G_VARIANT(l, gemv_f32, .GEMM_B_COLS = a->b_form == RLX_B_COLS);
	else if (a->k <= INT32_MAX / 2)
		rlx_g_gemm_tiled_by(a, rlx_g_gemm_f32_tiling(a, l->processors), l);
}

static inline void rlx_g_gemm_f64_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;

	if (a->b_form == RLX_B_PACKED)
		return;
	rlx_g_line(l, rlx_g_gemm_tiles(a, 64), 256);
	RLX_G_VARIANT(l, gemm_f64);
}

/* ---- by warpgroups ---- */

/* Both operands are of one type of 16-bit floats, and lie as TMA can read them. */
static inline bool rlx_g_gemm_mapped(const struct rlx_k_gemm *a)
{
	uint64_t odd = (uint64_t)(uintptr_t)a->a | (uint64_t)(uintptr_t)a->b | 2 * a->lda |
		       2 * a->ldb;
	const size_t most = INT32_MAX / 2;

	for (int i = 0; i < 2; i++)
		odd |= 2 * (a->a_step[i] | a->b_step[i]);
	return a->a_num == a->b_num && a->a_num != RLX_NUM_F32 && odd % 16 == 0 && a->m &&
	       a->n && a->k && a->m < most && a->n < most && a->k < most &&
	       a->lda < most && a->ldb < most && rlx_g_gemm_tiles(a, 64) < INT32_MAX;
}

/*
 * Nanoseconds that the product takes in tiles @t, about, of an H200: a step of k takes
 * what loading takes or multiplying, then comes the end of the sums.
 */
static inline int64_t rlx_g_gemm_ns(const struct rlx_k_gemm *a, struct rlx_g_gemm_tile t,
				    uint32_t processors)
{
	int64_t rows = t.m, cols = t.n;
	int64_t load = (rows + cols) * 128 / 90, multiply = rows * cols * 128 / 6030;
	int64_t steps = rlx_g_ceil((int64_t)a->k, GEMM_TILE_DEPTH);
	int64_t end = 300 + rows * cols / (a->act > RLX_ACT_RELU || a->residual ? 6 : 17);
	int64_t tiles = rlx_g_ceil((int64_t)a->m, rows) * rlx_g_ceil((int64_t)a->n, cols) *
			(int64_t)rlx_k_gemm_batches(a);

	return rlx_g_ceil(tiles, processors) * (steps * (load > multiply ? load : multiply) + end);
}

/*
 * The tile, of @most columns, by which the product takes the least time; a smaller one must
 * gain a twentieth, for it loads more than a larger one to do the same.
 */
static inline struct rlx_g_gemm_tile rlx_g_gemm_tile(const struct rlx_k_gemm *a,
						     uint32_t processors, int most)
{
	static const struct rlx_g_gemm_tile tile[] = { { 128, 256 }, { 128, 192 }, { 128, 128 },
						       { 64, 256 }, { 64, 128 }, { 128, 64 },
						       { 64, 64 } };
	struct rlx_g_gemm_tile best = { 0, 0 };
	int64_t least = 0, ns;

	for (unsigned int i = 0; i < sizeof(tile) / sizeof(tile[0]); i++) {
		if (tile[i].n > most)
			continue;
		ns = rlx_g_gemm_ns(a, tile[i], processors);
		if (!best.m || ns < least - least / 20) {
			least = ns;
			best = tile[i];
		}
	}
	return best;
}

/* @rows x @cols as they lie, in tiles of @box rows and 64 columns. */
static inline struct rlx_g_tensor_map rlx_g_gemm_tensor_map(const struct rlx_k_gemm *a, size_t rows,
					      size_t cols, size_t ld, const size_t step[2])
{
	struct rlx_g_tensor_map m = { .dim = { cols, rows, 1, 1 },
			       .step = { 2 * ld, 2 * ld, 2 * ld }, .box = { 64, 64 } };

	for (int i = 0; i < 2; i++)
		if (step[i]) {	/* else all of the batch read one matrix */
			m.dim[3 - i] = a->batch[i] ? a->batch[i] : 1;
			m.step[2 - i] = 2 * step[i];
		}
	return m;
}

/* In tiles @t. */
static inline void rlx_g_gemm_by(const struct rlx_k_gemm *a, struct rlx_g_gemm_tile t,
				 struct rlx_g_launch *l)
{
	bool cols = a->b_form == RLX_B_COLS;
	int64_t n = rlx_g_ceil((int64_t)a->m, t.m) * rlx_g_ceil((int64_t)a->n, t.n) *
		    (int64_t)rlx_k_gemm_batches(a);

	/* as many tiles for each block, so that fewer read side by side */
	rlx_g_line(l, rlx_g_ceil(n, rlx_g_ceil(n, l->processors)),
		   (uint32_t)GEMM_TILE_THREADS(t.m));
	l->shared = (uint32_t)(GEMM_TILE_STAGES(t.m, t.n) * GEMM_TILE_STAGE(t.m, t.n));
	l->n_map = 2;
	l->map[0] = rlx_g_gemm_tensor_map(a, a->trans_a ? a->k : a->m, a->trans_a ? a->m : a->k,
					  a->lda, a->a_step);
	l->map[0].field = offsetof(struct rlx_k_gemm, a);
	l->map[1] =
		rlx_g_gemm_tensor_map(a, cols ? a->n : a->k, cols ? a->k : a->n, a->ldb, a->b_step);
	l->map[1].field = offsetof(struct rlx_k_gemm, b);
	if (!a->trans_a)
		l->map[0].box[1] = (uint32_t)t.m;
	if (cols)
		l->map[1].box[1] = (uint32_t)t.n;
	RLX_G_VARIANT(l, gemm_wgmma, RLX_G_GEMM_SCALED_TYPES(a), .GEMM_TRANS_A = a->trans_a,
		      .GEMM_B_COLS = cols, .GEMM_TILE_M = t.m, .GEMM_TILE_N = t.n,
		      .GEMM_ACT = (int32_t)a->act);
}

static inline bool rlx_g_gemm_wgmma(const struct rlx_k_gemm *a, struct rlx_g_launch *l)
{
	if (l->arch != 90 || !rlx_g_gemm_mapped(a))
		return false;
	rlx_g_gemm_by(a, rlx_g_gemm_tile(a, l->processors, 256), l);
	return true;
}

/* In tiles of warps, of elements of @size bytes; which kernel, says the caller. */
static inline void rlx_g_gemm_mma_tile(const struct rlx_k_gemm *a, uint32_t size, bool large,
				    struct rlx_g_launch *l)
{
	bool cols = a->b_form == RLX_B_COLS;
	int edge = RLX_G_GEMM_EDGE(large);

	rlx_g_line(l, rlx_g_gemm_tiles(a, edge), large ? 256 : 128);
	l->shared = (uint32_t)(GEMM_MMA_TILE_STAGES * (GEMM_MMA_TILE_BYTES(size, edge, a->trans_a) +
						    GEMM_MMA_TILE_BYTES(size, edge, !cols)));
}

static inline void rlx_g_gemm_bf16_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	bool cols = a->b_form == RLX_B_COLS, large = rlx_g_gemm_large(a);

	if (a->b_form == RLX_B_PACKED)
		return;
	if (rlx_g_gemv(a, l)) {
		RLX_G_VARIANT(l, gemv, RLX_G_GEMM_SCALED_TYPES(a), .GEMM_B_COLS = cols);
		return;
	}
	if (rlx_g_gemm_small_m(a, l) || rlx_g_gemm_wgmma(a, l))
		return;
	rlx_g_gemm_mma_tile(a, 2, large, l);
	RLX_G_VARIANT(l, gemm_mma, RLX_G_GEMM_SCALED_TYPES(a), .GEMM_TRANS_A = a->trans_a,
		      .GEMM_B_COLS = cols, .GEMM_EDGE = RLX_G_GEMM_EDGE(large));
}

static inline void rlx_g_gemm_tf32_by(const struct rlx_k_gemm *a, struct rlx_g_launch *l)
{
	bool large = rlx_g_gemm_large(a);

	rlx_g_gemm_mma_tile(a, 4, large, l);
	RLX_G_VARIANT(l, gemm_mma, .GEMM_TF32 = 1, .GEMM_TRANS_A = a->trans_a,
		      .GEMM_B_COLS = a->b_form == RLX_B_COLS, .GEMM_EDGE = RLX_G_GEMM_EDGE(large));
}

/* f32 as TF32, which NVIDIA's chips have; few rows go as fast without. */
static inline void rlx_g_gemm_tf32_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	struct rlx_g_launch few = *l;

	if (l->arch < 80 || a->m <= RLX_G_GEMV_ROWS || a->b_form == RLX_B_PACKED ||
	    rlx_g_gemm_small_m_f32(a, &few))
		return;
	rlx_g_gemm_tf32_by(a, l);
}

static inline void rlx_g_gemm_i8_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *g = &((const struct rlx_k_gemm_i8 *)args)->g;
	bool large = rlx_g_gemm_large(g);

	if (g->b_form == RLX_B_PACKED || g->trans_a)
		return;
	rlx_g_gemm_mma_tile(g, 1, large, l);
	RLX_G_VARIANT(l, gemm_i8, .GEMM_B_COLS = g->b_form == RLX_B_COLS,
		      .GEMM_EDGE = RLX_G_GEMM_EDGE(large));
}

/* Rows sorted by a first launch, then multiplied by tiles of one group's. */
static inline void rlx_g_grouped_line(const struct rlx_g_grouped *a, bool large,
				     struct rlx_g_launch *l)
{
	const uint32_t edge = RLX_G_GEMM_EDGE(large), threads = l->block[0];
	int64_t tiles = (int64_t)rlx_g_grouped_tiles(a, edge);

	l->can = a->g.m < INT32_MAX / 2 && a->groups < INT32_MAX / 2;
	if (!l->can)
		return;
	rlx_g_line(l, tiles * rlx_g_ceil((int64_t)a->g.n, edge), threads);
	l->n_launches = 2;
	l->scratch = 4 * rlx_g_grouped_words(a, edge);
}

/* Large tiles where groups have as many rows, one with another, and make enough of them. */
static inline bool rlx_g_grouped_large(const struct rlx_g_grouped *a)
{
	return a->g.m / 128 >= a->groups && rlx_g_gemm_large(&a->g);
}

static inline void rlx_g_grouped_halves_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_g_grouped *a = (const struct rlx_g_grouped *)args;
	const struct rlx_k_gemm *g = &a->g;
	bool large = rlx_g_grouped_large(a);

	RLX_G_VARIANT(l, gemm_grouped, RLX_G_GEMM_TYPES(g), .GEMM_EDGE = RLX_G_GEMM_EDGE(large));
	rlx_g_gemm_mma_tile(g, 2, large, l);
	rlx_g_grouped_line(a, large, l);
}

static inline void rlx_g_grouped_simt(const void *args, struct rlx_g_launch *l, int32_t wide)
{
	const struct rlx_g_grouped *a = (const struct rlx_g_grouped *)args;
	bool large = !wide && rlx_g_grouped_large(a);

	RLX_G_VARIANT(l, gemm_grouped_simt, .GEMM_F64 = wide, .GEMM_EDGE = RLX_G_GEMM_EDGE(large));
	l->block[0] = 256;
	rlx_g_grouped_line(a, large, l);
}

static inline void rlx_g_grouped_f32_launch(const void *args, struct rlx_g_launch *l)
{
	rlx_g_grouped_simt(args, l, 0);
}

static inline void rlx_g_grouped_f64_launch(const void *args, struct rlx_g_launch *l)
{
	rlx_g_grouped_simt(args, l, 1);
}

/* Columns and threads of a block, stages of a warp, bytes of a column in a stage. */
struct rlx_g_gemv_stream_shape {
	uint32_t	cols, threads, stages, bytes;
};

/*
 * As many blocks as the multiprocessors hold at once, and each of them as many columns:
 * what is left over when most are done is read by few, and so slowly. @n: columns of b.
 */
static inline struct rlx_g_gemv_stream_shape
rlx_g_gemv_stream_shape(const struct rlx_k_gemm *g, int64_t n, uint32_t processors)
{
	const uint32_t smem = 112 << 10;	/* two blocks on a multiprocessor */
	int64_t each = rlx_g_ceil(rlx_g_ceil(n, 8), processors);	/* columns by 8 */
	int64_t blocks = each > 16 ? rlx_g_ceil(each, 8) : each > 7 ? 2 : 1;
	struct rlx_g_gemv_stream_shape s = { 8 * (uint32_t)rlx_g_ceil(each, blocks), 512, 3, 128 };

	if (g->b_form == RLX_B_ROWS) {	/* lines of 128 bytes, of which a stage has 32 */
		s.cols = s.bytes = 64;
		s.threads = each <= 8 ? 512 : 256;
		return s;
	}
	if (each >= 4 && blocks == 1 && g->k >= 2048) {	/* all of a multiprocessor's memory */
		s.stages = each == 4 ? 3 : 2;
		return s;
	}
	while (s.threads > 128 &&
	       (s.threads / 32 * 2 * s.cols * 128 > smem || s.threads * 4 > g->k))
		s.threads /= 2;
	s.stages = smem / (s.threads / 32 * s.cols * 128);
	s.stages = s.stages < 4 ? s.stages : 4;
	return s;
}

static inline uint32_t rlx_g_gemv_stream_shared(const struct rlx_g_gemv_stream_shape *s)
{
	return s->threads / 32 * s->stages * s->cols * s->bytes;
}

/* What a chip's blocks have no room for: fewer stages, of which two overlap, then threads. */
static inline void rlx_g_gemv_stream_fit(struct rlx_g_gemv_stream_shape *s, uint32_t most)
{
	while (s->stages > 2 && rlx_g_gemv_stream_shared(s) > most)
		s->stages--;
	while (s->threads > 128 && rlx_g_gemv_stream_shared(s) > most)
		s->threads /= 2;
}

static inline void rlx_g_gemv_stream_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gemv_stream *a = (const struct rlx_k_gemv_stream *)args;
	const struct rlx_k_gemm *g = &a->g;
	int64_t n = (int64_t)g->n * (a->gate ? 2 : 1);
	bool rows = g->b_form == RLX_B_ROWS;
	struct rlx_g_gemv_stream_shape s;

	if (g->m > RLX_K_GEMV_STREAM_ROWS || g->b_form == RLX_B_PACKED || g->trans_a ||
	    g->a_num == RLX_NUM_F32 || g->a_num != g->b_num || g->k % 8 || g->lda % 8 ||
	    g->ldb % 8 || !g->k || g->k > 1 << 30 || rlx_k_gemm_batches(g) != 1 ||
	    (rows && (g->n % 8 || a->gate)) ||
	    (a->norm && g->a_num == RLX_NUM_F16))	/* before the norm it overflows */
		return;
	if (!g->m || !n) {
		rlx_g_line(l, 0, 128);
		return;
	}
	s = rlx_g_gemv_stream_shape(g, n, l->processors);
	if (a->gate && s.cols < 16)	/* some of either half */
		s.cols = 16;
	rlx_g_gemv_stream_fit(&s, l->most_shared);
	if (rlx_g_gemv_stream_shared(&s) > l->most_shared)
		return;
	rlx_g_line(l, rlx_g_ceil(n, s.cols), s.threads);
	l->shared = rlx_g_gemv_stream_shared(&s);
	RLX_G_VARIANT(l, gemv_stream, .STREAM_TYPE = g->a_num, .STREAM_TYPE_C = g->c_num,
		      .STREAM_COLS = (int32_t)s.cols, .STREAM_THREADS = (int32_t)s.threads,
		      .STREAM_STAGES = (int32_t)s.stages, .STREAM_NORM = a->norm,
		      .STREAM_GATED = a->gate != RLX_GATE_NONE, .STREAM_16_ROWS = g->m > 8,
		      .STREAM_B_FIXED = g->b_fixed, .STREAM_B_ROWS = rows);
}

#endif
