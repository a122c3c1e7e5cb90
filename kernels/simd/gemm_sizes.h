/* SPDX-License-Identifier: MIT */
/* Bytes of elements as a GEMM of floats is given them, for gemm_drive.h. */
#include "kernels/gemm.h"
#include "kernels/simd/gemm_epi.h"

static inline size_t gd_a_size(const struct rlx_k_gemm *g)
{
	return ge_size(g->a_type);
}

static inline size_t gd_b_size(const struct rlx_k_gemm *g)
{
	return ge_size(g->b_type);
}

static inline size_t gd_c_size(const struct rlx_k_gemm *g)
{
	return ge_size(g->c_type);
}
