// SPDX-License-Identifier: MIT
/* GEMM with weights in bf16 where the machine has no bf16 product. */
#define GF_TYPE		RLX_BF16
#define GF_VEC		vu16h
#define GF_LOADU(p)	vf_loadu_bf16(p)
#define GF_LOADN(p, n)	vf_loadn_bf16(p, n)
#include "kernels/simd/gemm_fma.h"
#define GD_THIN(g)	rlx_k_gemm_low_is_thin(g, GD_ISA)
#include "kernels/simd/gemm_drive.h"

GD_KERNEL(gemm_bf16)
GD_PACK_KERNEL(gemm_bf16_pack, rlx_k_gemm_pack)
