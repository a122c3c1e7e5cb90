/* SPDX-License-Identifier: MIT */
/*
 * Launches of attention's gradient, by wgmma (sm_90, persistent blocks) or by mma; a part of
 * launch.h. Limits: f16 and bf16, heads up to 128 wide, NVIDIA's chips; sizes that 32 bits count.
 * What it is not for is made of simpler ops.
 */
#ifndef RLX_G_LAUNCH_ATTENTION_GRAD_H
#define RLX_G_LAUNCH_ATTENTION_GRAD_H

#include "kernels/attention_grad.h"

static inline const char *rlx_g_attention_grad_why_not(const void *args,
						       const struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = &((const struct rlx_k_attention_grad *)args)->a;
	const char *why = rlx_g_attention_32_lanes_why_not(a, l);

	if (why)
		return why;
	return !rlx_g_attention_counts(a) ||
	       a->batch * a->kv_heads * rlx_g_ceil(a->kv_len, 64) > 1 << 29 ?
	       "a size is over 2^29" : NULL;
}

/* Tasks of @rows keys or queries each. */
static inline int64_t rlx_g_attention_grad_tasks(const struct rlx_k_attention *a, int64_t rows)
{
	return a->batch * (a->kv_heads * rlx_g_ceil(a->kv_len, rows) +
			   a->heads * rlx_g_ceil(a->q_len, rows));
}

static inline int32_t rlx_g_attention_grad_width(const struct rlx_k_attention *a)
{
	return (int32_t)rlx_g_ceil(rlx_g_attention_dim(a), 32) * 32;
}

/* The gradient's two launches, of blocks with @shared bytes each. */
static inline void rlx_g_attention_grad_line(const struct rlx_k_attention *a, int64_t blocks,
					     int32_t threads, int32_t shared,
					     struct rlx_g_launch *l)
{
	rlx_g_line(l, blocks, (uint32_t)threads);
	l->shared = (uint32_t)shared;
	l->can = l->shared <= l->most_shared;
	l->n_launches = 2;
	l->scratch = (uint64_t)(a->batch * a->heads * a->q_len) * 2 * sizeof(float);
}

/* 64 keys or queries a block, then 128. */
static inline bool rlx_g_attention_grad_plan(const void *args, unsigned int i,
					     struct rlx_g_launch *l)
{
	const struct rlx_k_attention_grad *g = (const struct rlx_k_attention_grad *)args;
	const struct rlx_k_attention *a = &g->a;
	int32_t width = rlx_g_attention_grad_width(a), rows = i ? 128 : 64;

	if (i > 1)
		return false;
	rlx_g_attention_grad_line(a, rlx_g_attention_grad_tasks(a, rows), rows * 2,
				  ATT_GRAD_SHARED(width, rows), l);
	RLX_G_VARIANT(l, attention_grad_mma, RLX_G_ATTENTION_FORM(a, width),
		      .ATTENTION_ROWS = rows);
	l->param.attention_grad_mma.ATTENTION_OUT_TYPE = g->grad_type;
	return true;
}

static inline const char *rlx_g_attention_grad_wgmma_why_not(const void *args,
							     const struct rlx_g_launch *l)
{
	const char *why = rlx_g_attention_grad_why_not(args, l);

	return why || l->arch == 90 ? why : "the chip is not sm_90";
}

/* With as many warpgroups as there may be, then with fewer. */
static inline bool rlx_g_attention_grad_wgmma_plan(const void *args, unsigned int i,
						   struct rlx_g_launch *l)
{
	const struct rlx_k_attention_grad *g = (const struct rlx_k_attention_grad *)args;
	const struct rlx_k_attention *a = &g->a;
	int32_t width = rlx_g_attention_grad_width(a);
	int32_t groups = ATT_GRAD_GROUPS - (int32_t)i;
	int64_t tasks, most;

