// SPDX-License-Identifier: MIT
/* GEMM in bf16 with f32 sums: AMX tiles of pairs along K, TDPBF16PS. */
#include "kernels/gemm.h"

#define GT_T		float
#define GX_KINDS	1
#define GX_DP(kind, c, a, b)	TILE_DP_BF16(c, a, b)

static inline int gx_kind(const struct rlx_k_gemm *g)
{
	return 0;
}

#include "kernels/simd/gemm_amx.h"

#define GT_STEP(c, a, b) pairs_step(c, a, b)
#define GD_K(k)		(rlx_k_gemm_tile_steps(k, 2) * TILE_ROWS)
#define GD_AGROUP	4

/* A tile of A is read whole. */
static inline bool gd_direct_a(const struct rlx_k_gemm *g, size_t rows)
{
	return !g->trans_a && g->a_type == RLX_BF16 && g->k % (TILE_COLSB / 2) == 0;
}

#include "kernels/simd/gemm_pairs.h"
#define GD_THIN(g)	rlx_k_gemm_low_is_thin(g, GD_ISA)
#include "kernels/simd/gemm_drive.h"
#include "kernels/simd/gemm_amx_panels.h"

GD_KERNEL(gemm_bf16)
GD_PACK_KERNEL(gemm_bf16_pack, rlx_k_gemm_pack)
