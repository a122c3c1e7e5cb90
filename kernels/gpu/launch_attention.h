/* SPDX-License-Identifier: MIT */
/*
 * Launches of attention: which kernel, in which tiles; a part of launch.h.
 *
 * By the least time (cost.h) of those that can: short KV, a warp a job, up to 64 keys; f32 by
 * tiles of 64 queries or 16; tensor cores from 8 queries on, by wgmma (sm_90, persistent blocks) or
 * by mma, a block for 64 queries; decode: 16 rows of the heads that share keys, by mma too, whose
 * keys are split over warps and blocks; a query at a time, for all that is left.
 * Limits: by tiles, positions and jobs up to 2^29, since 32 bits count them. What is not f32, f16
 * or bf16, or has heads wider than 1,024, leaves l->can false: the step goes to the host.
 */
#ifndef RLX_G_LAUNCH_ATTENTION_H
#define RLX_G_LAUNCH_ATTENTION_H

#include "kernels/gpu/attention_plan.h"

/* Positions that 32 bits count, and jobs too. */
static inline bool rlx_g_attention_counts(const struct rlx_k_attention *a)
{
	const int64_t most = 1 << 29;

	return a->q_len <= most && a->kv_len <= most && a->q_offset <= most &&
	       a->q_offset >= -most && a->batch * a->heads * rlx_g_ceil(a->q_len, 64) <= most;
}

/* Parameters of a kernel by tensor cores. */
#define RLX_G_ATTENTION_FORM(a, width)					\
	.ATTENTION_TYPE = (a)->q_type, .ATTENTION_OUT_TYPE = (a)->out_type, \
	.ATTENTION_WIDTH = width,					\
	.ATTENTION_SCALE = (a)->softcap > 0 || (a)->bias || !((a)->scale > 0), \
	.ATTENTION_CAP = (a)->softcap > 0,				\
	.ATTENTION_ADD = (a)->bias && (a)->bias_type == RLX_F32,	\
	.ATTENTION_KEEP = (a)->bias && (a)->bias_type != RLX_F32,	\
	.ATTENTION_STEP = (a)->bias && (a)->bias_stride[3] != 1

/* By tensor cores: heads are filled up to one of these widths, or 0. */
static inline int32_t rlx_g_attention_width(const struct rlx_k_attention *a)
{
	static const int32_t width[] = { 32, 64, 96, 128, 256 };
	int64_t dim = a->head_dim > a->v_dim ? a->head_dim : a->v_dim;

	if (a->q_type != a->kv_type || a->q_type == RLX_F32 || !rlx_g_attention_counts(a))
		return 0;
	for (int i = 0; i < 5; i++)
		if (dim <= width[i])
			return width[i];
	return 0;
}

enum { RLX_G_ATTENTION_WARPS = 2 };	/* of its blocks, for which it has shared memory */

static inline int64_t rlx_g_attention_dim(const struct rlx_k_attention *a)
{
	return a->head_dim > a->v_dim ? a->head_dim : a->v_dim;
}

/* Bytes that a launch reads and writes, each once. */
static inline double rlx_g_attention_dram(const struct rlx_k_attention *a)
{
	double heads = (double)(a->batch * a->heads), kv = (double)(a->batch * a->kv_heads);

	return heads * (double)a->q_len *
		       ((double)a->head_dim * (a->q_type == RLX_F32 ? 4 : 2) +
			(double)a->v_dim * (a->out_type == RLX_F32 ? 4 : 2)) +
	       kv * (double)a->kv_len * (double)(a->head_dim + a->v_dim) *
		       (a->kv_type == RLX_F32 ? 4 : 2);
}

/* ---- short KV ---- */

/* All keys of a head at one warp (attention_short_kv.h). */
static inline const char *rlx_g_attention_short_kv_why_not(const void *args,
							   const struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int64_t tiles = a->batch * a->heads * rlx_g_ceil(a->q_len, 16);

	(void)l;
	if (a->q_type != a->kv_type || a->q_type == RLX_F32)
		return "q and k are not both f16 or both bf16";
	return a->kv_len > 64 ? "more than 64 keys" :
	       rlx_g_attention_dim(a) > 128 ? "heads wider than 128" :
	       tiles > INT32_MAX / 2 || a->q_len > INT32_MAX / 2 ||
	       (a->q_stride[2] | a->k_stride[2] | a->v_stride[2]) >> 31 ?
	       "a size or a stride is over 2^30" : NULL;
}

