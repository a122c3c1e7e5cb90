/* SPDX-License-Identifier: MIT */
/* Reverse mode through ops that call graphs. */
#ifndef RLX_AD_CONTROL_H
#define RLX_AD_CONTROL_H

#include "ir/graph.h"

/* Is @def one of them? */
bool rlx_ad_is_control(const struct rlx_op_def *def);
/*
 * Emit the backward pass of @n: @d_out by its outputs, none: zero; @d_in[k] for the inputs of
 * which @need[k] is set. Failures stick to @g.
 */
void rlx_ad_control(struct rlx_graph *g, const struct rlx_node *n, const rlx_value *d_out,
		    const bool *need, rlx_value *d_in);

#endif
