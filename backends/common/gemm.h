/* SPDX-License-Identifier: MIT */
/* What backends share of GEMM; struct rlx_k_gemm describes one from lowering to kernel. */
#ifndef RLX_BACKENDS_GEMM_H
#define RLX_BACKENDS_GEMM_H

#include "backends/common/lower.h"
#include "kernels/gemm.h"

/* The bias as input 2, if there is one, for each column, of @dtype. */
enum rlx_status rlx_gemm_bias(struct rlx_lower *lo, struct rlx_k_gemm *g, enum rlx_dtype dtype);

/* One matrix whose rows are those of input 0, all dimensions in front as one. */
static inline bool rlx_gemm_rows_lead(const struct rlx_k_gemm *g)
{
	return !g->trans_a && !g->batch[0] && !g->batch[1];
}

#endif
