/* SPDX-License-Identifier: MIT */
/*
 * Launches of GEMMs with fp8 and of what turns fp8 into 16-bit floats; a part of launch.h.
 *
 * Two ways, as M decides what counts. Weight-streaming (up to 64 rows; A 16-bit, B fp8 read once
 * for each 16 of them, 1 byte a weight): blocks for all multiprocessors, each 16 rows by as many
 * columns of 8 as are left for it; stages, then threads, are given up until shared memory fits. By
 * wgmma (both operands fp8, sm_90): the tiles of f16 with k halved, since to TMA two fp8 are one
 * 16-bit float, 192 columns at most, as sums are kept twice (the chip's fp8 sums are short, see
 * gemm_wgmma.cu). B by rows is turned to columns before that, by tiles of 64 x 64. What neither way
 * takes is widened to f16 or bf16 first, 16 elements a thread.
 * Limits: lines of fp8 at multiples of 16 bytes; turned matrices are multiples of 16 x 16.
 */
#ifndef RLX_G_LAUNCH_F8_H
#define RLX_G_LAUNCH_F8_H

#include "kernels/cast.h"
#include "kernels/gemv_stream_f8.h"
#include "kernels/gpu/launch.h"

/* Columns and threads of a block, stages of a warp. */
struct rlx_g_f8_shape {
	uint32_t	cols, threads, stages;
};

static inline uint32_t rlx_g_f8_shared(const struct rlx_g_f8_shape *s)
{
	uint32_t ring = s->stages * s->cols * 64, sums = 16 * (s->cols + 32) * 4;

	return s->threads / 32 * (ring > sums ? ring : sums);
}

/*
 * Blocks for all multiprocessors; by rows, lines that memory likes. Rows beyond 16 are more
 * blocks of the same columns.
 */
static inline struct rlx_g_f8_shape rlx_g_f8_shape(const struct rlx_k_gemm *g,
						   uint32_t processors, uint32_t most)
{
	int64_t all = rlx_g_ceil((int64_t)g->n, 8) * rlx_g_ceil((int64_t)g->m, 16);
	int64_t each = rlx_g_ceil(all, processors);	/* columns by 8 */
	int64_t blocks = each > 16 ? rlx_g_ceil(each, 8) : each > 8 ? 2 : 1;
	struct rlx_g_f8_shape s = { 8 * (uint32_t)rlx_g_ceil(each, blocks), 256, 3 };

	if (g->b_form == RLX_B_ROWS)
		s.cols = each <= 4 ? 32 : each <= 8 ? 64 : 128;
	if (each <= 8)
		s.threads = 512;
	while (s.stages > 2 && rlx_g_f8_shared(&s) > most)
		s.stages--;
	while (s.threads > 128 && rlx_g_f8_shared(&s) > most)
		s.threads /= 2;
	return s;
}

static inline void rlx_g_gemv_stream_f8_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gemv_stream_f8 *a = (const struct rlx_k_gemv_stream_f8 *)args;
	const struct rlx_k_gemm *g = &a->g;
	bool rows = g->b_form == RLX_B_ROWS;
	struct rlx_g_f8_shape s;

	if (g->m > RLX_K_GEMV_STREAM_F8_ROWS || g->b_form == RLX_B_PACKED || g->trans_a ||
	    g->a_type == RLX_F32 || g->lda % 8 || g->ldb % 16 || !g->k || g->k > 1 << 30 ||
	    g->n > 1 << 30 || (rows ? g->n % 16 || g->k % 8 : g->k % 16) ||
	    rlx_k_gemm_batches(g) != 1)
		return;
	s = rlx_g_f8_shape(g, l->processors, l->most_shared);
	if (rlx_g_f8_shared(&s) > l->most_shared)
		return;
	rlx_g_line(l, rlx_g_ceil((int64_t)g->n, s.cols) * rlx_g_ceil((int64_t)g->m, 16),
		   s.threads);
	l->shared = rlx_g_f8_shared(&s);
	RLX_G_VARIANT(l, gemv_stream_f8, .STREAM_TYPE = g->a_type, .STREAM_TYPE_C = g->c_type,
		      .STREAM_COLS = (int32_t)s.cols, .STREAM_THREADS = (int32_t)s.threads,
		      .STREAM_STAGES = (int32_t)s.stages, .STREAM_16_ROWS = g->m > 8,
		      .STREAM_B_FIXED = g->b_fixed, .STREAM_B_ROWS = rows, .STREAM_E5M2 = a->e5m2);
}

