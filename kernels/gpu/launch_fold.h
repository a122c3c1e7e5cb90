/* SPDX-License-Identifier: MIT */
/*
 * Launches of what folds, scans, sorts or compacts along axes; a part of launch.h.
 *
 * Results are as many as rows or columns are left, which may be few while lines are long. So
 * arg-reductions (and reductions that launch_rows.h has no other way for) have rows of the grid
 * that split each line (rlx_g_splits()): as many as make 65,536 threads, 1,024 at most, with 32
 * elements a thread at least, and a second launch for the parts.
 * Sorts take a launch for each doubling of the runs; counts are exchanged between launches, not
 * by waiting blocks, as nothing says that all blocks of a grid run at a time.
 * Limits: nms beyond 65,536 classes leaves l->can false; scans are not split.
 */
#ifndef RLX_G_LAUNCH_FOLD_H
#define RLX_G_LAUNCH_FOLD_H

#include "kernels/det.h"
#include "kernels/fft.h"
#include "kernels/gpu/launch.h"
#include "kernels/nms.h"
#include "kernels/nonzero.h"
#include "kernels/reduce.h"
#include "kernels/sortk.h"

/*
 * Rows of the grid, so that @n elements of each of @results are split where too few
 * threads would walk for too long.
 */
static inline uint32_t rlx_g_splits(int64_t results, int64_t n, int64_t lanes)
{
	const int64_t busy = 65536, least = 32;	/* threads, elements of each */
	int64_t want = rlx_g_ceil(busy, results * lanes);
	int64_t most = n / lanes / least;

	want = want < most ? want : most;
	return (uint32_t)(want < 1 ? 1 : want < 1024 ? want : 1024);
}

static inline void rlx_g_argreduce_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_argreduce *a = (const struct rlx_k_argreduce *)args;
	int64_t results = a->outer * a->inner;
	int lanes = a->inner == 1 ? 256 : 1;

	rlx_g_line(l, rlx_g_ceil(results, 256 / lanes), 256);
	RLX_G_VARIANT(l, argreduce, .ELEM_TYPE = a->type, .ARGREDUCE_LANES = lanes);
	if (!results)
		return;
	l->grid[1] = rlx_g_splits(results, a->n, lanes);
	if (l->grid[1] > 1) {
		l->n_launches = 2;
		l->scratch = (uint64_t)results * l->grid[1] * 16;
	}
}

static inline void rlx_g_scan_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_scan *a = (const struct rlx_k_scan *)args;
	int64_t lines = a->n ? a->outer * a->inner : 0;
	int lanes = a->inner == 1 ? 256 : 1;

	rlx_g_line(l, rlx_g_ceil(lines, 256 / lanes), 256);
	RLX_G_VARIANT(l, scan, .ELEM_TYPE = a->type, .SCAN_PROD = a->prod, .SCAN_LANES = lanes);
}

#define RLX_G_TOPK_TILE	2048	/* elements a block sorts in shared memory */

/*
 * Of a topk as @l launches it. Tiles are sorted whole, whatever k is, and a pair of a sorting
 * network is three or four trips to shared memory, which is what its blocks share: 330 ns for the
 * 1,024 pairs of a pass over a tile (H100: 4,096 lines of 4,096 take 1.4 ms).
 */
static inline double rlx_g_topk_ns(const struct rlx_k_topk *a, const struct rlx_g_launch *l)
{
	int64_t n = a->n < RLX_G_TOPK_TILE ? a->n : RLX_G_TOPK_TILE, levels = 0;
	double lines = (double)a->outer * (double)a->inner, x = lines * (double)a->n;
	struct rlx_g_cost t = { .rate = RLX_G_RATE_fma_f32 };

	while ((int64_t)1 << levels < n)
		levels++;
	t.blocks = lines * (double)rlx_g_ceil(a->n, RLX_G_TOPK_TILE);
	t.end_ns = 0.33 * (double)((int64_t)1 << levels) / 2 *
		   (double)(levels * (levels + 1) / 2);
	t.dram_bytes = x * (double)rlx_k_type_size((enum rlx_dtype)a->type);
	/* merges write 16 bytes of each that is left, and read them */
	t.alone_bytes = (l->n_launches > 1 ? l->n_launches - 1 : 0) * 32 * t.blocks *
			(double)(a->k < n ? a->k : n);
	return rlx_g_cost_ns(l, &t);
}

