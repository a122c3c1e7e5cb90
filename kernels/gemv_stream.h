/* SPDX-License-Identifier: MIT */
/* Small-M GEMM with what a decoder has around them. GPU only. */
#ifndef RLX_K_GEMV_STREAM_H
#define RLX_K_GEMV_STREAM_H

#include "kernels/gemm.h"

/**
 * enum rlx_k_gate - which halves of the columns become one
 * @RLX_GATE_LAST:  [up | gate]: up * silu(gate)
 * @RLX_GATE_FIRST: [gate | up]
 */
enum rlx_k_gate {
	RLX_GATE_NONE,
	RLX_GATE_LAST,
	RLX_GATE_FIRST,
};

/**
 * struct rlx_k_gemv_stream - a GEMM of at most 16 rows
 * @g:		a, b of one type, bf16 or f16; what lies side by side in a and b is at
 *		16 bytes, and multiples of it long, and so is k; one batch. With a gate n
 *		counts what is written, b is by columns and has twice as many, and neither
 *		bias, residual nor act apply.
 * @gamma:	k elements of a's type, or NULL
 * @eps:	of the norm
 * @norm:	rows of a are multiplied by gamma / sqrt(mean a^2 + eps) first
 */
struct rlx_k_gemv_stream {
	struct rlx_k_gemm	g;
	const void		*gamma;
	float			eps;
	bool			norm;
	enum rlx_k_gate		gate;
};

#define RLX_K_GEMV_STREAM_ROWS	16

#endif
