// SPDX-License-Identifier: MIT
/* Binding, filling and reading a session's inputs, params and outputs. */
#include <string.h>

#include "base/alloc.h"
#include "mem/arena.h"
#include "ir/element.h"
#include "ir/graph.h"
#include "rt/convert.h"
#include "rt/session.h"

static const char *const io_names[] = {
	[RLX_IO_INPUT] = "input", [RLX_IO_PARAM] = "param", [RLX_IO_OUTPUT] = "output",
	[RLX_IO_STATE] = "state",
};

/* What messages call an entry of the plan's lists. */
const char *rlx_slot_kind(const struct rlx_session *s, enum rlx_io list, unsigned int i)
{
	return io_names[rlx_io_of(list, s->slot[list][i].state)];
}

struct rlx_slot *rlx_slot_find(struct rlx_session *s, enum rlx_io *io,
			       const char *name, unsigned int *out_i)
{
	int i = (unsigned int)*io <= RLX_IO_STATE ? rlx_program_io_find(s->p, *io, name) : -1;
	char known[256];
	size_t n = 0;
	unsigned int k;

	*out_i = (unsigned int)i;
	if (i >= 0 && rlx_program_entry(s->p, io, out_i))
		return &s->slot[*io][*out_i];
	if ((unsigned int)*io > RLX_IO_STATE || !name) {
		rlx_fail(&s->err, RLX_EINVAL, "session: %s", name ?
			 "io is not one of enum rlx_io" : "no name given");
		return NULL;
	}
	known[0] = 0;
	for (k = 0; k < rlx_program_io_count(s->p, *io) && n < sizeof(known); k++)
		n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", k ? ", " : "",
				      rlx_program_io_name(s->p, *io, k));
	rlx_fail(&s->err, RLX_ENOENT, "no %s '%.64s'; there %s %s", io_names[*io], name,
		 k == 1 ? "is" : "are", k ? known : "none");
	return NULL;
}

struct rlx_slot *rlx_slot_at(struct rlx_session *s, enum rlx_io *io, unsigned int *i)
{
	unsigned int n = rlx_program_io_count(s->p, *io);

	if (rlx_program_entry(s->p, io, i))
		return &s->slot[*io][*i];
	if ((unsigned int)*io > RLX_IO_STATE)
		rlx_fail(&s->err, RLX_EINVAL, "session: io is not one of enum rlx_io");
	else
		rlx_fail(&s->err, RLX_ENOENT, "no %s of index %u; there %s %u, counted from 0",
			 io_names[*io], *i, n == 1 ? "is" : "are", n);
	return NULL;
}

/* Memory of the session's own, from its arena. */
static enum rlx_status own_memory(struct rlx_session *s, uint64_t bytes,
				  struct rlx_buf *out)
{
	struct rlx_arena_opts o = { .name = "rlx-tensor" };
	struct rlx_arena *a;
	enum rlx_status st;

	bytes = bytes ? bytes : 1;
	if (s->arena) {
		st = rlx_buf_new(s->arena, bytes, 64, out, NULL);
		if (!st) {
			rlx_arena_get(out->arena);
			return RLX_OK;
		}
	}
	/* not foreseen in the session's arena (a param, a staged input): one more */
	o.size = bytes;
	st = rlx_arena_new(&o, &a, &s->err);
	if (!st)
		*out = (struct rlx_buf){ a, 0, bytes };
	return st;
}

static void drop(struct rlx_buf *b, bool own)
{
	if (b->arena) {
		if (own)
			rlx_buf_free(*b, NULL);
		rlx_arena_put(b->arena);
	}
	*b = (struct rlx_buf){ 0 };
}

static void put_shared(struct rlx_slot *slot)
{
	struct rlx_own *o = slot->shared;

	slot->shared = NULL;
	if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
		return;
	drop(&o->buf, true);
	rlx_free(o);
}

void rlx_slot_share(struct rlx_slot *to, const struct rlx_slot *from)
{
	struct rlx_own *o = from->shared;

	to->buf = from->buf;
	to->filled = from->filled;
	rlx_arena_get(to->buf.arena);
	if (!o || o->buf.arena != to->buf.arena || o->buf.offset != to->buf.offset)
		return;		/* it is the caller's, who keeps it */
	atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
	to->shared = o;
}

