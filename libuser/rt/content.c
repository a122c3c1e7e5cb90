// SPDX-License-Identifier: MIT
/*
 * What inputs hold, so that a device does not bring it again while it is the same, and where the
 * bytes of a value are. Memory counts as unchanged until something is said only where nobody else
 * can write to it, or the caller has promised to tell.
 */
#include "mem/arena.h"
#include "rt/session.h"

void rlx_content_changed(struct rlx_session *s, enum rlx_io list, unsigned int i)
{
	struct rlx_slot *slot = &s->slot[list][i];
	struct rlx_content *c;
	bool alone;

	slot->fetched = false;
	if (list != RLX_IO_INPUT)
		return;
	c = &s->content[i];
	/* of a state, or in the arena of another session: no memory of the slot's own */
	alone = slot->own.arena && !slot->bound && !slot->shown;
	c->promised = slot->stable && !slot->staged;
	c->version = (alone && !slot->staged && !slot->view) || c->promised ? ++s->versions : 0;
}

void rlx_content_shown(struct rlx_session *s, enum rlx_io list, unsigned int i)
{
	struct rlx_slot *slot = &s->slot[list][i];

	if (slot->bound || slot->shown || !slot->own.arena)
		return;
	slot->shown = true;
	if (list == RLX_IO_INPUT)
		s->content[i].version = 0;
}

void rlx_content_ran(struct rlx_session *s, enum rlx_status st)
{
	const struct rlx_plan *p = s->p->plan;
	unsigned int o;

	for (o = 0; o < p->n_io[RLX_IO_OUTPUT]; o++) {
		const struct rlx_plan_io *e = &p->io[RLX_IO_OUTPUT][o];
		struct rlx_slot *out = &s->slot[RLX_IO_OUTPUT][o];

		if (s->persistent[o])
			s->slot[RLX_IO_INPUT][out->feeds].fetched = false;
		out->fetched = false;
		if (!s->want || s->want[p->val[e->val].root])
			out->computed = !st;
	}
}

static bool has_value(enum rlx_io list, const struct rlx_slot *slot)
{
	if (list == RLX_IO_OUTPUT)
		return slot->computed;
	return slot->filled || (slot->given && *slot->given);
}

static enum rlx_status where(struct rlx_session *s, enum rlx_io list, unsigned int i,
			     uint32_t *out)
{
	const struct rlx_backend *be = s->p->dev->be;
	const struct rlx_slot *slot = &s->slot[list][i];
	bool device;

	if (!out)
		return rlx_fail(&s->err, RLX_EINVAL, "%s '%s': no place for where it is given",
				rlx_slot_kind(s, list, i), slot->name);
	*out = 0;
	if (!has_value(list, slot))
		return RLX_OK;
	if (slot->device) {
		*out = RLX_WHERE_DEVICE;
		return RLX_OK;
	}
	device = be->has && s->ptr[list][i] && be->has(s->exec, list, i);
	if (device)
		*out |= RLX_WHERE_DEVICE;
	if (!device || !rlx_slot_is_persistent(s, list, i) || slot->fetched)
		*out |= RLX_WHERE_HOST;
	return RLX_OK;
}

enum rlx_status rlx_session_where(struct rlx_session *s, enum rlx_io io, const char *name,
				  uint32_t *out)
{
	unsigned int i;

	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_find(s, &io, name, &i) ? where(s, io, i, out) : s->err.status;
}

enum rlx_status rlx_session_where_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
				     uint32_t *out)
{
	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_at(s, &io, &i) ? where(s, io, i, out) : s->err.status;
}

static enum rlx_status touch(struct rlx_session *s, enum rlx_io list, unsigned int i)
{
	const struct rlx_slot *slot = &s->slot[list][i];

	if (list == RLX_IO_OUTPUT || !has_value(list, slot))
		return rlx_fail(&s->err, RLX_EINVAL, "%s '%s' %s", rlx_slot_kind(s, list, i),
				slot->name, list == RLX_IO_OUTPUT ?
				"is what runs write: there is nothing to tell of" :
				"has no value; bind or set it");
	if (list == RLX_IO_PARAM || rlx_slot_is_persistent(s, list, i))
		rlx_slot_apply(s, list, i);
	else
		rlx_content_changed(s, list, i);
	return RLX_OK;
}

enum rlx_status rlx_session_touch(struct rlx_session *s, enum rlx_io io, const char *name)
{
	unsigned int i;

	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_find(s, &io, name, &i) ? touch(s, io, i) : s->err.status;
}

enum rlx_status rlx_session_touch_at(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_at(s, &io, &i) ? touch(s, io, i) : s->err.status;
}

static enum rlx_status bind_stable(struct rlx_session *s, enum rlx_io list, unsigned int i,
				   struct rlx_buf buf)
{
	struct rlx_slot *slot = &s->slot[list][i];
	enum rlx_status st;

	if (list == RLX_IO_OUTPUT || slot->state || rlx_slot_is_fed(s, list, i))
		return rlx_fail(&s->err, RLX_EINVAL, "%s '%s' cannot be stable: %s",
				rlx_slot_kind(s, list, i), slot->name,
				list == RLX_IO_OUTPUT || slot->state ? "runs write to it" :
				"it is fed; end that first");
	st = rlx_slot_bind(s, list, i, buf);
	if (st || list == RLX_IO_PARAM)		/* which is so anyway */
		return st;
	slot->stable = true;
	rlx_content_changed(s, list, i);
	return RLX_OK;
}

enum rlx_status rlx_session_bind_stable(struct rlx_session *s, enum rlx_io io, const char *name,
					struct rlx_buf buf)
{
	unsigned int i;

	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_find(s, &io, name, &i) ? bind_stable(s, io, i, buf) : s->err.status;
}

enum rlx_status rlx_session_bind_stable_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
					   struct rlx_buf buf)
{
	if (!s || rlx_session_not_busy(s))
		return s ? s->err.status : RLX_EINVAL;
	return rlx_slot_at(s, &io, &i) ? bind_stable(s, io, i, buf) : s->err.status;
}
