// SPDX-License-Identifier: MIT
/*
 * libamdhip64.so.7 for tests: the calls of HIP that the backend makes, by CUDA's
 * driver, or by the emulated one. Handles and most numbers are the same on both
 * sides; what differs (attributes, the names of errors, how a block gets more than
 * 48 KiB of shared memory) is translated here.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "selftests/gpu/hip/cuda.h"

enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3 };

/* HIP's call @hip is CUDA's call @cu, argument by argument. */
#define SAME(hip, cu, params, args)					\
	HIP_API int hip params;						\
	HIP_API int hip params						\
	{								\
		int (*fn) params = (int (*) params)hip_on_cuda("libcuda.so.1", cu); \
									\
		return fn ? fn args : NOT_INITIALIZED;			\
	}

SAME(hipInit, "cuInit", (unsigned int flags), (flags))
SAME(hipDriverGetVersion, "cuDriverGetVersion", (int *out), (out))
SAME(hipGetDeviceCount, "cuDeviceGetCount", (int *out), (out))
SAME(hipDeviceGet, "cuDeviceGet", (int *dev, int i), (dev, i))
SAME(hipDeviceGetName, "cuDeviceGetName", (char *name, int n, int dev), (name, n, dev))
SAME(hipDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *out, int dev), (out, dev))
SAME(hipDeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char *id, int n, int dev), (id, n, dev))
SAME(hipDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **ctx, int dev), (ctx, dev))
SAME(hipDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int dev), (dev))
SAME(hipCtxSetCurrent, "cuCtxSetCurrent", (void *ctx), (ctx))
SAME(hipStreamCreateWithFlags, "cuStreamCreate", (void **s, unsigned int flags), (s, flags))
SAME(hipStreamDestroy, "cuStreamDestroy_v2", (void *s), (s))
SAME(hipStreamSynchronize, "cuStreamSynchronize", (void *s), (s))
SAME(hipStreamQuery, "cuStreamQuery", (void *s), (s))
SAME(hipStreamWaitEvent, "cuStreamWaitEvent", (void *s, void *e, unsigned int flags), (s, e, flags))
SAME(hipEventCreateWithFlags, "cuEventCreate", (void **e, unsigned int flags), (e, flags))
SAME(hipEventDestroy, "cuEventDestroy_v2", (void *e), (e))
SAME(hipEventRecord, "cuEventRecord", (void *e, void *s), (e, s))
SAME(hipEventElapsedTime, "cuEventElapsedTime", (float *ms, void *a, void *b), (ms, a, b))
SAME(hipMalloc, "cuMemAlloc_v2", (void **p, size_t n), (p, n))
SAME(hipFree, "cuMemFree_v2", (void *p), (p))
SAME(hipHostRegister, "cuMemHostRegister_v2", (void *p, size_t n, unsigned int flags),
     (p, n, flags))
SAME(hipHostUnregister, "cuMemHostUnregister", (void *p), (p))
SAME(hipHostGetDevicePointer, "cuMemHostGetDevicePointer_v2",
     (void **at, void *p, unsigned int flags), (at, p, flags))
SAME(hipMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",
     (void *to, void *from, size_t n, void *s), (to, from, n, s))
SAME(hipMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",
     (void *to, void *from, size_t n, void *s), (to, from, n, s))
SAME(hipMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",
     (void *to, void *from, size_t n, void *s), (to, from, n, s))
SAME(hipMemsetD8Async, "cuMemsetD8Async",
     (void *at, unsigned char v, size_t n, void *s), (at, v, n, s))
SAME(hipModuleLoadData, "cuModuleLoadData", (void **m, const void *image), (m, image))
SAME(hipModuleUnload, "cuModuleUnload", (void *m), (m))
SAME(hipModuleGetFunction, "cuModuleGetFunction", (void **out, void *m, const char *name),
     (out, m, name))
SAME(hipStreamBeginCapture, "cuStreamBeginCapture_v2", (void *s, int mode), (s, mode))
SAME(hipStreamEndCapture, "cuStreamEndCapture", (void *s, void **graph), (s, graph))
SAME(hipGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags",
     (void **exec, void *graph, unsigned long long flags), (exec, graph, flags))
