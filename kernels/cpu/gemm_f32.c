// SPDX-License-Identifier: MIT
/* GEMM in f32. */
#include "kernels/gemm.h"
#include "kernels/simd/vec.h"

#define GT_A		float
#define GT_T		float
#define GT_V		vf
#define GT_L		RLX_VL
#define GT_NV		2
#define GT_BV		sizeof(vf)
#define GT_STEP(c, a, b) vf_fma(a, b, c)
#define GT_BCAST(x)	vf_set1(x)
#define GT_LOAD(p)	vf_loadu(p)
#define GT_LOADB(p)	vf_loadu(p)
#define GT_STORE(p, v)	vf_storeu(p, v)
#if defined(RLX_V512)
#define GT_MR		14
#define GT_FLAT_MR	6
#define GD_ISA		RLX_ISA_V4
#elif defined(RLX_V256)
#define GT_MR		6
#define GD_ISA		RLX_ISA_V3
#else
#define GT_MR		4
#define GT_FLAT_MR	1
#define GD_ISA		RLX_ISA_BASE
#endif
#include "kernels/simd/gemm_tile.h"

#define GD_K(k)		(k)
#define GD_AGROUP	sizeof(float)
#define GD_BROW		(GT_NV * sizeof(vf))

#define GW_B		RLX_NUM_F32
#include "kernels/simd/gemm_widen.h"

static inline size_t gd_a_size(const struct rlx_k_gemm *g)
{
	return ge_size(g->a_num);
}

static inline size_t gd_b_size(const struct rlx_k_gemm *g)
{
	return ge_size(g->b_num);
}

static inline size_t gd_c_size(const struct rlx_k_gemm *g)
{
	return ge_size(g->c_num);
}

/* Rows a multiple of 2 KiB apart compete for one or two first-level sets. */
static inline bool gd_direct_a(const struct rlx_k_gemm *g, size_t rows)
{
	return !g->trans_a && g->a_num == RLX_NUM_F32 &&
	       (rows <= 6 || g->lda * sizeof(float) % 2048);
}

/* Reading B's rows in place costs less than a copy that serves two tiles. */
static inline bool gd_direct_b(const struct rlx_k_gemm *g, size_t rows)
{
	return g->b_form == RLX_B_ROWS && g->b_num == RLX_NUM_F32 &&
	       rows <= 2 * GT_MR;
}

/* A panel of weights in 16 bits, once for all rows of a block. */
#define GD_WIDEN	(GD_BROW / 2)

static void gd_widen(const struct rlx_k_gemm *g, const char *b, char *dst)
{
	size_t n = g->k * GD_NR, i;

	for (i = 0; i < n; i += RLX_VL)
		vf_storeu(dst + i * sizeof(float), g->b_num == RLX_NUM_BF16 ?
			  vf_loadu_bf16(b + i * 2) : vf_loadu_f16(b + i * 2));
}

#define GD_DOT		RLX_VL

static inline bool gd_can_dot(const struct rlx_k_gemm *g)
{
	return g->b_num == RLX_NUM_F32;
}

RLX_INLINE vf gd_dot_a(const char *a, size_t k, size_t n)
{
	return n < RLX_VL ? vf_loadn(a + k * 4, n) : vf_loadu(a + k * 4);
}

RLX_INLINE vf gd_dot_b(const char *b, size_t k, size_t n)
{
	return gd_dot_a(b, k, n);
}

#include "kernels/simd/gemm_drive.h"

rlx_k_fn RLX_K(gemm_f32), RLX_K(gemm_f32_pack);

void RLX_K(gemm_f32)(const void *args, size_t begin, size_t end, void *scratch)
{
	gd_gemm(args, begin, end, scratch);
}

void RLX_K(gemm_f32_pack)(const void *args, size_t begin, size_t end,
			  void *scratch)
{
	const struct rlx_k_gemm_pack *p = args;

	for (; begin < end; begin++)
		pack_panel(p, begin, (char *)p->dst + begin * p->k * GD_BROW);
}
