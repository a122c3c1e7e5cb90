/* SPDX-License-Identifier: MIT */
/*
 * Launches of GEMMs: which kernel, in which tiles; a part of launch.h.
 *
 * A GEMM's types make its family: f16, bf16 and mixtures of them with f32; f32, of which
 * launch_gemm_f32.h tells; f64 and int8 by tiles. Of a family's kernels those that can do what is
 * asked for are compared by the time that each takes in each of its tiles (cost.h), and the least
 * is taken. Of f16 and bf16: weight-streaming GEMV (M up to 16, lines at 16 bytes), GEMV (M up to
 * 8), small M (up to 64 rows, B by columns), wgmma (sm_90; operands whose lines do not begin at 16
 * bytes are repacked; split-K where tiles are few), tiles by MMA, tiles in registers alone (small
 * products, lines that begin anywhere).
 *
 * Weights that stay in the cache between runs are read while the launch ahead ends, and so cost
 * nothing (rlx_g_gemm_b_bytes()).
 * Limits: m, n, k below 2^30 or so in most of them; packed B is the CPU's and has no kernel here.
 */
#ifndef RLX_G_LAUNCH_GEMM_H
#define RLX_G_LAUNCH_GEMM_H

#include "kernels/gpu/gemm_grouped.h"
#include "kernels/gpu/gemm_repack.h"
#include "kernels/gpu/gemm_result.h"
#include "kernels/gpu/gemm_tile.h"
#include "kernels/gpu/launch.h"

/* Blocks that tiles of @edge x @edge make of a product. */
static inline int64_t rlx_g_gemm_tiles(const struct rlx_k_gemm *a, int64_t edge)
{
	return rlx_g_ceil((int64_t)a->m, edge) * rlx_g_ceil((int64_t)a->n, edge) *
	       (int64_t)rlx_k_gemm_batches(a);
}

/* The types of a product as parameters. */
#define RLX_G_GEMM_TYPES(a)						\
	.GEMM_TYPE_A = (a)->a_type, .GEMM_TYPE_B = (a)->b_type, .GEMM_TYPE_C = (a)->c_type
#define RLX_G_GEMM_SCALED_TYPES(a)	RLX_G_GEMM_TYPES(a), .GEMM_SCALED = (a)->scales != NULL

#define RLX_G_GEMM_EDGE(large)	((large) ? 128 : 64)	/* rows and columns of such a tile */

/* Smaller weights stay in the L2 from one run to the next. */
enum { RLX_G_GEMM_CACHED = 2 << 20 };

/* Bytes of b that a launch brings from memory: all, if it is not in the L2 anyway. */
static inline double rlx_g_gemm_b_bytes(const struct rlx_k_gemm *a)
{
	double bytes = (double)a->n * (double)a->k * rlx_k_type_size(a->b_type) *
		       (a->b_step[0] || a->b_step[1] ? (double)rlx_k_gemm_batches(a) : 1);

	return a->b_fixed && bytes < RLX_G_GEMM_CACHED ? 0 : bytes;
}

/* Bytes that a launch moves from memory or there, each once. */
static inline double rlx_g_gemm_dram(const struct rlx_k_gemm *a)
{
	double batches = (double)rlx_k_gemm_batches(a), m = (double)a->m, c;

	c = m * (double)a->n * rlx_k_type_size(a->c_type) * (a->residual ? 2 : 1);
	return rlx_g_gemm_b_bytes(a) +
	       batches * (c + m * (double)a->k * rlx_k_type_size(a->a_type));
}

/* Of a kernel that waits for the launch ahead before all else, which others do something beside. */
enum { RLX_G_GEMM_WAITS_NS = 350 };

/* Results that a tile of @m x @n has, at most. */
static inline double rlx_g_gemm_stored(const struct rlx_k_gemm *a, int64_t m, int64_t n)
{
	return ((double)a->m < (double)m ? (double)a->m : (double)m) *
	       ((double)a->n < (double)n ? (double)a->n : (double)n);
}

/* ---- GEMV ---- */

#define RLX_G_GEMV_ROWS	8	/* so few rows go at the speed of b's memory */

static inline const char *rlx_g_gemv_why_not(const void *args, const struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;

	(void)l;
	return a->b_form == RLX_B_PACKED ? "b is packed" : a->trans_a ? "a is transposed" :
	       a->m > RLX_G_GEMV_ROWS ? "M is over 8" : NULL;
}

/* Places where lines of a begin, or (@b) of b, or'ed: of elements of @size bytes, in bytes. */
static inline uint64_t rlx_g_gemm_lines(const struct rlx_k_gemm *a, bool b, uint32_t size)
{
	const size_t *step = b ? a->b_step : a->a_step;

	return (uint64_t)(uintptr_t)(b ? a->b : a->a) |
	       size * (uint64_t)((b ? a->ldb : a->lda) | step[0] | step[1]);
}

/* All lines of both, of elements of @size bytes or less, begin at 16 bytes. */
static inline bool rlx_g_gemm_wide(const struct rlx_k_gemm *a, uint32_t size)
{
	return (rlx_g_gemm_lines(a, false, size) | rlx_g_gemm_lines(a, true, size)) % 16 == 0;
}

/* Bytes, at most 16, by which pieces of lines of @bytes can be read; or'ed @lines. */
static inline int32_t rlx_g_piece(uint64_t lines, uint64_t bytes)
{
	uint64_t odd = lines | bytes | 16;

	return (int32_t)(odd & -odd);
}