SAME(hipGraphLaunch, "cuGraphLaunch", (void *exec, void *s), (exec, s))
SAME(hipGraphExecDestroy, "cuGraphExecDestroy", (void *exec), (exec))
SAME(hipGraphDestroy, "cuGraphDestroy", (void *graph), (graph))


/* What a block of AMD's chips has of shared memory, however much CUDA's has. */
enum { MOST_SHARED = 64 << 10 };

/* CUDA's number of an attribute that HIP numbers otherwise; -1: not known here. */
static int cuda_attribute(int what)
{
	switch (what) {
	case 3: return 19;	/* CanMapHostMemory */
	case 5: return 13;	/* ClockRate */
	case 19: return 38;	/* L2CacheSize */
	case 23: return 75;	/* ComputeCapabilityMajor */
	case 57: return 39;	/* MaxThreadsPerMultiProcessor */
	case 59: return 37;	/* MemoryBusWidth */
	case 60: return 36;	/* MemoryClockRate */
	case 61: return 76;	/* ComputeCapabilityMinor */
	case 63: return 16;	/* MultiprocessorCount */
	case 74: return 97;	/* MaxSharedMemoryPerBlock: on AMD's chips all there is */
	case 87: return 10;	/* WarpSize */
	}
	return -1;
}

HIP_API int hipDeviceGetAttribute(int *out, int what, int dev);
HIP_API int hipDeviceGetAttribute(int *out, int what, int dev)
{
	int (*fn)(int *, int, int) = (int (*)(int *, int, int))
		hip_on_cuda("libcuda.so.1", "cuDeviceGetAttribute");
	int number = cuda_attribute(what), rc;

	if (!fn)
		return NOT_INITIALIZED;
	rc = number < 0 ? INVALID_VALUE : fn(out, number, dev);
	if (!rc && number == 97 && *out > MOST_SHARED)
		*out = MOST_SHARED;
	return rc;
}

/* Of a function by its address on the host; the backend never has one. */
HIP_API int hipFuncSetAttribute(const void *fn, int what, int value);
HIP_API int hipFuncSetAttribute(const void *fn, int what, int value)
{
	return INVALID_VALUE;
}

#define LAUNCH_PARAMS							\
	void *fn, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, \
	unsigned int by, unsigned int bz, unsigned int shared, void *stream, \
	void **args, void **extra

/* A block gets what shared memory it asks for, of which CUDA wants to be told. */
HIP_API int hipModuleLaunchKernel(LAUNCH_PARAMS);
HIP_API int hipModuleLaunchKernel(LAUNCH_PARAMS)
{
	enum { MOST_DYNAMIC = 8, UNASKED = 48 << 10 };
	int (*allow)(void *, int, int) = (int (*)(void *, int, int))
		hip_on_cuda("libcuda.so.1", "cuFuncSetAttribute");
	int (*launch)(LAUNCH_PARAMS) = (int (*)(LAUNCH_PARAMS))
		hip_on_cuda("libcuda.so.1", "cuLaunchKernel");
	int rc = allow && launch ? 0 : NOT_INITIALIZED;

	if (!rc && shared > MOST_SHARED)
		rc = INVALID_VALUE;
	if (!rc && shared > UNASKED)
		rc = allow(fn, MOST_DYNAMIC, (int)shared);
	return rc ? rc : launch(fn, gx, gy, gz, bx, by, bz, shared, stream, args, extra);
}

/* CUDA_ERROR_OUT_OF_MEMORY is hipErrorOutOfMemory, and so are the others. */
HIP_API const char *hipGetErrorName(int rc);
HIP_API const char *hipGetErrorName(int rc)
{
	static _Thread_local char text[80];
	int (*name)(int, const char **) = (int (*)(int, const char **))
		hip_on_cuda("libcuda.so.1", "cuGetErrorName");
	size_t n = strlen("hipError");
	const char *s = NULL;
	bool first = true;

	if (!rc)
		return "hipSuccess";
	if (!name || name(rc, &s) || !s || strncmp(s, "CUDA_ERROR_", 11))
		return "hipErrorUnknown";
	strcpy(text, "hipError");
	for (s += 11; *s && n < sizeof(text) - 1; s++) {
		if (*s != '_')
			text[n++] = (char)(first ? *s : tolower(*s));
		first = *s == '_';
	}
	text[n] = 0;
	return text;
}
