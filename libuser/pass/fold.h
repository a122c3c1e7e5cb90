/* SPDX-License-Identifier: MIT */
/* Constant folding's rule, for passes that have to know what it will leave. */
#ifndef RLX_PASS_FOLD_H
#define RLX_PASS_FOLD_H

#include "ir/graph.h"

/*
 * Does folding compute @n of @g at compile, if all its inputs are constants? It may still
 * be left where its data are bad, which is the run's to report.
 */
bool rlx_foldable(const struct rlx_graph *g, const struct rlx_node *n);

#endif
