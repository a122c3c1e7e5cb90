// SPDX-License-Identifier: MIT
/*
 * Buffers in the memory of devices. Each is an arena over its addresses, whose references and
 * ranges are the buffer's; where the CPU cannot follow those, nobody is given the arena.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "mem/arena.h"
#include "mem/dlpack.h"
#include "rlx/device_buffer.h"
#include "rt/session.h"

struct rlx_device_buffer {
	struct rlx_arena	*arena;
	struct rlx_device	*dev;
	uint64_t		 bytes;		/* of the arena's, which has some even if there are none */
	void			(*release)(void *ctx, void *base, uint64_t size);
	void			*ctx;
};

/* What DLPack calls devices with memory of their own, whose buffers it can name. */
static const struct {
	const char	*backend;
	int32_t		 type;
} dl_names[] = { { "cuda", RLX_DL_CUDA }, { "rocm", RLX_DL_ROCM } };

static bool is_apart(const struct rlx_device *dev)
{
	return dev->be->has;
}

static void release(void *ctx, void *base, uint64_t size)
{
	struct rlx_device_buffer *b = ctx;

	b->release(b->ctx, base, size);
	rlx_device_put(b->dev);
	rlx_free(b);
}

static void free_memory(void *ctx, void *base, uint64_t size)
{
	struct rlx_device_buffer *b = ctx;

	b->dev->be->memory->buffer_free(b->dev, (uintptr_t)base);
}

static void put_arena(void *ctx, void *base, uint64_t size)
{
	rlx_arena_put(ctx);
}

static void close_buffer(struct rlx_device_buffer *b)
{
	rlx_device_put(b->dev);
	rlx_free(b);
}

static enum rlx_status open_buffer(const char *device, struct rlx_device_buffer **out,
				   struct rlx_error *err)
{
	struct rlx_device_buffer *b = rlx_calloc(1, sizeof(*b));
	enum rlx_status st;

	if (!b)
		return rlx_fail(err, RLX_ENOMEM, "device buffer: out of memory");
	st = rlx_device_get(device, 0, &b->dev, err);
	if (!st && is_apart(b->dev) && !b->dev->be->memory)
		st = rlx_fail(err, RLX_ENOSUP, "device buffer: '%s' has none; bind host memory",
			      b->dev->name);
	if (st)
		close_buffer(b);
	else
		*out = b;
	return st;
}

/* It is one of @user's memory from now on, which after a failure is not released. */
static enum rlx_status take(struct rlx_device_buffer *b, const struct rlx_arena_user *user,
			    uint64_t bytes, struct rlx_error *err)
{
	struct rlx_arena_user u = *user;
	enum rlx_status st;
	size_t i;

	u.release = release;
	u.ctx = b;
	st = rlx_arena_wrap(&u, &b->arena, err);
	if (st)
		return st;
	b->bytes = bytes;
	b->release = user->release;
	b->ctx = user->ctx;
	for (i = 0; is_apart(b->dev) && i < sizeof(dl_names) / sizeof(dl_names[0]); i++)
		if (!strcmp(b->dev->be->name, dl_names[i].backend)) {
			b->arena->dl_type = dl_names[i].type;
			b->arena->dl_id = (int32_t)b->dev->ordinal;
		}
	return RLX_OK;
}

/* Memory of the buffer's device. */
static enum rlx_status new_memory(struct rlx_device_buffer *b, struct rlx_arena_user *user,
				  struct rlx_error *err)
{
	struct rlx_arena_opts o = { .size = user->size, .name = "rlx-buffer" };
	struct rlx_arena *a;
	enum rlx_status st;
	uint64_t at;

	if (is_apart(b->dev)) {
		st = b->dev->be->memory->buffer_new(b->dev, user->size, &at, err);
		if (st)
			return st;
		user->base = (void *)(uintptr_t)at;
		user->release = free_memory;
		user->ctx = b;
		return RLX_OK;
	}
	st = rlx_arena_new(&o, &a, err);
	if (st)
		return st;
	user->base = rlx_arena_base(a);
	user->release = put_arena;
	user->ctx = a;
	return RLX_OK;
}

