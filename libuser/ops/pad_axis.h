/* SPDX-License-Identifier: MIT */
/*
 * What stands at a padded position of an axis: for the evaluation of pad, its gradient
 * and the tables of backends, which must all repeat the same elements.
 */
#ifndef RLX_OPS_PAD_AXIS_H
#define RLX_OPS_PAD_AXIS_H

#include "ir/opdef.h"

/*
 * The element of an axis of @d that position @p, counted from the first one, shows in
 * @mode (enum rlx_pad_mode); -1: none, the pad value stands there. With modes that repeat
 * @d is not 0.
 */
int64_t op_pad_from(int32_t mode, int64_t p, int64_t d);

#endif
