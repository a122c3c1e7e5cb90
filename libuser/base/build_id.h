/* SPDX-License-Identifier: MIT */
/* Which build of the library this is. */
#ifndef RLX_BASE_BUILD_ID_H
#define RLX_BASE_BUILD_ID_H

#include <stdbool.h>
#include <stdint.h>

enum { RLX_BUILD_ID_BYTES = 32 };

/*
 * The linker's build id of the file this code was loaded from, librlx.so or the
 * program it is linked into; zeros behind. False: it has none.
 */
bool rlx_build_id(uint8_t out[RLX_BUILD_ID_BYTES]);

#endif
