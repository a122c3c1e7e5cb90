/* SPDX-License-Identifier: MIT */
/* Which file a new one, written beside it, takes the place of. */
#ifndef RLX_BASE_REPLACE_H
#define RLX_BASE_REPLACE_H

#include "rlx/status.h"

/*
 * The name to rename to for @path, which the caller frees: where its links lead, else itself.
 * RLX_EBADFD if a device, FIFO, socket or folder is there; RLX_ENOENT if
 * @path is empty; RLX_ENOMEM.
 */
enum rlx_status __rlx_must_check
rlx_replace_target(const char *path, char **out, struct rlx_error *err);

#endif
