// SPDX-License-Identifier: MIT
/*
 * Loaded backends where they are libraries of their own, which stand beside this one
 * and are of the same version, for they use our inside (librlx.map). Each is opened once, when
 * first asked for, and kept.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/library.h"
#include "rt/rt.h"

static const struct row {
	const char	*backend, *file;
} rows[] = {
#define BACKEND(name)
#define LOADED(name, library)	{ #name, "librlx-" #library ".so.1" },
#include "backends/backends.def"
#undef BACKEND
#undef LOADED
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* By row; two of one library are two references to it. */
static struct library {
	bool	tried;
	void	*handle;
	char	why[RLX_LIBRARY_WHY];	/* written once */
} libraries[N_ROWS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void open_library(struct library *l, const char *name)
{
	l->handle = rlx_library_open(name, l->why);
	if (l->handle)
		snprintf(l->why, sizeof(l->why), "%s does not have it", name);
	l->tried = true;
}

const struct rlx_backend *rlx_backend_load(const char *name, const char **why)
{
	const struct rlx_backend *be = NULL;
	char symbol[64];
	unsigned int i;

	for (i = 0; i < N_ROWS - 1 && strcmp(rows[i].backend, name); i++)
		;
	pthread_mutex_lock(&lock);
	if (!libraries[i].tried)
		open_library(&libraries[i], rows[i].file);
	pthread_mutex_unlock(&lock);
	snprintf(symbol, sizeof(symbol), "rlx_backend_%.40s", name);
	if (libraries[i].handle)
		be = dlsym(libraries[i].handle, symbol);
	*why = libraries[i].why;
	return be;
}
