// SPDX-License-Identifier: MIT
/* Loaded backends where all is linked into one program: they are just there. */
#include <string.h>

#include "rt/rt.h"

/* By library; Vulkan's is left out where its kernels could not be compiled. */
#define OF_gpu(...)	__VA_ARGS__
#ifdef RLX_HAVE_VULKAN
#define OF_vulkan(...)	__VA_ARGS__
#else
#define OF_vulkan(...)
#endif

#define BACKEND(name)
#define LOADED(name, library) OF_##library(extern const struct rlx_backend rlx_backend_##name;)
#include "backends/backends.def"
#undef LOADED

static const struct rlx_backend *const loaded[] = {
#define LOADED(name, library) OF_##library(&rlx_backend_##name,)
#include "backends/backends.def"
#undef LOADED
};

const struct rlx_backend *rlx_backend_load(const char *name, const char **why)
{
	size_t i;

	for (i = 0; i < sizeof(loaded) / sizeof(loaded[0]); i++)
		if (!strcmp(loaded[i]->name, name))
			return loaded[i];
	*why = "not built in";
	return NULL;
}