void rlx_slot_fini(struct rlx_slot *slot)
{
	drop(&slot->buf, false);
	if (slot->shared)
		put_shared(slot);
	else
		drop(&slot->own, true);
	drop(&slot->stage, true);
	rlx_slot_drop_view(slot);
}

void rlx_slot_mirror(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	struct rlx_slot *in = &s->slot[io][i], *out;

	if (io != RLX_IO_INPUT || !in->state || in->other < 0)
		return;
	out = &s->slot[RLX_IO_OUTPUT][in->other];
	rlx_arena_get(in->buf.arena);
	drop(&out->buf, false);
	out->buf = in->buf;
	rlx_slot_apply(s, RLX_IO_OUTPUT, (unsigned int)in->other);
}

static enum rlx_status own_param(struct rlx_session *s, struct rlx_slot *slot)
{
	struct rlx_own *o;
	enum rlx_status st;

	if (slot->own.arena)
		return RLX_OK;
	o = rlx_calloc(1, sizeof(*o));
	if (!o)
		return rlx_fail(&s->err, RLX_ENOMEM, "session: out of memory");
	st = own_memory(s, slot->bytes, &o->buf);
	if (st) {
		rlx_free(o);
		return st;
	}
	atomic_init(&o->refs, 1);
	slot->shared = o;
	slot->own = o->buf;
	return RLX_OK;
}

enum rlx_status rlx_slot_own(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	struct rlx_slot *slot = &s->slot[io][i];
	enum rlx_status st;

	if (slot->buf.arena)
		return RLX_OK;
	if (io == RLX_IO_PARAM)
		st = own_param(s, slot);
	else
		st = slot->own.arena ? RLX_OK : own_memory(s, slot->bytes, &slot->own);
	if (st)
		return st;
	slot->buf = slot->own;
	rlx_arena_get(slot->buf.arena);
	rlx_slot_apply(s, io, i);
	rlx_slot_mirror(s, io, i);
	return RLX_OK;
}

/* Its buffer, as far as the host can follow the address. */
static struct rlx_buf *host_buf(struct rlx_slot *slot)
{
	return slot->device ? &slot->own : &slot->buf;
}

void rlx_slot_apply(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	struct rlx_slot *slot = &s->slot[io][i];

	struct rlx_buf *b = slot->staged ? &slot->stage : host_buf(slot);

	s->ptr[io][i] = rlx_buf_ptr(*b);
	s->exec->at[io][i] = slot->device ? (uintptr_t)rlx_buf_ptr(slot->buf) : 0;
	s->arenas[io][i] = b->arena;
	if (io == RLX_IO_PARAM)
		rlx_skip_param_changed(s);
	rlx_content_changed(s, io, i);
	s->p->dev->be->bind(s->exec, io, i);
}

/* An input that an output overlaps is read from a copy, if it is all of it. */
static enum rlx_status stage_input(struct rlx_session *s, unsigned int i)
{
	struct rlx_slot *in = &s->slot[RLX_IO_INPUT][i];
	bool hit, was = in->staged;
	enum rlx_status st = rlx_input_over_outputs(s, i, &hit);

	if (st)
		return st;
	if (in->device)		/* which sees to a copy, if one is needed */
		return RLX_OK;
	if (hit && s->strict)
		return rlx_fail(&s->err, RLX_EACCES,
				"input '%s' shares its memory with an output, which takes "
				"a copy, and the session is strict",
				in->name);
	if (hit && !in->stage.arena) {
		st = own_memory(s, in->bytes, &in->stage);
		if (st)
			return st;
	}
	in->staged = hit;
	if (hit || was)
		rlx_slot_apply(s, RLX_IO_INPUT, i);
	return RLX_OK;
}

enum rlx_status rlx_slots_ready(struct rlx_session *s)
{
	enum rlx_status st = RLX_OK;
	unsigned int i;
	int io;

