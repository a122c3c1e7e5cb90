// SPDX-License-Identifier: MIT
/* The library of linear algebra that is opened where there is one. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lapack.h"
#include "base/log.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library;
static char name[320];		/* or why there is none */

static bool says(const char *word)
{
	const char *said = getenv("RLX_LAPACK");

	return said && !strcmp(said, word);
}

/* That there is none is no news where none was asked for. */
static void tell_asked(const char *said)
{
	if (said && *said)
		rlx_log(RLX_LOG_WARN, "RLX_LAPACK: %s; the library's own kernels run", name);
}

static void open_library(void)
{
	const char *said = getenv("RLX_LAPACK"), *text;
	const char *file = said && *said && !says("all") ? said : "libopenblas.so.0";
	char *(*config)(void);
	void *p;

	library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		text = dlerror();
		snprintf(name, sizeof(name), "%.300s", text ? text : file);
		tell_asked(said);
		return;
	}
	if (!dlsym(library, "sgesdd_") || !dlsym(library, "dgesdd_")) {
		snprintf(name, sizeof(name), "%.200s is no LAPACK: it lacks gesdd", file);
		dlclose(library);
		library = NULL;
		tell_asked(said);
		return;
	}
	p = dlsym(library, "openblas_get_config");
	memcpy(&config, &p, sizeof(p));
	snprintf(name, sizeof(name), "%.200s%s%.100s", file, config ? ": " : "",
		 config ? config() : "");
}

void *rlx_lapack_library(void)
{
	if (says("none"))
		return NULL;
	pthread_once(&once, open_library);
	return library;
}

void rlx_lapack_name(char *buf, size_t size)
{
	if (rlx_lapack_library())
		snprintf(buf, size, "%s", name);
	else
		snprintf(buf, size, "none, own kernels (%s)",
			 says("none") ? "RLX_LAPACK is none" : name);
}

bool rlx_lapack_always(void)
{
	return says("all");
}