/* To TMA two of fp8 are one 16-bit float. */
static inline struct rlx_k_gemm rlx_g_gemm_f8_as_16bit(const struct rlx_k_gemm *a)
{
	struct rlx_k_gemm h = *a;

	h.a_type = h.b_type = RLX_BF16;
	h.k /= 2;
	h.lda /= 2;
	h.ldb /= 2;
	for (int i = 0; i < 2; i++) {
		h.a_step[i] /= 2;
		h.b_step[i] /= 2;
	}
	return h;
}

static inline const char *rlx_g_gemm_wgmma_f8_why_not(const void *args,
						      const struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	size_t odd = a->lda | a->ldb | a->k | a->a_step[0] | a->a_step[1] | a->b_step[0] |
		     a->b_step[1];
	const struct rlx_k_gemm h = rlx_g_gemm_f8_as_16bit(a);
	bool out = a->c_type >= RLX_F8E4M3;

	if (l->arch != 90)
		return "the chip is not sm_90";
	if (odd % 16 || a->trans_a || a->b_form != RLX_B_COLS)
		return "a line does not begin at 16 bytes, or k is not innermost in both";
	if (a->a_type < RLX_F8E4M3 || a->b_type < RLX_F8E4M3 ||
	    (out && (a->residual || a->c_type != a->a_type || a->c_type != a->b_type)))
		return "no such mixture of types";
	return rlx_g_gemm_unaligned(&h) ? "a or b does not begin at 16 bytes" :
	       rlx_g_gemm_unmapped(&h);
}

/* Sums are kept twice, and so of fewer columns. */
static inline bool rlx_g_gemm_wgmma_f8_plan(const void *args, unsigned int i,
					    struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const struct rlx_k_gemm h = rlx_g_gemm_f8_as_16bit(a);
	struct rlx_g_gemm_tile t;

	if (!rlx_g_gemm_tile(i, &t))
		return false;
	rlx_g_gemm_by(&h, t, l);
	l->param.gemm_wgmma.GEMM_TYPE_A = a->a_type;
	l->param.gemm_wgmma.GEMM_TYPE_B = a->b_type;
	l->can = t.n <= 192;
	return true;
}

static inline void rlx_g_gemm_wgmma_f8_cost(const void *args, const struct rlx_g_launch *l,
					    struct rlx_g_cost *t)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	const struct rlx_k_gemm h = rlx_g_gemm_f8_as_16bit(a);

	rlx_g_gemm_wgmma_cost(&h, l, t);
	t->flops *= 2;
	t->rate = RLX_G_RATE_mma_f8;
}

static inline void rlx_g_gemm_wgmma_f8_launch(const void *args, struct rlx_g_launch *l)
{
	static const struct rlx_g_option option = {
		RLX_G_gemm_wgmma, rlx_g_gemm_wgmma_f8_why_not, rlx_g_gemm_wgmma_f8_plan,
		rlx_g_gemm_wgmma_f8_cost,
	};
	static const struct rlx_g_family family = { "gemm", &option, 1, rlx_g_gemm_describe };

	rlx_g_choose(&family, args, l);
}

/* f16 or bf16 of fp8, or fp8 of f32. */
static inline void rlx_g_widen_f8_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_cast *a = (const struct rlx_k_cast *)args;

	rlx_g_each(l, rlx_g_ceil(a->n, 16));
	if (a->src_type == RLX_F32)
		RLX_G_VARIANT(l, narrow_f8, .STREAM_E5M2 = a->dst_type == RLX_F8E5M2);
	else
		RLX_G_VARIANT(l, widen_f8, .STREAM_E5M2 = a->src_type == RLX_F8E5M2,
			      .STREAM_TYPE = a->dst_type);
}

static inline void rlx_g_transpose_f8_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_transpose_f8 *a = (const struct rlx_k_transpose_f8 *)args;

	if (a->rows % 16 || a->cols % 16)
		return;
	rlx_g_line(l, a->batch * rlx_g_ceil(a->rows, 64) * rlx_g_ceil(a->cols, 64), 256);
	RLX_G_VARIANT(l, transpose_f8);
}

#endif
