// SPDX-License-Identifier: MIT
/*
 * libhiprtc.so.7 for tests: HIPRTC's calls by NVRTC, which compiles the kernels as
 * HIP's dialect has them, with device.h for the builtins of AMD's compiler; or by the
 * emulator's compiler, which has a dialect of its own and gets what CUDA's would.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selftests/gpu/hip/cuda.h"

#define HEADER(name, ...)	static const char device_text[] = __VA_ARGS__;
#include "gpu/hip_device.h"

enum { OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INTERNAL = 11, MOST_HEADERS = 128, MOST_OPTIONS = 32 };

static void *nvrtc(const char *name)
{
	void *p = hip_on_cuda("libnvrtc.so.13", name);

	return p ? p : hip_on_cuda("libnvrtc.so.12", name);
}

#define SAME(hip, cu, params, args)					\
	HIP_API int hip params;						\
	HIP_API int hip params						\
	{								\
		int (*fn) params = (int (*) params)nvrtc(cu);		\
									\
		return fn ? fn args : INTERNAL;				\
	}

SAME(hiprtcVersion, "nvrtcVersion", (int *major, int *minor), (major, minor))
SAME(hiprtcGetProgramLogSize, "nvrtcGetProgramLogSize", (void *p, size_t *n), (p, n))
SAME(hiprtcGetProgramLog, "nvrtcGetProgramLog", (void *p, char *text), (p, text))
SAME(hiprtcGetCodeSize, "nvrtcGetCUBINSize", (void *p, size_t *n), (p, n))
SAME(hiprtcGetCode, "nvrtcGetCUBIN", (void *p, char *code), (p, code))
SAME(hiprtcDestroyProgram, "nvrtcDestroyProgram", (void **p), (p))

HIP_API int hiprtcCreateProgram(void **out, const char *source, const char *name, int n,
				const char *const *texts, const char *const *names);
HIP_API int hiprtcCreateProgram(void **out, const char *source, const char *name, int n,
				const char *const *texts, const char *const *names)
{
	int (*fn)(void **, const char *, const char *, int, const char *const *,
		  const char *const *) = (int (*)(void **, const char *, const char *, int,
		  const char *const *, const char *const *))nvrtc("nvrtcCreateProgram");
	size_t head = strlen(device_text), bytes = head + strlen(source) + 1;
	char *all;
	int rc;

	if (!fn)
		return INTERNAL;
	if (nvrtc("rlx_emulated"))
		return fn(out, source, name, n, texts, names);
	all = malloc(bytes);
	if (!all)
		return OUT_OF_MEMORY;
	memcpy(all, device_text, head);
	memcpy(all + head, source, bytes - head);
	rc = fn(out, all, name, n, texts, names);
	free(all);
	return rc;
}

/* As a number; of the thread's device, the first one if it has not said which. */
static int current_arch(void)
{
	int (*device)(int *) = (int (*)(int *))hip_on_cuda("libcuda.so.1", "cuCtxGetDevice");
	int (*attr)(int *, int, int) = (int (*)(int *, int, int))
				       hip_on_cuda("libcuda.so.1", "cuDeviceGetAttribute");
	int dev = 0, major = 0, minor = 0;

	if (!device || !attr)
		return 0;
	if (device(&dev))
		dev = 0;
	return attr(&major, 75, dev) || attr(&minor, 76, dev) ? 0 : major * 10 + minor;
}

/* HIPRTC builds for the current device: RLX_ARCH is to tell of the same. */
HIP_API int hiprtcCompileProgram(void *prog, int n, const char *const *options);
HIP_API int hiprtcCompileProgram(void *prog, int n, const char *const *options)
{
	int (*fn)(void *, int, const char *const *) =
		(int (*)(void *, int, const char *const *))nvrtc("nvrtcCompileProgram");
	const char *opt[MOST_OPTIONS] = { NULL, "-default-device" };
	char arch[48] = "";
	int i, k = 2, sm = 0, is;

	if (!fn)
		return INTERNAL;
	for (i = 0; i < n && k < MOST_OPTIONS; i++) {
		if (sscanf(options[i], "-DRLX_ARCH=%d", &is) == 1) {
			sm = is;
			snprintf(arch, sizeof(arch), "--gpu-architecture=sm_%d%s", sm,
				 sm >= 90 ? "a" : "");
		}
		/* CUDA's compiler optimises unasked, and knows no AMD chips */
		if (strcmp(options[i], "-O3") && strncmp(options[i], "-DRLX_GFX=", 10))
			opt[k++] = options[i];
	}
	if (i < n || !*arch || (current_arch() && sm != current_arch()))
		return INVALID_INPUT;
	opt[0] = arch;
	return fn(prog, k, opt);
}
