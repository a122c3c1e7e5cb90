/* SPDX-License-Identifier: MIT */
/*
 * Launches of GEMMs of f32: which kernel, in which tiles; a part of launch.h.
 *
 * GEMV (M up to 8), small tiles of 8 to 32 rows, tiles from 64 x 32 to 128 x 128 (gemm_tiled.h),
 * whose k several blocks may share out (split-K), and, if the precision policy allows, TF32 by
 * MMA, of which small M has no need: the least time is taken (cost.h).
 * Of tiles a multiprocessor has 512 threads at a time: blocks that have it for themselves wait for
 * their operands at each step of k, others multiply meanwhile.
 * Figures of all kernels are those of an H200, fitted to the times of all candidates of random
 * problems (gpubench/regret with a FILE).
 */
#ifndef RLX_G_LAUNCH_GEMM_F32_H
#define RLX_G_LAUNCH_GEMM_F32_H

#include "kernels/gpu/launch_gemm.h"

static inline bool rlx_g_gemv_f32_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;

	if (!rlx_g_gemv(a, i, l))
		return false;
	RLX_G_VARIANT(l, gemv_f32, .GEMM_B_COLS = a->b_form == RLX_B_COLS,
		      .GEMM_LANES = rlx_g_gemv_lanes(a, i), .GEMM_ROWS = rlx_g_gemv_rows(a),
		      .GEMM_BY = rlx_g_gemv_by(a));
	return true;
}

static inline void rlx_g_gemv_f32_cost(const void *args, const struct rlx_g_launch *l,
				       struct rlx_g_cost *t)
{
	rlx_g_gemv_cost_by((const struct rlx_k_gemm *)args, l->param.gemv_f32.GEMM_LANES, t);
}

/* ---- small M ---- */

static inline const char *rlx_g_small_m_f32_why_not(const void *args,
						    const struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const size_t most = INT32_MAX / 2;

	(void)l;
	if (a->b_form == RLX_B_PACKED || a->trans_a)
		return "a is transposed, or b packed";
	return a->m > most || a->k > most || a->n > most ? "a size is over 2^30" : NULL;
}

/* In tiles @t, by warps that split k (split-K), @most of them. */
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
 * A tile's times, those that load least for what they do first; of b by rows and by columns: the
 * part of the chip's FMA rate that a multiprocessor reaches, a step of a warp, and of a block what
 * is before its steps and what four warps' sums take to meet.
 */
struct rlx_g_small_m_f32_times {
	struct rlx_g_gemm_tile	tile;
	struct { double part, step_ns, begin_ns, end_ns; } b[2];
};

enum { RLX_G_SMALL_M_F32_TILES = 6 };

static inline const struct rlx_g_small_m_f32_times *rlx_g_small_m_f32_times(unsigned int i)
{
	static const struct rlx_g_small_m_f32_times times[RLX_G_SMALL_M_F32_TILES] = {
		{ { 32, 32 }, { { 0.43, 570, 1550, 0 }, { 0.45, 550, 1680, 0 } } },
		{ { 16, 32 }, { { 0.415, 540, 610, 165 }, { 0.48, 570, 620, 165 } } },
		{ { 8, 32 }, { { 0.33, 410, 165, 115 }, { 0.51, 470, 0, 220 } } },
		{ { 16, 16 }, { { 0.315, 400, 20, 250 }, { 0.37, 355, 80, 260 } } },
		{ { 16, 8 }, { { 0.27, 355, 0, 190 }, { 0.39, 305, 0, 260 } } },
		{ { 8, 16 }, { { 0.27, 365, 0, 145 }, { 0.385, 310, 0, 165 } } },
	};

	return &times[i];
}

/*
 * Each tile by twelve warps, then by six and four, of which a multiprocessor has as many more
 * blocks; no tile has twice the rows that there are.
 */
