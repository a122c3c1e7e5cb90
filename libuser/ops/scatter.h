/* SPDX-License-Identifier: MIT */
/* What the two scatter ops share: combining one update, exactly. */
#ifndef RLX_OPS_SCATTER_H
#define RLX_OPS_SCATTER_H

#include "ops/emit.h"

/* Kinds that need an accumulator wider than the dtype keep doubles in scratch. */
size_t op_scatter_scratch(const struct rlx_infer *q, int reduction);
/* Output := input 0, and its doubles into scratch if there are any. */
void op_scatter_begin(struct rlx_eval *q, int reduction);
void op_scatter_one(struct rlx_eval *q, int reduction, int64_t at, int64_t from);
/* Write the doubles out. */
void op_scatter_end(struct rlx_eval *q, int reduction);
/* RLX_ETYPE unless input 2 has input 0's dtype and the reduction is known. */
enum rlx_status op_scatter_infer(struct rlx_infer *q, int reduction);

/* Elements of @v where the op's indices point. */
typedef rlx_value op_scatter_pick(struct rlx_grad *q, rlx_value v);
/* Gradients where updates are combined: any reduction but RLX_SCATTER_NONE. */
void op_scatter_vjp(struct rlx_grad *q, int reduction, op_scatter_pick *pick);

#endif
