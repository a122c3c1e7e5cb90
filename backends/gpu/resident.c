// SPDX-License-Identifier: MIT
/*
 * Arenas in device memory that processes share (rlx/resident.h). The memory is an
 * object of the driver, which descriptors and mappings keep; behind the arena's bytes
 * stands which arena they are of. Weights that lie in the arena are there already:
 * gpu_resident_find(). The device's lock guards list and counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/gpu/gpu.h"
#include "base/alloc.h"
#include "rlx/arena.h"

/* The driver's numbers: pinned memory, a descriptor, on a device; what is allowed. */
enum { PINNED = 1, DESCRIPTOR = 1, ON_DEVICE = 1 };
enum { READ = 1, READ_WRITE = 3 };

struct gpu_resident {
	struct gpu_resident	*next;
	struct rlx_arena	*arena;
	const char		*base;
	uint64_t		 bytes;		/* of the arena */
	uint64_t		 size;		/* of the memory */
	uint64_t		 handle, at;
	int			 fd;		/* for others; what is imported exports none */
	unsigned int		 refs;
	bool			 named;		/* not put by its maker yet */
};

/* Which arena: a file of this boot; and whose memory, as others' may be in reach. */
struct mark {
	char		magic[8], pci[24];
	uint64_t	bytes, size, dev, ino;
};

static struct mark mark_of(const struct gpu_device *d, struct rlx_arena *a, uint64_t bytes)
{
	struct mark m = { "RLXRES2", .bytes = bytes, .size = rlx_arena_size(a) };
	struct stat s;

	if (d->api->device_pci(m.pci, sizeof(m.pci), d->dev))
		memset(m.pci, 0, sizeof(m.pci));
	if (!fstat(rlx_arena_fd(a), &s)) {
		m.dev = s.st_dev;
		m.ino = s.st_ino;
	}
	return m;
}

static int allow(struct gpu_device *d, struct gpu_resident *r, int what)
{
	struct rlx_gpu_access how = { ON_DEVICE, d->dev, what };

	return d->api->share_allow(r->at, r->size, &how, 1);
}

/* Address space for the memory, and leave to use it. */
static int map(struct gpu_device *d, struct gpu_resident *r, int what)
{
	int rc = d->api->share_reserve(&r->at, r->size, 0, 0, 0);

	if (rc) {
		r->at = 0;
		return rc;
	}
	rc = d->api->share_map(r->at, r->size, 0, r->handle, 0);
	if (!rc) {
		rc = allow(d, r, what);
		if (rc)
			d->api->share_unmap(r->at, r->size);
	}
	if (rc) {
		d->api->share_unreserve(r->at, r->size);
		r->at = 0;
	}
	return rc;
}

static void resident_free(struct gpu_device *d, struct gpu_resident *r)
{
	if (r->at) {
		d->api->share_unmap(r->at, r->size);
		d->api->share_unreserve(r->at, r->size);
	}
	if (r->handle)
		d->api->share_free(r->handle);
	if (r->fd >= 0)
		close(r->fd);
	rlx_arena_put(r->arena);
	rlx_free(r);
}

/* The lock is held: it also guards the stream. */
static enum rlx_status fill(struct gpu_device *d, struct gpu_resident *r,
			    struct rlx_error *err)
{
	struct mark m = mark_of(d, r->arena, r->bytes);
	int rc = d->api->copy_in(r->at, r->base, r->bytes, d->stream), ended;

	if (!rc)
		rc = d->api->copy_in(r->at + rlx_align64(r->bytes), &m, sizeof(m), d->stream);
	ended = d->api->stream_wait(d->stream);	/* also of the first where the second failed */
	rc = rc ? rc : ended;
	if (!rc)	/* as the arena, which is sealed */
		rc = allow(d, r, READ);
	return gpu_check(d, rc, "bringing an arena in", err);
}

static enum rlx_status check_mark(struct gpu_device *d, struct gpu_resident *r,
				  struct rlx_error *err)
{
	struct mark want = mark_of(d, r->arena, r->bytes), m = { "" };
	int rc = d->api->copy_out(&m, r->at + rlx_align64(r->bytes), sizeof(m), d->stream);

	if (!rc)
		rc = d->api->stream_wait(d->stream);
	if (rc)
		return gpu_check(d, rc, "looking at shared memory", err);
	if (!memcmp(m.magic, want.magic, sizeof(m.magic)) &&
	    memcmp(m.pci, want.pci, sizeof(m.pci)))
		return rlx_fail(err, RLX_EBADFD, "resident: the memory is another GPU's, at "
				"%.23s, not that of %s:%u", m.pci, d->v->name, d->base.ordinal);
	if (memcmp(&m, &want, sizeof(m)))
		return rlx_fail(err, RLX_EPARSE, "resident: the memory behind the descriptor "
				"does not hold the first %llu bytes of this arena",
				(unsigned long long)r->bytes);
	return RLX_OK;
}

/* What the driver says of a descriptor that is none of its own is no loss of the device. */
static enum rlx_status import(struct gpu_device *d, struct gpu_resident *r, int fd,
			      struct rlx_error *err)
{
	int rc = d->api->share_import(&r->handle, (void *)(uintptr_t)fd, DESCRIPTOR);
	char text[120];

