// SPDX-License-Identifier: MIT
/* Opening a vendor's libraries, once per process. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/gpu/api.h"

enum { VENDORS = 2 };

/* A library that was looked for: opened, or why it is not there. */
struct found {
	const struct rlx_gpu_vendor	*v;
	bool				 tried, ok;
	char				 why[GPU_WHY];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* guards all below */
static struct {
	struct found		f;
	struct gpu_driver	d;
	uint64_t		kept;	/* devices whose context the process holds */
} drivers[VENDORS];
static struct { struct found f; struct rlx_gpu_rtc rtc; } compilers[VENDORS];

static void *open_first(const char *const *names, char *why)
{
	void *lib = NULL;
	const char *s;
	int i;

	for (i = 0; names[i] && !lib; i++) {
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		if (!lib && !i) {	/* the message of the newest */
			s = dlerror();
			snprintf(why, GPU_WHY, "%.200s", s ? s : names[0]);
		}
	}
	if (lib)
		why[0] = 0;
	return lib;
}

/*
 * Fill @table, as many pointers as @names has; those without a name stay NULL. False:
 * one is not there.
 */
static bool take_symbols(void *lib, const char *const *names, void *table, size_t n,
			 char *why)
{
	size_t i;

	for (i = 0; i < n; i++) {
		void *p = names[i] ? dlsym(lib, names[i]) : NULL;

		if (!p && names[i]) {
			snprintf(why, GPU_WHY, "the driver is too old: it has no %.60s",
				 names[i]);
			return false;
		}
		memcpy((char *)table + i * sizeof(p), &p, sizeof(p));
	}
	return true;
}

const char *gpu_error_text(const struct rlx_gpu_vendor *v, const struct gpu_driver *d,
			   int rc, char *buf, size_t size)
{
	const char *s = v->describe(rc, dlsym, d->lib);

	snprintf(buf, size, "%.80s (%d)", s ? s : "error", rc);
	return buf;
}

static bool start_driver(const struct rlx_gpu_vendor *v, struct gpu_driver *d, char *why)
{
	char text[120];
	int rc;

	d->lib = open_first(v->driver, why);
	if (!d->lib || !take_symbols(d->lib, v->driver_names, &d->api,
				     sizeof(d->api) / sizeof(void *), why))
		return false;
	rc = d->api.init(0);
	if (!rc)
		rc = d->api.driver_version(&d->version);
	if (!rc)
		rc = d->api.device_count(&d->devices);
	if (rc)
		snprintf(why, GPU_WHY, "%.20s's driver does not start: %.100s", v->title,
			 gpu_error_text(v, d, rc, text, sizeof(text)));
	else if (!d->devices)
		snprintf(why, GPU_WHY, "%.20s's driver sees no device", v->title);
	return !rc && d->devices;
}

/* The entry of a vendor; the lock is held. There are no more vendors than entries. */
#define ENTRY(table, vendor)						\
	({								\
		int i_ = 0;						\
		while (table[i_].f.v && table[i_].f.v != (vendor))	\
			i_++;						\
		&table[i_];						\
	})

const struct gpu_driver *gpu_driver_get(const struct rlx_gpu_vendor *v, const char **why)
{
	struct gpu_driver *d;
	struct found *f;

	pthread_mutex_lock(&lock);
	f = &ENTRY(drivers, v)->f;
	d = &ENTRY(drivers, v)->d;
	f->v = v;
	if (!f->tried) {
		f->ok = start_driver(v, d, f->why);
		f->tried = true;
	}
	if (why)
		*why = f->why;
	pthread_mutex_unlock(&lock);
	return f->ok ? d : NULL;
}

/*
 * Making a context takes longer than most programs run, and stops all processes that
 * do it; so the first one is held until the process ends.
 */
int gpu_context_get(const struct rlx_gpu_vendor *v, int dev, void **out)
{
	uint64_t bit = dev >= 0 && dev < 64 ? (uint64_t)1 << dev : 0, *kept;
	const struct rlx_gpu_api *api;
	int rc;

	pthread_mutex_lock(&lock);
	api = &ENTRY(drivers, v)->d.api;
	kept = &ENTRY(drivers, v)->kept;
	pthread_mutex_unlock(&lock);
	rc = api->context_retain(out, dev);
	pthread_mutex_lock(&lock);
	if (!rc && bit & ~*kept && !api->context_retain(out, dev))
		*kept |= bit;
	pthread_mutex_unlock(&lock);
	return rc;
}

const struct rlx_gpu_rtc *gpu_rtc_get(const struct rlx_gpu_vendor *v, const char **why)
{
	struct rlx_gpu_rtc *rtc;
	struct found *f;
	void *lib;

	pthread_mutex_lock(&lock);
	f = &ENTRY(compilers, v)->f;
	rtc = &ENTRY(compilers, v)->rtc;
	f->v = v;
	if (!f->tried) {
		lib = open_first(v->rtc, f->why);
		f->ok = lib && take_symbols(lib, v->rtc_names, rtc,
					    sizeof(*rtc) / sizeof(void *), f->why);
		f->tried = true;
	}
	if (why)
		*why = f->why;
	pthread_mutex_unlock(&lock);
	return f->ok ? rtc : NULL;
}
