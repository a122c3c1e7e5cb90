// SPDX-License-Identifier: MIT
/* AMD: the names and numbers of HIP and of HIPRTC. */
#include <stdio.h>

#include "backends/gpu/gpu.h"

static const char *const driver[] = {
	"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", NULL,
};
/* Before 5.5 the compiler is part of the driver's library. */
static const char *const rtc[] = {
	"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so",
	"libamdhip64.so.5", NULL,
};

static const char *const driver_names[] = {
#define GPU_CALL(name, cuda, hip, ...) hip,
#include "backends/gpu/api.def"
};
static const char *const rtc_names[] = {
#define RTC_CALL(name, cuda, hip, ...) hip,
#include "backends/gpu/api.def"
};

static const char *describe(int rc, void *(*find)(void *, const char *), void *lib)
{
	const char *(*fn)(int) = (const char *(*)(int))find(lib, "hipGetErrorName");

	return fn ? fn(rc) : NULL;
}

/* The compiler builds for the current device if nobody says for which. */
static void arch(char *buf, size_t size, int major, int minor)
{
	snprintf(buf, size, "-DRLX_GFX=%d%d", major, minor);
}

static const struct gpu_chip chips[] = {
	{ "--gpu-architecture=gfx90a", 9, 0, 64, GPU_CHIP_ONLY },
	{ "--gpu-architecture=gfx942", 9, 4, 64, GPU_CHIP_ONLY },
	{ NULL },
};

const struct rlx_gpu_vendor rlx_gpu_rocm = {
	.name = "rocm", .title = "AMD", .option = "-O3", .quick = "-O1",
	.driver = driver, .driver_names = driver_names,
	.rtc = rtc, .rtc_names = rtc_names, .chips = chips,
	.attr = { [GPU_ATTR_MAJOR] = 23, [GPU_ATTR_MINOR] = 61, [GPU_ATTR_SM_COUNT] = 63,
		  [GPU_ATTR_WARP] = 87, [GPU_ATTR_SHARED] = 74, [GPU_ATTR_MAPPED] = 3,
		  [GPU_ATTR_SHARED_SM] = 74,	/* a block may have all of it */
		  [GPU_ATTR_THREADS_SM] = 57, [GPU_ATTR_L2] = 19, [GPU_ATTR_CLOCK] = 5,
		  [GPU_ATTR_MEMORY_CLOCK] = 60, [GPU_ATTR_MEMORY_BITS] = 59 },
	.function_shared = -1,	/* blocks get all of it unasked */
	.compiles_here = true,
	.describe = describe, .arch = arch,
};

GPU_BACKEND(rocm, false);
