// SPDX-License-Identifier: MIT
/* Libraries of ours that are opened when they are wanted. */
#include <dlfcn.h>
#include <stdio.h>

#include "base/library.h"

static const char here;

void *rlx_library_open(const char *file, char why[RLX_LIBRARY_WHY])
{
	Dl_info self;
	char path[4096];
	void *handle = NULL;
	const char *p;
	int n = 0;

	/* in our own folder first: the loader would look elsewhere */
	if (dladdr(&here, &self) && self.dli_fname)
		for (p = self.dli_fname; *p; p++)
			if (*p == '/')
				n = (int)(p - self.dli_fname) + 1;
	if (n && n + 64 < (int)sizeof(path)) {
		snprintf(path, sizeof(path), "%.*s%.63s", n, self.dli_fname, file);
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	if (!handle)
		handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	why[0] = 0;
	if (!handle) {
		p = dlerror();
		snprintf(why, RLX_LIBRARY_WHY, "%.200s", p ? p : file);
	}
	return handle;
}
