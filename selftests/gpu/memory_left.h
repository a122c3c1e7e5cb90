/* SPDX-License-Identifier: MIT */
/* What the driver says of CUDA's device memory. */
#ifndef RLX_TEST_GPU_MEMORY_LEFT_H
#define RLX_TEST_GPU_MEMORY_LEFT_H

#include <dlfcn.h>

#include "backends/gpu/gpu.h"
#include "selftests/lib/rlx_test.h"

/* Of the context's device: bytes that nobody has, and (@whole) all. */
static inline size_t memory_told(bool whole)
{
	const struct gpu_driver *d = gpu_driver_get(&rlx_gpu_cuda, NULL);
	int (*info)(size_t *, size_t *) = (int (*)(size_t *, size_t *))dlsym(d->lib,
									    "cuMemGetInfo_v2");
	size_t left, all;

	CHECK(info && !info(&left, &all));
	return whole ? all : left;
}

static inline size_t memory_left(void)
{
	return memory_told(false);
}

static inline size_t memory_all(void)
{
	return memory_told(true);
}

/* Whether the device is the emulator, which gives memory by the byte and computes slowly. */
static inline bool memory_is_emulated(void)
{
	return dlsym(gpu_driver_get(&rlx_gpu_cuda, NULL)->lib, "emu_shared") != NULL;
}

#endif
