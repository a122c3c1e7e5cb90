// SPDX-License-Identifier: MIT
/* Which backends and devices there are, and the open ones. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "rt/rt.h"

#define BACKEND(name) extern const struct rlx_backend rlx_backend_##name;
#include "backends/backends.def"
#undef BACKEND

static const struct rlx_backend *const backends[] = {
#define BACKEND(name) &rlx_backend_##name,
#include "backends/backends.def"
#undef BACKEND
};

enum { N_BACKENDS = sizeof(backends) / sizeof(backends[0]) };

struct open_device {
	struct open_device	*next;
	unsigned int		 asked, refs;
	struct rlx_device	*dev;
};

/* Guards the list and the counts; held while a device opens, so that two
 * callers do not open it twice. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct open_device *open_devices;

unsigned int rlx_device_list(struct rlx_dev_info *info, unsigned int max)
{
	unsigned int n = 0, i;

	for (i = 0; i < N_BACKENDS; i++)
		n += backends[i]->probe(info && n < max ? info + n : NULL,
					info && n < max ? max - n : 0);
	return n;
}

static const struct rlx_backend *find(const char *name, struct rlx_error *err)
{
	char known[128];
	size_t n = 0;
	unsigned int i;

	known[0] = 0;
	for (i = 0; i < N_BACKENDS; i++) {
		if (!strcmp(backends[i]->name, name))
			return backends[i];
		n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s",
				      i ? ", " : "", backends[i]->name);
	}
	rlx_fail(err, RLX_ENODEV, "no device '%.40s'; there are %s", name, known);
	return NULL;
}

enum rlx_status rlx_device_layout(const char *name, char *out, size_t size,
				  struct rlx_error *err)
{
	const struct rlx_backend *be = find(name, err);
	struct rlx_dev_info info = { .isa = "" };

	if (!be)
		return RLX_ENODEV;
	be->probe(&info, 1);
	snprintf(out, size, "%s %s", name, info.isa);
	return RLX_OK;
}

static enum rlx_status open_new(const struct rlx_backend *be, unsigned int threads,
				struct open_device **out, struct rlx_error *err)
{
	struct open_device *o = rlx_calloc(1, sizeof(*o));
	struct rlx_device *dev = rlx_calloc(1, be->device_size);
	enum rlx_status st = RLX_ENOMEM;

	if (!o || !dev) {
		rlx_fail(err, RLX_ENOMEM, "device '%s': out of memory", be->name);
		goto out_free;
	}
	dev->be = be;
	dev->threads = threads;
	st = be->open(dev, err);
	if (st)
		goto out_free;
	*o = (struct open_device){ open_devices, threads, 0, dev };
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
	const struct rlx_backend *be = find(name, err);
	enum rlx_status st = RLX_OK;
	struct open_device *o;

	if (!be)
		return RLX_ENODEV;
	pthread_mutex_lock(&lock);
	for (o = open_devices; o; o = o->next)
		if (o->dev->be == be && o->asked == threads)
			break;
	if (!o)
		st = open_new(be, threads, &o, err);
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