static inline bool rlx_g_attention_short_kv_plan(const void *args, unsigned int i,
						 struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	uint32_t width = (uint32_t)rlx_g_ceil(rlx_g_attention_dim(a), 32) * 32;
	uint32_t keys = a->kv_len <= 16 ? 16 : a->kv_len <= 32 ? 32 : 64;
	int64_t tiles = a->batch * a->heads * rlx_g_ceil(a->q_len, 16);

	if (i)
		return false;
	/* a block has a warp of 64, or two */
	rlx_g_line(l, rlx_g_ceil(tiles, 2), 64);
	l->shared = RLX_G_ATTENTION_WARPS * 2 * (keys * (width + 8) + 16 * (keys + 8));
	RLX_G_VARIANT(l, attention_short_kv, .ATTENTION_TYPE = a->q_type,
		      .ATTENTION_OUT_TYPE = a->out_type, .ATTENTION_WIDTH = (int32_t)width,
		      .ATTENTION_KEYS = (int32_t)keys,
		      .ATTENTION_MASKED = a->bias || a->softcap > 0 || a->causal || a->window > 0);
	return true;
}

/* What a warp takes for one head of 16 queries; code and registers grow with keys by width. */
static inline double rlx_g_attention_head_ns(const struct rlx_k_attention *a)
{
	double width = (double)rlx_g_ceil(rlx_g_attention_dim(a), 32) * 32;
	double keys = a->kv_len <= 16 ? 16 : a->kv_len <= 32 ? 32 : 64;

	return 300 + 8 * (double)a->kv_len + 0.8 * keys * (width - 32);
}

static inline void rlx_g_attention_short_kv_cost(const void *args, const struct rlx_g_launch *l,
						 struct rlx_g_cost *t)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	double width = l->param.attention_short_kv.ATTENTION_WIDTH;
	double keys = l->param.attention_short_kv.ATTENTION_KEYS;

	t->rate = RLX_G_RATE_mma_f16;
	t->part = 5 / width;
	t->flops = 2 * 4 * 16 * keys * width;
	t->l2_bytes = 2 * (double)(16 * a->head_dim + a->kv_len * (a->head_dim + a->v_dim)) * 2;
	t->steps = 1;
	t->step_ns = rlx_g_attention_head_ns(a);
	t->begin_ns = l->param.attention_short_kv.ATTENTION_MASKED ? 1000 : 0;
	t->dram_bytes = rlx_g_attention_dram(a);
}

/* ---- f32 by tiles ---- */

static inline const char *rlx_g_attention_f32_why_not(const void *args,
						      const struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;

	(void)l;
	if (a->q_type != RLX_F32 || a->kv_type != RLX_F32)
		return "q or k is not f32";
	return rlx_g_attention_dim(a) > 128 ? "heads wider than 128" :
	       a->q_len < 4 ? "fewer than 4 queries" :
	       !rlx_g_attention_counts(a) ? "a size is over 2^29" : NULL;
}

/* 64 queries a block, then 16. */
static inline bool rlx_g_attention_f32_plan(const void *args, unsigned int i,
					    struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int32_t width = (int32_t)rlx_g_ceil(rlx_g_attention_dim(a), 32) * 32;
	int32_t rows = i ? 16 : 64;

	if (i > 1)
		return false;
	l->shared = ATT_EXACT_SHARED(rows, width);
	rlx_g_line(l, a->batch * a->heads * rlx_g_ceil(a->q_len, rows), ATT_EXACT_THREADS);
	RLX_G_VARIANT(l, attention_f32, .ATTENTION_ROWS = rows, .ATTENTION_WIDTH = width,
		      .ATTENTION_OUT_TYPE = a->out_type);
	l->can = l->shared <= l->most_shared;
	return true;
}

/* Few queries leave each key that is loaded little to do. */
static inline void rlx_g_attention_f32_cost(const void *args, const struct rlx_g_launch *l,
					    struct rlx_g_cost *t)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	double rows = l->param.attention_f32.ATTENTION_ROWS;
	double width = l->param.attention_f32.ATTENTION_WIDTH, kv = (double)a->kv_len;

	t->rate = RLX_G_RATE_fma_f32;
	t->part = rows > 16 ? 0.5 : 0.3;
	t->flops = 4 * rows * kv * width;
	t->l2_bytes = kv * (double)(a->head_dim + a->v_dim) * 4;
	t->steps = kv / ATT_EXACT_KEYS;
	t->step_ns = rows > 16 ? 8000 : 1000;
	t->end_ns = 500;
	t->dram_bytes = rlx_g_attention_dram(a);
}

