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
#include "kernels/gpu/launch.h"
#include "kernels/knn.h"
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
	/* with strict bits one addition after the other */
	bool alone = l->strict && rlx_k_type_float((enum rlx_dtype)a->type);
	int lanes = a->inner == 1 && !alone ? 256 : 1;

	rlx_g_line(l, rlx_g_ceil(lines, 256 / lanes), 256);
	RLX_G_VARIANT(l, scan, .ELEM_TYPE = a->type, .SCAN_PROD = a->prod, .SCAN_LANES = lanes);
}

#define RLX_G_TOPK_TILE	2048	/* elements a block sorts in shared memory */

/* Bytes of a key with its index, as kernels/gpu/order.h has them. */
static inline uint32_t rlx_g_topk_item(const struct rlx_k_topk *a)
{
	return rlx_k_type_size((enum rlx_dtype)a->type) == 8 ? 16 : 8;
}

/* As merges of sorted tiles: one pass for them, one for each doubling, one to write. */
static inline bool rlx_g_topk_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;
	int64_t tiles = rlx_g_ceil(a->n, RLX_G_TOPK_TILE), lines = a->outer * a->inner;

	if (i)
		return false;
	rlx_g_line(l, a->k ? lines * tiles : 0, 256);
	RLX_G_VARIANT(l, topk, .ELEM_TYPE = a->type, .TOPK_MERGES = tiles > 1);
	if (tiles > 1) {
		l->n_launches = 2;
		l->scratch = (uint64_t)lines * (uint64_t)a->n * 2 * rlx_g_topk_item(a);
	}
	for (; tiles > 1; tiles = (tiles + 1) / 2)
		l->n_launches++;
	return true;
}

/*
 * Tiles are sorted whole, whatever k is, and a pair of a sorting network is three trips to shared
 * memory, which is what its blocks share: 250 ns for the 1,024 pairs of a pass over a tile, twice
 * that with wide keys, and 40 ns for the barrier (H100: 4,096 lines of 24 take 27 us, 100,000 of
 * 100 870 us). A merge looks for each item's rank by reads that wait for each other, which takes as
 * long as four items' bytes, and 900 ns for each of a dozen (one line of 100,000: 158 us).
 */
static inline void rlx_g_topk_cost(const void *args, const struct rlx_g_launch *l,
				   struct rlx_g_cost *t)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;
	int64_t n = a->n < RLX_G_TOPK_TILE ? a->n : RLX_G_TOPK_TILE, levels = 0;
	double x = (double)a->outer * (double)a->inner * (double)a->n;

	while ((int64_t)1 << levels < n)
		levels++;
	t->rate = RLX_G_RATE_fma_f32;
	t->end_ns = (40 + (rlx_g_topk_item(a) == 8 ? 0.25 : 0.5) *
		     (double)((int64_t)1 << levels) / 2) * (double)(levels * (levels + 1) / 2);
	t->dram_bytes = x * (double)rlx_k_type_size((enum rlx_dtype)a->type);
	t->once_ns = l->n_launches > 2 ? (l->n_launches - 2) * 12 * 900.0 : 0;
	t->alone_bytes = (l->n_launches > 1 ? l->n_launches - 1 : 0) * 4 * rlx_g_topk_item(a) *
			 t->blocks * (double)(a->k < n ? a->k : n);
}

enum {
	RLX_G_SELECT_ITEMS = 16,	/* of a thread, at most */
	RLX_G_SELECT_SHARED = 40 << 10,	/* bytes of candidates, at most */
};

static inline const char *rlx_g_topk_select_why_not(const void *args, const struct rlx_g_launch *l)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;

	(void)l;
	if ((uint64_t)rlx_k_topk_capacity(a) * rlx_g_topk_item(a) > RLX_G_SELECT_SHARED)
		return "k candidates do not fit shared memory";
	return NULL;
}

/* Elements of a line that are left by a launch with tiles of @tile. */
static inline int64_t rlx_g_topk_left(const struct rlx_k_topk *a, int64_t n, int64_t tile)
{
	int64_t rest = n % tile;

	return n / tile * a->k + (rest < a->k ? rest : a->k);
}

/*
 * The @i-th of a block's sizes, with as few elements a thread as hold the line. A warp of AMD's
 * has 64 threads.
 */
