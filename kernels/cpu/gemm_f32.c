// SPDX-License-Identifier: MIT
/* GEMM in f32. */
#define GF_TYPE		RLX_F32
#define GF_VEC		vf
#define GF_LOADU(p)	vf_loadu(p)
#define GF_LOADN(p, n)	vf_loadn(p, n)
#define GT_NARROW
#include "kernels/simd/gemm_fma.h"

/* A panel of weights in 16 bits, once for all rows of a block. */
#define GD_WIDEN	(GD_BROW / 2)

static void gd_widen(const struct rlx_k_gemm *g, const char *b, char *dst)
{
	size_t n = g->k * GD_NR, i;

	for (i = 0; i < n; i += RLX_VL)
		vf_storeu(dst + i * sizeof(float), g->b_type == RLX_BF16 ?
			  vf_loadu_bf16(b + i * 2) : vf_loadu_f16(b + i * 2));
}

#include "kernels/simd/gemm_drive.h"

GD_KERNEL(gemm_f32)
GD_PACK_KERNEL(gemm_f32_pack, rlx_k_gemm_pack)
