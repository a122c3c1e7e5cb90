/* SPDX-License-Identifier: MIT */
/* What functions that tell an object's error tell of NULL. */
#ifndef RLX_BASE_STATUS_H
#define RLX_BASE_STATUS_H

#include "rlx/status.h"

extern const struct rlx_error rlx_error_null;

#endif
