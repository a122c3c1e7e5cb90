// SPDX-License-Identifier: MIT
/*
 * Loaded backends where they are a library of their own, which stands beside this one
 * and is of the same version, for it uses our inside (librlx.map). Opened once, when
 * first asked for, and kept.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "rt/rt.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library;
static char reason[224];	/* written once */

static void open_library(void)
{
	Dl_info self;
	char path[4096];
	const char *p;
	size_t n = 0;

	/* in our own folder first: the loader would look elsewhere */
	if (dladdr(&once, &self) && self.dli_fname)
		for (p = self.dli_fname; *p; p++)
			if (*p == '/')
				n = (size_t)(p - self.dli_fname) + 1;
	if (n && n + 32 < sizeof(path)) {
		snprintf(path, sizeof(path), "%.*slibrlx-gpu.so.1", (int)n, self.dli_fname);
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	if (!library)
		library = dlopen("librlx-gpu.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		p = dlerror();
		snprintf(reason, sizeof(reason), "%.200s", p ? p : "no librlx-gpu.so.1");
	}
}

const struct rlx_backend *rlx_backend_load(const char *name, const char **why)
{
	const struct rlx_backend *be = NULL;
	char symbol[64];

	pthread_once(&once, open_library);
	snprintf(symbol, sizeof(symbol), "rlx_backend_%.40s", name);
	if (library)
		be = dlsym(library, symbol);
	*why = library ? "librlx-gpu.so.1 does not have it" : reason;
	return be;
}
