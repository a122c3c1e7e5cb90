// SPDX-License-Identifier: MIT
/*
 * Device memory, weights that live there, and host arenas made known to the device.
 * Weights and arenas are shared by all sessions: entries are counted, and the
 * device's lock guards the lists; it is held at compile and bind time only.
 */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "base/alloc.h"
#include "base/log.h"
#include "rlx/arena.h"

struct gpu_weight {
	struct gpu_weight	*next;
	const void		*host;
	struct rlx_blob		*blob;
	struct gpu_resident	*resident;	/* whose memory it is; NULL: its own */
	uint64_t		 bytes, at;
	unsigned int		 refs;
	bool			 here;		/* its bytes are at @at */
};

struct gpu_range {
	struct gpu_range	*next;
	struct rlx_arena	*arena;
	uint64_t		 at;		/* device address of its base; 0: copies only */
	unsigned int		 refs;
};

struct gpu_workspace {
	struct gpu_workspace	*next;
	const void		*host;
	uint64_t		 bytes, at;
	unsigned int		 refs;
};

enum rlx_status gpu_mem_new(struct gpu_device *d, uint64_t bytes, uint64_t *out,
			    struct rlx_error *err)
{
	enum rlx_status st;

	*out = 0;
	if (!bytes)
		return RLX_OK;
	st = gpu_check(d, d->api->mem_new(out, bytes), "allocating", err);
	if (st)
		*out = 0;
	return st;
}

void gpu_mem_free(struct gpu_device *d, uint64_t at)
{
	if (at)
		d->api->mem_free(at);
}

/* Not waited for. The lock is held: it also guards the stream. */
static enum rlx_status upload(struct gpu_device *d, struct gpu_weight *w, struct rlx_error *err)
{
	enum rlx_status st = w->at ? RLX_OK : gpu_mem_new(d, w->bytes, &w->at, err);

	if (st || !w->bytes)
		return st;
	return gpu_check(d, d->api->copy_in(w->at, w->host, w->bytes, d->stream),
			 "copying weights in", err);
}

static enum rlx_status wait_uploaded(struct gpu_device *d, struct rlx_error *err)
{
	return gpu_check(d, d->api->stream_wait(d->stream), "copying weights in", err);
}

enum rlx_status gpu_weights_load(struct gpu_device *d, struct gpu_weight **w, uint32_t n,
				 struct rlx_error *err)
{
	enum rlx_status st = RLX_OK, waited = RLX_OK;
	bool any = false;
	uint32_t i;

	pthread_mutex_lock(&d->lock);
	for (i = 0; i < n && !st; i++)
		if (w[i] && !w[i]->here) {
			any = true;
			st = upload(d, w[i], err);
		}
	if (any)	/* also after a failure: nothing may be under way from host memory */
		waited = wait_uploaded(d, st ? NULL : err);
	st = st ? st : waited;
	for (i = 0; i < n && !st; i++)
		if (w[i])
			w[i]->here = true;
	pthread_mutex_unlock(&d->lock);
	return st;
}

static enum rlx_status weight_new(struct gpu_device *d, const void *p, uint64_t bytes,
				  struct gpu_weight **out, struct rlx_error *err)
{
	struct gpu_weight *w = rlx_calloc(1, sizeof(*w));

	if (!w)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", d->v->name);
	w->host = p;
	w->bytes = bytes;
	w->resident = gpu_resident_find(d, p, bytes, &w->at);
	w->here = w->resident;
	w->next = d->weights;
	d->weights = w;
	*out = w;
	return RLX_OK;
}

enum rlx_status gpu_weight_get(struct gpu_device *d, const void *p, uint64_t bytes,
			       struct rlx_blob *blob, struct gpu_weight **out,
			       struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	struct gpu_weight *w;

	pthread_mutex_lock(&d->lock);
	for (w = d->weights; w; w = w->next)
		if (w->host == p && w->bytes == bytes)
			break;
	if (!w)
		st = weight_new(d, p, bytes, &w, err);
	else if (!w->resident && !(blob && w->blob))	/* what is there may be new */
		w->here = false;
	if (!st) {
		if (blob && !w->blob)
			w->blob = rlx_blob_get(blob);
		w->refs++;
		*out = w;
	}
	pthread_mutex_unlock(&d->lock);
	return st;
}

