/* SPDX-License-Identifier: MIT */
/* GEMM of rows of f16 or bf16 by weights in fp8. GPU only. */
#ifndef RLX_K_GEMV_STREAM_F8_H
#define RLX_K_GEMV_STREAM_F8_H

#include "kernels/gemm.h"

/**
 * struct rlx_k_gemv_stream_f8 - a GEMM of small M
 * @g:		a of f16 or bf16, whose rows begin at 16 bytes, and so do the lines of b that
 *		lie side by side; b_type is not read; one batch
 * @e5m2:	b is f8e5m2, else f8e4m3
 */
struct rlx_k_gemv_stream_f8 {
	struct rlx_k_gemm	g;
	bool			e5m2;
};

/**
 * struct rlx_k_transpose_f8 - @batch matrices of bytes [@rows, @cols], which is a multiple of 16,
 * as [@cols, @rows], a multiple too
 */
struct rlx_k_transpose_f8 {
	const void	*src;
	void		*dst;
	int64_t		batch, rows, cols;
};

/* More rows are left to GEMMs of f16 or bf16, of which b becomes one first. */
#define RLX_K_GEMV_STREAM_F8_ROWS	64

#endif
