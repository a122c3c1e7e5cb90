// SPDX-License-Identifier: MIT
/*
 * GEMM of f16 or bf16. RLX_K0: types of a, b, c as enum rlx_k_num, two bits each, or
 * GEMM_TF32 (RLX_K1 0 and 1); with RLX_K1 4 also GEMM_F8; GEMM_BY_SCALE with all of them.
 * RLX_K1: 0 a large tile, 1 a small one, 2 few rows, 3 a few more (RLX_K3: columns of a
 * block), 4 by warpgroups (RLX_K3: their tiles, gemm_tile.h); of 0 and 1 RLX_K3 may be
 * RLX_G_GROUPED. RLX_K2: 1 a is transposed, 2 b is by columns.
 */
#if RLX_K1 == 4
#include "kernels/gpu/gemm_wgmma.h"
#else
#include "kernels/gpu/gemm_mma.h"
#endif