	if (groups < 1)
		return false;
	tasks = rlx_g_attention_grad_tasks(a, groups * 64);
	most = (int64_t)l->processors * ATT_GRAD_BLOCKS(groups);
	rlx_g_attention_grad_line(a, tasks < most ? tasks : most, ATT_THREADS(groups),
				  ATT_GRAD_WGMMA_SHARED(width, groups), l);
	RLX_G_VARIANT(l, attention_grad_wgmma, RLX_G_ATTENTION_FORM(a, width),
		      .ATTENTION_GROUPS = groups);
	l->param.attention_grad_wgmma.ATTENTION_OUT_TYPE = g->grad_type;
	return true;
}

static inline void rlx_g_attention_grad_wgmma_cost(const void *args, const struct rlx_g_launch *l,
						   struct rlx_g_cost *t)
{
	const struct rlx_k_attention_grad *g = (const struct rlx_k_attention_grad *)args;
	const struct rlx_k_attention *a = &g->a;
	int32_t groups = l->param.attention_grad_wgmma.ATTENTION_GROUPS;
	double width = l->param.attention_grad_wgmma.ATTENTION_WIDTH, rows = 64 * groups;
	double seen = rlx_g_attention_keys(a, rows);

	t->blocks = (double)rlx_g_attention_grad_tasks(a, groups * 64);
	t->rate = RLX_G_RATE_mma_f16;
	t->part = groups > 1 ? 0.45 : 0.4;
	t->flops = 7 * rows * seen * width;	/* 4 products or 3, by kind of block */
	t->l2_bytes = seen * (double)(a->head_dim + a->v_dim) * 2;
	t->steps = seen / ATT_GRAD_KEYS(width);
	t->step_ns = 700;
	t->end_ns = 1000;
	t->dram_bytes = 2 * rlx_g_attention_dram(a);
	t->resident = (uint32_t)ATT_GRAD_BLOCKS(groups);
}

static inline void rlx_g_attention_grad_cost(const void *args, const struct rlx_g_launch *l,
					     struct rlx_g_cost *t)
{
	const struct rlx_k_attention_grad *g = (const struct rlx_k_attention_grad *)args;
	double rows = l->param.attention_grad_mma.ATTENTION_ROWS;
	double width = l->param.attention_grad_mma.ATTENTION_WIDTH;
	double seen = rlx_g_attention_keys(&g->a, rows), tile = width > 64 ? 32 : 64;

	t->rate = RLX_G_RATE_mma_f16;
	t->part = rows > 64 ? 0.12 : 0.15;
	t->flops = 7 * rows * seen * width;	/* 4 products or 3, by kind of block */
	t->l2_bytes = seen * (double)(g->a.head_dim + g->a.v_dim) * 2;
	t->steps = seen / tile;
	t->step_ns = 1000;
	t->end_ns = 1000;
	t->dram_bytes = 2 * rlx_g_attention_dram(&g->a);
	t->resident = rows > 64 ? 1 : 2;
}

static inline void rlx_g_attention_grad_describe(const void *args, char *buf, size_t size)
{
	const struct rlx_k_attention_grad *g = (const struct rlx_k_attention_grad *)args;
	int n = snprintf(buf, size, "grad=%d ", (int)g->grad_type);

	rlx_g_attention_describe(&g->a, buf + n, size - (size_t)n);
}

static inline void rlx_g_attention_grad_launch(const void *args, struct rlx_g_launch *l)
{
	static const struct rlx_g_option option[] = {
		{ RLX_G_attention_grad_wgmma, rlx_g_attention_grad_wgmma_why_not,
		  rlx_g_attention_grad_wgmma_plan, rlx_g_attention_grad_wgmma_cost },
		{ RLX_G_attention_grad_mma, rlx_g_attention_grad_why_not,
		  rlx_g_attention_grad_plan, rlx_g_attention_grad_cost },
	};
	static const struct rlx_g_family family = { "attention_grad", option, 2,
						    rlx_g_attention_grad_describe };

	rlx_g_choose(&family, args, l);
}

#endif