	if (rc) {
		r->handle = 0;
	} else {
		rc = map(d, r, READ);
		r->fd = rc ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	}
	if (rc)
		return rlx_fail(err, RLX_EBADFD, "resident: descriptor %d is no memory of %s:%u, "
				"or not of %llu bytes: %s", fd, d->v->name, d->base.ordinal,
				(unsigned long long)r->bytes,
				gpu_error_text(d->v, d->d, rc, text, sizeof(text)));
	if (r->fd < 0)
		return rlx_fail(err, RLX_ENOMEM, "resident: dup of fd %d: %s", fd, strerror(errno));
	return check_mark(d, r, err);
}

static enum rlx_status create(struct gpu_device *d, struct gpu_resident *r,
			      const struct rlx_gpu_share *how, struct rlx_error *err)
{
	int rc = d->api->share_new(&r->handle, r->size, how, 0);

	if (rc)
		r->handle = 0;
	else
		rc = map(d, r, READ_WRITE);
	if (!rc)
		rc = d->api->share_export(&r->fd, r->handle, DESCRIPTOR, 0);
	return rc ? gpu_check(d, rc, "sharing memory", err) : fill(d, r, err);
}

/* The lock is held. */
static enum rlx_status make(struct gpu_device *d, struct gpu_resident *r, int fd,
			    struct rlx_error *err)
{
	struct rlx_gpu_share how = { PINNED, DESCRIPTOR, ON_DEVICE, d->dev };
	enum rlx_status st;
	size_t step = 0;

	st = gpu_check(d, d->api->share_step(&step, &how, 0), "asking for shared memory", err);
	if (st)
		return st;
	if (!rlx_add(rlx_align64(r->bytes) + sizeof(struct mark), step, &r->size) || !step)
		return rlx_fail(err, RLX_ERANGE, "resident: %llu bytes",
				(unsigned long long)r->bytes);
	r->size = (r->size - 1) / step * step;
	return fd < 0 ? create(d, r, &how, err) : import(d, r, fd, err);
}

static enum rlx_status upload(struct rlx_device *dev, struct rlx_arena *a, uint64_t bytes,
			      int fd, void **out, struct rlx_error *err)
{
	struct gpu_device *d = (struct gpu_device *)dev;
	enum rlx_status st = gpu_enter(d, err);
	struct gpu_resident *r, *have;

	if (st)
		return st;
	if (!d->api->share_new)
		return rlx_fail(err, RLX_ENOSUP, "resident: %s's memory is not shared between "
				"processes", d->v->title);
	r = rlx_calloc(1, sizeof(*r));
	if (!r)
		return rlx_fail(err, RLX_ENOMEM, "resident: out of memory");
	r->arena = rlx_arena_get(a);
	r->base = rlx_arena_base(a);
	r->bytes = bytes;
	r->fd = -1;
	r->refs = 1;
	r->named = true;
	pthread_mutex_lock(&d->lock);
	for (have = d->residents; have && !(have->named && have->arena == a); have = have->next)
		;
	st = have ? rlx_fail(err, RLX_EBUSY, "resident: %s:%u has the arena already", d->v->name,
			     d->base.ordinal) : make(d, r, fd, err);
	if (!st) {
		r->next = d->residents;
		d->residents = r;
		*out = r;
	}
	pthread_mutex_unlock(&d->lock);
	if (st)
		resident_free(d, r);
	return st;
}

static enum rlx_status share(struct rlx_device *dev, void *memory, int *out,
			     struct rlx_error *err)
{
	struct gpu_resident *r = memory;

	*out = fcntl(r->fd, F_DUPFD_CLOEXEC, 3);
	return *out < 0 ? rlx_fail(err, RLX_ENOMEM, "resident: dup of fd %d: %s", r->fd,
				   strerror(errno)) : RLX_OK;
}

/* What is looked at and moved at once; elsewhere weights have memory of their own. */
enum { ALIGNED = 16 };

struct gpu_resident *gpu_resident_find(struct gpu_device *d, const void *p, uint64_t bytes,
				       uint64_t *out_at)
{
	struct gpu_resident *r;
	uint64_t off;

	for (r = d->residents; r; r = r->next) {
		off = (uint64_t)((const char *)p - r->base);
		if (!r->named || off > r->bytes || bytes > r->bytes - off || off % ALIGNED)
			continue;
		r->refs++;
		*out_at = r->at + off;
		return r;
	}
	return NULL;
}

void gpu_resident_unuse(struct gpu_device *d, struct gpu_resident *r)
{
	struct gpu_resident **at;

	if (--r->refs)
		return;
	for (at = &d->residents; *at != r; at = &(*at)->next)
		;
	*at = r->next;
	resident_free(d, r);
}

static void put(struct rlx_device *dev, void *memory)
{
	struct gpu_device *d = (struct gpu_device *)dev;
	struct gpu_resident *r = memory;

	d->api->context_set(d->ctx);
	pthread_mutex_lock(&d->lock);
	r->named = false;
	gpu_resident_unuse(d, r);
	pthread_mutex_unlock(&d->lock);
}

const struct rlx_backend_memory gpu_memory = {
	.upload = upload, .share = share, .put = put,
	.buffer_new = gpu_buffer_new, .buffer_free = gpu_buffer_free,
	.buffer_copy = gpu_buffer_copy,
};