static inline bool rlx_g_small_m_f32_plan(const void *args, unsigned int i,
					  struct rlx_g_launch *l)
{
	static const uint32_t most[] = { 12, 6, 4 };
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	unsigned int by = i / RLX_G_SMALL_M_F32_TILES;
	struct rlx_g_gemm_tile t;

	if (by >= sizeof(most) / sizeof(most[0]))
		return false;
	t = rlx_g_small_m_f32_times(i % RLX_G_SMALL_M_F32_TILES)->tile;
	rlx_g_gemm_small_m_f32_by(a, t, most[by], l);
	l->can = l->grid[0] < 1 << 30 && (a->m > 8 || t.m == 8) && (a->m <= 16 || t.m > 8);
	if (by)		/* of fewer steps more warps are no others */
		l->can = l->can && (size_t)GEMM_SMALL_M_F32_STEP(t.m, t.n) * most[by] < a->k;
	return true;
}

/* All lines of both begin and end at 16 bytes. */
static inline bool rlx_g_gemm_f32_wide(const struct rlx_k_gemm *a)
{
	return rlx_g_gemm_wide(a, 4) && (a->trans_a ? a->m : a->k) % 4 == 0 &&
	       (a->b_form == RLX_B_COLS ? a->k : a->n) % 4 == 0;
}

static inline void rlx_g_small_m_f32_cost(const void *args, const struct rlx_g_launch *l,
					  struct rlx_g_cost *t)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const struct rlx_g_gemm_small_m_f32_param *p = &l->param.gemm_small_m_f32;
	const struct rlx_g_small_m_f32_times *by = rlx_g_small_m_f32_times(0);
	double m = p->GEMM_TILE_M, n = p->GEMM_TILE_N, k, warps = l->block[0] / 32, stored;
	int64_t step = GEMM_SMALL_M_F32_STEP(p->GEMM_TILE_M, p->GEMM_TILE_N);
	bool at_once = l->grid[0] <= l->processors, wide = rlx_g_gemm_f32_wide(a);

	while (by->tile.m != p->GEMM_TILE_M || by->tile.n != p->GEMM_TILE_N)
		by++;
	t->steps = (double)rlx_g_ceil(rlx_g_ceil((int64_t)a->k, step), (int64_t)warps);
	k = t->steps * warps * (double)step;
	stored = rlx_g_gemm_stored(a, p->GEMM_TILE_M, p->GEMM_TILE_N);
	t->rate = RLX_G_RATE_fma_f32;
	t->part = by->b[p->GEMM_B_COLS].part / (wide ? 1 : 1.4);
	t->flops = 2 * m * n * k;
	t->l2_bytes = (m + (at_once && !rlx_g_gemm_b_bytes(a) ? 0 : n)) * (double)a->k * 4;
	t->step_ns = by->b[p->GEMM_B_COLS].step_ns * (wide ? 1 : 1.7);
	t->begin_ns = by->b[p->GEMM_B_COLS].begin_ns + (at_once ? 20 * (12 - warps) : 0) +
		      (a->residual ? 120 : 0);
	/* where a block is not alone, the more warps it has the less goes on beside their sums */
	t->end_ns = by->b[p->GEMM_B_COLS].end_ns * (at_once ? 1 : 1 + 0.28 * (warps - 4)) +
		    stored * (0.73 + (a->act ? 0.17 : 0) + (a->residual ? 0.26 : 0));
	t->dram_bytes = rlx_g_gemm_dram(a);
	t->in_flight = warps * (m + n) * (double)step * 4 * 1.8;
	t->resident = warps < 12 ? (uint32_t)(12 / warps) : 1;	/* its registers */
}

/* ---- tiles ---- */

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
	rlx_g_limit_occupancy(l, 512 / l->block[0]);
	RLX_G_VARIANT(l, gemm_tiled, .GEMM_TRANS_A = a->trans_a,
		      .GEMM_B_COLS = a->b_form == RLX_B_COLS, .GEMM_TILE_M = m, .GEMM_TILE_N = n,
		      .GEMM_TEAMS = by.teams, .GEMM_SPLIT_K = by.shares > 1);
}

