/* SPDX-License-Identifier: MIT */
/*
 * Launches of GEMMs of f32: which kernel, in which tiles; a part of launch.h.
 *
 * GEMV (M up to 8), small tiles of 8 to 32 rows, tiles from 64 x 32 to 128 x 128 (gemm_tiled.h),
 * whose k several blocks may share out (split-K), and, if the precision policy allows, TF32 by
 * MMA, of which small M has no need: the least time is taken (cost.h).
 * Of tiles a multiprocessor has 512 threads at a time: a step of k takes one of the large ones
 * nearly as long as both, and sums that meet in memory take their time.
 */
#ifndef RLX_G_LAUNCH_GEMM_F32_H
#define RLX_G_LAUNCH_GEMM_F32_H

#include "kernels/gpu/launch_gemm.h"

static inline bool rlx_g_gemv_f32_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;

	if (i || !rlx_g_gemv(a, l))
		return false;
	RLX_G_VARIANT(l, gemv_f32, .GEMM_B_COLS = a->b_form == RLX_B_COLS,
		      .GEMM_LANES = rlx_g_gemv_lanes(a));
	return true;
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

/* Those that load least for what they do first; none has twice the rows that there are. */
static inline bool rlx_g_small_m_f32_plan(const void *args, unsigned int i,
					  struct rlx_g_launch *l)
{
	static const struct rlx_g_gemm_tile tile[] = { { 32, 32 }, { 16, 32 }, { 8, 32 },
						       { 16, 16 }, { 16, 8 }, { 8, 16 } };
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;

	if (i >= sizeof(tile) / sizeof(tile[0]))
		return false;
	rlx_g_gemm_small_m_f32_by(a, tile[i], 12, l);
	l->can = l->grid[0] < 1 << 30 && (a->m > 8 || tile[i].m == 8) &&
		 (a->m <= 16 || tile[i].m > 8);
	return true;
}

static inline void rlx_g_small_m_f32_cost(const void *args, const struct rlx_g_launch *l,
					  struct rlx_g_cost *t)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const struct rlx_g_gemm_small_m_f32_param *p = &l->param.gemm_small_m_f32;
	double m = p->GEMM_TILE_M, n = p->GEMM_TILE_N, k = (double)a->k, warps = l->block[0] / 32;
	int64_t step = GEMM_SMALL_M_F32_STEP(p->GEMM_TILE_M, p->GEMM_TILE_N);
	bool at_once = l->grid[0] <= l->processors;

	t->rate = RLX_G_RATE_fma_f32;
	t->part = m * n > 512 ? 0.4 : m * n > 256 ? 0.35 : m * n > 128 ? 0.27 : 0.19;
	t->part *= p->GEMM_B_COLS ? 0.83 : 1;	/* a lane's columns are lines apart */
	t->flops = 2 * m * n * k;
	t->l2_bytes = (m + (at_once && !rlx_g_gemm_b_bytes(a) ? 0 : n)) * k * 4;
	t->steps = (double)rlx_g_ceil(rlx_g_ceil((int64_t)a->k, step), (int64_t)warps);
	t->step_ns = 150;
	t->begin_ns = 500;
	t->end_ns = 150 + m * n;
	t->dram_bytes = rlx_g_gemm_dram(a);
	t->in_flight = warps * (m + n) * (double)step * 4;
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

/* Tiles large and small by a team each, then small ones by four of 1 to 8 blocks. */
static inline bool rlx_g_gemm_tiled_plan(const void *args, unsigned int i,
					 struct rlx_g_launch *l)
{
	static const struct rlx_g_tiling one[] = { { { 128, 128 }, 1, 1 }, { { 64, 64 }, 1, 1 },
						   { { 128, 64 }, 1, 1 }, { { 64, 32 }, 1, 1 } };
	struct rlx_g_tiling by = { { 64, 64 }, 4, (int64_t)i - 3 };

	if (i > 11)
		return false;
	rlx_g_gemm_tiled_by((const struct rlx_k_gemm *)args, i < 4 ? one[i] : by, l);
	return true;
}

static inline void rlx_g_gemm_tiled_cost(const void *args, const struct rlx_g_launch *l,
					 struct rlx_g_cost *t)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const struct rlx_g_gemm_tiled_param *p = &l->param.gemm_tiled;
	int64_t m = p->GEMM_TILE_M, n = p->GEMM_TILE_N, depth = GEMM_TILED_K * p->GEMM_TEAMS;
	int64_t tiles = rlx_g_ceil((int64_t)a->m, m) * rlx_g_ceil((int64_t)a->n, n) *
			(int64_t)rlx_k_gemm_batches(a);
	int64_t shares = tiles ? (int64_t)l->grid[0] / tiles : 1;
	int64_t steps = rlx_g_ceil(rlx_g_ceil((int64_t)a->k, depth), shares ? shares : 1);

	t->rate = RLX_G_RATE_fma_f32;
	t->part = p->GEMM_TEAMS > 1 || m * n > 64 * 128 ? 0.8 : m * n > 64 * 32 ? 0.72 : 0.6;
	t->flops = 2.0 * (double)(m * n * depth * steps);
	t->l2_bytes = (double)((m + n) * depth * steps) * 4;
	t->steps = (double)steps;
	t->step_ns = 1450;
	t->begin_ns = p->GEMM_TEAMS > 1 ? 1600 : m * n > 64 * 128 ? 2000 : 1200;
	t->once_ns = p->GEMM_SPLIT_K ? 3000 : 0;
	t->end_ns = p->GEMM_TEAMS > 1 ? 1300 : m * n > 64 * 128 ? 2000 :
		    850.0 * (double)(m * n) / (64 * 64);
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
	if (i < 4)
		l->shared = rlx_g_gemm_ordered_shared(m, n, parts);
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
		{ RLX_G_gemv_f32, rlx_g_gemv_why_not, rlx_g_gemv_f32_plan, rlx_g_gemv_cost },
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