	for (io = RLX_IO_INPUT; io <= RLX_IO_PARAM; io++)
		for (i = 0; i < rlx_slot_count(s, io); i++)
			if (!s->slot[io][i].filled &&
			    !(s->slot[io][i].given && *s->slot[io][i].given))
				return rlx_fail(&s->err, RLX_EINVAL,
						"%s '%s' has no value; bind or set it before the run",
						rlx_slot_kind(s, io, i), s->slot[io][i].name);
	for (i = 0; !st && i < rlx_slot_count(s, RLX_IO_OUTPUT); i++)
		if (!s->slot[RLX_IO_OUTPUT][i].state)	/* it has the input's */
			st = rlx_slot_own(s, RLX_IO_OUTPUT, i);
	if (!st)
		st = rlx_outputs_disjoint(s);
	for (i = 0; !st && i < rlx_slot_count(s, RLX_IO_INPUT); i++)
		st = stage_input(s, i);
	s->ready = !st;
	return st;
}

/* Is it an input that an output becomes? Its buffer is written to from then on. */
bool rlx_slot_is_fed(const struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	unsigned int o, n = rlx_slot_count(s, RLX_IO_OUTPUT);

	for (o = 0; io == RLX_IO_INPUT && o < n; o++)
		if (s->slot[RLX_IO_OUTPUT][o].feeds == (int)i)
			return true;
	return false;
}

/* Is it a fed output that the device keeps, or the input that it becomes? */
bool rlx_slot_is_persistent(const struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	unsigned int o, n = rlx_slot_count(s, RLX_IO_OUTPUT);

	for (o = 0; o < n; o++)
		if (s->persistent[o] && (io == RLX_IO_OUTPUT ? o == i : io == RLX_IO_INPUT &&
					 s->slot[RLX_IO_OUTPUT][o].feeds == (int)i))
			return true;
	return false;
}

/* What of it is in the device's memory alone, into the buffer it has. */
static enum rlx_status fetch(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	struct rlx_slot *slot = &s->slot[io][i];
	enum rlx_status st;

	if (slot->device) {
		s->exec->moved.out++;
		s->exec->moved.out_bytes += slot->bytes;
		return s->p->dev->be->memory->buffer_copy(s->p->dev, s->exec->at[io][i],
							  s->ptr[io][i], slot->bytes, false,
							  &s->err);
	}
	if (!rlx_slot_is_persistent(s, io, i) || !s->ptr[io][i])
		return RLX_OK;
	st = s->p->dev->be->fetch(s->exec, io, i);
	s->slot[io][i].fetched = !st;
	return st;
}

enum rlx_status rlx_session_not_busy(struct rlx_session *s)
{
	s->err = (struct rlx_error){ 0 };
	if (rlx_runner_busy(s))
		return rlx_fail(&s->err, RLX_EBUSY,
				"a submitted run is under way; wait for it first");
	return RLX_OK;
}

static enum rlx_status check_align(struct rlx_session *s, enum rlx_io io, unsigned int i,
				   struct rlx_buf buf)
{
	enum rlx_dtype dt = s->slot[io][i].type->dtype;
	const struct rlx_device *dev = s->p->dev;
	size_t align = dev->be->align ? dev->be->align : rlx_dtype_align(dt);
	size_t past = (uintptr_t)rlx_buf_ptr(buf) % align;

	if (!past)
		return RLX_OK;
	return rlx_fail(&s->err, RLX_ERANGE, "%s '%s': the buffer begins %zu past a %zu-byte "
			"boundary, at which %s takes %s; copy it to one", rlx_slot_kind(s, io, i),
			s->slot[io][i].name, past, align, dev->be->name, rlx_dtype_name(dt));
}

/* Is all of it in @buf? */
static enum rlx_status check_room(struct rlx_session *s, enum rlx_io io, unsigned int i,
				  struct rlx_buf buf)
{
	const struct rlx_slot *slot = &s->slot[io][i];
	uint64_t bytes = slot->bytes;

	if (!buf.arena || !rlx_buf_ptr(buf))
		return rlx_fail(&s->err, RLX_EINVAL,
				"%s '%s': the buffer is empty or lies outside its arena",
				rlx_slot_kind(s, io, i), slot->name);
	if (buf.bytes < bytes)
		return rlx_fail(&s->err, RLX_ERANGE,
				"%s '%s': the buffer has %llu bytes of %llu", rlx_slot_kind(s, io, i),
				slot->name, (unsigned long long)buf.bytes,
				(unsigned long long)bytes);
	return check_align(s, io, i, buf);
}