static inline bool rlx_g_topk_select_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	static const int32_t lanes[] = { 32, 64, 128, 256, 512, 1024 };
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;
	int64_t items = 1, tile, n = a->n;

	if (i >= sizeof(lanes) / sizeof(lanes[0]))
		return false;
	while (items < RLX_G_SELECT_ITEMS && items * lanes[i] < n)
		items *= 4;
	tile = items * lanes[i];
	rlx_g_line(l, a->k ? a->outer * a->inner * rlx_g_ceil(n, tile) : 0, (uint32_t)lanes[i]);
	RLX_G_VARIANT(l, topk_select, .ELEM_TYPE = a->type, .TOPK_LANES = lanes[i],
		      .TOPK_ITEMS = (int32_t)items);
	l->can = (l->arch || lanes[i] >= 64) && (n <= tile || tile >= 2 * a->k);
	if (!l->can)
		return true;
	l->shared = (uint32_t)rlx_k_topk_capacity(a) * rlx_g_topk_item(a);
	l->n_launches = 1;
	l->scratch = 4 * (uint64_t)(a->outer * a->inner) *
		     (uint64_t)(rlx_g_topk_left(a, n, tile) +
				rlx_g_topk_left(a, rlx_g_topk_left(a, n, tile), tile));
	for (; n > tile; n = rlx_g_topk_left(a, n, tile))
		l->n_launches++;
	return true;
}

/* Instructions of a block's warps that put @n candidates in order, and how often they wait. */
static inline double rlx_g_topk_order(double warps, double n, double *steps)
{
	double levels = 0, stages;

	*steps = n / 32;
	if (n <= 128)	/* each is compared with all */
		return 6 * n * (double)rlx_g_ceil((int64_t)n, 32);
	while ((int64_t)1 << (int)levels < (int64_t)n)
		levels++;
	stages = levels * (levels + 1) / 2;
	*steps = stages / 2;
	return stages * ((double)((int64_t)1 << (int)levels) / 64 * 20 + warps * 6);
}

/*
 * By instructions of warps, of which a multiprocessor does four in a ns: 30 for each element of a
 * thread, 40 for each step of a bisection, of which the threads' best keys take nine, all keys
 * 20 to 40 where k is beyond the threads, and few where many candidates reach what was found. A
 * step takes 200 ns, for the threads wait for each other (H100: 4,096 lines of 4,096, k = 24, by
 * 64 threads in 104 us).
 */
static inline void rlx_g_topk_select_cost(const void *args, const struct rlx_g_launch *l,
					  struct rlx_g_cost *t)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;
	const struct rlx_g_topk_select_param *p = &l->param.topk_select;
	double warps = p->TOPK_LANES / 32.0, best = 0, every = 0, found, order, waits, lines;
	int64_t tile = (int64_t)p->TOPK_LANES * p->TOPK_ITEMS, n = a->n < tile ? a->n : tile;

	if (n > rlx_k_topk_capacity(a)) {
		best = a->k <= p->TOPK_LANES ? 9 : 0;
		every = a->k > p->TOPK_LANES ? (rlx_g_topk_item(a) == 8 ? 20 : 40) :
			a->k > p->TOPK_LANES / 2 ? 4 : 0;
	}
	found = (double)(a->k + a->k / 4 < n ? a->k + a->k / 4 : n);
	order = rlx_g_topk_order(warps, found, &waits);
	t->rate = RLX_G_RATE_fma_f32;
	t->resident = p->TOPK_LANES < 1024 ? 1024 / (uint32_t)p->TOPK_LANES : 1;
	t->begin_ns = 2000 + 200 * (best + every + waits);
	t->end_ns = 0.25 * (order + warps * (150 + 30 * p->TOPK_ITEMS + 40 * best +
					     every * (40 + 3 * p->TOPK_ITEMS)));
	lines = (double)a->outer * (double)a->inner;
	t->dram_bytes = lines * (double)a->n * (double)rlx_k_type_size((enum rlx_dtype)a->type);
	t->once_ns = (l->n_launches - 1) * t->begin_ns;
	for (n = a->n; n > tile; t->blocks += lines * (double)rlx_g_ceil(n, tile))
		n = rlx_g_topk_left(a, n, tile);
}

enum { RLX_G_WARP_LINE = 512 };	/* elements that 32 threads have in registers */

static inline const char *rlx_g_topk_warp_why_not(const void *args, const struct rlx_g_launch *l)
{
	(void)l;
	if (((const struct rlx_k_topk *)args)->n > RLX_G_WARP_LINE)
		return "the line does not fit a warp's registers";
	return NULL;
}