/* Elements that a load of b takes; by columns of a, too, of which 16 bytes are several loads. */
static inline int32_t rlx_g_gemv_by(const struct rlx_k_gemm *a)
{
	uint32_t size = rlx_k_type_size(a->b_type), a_size = rlx_k_type_size(a->a_type);
	bool cols = a->b_form == RLX_B_COLS;
	int32_t b = rlx_g_piece(rlx_g_gemm_lines(a, true, size), size * (cols ? a->k : a->n));
	int32_t by_a = rlx_g_piece(rlx_g_gemm_lines(a, false, a_size), a_size * a->k);

	b /= (int32_t)size;
	by_a = by_a < 16 ? by_a / (int32_t)a_size : b;
	return cols && by_a < b ? by_a : b;
}

/* Rows that it is built for. */
static inline int32_t rlx_g_gemv_rows(const struct rlx_k_gemm *a)
{
	return a->m > 4 ? 8 : a->m > 2 ? 4 : a->m > 1 ? 2 : 1;
}

/*
 * Way @i: lanes of a column of b; by rows, threads side by side, as many as have room for the
 * sums of their teams. 0: there is none.
 */
static inline int32_t rlx_g_gemv_lanes(const struct rlx_k_gemm *a, unsigned int i)
{
	static const int32_t side[] = { 8, 32, 128 };
	int32_t by = rlx_g_gemv_by(a);

	if (a->b_form == RLX_B_COLS)
		return i ? 0 : GEMV_LANES(a->k, (size_t)by);
	return i < 3 ? side[i] : 0;
}

/* Columns of a block. */
static inline int64_t rlx_g_gemv_cols(const struct rlx_k_gemm *a, int64_t lanes)
{
	return a->b_form == RLX_B_COLS ? 32 : lanes * rlx_g_gemv_by(a);
}

static inline bool rlx_g_gemv(const struct rlx_k_gemm *a, unsigned int i, struct rlx_g_launch *l)
{
	int64_t lanes = rlx_g_gemv_lanes(a, i), cols = rlx_g_gemv_cols(a, lanes);

	if (!lanes)
		return false;
	rlx_g_line(l, a->m ? rlx_g_ceil((int64_t)a->n, cols) * (int64_t)rlx_k_gemm_batches(a) : 0,
		   256);
	l->can = l->grid[0] < 1 << 30 &&
		 (a->b_form == RLX_B_COLS || rlx_g_gemv_rows(a) * cols <= 1024);
	return true;
}

/*
 * By columns of b a thread has pieces of one to four of them under way, and as many rows; by rows
 * pieces of two to eight of its lines of b, whether there are as many or not. Each load takes as
 * long as some multiplications. Shuffles meet the sums of neighbours that are less than a warp.
 */
static inline void rlx_g_gemv_cost_by(const struct rlx_k_gemm *a, int64_t lanes,
				      struct rlx_g_cost *t)
{
	const bool cols = a->b_form == RLX_B_COLS, f32 = rlx_k_type_size(a->b_type) > 2;
	int64_t by = rlx_g_gemv_by(a), rows = rlx_g_gemv_rows(a), ahead = GEMV_AHEAD(rows, by);
	double r = (double)rows, sums = (double)(rows * by), each = (double)lanes / 8;

	t->rate = RLX_G_RATE_fma_f32;
	if (cols) {
		t->part = f32 ? 1 : 0.59;
		t->steps = (double)rlx_g_ceil((int64_t)a->k, lanes * by);
		t->flops = 512 * t->steps * (each * sums + 5 * (each + r));
		t->step_ns = rows > 4 ? 240 : 120;
		t->begin_ns = f32 ? 90 : 570;
		t->end_ns = f32 ? 14 + 12 * r * each : 9 + 2.6 * r * each;
		t->resident = f32 ? 1 : 2;
	} else {
		t->part = f32 ? 0.5 : 0.4;
		t->steps = (double)rlx_g_ceil((int64_t)a->k, 256 / lanes * ahead);
		t->flops = 512 * t->steps * (double)ahead * (sums + 4 + 3 * r);
		t->step_ns = f32 ? 350 : 415;
		t->begin_ns = f32 ? 100 : 235;
		t->end_ns = f32 ? 35 + 5 * sums : 57 + 1.9 * sums + (lanes < 32 ? 35 : 0);
		t->resident = f32 ? 4 : 2;
	}
	t->l2_bytes = ((double)a->m + (double)rlx_g_gemv_cols(a, lanes)) * (double)a->k *
		      rlx_k_type_size(a->b_type);
	t->dram_bytes = rlx_g_gemm_dram(a);
}

static inline void rlx_g_gemv_cost(const void *args, const struct rlx_g_launch *l,
				   struct rlx_g_cost *t)
{
	rlx_g_gemv_cost_by((const struct rlx_k_gemm *)args, l->param.gemv.GEMM_LANES, t);
}

static inline bool rlx_g_gemv_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;

	if (!rlx_g_gemv(a, i, l))
		return false;
	RLX_G_VARIANT(l, gemv, RLX_G_GEMM_SCALED_TYPES(a),
		      .GEMM_B_COLS = a->b_form == RLX_B_COLS,
		      .GEMM_LANES = rlx_g_gemv_lanes(a, i), .GEMM_ROWS = rlx_g_gemv_rows(a),
		      .GEMM_BY = rlx_g_gemv_by(a));
	return true;
}

/* ---- small M ---- */

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

/* Blocks of 16 rows. */
static inline int64_t rlx_g_small_m_down(const struct rlx_k_gemm *a)
{
	return rlx_g_ceil((int64_t)a->m, 16) * (int64_t)rlx_k_gemm_batches(a);
}

static inline const char *rlx_g_small_m_why_not(const void *args, const struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const size_t most = INT32_MAX / 2;

	(void)l;
	if (a->trans_a)
		return "a is transposed";
	if (a->b_form != RLX_B_COLS)
		return "b is not by columns";
	if (a->m > 64)
		return "M is over 64";
	if (a->m > 16 && rlx_g_ceil((int64_t)a->n, 8) * rlx_g_small_m_down(a) > 1024)
		return "M is over 16, and N makes too many blocks";
	return a->k > most || a->n > most ? "K or N is over 2^30" : NULL;
}