static enum rlx_status bind_slot(struct rlx_session *s, enum rlx_io io, unsigned int i,
				 struct rlx_buf buf, bool device)
{
	struct rlx_slot *slot = &s->slot[io][i];

	if (check_room(s, io, i, buf))
		return s->err.status;
	if ((io == RLX_IO_OUTPUT || slot->state || rlx_slot_is_fed(s, io, i)) &&
	    rlx_arena_flags(buf.arena) & RLX_ARENA_RDONLY)
		return rlx_fail(&s->err, RLX_EACCES, "%s '%s': the arena is mapped read-only",
				rlx_slot_kind(s, io, i), slot->name);
	rlx_arena_get(buf.arena);
	drop(&slot->buf, false);
	if (!slot->own.arena)
		put_shared(slot);
	rlx_slot_drop_view(slot);
	slot->buf = buf;
	slot->bound = true;
	slot->device = device;
	slot->filled = true;
	slot->staged = false;
	slot->stable = false;
	slot->computed = false;
	slot->given = NULL;
	s->ready = false;
	rlx_slot_apply(s, io, i);
	rlx_slot_mirror(s, io, i);
	return RLX_OK;
}

enum rlx_status rlx_slot_bind(struct rlx_session *s, enum rlx_io io, unsigned int i,
			      struct rlx_buf buf)
{
	return bind_slot(s, io, i, buf, false);
}

enum rlx_status rlx_slot_bind_device(struct rlx_session *s, enum rlx_io io, unsigned int i,
				     struct rlx_buf buf)
{
	struct rlx_slot *slot = &s->slot[io][i];
	bool blank = !slot->own.arena;
	enum rlx_status st;

	st = blank ? own_memory(s, slot->bytes, &slot->own) : RLX_OK;
	if (!st)
		st = bind_slot(s, io, i, buf, true);
	slot->blank = slot->blank || blank || !st || !slot->filled;
	return st;
}

enum rlx_status rlx_session_bind(struct rlx_session *s, enum rlx_io io,
				 const char *name, struct rlx_buf buf)
{
	unsigned int i;

	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_find(s, &io, name, &i) ? rlx_slot_bind(s, io, i, buf) : s->err.status;
}

enum rlx_status rlx_session_bind_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
				    struct rlx_buf buf)
{
	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_at(s, &io, &i) ? rlx_slot_bind(s, io, i, buf) : s->err.status;
}

/* A run that a thread of ours has is left alone: the backend is that thread's. */
enum rlx_status rlx_session_prefetch(struct rlx_session *s, enum rlx_io io, const char *name,
				     struct rlx_buf buf)
{
	const struct rlx_backend *be;
	unsigned int i;

	if (!s)
		return RLX_EINVAL;
	s->err = (struct rlx_error){ 0 };
	if (io != RLX_IO_INPUT)
		return rlx_fail(&s->err, RLX_EINVAL, "prefetch: inputs alone are brought ahead");
	if (!rlx_slot_find(s, &io, name, &i) ||
	    (buf.arena ? check_room(s, io, i, buf) : rlx_session_not_busy(s)))
		return s->err.status;
	be = s->p->dev->be;
	if (!be->prefetch || (rlx_runner_busy(s) && !s->runner.away))
		return RLX_OK;
	return be->prefetch(s->exec, i, buf.arena, buf.arena ? rlx_buf_ptr(buf) : NULL);
}

/* What has no memory of ours is not looked at before it is bound or made. */
void rlx_slot_unbind(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	struct rlx_slot *slot = &s->slot[io][i];

	drop(&slot->buf, false);
	rlx_slot_drop_view(slot);
	slot->bound = false;
	slot->staged = false;
	slot->stable = false;
	slot->computed = false;
	slot->filled = slot->own.arena && !slot->blank;
	slot->device = false;
	slot->buf = slot->own;
	s->ready = false;
	if (!slot->own.arena) {		/* nor written to */
		s->ptr[io][i] = NULL;
		s->exec->at[io][i] = 0;
		s->arenas[io][i] = NULL;
		return;
	}
	rlx_arena_get(slot->buf.arena);
	rlx_slot_apply(s, io, i);
}

