/* SPDX-License-Identifier: MIT */
/* What the ops have in common that processes run together: rlx/collective.h. */
#ifndef RLX_OPS_COLLECTIVE_H
#define RLX_OPS_COLLECTIVE_H

#include "ir/eval.h"
#include "ops/op.h"

/*
 * The type rules, by q->def. Arguments of all these ops are laid out alike: x, then ranks, as
 * struct rlx_op_all_reduce has them.
 */
enum rlx_status op_collective_infer(struct rlx_infer *q);
enum rlx_status op_collective_eval(struct rlx_eval *q);
/* Axis 0 is what ranks share: the batch axis goes behind it, and then back. */
enum rlx_status op_collective_batch(struct rlx_batching *q);
/* One rank alone: what comes in goes out. */
bool op_collective_sample(unsigned int i, struct rlx_sample *s);

#endif
