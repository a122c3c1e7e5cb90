// SPDX-License-Identifier: MIT
/* GEMM with weights in bf16 where the machine has no bf16 product. */
#define GH_NUM		RLX_NUM_BF16
#define GH_LOADU(p)	vf_loadu_bf16(p)
#define GH_LOADN(p, n)	vf_loadn_bf16(p, n)
#include "kernels/simd/gemm_half.h"

rlx_k_fn RLX_K(gemm_bf16), RLX_K(gemm_bf16_pack);

void RLX_K(gemm_bf16)(const void *args, size_t begin, size_t end, void *scratch)
{
	gd_gemm(args, begin, end, scratch);
}

void RLX_K(gemm_bf16_pack)(const void *args, size_t begin, size_t end, void *scratch)
{
	gh_pack(args, begin, end);
}