/* Bytes of sums of parts that strict products may have in memory. */
enum { RLX_G_ORDERED_SCRATCH = 256 << 20 };

/* Shared memory of a block that makes all @parts of its sums. */
static inline uint32_t rlx_g_gemm_ordered_shared(int32_t m, int32_t n, int64_t parts)
{
	int32_t loaded = GEMM_TILED_LOADED(m, n, 1) + GEMM_ORDERED_MET(m, n, parts);
	int32_t sums = GEMM_TILED_SUMS(m, n, 1);

	return (uint32_t)(loaded > sums ? loaded : sums);
}

static inline const char *rlx_g_gemm_tiled_why_not(const void *args, const struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;

	(void)l;
	return a->b_form == RLX_B_PACKED ? "b is packed" :
	       a->k > INT32_MAX / 2 ? "K is over 2^30" : NULL;
}

/*
 * What tiles by so many teams reach of the chip's FMA rate; a step of theirs where it waits for the
 * next one's operands; what is before the first.
 */
struct rlx_g_tiled_times {
	struct rlx_g_gemm_tile	tile;
	int32_t			teams;
	double			part, step_ns, begin_ns;
};

enum { RLX_G_TILED_TIMES = 10 };

static inline const struct rlx_g_tiled_times *rlx_g_tiled_times(unsigned int i)
{
	static const struct rlx_g_tiled_times times[RLX_G_TILED_TIMES] = {
		{ { 128, 128 }, 1, 0.84, 775, 2950 }, { { 64, 128 }, 1, 0.79, 570, 2150 },
		{ { 128, 64 }, 1, 0.72, 605, 2650 }, { { 64, 64 }, 1, 0.76, 590, 2250 },
		{ { 64, 64 }, 2, 0.705, 610, 2250 }, { { 64, 64 }, 4, 0.695, 755, 1330 },
		{ { 64, 32 }, 1, 0.615, 825, 2550 }, { { 64, 32 }, 2, 0.56, 870, 1700 },
		{ { 64, 32 }, 4, 0.617, 775, 1050 }, { { 64, 32 }, 8, 0.62, 1160, 660 },
	};

	return &times[i];
}

/* Each tile by a block, then some by several (split-K). */
static inline bool rlx_g_gemm_tiled_plan(const void *args, unsigned int i,
					 struct rlx_g_launch *l)
{
	static const struct rlx_g_tiling split[] = {
		{ { 64, 64 }, 4, 2 }, { { 64, 64 }, 4, 3 }, { { 64, 64 }, 4, 4 },
		{ { 64, 64 }, 4, 5 }, { { 64, 64 }, 4, 6 }, { { 64, 64 }, 4, 7 },
		{ { 64, 64 }, 4, 8 }, { { 64, 64 }, 2, 2 }, { { 64, 64 }, 2, 3 },
		{ { 64, 32 }, 4, 2 }, { { 64, 32 }, 4, 4 }, { { 64, 32 }, 8, 4 },
		{ { 128, 128 }, 1, 2 }, { { 128, 128 }, 1, 3 },
	};
	struct rlx_g_tiling by;

	if (i >= RLX_G_TILED_TIMES + sizeof(split) / sizeof(split[0]))
		return false;
	if (i < RLX_G_TILED_TIMES)
		by = (struct rlx_g_tiling){ rlx_g_tiled_times(i)->tile,
					    rlx_g_tiled_times(i)->teams, 1 };
	else
		by = split[i - RLX_G_TILED_TIMES];
	rlx_g_gemm_tiled_by((const struct rlx_k_gemm *)args, by, l);
	return true;
}

/*
 * A team's next step is fetched while it multiplies one, so that a block alone waits for memory at
 * each; several on a multiprocessor do not. Rows and columns that a tile has beyond the matrix are
 * not stored.
 */