/* ---- tensor cores ---- */

/* Of a block of attention_mma.cu: queries, two stages of keys and values, weights of the warps. */
static inline uint32_t rlx_g_attention_shared(int32_t width)
{
	uint32_t ld = (uint32_t)width + 8;

	return 2 * (64 * ld + 4 * 64 * ld + 64 * 72);
}

static inline const char *rlx_g_attention_mma_why_not(const void *args,
						      const struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int32_t width = rlx_g_attention_width(a);

	if (a->q_type != a->kv_type || a->q_type == RLX_F32)
		return "q and k are not both f16 or both bf16";
	if (a->q_len < 8 && width && width <= 128)
		return "fewer than 8 queries, of heads up to 128 wide";
	return !width ? "heads wider than 256, or a size over 2^29" :
	       rlx_g_attention_shared(width) > l->most_shared ?
	       "a block has too little shared memory" : NULL;
}

static inline const char *rlx_g_attention_wgmma_why_not(const void *args,
							const struct rlx_g_launch *l)
{
	int32_t width = rlx_g_attention_width((const struct rlx_k_attention *)args);
	const char *why = rlx_g_attention_mma_why_not(args, l);

	if (why || l->arch != 90)
		return why ? why : "the chip is not sm_90";
	return (uint32_t)ATT_SHARED(width, 1) > l->most_shared ?
	       "a block has too little shared memory" : NULL;
}

/* How many blocks share out the keys of each of @jobs in the @i-th way; fewer than 2: not so. */
static inline int64_t rlx_g_attention_splits(const struct rlx_k_attention *a, int64_t jobs,
					     unsigned int i, const struct rlx_g_launch *l)
{
	int64_t splits = jobs > 0 ? (int64_t)l->processors * i / jobs : 1;
	int64_t most = rlx_g_ceil(a->kv_len, 256);

	return splits < most ? splits : most;
}

/* A launch of @jobs jobs of @rows rows, by @splits blocks each. */
static inline void rlx_g_attention_split(const struct rlx_k_attention *a, int64_t jobs,
					 int64_t splits, int64_t rows, struct rlx_g_launch *l)
{
	l->grid[0] = (uint32_t)(jobs * splits);
	l->n_launches = 2;
	l->scratch = (uint64_t)(jobs * splits * rows * (a->v_dim + 2)) * sizeof(float);
}

/* The second pass: @rows rows of a job by @splits blocks of @threads. */
static inline double rlx_g_attention_merge_ns(const struct rlx_k_attention *a, double rows,
					      double splits, double threads)
{
	double left = (double)a->q_len < rows ? (double)a->q_len : rows;
	double each = left * (double)rlx_g_ceil(a->v_dim, 4) / (splits * threads);

	return splits > 1 ? 1000 * (1 + each) + 150 * splits : 0;
}

/* Of @t, which is that of whole jobs, what @l shares out. */
static inline void rlx_g_attention_share_cost(const struct rlx_k_attention *a, double rows,
					      const struct rlx_g_launch *l, struct rlx_g_cost *t)
{
	double splits = l->n_launches > 1 && t->blocks > 0 ? l->grid[0] / t->blocks : 1;

	t->blocks *= splits;
	t->flops /= splits;
	t->l2_bytes /= splits;
	t->steps = (double)(int64_t)(t->steps / splits + 0.999);
	t->once_ns = rlx_g_attention_merge_ns(a, rows, splits, l->block[0]);
}

/* Keys whole; split so that there is a block a multiprocessor, then two. */
static inline bool rlx_g_attention_mma_plan(const void *args, unsigned int i,
					    struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int32_t width = rlx_g_attention_width(a);
	int64_t jobs = a->batch * a->heads * rlx_g_ceil(a->q_len, 64);
	int64_t splits = i ? rlx_g_attention_splits(a, jobs, i, l) : 1;

	if (i > 2)
		return false;
	rlx_g_line(l, jobs, 128);
	l->shared = rlx_g_attention_shared(width);
	RLX_G_VARIANT(l, attention_mma, RLX_G_ATTENTION_FORM(a, width), .ATTENTION_SPLIT = i > 0);
	l->can = !i || splits > 1;
	if (l->can && i)
		rlx_g_attention_split(a, jobs, splits, 64, l);
	return true;
}

