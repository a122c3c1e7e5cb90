/* SPDX-License-Identifier: MIT */
/*
 * GEMM with weights in a 16-bit format where the machine has no product of it: weights
 * widen on their way into registers, A and the sums are f32. The includer defines
 *	GH_NUM		the format: RLX_NUM_BF16 or RLX_NUM_F16
 *	GH_LOADU(p)	a vector of f32 from so many elements at p
 *	GH_LOADN(p, n)	the same from n elements, zeros behind
 *	GH_PACK_ALONE	if it has no product of its own
 * and calls gd_gemm() and gh_pack().
 */
#ifdef GH_PACK_ALONE
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include "kernels/gemm.h"
#include "kernels/simd/vec.h"

#define GT_A		float
#define GT_T		float
#define GT_V		vf
#define GT_L		RLX_VL
#define GT_NV		2
#define GT_BV		sizeof(vu16h)
#define GT_STEP(c, a, b) vf_fma(a, b, c)
#define GT_BCAST(x)	vf_set1(x)
#define GT_LOAD(p)	vf_loadu(p)
#define GT_LOADB(p)	GH_LOADU(p)
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
#define GD_BROW		(GT_NV * sizeof(vu16h))
#define GW_B		GH_NUM
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

static inline bool gd_direct_b(const struct rlx_k_gemm *g, size_t rows)
{
	return g->b_form == RLX_B_ROWS && g->b_num == GH_NUM &&
	       rows <= 2 * GT_MR;
}

#define GD_DOT		RLX_VL

static inline bool gd_can_dot(const struct rlx_k_gemm *g)
{
	return g->b_num == GH_NUM;
}

RLX_INLINE vf gd_dot_a(const char *a, size_t k, size_t n)
{
	return n < RLX_VL ? vf_loadn(a + k * 4, n) : vf_loadu(a + k * 4);
}

RLX_INLINE vf gd_dot_b(const char *b, size_t k, size_t n)
{
	return n < RLX_VL ? GH_LOADN(b + k * 2, n) : GH_LOADU(b + k * 2);
}

#ifndef GH_PACK_ALONE
#include "kernels/simd/gemm_drive.h"
#endif

static void gh_pack(const struct rlx_k_gemm_pack *p, size_t begin, size_t end)
{
	for (; begin < end; begin++)
		pack_panel(p, begin, (char *)p->dst + begin * p->k * GD_BROW);
}
