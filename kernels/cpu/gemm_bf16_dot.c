// SPDX-License-Identifier: MIT
/* GEMM in bf16 with f32 sums: pairs along K, VDPBF16PS. */
#include "kernels/gemm.h"
#include "kernels/simd/vec.h"

/* a pair where it lies, in rows of 16-bit elements */
typedef int32_t pair_a __attribute__((aligned(2), may_alias));

#define GT_A		pair_a
#define GT_T		float
#define GT_V		vf
#define GT_VB		vi
#define GT_L		RLX_VL
#define GT_NV		2
#define GT_BV		sizeof(vi)
#define GT_STEP(c, a, b)						\
	((vf)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(a), (__m512bh)(b)))
#define GT_BCAST(x)	vi_set1(x)
#define GT_LOAD(p)	vf_loadu(p)
#define GT_LOADB(p)	vi_loadu(p)
#define GT_STORE(p, v)	vf_storeu(p, v)
#define GD_ISA		RLX_ISA_V4X
#include "kernels/simd/gemm_level.h"
#include "kernels/simd/gemm_tile.h"

#define GD_K(k)		((k) / 2 + (k) % 2)
#define GD_AGROUP	sizeof(pair_a)
#define GD_BROW		(GT_NV * sizeof(vi))

/* The other half of a last odd pair would be the next row's first element. */
static inline bool gd_direct_a(const struct rlx_k_gemm *g, size_t rows)
{
	return !g->trans_a && g->a_type == RLX_BF16 && g->k % 2 == 0 &&
	       (rows <= 6 || g->lda * 2 % 2048);
}

#include "kernels/simd/gemm_pairs.h"
#define GD_THIN(g)	rlx_k_gemm_low_is_thin(g, GD_ISA)
#include "kernels/simd/gemm_drive.h"

GD_KERNEL(gemm_bf16)
GD_PACK_KERNEL(gemm_bf16_pack, rlx_k_gemm_pack)
