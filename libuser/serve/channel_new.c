// SPDX-License-Identifier: MIT
/* Opening and closing a channel, its attachments, its descriptor. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/channel.h"

enum { HANDLE_BITS = 9 };	/* index + 1 of an attachment; the rest counts */
_Static_assert(1 << HANDLE_BITS > RLX_CHANNEL_ARENAS_MAX, "an index fits");

static enum rlx_status fill_opts(struct rlx_channel_opts *o,
				 const struct rlx_channel_opts *in,
				 struct rlx_error *err)
{
	const uint32_t known = RLX_CHANNEL_RECOVER | RLX_CHANNEL_RECOVER_ALL;
	unsigned int i;

	if (!in || in->size != sizeof(*o))
		return rlx_fail(err, RLX_EINVAL,
				"channel: opts is NULL, or its size is not set");
	*o = *in;
	if (!o->address || o->flags & ~known || o->pad)
		return rlx_fail(err, RLX_EINVAL,
				"channel: no address, or an unknown flag");
	for (i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
		if (o->reserved[i])
			return rlx_fail(err, RLX_EINVAL,
					"channel: reserved[%u] is not 0", i);
	if (!o->depth)
		o->depth = 64;
	if (o->depth & (o->depth - 1) || o->depth > RLX_CHANNEL_DEPTH_MAX)
		return rlx_fail(err, RLX_EINVAL,
				"channel: depth %u: wanted a power of two, at "
				"most %u", o->depth, RLX_CHANNEL_DEPTH_MAX);
	if (!o->timeout_ns)
		o->timeout_ns = 5000000000ull;
	if (!o->recover_ns)
		o->recover_ns = 10000000000ull;
	return RLX_OK;
}

static enum rlx_status make_tags(struct rlx_channel *ch, struct rlx_error *err)
{
	uint32_t i;

	ch->tag = rlx_calloc(ch->depth, sizeof(*ch->tag));
	ch->free = rlx_calloc(ch->depth, sizeof(*ch->free));
	ch->over = rlx_calloc(ch->depth, sizeof(*ch->over));
	if (!ch->tag || !ch->free || !ch->over)
		return rlx_fail(err, RLX_ENOMEM, "channel: no memory");
	for (i = 0; i < ch->depth; i++) {
		ch->tag[i].gen = 1;
		ch->free[i] = (uint16_t)(ch->depth - 1 - i);
	}
	ch->nr_free = ch->depth;
	return RLX_OK;
}

enum rlx_status rlx_channel_open(const struct rlx_channel_opts *opts,
				 struct rlx_channel **out, struct rlx_error *err)
{
	struct rlx_channel_opts o;
	struct rlx_channel *ch;
	enum rlx_status st;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "channel: out is NULL");
	*out = NULL;
	st = fill_opts(&o, opts, err);
	if (st)
		return st;
	ch = rlx_calloc(1, sizeof(*ch));
	if (!ch)
		return rlx_fail(err, RLX_ENOMEM, "channel: no memory");
	ch->opts = o;
	ch->sock = ch->epfd = ch->timer = ch->shm.bell = -1;
	ch->state = RLX_CHANNEL_DOWN;
	ch->next_deadline = RLX_NO_DEADLINE;
	rlx_spin_init(&ch->spin, o.spin_ns, RLX_SPIN_WAKE_NS);
	ch->address = rlx_strdup(o.address);
	ch->att = rlx_calloc(RLX_CHANNEL_ARENAS_MAX, sizeof(*ch->att));
	if (!ch->address || !ch->att)
		st = rlx_fail(err, RLX_ENOMEM, "channel: no memory");
	if (!st)
		st = rlx_channel_choose(ch, err);
	if (!st)
		st = rlx_channel_connect(ch, rlx_deadline_in(o.timeout_ns), err);
	if (!st)
		st = make_tags(ch, err);
	if (st) {
		rlx_channel_close(ch);
		return st;
	}
	*out = ch;
	return RLX_OK;
}

void rlx_channel_close(struct rlx_channel *ch)
{
	uint32_t i;

	if (!ch)
		return;
	rlx_channel_disconnect(ch);
	for (i = 0; ch->att && i < RLX_CHANNEL_ARENAS_MAX; i++)
		rlx_arena_put(ch->att[i].arena);
	if (ch->epfd >= 0)
		close(ch->epfd);
	if (ch->timer >= 0)
		close(ch->timer);
	rlx_free(ch->att);
	rlx_free(ch->tag);
	rlx_free(ch->free);
	rlx_free(ch->over);
	rlx_free(ch->address);
	rlx_free(ch);
}

