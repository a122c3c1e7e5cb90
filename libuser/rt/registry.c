// SPDX-License-Identifier: MIT
/* Which backends and devices there are, and the open ones. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "rt/rt.h"

#define BACKEND(name) extern const struct rlx_backend rlx_backend_##name;
#define LOADED(name, library)
#include "backends/backends.def"
#undef BACKEND
#undef LOADED

/* @be NULL: it is loaded when asked for. */
static const struct row {
	const char			*name;
	const struct rlx_backend	*be;
} rows[] = {
#define BACKEND(name)	{ #name, &rlx_backend_##name },
#define LOADED(name, library)	{ #name, NULL },
#include "backends/backends.def"
#undef BACKEND
#undef LOADED
};

enum { N_BACKENDS = sizeof(rows) / sizeof(rows[0]) };

static const struct rlx_backend *backend_of(const struct row *r, const char **why)
{
	*why = NULL;
	return r->be ? r->be : rlx_backend_load(r->name, why);
}

struct open_device {
	struct open_device	*next;
	unsigned int		 asked, ordinal, refs;
	cpu_set_t		 cpus;		/* where whoever opened it ran: its threads do */
	struct rlx_device	*dev;
};

/* Guards the list and the counts; held while a device opens, so that two
 * callers do not open it twice. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct open_device *open_devices;

unsigned int rlx_device_list(struct rlx_dev_info *info, unsigned int max)
{
	unsigned int n = 0, i;
	const char *why;

	for (i = 0; i < N_BACKENDS; i++) {
		const struct rlx_backend *be = backend_of(&rows[i], &why);

		if (be)
			n += be->probe(info && n < max ? info + n : NULL, 0,
				       info && n < max ? max - n : 0);
	}
	return n;
}

const char *rlx_device_why(const char *backend)
{
	const struct rlx_backend *be;
	const char *why;
	unsigned int i;

	for (i = 0; i < N_BACKENDS; i++)
		if (backend && !strcmp(rows[i].name, backend))
			break;
	if (i == N_BACKENDS)
		return NULL;
	be = backend_of(&rows[i], &why);
	if (!be)
		return why;
	return be->why && !be->probe(NULL, 0, 0) ? be->why() : "";
}

bool rlx_backend_known(const char *name, size_t len)
{
	unsigned int i;

	for (i = 0; i < N_BACKENDS; i++)
		if (strlen(rows[i].name) == len && !memcmp(rows[i].name, name, len))
			return true;
	return false;
}

const char *rlx_backend_names(char *buf, size_t size)
{
	size_t n = 0;
	unsigned int i;

	buf[0] = 0;
	for (i = 0; i < N_BACKENDS && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? ", " : "", rows[i].name);
	return buf;
}

/* "cuda:1": the backend's name and which of its devices. */
static const struct rlx_backend *find(const char *name, unsigned int *ordinal,
				      struct rlx_error *err)
{
	size_t len = strcspn(name, ":");
	const struct rlx_backend *be;
	const char *why;
	char known[128], *end;
	unsigned int i;

	*ordinal = 0;
	for (i = 0; i < N_BACKENDS; i++)
		if (strlen(rows[i].name) == len && !memcmp(rows[i].name, name, len))
			break;
	if (i == N_BACKENDS) {
		rlx_fail(err, RLX_ENODEV, "no device '%.40s'; there are %s", name,
			 rlx_backend_names(known, sizeof(known)));
		return NULL;
	}
	be = backend_of(&rows[i], &why);
	if (!be) {
		rlx_fail(err, RLX_ENODEV, "%s: %s", rows[i].name, why);
		return NULL;
	}
	if (name[len]) {
		unsigned long v = strtoul(name + len + 1, &end, 10);

		if (end == name + len + 1 || *end || v >= (be->probe(NULL, 0, 0) ? : 1)) {
			rlx_fail(err, RLX_ENODEV, "no device '%.40s': %s has %u", name,
				 rows[i].name, be->probe(NULL, 0, 0));
			return NULL;
		}
		*ordinal = (unsigned int)v;
	}
	return be;
}

const char *rlx_device_choice(const char *name)
{
	const char *env = getenv("RLX_DEVICE");

	return name ? name : env && *env ? env : "cpu";
}

void rlx_layout_name(const struct rlx_backend *be, const char *isa, char *out, size_t size)
{
	snprintf(out, size, "%s %s", be->name, isa);
}

enum rlx_status rlx_device_layout(const char *name, char *out, size_t size,
				  struct rlx_error *err)
{
	unsigned int ordinal;
	const struct rlx_backend *be = find(name, &ordinal, err);
	struct rlx_dev_info info = { .isa = "" };

	if (!be)
		return RLX_ENODEV;
	be->probe(&info, ordinal, 1);
	rlx_layout_name(be, info.isa, out, size);
	return RLX_OK;
}

static enum rlx_status open_new(const struct rlx_backend *be, unsigned int ordinal,
				unsigned int threads, const cpu_set_t *cpus,
				struct open_device **out, struct rlx_error *err)
{
	struct open_device *o = rlx_calloc(1, sizeof(*o));
	struct rlx_device *dev = rlx_calloc(1, be->device_size);
	struct rlx_dev_info info = { .isa = "" };
	enum rlx_status st = RLX_ENOMEM;

	if (!o || !dev) {
		rlx_fail(err, RLX_ENOMEM, "device '%s': out of memory", be->name);
		goto out_free;
	}
	dev->be = be;
	dev->threads = threads;
	dev->ordinal = ordinal;
	be->probe(&info, ordinal, 1);
	memcpy(dev->name, info.backend, sizeof(dev->name));
	memcpy(dev->isa, info.isa, sizeof(dev->isa));
	st = be->open(dev, err);
	if (st)
		goto out_free;
	*o = (struct open_device){ open_devices, threads, ordinal, 0, *cpus, dev };
	open_devices = o;
	*out = o;
	return RLX_OK;
out_free:
	rlx_free(dev);
	rlx_free(o);
	return st;
}

enum rlx_status rlx_device_get(const char *name, unsigned int threads,
			       struct rlx_device **out, struct rlx_error *err)
{
	unsigned int ordinal;
	const struct rlx_backend *be = find(name, &ordinal, err);
	enum rlx_status st = RLX_OK;
	struct open_device *o;
	cpu_set_t cpus;

	if (!be)
		return RLX_ENODEV;
	if (be->own_threads)
		threads = 0;
	if (be->own_threads || sched_getaffinity(0, sizeof(cpus), &cpus))
		CPU_ZERO(&cpus);	/* or more processors than it holds */
	pthread_mutex_lock(&lock);
	for (o = open_devices; o; o = o->next)
		if (o->dev->be == be && o->asked == threads && o->ordinal == ordinal &&
		    CPU_EQUAL(&o->cpus, &cpus))
			break;
	if (!o)
		st = open_new(be, ordinal, threads, &cpus, &o, err);
	if (!st) {
		o->refs++;
		*out = o->dev;
	}
	pthread_mutex_unlock(&lock);
	return st;
}

void rlx_device_put(struct rlx_device *dev)
{
	struct open_device **at, *o;

	if (!dev)
		return;
	pthread_mutex_lock(&lock);
	for (at = &open_devices; *at && (*at)->dev != dev; at = &(*at)->next)
		;
	o = *at;
	if (o && !--o->refs) {
		*at = o->next;
		dev->be->close(dev);
		rlx_free(dev);
		rlx_free(o);
	}
	pthread_mutex_unlock(&lock);
}
