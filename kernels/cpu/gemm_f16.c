// SPDX-License-Identifier: MIT
/* GEMM with weights in f16. */
#define GF_TYPE		RLX_F16
#define GF_VEC		vu16h
#ifdef RLX_ISA_base
#include "kernels/simd/gemm_fma_panel.h"

rlx_k_fn RLX_K(gemm_f16), RLX_K(gemm_f32);

/* Nothing here widens f16 in registers: once for a block of rows is as good. */
void RLX_K(gemm_f16)(const void *args, size_t begin, size_t end, void *scratch)
{
	RLX_K(gemm_f32)(args, begin, end, scratch);
}
#else
#define GF_LOADU(p)	vf_loadu_f16(p)
#define GF_LOADN(p, n)	vf_loadn_f16(p, n)
#include "kernels/simd/gemm_fma.h"
#include "kernels/simd/gemm_drive.h"

GD_KERNEL(gemm_f16)
#endif

GD_PACK_KERNEL(gemm_f16_pack, rlx_k_gemm_pack)
