// SPDX-License-Identifier: MIT
/*
 * Inputs and outputs that lie by strides. Kernels read and write dense tensors: before a run
 * such an input is copied to the session's own memory, and after it an output from there. All
 * inputs are there before the first output is written, so that views may overlap each other.
 */
#include "base/alloc.h"
#include "base/shape.h"
#include "base/strided.h"
#include "mem/arena.h"
#include "rt/session.h"

void rlx_slot_drop_view(struct rlx_slot *slot)
{
	if (!slot->view)
		return;
	rlx_arena_put(slot->view->buf.arena);
	rlx_free(slot->view);
	slot->view = NULL;
}

static void copy(const struct rlx_slot *slot, const struct rlx_view *v, bool in)
{
	char *far = (char *)rlx_buf_ptr(v->buf) + v->first, *own = rlx_buf_ptr(slot->buf);
	int64_t dense[RLX_MAX_RANK];

	shape_dense(slot->type, dense);
	if (in)
		rlx_strided_copy(slot->type, own, dense, far, v->stride);
	else
		rlx_strided_copy(slot->type, far, v->stride, own, dense);
	rlx_stat_copied(slot->bytes);
}

void rlx_session_copy_views(struct rlx_session *s, enum rlx_io io)
{
	unsigned int i, n = rlx_slot_count(s, io);

	for (i = 0; i < n; i++)
		if (s->slot[io][i].view)
			copy(&s->slot[io][i], s->slot[io][i].view, io == RLX_IO_INPUT);
}

static enum rlx_status check_place(struct rlx_session *s, enum rlx_io io, unsigned int i,
				   const struct rlx_view *v)
{
	const struct rlx_slot *slot = &s->slot[io][i];
	const char *kind = rlx_slot_kind(s, io, i);
	size_t align = rlx_dtype_align(slot->type->dtype);
	uint64_t down, up;

	if (!v->buf.arena || !rlx_buf_ptr(v->buf))
		return rlx_fail(&s->err, RLX_EINVAL,
				"%s '%s': the buffer is empty or lies outside its arena", kind,
				slot->name);
	if (!rlx_strided_reach(slot->type, v->stride, &down, &up) || down > v->first ||
	    v->first > v->buf.bytes || up > v->buf.bytes - v->first)
		return rlx_fail(&s->err, RLX_ERANGE,
				"%s '%s': by these strides some element lies outside the buffer, "
				"which has %llu bytes", kind, slot->name,
				(unsigned long long)v->buf.bytes);
	if (((uintptr_t)rlx_buf_ptr(v->buf) + v->first) % align)
		return rlx_fail(&s->err, RLX_ERANGE,
				"%s '%s': its first element is not at a multiple of %zu bytes, as "
				"%s needs", kind, slot->name, align,
				rlx_dtype_name(slot->type->dtype));
	if (io == RLX_IO_OUTPUT && !rlx_strided_apart(slot->type, v->stride))
		return rlx_fail(&s->err, RLX_EINVAL,
				"%s '%s': by these strides elements share a place", kind,
				slot->name);
	if (io == RLX_IO_OUTPUT && rlx_arena_flags(v->buf.arena) & RLX_ARENA_RDONLY)
		return rlx_fail(&s->err, RLX_EACCES, "%s '%s': the arena is mapped read-only",
				kind, slot->name);
	return RLX_OK;
}

/* Why this one cannot be a copy before or after each run. */
static enum rlx_status check_copy(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	const struct rlx_slot *slot = &s->slot[io][i];
	const char *kind = rlx_slot_kind(s, io, i), *why = NULL;

	if (s->strict)
		return rlx_fail(&s->err, RLX_EACCES,
				"%s '%s': the session is strict and copies nothing, and kernels "
				"take dense tensors only", kind, slot->name);
	if (slot->state)
		why = "a state stays where it is from run to run";
	else if (io == RLX_IO_PARAM)
		why = "a param is read in place; set it instead";
	else if (slot->feeds >= 0 || rlx_slot_is_fed(s, io, i))
		why = "it is fed: end that first";
	return why ? rlx_fail(&s->err, RLX_EINVAL, "%s '%s' cannot lie by strides: %s", kind,
			      slot->name, why) : RLX_OK;
}

static enum rlx_status bind_view(struct rlx_session *s, enum rlx_io io, unsigned int i,
				 const struct rlx_view *v)
{
	struct rlx_slot *slot = &s->slot[io][i];
	struct rlx_view *own;
	enum rlx_status st = check_place(s, io, i, v);

	if (st)
		return st;
	if (rlx_strided_dense(slot->type, v->stride)) {
		struct rlx_buf b = v->buf;

		b.offset += v->first;
		b.bytes -= v->first;
		return rlx_slot_bind(s, io, i, b);
	}
	st = check_copy(s, io, i);
	if (st)
		return st;
	own = rlx_malloc(sizeof(*own));
	if (!own)
		return rlx_fail(&s->err, RLX_ENOMEM, "session: out of memory");
	if (slot->bound)
		rlx_slot_unbind(s, io, i);
	st = rlx_slot_own(s, io, i);
	if (st) {
		rlx_free(own);
		return st;
	}
	*own = *v;
	rlx_arena_get(own->buf.arena);
	rlx_slot_drop_view(slot);
	slot->view = own;
	slot->filled = true;
	slot->blank = false;
	s->ready = false;
	rlx_content_changed(s, io, i);
	return RLX_OK;
}

enum rlx_status rlx_session_bind_view(struct rlx_session *s, enum rlx_io io, const char *name,
				      const struct rlx_view *view)
{
	unsigned int i;

	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	if (!view)
		return rlx_fail(&s->err, RLX_EINVAL, "session: no view given");
	return rlx_slot_find(s, &io, name, &i) ? bind_view(s, io, i, view) : s->err.status;
}

enum rlx_status rlx_session_bind_view_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
					 const struct rlx_view *view)
{
	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	if (!view)
		return rlx_fail(&s->err, RLX_EINVAL, "session: no view given");
	return rlx_slot_at(s, &io, &i) ? bind_view(s, io, i, view) : s->err.status;
}
