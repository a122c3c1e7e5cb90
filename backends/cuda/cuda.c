// SPDX-License-Identifier: MIT
/* NVIDIA: the names and numbers of the CUDA driver API and of NVRTC. */
#include <stdio.h>

#include "backends/gpu/gpu.h"

static const char *const driver[] = { "libcuda.so.1", NULL };
static const char *const rtc[] = {
	"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL,
};

static const char *const driver_names[] = {
#define GPU_CALL(name, cuda, hip, ...) cuda,
#include "backends/gpu/api.def"
};
static const char *const rtc_names[] = {
#define RTC_CALL(name, cuda, hip, ...) cuda,
#include "backends/gpu/api.def"
};

static const char *describe(int rc, void *(*find)(void *, const char *), void *lib)
{
	int (*fn)(int, const char **) =
		(int (*)(int, const char **))find(lib, "cuGetErrorName");
	const char *s = NULL;

	return fn && !fn(rc, &s) ? s : NULL;
}

static void arch(char *buf, size_t size, int major, int minor)
{
	snprintf(buf, size, "--gpu-architecture=sm_%d%d%s", major, minor,
		 major >= 9 ? "a" : "");
}

static const struct gpu_chip chips[] = {
	{ "--gpu-architecture=sm_90a", 9, 0, 32, GPU_CHIP_ONLY },
	{ "--gpu-architecture=sm_80", 8, 0, 32, GPU_CHIP_MINORS },
	{ "--gpu-architecture=compute_80", 8, 0, 32, GPU_CHIP_TEXT },
	{ NULL },
};

const struct rlx_gpu_vendor rlx_gpu_cuda = {
	.name = "cuda", .title = "NVIDIA", .option = "-default-device",
	.quick = "--Ofast-compile=mid", .ordered = "-fmad=false",
	.driver = driver, .driver_names = driver_names,
	.rtc = rtc, .rtc_names = rtc_names, .chips = chips,
	.attr = { [GPU_ATTR_MAJOR] = 75, [GPU_ATTR_MINOR] = 76, [GPU_ATTR_SM_COUNT] = 16,
		  [GPU_ATTR_WARP] = 10, [GPU_ATTR_SHARED] = 97, [GPU_ATTR_MAPPED] = 19,
		  [GPU_ATTR_SHARED_SM] = 81, [GPU_ATTR_THREADS_SM] = 39, [GPU_ATTR_L2] = 38,
		  [GPU_ATTR_CLOCK] = 13, [GPU_ATTR_MEMORY_CLOCK] = 36,
		  [GPU_ATTR_MEMORY_BITS] = 37 },
	.function_shared = 8, .launch_pdl = 6,
	.describe = describe, .arch = arch,
};

GPU_BACKEND(cuda, true);
