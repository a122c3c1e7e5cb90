/* SPDX-License-Identifier: MIT */
/*
 * The inner product of a GEMM's tiles without tensor cores: 16 x 16 threads, PER x PER sums each
 * in registers, for gemm_simt.cu.
 *
 * Each of DEPTH terms is a rank-1 update: PER values of A and PER of B from shared memory for
 * PER^2 multiply-adds, so PER of 8 needs a value from shared memory for four of these (4: for
 * two). A thread's rows are neighbours, its columns 16 apart: lanes of a warp read neighbouring
 * columns, in different banks, and rows of two groups, which are broadcast.
 * Source: Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra" (SC 2008).
 * Limits: 256 threads; both tiles with k down the rows, LD elements apart.
 */
#ifndef RLX_G_SIMT_H
#define RLX_G_SIMT_H

#include "kernels/gpu/dialect.h"

/*
 * Add what DEPTH terms of both tiles give. A thread's rows are neighbours, its
 * columns 16 apart, so that no two threads of a warp want one bank.
 */
template <int DEPTH, class T, int PER, int LD>
static DEV inline void simt_multiply(T (*sum)[PER], T (*as)[LD], T (*bs)[LD])
{
	int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16;

#pragma unroll
	for (int k = 0; k < DEPTH; k++)
#pragma unroll
		for (int i = 0; i < PER; i++)
#pragma unroll
			for (int j = 0; j < PER; j++)
				sum[i][j] += as[k][y * PER + i] * bs[k][x + 16 * j];
}

#endif
