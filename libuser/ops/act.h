/* SPDX-License-Identifier: MIT */
/* The activation that a fused op may end with (enum rlx_act). */
#ifndef RLX_OPS_ACT_H
#define RLX_OPS_ACT_H

#include "ops/emit.h"

/* RLX_EINVAL unless the activation and its bounds make sense. */
enum rlx_status op_act_infer(struct rlx_infer *q, int act, float lo, float hi);
/* The activation that the pointwise op @index is; RLX_ACT_NONE for others. */
int op_act_of(unsigned int index);
rlx_value op_act_emit(struct rlx_graph *g, rlx_value x, int act, float lo, float hi);

#endif
