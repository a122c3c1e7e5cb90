// SPDX-License-Identifier: MIT
/*
 * The backend for AMD's GPUs against HIP's own headers and library, without a GPU;
 * selftests/gpu/hip_build.sh compiles it where both are there.
 *
 *	rocm                      every number and name of backends/rocm/rocm.c
 *	rocm CHIP WARP FILE KERNEL [PARAMETER=VALUE ...]
 *	                          a kernel, compiled as the backend would by HIPRTC
 */
#define __HIP_PLATFORM_AMD__	1
#include <hip/hip_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>

#include "backends/rocm/rocm.c"

static int n, wrong;

static void same(const char *what, long ours, long theirs)
{
	n++;
	if (ours != theirs) {
		printf("# %s is %ld, not %ld\n", what, theirs, ours);
		wrong++;
	}
}

/* Every name is in @file; NULL stands for a call that HIP has not. */
static void names(const char *const *name, size_t count, const char *file)
{
	void *lib = dlopen(file, RTLD_NOW);
	size_t i;

	for (i = 0; i < count; i++, n++)
		if (!lib || (name[i] && !dlsym(lib, name[i]))) {
			printf("# %s: no %s\n", file, name[i] ? name[i] : "such file");
			wrong++;
		}
}

static int compare(void)
{
#define SAME(ours, theirs)	same(#theirs, ours, theirs)
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_MAJOR], hipDeviceAttributeComputeCapabilityMajor);
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_MINOR], hipDeviceAttributeComputeCapabilityMinor);
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_SM_COUNT], hipDeviceAttributeMultiprocessorCount);
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_WARP], hipDeviceAttributeWarpSize);
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_SHARED], hipDeviceAttributeMaxSharedMemoryPerBlock);
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_MAPPED], hipDeviceAttributeCanMapHostMemory);
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_SHARED_SM], hipDeviceAttributeMaxSharedMemoryPerBlock);
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_THREADS_SM],
	     hipDeviceAttributeMaxThreadsPerMultiProcessor);
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_L2], hipDeviceAttributeL2CacheSize);
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_CLOCK], hipDeviceAttributeClockRate);
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_MEMORY_CLOCK], hipDeviceAttributeMemoryClockRate);
	SAME(rlx_gpu_rocm.attr[GPU_ATTR_MEMORY_BITS], hipDeviceAttributeMemoryBusWidth);
	/* backends/gpu says these by their number */
	SAME(1, hipStreamNonBlocking);
	SAME(2, hipEventDisableTiming);
	SAME(1, hipHostRegisterPortable);
	SAME(2, hipHostRegisterMapped);
	SAME(1, hipStreamCaptureModeThreadLocal);
	SAME(0, hipSuccess);
	SAME(2, hipErrorOutOfMemory);
	SAME(4, hipErrorDeinitialized);
	SAME(201, hipErrorInvalidContext);
	SAME(214, hipErrorECCNotCorrectable);
	SAME(700, hipErrorIllegalAddress);
	SAME(702, hipErrorLaunchTimeOut);
	SAME(709, hipErrorContextIsDestroyed);
	SAME(710, hipErrorAssert);
	SAME(719, hipErrorLaunchFailure);
	SAME(999, hipErrorUnknown);
	names(driver_names, sizeof(struct rlx_gpu_api) / sizeof(void *),
	      "libamdhip64.so.5");
	names(rtc_names, sizeof(struct rlx_gpu_rtc) / sizeof(void *),
	      "libamdhip64.so.5");
	printf("# %d compared\n", n);
	return wrong || n < 40;
}

enum { MOST = 24 };

static int compile(char **arg, int n_arg)
{
	static const char *const form[] = { "--gpu-architecture=%s", "-DRLX_WARP=%s", NULL,
		"-DRLX_KERNEL_%s" };
	const char *opt[2 + MOST] = { rlx_gpu_rocm.option, "-std=c++17" }, *why;
	const char *const *names, *const *texts;
	int headers = (int)gpu_headers(&names, &texts), k = 2, rc;
	const struct rlx_gpu_rtc *rtc = gpu_rtc_get(&rlx_gpu_rocm, &why);
	char text[MOST][64], log[1 << 16] = "";
	size_t bytes = 0;
	int i;
	void *prog;

	if (!rtc) {
		printf("no HIPRTC: %s\n", why);
		return 1;
	}
	for (i = 0; i < n_arg && i < MOST; i++)
		if (i != 2) {
			snprintf(text[i], sizeof(text[i]), i < 4 ? form[i] : "-D%s", arg[i]);
			opt[k++] = text[i];
		}
	rc = rtc->new(&prog, gpu_source(arg[2]), arg[2], headers, texts, names);
	if (!rc)
		rc = rtc->compile(prog, k, opt);
	if (rc && !rtc->log_size(prog, &bytes) && bytes <= sizeof(log))
		rtc->log(prog, log);
	if (!rc)
		rc = rtc->code_size(prog, &bytes);
	printf("%d, %zu bytes\n%s", rc, bytes, log);
	return rc || !bytes;
}

int main(int argc, char **argv)
{
	return argc > 4 ? compile(argv + 1, argc - 1) : compare();
}
