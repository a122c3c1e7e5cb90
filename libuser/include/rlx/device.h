/* SPDX-License-Identifier: MIT */
/* Which devices there are. */
#ifndef RLX_DEVICE_H
#define RLX_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "rlx/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct rlx_dev_info - one device.
 * @backend: what to compile for: its backend's name ("cpu"), and of several devices
 *           the number behind the first ("cuda", "cuda:1")
 * @name:    of the hardware
 * @isa:     instruction set level in use, "" if it has none
 * @threads: that it can run at once; of a GPU its units, 0 where its driver tells of none
 * @memory:  bytes, 0 if it has none of its own
 * @pci:     its address on the bus ("0000:3b:00.0"), "" if it has none
 * @driver:  version of its driver, as that counts; of "vulkan" 580159004 is 580.159.4;
 *           0 if it has none
 * @by_name: for tests and comparisons (the reference, a driver that computes on the CPU):
 *           used where it is named, and never chosen otherwise
 */
struct rlx_dev_info {
	char		backend[16], name[64], isa[16];
	unsigned int	threads;
	uint64_t	memory;
	char		pci[32];
	int		driver;
	bool		by_name;
};

/**
 * rlx_device_why - why a backend has no device: "no libcuda.so.1".
 * @backend: its name
 * Return: static text, "" if it has one; NULL: there is no such backend.
 * Context: any thread; may open the backend's driver.
 */
RLX_EXPORT const char *rlx_device_why(const char *backend);

/**
 * rlx_device_list - fill @info with up to @max devices, in order of preference.
 * Return: how many there are. Context: any thread; no side effects, but that the
 * kernel is asked for AMX tiles where the processor has them and RLX_ISA wants no less.
 */
RLX_EXPORT unsigned int rlx_device_list(struct rlx_dev_info *info, unsigned int max);

#ifdef __cplusplus
}
#endif
#endif