/* With as many warpgroups as there may be, then with fewer; with one, keys split. */
static inline bool rlx_g_attention_wgmma_plan(const void *args, unsigned int i,
					      struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int32_t width = rlx_g_attention_width(a), groups = ATT_WARPGROUPS(width) - (int32_t)i;
	int32_t turn = 1 - groups;	/* of split keys */
	int64_t jobs, most, splits;

	groups = groups < 1 ? 1 : groups;
	if (turn > ATT_BLOCKS(width, 1))
		return false;
	jobs = a->batch * a->heads * rlx_g_ceil(a->q_len, groups * 64);
	most = (int64_t)l->processors * ATT_BLOCKS(width, groups);
	rlx_g_line(l, jobs < most ? jobs : most, (uint32_t)ATT_THREADS(groups));
	l->shared = (uint32_t)ATT_SHARED(width, groups);
	l->can = l->shared <= l->most_shared;
	RLX_G_VARIANT(l, attention_wgmma, RLX_G_ATTENTION_FORM(a, width),
		      .ATTENTION_GROUPS = groups, .ATTENTION_SPLIT = turn > 0);
	if (turn > 0) {
		splits = rlx_g_attention_splits(a, jobs, (unsigned int)turn, l);
		l->can = l->can && splits > 1;
		if (l->can)
			rlx_g_attention_split(a, jobs, splits, 64, l);
	}
	return true;
}

/* Keys that a query looks at, on average, where @rows queries are together. */
static inline double rlx_g_attention_keys(const struct rlx_k_attention *a, double rows)
{
	double kv = (double)a->kv_len, seen = kv;

	if (a->causal && a->q_len > 1)
		seen = kv < (double)a->q_len ? kv : kv - (double)a->q_len / 2;
	if (a->window > 0 && (double)a->window + rows < seen)
		seen = (double)a->window + rows;
	return seen < 1 ? 1 : seen;
}

/* By @groups of 64 queries, @keys of a step, of which each takes @step_ns at least. */
static inline void rlx_g_attention_tile_cost(const struct rlx_k_attention *a, double groups,
					     double keys, double width, struct rlx_g_cost *t)
{
	double seen = rlx_g_attention_keys(a, 64 * groups);

	t->blocks = (double)(a->batch * a->heads * rlx_g_ceil(a->q_len, (int64_t)groups * 64));
	t->rate = RLX_G_RATE_mma_f16;
	t->flops = 4 * 64 * groups * seen * width;
	t->l2_bytes = seen * (double)(a->head_dim + a->v_dim) * 2;
	t->steps = seen / keys;
	t->dram_bytes = rlx_g_attention_dram(a);
}

static inline void rlx_g_attention_wgmma_cost(const void *args, const struct rlx_g_launch *l,
					      struct rlx_g_cost *t)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int32_t width = l->param.attention_wgmma.ATTENTION_WIDTH;
	int32_t groups = l->param.attention_wgmma.ATTENTION_GROUPS;

	rlx_g_attention_tile_cost(a, groups, ATT_KEYS(width), width, t);
	rlx_g_attention_share_cost(a, groups * 64, l, t);
	t->resident = (uint32_t)ATT_BLOCKS(width, groups);
	/* a group alone multiplies or softens, but beside another block's */
	t->part = groups > 1 ? 0.75 : t->resident > 1 ? 0.6 : 0.5;
	t->step_ns = 500 + 150 * groups;
	t->begin_ns = 800 + 600 * groups;
	t->end_ns = 800;
}

static inline void rlx_g_attention_mma_cost(const void *args, const struct rlx_g_launch *l,
					    struct rlx_g_cost *t)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int32_t width = l->param.attention_mma.ATTENTION_WIDTH;

	rlx_g_attention_tile_cost(a, 1, 64, width, t);
	rlx_g_attention_share_cost(a, 64, l, t);
	t->part = 0.35;
	t->step_ns = width > 64 ? 1200.0 * width / 64 : 1200;
	t->begin_ns = 600 + 12 * width;
	t->end_ns = 800;
	t->resident = width > 128 ? 1 : width > 64 ? 2 : 3;
}

/* ---- few queries, many keys ---- */

/* Blocks, if keys are not split: rows of a head of keys by 16. */
static inline int64_t rlx_g_attention_decode_jobs(const struct rlx_k_attention *a)
{
	return a->batch * a->kv_heads *
	       rlx_g_ceil(a->heads / a->kv_heads * a->q_len, ATT_DECODE_ROWS);
}

static inline int32_t rlx_g_attention_decode_width(const struct rlx_k_attention *a)
{
	return rlx_g_attention_dim(a) <= 32 ? 32 : rlx_g_attention_dim(a) <= 64 ? 64 : 128;
}