static inline bool rlx_g_topk_warp_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;
	int32_t lanes = 1, items = 1;

	if (i)
		return false;
	while (lanes < 32 && lanes < a->n)
		lanes *= 2;
	while (lanes * items < a->n)
		items *= 2;
	rlx_g_line(l, a->k ? rlx_g_ceil(a->outer * a->inner, 256 / lanes) : 0, 256);
	RLX_G_VARIANT(l, topk_warp, .ELEM_TYPE = a->type, .TOPK_LANES = lanes,
		      .TOPK_ITEMS = items);
	return true;
}

/* By instructions of a block's eight warps, as above: nine for a pair, 18 with wide keys. */
static inline void rlx_g_topk_warp_cost(const void *args, const struct rlx_g_launch *l,
					struct rlx_g_cost *t)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;
	const struct rlx_g_topk_warp_param *p = &l->param.topk_warp;
	double levels = 0, steps;

	while (1 << (int)levels < p->TOPK_LANES * p->TOPK_ITEMS)
		levels++;
	steps = levels * (levels + 1) / 2;
	t->rate = RLX_G_RATE_fma_f32;
	t->resident = p->TOPK_ITEMS < 8 ? 8 : 32 / (uint32_t)p->TOPK_ITEMS;
	t->begin_ns = 2000 + 20 * steps;
	t->end_ns = 0.25 * 8 * (60 + 6 * steps + p->TOPK_ITEMS *
				(40 + (rlx_g_topk_item(a) == 8 ? 9 : 18) * steps));
	t->dram_bytes = (double)a->outer * (double)a->inner * (double)a->n *
			(double)rlx_k_type_size((enum rlx_dtype)a->type);
}

/* Digits that a radix sort goes by. */
static inline uint32_t rlx_g_radix_digits(const struct rlx_k_topk *a)
{
	return rlx_k_type_size((enum rlx_dtype)a->type);
}

/* A thread has 128 bytes of items in registers, at most. */
static inline bool rlx_g_topk_block_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;
	int64_t item = rlx_g_radix_digits(a) <= 2 ? 4 : rlx_g_topk_item(a), items = 4;
	int64_t lanes = 256 << i, shared = lanes / 32 * 1024 + 128 + a->n * item;

	if (i > 2)
		return false;
	while (items * lanes < a->n)
		items *= 2;
	rlx_g_line(l, a->k ? a->outer * a->inner : 0, (uint32_t)lanes);
	RLX_G_VARIANT(l, topk_block, .ELEM_TYPE = a->type, .TOPK_LANES = (int32_t)lanes,
		      .TOPK_ITEMS = (int32_t)items);
	l->can = items * item <= 128 && shared <= l->most_shared;
	l->shared = l->can ? (uint32_t)shared : 0;
	return true;
}

/*
 * By instructions of warps, as above: 70 for each element of a thread and digit, and what adds up
 * the warps' counts.
 */
static inline void rlx_g_topk_block_cost(const void *args, const struct rlx_g_launch *l,
					 struct rlx_g_cost *t)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;
	const int32_t lanes = l->param.topk_block.TOPK_LANES;
	double digits = rlx_g_radix_digits(a), each = (double)rlx_g_ceil(a->n, lanes);
	uint32_t room = l->most_shared / (l->shared + 1024), most = 1024 / (uint32_t)lanes;

	t->rate = RLX_G_RATE_fma_f32;
	t->resident = room < 1 ? 1 : room < most ? room : most;
	t->begin_ns = 2000 + digits * (600 + 70 * each);
	t->end_ns = 0.25 * lanes / 32 * (digits * (130 + 70 * each) + 40 * each);
	t->dram_bytes = (double)a->outer * (double)a->inner * (double)a->n * digits;
}

/* Sizes of a tile; behind these, those of which the k best are selected first. */
static inline bool rlx_g_topk_radix_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;
	const bool select = i > 2;
	const int64_t items = 4 << (select ? i - 2 : i), lines = a->outer * a->inner;
	const int64_t n = select ? a->k : a->n, tiles = rlx_g_ceil(n, 256 * items);
	const int64_t rows = lines < 128 ? lines * 32 : 4096;	/* of digits, eight a block */
	const int64_t all = rlx_g_ceil(a->n, 256 * items), digits = rlx_g_radix_digits(a);

	if (i > 4)
		return false;
	rlx_g_line(l, !a->k ? 0 : rows > lines * all ? rows : lines * all, 256);
	l->can = items * rlx_g_topk_item(a) <= 128 && (!select || a->k < a->n);
	RLX_G_VARIANT(l, topk_radix, .ELEM_TYPE = a->type, .RADIX_ITEMS = (int32_t)items,
		      .RADIX_SELECT = select);
	l->n_launches = (uint32_t)(3 * digits + (select ? digits + 3 : 0));
	l->scratch = (uint64_t)lines * ((uint64_t)n * 2 * rlx_g_topk_item(a) +
					(uint64_t)(tiles + 1) * 256 * 4);
	if (select)
		l->scratch += (uint64_t)lines * (uint64_t)(digits * (256 + 4) + all) * 4;
	return true;
}

