// SPDX-License-Identifier: MIT
/*
 * CUDA's driver and NVRTC for dry runs: every call of backends/gpu/api.def succeeds and
 * does nothing, so that compiling a program only tells which kernels it asks for: what a kernel
 * is compiled to is its source.
 * RLX_DRY_CHIP is the chip's number (90), RLX_DRY_NAME its name.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API(name, params)						\
	__attribute__((visibility("default"))) int name params;	\
	int name params

#define NOTHING(name)	API(name, (void)) { return 0; }
NOTHING(cuInit) NOTHING(cuDevicePrimaryCtxRelease_v2) NOTHING(cuCtxSetCurrent)
NOTHING(cuStreamDestroy_v2) NOTHING(cuStreamSynchronize) NOTHING(cuStreamQuery)
NOTHING(cuEventDestroy_v2) NOTHING(cuStreamWaitEvent)
NOTHING(cuEventRecord) NOTHING(cuEventElapsedTime) NOTHING(cuMemFree_v2)
NOTHING(cuMemHostRegister_v2) NOTHING(cuMemHostUnregister) NOTHING(cuMemcpyHtoDAsync_v2)
NOTHING(cuMemcpyDtoHAsync_v2) NOTHING(cuMemcpyDtoDAsync_v2) NOTHING(cuMemsetD8Async)
NOTHING(cuModuleUnload) NOTHING(cuFuncSetAttribute) NOTHING(cuLaunchKernel)
NOTHING(cuLaunchKernelEx) NOTHING(cuStreamBeginCapture_v2) NOTHING(cuGraphLaunch)
NOTHING(cuGraphExecDestroy) NOTHING(cuGraphDestroy) NOTHING(cuTensorMapEncodeTiled)
NOTHING(cuTensorMapEncodeIm2col)
NOTHING(cuMemGetAllocationGranularity) NOTHING(cuMemCreate) NOTHING(cuMemRelease)
NOTHING(cuMemExportToShareableHandle) NOTHING(cuMemImportFromShareableHandle)
NOTHING(cuMemAddressReserve) NOTHING(cuMemMap) NOTHING(cuMemSetAccess)
NOTHING(cuMemUnmap) NOTHING(cuMemAddressFree)
NOTHING(nvrtcCompileProgram) NOTHING(nvrtcGetProgramLog)

#define HANDLE(name)	API(name, (void **out)) { *out = (void *)1; return 0; }
HANDLE(cuStreamCreate) HANDLE(cuEventCreate) HANDLE(cuModuleLoadData)
HANDLE(cuModuleGetFunction) HANDLE(cuGraphInstantiateWithFlags)
HANDLE(cuDevicePrimaryCtxRetain)

API(cuStreamEndCapture, (void *stream, void **out))
{
	*out = (void *)1;
	return 0;
}

#define NUMBER(name, value)	API(name, (int *out)) { *out = value; return 0; }
NUMBER(cuDriverGetVersion, 13000) NUMBER(cuDeviceGetCount, 1) NUMBER(cuDeviceGet, 0)

static int chip(void)
{
	const char *s = getenv("RLX_DRY_CHIP");

	return s ? atoi(s) : 90;
}

API(cuDeviceGetAttribute, (int *out, int what, int dev))
{
	switch (what) {
	case 38: *out = 50 << 20; break;
	case 39: *out = 2048; break;
	case 81: *out = (chip() == 80 ? 164 : 228) << 10; break;
	case 75: *out = chip() / 10; break;
	case 76: *out = chip() % 10; break;
	case 10: *out = 32; break;
	case 16: *out = chip() == 80 ? 108 : 132; break;
	case 97: *out = (chip() == 80 ? 163 : 227) << 10; break;
	default: *out = 1;
	}
	return 0;
}

API(cuDeviceGetName, (char *out, int n, int dev))
{
	const char *s = getenv("RLX_DRY_NAME");

	snprintf(out, (size_t)n, "%s", s ? s : "NVIDIA H200");
	return 0;
}

API(cuDeviceGetPCIBusId, (char *out, int n, int dev))
{
	snprintf(out, (size_t)n, "dry");
	return 0;
}

API(cuDeviceTotalMem_v2, (size_t *out, int dev))
{
	*out = (size_t)100 << 30;
	return 0;
}

API(cuMemAlloc_v2, (uint64_t *out, size_t n))
{
	static uint64_t at = (uint64_t)1 << 40;

	*out = __atomic_fetch_add(&at, (n + 4095) & ~(size_t)4095, __ATOMIC_RELAXED);
	return 0;
}

API(cuMemHostGetDevicePointer_v2, (uint64_t *out, void *p))
{
	*out = (uint64_t)(uintptr_t)p;
	return 0;
}

API(nvrtcVersion, (int *major, int *minor))
{
	*major = 13;
	*minor = 0;
	return 0;
}

API(nvrtcCreateProgram, (void **out, const char *source))
{
	*out = strdup(source);
	return !*out;
}

API(nvrtcDestroyProgram, (void **prog))
{
	free(*prog);
	return 0;
}

API(nvrtcGetProgramLogSize, (void *prog, size_t *out))
{
	*out = 1;
	return 0;
}

#define SIZE(name)	API(name, (void *prog, size_t *out)) { *out = strlen(prog) + 1; return 0; }
SIZE(nvrtcGetCUBINSize) SIZE(nvrtcGetPTXSize)
#define CODE(name)	API(name, (void *prog, char *out)) { strcpy(out, prog); return 0; }
CODE(nvrtcGetCUBIN) CODE(nvrtcGetPTX)