enum rlx_status rlx_session_unbind(struct rlx_session *s)
{
	unsigned int i;
	int io;

	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	for (io = RLX_IO_INPUT; io <= RLX_IO_OUTPUT; io += RLX_IO_OUTPUT - RLX_IO_INPUT)
		for (i = 0; i < rlx_slot_count(s, io); i++)
			if ((s->slot[io][i].bound || s->slot[io][i].view) && !s->slot[io][i].state)
				rlx_slot_unbind(s, io, i);
	return RLX_OK;
}

/* The session's own memory has the value from now on, no view and no memory of the device's. */
static void drop_other(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	rlx_slot_drop_view(&s->slot[io][i]);
	if (s->slot[io][i].device)
		rlx_slot_unbind(s, io, i);
}

static struct rlx_buf to_write(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	struct rlx_slot *slot = &s->slot[io][i];

	if (rlx_slot_own(s, io, i) || fetch(s, io, i))
		return (struct rlx_buf){ 0 };
	if (io != RLX_IO_OUTPUT)	/* the caller writes it from now on */
		drop_other(s, io, i);
	if (!slot->filled) {
		slot->filled = true;	/* the caller may write it now */
		slot->blank = false;
		s->ready = false;
	}
	if (slot->given)
		*slot->given = true;
	/* a device holds what was there */
	if (io == RLX_IO_PARAM || rlx_slot_is_persistent(s, io, i))
		rlx_slot_apply(s, io, i);
	rlx_content_shown(s, io, i);
	if (io == RLX_IO_INPUT)
		rlx_content_changed(s, io, i);
	return *host_buf(slot);
}

struct rlx_buf rlx_session_buf(struct rlx_session *s, enum rlx_io io, const char *name)
{
	unsigned int i;

	if (!s || rlx_session_not_busy(s) || !rlx_slot_find(s, &io, name, &i))
		return (struct rlx_buf){ 0 };
	return to_write(s, io, i);
}

struct rlx_buf rlx_session_buf_at(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	if (!s || rlx_session_not_busy(s) || !rlx_slot_at(s, &io, &i))
		return (struct rlx_buf){ 0 };
	return to_write(s, io, i);
}

static struct rlx_buf to_read(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	if (fetch(s, io, i))
		return (struct rlx_buf){ 0 };
	rlx_content_shown(s, io, i);
	return *host_buf(&s->slot[io][i]);
}

struct rlx_buf rlx_session_bound(struct rlx_session *s, enum rlx_io io, const char *name)
{
	unsigned int i;

	if (!s || rlx_session_not_busy(s) || !rlx_slot_find(s, &io, name, &i))
		return (struct rlx_buf){ 0 };
	return to_read(s, io, i);
}

struct rlx_buf rlx_session_bound_at(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	if (!s || rlx_session_not_busy(s) || !rlx_slot_at(s, &io, &i))
		return (struct rlx_buf){ 0 };
	return to_read(s, io, i);
}

static enum rlx_status may_copy(struct rlx_session *s, enum rlx_io io, unsigned int i,
				const struct rlx_type *given)
{
	if (s->strict)
		return rlx_fail(&s->err, RLX_EACCES,
				"%s '%s': the session is strict and copies nothing; bind a buffer",
				rlx_slot_kind(s, io, i), s->slot[io][i].name);
	return rlx_may_convert(s->slot[io][i].type, given, rlx_slot_kind(s, io, i),
			       s->slot[io][i].name, &s->err);
}

/* Copy it in. False: a device that has what was there need not bring it again. */
static bool copy_in(struct rlx_session *s, enum rlx_io io, unsigned int i, struct rlx_type type,
		    const void *data)
{
	const struct rlx_slot *slot = &s->slot[io][i];

	/* what others may have written there without a word is no proof that a device has it */
	if (io == RLX_IO_INPUT && s->p->dev->be->has && slot->filled && !slot->bound &&
	    s->content[i].version)
		return rlx_convert_if_other(*slot->type, rlx_buf_ptr(slot->buf), type, data);
	rlx_convert(*slot->type, rlx_buf_ptr(slot->buf), type, data);
	return true;
}