enum rlx_status rlx_device_buffer_new(const char *device, uint64_t bytes,
				      struct rlx_device_buffer **out, struct rlx_error *err)
{
	struct rlx_arena_user user = { .size = bytes };
	struct rlx_device_buffer *b;
	enum rlx_status st;

	if (out)
		*out = NULL;
	if (!out || !bytes)
		return rlx_fail(err, RLX_EINVAL,
				"device buffer: bytes, and a place for the result, are needed");
	st = open_buffer(rlx_device_choice(device), &b, err);
	if (st)
		return st;
	st = new_memory(b, &user, err);
	if (!st) {
		st = take(b, &user, bytes, err);
		if (st)
			user.release(user.ctx, user.base, bytes);
	}
	if (st)
		close_buffer(b);
	else
		*out = b;
	return st;
}

struct rlx_device_buffer *rlx_device_buffer_get(struct rlx_device_buffer *b)
{
	if (b)
		rlx_arena_get(b->arena);
	return b;
}

void rlx_device_buffer_put(struct rlx_device_buffer *b)
{
	if (b)
		rlx_arena_put(b->arena);
}

void rlx_device_buffer_info(const struct rlx_device_buffer *b, struct rlx_device_buffer_info *out)
{
	if (!out)
		return;
	*out = (struct rlx_device_buffer_info){ 0 };
	if (!b)
		return;
	out->device = b->dev->name;
	out->bytes = b->bytes;
	out->at = (uintptr_t)b->arena->base;
	out->rdonly = rlx_arena_flags(b->arena) & RLX_ARENA_RDONLY;
}

/* All of it from @offset on, which are @bytes at least. */
static enum rlx_status part(struct rlx_device_buffer *b, uint64_t offset, uint64_t bytes,
			    struct rlx_buf *out, struct rlx_error *err)
{
	if (!b)
		return rlx_fail(err, RLX_EINVAL, "device buffer: none given");
	if (offset > b->bytes || bytes > b->bytes - offset)
		return rlx_fail(err, RLX_ERANGE, "device buffer: %llu bytes at offset %llu of %llu",
				(unsigned long long)bytes, (unsigned long long)offset,
				(unsigned long long)b->bytes);
	*out = (struct rlx_buf){ b->arena, offset, b->bytes - offset };
	return RLX_OK;
}

static enum rlx_status copy(struct rlx_device_buffer *b, uint64_t offset, uint64_t bytes,
			    void *host, bool in, struct rlx_error *err)
{
	struct rlx_buf buf;
	enum rlx_status st = part(b, offset, bytes, &buf, err);
	char *at;

	if (st || !bytes)
		return st;
	if (!host)
		return rlx_fail(err, RLX_EINVAL, "device buffer: no host memory given");
	if (in && rlx_arena_flags(b->arena) & RLX_ARENA_RDONLY)
		return rlx_fail(err, RLX_EACCES, "device buffer: it is read-only");
	at = rlx_buf_ptr(buf);
	if (is_apart(b->dev))
		st = b->dev->be->memory->buffer_copy(b->dev, (uintptr_t)at, host, bytes, in, err);
	else
		memcpy(in ? at : host, in ? host : at, bytes);
	if (!st)
		rlx_stat_copied(bytes);
	return st;
}

enum rlx_status rlx_device_buffer_write(struct rlx_device_buffer *b, uint64_t offset,
					uint64_t bytes, const void *data, struct rlx_error *err)
{
	return copy(b, offset, bytes, (void *)(uintptr_t)data, true, err);
}

enum rlx_status rlx_device_buffer_read(struct rlx_device_buffer *b, uint64_t offset,
				       uint64_t bytes, void *data, struct rlx_error *err)
{
	return copy(b, offset, bytes, data, false, err);
}

/* ---- sessions ---- */

static enum rlx_status bind_device(struct rlx_session *s, enum rlx_io io, unsigned int i,
				   struct rlx_device_buffer *b, uint64_t offset)
{
	const struct rlx_slot *slot = &s->slot[io][i];
	const char *kind = rlx_slot_kind(s, io, i);
	struct rlx_buf buf;
	enum rlx_status st = part(b, offset, slot->bytes, &buf, &s->err);

