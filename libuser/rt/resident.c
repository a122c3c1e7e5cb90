// SPDX-License-Identifier: MIT
/* Arenas in the memory of devices: what is the same for all devices. */
#include "base/alloc.h"
#include "rlx/resident.h"
#include "rt/rt.h"

struct rlx_resident {
	struct rlx_arena	*arena;
	struct rlx_device	*dev;
	void			*memory;	/* the backend's */
};

/* @fd -1: bring the bytes there; else they are there. */
static enum rlx_status make(struct rlx_arena *arena, uint64_t bytes, int fd,
			    const char *device, struct rlx_resident **out,
			    struct rlx_error *err)
{
	struct rlx_resident *r;
	struct rlx_arena_info info;
	enum rlx_status st;

	if (!arena || !out)
		return rlx_fail(err, RLX_EINVAL,
				"resident: an arena and a place for the result are needed");
	*out = NULL;
	rlx_arena_info(arena, &info);
	if (!(info.seals & RLX_SEAL_WRITE))
		return rlx_fail(err, RLX_EACCES, "resident: the arena is not sealed against "
				"writing (RLX_SEAL_WRITE)");
	if (bytes > info.bytes)
		return rlx_fail(err, RLX_ERANGE, "resident: %llu bytes of an arena of %llu",
				(unsigned long long)bytes, (unsigned long long)info.bytes);
	r = rlx_calloc(1, sizeof(*r));
	if (!r)
		return rlx_fail(err, RLX_ENOMEM, "resident: out of memory");
	st = rlx_device_get(rlx_device_choice(device), 0, &r->dev, err);
	if (st)
		goto out_free;
	if (r->dev->be->memory)
		st = r->dev->be->memory->upload(r->dev, arena, bytes ? bytes : info.bytes, fd,
						&r->memory, err);
	else
		st = rlx_fail(err, RLX_ENOSUP, "resident: device '%s' has no memory of its own",
			      r->dev->be->name);
	if (st)
		goto out_put;
	r->arena = rlx_arena_get(arena);
	*out = r;
	return RLX_OK;
out_put:
	rlx_device_put(r->dev);
out_free:
	rlx_free(r);
	return st;
}

enum rlx_status rlx_resident_new(struct rlx_arena *arena, uint64_t bytes,
				 const char *device, struct rlx_resident **out,
				 struct rlx_error *err)
{
	return make(arena, bytes, -1, device, out, err);
}

enum rlx_status rlx_resident_open_fd(struct rlx_arena *arena, uint64_t bytes, int fd,
				     const char *device, struct rlx_resident **out,
				     struct rlx_error *err)
{
	if (fd < 0)
		return rlx_fail(err, RLX_EBADFD, "resident: descriptor %d", fd);
	return make(arena, bytes, fd, device, out, err);
}

enum rlx_status rlx_resident_fd(struct rlx_resident *r, int *out, struct rlx_error *err)
{
	if (!r || !out)
		return rlx_fail(err, RLX_EINVAL,
				"resident: one, and a place for a descriptor, are needed");
	return r->dev->be->memory->share(r->dev, r->memory, out, err);
}

void rlx_resident_put(struct rlx_resident *r)
{
	if (!r)
		return;
	r->dev->be->memory->put(r->dev, r->memory);
	rlx_device_put(r->dev);
	rlx_arena_put(r->arena);
	rlx_free(r);
}
