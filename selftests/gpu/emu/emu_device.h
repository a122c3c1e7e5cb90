/* SPDX-License-Identifier: MIT */
/* What emulated kernels call, and what answers for a whole wave. */
#ifndef RLX_EMU_DEVICE_H
#define RLX_EMU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gpu/emu_calls.h"

/* wave.c: false if a lane asks for what is not there. */
bool emu_wave_do(struct emu_wave_op **op, int n);

#endif
