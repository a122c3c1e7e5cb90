/* SPDX-License-Identifier: MIT */
/* What backends share of GEMM; struct rlx_k_gemm describes one from lowering to kernel. */
#ifndef RLX_BACKENDS_GEMM_H
#define RLX_BACKENDS_GEMM_H

#include "backends/common/lower.h"
#include "kernels/gemm.h"

/* The bias as input 2, if there is one, for each column, of @dtype. */
enum rlx_status rlx_gemm_bias(struct rlx_lower *lo, struct rlx_k_gemm *g, enum rlx_dtype dtype);

/* Is the right-hand side one matrix, of a constant or, where each run has the same, of params? */
bool rlx_gemm_b_stays(const struct rlx_lower *lo, const struct rlx_k_gemm *g);
/* Does a CPU lay that out once? Not @few columns (rlx_k_gemm_few_columns()) that lie as such. */
static inline bool rlx_gemm_packs_once(const struct rlx_lower *lo, const struct rlx_k_gemm *g,
				       bool few)
{
	return rlx_gemm_b_stays(lo, g) && !(few && (g->b_form == RLX_B_COLS || g->n == 1));
}

/*
 * b_packs of it, if it is packed @once: what lies by columns on both sides and has few of them is
 * transposed if it has many rows, and summed in order then.
 */
static inline bool rlx_gemm_b_packs(const struct rlx_k_gemm *g, bool once, enum rlx_isa isa)
{
	return once || (g->trans_a && rlx_k_gemm_is_thin(g, isa));
}

/* One matrix whose rows are those of input 0, all dimensions in front as one. */
static inline bool rlx_gemm_rows_lead(const struct rlx_k_gemm *g)
{
	return !g->trans_a && !g->batch[0] && !g->batch[1];
}

#endif