static inline void rlx_g_gemm_tiled_cost(const void *args, const struct rlx_g_launch *l,
					 struct rlx_g_cost *t)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const struct rlx_g_gemm_tiled_param *p = &l->param.gemm_tiled;
	const struct rlx_g_tiled_times *by = rlx_g_tiled_times(0);
	int64_t m = p->GEMM_TILE_M, n = p->GEMM_TILE_N, depth = GEMM_TILED_K * p->GEMM_TEAMS;
	int64_t tiles = rlx_g_ceil((int64_t)a->m, m) * rlx_g_ceil((int64_t)a->n, n) *
			(int64_t)rlx_k_gemm_batches(a);
	int64_t shares = tiles ? (int64_t)l->grid[0] / tiles : 1;
	int64_t steps = rlx_g_ceil(rlx_g_ceil((int64_t)a->k, depth), shares ? shares : 1);
	double odd = rlx_g_gemm_f32_wide(a) ? 1 : 1.1;

	while (by->tile.m != m || by->tile.n != n || by->teams != p->GEMM_TEAMS)
		by++;
	t->rate = RLX_G_RATE_fma_f32;
	t->part = by->part / odd;
	t->flops = 2.0 * (double)(m * n * depth * steps);
	t->l2_bytes = (double)((m + n) * depth * steps) * 4;
	t->steps = (double)steps;
	t->step_ns = by->step_ns * odd;
	t->begin_ns = by->begin_ns + (a->act ? 1100 : 0) + (a->residual ? 280 : 0);
	t->end_ns = 0.04 * (double)(m * n) + 120 * (p->GEMM_TEAMS - 1) +
		    rlx_g_gemm_stored(a, m, n) *
			    (0.09 + ((a->ldc | a->n) % 4 ? 0.3 : 0) + (a->act ? 0.17 : 0) +
			     (a->residual ? 0.14 : 0));
	t->once_ns = RLX_G_GEMM_WAITS_NS;
	if (p->GEMM_SPLIT_K)
		t->once_ns += 2150 + 0.12 * (double)(shares * m * n);
	t->dram_bytes = rlx_g_gemm_dram(a);
	t->resident = 512 / l->block[0];	/* as many as have registers (gemm_simt.cu) */
}

/* ---- strict bits ---- */

static inline const char *rlx_g_gemm_bits_why_not(const struct rlx_k_gemm *a, bool dots)
{
	if (!a->strict)
		return "there is no need of strict bits";
	if (rlx_k_gemm_sums_dots(a, rlx_k_gemm_transposes(a, RLX_ISA_V4)) != dots)
		return dots ? "the CPU sums in order" : "the CPU sums by dot products";
	return NULL;
}

static inline const char *rlx_g_gemm_ordered_why_not(const void *args,
						    const struct rlx_g_launch *l)
{
	const char *why = rlx_g_gemm_bits_why_not((const struct rlx_k_gemm *)args, false);

	return why ? why : rlx_g_gemm_tiled_why_not(args, l);
}

/* Parts that a sum of @k terms is made of, each @part of them. */
static inline int64_t rlx_g_gemm_ordered_parts(size_t k, size_t part)
{
	return k > part ? rlx_g_ceil((int64_t)k, (int64_t)part) : 1;
}

/* Tiles large and small, all parts of a sum by one block; then the same by a block each. */
static inline bool rlx_g_gemm_ordered_plan(const void *args, unsigned int i,
					  struct rlx_g_launch *l)
{
	static const struct rlx_g_gemm_tile tile[] = { { 128, 128 }, { 64, 64 }, { 128, 64 },
						       { 64, 32 } };
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	int64_t parts = rlx_g_gemm_ordered_parts(a->k, rlx_k_gemm_part(a->k));
	int32_t m = tile[i % 4].m, n = tile[i % 4].n;