/* As merges of sorted tiles: one pass for them, one for each doubling, one to write. */
static inline void rlx_g_topk_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;
	int64_t tiles = rlx_g_ceil(a->n, RLX_G_TOPK_TILE), lines = a->outer * a->inner;

	rlx_g_line(l, a->k ? lines * tiles : 0, 256);
	RLX_G_VARIANT(l, topk, .ELEM_TYPE = a->type, .TOPK_MERGES = tiles > 1);
	if (tiles > 1) {
		l->n_launches = 2;
		l->scratch = (uint64_t)lines * (uint64_t)a->n * 2 * 16;
	}
	for (; tiles > 1; tiles = (tiles + 1) / 2)
		l->n_launches++;
	l->ns = rlx_g_topk_ns(a, l);
}

/* A block a matrix; those too large for shared memory share 256 MiB, or have one block. */
/* All passes of a line in shared memory, or a launch for each pass of all lines. */
static inline void rlx_g_fft_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_fft_gpu *a = (const struct rlx_k_fft_gpu *)args;
	const int64_t lines = a->outer * a->inner, number = a->type == RLX_F64 ? 8 : 4;
	const bool fits = a->n * 4 * number <= (int64_t)l->most_shared;

	if (fits)
		rlx_g_line(l, lines, a->n < 256 ? 64 : 256);
	else
		rlx_g_each(l, lines * a->n / 4);
	RLX_G_VARIANT(l, fft, .FFT_TYPE = a->type, .FFT_SHARED = fits);
	if (fits) {
		l->shared = (uint32_t)(a->n * 4 * number);
		return;
	}
	l->n_launches = a->n_factor * (a->chirp_n ? 2u : 1u);
	l->scratch = (uint64_t)lines * (uint64_t)a->n * 4 * (uint64_t)number;
}

static inline void rlx_g_det_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_det *a = (const struct rlx_k_det *)args;
	int64_t bytes = a->n * a->n * 8, most = a->n <= 64 ? a->batch : (1 << 28) / bytes;

	most = most > 1 ? most : 1;
	rlx_g_line(l, a->batch < most ? a->batch : most, a->n <= 16 ? 64 : 256);
	RLX_G_VARIANT(l, det, .DET_TYPE = a->type, .DET_IN_SCRATCH = a->n > 64);
	if (a->n <= 64)
		l->shared = (uint32_t)bytes;
	else
		l->scratch = l->grid[0] * (uint64_t)bytes;
}

static inline void rlx_g_nonzero_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_nonzero *a = (const struct rlx_k_nonzero *)args;
	int64_t blocks = rlx_g_ceil(a->n, 2048);

	rlx_g_line(l, blocks < 1024 ? blocks : 1024, 256);
	RLX_G_VARIANT(l, nonzero, .NONZERO_TYPE = a->type);
	l->n_launches = 2;
	l->scratch = l->grid[0] * sizeof(int64_t);
}

static inline void rlx_g_nms_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_nms *a = (const struct rlx_k_nms *)args;
	int64_t lines = a->batch * a->classes;

	RLX_G_VARIANT(l, nms);
	if (lines > 1 << 16)	/* each block adds up what the others have */
		return;
	rlx_g_line(l, lines, 256);
	l->n_launches = 2;
	l->scratch = (uint64_t)lines * ((uint64_t)a->n + sizeof(int64_t));
}

#endif
