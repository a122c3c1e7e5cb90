/* SPDX-License-Identifier: MIT */
/*
 * Launches of attention: which kernel, in which tiles; a part of launch.h.
 *
 * In this order: few keys, a warp a job; f32 by tiles, of 16 queries instead of 64 where blocks of
 * 64 are fewer than multiprocessors or do not fit; tensor cores from 8 queries on (sm_90: wgmma,
 * persistent blocks; else mma, a block for 64 queries); else a query at a time, whose keys are
 * split over blocks, a part for each 256 of them at most, where rows are fewer than 264: about
 * 528 blocks then, four for each multiprocessor of an H200.
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

	if (a->q_type != a->kv_type || a->q_type == RLX_F32 || a->q_len < 8 ||
	    !rlx_g_attention_counts(a))
		return 0;
	for (int i = 0; i < 5; i++)
		if (dim <= width[i])
			return width[i];
	return 0;
}

enum { RLX_G_ATTENTION_WARPS = 2 };	/* of its blocks, for which it has shared memory */

/* All keys of a head at one warp (attention_short_kv.h). */
static inline bool rlx_g_attention_short_kv(const struct rlx_k_attention *a, struct rlx_g_launch *l)
{
	int64_t dim = a->head_dim > a->v_dim ? a->head_dim : a->v_dim;
	uint32_t width = (uint32_t)rlx_g_ceil(dim, 32) * 32;
	uint32_t keys = a->kv_len <= 16 ? 16 : a->kv_len <= 32 ? 32 : 64;

	int64_t tiles = a->batch * a->heads * rlx_g_ceil(a->q_len, 16);

	if (a->kv_len > 64 || dim > 128 || a->q_type != a->kv_type || a->q_type == RLX_F32 ||
	    tiles > INT32_MAX / 2 || a->q_len > INT32_MAX / 2 ||
	    (a->q_stride[2] | a->k_stride[2] | a->v_stride[2]) >> 31)
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

/* Of a block of attention_mma.cu: queries, two stages of keys and values, weights of the warps. */
static inline uint32_t rlx_g_attention_shared(int32_t width)
{
	uint32_t ld = (uint32_t)width + 8;

	return 2 * (64 * ld + 4 * 64 * ld + 64 * 72);
}

/* Tiles of @width by warpgroups, where the chip has their products. */
static inline bool rlx_g_attention_wgmma(const struct rlx_k_attention *a,
					  struct rlx_g_launch *l, int32_t width)
{
	int64_t jobs = a->batch * a->heads * rlx_g_ceil(a->q_len, ATT_WARPGROUPS(width) * 64);
	int64_t most = (int64_t)l->processors * ATT_BLOCKS(width);

	if (l->arch != 90 || (uint32_t)ATT_SHARED(width) > l->most_shared)
		return false;
	rlx_g_line(l, jobs < most ? jobs : most, ATT_THREADS(width));
	l->shared = ATT_SHARED(width);
	RLX_G_VARIANT(l, attention_wgmma, RLX_G_ATTENTION_FORM(a, width));
	return true;
}

/* Of f32 by tiles, of fewer queries where there are few of them. */
static inline bool rlx_g_attention_exact(const struct rlx_k_attention *a, struct rlx_g_launch *l)
{
	int64_t dim = a->head_dim > a->v_dim ? a->head_dim : a->v_dim;
	int64_t each = a->batch * a->heads;
	int32_t width = (int32_t)rlx_g_ceil(dim, 32) * 32;
	int32_t rows = each * rlx_g_ceil(a->q_len, 64) < l->processors ? 16 : 64;

	if (a->q_type != RLX_F32 || a->kv_type != RLX_F32 || dim > 128 || a->q_len < 4 ||
	    !rlx_g_attention_counts(a))
		return false;
	if ((uint32_t)ATT_EXACT_SHARED(rows, width) > l->most_shared)
		rows = 16;
	l->shared = ATT_EXACT_SHARED(rows, width);
	if (l->shared > l->most_shared) {
		l->shared = 0;
		return false;
	}
	rlx_g_line(l, each * rlx_g_ceil(a->q_len, rows), ATT_EXACT_THREADS);
	RLX_G_VARIANT(l, attention_f32, .ATTENTION_ROWS = rows, .ATTENTION_WIDTH = width,
		      .ATTENTION_OUT_TYPE = a->out_type);
	return true;
}

static inline void rlx_g_attention_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int64_t rows = a->batch * a->heads * a->q_len, splits = 1;
	int32_t width = rlx_g_attention_width(a);

	if (!rlx_g_small_float(a->q_type) || !rlx_g_small_float(a->kv_type) ||
	    !rlx_g_small_float(a->out_type) || a->head_dim > 1024 || a->v_dim > 1024 ||
	    rlx_g_attention_short_kv(a, l) || rlx_g_attention_exact(a, l))
		return;
	if (width && rlx_g_attention_shared(width) <= l->most_shared) {
		if (rlx_g_attention_wgmma(a, l, width))
			return;
		rlx_g_line(l, a->batch * a->heads * rlx_g_ceil(a->q_len, 64), 128);
		l->shared = rlx_g_attention_shared(width);
		RLX_G_VARIANT(l, attention_mma, RLX_G_ATTENTION_FORM(a, width));
		return;
	}
	/* few queries: their keys over enough blocks for a large GPU, 256 at least */
	if (rows > 0 && rows < 264)
		splits = rlx_g_ceil(528, rows);
	if (splits > rlx_g_ceil(a->kv_len, 256))
		splits = a->kv_len > 256 ? rlx_g_ceil(a->kv_len, 256) : 1;
	rlx_g_line(l, rows * splits, 256);
	RLX_G_VARIANT(l, attention_split_kv, .ATTENTION_SPLIT = splits > 1);
	if (splits > 1) {
		l->n_launches = 2;
		l->scratch = (uint64_t)(rows * splits * (a->v_dim + 2)) * sizeof(float);
	}
}

#endif
