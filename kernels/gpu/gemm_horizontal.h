/* SPDX-License-Identifier: MIT */
/*
 * Small-M GEMMs of one left-hand side in one launch (horizontal fusion: Q, K and V): arguments.
 *
 * At larger M members of equal sizes, up to RLX_G_JOIN_TILED of them, are batch indices of one
 * launch, whose tiles fill the chip better than those of each alone (gemm_wgmma.cu).
 *
 * At small M the blocks of one product fill a fraction of the chip, and its launch counts. So up
 * to RLX_G_JOIN GEMMs, each with b, bias, c and n of its own, lie side by side in one grid:
 * end[] says where each one's blocks end, and a block looks for itself there.
 * What makes A (a layer norm, rows gathered from a table, attention to few keys) may be done
 * again by each block for the rows that it multiplies (prologue fusion): more arithmetic, but no
 * launch and no trip to memory in between.
 * Limits: A, m, k, act and the forms of a and b are common; what may be joined is decided by
 * backends/gpu/group_gemm.c.
 */
#ifndef RLX_G_GEMM_HORIZONTAL_H
#define RLX_G_GEMM_HORIZONTAL_H

#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/move.h"
#include "kernels/norm.h"

enum { RLX_G_JOIN = 4 };

/* In what a GEMM of several differs from the others. */
struct rlx_g_member {
	const void	*b, *bias;
	void		*c;
	uint64_t	n, ldb, ldc;
};

/**
 * struct rlx_g_horizontal - up to that many GEMMs
 * @g: the first one, and what all have in common
 * @of: in what they differ
 * @end: the first block behind each
 * @norm: with PROLOGUE_NORM: a is its result, which the launch makes
 *	of its x and writes as well; a layer norm of m rows with f32 gamma, beta, and with
 *	PROLOGUE_ADD a residual of x's type
 * @pick: with PROLOGUE_GATHER: rows of a table that are the norm's x, which nobody
 *	else reads
 * @attention: with PROLOGUE_ATTENTION: a is its result, of which each block makes
 *	the rows that it multiplies, and nobody else reads it; q, k and v can be read by
 *	16 bytes
 */
struct rlx_g_horizontal {
	struct rlx_k_gemm	g;
	struct rlx_g_member	of[RLX_G_JOIN];
	uint32_t		end[RLX_G_JOIN];
	struct rlx_k_norm	norm;
	struct rlx_k_gather	pick;
	struct rlx_k_attention	attention;
};

/* Of a norm: the mean of each row, and the squares' distance from it, by warps. */
#define RLX_G_JOIN_STATS(threads) ((threads) / 32 * 16 * 2 * (uint32_t)sizeof(float))

/* Of attention: halves between rows of the result in shared memory, which lies behind all else. */
#define RLX_G_JOIN_LD(k)	((k) + 8)

/* Most members of gemm_wgmma_horizontal, each with a map beside A's. */
enum { RLX_G_JOIN_TILED = 3 };

/**
 * struct rlx_g_horizontal_tiled - GEMMs of one A by weights of equal sizes
 * @g: the first one, of as many batch indices as there are GEMMs, between which nothing lies
 * @of: b, bias and c of each
 */
struct rlx_g_horizontal_tiled {
	struct rlx_k_gemm	g;
	struct rlx_g_member	of[RLX_G_JOIN_TILED];
};

#ifdef RLX_G_DIALECT_H
/*
 * The product that this block has a part in; which part, by number. @norm: of what a norm makes;
 * @first: the first one.
 */
static DEV inline uint32_t horizontal_member(const struct rlx_g_horizontal &a, bool norm,
					     struct rlx_k_gemm *g, bool *first)
{
	uint32_t i = 0;

	while (blockIdx.x >= a.end[i])
		i++;
	*g = a.g;
	g->b = a.of[i].b;
	g->c = a.of[i].c;
	g->bias = a.of[i].bias;
	g->n = a.of[i].n;
	g->ldb = a.of[i].ldb;
	g->ldc = a.of[i].ldc;
	if (norm) {
		g->a = a.norm.x;
		g->lda = (size_t)a.norm.n;
	}
	*first = !i;
	return blockIdx.x - (i ? a.end[i - 1] : 0);
}
#endif

#endif