/* What is laid out for warps of 32 lanes: heads of one 16-bit type, up to 128 wide. */
static inline const char *rlx_g_attention_32_lanes_why_not(const struct rlx_k_attention *a,
							   const struct rlx_g_launch *l)
{
	if (!l->arch)
		return "warps may have 64 lanes";
	if (a->q_type != a->kv_type || a->q_type == RLX_F32)
		return "q and k are not both f16 or both bf16";
	return rlx_g_attention_dim(a) > 128 ? "heads wider than 128" : NULL;
}

static inline const char *rlx_g_attention_decode_why_not(const void *args,
							 const struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	uint64_t odd = (uint64_t)(uintptr_t)a->k | (uint64_t)(uintptr_t)a->v;
	const char *why = rlx_g_attention_32_lanes_why_not(a, l);

	for (int i = 0; i < 3; i++)
		odd |= 2 * (uint64_t)(a->k_stride[i] | a->v_stride[i]);
	if (why)
		return why;
	if ((odd | 2 * (uint64_t)(a->head_dim | a->v_dim)) % 16)
		return "a row of k or v does not begin or end at 16 bytes";
	return !rlx_g_attention_counts(a) || rlx_g_attention_decode_jobs(a) > 1 << 24 ?
	       "a size is over 2^29" : NULL;
}

/* Keys whole; split so that there are two blocks a multiprocessor, then four, of 4 steps each. */
static inline bool rlx_g_attention_decode_plan(const void *args, unsigned int i,
					       struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int32_t width = rlx_g_attention_decode_width(a);
	int64_t jobs = rlx_g_attention_decode_jobs(a);
	int64_t splits = i ? rlx_g_attention_splits(a, jobs, 2 * i, l) : 1;

	if (i > 2 || (i && splits < 2))
		return false;
	rlx_g_line(l, jobs, 32 * ATT_DECODE_WARPS);
	RLX_G_VARIANT(l, attention_decode, .ATTENTION_TYPE = a->q_type, .ATTENTION_WIDTH = width);
	if (splits > 1)
		rlx_g_attention_split(a, jobs, splits, ATT_DECODE_ROWS, l);
	return true;
}

/* A warp has the next keys under way, beside the values of these. */
static inline void rlx_g_attention_decode_cost(const void *args, const struct rlx_g_launch *l,
					       struct rlx_g_cost *t)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int32_t width = l->param.attention_decode.ATTENTION_WIDTH, step = ATT_DECODE_KEYS(width);
	double jobs = (double)rlx_g_attention_decode_jobs(a), keys, splits;
	double rows = (double)(a->heads / a->kv_heads * a->q_len);

	if (jobs < 1)
		return;
	rows = rows < ATT_DECODE_ROWS ? rows : ATT_DECODE_ROWS;
	splits = l->grid[0] / jobs;
	keys = rlx_g_attention_keys(a, (double)a->q_len) / splits;
	t->rate = RLX_G_RATE_mma_f16;
	t->part = 0.1;
	t->flops = 4 * ATT_DECODE_ROWS * keys * width;
	t->l2_bytes = keys * (double)(a->head_dim + a->v_dim) * 2;
	t->steps = (double)rlx_g_ceil((int64_t)keys, step * ATT_DECODE_WARPS);
	t->step_ns = 1000;
	t->begin_ns = 2200;
	t->end_ns = 400 + 4 * rows * (double)a->v_dim / ATT_DECODE_WARPS / 4;
	t->once_ns = rlx_g_attention_merge_ns(a, rows, splits, l->block[0]);
	t->dram_bytes = rlx_g_attention_dram(a);
	t->in_flight = ATT_DECODE_WARPS * step * (double)(a->head_dim + a->v_dim) * 2;
	t->resident = width > 64 ? 3 : 4;
}

/* ---- a query at a time ---- */

/* Keys whole; of fewer than two queries a multiprocessor over blocks, four of those, by 256. */
static inline bool rlx_g_attention_split_kv_plan(const void *args, unsigned int i,
						 struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int64_t rows = a->batch * a->heads * a->q_len, most = rlx_g_ceil(a->kv_len, 256);
	int64_t units = l->processors;
	int64_t splits = rows > 0 && rows < 2 * units ? rlx_g_ceil(4 * units, rows) : 1;

	splits = splits < most ? splits : most;
	if (i > 1 || (i && splits < 2))
		return false;
	splits = i ? splits : 1;
	rlx_g_line(l, rows * splits, 256);
	RLX_G_VARIANT(l, attention_split_kv, .ATTENTION_SPLIT = splits > 1);
	if (splits > 1) {
		l->n_launches = 2;
		l->scratch = (uint64_t)(rows * splits * (a->v_dim + 2)) * sizeof(float);
	}
	return true;
}