/*
 * Up to 64 rows by blocks of 16 (gemm_small_m.h): more of them than a row of tiles has,
 * and warps that split k (split-K), for it is the time of one block that counts.
 */
static inline bool rlx_g_small_m_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	int64_t steps = rlx_g_ceil((int64_t)a->k, 32), down = rlx_g_small_m_down(a);
	uint32_t cols = rlx_g_small_m_cols(rlx_g_ceil((int64_t)a->n, 8) * down);
	uint32_t warps = steps < 12 ? (uint32_t)steps : 12;

	if (i)
		return false;
	warps = warps < 4 ? 4 : warps + warps % 2;	/* whole ones of 64 lanes too */
	rlx_g_line(l, a->m ? rlx_g_ceil((int64_t)a->n, cols) * down : 0, warps * 32);
	l->shared = warps * 16 * (cols + 4) * (uint32_t)sizeof(float);
	RLX_G_VARIANT(l, gemm_small_m, RLX_G_GEMM_SCALED_TYPES(a), .GEMM_COLS = (int32_t)cols);
	return l->grid[0] < 1 << 30;
}

/* A warp loads two to four steps of k, waits for all, and multiplies: it seldom loads. */
static inline void rlx_g_small_m_cost(const void *args, const struct rlx_g_launch *l,
				      struct rlx_g_cost *t)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	double cols = l->param.gemm_small_m.GEMM_COLS, warps = l->block[0] / 32;
	bool cached = !rlx_g_gemm_b_bytes(a), wide = rlx_g_gemm_wide(a, 2) && a->k % 8 == 0;

	t->rate = RLX_G_RATE_mma_f16;
	t->part = 0.5;
	t->flops = 2.0 * 16 * cols * (double)a->k;
	t->l2_bytes = (16 + (cached ? 0 : cols)) * (double)a->k * 2;
	t->steps = (double)rlx_g_ceil(rlx_g_ceil((int64_t)a->k, 32), (int64_t)warps);
	t->step_ns = wide ? 2.4 * cols : 155 + 4.5 * cols;
	t->begin_ns = (wide ? 195 : 0) + (a->act ? 150 : 0) + (a->residual ? 170 : 0) +
		      1.5 * rlx_g_gemm_stored(a, 16, (int64_t)cols);
	/* elements of lines at odd places are loads of their own, all of them */
	t->end_ns = 7 * cols +
		    (wide ? 0 : 3.3 * cols * (double)rlx_g_ceil((int64_t)a->k, 32));
	t->dram_bytes = rlx_g_gemm_dram(a);
	t->in_flight = warps * (cols > 16 ? 2 : 4) * (16 + cols) * 64 / 6;
	t->resident = 1;
}

/* ---- tiles in registers ---- */

static inline const char *rlx_g_direct_why_not(const void *args, const struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const size_t most = INT32_MAX / 2;

	if (a->trans_a || a->b_form == RLX_B_PACKED)
		return "a is transposed, or b packed";
	if (a->a_type != a->b_type || rlx_k_type_size(a->a_type) != 2)
		return "a and b are not both f16 or both bf16";
	if (a->b_form == RLX_B_COLS && rlx_g_gemm_wide(a, 2) && a->k % 8 == 0)
		return "b is by columns of which each begins at 16 bytes, as others want it";
	return a->k > most || a->n > most || a->m > most ? "a size is over 2^30" : NULL;
}

/* Each width of a block; warps that split k, but for what few of them have to do. */
static inline bool rlx_g_direct_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	bool by_cols = a->b_form == RLX_B_COLS;
	uint64_t lines = rlx_g_gemm_lines(a, false, 2), b = rlx_g_gemm_lines(a, true, 2);
	int64_t steps = rlx_g_ceil((int64_t)a->k, GEMM_DIRECT_K);
	uint32_t warps = steps < 12 ? (uint32_t)(steps + steps % 2) : 12;
	int32_t cols = 64 >> i, by_n = by_cols ? 0 : rlx_g_piece(b, 2 * a->n);
	uint32_t least = (uint32_t)cols * (a->m < 16 ? (uint32_t)a->m : 16) > 512 ? 4 : 2;

	if (i > 3)
		return false;
	warps = warps < least ? least : warps;	/* for the epilogue */
	rlx_g_line(l, rlx_g_ceil((int64_t)a->n, cols) * rlx_g_small_m_down(a), warps * 32);
	l->shared = warps * 16 * (uint32_t)(cols + 4) * (uint32_t)sizeof(float);
	l->can = l->can && l->grid[0] < 1 << 30 && l->shared <= l->most_shared;
	RLX_G_VARIANT(l, gemm_direct, RLX_G_GEMM_SCALED_TYPES(a), .GEMM_COLS = cols,
		      .GEMM_BY_K = rlx_g_piece(by_cols ? lines | b : lines, 2 * a->k),
		      .GEMM_BY_N = by_n < cols / 4 ? by_n : cols / 4);
	return true;
}

/*
 * Warps wait for memory once for all that they have under way; what blocks keep from each other
 * is the way of loads into registers, each of which takes eight lines or so.
 */