	if (st)
		return st;
	if (io == RLX_IO_PARAM || slot->state || slot->feeds >= 0 || rlx_slot_is_fed(s, io, i))
		return rlx_fail(&s->err, RLX_EINVAL, "%s '%s' takes no device buffer: %s", kind,
				slot->name, io == RLX_IO_PARAM || slot->state ?
				"a device keeps it by itself" : "it is fed; end that first");
	if (is_apart(b->dev) ? b->dev != s->p->dev : is_apart(s->p->dev))
		return rlx_fail(&s->err, RLX_EINVAL, "%s '%s': the buffer is of device '%s', the "
				"program of '%s'", kind, slot->name,
				b->dev->name, s->p->dev->name);
	return is_apart(b->dev) ? rlx_slot_bind_device(s, io, i, buf) :
	       rlx_slot_bind(s, io, i, buf);
}

enum rlx_status rlx_session_bind_device(struct rlx_session *s, enum rlx_io io, const char *name,
					struct rlx_device_buffer *b, uint64_t offset)
{
	unsigned int i;

	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_find(s, &io, name, &i) ? bind_device(s, io, i, b, offset) : s->err.status;
}

enum rlx_status rlx_session_bind_device_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
					   struct rlx_device_buffer *b, uint64_t offset)
{
	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_at(s, &io, &i) ? bind_device(s, io, i, b, offset) : s->err.status;
}

/* ---- DLPack ---- */

static enum rlx_status import(struct rlx_dl_managed *plain, struct rlx_dl_versioned *versioned,
			      struct rlx_type *type, struct rlx_device_buffer **out,
			      struct rlx_error *err)
{
	struct rlx_device_buffer *b;
	struct rlx_arena_user user;
	struct rlx_dl_device at;
	bool apart = false;
	char name[24] = "cpu";
	enum rlx_status st;
	size_t i;

	if (out)
		*out = NULL;
	st = rlx_dl_look(plain, versioned, out ? type : NULL, &user, err);
	if (st)
		return st;
	at = plain ? plain->tensor.device : versioned->tensor.device;
	for (i = 0; i < sizeof(dl_names) / sizeof(dl_names[0]); i++)
		if (at.device_type == dl_names[i].type) {
			apart = true;
			snprintf(name, sizeof(name), "%s:%u", dl_names[i].backend,
				 (unsigned int)at.device_id);
		}
	if (!apart)
		st = rlx_dl_check_reach(at, err);
	if (!st)
		st = open_buffer(name, &b, err);
	if (st)
		return st;
	st = take(b, &user, (uint64_t)rlx_type_bytes(type), err);
	if (st)
		close_buffer(b);
	else
		*out = b;
	return st;
}

enum rlx_status rlx_dl_import_device(struct rlx_dl_managed *dl, struct rlx_type *out_type,
				     struct rlx_device_buffer **out, struct rlx_error *err)
{
	return import(dl, NULL, out_type, out, err);
}

enum rlx_status rlx_dl_import_device_versioned(struct rlx_dl_versioned *dl,
					       struct rlx_type *out_type,
					       struct rlx_device_buffer **out,
					       struct rlx_error *err)
{
	return import(NULL, dl, out_type, out, err);
}

enum rlx_status rlx_dl_export_device(struct rlx_device_buffer *b, uint64_t offset,
				     const struct rlx_type *type, struct rlx_dl_managed **out,
				     struct rlx_error *err)
{
	struct rlx_buf buf;
	enum rlx_status st = part(b, offset, 0, &buf, err);

	return st ? st : rlx_dl_export(buf, type, out, err);
}

enum rlx_status rlx_dl_export_device_versioned(struct rlx_device_buffer *b, uint64_t offset,
					       const struct rlx_type *type,
					       struct rlx_dl_versioned **out,
					       struct rlx_error *err)
{
	struct rlx_buf buf;
	enum rlx_status st = part(b, offset, 0, &buf, err);

	return st ? st : rlx_dl_export_versioned(buf, type, out, err);
}
