// SPDX-License-Identifier: MIT
/* A session like another one, with as much of it as is asked for. */
#include <string.h>

#include "base/alloc.h"
#include "mem/arena.h"
#include "rt/session.h"

enum {
	ALL_FLAGS = RLX_CLONE_FEEDS | RLX_CLONE_EXTENT | RLX_CLONE_WANT | RLX_CLONE_STATES,
};

enum rlx_status rlx_session_clone(const struct rlx_session *s,
				  struct rlx_session **out, struct rlx_error *err)
{
	struct rlx_session_opts o = { .size = sizeof(o) };
	struct rlx_session *c = NULL;
	enum rlx_status st;
	unsigned int i;

	if (!s || !out)
		return rlx_fail(err, RLX_EINVAL, "session clone: nothing to clone");
	o.strict = s->strict;
	st = rlx_session_new(s->p, &o, &c, err);
	if (st)
		return st;
	for (i = 0; i < rlx_slot_count(s, RLX_IO_PARAM); i++) {
		const struct rlx_slot *from = &s->slot[RLX_IO_PARAM][i];

		if (!from->buf.arena)
			continue;
		rlx_slot_share(&c->slot[RLX_IO_PARAM][i], from);
		rlx_slot_apply(c, RLX_IO_PARAM, i);
	}
	rlx_placements_copy(c, s);
	*out = c;
	return RLX_OK;
}

/* Of pairs that are no states, which every session has. */
static enum rlx_status copy_feeds(struct rlx_session *c, const struct rlx_session *s)
{
	const struct rlx_slot *out = s->slot[RLX_IO_OUTPUT];
	enum rlx_status st = RLX_OK;
	unsigned int o;

	for (o = 0; !st && o < rlx_slot_count(s, RLX_IO_OUTPUT); o++)
		if (out[o].feeds >= 0 && !out[o].state)
			st = rlx_session_feed(c, out[o].name,
					      s->slot[RLX_IO_INPUT][out[o].feeds].name);
	return st;
}

static enum rlx_status copy_want(struct rlx_session *c, const struct rlx_session *s)
{
	size_t n = (size_t)s->p->plan->n_val + 1;

	if (!s->want)
		return RLX_OK;
	c->want = rlx_calloc(n, 1);
	if (!c->want)
		return rlx_fail(&c->err, RLX_ENOMEM, "session: out of memory");
	memcpy(c->want, s->want, n);
	c->skip_stale = true;
	return RLX_OK;
}

/* Where they are: a strict session copies nothing of its caller's, and this is not. */
static enum rlx_status copy_value(struct rlx_session *c, struct rlx_session *s, enum rlx_io io,
				  const char *name, uint64_t bytes)
{
	struct rlx_buf from = rlx_session_bound(s, io, name), to;

	if (s->err.status)
		return rlx_fail(&c->err, s->err.status, "%s", s->err.text);
	to = rlx_session_buf(c, io, name);
	if (c->err.status)
		return c->err.status;
	memcpy(rlx_buf_ptr(to), rlx_buf_ptr(from), bytes);
	rlx_stat_copied(bytes);
	return RLX_OK;
}

static enum rlx_status copy_states(struct rlx_session *c, struct rlx_session *s)
{
	const struct rlx_slot *in = s->slot[RLX_IO_INPUT];
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = 0; !st && i < rlx_slot_count(s, RLX_IO_INPUT); i++)
		if ((in[i].filled || (in[i].given && *in[i].given)) &&
		    (in[i].state || rlx_slot_is_fed(s, RLX_IO_INPUT, i)))
			st = copy_value(c, s, in[i].state ? RLX_IO_STATE : RLX_IO_INPUT,
					in[i].name, in[i].bytes);
	return st;
}

enum rlx_status rlx_session_clone_with(struct rlx_session *s, uint32_t flags,
				       struct rlx_session **out, struct rlx_error *err)
{
	struct rlx_session *c = NULL;
	enum rlx_status st;

	if (!s || !out || flags & ~(uint32_t)ALL_FLAGS)
		return rlx_fail(err, RLX_EINVAL, "session clone: %s", s && out ?
				"a flag is none of enum rlx_clone_flags" : "nothing to clone");
	*out = NULL;
	if (rlx_session_not_busy(s))
		return rlx_fail(err, s->err.status, "session clone: %s", s->err.text);
	st = rlx_session_clone(s, &c, err);
	if (st)
		return st;
	if (flags & RLX_CLONE_EXTENT) {
		c->exec->extent = s->exec->extent;
		c->exec->upper = s->exec->upper;
	}
	if (flags & RLX_CLONE_FEEDS)
		st = copy_feeds(c, s);
	if (!st && flags & RLX_CLONE_WANT)
		st = copy_want(c, s);
	if (!st && flags & RLX_CLONE_STATES)
		st = copy_states(c, s);
	if (st) {
		rlx_fail(err, st, "session clone: %s", c->err.text);
		rlx_session_free(c);
		return st;
	}
	*out = c;
	return RLX_OK;
}