/* 64 keys a step. */
static inline void rlx_g_attention_split_kv_cost(const void *args, const struct rlx_g_launch *l,
						 struct rlx_g_cost *t)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	double rows = (double)(a->batch * a->heads * a->q_len), split, keys;

	if (rows < 1)
		return;
	split = l->grid[0] / rows;
	keys = rlx_g_attention_keys(a, 1) / (split > 1 ? split : 1);
	t->rate = RLX_G_RATE_fma_f32;
	t->part = 0.04;
	t->flops = 2 * keys * (double)(a->head_dim + a->v_dim);
	t->l2_bytes = keys * (double)(a->head_dim + a->v_dim) * (a->kv_type == RLX_F32 ? 4 : 2);
	t->steps = (double)rlx_g_ceil((int64_t)keys, 64);
	t->step_ns = 1500 + 15 * (double)rlx_g_attention_dim(a);
	t->end_ns = 500;
	t->dram_bytes = rlx_g_attention_dram(a);
}

static inline void rlx_g_attention_describe(const void *args, char *buf, size_t size)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;

	snprintf(buf, size, "attention %lldx%lld/%lldx%lldx%lld %lld/%lld t=%d,%d,%d%s%s%s%s",
		 (long long)a->batch, (long long)a->heads, (long long)a->kv_heads,
		 (long long)a->q_len, (long long)a->kv_len, (long long)a->head_dim,
		 (long long)a->v_dim, (int)a->q_type, (int)a->kv_type, (int)a->out_type,
		 a->causal ? " causal" : "", a->window > 0 ? " window" : "",
		 a->bias ? " bias" : "", a->softcap > 0 ? " cap" : "");
}

/* With strict bits: what queries have so far lies in shared memory. */
static inline void rlx_g_attention_ordered(const struct rlx_k_attention *a, struct rlx_g_launch *l)
{
	const int64_t rows = a->heads / a->kv_heads * a->q_len;

	if (a->q_type != RLX_F32 || a->kv_type != RLX_F32 || a->out_type != RLX_F32 || !l->arch)
		return;
	rlx_g_line(l, a->batch * a->kv_heads * rlx_g_ceil(rows, ATT_ORDERED_ROWS), 128);
	RLX_G_VARIANT(l, attention_ordered);
	l->shared = (uint32_t)(ATT_ORDERED_ROWS * a->v_dim * (int64_t)sizeof(float));
	l->can = ATT_ORDERED_SHARED(a->v_dim) <= l->most_shared;
}

static inline void rlx_g_attention_launch(const void *args, struct rlx_g_launch *l)
{
	static const struct rlx_g_option option[] = {
		{ RLX_G_attention_short_kv, rlx_g_attention_short_kv_why_not,
		  rlx_g_attention_short_kv_plan, rlx_g_attention_short_kv_cost },
		{ RLX_G_attention_f32, rlx_g_attention_f32_why_not, rlx_g_attention_f32_plan,
		  rlx_g_attention_f32_cost },
		{ RLX_G_attention_wgmma, rlx_g_attention_wgmma_why_not,
		  rlx_g_attention_wgmma_plan, rlx_g_attention_wgmma_cost },
		{ RLX_G_attention_mma, rlx_g_attention_mma_why_not, rlx_g_attention_mma_plan,
		  rlx_g_attention_mma_cost },
		{ RLX_G_attention_decode, rlx_g_attention_decode_why_not,
		  rlx_g_attention_decode_plan, rlx_g_attention_decode_cost },
		{ RLX_G_attention_split_kv, NULL, rlx_g_attention_split_kv_plan,
		  rlx_g_attention_split_kv_cost },
	};
	static const struct rlx_g_family family = { "attention", option, 6,
						    rlx_g_attention_describe };
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;

	if (l->strict)
		rlx_g_attention_ordered(a, l);
	else if (rlx_g_small_float(a->q_type) && rlx_g_small_float(a->kv_type) &&
		 rlx_g_small_float(a->out_type) && a->head_dim <= 1024 && a->v_dim <= 1024)
		rlx_g_choose(&family, args, l);
}

#endif
