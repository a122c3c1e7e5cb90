/* SPDX-License-Identifier: MIT */
/* What a backward pass keeps of the forward one, and what it computes once more. */
#ifndef RLX_AD_REMAT_H
#define RLX_AD_REMAT_H

#include "ir/graph.h"

/*
 * Nodes from @first, values from @first_val on are a backward pass that was just emitted. Those of
 * what it reads that are inside a RLX_SCOPE_REMAT are computed once more by it, and with @budget,
 * in bytes, as many others that it has no more of them at a time. @d: @n values, numbered anew.
 * A sticky error: RLX_ERANGE (so little cannot be had), RLX_ENOMEM.
 */
void rlx_ad_remat(struct rlx_graph *g, uint32_t first, uint32_t first_val, uint64_t budget,
		  rlx_value *d, uint32_t n);

/* Per node: results @d, or outputs that there are by now, need it. NULL: out of memory. */
bool *rlx_ad_live(const struct rlx_graph *g, const rlx_value *d, uint32_t n_d);
/* Whoever reads one of several equal values reads the first. False: out of memory. */
bool rlx_ad_merge_equal(struct rlx_graph *g, rlx_value *d, uint32_t n_d);

#endif