static enum rlx_status set_slot(struct rlx_session *s, enum rlx_io io, unsigned int i,
				struct rlx_type type, const void *data)
{
	struct rlx_slot *slot = &s->slot[io][i];
	enum rlx_status st;

	if (io == RLX_IO_OUTPUT || (!data && rlx_type_bytes(&type)))
		return rlx_fail(&s->err, RLX_EINVAL, "%s '%s': %s", rlx_slot_kind(s, io, i),
				slot->name, data ? "outputs are not set" : "no data");
	st = may_copy(s, io, i, &type);
	if (!st)
		drop_other(s, io, i);
	if (!st && rlx_arena_flags(slot->buf.arena) & RLX_ARENA_RDONLY)
		st = rlx_fail(&s->err, RLX_EACCES, "%s '%s' is bound to a read-only arena",
			      rlx_slot_kind(s, io, i), slot->name);
	if (!st)
		st = rlx_slot_own(s, io, i);
	if (st)
		return st;
	if (copy_in(s, io, i, type, data))
		rlx_content_changed(s, io, i);
	/* a device holds what was there */
	if (io == RLX_IO_PARAM || rlx_slot_is_persistent(s, io, i))
		rlx_slot_apply(s, io, i);
	if (!slot->filled) {
		slot->filled = true;
		slot->blank = false;
		s->ready = false;
	}
	if (slot->given)
		*slot->given = true;
	return RLX_OK;
}

enum rlx_status rlx_session_set(struct rlx_session *s, enum rlx_io io,
				const char *name, struct rlx_type type,
				const void *data)
{
	unsigned int i;

	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_find(s, &io, name, &i) ? set_slot(s, io, i, type, data) : s->err.status;
}

enum rlx_status rlx_session_set_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
				   struct rlx_type type, const void *data)
{
	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_at(s, &io, &i) ? set_slot(s, io, i, type, data) : s->err.status;
}

static enum rlx_status get_slot(struct rlx_session *s, enum rlx_io io, unsigned int i,
				struct rlx_type type, void *data)
{
	struct rlx_slot *slot = &s->slot[io][i];
	enum rlx_status st;

	if (!slot->buf.arena || (!data && rlx_type_bytes(&type)))
		return rlx_fail(&s->err, RLX_EINVAL, "%s '%s': %s", rlx_slot_kind(s, io, i),
				slot->name, data ? "nothing is there yet" : "no room given");
	st = may_copy(s, io, i, &type);
	if (!st)
		st = fetch(s, io, i);
	if (!st)
		rlx_convert(type, data, *slot->type, rlx_buf_ptr(*host_buf(slot)));
	return st;
}

enum rlx_status rlx_session_get(struct rlx_session *s, enum rlx_io io,
				const char *name, struct rlx_type type, void *data)
{
	unsigned int i;

	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_find(s, &io, name, &i) ? get_slot(s, io, i, type, data) : s->err.status;
}

enum rlx_status rlx_session_get_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
				   struct rlx_type type, void *data)
{
	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_at(s, &io, &i) ? get_slot(s, io, i, type, data) : s->err.status;
}

enum rlx_status rlx_session_rows(struct rlx_session *s, const char *output,
				 int64_t first, int64_t n, void *data, size_t bytes)
{
	const struct rlx_type *t;
	struct rlx_slot *slot;
	uint64_t row, want;
	unsigned int i;

	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	slot = rlx_slot_find(s, &(enum rlx_io){ RLX_IO_OUTPUT }, output, &i);
	if (!slot)
		return s->err.status;
	t = slot->type;
	if (!slot->buf.arena || !data || s->strict)
		return rlx_fail(&s->err, s->strict ? RLX_EACCES : RLX_EINVAL,
				"rows of '%s': %s", output, s->strict ?
				"the session is strict and copies nothing" :
				"no run yet, or no room given");
	if (!t->rank || first < 0 || n < 0 || first > t->dim[0] - n)
		return rlx_fail(&s->err, RLX_ERANGE,
				"rows [%lld, +%lld) of '%s': it has %lld", (long long)first,
				(long long)n, output, t->rank ? (long long)t->dim[0] : 0ll);
	row = t->dim[0] ? slot->bytes / (uint64_t)t->dim[0] : 0;
	want = row * (uint64_t)n;
	if (bytes != want)
		return rlx_fail(&s->err, RLX_ERANGE,
				"%lld rows of '%s' are %llu bytes, the room is %zu",
				(long long)n, output, (unsigned long long)want, bytes);
	if (fetch(s, RLX_IO_OUTPUT, i))
		return s->err.status;
	memcpy(data, (char *)rlx_buf_ptr(*host_buf(slot)) + (uint64_t)first * row, want);
	rlx_stat_copied(want);
	return RLX_OK;
}