static enum rlx_status down(struct rlx_channel *ch, struct rlx_error *err)
{
	if (ch->state == RLX_CHANNEL_LOST)
		rlx_channel_retry(ch, rlx_deadline_in(ch->opts.timeout_ns));
	if (ch->state == RLX_CHANNEL_UP)
		return RLX_OK;
	return rlx_fail(err, RLX_EPIPE, "the executor is gone: %.300s",
			ch->err.text);
}

static enum rlx_status check_arena(struct rlx_arena *arena, uint32_t access,
				   struct rlx_error *err)
{
	const uint32_t known = RLX_ACCESS_READ | RLX_ACCESS_WRITE;

	if (!access || access & ~known)
		return rlx_fail(err, RLX_EINVAL, "attach: access 0x%x", access);
	if (rlx_arena_fd(arena) < 0)
		return rlx_fail(err, RLX_ENOSUP,
				"attach: this arena is memory of this process "
				"alone; make one with rlx_arena_new()");
	if (access & RLX_ACCESS_WRITE &&
	    rlx_arena_flags(arena) & RLX_ARENA_RDONLY)
		return rlx_fail(err, RLX_EACCES,
				"attach: the arena is read-only");
	return RLX_OK;
}

enum rlx_status rlx_channel_attach(struct rlx_channel *ch,
				   struct rlx_arena *arena, uint32_t access,
				   uint32_t *out_handle, struct rlx_error *err)
{
	struct rlx_attached *att;
	enum rlx_status st;
	uint32_t i;

	if (!ch || !arena || !out_handle)
		return rlx_fail(err, RLX_EINVAL, "attach: NULL");
	st = check_arena(arena, access, err);
	if (!st)
		st = down(ch, err);
	if (st)
		return st;
	for (i = 0; i < ch->arenas_max && ch->att[i].handle; i++)
		;
	if (i == ch->arenas_max || ++ch->att_serial >> (32 - HANDLE_BITS))
		return rlx_fail(err, RLX_ERANGE,
				"attach: %u arenas are attached, the most this "
				"service takes", ch->arenas_max);
	att = &ch->att[i];
	*att = (struct rlx_attached){
		.handle = ch->att_serial << HANDLE_BITS | (i + 1),
		.access = access, .arena = arena, .size = rlx_arena_size(arena),
	};
	st = rlx_channel_send_arena(ch, att,
				    rlx_deadline_in(ch->opts.timeout_ns), err);
	if (st) {
		/* If the answer is only late, the handle may be taken there. */
		att->arena = NULL;
		if (st != RLX_ETIME)
			att->handle = 0;
		return st;
	}
	rlx_arena_get(arena);
	/* A request may go to the kernel as it is: then its name counts. */
	if (ch->ops->attach && !ch->opts.flags)
		att->handle = att->wire;
	*out_handle = att->handle;
	return RLX_OK;
}

enum rlx_status rlx_channel_detach(struct rlx_channel *ch, uint32_t handle,
				   struct rlx_error *err)
{
	struct rlx_wire_msg m = { .type = RLX_WIRE_DETACH };
	struct rlx_attached *att;
	enum rlx_status st;
	uint32_t i;

	if (!ch)
		return rlx_fail(err, RLX_EINVAL, "detach: NULL");
	for (i = 0; i < RLX_CHANNEL_ARENAS_MAX; i++)
		if (handle && ch->att[i].handle == handle && ch->att[i].arena)
			break;
	if (i == RLX_CHANNEL_ARENAS_MAX)
		return rlx_fail(err, RLX_ENOENT, "detach: no such handle");
	att = &ch->att[i];
	if (att->used || ch->nr_indirect)
		return rlx_fail(err, RLX_EBUSY,
				"detach: a request that may name it is not reaped");
	st = down(ch, err);
	m.handle = att->wire;
	if (!st)
		st = rlx_channel_ask(ch, &m, -1,
				     rlx_deadline_in(ch->opts.timeout_ns), err);
	if (st)
		return st;
	if (ch->ops->detach)
		ch->ops->detach(ch, att->wire);
	rlx_arena_put(att->arena);
	*att = (struct rlx_attached){ 0 };
	return RLX_OK;
}

int rlx_channel_fd(struct rlx_channel *ch)
{
	struct epoll_event ev = { EPOLLIN, { 0 } };

	if (!ch)
		return RLX_EINVAL;
	if (ch->epfd >= 0)
		return ch->epfd;
	ch->epfd = epoll_create1(EPOLL_CLOEXEC);
	ch->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (ch->epfd < 0 || ch->timer < 0 ||
	    epoll_ctl(ch->epfd, EPOLL_CTL_ADD, ch->timer, &ev)) {
		if (ch->epfd >= 0)
			close(ch->epfd);
		if (ch->timer >= 0)
			close(ch->timer);
		ch->epfd = ch->timer = -1;
		return RLX_ENOMEM;
	}
	rlx_channel_watch(ch);
	return ch->epfd;
}
