/* SPDX-License-Identifier: MIT */
/* What emulated kernels call, and what answers for a whole warp. */
#ifndef RLX_EMU_DEVICE_H
#define RLX_EMU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gpu/emu_calls.h"

/* warp.c: false if a lane asks for what is not there. */
bool emu_warp_do(struct emu_warp_op **op, int n);

#endif