/* What the device kept becomes the input's in host memory. */
static enum rlx_status end_feed(struct rlx_session *s, unsigned int o)
{
	int i = s->slot[RLX_IO_OUTPUT][o].feeds;

	if (s->persistent[o] && fetch(s, RLX_IO_INPUT, (unsigned int)i))
		return s->err.status;
	if (s->persistent[o])
		s->persistent[o] = s->p->dev->be->keep(s->exec, o, false);
	s->slot[RLX_IO_OUTPUT][o].feeds = -1;
	return RLX_OK;
}

static bool changes_no_place(const struct rlx_slot *slot)
{
	return slot->view || slot->device;
}

/* Why output @o cannot become input @i, if it cannot. */
static enum rlx_status check_feed(struct rlx_session *s, unsigned int o, unsigned int i)
{
	const char *output = s->slot[RLX_IO_OUTPUT][o].name;
	const char *input = s->slot[RLX_IO_INPUT][i].name;

	if (!rlx_type_equal(s->slot[RLX_IO_OUTPUT][o].type, s->slot[RLX_IO_INPUT][i].type))
		return rlx_fail(&s->err, RLX_ESHAPE,
				"output '%s' and input '%s' differ in type; one cannot become the other",
				output, input);
	if (changes_no_place(&s->slot[RLX_IO_INPUT][i]) ||
	    changes_no_place(&s->slot[RLX_IO_OUTPUT][o]))
		return rlx_fail(&s->err, RLX_EINVAL, "%s '%s' lies by strides or in a device "
				"buffer, and what is fed changes places; bind it densely in host "
				"memory", changes_no_place(&s->slot[RLX_IO_INPUT][i]) ? "input" :
				"output", changes_no_place(&s->slot[RLX_IO_INPUT][i]) ? input :
				output);
	if (s->slot[RLX_IO_INPUT][i].bound &&
	    rlx_arena_flags(s->slot[RLX_IO_INPUT][i].buf.arena) & RLX_ARENA_RDONLY)
		return rlx_fail(&s->err, RLX_EACCES, "input '%s': the arena is mapped read-only; "
				"'%s' could not be written there", input, output);
	return RLX_OK;
}

enum rlx_status rlx_session_feed(struct rlx_session *s, const char *output,
				 const char *input)
{
	struct rlx_slot *out = NULL;
	unsigned int i, o, k;

	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	if (!rlx_slot_find(s, &(enum rlx_io){ RLX_IO_INPUT }, input, &i))
		return s->err.status;
	if (output) {	/* what fails leaves the feeds there are */
		out = rlx_slot_find(s, &(enum rlx_io){ RLX_IO_OUTPUT }, output, &o);
		if (!out || check_feed(s, o, i))
			return s->err.status;
	}
	for (k = 0; k < rlx_slot_count(s, RLX_IO_OUTPUT); k++)
		if (s->slot[RLX_IO_OUTPUT][k].feeds == (int)i && end_feed(s, k))
			return s->err.status;
	if (!out)
		return RLX_OK;
	if (end_feed(s, o))
		return s->err.status;
	out->feeds = (int)i;
	s->slot[RLX_IO_INPUT][i].stable = false;	/* runs change it */
	rlx_content_changed(s, RLX_IO_INPUT, i);
	if (s->p->plan->io[RLX_IO_OUTPUT][o].donated == i + 1 && s->p->dev->be->keep)
		s->persistent[o] = s->p->dev->be->keep(s->exec, o, true);
	return RLX_OK;
}
