// SPDX-License-Identifier: MIT
/* GEMM with weights in f16. */
#define GH_NUM		RLX_NUM_F16
#define GH_LOADU(p)	vf_loadu_f16(p)
#define GH_LOADN(p, n)	vf_loadn_f16(p, n)
#ifdef RLX_ISA_base
#define GH_PACK_ALONE
#endif
#include "kernels/simd/gemm_half.h"

rlx_k_fn RLX_K(gemm_f16), RLX_K(gemm_f16_pack), RLX_K(gemm_f32);

void RLX_K(gemm_f16)(const void *args, size_t begin, size_t end, void *scratch)
{
#ifdef GH_PACK_ALONE
	/* Nothing here widens f16 in registers: once for a block of rows is as good. */
	RLX_K(gemm_f32)(args, begin, end, scratch);
#else
	gd_gemm(args, begin, end, scratch);
#endif
}

void RLX_K(gemm_f16_pack)(const void *args, size_t begin, size_t end, void *scratch)
{
	gh_pack(args, begin, end);
}