enum rlx_status gpu_weight_renew(struct gpu_device *d, struct gpu_weight *w,
				 struct rlx_error *err)
{
	enum rlx_status st;

	if (w->resident)	/* of an arena that nobody can write to */
		return RLX_OK;
	pthread_mutex_lock(&d->lock);
	st = upload(d, w, err);
	if (!st)
		st = wait_uploaded(d, err);
	pthread_mutex_unlock(&d->lock);
	return st;
}

bool gpu_weight_is_resident(const struct gpu_weight *w)
{
	return w->resident;
}

bool gpu_weight_is_here(struct gpu_device *d, const struct gpu_weight *w)
{
	bool here;

	pthread_mutex_lock(&d->lock);
	here = w->here;
	pthread_mutex_unlock(&d->lock);
	return here;
}

bool gpu_is_resident(struct gpu_device *d, const void *p, uint64_t bytes)
{
	struct gpu_resident *r;
	uint64_t at;

	pthread_mutex_lock(&d->lock);
	r = gpu_resident_find(d, p, bytes, &at);
	if (r)
		gpu_resident_unuse(d, r);
	pthread_mutex_unlock(&d->lock);
	return r;
}

uint64_t gpu_weight_at(const struct gpu_weight *w)
{
	return w->at;
}

void gpu_weight_put(struct gpu_device *d, struct gpu_weight *w)
{
	struct gpu_weight **at;

	if (!w)
		return;
	pthread_mutex_lock(&d->lock);
	if (!--w->refs) {
		for (at = &d->weights; *at != w; at = &(*at)->next)
			;
		*at = w->next;
		if (w->resident)
			gpu_resident_unuse(d, w->resident);
		else
			gpu_mem_free(d, w->at);
		rlx_blob_put(w->blob);
		rlx_free(w);
	}
	pthread_mutex_unlock(&d->lock);
}

/* Flags of the driver: for all contexts, mapped, only read by the device. */
enum { PORTABLE = 1, MAPPED = 2, READ_ONLY = 8 };

/* An arena that a driver knows, for all of its devices: it takes none twice. */
struct gpu_pin {
	struct gpu_pin			*next;
	const struct rlx_gpu_vendor	*v;
	const struct rlx_arena		*arena;	/* which the ranges keep */
	unsigned int			 refs;
};

static pthread_mutex_t pins_lock = PTHREAD_MUTEX_INITIALIZER;	/* inside of a device's */
static struct gpu_pin *pins;

static struct gpu_pin **find_pin(const struct gpu_device *d, const struct rlx_arena *a)
{
	struct gpu_pin **at = &pins;

	while (*at && ((*at)->arena != a || (*at)->v != d->v))
		at = &(*at)->next;
	return at;
}

/* 0, or what the driver said. */
static int pin_get(struct gpu_device *d, struct rlx_arena *a)
{
	unsigned int flags = PORTABLE | (d->attr[GPU_ATTR_MAPPED] ? MAPPED : 0);
	struct gpu_pin *p;
	int rc = 0;

	if (rlx_arena_flags(a) & RLX_ARENA_RDONLY)
		flags |= READ_ONLY;
	pthread_mutex_lock(&pins_lock);
	p = *find_pin(d, a);
	if (p) {
		p->refs++;
	} else {
		p = rlx_calloc(1, sizeof(*p));
		rc = p ? d->api->host_register(rlx_arena_base(a), rlx_arena_size(a), flags) :
		     GPU_OUT_OF_MEMORY;
		if (rc) {
			rlx_free(p);
		} else {
			*p = (struct gpu_pin){ pins, d->v, a, 1 };
			pins = p;
		}
	}
	pthread_mutex_unlock(&pins_lock);
	return rc;
}

