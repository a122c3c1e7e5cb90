/* SPDX-License-Identifier: MIT */
/*
 * The launch of attention's gradient (attention_grad_mma.cu); a part of launch.h. Limits: f16 and
 * bf16, heads up to 128 wide, NVIDIA's chips; sizes that 32 bits count. What it is not for is made
 * of simpler ops.
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

/* 64 keys or queries a block, then 128. */
static inline bool rlx_g_attention_grad_plan(const void *args, unsigned int i,
					     struct rlx_g_launch *l)
{
	const struct rlx_k_attention_grad *g = (const struct rlx_k_attention_grad *)args;
	const struct rlx_k_attention *a = &g->a;
	int32_t width = (int32_t)rlx_g_ceil(rlx_g_attention_dim(a), 32) * 32, rows = i ? 128 : 64;

	if (i > 1)
		return false;
	rlx_g_line(l, a->batch * (a->kv_heads * rlx_g_ceil(a->kv_len, rows) +
				  a->heads * rlx_g_ceil(a->q_len, rows)), (uint32_t)rows * 2);
	l->shared = (uint32_t)ATT_GRAD_SHARED(width, rows);
	l->can = l->shared <= l->most_shared;
	l->n_launches = 2;
	l->scratch = (uint64_t)(a->batch * a->heads * a->q_len) * 2 * sizeof(float);
	RLX_G_VARIANT(l, attention_grad_mma, RLX_G_ATTENTION_FORM(a, width),
		      .ATTENTION_ROWS = rows);
	l->param.attention_grad_mma.ATTENTION_OUT_TYPE = g->grad_type;
	return true;
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
	static const struct rlx_g_option option = {
		RLX_G_attention_grad_mma, rlx_g_attention_grad_why_not, rlx_g_attention_grad_plan,
		rlx_g_attention_grad_cost,
	};
	static const struct rlx_g_family family = { "attention_grad", &option, 1,
						    rlx_g_attention_grad_describe };

	rlx_g_choose(&family, args, l);
}

#endif