static inline void rlx_g_direct_cost(const void *args, const struct rlx_g_launch *l,
				     struct rlx_g_cost *t)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const struct rlx_g_gemm_direct_param *p = &l->param.gemm_direct;
	double cols = p->GEMM_COLS, warps = l->block[0] / 32, loads;
	int64_t steps = rlx_g_ceil((int64_t)a->k, GEMM_DIRECT_K);
	int ahead = GEMM_DIRECT_AHEAD(p->GEMM_COLS, p->GEMM_BY_K, p->GEMM_BY_N);

	loads = 32.0 / p->GEMM_BY_K + (p->GEMM_BY_N ? 2 * cols / p->GEMM_BY_N :
							2 * cols / p->GEMM_BY_K);
	t->rate = RLX_G_RATE_mma_f16;
	t->part = 0.4;
	t->flops = 2.0 * 16 * cols * (double)a->k;
	t->l2_bytes = (16 + cols) * (double)a->k * 2;
	t->steps = (double)rlx_g_ceil(steps, (int64_t)warps * ahead);
	t->step_ns = 7.7 * loads * ahead + 135 * ahead * ((p->GEMM_BY_K == 2) +
							  (p->GEMM_BY_N == 2) * cols / 32);
	t->begin_ns = (cols < 32 ? 70 : 9 * cols) + (a->act ? 560 : 0) + (a->residual ? 220 : 0);
	t->end_ns = 69 * warps + 1.3 * loads * (double)steps +
		    0.27 * rlx_g_gemm_stored(a, 16, (int64_t)cols);
	t->dram_bytes = rlx_g_gemm_dram(a);
	t->resident = (cols > 32 ? 256 : 640) / l->block[0];	/* as registers let */
	t->resident += !t->resident;
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

/* Which operands of 16-bit floats have lines that do not begin at 16 bytes. */
static inline int rlx_g_gemm_unaligned(const struct rlx_k_gemm *a)
{
	return (rlx_g_gemm_lines(a, false, 2) % 16 ? RLX_G_REPACK_A : 0) |
	       (rlx_g_gemm_lines(a, true, 2) % 16 ? RLX_G_REPACK_B : 0);
}

/* Both operands are of one type of 16-bit floats, of sizes that TMA can read; else why not. */
static inline const char *rlx_g_gemm_unmapped(const struct rlx_k_gemm *a)
{
	const size_t most = INT32_MAX / 2;

	if (a->a_type != a->b_type || a->a_type == RLX_F32)
		return "a and b are not both f16 or both bf16";
	return a->m && a->n && a->k && a->m < most && a->n < most && a->k < most &&
	       a->lda < most && a->ldb < most && rlx_g_gemm_tiles(a, 64) < INT32_MAX ?
	       NULL : "a size is 0, or over 2^30";
}

/* The pass that repacks operands, which waits for memory as any launch does. */
static inline void rlx_g_gemm_repack_cost(const struct rlx_k_gemm *a, int which,
					  struct rlx_g_cost *t)
{
	if (!which)
		return;
	t->alone_bytes += 3.2 * (double)rlx_g_repack_bytes(a, which);
	t->once_ns += 2700;
}

/*
 * What lines of the result that do not begin at 16 bytes take beyond others, of a tile of which
 * @stored are stored: @shifted into place, those that do not begin at 8 bytes, or at 4; else by
 * pairs or elements, each of which meets as many sectors of memory as 16 bytes do.
 */
static inline double rlx_g_gemm_wgmma_odd_ns(const struct rlx_k_gemm *a, bool shifted,
					     double stored)
{
	if (rlx_k_type_size(a->c_type) != 2)
		return 0;
	if (!shifted)
		return a->ldc % 2 ? stored / 3.6 : a->ldc % 8 ? stored / 13 : 0;
	return a->ldc % 2 ? (a->n < 16 ? 26 * (double)a->n : 420) + stored / 6.7 :
	       a->ldc % 4 ? stored / 6.7 : 0;
}

/*
 * A step of k takes what loading takes or multiplying, then comes the end of the sums, which a
 * persistent block does with its tensor cores idle, but for those of another block of its
 * multiprocessor: small tiles wait for their first operands beside it. Parts of sums go to memory,
 * all of them at once, and the block that comes last reads those of its tile. The epilogue's code
 * is fetched once.
 */
static inline void rlx_g_gemm_wgmma_cost(const void *args, const struct rlx_g_launch *l,
					 struct rlx_g_cost *t)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const struct rlx_g_gemm_wgmma_param *p = &l->param.gemm_wgmma;
	int64_t m = p->GEMM_TILE_M, n = p->GEMM_TILE_N;
	int64_t steps = rlx_g_ceil((int64_t)a->k, GEMM_TILE_DEPTH), parts = 1;
	int64_t tiles = rlx_g_ceil((int64_t)a->m, m) * rlx_g_ceil((int64_t)a->n, n) *
			(int64_t)rlx_k_gemm_batches(a);
	double k, part = (double)(m * n) * 4 / 60, stored = rlx_g_gemm_stored(a, m, n);
	bool slow = a->act > RLX_ACT_RELU;

	if (GEMM_TILE_BLOCKS(m, n) > 1) {
		t->begin_ns = 560;
		t->end_ns = 110 + (double)(m * n) / 24;
	} else {	/* one warpgroup ends 64 x 256 alone */
		t->end_ns = 880 + (double)(m * n) / 20 + (m < 128 ? 500 : 0);
	}
	t->once_ns = (slow ? 870 : 0) + (a->residual ? 820 : 0);
	t->end_ns += (slow ? stored / 12 : 0) +
		     rlx_g_gemm_wgmma_odd_ns(a, p->GEMM_REPACK != 0, stored);
	if (p->GEMM_SPLIT_K) {
		parts = l->grid[0] / tiles;
		t->end_ns += part / 4;
		t->once_ns += 1600 + 1200.0 * l->grid[0] / l->processors +
			      0.45 * (double)parts * part;
	}
	k = (double)(rlx_g_ceil(steps, parts) * GEMM_TILE_DEPTH);
	t->blocks = (double)(tiles * parts);
	t->rate = RLX_G_RATE_mma_f16;
	t->flops = 2.0 * (double)(m * n) * k;
	t->l2_bytes = (double)(m + n) * k * 2;
	if (rlx_g_gemm_scatters(a, rlx_k_type_size(a->c_type)))
		t->once_ns += 0.7 * (double)(a->m * a->n * rlx_k_gemm_batches(a));
	t->dram_bytes = rlx_g_gemm_dram(a);
	t->resident = GEMM_TILE_BLOCKS(m, n);
	rlx_g_gemm_repack_cost(a, p->GEMM_REPACK, t);
}

