/* SPDX-License-Identifier: MIT */
/* Which devices there are. */
#ifndef RLX_DEVICE_H
#define RLX_DEVICE_H

#include <stdint.h>

#include "rlx/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct rlx_dev_info - one device.
 * @backend: its backend's name, which is also what to compile for ("cpu")
 * @name:    of the hardware
 * @isa:     instruction set level in use, "" if it has none
 * @threads: that it can run at once
 * @memory:  bytes, 0 if it has none of its own
 */
struct rlx_dev_info {
	char		backend[16], name[64], isa[16];
	unsigned int	threads;
	uint64_t	memory;
};

/**
 * rlx_device_list - fill @info with up to @max devices, in order of preference.
 * Return: how many there are. Context: any thread; no side effects.
 */
RLX_EXPORT unsigned int rlx_device_list(struct rlx_dev_info *info, unsigned int max);

#ifdef __cplusplus
}
#endif
#endif