	if (i > (parts > 1 ? 7 : 3))
		return false;
	rlx_g_gemm_tiled_by(a, (struct rlx_g_tiling){ tile[i % 4], 1, i > 3 ? parts : 1 }, l);
	if (i > 3 && (!l->scratch || l->scratch > RLX_G_ORDERED_SCRATCH))
		l->can = false;
	if (i < 4) {
		l->shared = rlx_g_gemm_ordered_shared(m, n, parts);
		rlx_g_limit_occupancy(l, 512 / l->block[0]);
	}
	l->can = l->can && l->shared <= l->most_shared;
	RLX_G_VARIANT(l, gemm_ordered, .GEMM_TRANS_A = a->trans_a,
		      .GEMM_B_COLS = a->b_form == RLX_B_COLS, .GEMM_TILE_M = m, .GEMM_TILE_N = n,
		      .GEMM_SPLIT_K = i > 3);
	return true;
}

/* As tiles of one team have it: the order costs what fetching lines at odd places does. */
static inline void rlx_g_gemm_ordered_cost(const void *args, const struct rlx_g_launch *l,
					  struct rlx_g_cost *t)
{
	const struct rlx_g_gemm_ordered_param p = l->param.gemm_ordered;
	struct rlx_g_launch as = *l;

	RLX_G_VARIANT(&as, gemm_tiled, .GEMM_TRANS_A = p.GEMM_TRANS_A, .GEMM_B_COLS = p.GEMM_B_COLS,
		      .GEMM_TILE_M = p.GEMM_TILE_M, .GEMM_TILE_N = p.GEMM_TILE_N, .GEMM_TEAMS = 1,
		      .GEMM_SPLIT_K = p.GEMM_SPLIT_K);
	rlx_g_gemm_tiled_cost(args, &as, t);
}

static inline const char *rlx_g_gemm_dots_why_not(const void *args, const struct rlx_g_launch *l)
{
	(void)l;
	return rlx_g_gemm_bits_why_not((const struct rlx_k_gemm *)args, true);
}

/* Sums of a thread and how its teams stand, large and small; all parts by a block, or one each. */
static inline bool rlx_g_gemm_dots_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	static const struct { int32_t m, n, down; } by[] = {
		{ 8, 8, 4 }, { 4, 4, 4 }, { 8, 1, 16 }, { 8, 4, 16 }, { 1, 8, 1 }, { 1, 1, 4 },
	};
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const size_t part = rlx_k_gemm_dot_part(a->k);
	int64_t parts = rlx_g_gemm_ordered_parts(a->k, part), tiles;
	int32_t m, n, down;

	if (i > (parts > 1 ? 11 : 5))
		return false;
	m = by[i % 6].m;
	n = by[i % 6].n;
	down = by[i % 6].down;
	tiles = rlx_g_ceil((int64_t)a->m, GEMM_DOTS_M(m, down)) *
		rlx_g_ceil((int64_t)a->n, GEMM_DOTS_N(n, down)) * (int64_t)rlx_k_gemm_batches(a);
	rlx_g_line(l, tiles, 256);
	if (i > 5) {
		l->grid[1] = (uint32_t)parts;
		l->n_launches = 2;
		l->scratch = (uint64_t)parts * a->m * a->n * rlx_k_gemm_batches(a) * 4;
		l->can = parts < 65536 && l->scratch <= RLX_G_ORDERED_SCRATCH;
	}
	RLX_G_VARIANT(l, gemm_dots, .DOTS_M = m, .DOTS_N = n, .DOTS_DOWN = down);
	return true;
}