/* Rows and columns of a tile. */
struct rlx_g_gemm_tile {
	int32_t	m, n;
};

/* Tiles by warpgroups, those that load least for what they do first. */
enum { RLX_G_GEMM_TILES = 7 };

static inline bool rlx_g_gemm_tile(unsigned int i, struct rlx_g_gemm_tile *out)
{
	static const struct rlx_g_gemm_tile tile[RLX_G_GEMM_TILES] = {
		{ 128, 256 }, { 128, 192 }, { 128, 128 }, { 64, 256 }, { 64, 128 }, { 128, 64 },
		{ 64, 64 },
	};

	if (i >= RLX_G_GEMM_TILES)
		return false;
	*out = tile[i];
	return true;
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
		    (int64_t)rlx_k_gemm_batches(a), blocks = GEMM_TILE_BLOCKS(t.m, t.n);
	int64_t each = rlx_g_ceil(n, l->processors);	/* tiles of a multiprocessor */

	/*
	 * As many tiles for each block, so that fewer read side by side; where two blocks of a
	 * multiprocessor share out an odd number, its second block has one less than the first.
	 */
	rlx_g_line(l, each < blocks ? n : each % blocks ? l->processors * blocks :
		      rlx_g_ceil(n, each / blocks), (uint32_t)GEMM_TILE_THREADS(t.m));
	l->shared = (uint32_t)GEMM_TILE_SHARED(t.m, t.n, blocks);
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

/*
 * With as many blocks for the k of each tile (split-K): @most, or fewer if that makes their parts
 * alike; their sums in scratch, behind what is there. Not where there are too few steps of k, or
 * more blocks than run at once.
 */
static inline void rlx_g_gemm_split(const struct rlx_k_gemm *a, struct rlx_g_gemm_tile t,
				    int64_t most, struct rlx_g_launch *l)
{
	int64_t steps = rlx_g_ceil((int64_t)a->k, GEMM_TILE_DEPTH), parts;
	int64_t tiles = rlx_g_ceil((int64_t)a->m, t.m) * rlx_g_ceil((int64_t)a->n, t.n) *
			(int64_t)rlx_k_gemm_batches(a);

	most = most < steps / 2 ? most : steps / 2;
	l->can = most > 1 && tiles * most <= l->processors &&
		 tiles * 4 * GEMM_TILE_WARPGROUPS(t.m) <= RLX_G_ZEROS;
	if (!l->can)
		return;
	parts = rlx_g_ceil(steps, rlx_g_ceil(steps, most));
	rlx_g_line(l, tiles * parts, l->block[0]);
	l->scratch += (uint64_t)(tiles * parts * t.m * t.n) * 4;
	l->param.gemm_wgmma.GEMM_SPLIT_K = 1;
}

static inline const char *rlx_g_gemm_wgmma_why_not(const void *args,
						   const struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;

	return l->arch != 90 ? "the chip is not sm_90" :
	       a->b_form == RLX_B_PACKED ? "b is packed" :
	       rlx_g_repack_bytes(a, rlx_g_gemm_unaligned(a)) > RLX_G_REPACK_MOST ?
	       "a line of a or b does not begin at 16 bytes, and there is too much of them" :
	       rlx_g_gemm_unmapped(a);
}

/* A pass ahead, by all of the chip, that repacks operands. */
static inline void rlx_g_gemm_repack(const struct rlx_k_gemm *a, int which,
				     struct rlx_g_launch *l)
{
	if (!which)
		return;
	l->n_launches = 2;
	l->scratch = rlx_g_repack_bytes(a, which);
	if (l->grid[0] < l->processors)
		l->grid[0] = l->processors;
}

/* Each tile without split-K, then with as many parts as there is room for, then half of that. */
static inline bool rlx_g_gemm_wgmma_plan(const void *args, unsigned int i,
					 struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	int which = rlx_g_gemm_unaligned(a);
	const struct rlx_k_gemm g = rlx_g_repack_product(a, which, 0);
	struct rlx_g_gemm_tile t;
	int64_t tiles;

	if (i >= 3 * RLX_G_GEMM_TILES || !rlx_g_gemm_tile(i % RLX_G_GEMM_TILES, &t))
		return false;
	rlx_g_gemm_by(&g, t, l);
	rlx_g_gemm_repack(a, which, l);
	l->param.gemm_wgmma.GEMM_REPACK = which;
	for (int k = 0; k < 2; k++)
		if (which & (k ? RLX_G_REPACK_B : RLX_G_REPACK_A)) {
			l->map[k].in_scratch = true;
			l->map[k].field = k ? rlx_g_repack_b_at(a, which) : 0;
		}
	if (i < RLX_G_GEMM_TILES)
		return true;
	tiles = rlx_g_ceil((int64_t)a->m, t.m) * rlx_g_ceil((int64_t)a->n, t.n) *
		(int64_t)rlx_k_gemm_batches(a);
	rlx_g_gemm_split(a, t, l->processors / tiles / (i < 2 * RLX_G_GEMM_TILES ? 1 : 2), l);
	return true;
}

/* ---- by warps ---- */

/* Blocks of a multiprocessor at a time, as registers let (gemm_mma.cu). */
static inline int64_t rlx_g_gemm_mma_resident(int edge)
{
	return edge > 64 ? 2 : edge > 32 ? 4 : 8;
}

/* In tiles of warps, of elements of @size bytes; which kernel, says the caller. */
static inline void rlx_g_gemm_mma_tile(const struct rlx_k_gemm *a, uint32_t size, int edge,
				    struct rlx_g_launch *l)
{
	int m = GEMM_MMA_TILE_M(edge), n = GEMM_MMA_TILE_N(edge);
	bool cols = a->b_form == RLX_B_COLS;

	rlx_g_line(l, rlx_g_ceil((int64_t)a->m, m) * rlx_g_ceil((int64_t)a->n, n) *
		      (int64_t)rlx_k_gemm_batches(a), (uint32_t)GEMM_MMA_TILE_THREADS(edge));
	l->shared = (uint32_t)(GEMM_MMA_TILE_STAGES * (GEMM_MMA_TILE_BYTES(size, m, a->trans_a) +
						    GEMM_MMA_TILE_BYTES(size, n, !cols)));
}

/* What tiles with an edge take: as struct rlx_g_tiled_times; @end_ns: beside what is stored. */
struct rlx_g_mma_times {
	int	edge;
	double	part, step_ns, begin_ns, end_ns;
};

static inline const struct rlx_g_mma_times *rlx_g_mma_times(uint32_t size, int edge)
{
	static const struct rlx_g_mma_times times[3][4] = {
		{ { 128, 0.5, 250, 0, 300 }, { 64, 0.35, 250, 0, 300 } },
		{ { 128, 0.235, 1150, 2370, 200 }, { 64, 0.265, 690, 1280, 270 },
		  { 32, 0.3, 600, 750, 160 }, { 16, 0.3, 720, 790, 170 } },
		{ { 128, 0.22, 1040, 1920, 0 }, { 64, 0.147, 650, 600, 350 } },
	};
	const struct rlx_g_mma_times *t = times[size / 2];

	while (t->edge != edge)
		t++;
	return t;
}

/*
 * Of tiles with @edge, elements of @size bytes: int8, f16 or bf16, TF32. Lines that do not begin at
 * 16 bytes are copied by 8, or waited for before they are put into place; of results only what
 * there is takes time, and each bit of an epilogue its code's fetching.
 */
static inline void rlx_g_gemm_mma_tile_cost(const struct rlx_k_gemm *a, uint32_t size, int edge,
					    enum rlx_g_rate rate, struct rlx_g_cost *t)
{
	static const struct { double part, step_ns; } odd_by[3][4] = {	/* 16, 8, 4, 2 bytes */
		{ { 1, 0 }, { 1, 100 }, { 1, 250 }, { 1, 750 } },
		{ { 1, 0 }, { 0.5, 150 }, { 0.48, 330 }, { 0.66, 410 } },
		{ { 1, 0 }, { 0.63, 205 }, { 0.53, 525 }, { 0.53, 525 } },
	};
	const struct rlx_g_mma_times *by = rlx_g_mma_times(size, edge);
	int64_t depth = GEMM_MMA_TILE_DEPTH(size), steps = rlx_g_ceil((int64_t)a->k, depth);
	uint64_t odd = rlx_g_gemm_lines(a, false, size) | rlx_g_gemm_lines(a, true, size);
	double m = GEMM_MMA_TILE_M(edge), n = GEMM_MMA_TILE_N(edge), k = (double)(steps * depth);
	double stored = rlx_g_gemm_stored(a, (int64_t)m, (int64_t)n);
	int at = odd % 16 == 0 ? 0 : odd % 8 == 0 ? 1 : odd % 4 == 0 ? 2 : 3;

	t->rate = rate;
	t->part = by->part * odd_by[size / 2][at].part;
	t->flops = 2 * m * n * k;
	t->l2_bytes = (m + n) * k * size;
	t->steps = (double)steps;
	t->step_ns = by->step_ns + odd_by[size / 2][at].step_ns;
	if (size == 2 && a->a_type != a->b_type)	/* converted, by elements */
		t->step_ns = 1500;
	t->once_ns = RLX_G_GEMM_WAITS_NS;
	t->begin_ns = by->begin_ns;
	t->end_ns = by->end_ns;
	if (size == 1) {
		t->end_ns += m * n / 17;
	} else {
		t->begin_ns += (a->act ? 1000 : 0) + (a->residual ? size == 2 ? 300 : 550 : 0);
		t->end_ns += stored * ((size == 2 ? 0.27 : 0.18) +
				       (a->ldc % 4 ? size == 2 ? 0.05 : 0.14 : 0) +
				       (a->act ? 0.23 : 0) + (a->residual ? 0.16 : 0));
	}
	t->dram_bytes = rlx_g_gemm_dram(a);
	t->resident = (uint32_t)rlx_g_gemm_mma_resident(edge);
}

static inline const char *rlx_g_gemm_mma_why_not(const void *args, const struct rlx_g_launch *l)
{
	(void)l;
	return ((const struct rlx_k_gemm *)args)->b_form == RLX_B_PACKED ? "b is packed" : NULL;
}

/* In each tile, the largest first. */
static inline bool rlx_g_gemm_mma_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	static const int32_t edge[] = { 128, 64, 32, 16 };
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;

	if (i >= sizeof(edge) / sizeof(edge[0]))
		return false;
	rlx_g_gemm_mma_tile(a, 2, edge[i], l);
	rlx_g_limit_occupancy(l, rlx_g_gemm_mma_resident(edge[i]));
	RLX_G_VARIANT(l, gemm_mma, RLX_G_GEMM_SCALED_TYPES(a), .GEMM_TRANS_A = a->trans_a,
		      .GEMM_B_COLS = a->b_form == RLX_B_COLS, .GEMM_EDGE = edge[i]);
	return true;
}

