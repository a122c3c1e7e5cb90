/* SPDX-License-Identifier: MIT */
/* GEMM with weights of 4 or 8 bits that are unpacked in registers. */
#ifndef RLX_K_GEMM_WQ_H
#define RLX_K_GEMM_WQ_H

#include "kernels/kernel.h"

#define RLX_K_GEMM_WQ_COLS	16	/* at most: */
/* Columns of a panel of packed weights: a vector of @isa. */
static inline size_t rlx_k_gemm_wq_cols(enum rlx_isa isa)
{
	return isa >= RLX_ISA_V4 ? RLX_K_GEMM_WQ_COLS : isa == RLX_ISA_V3 ? 8 : 4;
}

/**
 * struct rlx_k_gemm_wq - kernel gemm_wq: y = x W with W[i][j] = (q[i][j] - zero) * scale
 * @x, @y: [m][k] and [m][n]
 * @w: panels of cols columns, the last filled up with scales of 0; a panel is block after
 *	block, each: cols scales; with @zeros cols zero points, both f32; and the codes, a row
 *	of cols for each of the block's k, in bytes, signed, or two rows in one, unsigned, the
 *	even one low
 * @block: k that have a scale of their own, 1 to k
 * @zero: the zero point of all without @zeros
 * @bits: 4 or 8
 * @isa: of the kernel
 *
 * One unit is up to RLX_K_GEMM_WQ_ROWS rows by 4 panels, or by 16 with more than
 * RLX_K_GEMM_WQ_FEW rows in all, which then are copied for them. Sums are of up to
 * RLX_K_GEMM_WQ_TERMS terms each, then added up.
 */
#define RLX_K_GEMM_WQ_ROWS	24
#define RLX_K_GEMM_WQ_FEW	12
#define RLX_K_GEMM_WQ_TERMS	128

struct rlx_k_gemm_wq {
	const float	*x;
	float		*y;
	const void	*w;
	size_t		m, n, k, block;
	int32_t		zero;
	uint8_t		bits, isa;
	bool		zeros;
};

static inline size_t rlx_k_gemm_wq_blocks(const struct rlx_k_gemm_wq *a)
{
	return (a->k + a->block - 1) / a->block;
}

static inline size_t rlx_k_gemm_wq_panels(const struct rlx_k_gemm_wq *a)
{
	size_t cols = rlx_k_gemm_wq_cols((enum rlx_isa)a->isa);

	return (a->n + cols - 1) / cols;
}

/* Bytes of one block of @len in a panel, and of a whole panel. */
static inline size_t rlx_k_gemm_wq_block_bytes(const struct rlx_k_gemm_wq *a, size_t len)
{
	size_t rows = a->bits == 4 ? (len + 1) / 2 : len;

	return rlx_k_gemm_wq_cols((enum rlx_isa)a->isa) *
	       (rows + sizeof(float) * (a->zeros ? 2 : 1));
}

static inline size_t rlx_k_gemm_wq_panel_bytes(const struct rlx_k_gemm_wq *a)
{
	size_t full = a->k / a->block, rest = a->k % a->block;

	return full * rlx_k_gemm_wq_block_bytes(a, a->block) +
	       (rest ? rlx_k_gemm_wq_block_bytes(a, rest) : 0);
}

/* Panels of a unit. */
static inline size_t rlx_k_gemm_wq_step(const struct rlx_k_gemm_wq *a)
{
	return a->m > RLX_K_GEMM_WQ_FEW ? 16 : 4;
}

static inline size_t rlx_k_gemm_wq_units(const struct rlx_k_gemm_wq *a)
{
	size_t panels = rlx_k_gemm_wq_panels(a), step = rlx_k_gemm_wq_step(a);

	return (panels + step - 1) / step *
	       ((a->m + RLX_K_GEMM_WQ_ROWS - 1) / RLX_K_GEMM_WQ_ROWS);
}

/* Sums of blocks of x, and many rows. */
static inline size_t rlx_k_gemm_wq_scratch(const struct rlx_k_gemm_wq *a)
{
	size_t copied = a->m > RLX_K_GEMM_WQ_FEW ? a->k : 0;

	return RLX_K_GEMM_WQ_ROWS * (rlx_k_gemm_wq_blocks(a) + copied) * sizeof(float);
}

#endif