/* Loads that the L1 answers are the bound: one a row and column of a thread, of sixteen lanes. */
static inline void rlx_g_gemm_dots_cost(const void *args, const struct rlx_g_launch *l,
					struct rlx_g_cost *t)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const struct rlx_g_gemm_dots_param *p = &l->param.gemm_dots;
	double m = GEMM_DOTS_M(p->DOTS_M, p->DOTS_DOWN), n = GEMM_DOTS_N(p->DOTS_N, p->DOTS_DOWN);
	double k = (double)a->k / l->grid[1];

	t->rate = RLX_G_RATE_fma_f32;
	t->part = (double)(p->DOTS_M * p->DOTS_N) / (4.0 * (p->DOTS_M + p->DOTS_N));
	t->part = t->part < 0.6 ? t->part : 0.6;
	t->flops = 2 * m * n * k;
	t->l2_bytes = (m + n) * k * 4;
	t->steps = k / 16;
	t->step_ns = 150;
	t->begin_ns = 500;
	t->once_ns = l->grid[1] > 1 ? 2000 : 0;
	t->end_ns = 100 + 10.0 * p->DOTS_M * p->DOTS_N;
	t->dram_bytes = rlx_g_gemm_dram(a);
	t->resident = 2;
}

/* ---- TF32 ---- */

static inline const char *rlx_g_gemm_tf32_why_not(const void *args, const struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;

	if (!a->tf32)
		return "the precision policy wants f32 as it is";
	return l->arch < 80 ? "the chip has no TF32" :
	       a->b_form == RLX_B_PACKED ? "b is packed" : NULL;
}

static inline void rlx_g_gemm_tf32_by(const struct rlx_k_gemm *a, bool large,
				      struct rlx_g_launch *l)
{
	rlx_g_gemm_mma_tile(a, 4, RLX_G_GEMM_EDGE(large), l);
	rlx_g_limit_occupancy(l, rlx_g_gemm_mma_resident(RLX_G_GEMM_EDGE(large)));
	RLX_G_VARIANT(l, gemm_mma, RLX_G_GEMM_TYPES(a), .GEMM_TF32 = 1, .GEMM_TRANS_A = a->trans_a,
		      .GEMM_B_COLS = a->b_form == RLX_B_COLS, .GEMM_EDGE = RLX_G_GEMM_EDGE(large));
}

static inline bool rlx_g_gemm_tf32_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	if (i < 2)
		rlx_g_gemm_tf32_by((const struct rlx_k_gemm *)args, !i, l);
	return i < 2;
}

static inline void rlx_g_gemm_tf32_cost(const void *args, const struct rlx_g_launch *l,
					struct rlx_g_cost *t)
{
	rlx_g_gemm_mma_tile_cost((const struct rlx_k_gemm *)args, 4, l->param.gemm_mma.GEMM_EDGE,
				 RLX_G_RATE_mma_tf32, t);
}

static inline void rlx_g_gemm_f32_launch(const void *args, struct rlx_g_launch *l)
{
	static const struct rlx_g_option option[] = {
		{ RLX_G_gemv_f32, rlx_g_gemv_why_not, rlx_g_gemv_f32_plan, rlx_g_gemv_f32_cost },
		{ RLX_G_gemm_small_m_f32, rlx_g_small_m_f32_why_not, rlx_g_small_m_f32_plan,
		  rlx_g_small_m_f32_cost },
		{ RLX_G_gemm_mma, rlx_g_gemm_tf32_why_not, rlx_g_gemm_tf32_plan,
		  rlx_g_gemm_tf32_cost },
		{ RLX_G_gemm_tiled, rlx_g_gemm_tiled_why_not, rlx_g_gemm_tiled_plan,
		  rlx_g_gemm_tiled_cost },
		{ RLX_G_gemm_ordered, rlx_g_gemm_ordered_why_not, rlx_g_gemm_ordered_plan,
		  rlx_g_gemm_ordered_cost },
		{ RLX_G_gemm_dots, rlx_g_gemm_dots_why_not, rlx_g_gemm_dots_plan,
		  rlx_g_gemm_dots_cost },
	};
	static const struct rlx_g_family family = { "gemm", option, 6, rlx_g_gemm_describe };

	rlx_g_choose(&family, args, l);
}

#endif