static inline void rlx_g_gemm_mma_cost(const void *args, const struct rlx_g_launch *l,
				       struct rlx_g_cost *t)
{
	rlx_g_gemm_mma_tile_cost((const struct rlx_k_gemm *)args, 2, l->param.gemm_mma.GEMM_EDGE,
				 RLX_G_RATE_mma_f16, t);
}

static inline bool rlx_g_gemm_i8_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *g = &((const struct rlx_k_gemm_i8 *)args)->g;

	if (i > 1)
		return false;
	rlx_g_gemm_mma_tile(g, 1, RLX_G_GEMM_EDGE(!i), l);
	rlx_g_limit_occupancy(l, rlx_g_gemm_mma_resident(RLX_G_GEMM_EDGE(!i)));
	RLX_G_VARIANT(l, gemm_i8, .GEMM_B_COLS = g->b_form == RLX_B_COLS,
		      .GEMM_EDGE = RLX_G_GEMM_EDGE(!i));
	return true;
}

static inline void rlx_g_gemm_i8_cost(const void *args, const struct rlx_g_launch *l,
				      struct rlx_g_cost *t)
{
	rlx_g_gemm_mma_tile_cost(&((const struct rlx_k_gemm_i8 *)args)->g, 1,
				 l->param.gemm_i8.GEMM_EDGE, RLX_G_RATE_mma_i8, t);
}

