/* SPDX-License-Identifier: MIT */
/*
 * The end of an encoder in one launch (encoder_tail.cu): its arguments and shared memory.
 *
 * Last layer norm, attention of one query to the rows (pooling) and the norm of that are little
 * work of a few launches that wait for each other; one block for each batch row does all, reads
 * the rows once, and writes one row. Which steps match is decided by
 * backends/gpu/group_norm.c.
 * Shared memory is 4 bytes x 5 / 4 n for each warp: a row of sums, and of each head, 8 wide at
 * least, the largest score and the sum. Limits: rows of up to 768 elements, f16 or bf16.
 */
#ifndef RLX_G_ENCODER_TAIL_H
#define RLX_G_ENCODER_TAIL_H

#include "kernels/attention.h"
#include "kernels/norm.h"

/**
 * struct rlx_g_encoder_tail - rows, the attention of one query to them, and what comes of it
 * @last: the norm of what was attended to, of which nobody else reads; its x is not read
 * @rows: a layer norm, whose y nobody else reads: keys and values in one
 * @a: of as many heads as are as wide as the rows, one query each; @a.k, @a.v are not read
 */
struct rlx_g_encoder_tail {
	struct rlx_k_norm	last, rows;
	struct rlx_k_attention	a;
};

enum { RLX_G_ENCODER_TAIL_WIDTH = 768, RLX_G_ENCODER_TAIL_THREADS = 512 };

/* Shared memory: a row of sums for each warp, and each head's largest score and sum. */
static inline uint32_t rlx_g_encoder_tail_shared(int64_t n)
{
	return RLX_G_ENCODER_TAIL_THREADS / 32 * ((uint32_t)n + (uint32_t)n / 4) * 4;
}

#endif