static void pin_put(struct gpu_device *d, struct rlx_arena *a)
{
	struct gpu_pin **at, *p;

	pthread_mutex_lock(&pins_lock);
	at = find_pin(d, a);
	p = *at;
	if (!--p->refs) {
		*at = p->next;
		d->api->host_unregister(rlx_arena_base(a));
		rlx_free(p);
	}
	pthread_mutex_unlock(&pins_lock);
}

static struct gpu_range *range_new(struct gpu_device *d, struct rlx_arena *a)
{
	struct gpu_range *r = rlx_calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return NULL;
	rc = pin_get(d, a);
	if (rc) {
		/* by the application, too large to pin, not supported: copies do it */
		if (rlx_debug_on(RLX_DEBUG_RUN))
			rlx_log(RLX_LOG_DEBUG, "%s: an arena of %llu bytes is not registered (%d)",
			d->v->name, (unsigned long long)rlx_arena_size(a), rc);
		rlx_free(r);
		return NULL;
	}
	if (d->attr[GPU_ATTR_MAPPED] && d->api->host_address(&r->at, rlx_arena_base(a), 0))
		r->at = 0;
	r->arena = rlx_arena_get(a);
	r->next = d->ranges;
	d->ranges = r;
	return r;
}

struct gpu_range *gpu_range_get(struct gpu_device *d, struct rlx_arena *a)
{
	struct gpu_range *r;

	pthread_mutex_lock(&d->lock);
	for (r = d->ranges; r && r->arena != a; r = r->next)
		;
	if (!r)
		r = range_new(d, a);
	if (r)
		r->refs++;
	pthread_mutex_unlock(&d->lock);
	return r;
}

uint64_t gpu_range_at(const struct gpu_range *r, const void *p)
{
	return r && r->at ?
	       r->at + (uint64_t)((const char *)p - (const char *)rlx_arena_base(r->arena)) : 0;
}

void gpu_range_put(struct gpu_device *d, struct gpu_range *r)
{
	struct gpu_range **at;
	struct rlx_arena *a;

	if (!r)
		return;
	pthread_mutex_lock(&d->lock);
	a = NULL;
	if (!--r->refs) {
		for (at = &d->ranges; *at != r; at = &(*at)->next)
			;
		*at = r->next;
		a = r->arena;
		pin_put(d, a);
		rlx_free(r);
	}
	pthread_mutex_unlock(&d->lock);
	rlx_arena_put(a);
}

/* With the lock held. NULL: out of memory, which @err tells. */
static struct gpu_workspace *workspace_new(struct gpu_device *d, const void *host, uint64_t bytes,
					   struct rlx_error *err)
{
	struct gpu_workspace *w = rlx_calloc(1, sizeof(*w));

	if (!w) {
		rlx_fail(err, RLX_ENOMEM, "%s: out of memory", d->base.be->name);
		return NULL;
	}
	*w = (struct gpu_workspace){ .next = d->workspaces, .host = host, .bytes = bytes };
	if (gpu_mem_new(d, bytes, &w->at, err)) {
		rlx_free(w);
		return NULL;
	}
	return d->workspaces = w;
}

enum rlx_status gpu_workspace_get(struct gpu_device *d, const void *host, uint64_t bytes,
				  struct gpu_workspace **out, struct rlx_error *err)
{
	struct gpu_workspace *w = NULL;

	pthread_mutex_lock(&d->lock);
	if (host)
		for (w = d->workspaces; w && (w->host != host || w->bytes < bytes); w = w->next)
			;
	if (!w)
		w = workspace_new(d, host, bytes, err);
	if (w)
		w->refs++;
	pthread_mutex_unlock(&d->lock);
	*out = w;
	return w ? RLX_OK : err->status;
}

uint64_t gpu_workspace_at(const struct gpu_workspace *w)
{
	return w->at;
}

void gpu_workspace_put(struct gpu_device *d, struct gpu_workspace *w)
{
	struct gpu_workspace **p = &d->workspaces;

	if (!w)
		return;
	pthread_mutex_lock(&d->lock);
	if (!--w->refs) {
		while (*p != w)
			p = &(*p)->next;
		*p = w->next;
		gpu_mem_free(d, w->at);
		rlx_free(w);
	}
	pthread_mutex_unlock(&d->lock);
}