static inline const char *rlx_g_gemm_i8_why_not(const void *args, const struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *g = &((const struct rlx_k_gemm_i8 *)args)->g;

	return g->trans_a ? "a is transposed" : rlx_g_gemm_mma_why_not(g, l);
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
	/* without an expert there is no tile, but indices that refer to none */
	rlx_g_line(l, tiles ? tiles * rlx_g_ceil((int64_t)a->g.n, edge) : 1, threads);
	l->n_launches = 2;
	l->scratch = 4 * rlx_g_grouped_words(a, edge);
}

/* Large tiles where groups have as many rows, one with another, and that takes less time. */
static inline bool rlx_g_grouped_large(const struct rlx_g_grouped *a,
				       const struct rlx_g_launch *l)
{
	double ns[2];

	for (int i = 0; i < 2; i++) {
		struct rlx_g_cost t = { .blocks = (double)rlx_g_gemm_tiles(&a->g,
									   RLX_G_GEMM_EDGE(i)) };

		rlx_g_gemm_mma_tile_cost(&a->g, 2, RLX_G_GEMM_EDGE(i), RLX_G_RATE_mma_f16, &t);
		ns[i] = rlx_g_cost_ns(l, &t);
	}
	return a->g.m / 128 >= a->groups && ns[1] <= ns[0];
}

static inline void rlx_g_grouped_halves_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_g_grouped *a = (const struct rlx_g_grouped *)args;
	const struct rlx_k_gemm *g = &a->g;
	bool large = rlx_g_grouped_large(a, l);

	RLX_G_VARIANT(l, gemm_grouped, RLX_G_GEMM_TYPES(g), .GEMM_EDGE = RLX_G_GEMM_EDGE(large));
	rlx_g_gemm_mma_tile(g, 2, RLX_G_GEMM_EDGE(large), l);
	rlx_g_grouped_line(a, large, l);
}

