/* SPDX-License-Identifier: MIT */
/* Where a GEMM's results go, for the launch and for the kernels. */
#ifndef RLX_G_GEMM_RESULT_H
#define RLX_G_GEMM_RESULT_H

#include "kernels/gemm.h"
#include "kernels/gpu/env.h"

/* Bytes of a buffer that a run binds, and kernels write in the host's memory, at most. */
#define RLX_G_MOST_MAPPED	(64 << 10)

/*
 * May results of @size bytes go to the host's memory one by one? Lines that do not begin at four
 * of them cannot be written by fours, and the bus takes each of two bytes by itself unless a
 * warp's lie side by side.
 */
static inline bool rlx_g_gemm_scatters(const struct rlx_k_gemm *a, size_t size)
{
	return size == 2 && a->ldc % 4 && (uint64_t)(uintptr_t)a->c & RLX_G_INDIRECT &&
	       a->m * a->ldc * rlx_k_gemm_batches(a) * size <= RLX_G_MOST_MAPPED;
}

#endif
