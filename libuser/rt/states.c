// SPDX-License-Identifier: MIT
/* States of programs: named tensors in one arena, which sessions of several programs share. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "mem/arena.h"
#include "rt/session.h"

struct state {
	char		*name;
	struct rlx_type	 type;
	uint64_t	 offset;
	bool		 filled;
};

struct rlx_states {
	atomic_uint	 refs;
	atomic_uint	 apart;		/* sessions that keep them in memory of their own */
	struct rlx_buf	 buf;		/* all of them */
	struct state	*e;
	unsigned int	 n;
};

static enum rlx_status no_memory(struct rlx_error *err)
{
	return rlx_fail(err, RLX_ENOMEM, "states: out of memory");
}

static enum rlx_status list_states(struct rlx_states *s, const struct rlx_program *p,
				   uint64_t *bytes, struct rlx_error *err)
{
	unsigned int i;
	uint64_t size;

	*bytes = 0;
	for (i = 0; i < s->n; i++) {
		s->e[i].type = *rlx_program_io_type(p, RLX_IO_STATE, i);
		s->e[i].name = rlx_strdup(rlx_program_io_name(p, RLX_IO_STATE, i));
		s->e[i].offset = *bytes;
		if (!s->e[i].name)
			return no_memory(err);
		size = rlx_align64((uint64_t)rlx_type_bytes(&s->e[i].type) + 1);
		if (__builtin_add_overflow(*bytes, size, bytes) || *bytes > INT64_MAX)
			return no_memory(err);
	}
	return RLX_OK;
}

enum rlx_status rlx_states_new(struct rlx_program *p, struct rlx_arena *arena,
			       struct rlx_states **out, struct rlx_error *err)
{
	struct rlx_arena_opts o = { .name = "rlx-states" };
	struct rlx_states *s;
	enum rlx_status st;

	if (!p || !out)
		return rlx_fail(err, RLX_EINVAL, "states: a program and a place for the result "
				"are needed");
	*out = NULL;
	s = rlx_calloc(1, sizeof(*s));
	if (!s)
		return no_memory(err);
	atomic_init(&s->refs, 1);
	s->n = rlx_program_io_count(p, RLX_IO_STATE);
	s->e = rlx_calloc(s->n + 1ul, sizeof(*s->e));
	st = s->e ? list_states(s, p, &o.size, err) : no_memory(err);
	o.size += 64;
	if (!st && arena)
		rlx_arena_get(arena);
	else if (!st)
		st = rlx_arena_new(&o, &arena, err);
	if (!st) {
		st = rlx_buf_new(arena, o.size, 64, &s->buf, err);
		if (st) {
			s->buf = (struct rlx_buf){ 0 };
			rlx_arena_put(arena);
		}
	}
	if (st)
		rlx_states_put(s);
	else
		*out = s;
	return st;
}

struct rlx_states *rlx_states_get(struct rlx_states *s)
{
	if (s)
		atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void rlx_states_put(struct rlx_states *s)
{
	struct rlx_arena *arena;
	unsigned int i;

	if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (i = 0; s->e && i < s->n; i++)
		rlx_free(s->e[i].name);
	rlx_free(s->e);
	arena = s->buf.arena;
	if (arena)
		rlx_buf_free(s->buf, NULL);
	rlx_arena_put(arena);
	rlx_free(s);
}

unsigned int rlx_states_count(const struct rlx_states *s)
{
	return s ? s->n : 0;
}

const char *rlx_states_name(const struct rlx_states *s, unsigned int i)
{
	return s && i < s->n ? s->e[i].name : NULL;
}

const struct rlx_type *rlx_states_type(const struct rlx_states *s, unsigned int i)
{
	return s && i < s->n ? &s->e[i].type : NULL;
}

int rlx_states_find(const struct rlx_states *s, const char *name)
{
	unsigned int i;

	for (i = 0; s && name && i < s->n; i++)
		if (!strcmp(s->e[i].name, name))
			return (int)i;
	return -1;
}

static struct rlx_buf buf_of(const struct rlx_states *s, unsigned int i)
{
	return (struct rlx_buf){ s->buf.arena, s->buf.offset + s->e[i].offset,
				 (uint64_t)rlx_type_bytes(&s->e[i].type) };
}

struct rlx_buf rlx_states_buf(struct rlx_states *s, unsigned int i)
{
	if (!s || i >= s->n)
		return (struct rlx_buf){ 0 };
	s->e[i].filled = true;
	return buf_of(s, i);
}

/* Bind state slot @i of @s to what @states has under its name. */
static enum rlx_status attach_one(struct rlx_session *s, unsigned int i,
				  struct rlx_states *states, struct rlx_error *err)
{
	struct rlx_slot *slot = &s->slot[RLX_IO_INPUT][i];
	int at = rlx_states_find(states, slot->name);
	char have[96], need[96];

	if (at < 0)
		return rlx_fail(err, RLX_ENOENT, "session: the states given have no '%s'; make "
				"them of the program that has the most", slot->name);
	if (!rlx_type_equal(&states->e[at].type, slot->type)) {
		rlx_type_print(&states->e[at].type, have, sizeof(have));
		rlx_type_print(slot->type, need, sizeof(need));
		return rlx_fail(err, RLX_ESHAPE, "session: state '%s' given is %s, the program's "
				"%s", slot->name, have, need);
	}
	slot->buf = buf_of(states, (unsigned int)at);
	rlx_arena_get(slot->buf.arena);
	slot->given = &states->e[at].filled;
	rlx_slot_apply(s, RLX_IO_INPUT, i);
	rlx_slot_mirror(s, RLX_IO_INPUT, i);
	return RLX_OK;
}

/* On a device with memory of its own states stay there from run to run. */
static bool keep_all(struct rlx_session *s)
{
	const struct rlx_backend *be = s->p->dev->be;
	struct rlx_slot *out = s->slot[RLX_IO_OUTPUT];
	unsigned int i;
	bool any = false;

	for (i = 0; be->keep && i < rlx_slot_count(s, RLX_IO_OUTPUT); i++) {
		if (!out[i].state)
			continue;
		any = true;
		s->persistent[i] = be->keep(s->exec, i, true);
		if (s->persistent[i])
			out[i].feeds = out[i].other;
	}
	return any;
}

enum rlx_status rlx_states_attach(struct rlx_session *s, struct rlx_states *states,
				  struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	unsigned int i;

	if (!s->p->plan->n_state)
		return RLX_OK;
	s->states_apart = keep_all(s);
	if (!states) {
		s->states_apart = false;
		return RLX_OK;
	}
	s->states = rlx_states_get(states);
	if (s->states_apart && atomic_fetch_add(&states->apart, 1))
		return rlx_fail(err, RLX_ENOSUP, "session: a session has these states in the "
				"memory of %s; two cannot", s->p->info.device);
	for (i = 0; !st && i < rlx_slot_count(s, RLX_IO_INPUT); i++)
		if (s->slot[RLX_IO_INPUT][i].state)
			st = attach_one(s, i, states, err);
	return st;
}

void rlx_states_detach(struct rlx_session *s)
{
	if (s->states && s->states_apart)
		atomic_fetch_sub(&s->states->apart, 1);
	rlx_states_put(s->states);
}