static inline void rlx_g_grouped_simt(const void *args, struct rlx_g_launch *l, int32_t wide)
{
	const struct rlx_g_grouped *a = (const struct rlx_g_grouped *)args;
	bool large = !wide && rlx_g_grouped_large(a, l);

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

static inline const char *rlx_g_gemv_stream_why_not(const void *args,
						    const struct rlx_g_launch *l)
{
	const struct rlx_k_gemv_stream *a = (const struct rlx_k_gemv_stream *)args;
	const struct rlx_k_gemm *g = &a->g;
	bool rows = g->b_form == RLX_B_ROWS;

	(void)l;
	if (g->m > RLX_K_GEMV_STREAM_ROWS)
		return "M is over 16";
	if (g->b_form == RLX_B_PACKED || g->trans_a)
		return "a is transposed, or b packed";
	if (g->a_type == RLX_F32 || g->a_type != g->b_type)
		return "a and b are not both f16 or both bf16";
	if (g->k % 8 || g->lda % 8 || g->ldb % 8 || (rows && g->n % 8) ||
	    (((uint64_t)(uintptr_t)g->a | (uint64_t)(uintptr_t)g->b) & 15))
		return "a line of a or b does not begin at 16 bytes";
	if (!g->k || g->k > 1 << 30 || rlx_k_gemm_batches(g) != 1)
		return "K is 0 or over 2^30, or there is a batch";
	if (rows && a->gate)
		return "b is by rows, and the result gated";
	return a->norm && g->a_type == RLX_F16 ? "f16 overflows before the norm" : NULL;
}

/* In the one shape that gives all multiprocessors as many columns. */
static inline void rlx_g_gemv_stream_by(const struct rlx_k_gemv_stream *a,
					struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *g = &a->g;
	int64_t n = (int64_t)g->n * (a->gate ? 2 : 1);
	struct rlx_g_gemv_stream_shape s;

	if (!g->m || !n) {
		rlx_g_line(l, 0, 128);
		RLX_G_VARIANT(l, gemv_stream, .STREAM_TYPE = g->a_type);
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
	RLX_G_VARIANT(l, gemv_stream, .STREAM_TYPE = g->a_type, .STREAM_TYPE_C = g->c_type,
		      .STREAM_COLS = (int32_t)s.cols, .STREAM_THREADS = (int32_t)s.threads,
		      .STREAM_STAGES = (int32_t)s.stages, .STREAM_NORM = a->norm,
		      .STREAM_GATED = a->gate != RLX_GATE_NONE, .STREAM_16_ROWS = g->m > 8,
		      .STREAM_B_FIXED = g->b_fixed,
		      .STREAM_B_ROWS = g->b_form == RLX_B_ROWS);
}

static inline void rlx_g_gemv_stream_launch(const void *args, struct rlx_g_launch *l)
{
	if (!rlx_g_gemv_stream_why_not(args, l))
		rlx_g_gemv_stream_by((const struct rlx_k_gemv_stream *)args, l);
}

/* Of a plain GEMM, which becomes the first part of its arguments. */
static inline const char *rlx_g_gemm_stream_why_not(const void *args,
						    const struct rlx_g_launch *l)
{
	const struct rlx_k_gemv_stream a = { .g = *(const struct rlx_k_gemm *)args };

	if (!rlx_g_gemm_b_bytes(&a.g) && !rlx_g_small_m_why_not(args, l))
		return "b stays in the cache: small M is as good, and takes in what stands ahead";
	return rlx_g_gemv_stream_why_not(&a, l);
}

static inline bool rlx_g_gemm_stream_plan(const void *args, unsigned int i,
					  struct rlx_g_launch *l)
{
	const struct rlx_k_gemv_stream a = { .g = *(const struct rlx_k_gemm *)args };

	if (!i)
		rlx_g_gemv_stream_by(&a, l);
	return !i && l->can;
}

/* Its ring is always full; sums of the warps meet at the end. */
static inline void rlx_g_gemm_stream_cost(const void *args, const struct rlx_g_launch *l,
					  struct rlx_g_cost *t)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	double cols = l->param.gemv_stream.STREAM_COLS;
	bool cached = !rlx_g_gemm_b_bytes(a);

	t->rate = RLX_G_RATE_mma_f16;
	t->part = 0.5;
	t->flops = 2.0 * 16 * cols * (double)a->k;
	t->l2_bytes = ((double)a->m + (cached ? 0 : cols)) * (double)a->k * 2;
	t->end_ns = 250 + cols * 4;
	t->dram_bytes = rlx_g_gemm_dram(a);
	t->in_flight = l->shared;
}

/* ---- families ---- */

static inline void rlx_g_gemm_describe(const void *args, char *buf, size_t size)
{
	static const char *const name[] = { [RLX_F32] = "f32", [RLX_BF16] = "bf16",
					    [RLX_F16] = "f16", [RLX_F8E4M3] = "f8e4m3",
					    [RLX_F8E5M2] = "f8e5m2" };
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	uint64_t odd = rlx_g_gemm_lines(a, false, rlx_k_type_size(a->a_type)) |
		       rlx_g_gemm_lines(a, true, rlx_k_type_size(a->b_type)) | 16;

	snprintf(buf, size, "gemm %zux%zux%zu batch=%zu%s %s %s %s %c%c ld=%zu,%zu,%zu at=%d%s%s "
		 "act=%d%s", a->m, a->n, a->k, rlx_k_gemm_batches(a),
		 a->b_step[0] || a->b_step[1] ? "" : " one-b", name[a->a_type], name[a->b_type],
		 name[a->c_type], a->trans_a ? 't' : 'n', a->b_form == RLX_B_COLS ? 't' : 'n',
		 a->lda, a->ldb, a->ldc, (int)(odd & -odd), a->b_fixed ? " fixed" : "",
		 a->residual ? " residual" : "", (int)a->act, a->strict ? " strict" : "");
}

static inline void rlx_g_gemm_i8_describe(const void *args, char *buf, size_t size)
{
	const struct rlx_k_gemm *a = &((const struct rlx_k_gemm_i8 *)args)->g;

	snprintf(buf, size, "gemm_i8 %zux%zux%zu batch=%zu n%c", a->m, a->n, a->k,
		 rlx_k_gemm_batches(a), a->b_form == RLX_B_COLS ? 't' : 'n');
}

#define RLX_G_GEMM_16BIT						\
	{ RLX_G_gemv, rlx_g_gemv_why_not, rlx_g_gemv_plan, rlx_g_gemv_cost }, \
	{ RLX_G_gemm_small_m, rlx_g_small_m_why_not, rlx_g_small_m_plan, rlx_g_small_m_cost }, \
	{ RLX_G_gemm_wgmma, rlx_g_gemm_wgmma_why_not, rlx_g_gemm_wgmma_plan, \
	  rlx_g_gemm_wgmma_cost },					\
	{ RLX_G_gemm_mma, rlx_g_gemm_mma_why_not, rlx_g_gemm_mma_plan, rlx_g_gemm_mma_cost }, \
	{ RLX_G_gemm_direct, rlx_g_direct_why_not, rlx_g_direct_plan, rlx_g_direct_cost }

/* Whose arguments stay a GEMM's. */
static inline void rlx_g_gemm_bf16_launch(const void *args, struct rlx_g_launch *l)
{
	static const struct rlx_g_option option[] = { RLX_G_GEMM_16BIT };
	static const struct rlx_g_family family = { "gemm", option, 5, rlx_g_gemm_describe };

	rlx_g_choose(&family, args, l);
}

/* And those whose arguments begin with it. */
static inline void rlx_g_gemm_16bit_launch(const void *args, struct rlx_g_launch *l)
{
	static const struct rlx_g_option option[] = {
		{ RLX_G_gemv_stream, rlx_g_gemm_stream_why_not, rlx_g_gemm_stream_plan,
		  rlx_g_gemm_stream_cost },
		RLX_G_GEMM_16BIT,
	};
	static const struct rlx_g_family family = { "gemm", option, 6, rlx_g_gemm_describe };

	rlx_g_choose(&family, args, l);
}

static inline void rlx_g_gemm_i8_launch(const void *args, struct rlx_g_launch *l)
{
	static const struct rlx_g_option option = { RLX_G_gemm_i8, rlx_g_gemm_i8_why_not,
						    rlx_g_gemm_i8_plan, rlx_g_gemm_i8_cost };
	static const struct rlx_g_family family = { "gemm_i8", &option, 1,
						    rlx_g_gemm_i8_describe };

	rlx_g_choose(&family, args, l);
}

#endif
