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
/* Does a CPU at level @isa lay that out anew once? But for a few columns that lie as such. */
bool rlx_gemm_packs_once(const struct rlx_lower *lo, const struct rlx_k_gemm *g, enum rlx_isa isa);

/* One matrix whose rows are those of input 0, all dimensions in front as one. */
static inline bool rlx_gemm_rows_lead(const struct rlx_k_gemm *g)
{
	return !g->trans_a && !g->batch[0] && !g->batch[1];
}

#endif