/*
 * Launches wait for memory: 2 us each. An item is read twice and written once for each digit, by
 * runs that cost a third more than their bytes (H200: 500 lines of 20,000 f32 in 728 us).
 * Selection reads x once for each digit, and twice more, and has each launch look for a digit.
 */
static inline void rlx_g_topk_radix_cost(const void *args, const struct rlx_g_launch *l,
					 struct rlx_g_cost *t)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;
	const struct rlx_g_topk_radix_param *p = &l->param.topk_radix;
	const double x = (double)a->outer * (double)a->inner * (double)a->n;
	const double sorted = p->RADIX_SELECT ? (double)a->k / (double)(a->n ? a->n : 1) : 1;
	const double digits = rlx_g_radix_digits(a), items = p->RADIX_ITEMS;

	t->rate = RLX_G_RATE_fma_f32;
	t->blocks = (double)a->outer * (double)a->inner *
		    (double)rlx_g_ceil(a->n, 256 * (int64_t)items);
	t->resident = items < 16 ? 4 : 3;
	t->begin_ns = 2000 * (double)l->n_launches;
	t->end_ns = 0.25 * digits * 8 * (200 + items * 90) * sorted;
	t->alone_bytes = digits * x * sorted * rlx_g_topk_item(a) * 4;
	t->dram_bytes = x * (double)rlx_k_type_size((enum rlx_dtype)a->type);
	if (p->RADIX_SELECT) {
		t->begin_ns *= 1.5;
		t->end_ns += 0.25 * 8 * (digits + 2) * (300 + items * 20);
		t->alone_bytes += (digits + 1) * t->dram_bytes;
	}
}

static inline void rlx_g_topk_describe(const void *args, char *buf, size_t size)
{
	const struct rlx_k_topk *a = (const struct rlx_k_topk *)args;

	snprintf(buf, size, "topk %lldx%lldx%lld k=%lld t=%d,%d%s%s%s", (long long)a->outer,
		 (long long)a->n, (long long)a->inner, (long long)a->k, (int)a->type,
		 (int)a->idx_type, a->smallest ? " smallest" : "", a->values ? " values" : "",
		 a->idx ? " positions" : "");
}

static inline void rlx_g_topk_launch(const void *args, struct rlx_g_launch *l)
{
	static const struct rlx_g_option option[] = {
		{ RLX_G_topk_warp, rlx_g_topk_warp_why_not, rlx_g_topk_warp_plan,
		  rlx_g_topk_warp_cost },
		{ RLX_G_topk_select, rlx_g_topk_select_why_not, rlx_g_topk_select_plan,
		  rlx_g_topk_select_cost },
		{ RLX_G_topk, NULL, rlx_g_topk_plan, rlx_g_topk_cost },
		{ RLX_G_topk_block, NULL, rlx_g_topk_block_plan, rlx_g_topk_block_cost },
		{ RLX_G_topk_radix, NULL, rlx_g_topk_radix_plan, rlx_g_topk_radix_cost },
	};
	static const struct rlx_g_family family = { "topk", option, 5, rlx_g_topk_describe };

	rlx_g_choose(&family, args, l);
}

/* A block a matrix; those too large for shared memory share 256 MiB, or have one block. */
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

/* A block a row, a warp where its length alone is wanted, or a thread a number. */
static inline void rlx_g_knn_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_knn *a = (const struct rlx_k_knn *)args;
	int64_t room = 1;

	while (room < a->kept)
		room *= 2;
	if (room > RLX_K_KNN_MOST || !rlx_g_small_float(a->type))
		return;
	rlx_g_line(l, a->near ? a->rows : a->split ?
		   rlx_g_ceil(a->rows * a->d, RLX_K_KNN_THREADS) : rlx_g_ceil(a->rows, 2),
		   RLX_K_KNN_THREADS);
	RLX_G_VARIANT(l, knn, .KNN_TYPE = a->type, .KNN_STEP = a->near ? 0 : a->split ? 2 : 1);
	l->shared = a->near ? (uint32_t)room * 8 : 0;
}

#endif
