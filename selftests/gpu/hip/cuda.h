/* SPDX-License-Identifier: MIT */
/* HIP for tests on CUDA's libraries: how both of its own find what they stand on. */
#ifndef RLX_HIP_CUDA_H
#define RLX_HIP_CUDA_H

#include <dlfcn.h>

#define HIP_API		__attribute__((visibility("default")))

/* A function of one of CUDA's libraries, which stays open; NULL: it is not there. */
static inline void *hip_on_cuda(const char *library, const char *name)
{
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	return lib ? dlsym(lib, name) : NULL;
}

#endif
