// SPDX-License-Identifier: MIT
/* Setting a channel up over the unix socket: hello, attach, detach. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "serve/channel.h"

static const struct rlx_channel_ops *const transports[] = {
	&rlx_channel_shm,
	&rlx_channel_kmod,
};

enum { N_TRANSPORTS = sizeof(transports) / sizeof(transports[0]) };

/* Without /proc, which tells what a descriptor is, the service's is taken for no channel. */
static bool kmod_is_here(void)
{
	return !access("/dev/rlx", R_OK | W_OK) && !access("/proc/self/fdinfo", X_OK);
}

/*
 * Without a wish kmod is offered where arenas come from the module too, as it takes
 * no others everywhere; and not to who recovers, for there it is not known which
 * requests a dead executor had taken.
 */
enum rlx_status rlx_channel_choose(struct rlx_channel *ch, struct rlx_error *err)
{
	const char *name = ch->opts.transport;
	uint32_t bits = 0;
	unsigned int i;

	for (i = 0; i < N_TRANSPORTS; i++)
		if (!name || !strcmp(name, transports[i]->name))
			bits |= transports[i]->wire;
	if (!name && (ch->opts.flags || !kmod_is_here()))
		bits &= ~(uint32_t)RLX_WIRE_KMOD;
	if (!bits)
		return rlx_fail(err, RLX_ENOSUP,
				"transport \"%.20s\" is not there", name);
	ch->transports = bits;
	ch->opts.transport = NULL;	/* the caller's string */
	return RLX_OK;
}

static enum rlx_status peer_said(const struct rlx_wire_msg *m,
				 struct rlx_error *err)
{
	/* A status the peer made up must still be a failure of ours. */
	enum rlx_status st = m->status < 0 && m->status > -4096 ?
			     (enum rlx_status)m->status : RLX_EPROTO;

	return rlx_fail(err, st, "the service says: %s", m->text);
}

/* Descriptors that came with a message. */
struct got {
	int		fd[RLX_WIRE_FDS];
	unsigned int	max, nr;
};

static void close_all(struct got *g)
{
	while (g->nr)
		close(g->fd[--g->nr]);
}

/* Wait for the message that answers ours; @g->max descriptors may come with it. */
static enum rlx_status await(struct rlx_channel *ch, struct rlx_wire_msg *m,
			     struct got *g, uint64_t deadline_ns,
			     struct rlx_error *err)
{
	struct pollfd p = { ch->sock, POLLIN, 0 };
	int rc;

	for (;;) {
		rc = rlx_sock_recv(ch->sock, m, g->fd, g->max, &g->nr);
		if (rc == 1 && m->type == RLX_WIRE_BYE)
			break;
		if (rc == 1 && m->serial == ch->serial)
			return RLX_OK;
		close_all(g);		/* answers what we gave up */
		if (rc == -1)
			return rlx_fail(err, RLX_EPIPE,
					"the service closed the connection");
		if (rc == -2)
			return rlx_fail(err, RLX_EPROTO,
					"what listens there is no such service");
		if (rc == 1)
			continue;
		rc = rlx_poll_ms(deadline_ns);
		if (!rc || (poll(&p, 1, rc) < 0 && errno != EINTR))
			return rlx_fail(err, RLX_ETIME,
					"no answer of the service in time");
	}
	close_all(g);
	return peer_said(m, err);
}

static enum rlx_status check_welcome(struct rlx_channel *ch,
				     const struct rlx_wire_msg *m,
				     struct rlx_error *err)
{
	uint32_t depth = ch->depth ? ch->depth : ch->opts.depth;
	unsigned int i;

	ch->ops = NULL;
	for (i = 0; i < N_TRANSPORTS; i++)
		if (m->transports == transports[i]->wire &&
		    m->transports & ch->transports)
			ch->ops = transports[i];
	if (m->type != RLX_WIRE_WELCOME || !ch->ops || !m->depth ||
	    m->depth & (m->depth - 1) || m->depth > depth || !m->arenas_max ||
	    m->arenas_max > RLX_CHANNEL_ARENAS_MAX ||
	    m->slices_max > RLX_REQUEST_SLICES_MAX)
		return rlx_fail(err, RLX_EPROTO,
				"what the service grants makes no sense");
	/* Tags of requests to be sent again must fit. */
	if (ch->depth && m->depth != ch->depth)
		return rlx_fail(err, RLX_EPROTO,
				"the new service grants another depth: %u, not %u",
				m->depth, ch->depth);
	ch->depth = m->depth;
	ch->queue = m->queue ? m->queue - 1 : 0;
	ch->arenas_max = m->arenas_max;
	ch->slices_max = m->slices_max;
	ch->may_park = m->access;
	ch->dismissed = false;
	return RLX_OK;
}

static enum rlx_status greet(struct rlx_channel *ch, uint64_t deadline_ns,
			     struct rlx_error *err)
{
	struct rlx_wire_msg m = { .type = RLX_WIRE_HELLO, .serial = ++ch->serial,
				  .depth = ch->opts.depth,
				  .queue = ch->opts.queue,
				  .transports = ch->transports, .tag = ch->opts.tag };
	struct got got = { .max = RLX_WIRE_FDS };
	enum rlx_status st;

	/* It may have turned us away before: then its words are there. */
	rlx_sock_send(ch->sock, &m, NULL, 0);
	st = await(ch, &m, &got, deadline_ns, err);
	if (st)
		return st;
	st = check_welcome(ch, &m, err);
	if (!st)
		return ch->ops->up(ch, got.fd, got.nr, err);
	close_all(&got);
	return st;
}

enum rlx_status rlx_channel_send_arena(struct rlx_channel *ch,
				       struct rlx_attached *att,
				       uint64_t deadline_ns,
				       struct rlx_error *err)
{
	struct rlx_wire_msg m = { .type = RLX_WIRE_ATTACH,
				  .handle = att->handle, .access = att->access };
	int fd = rlx_arena_fd(att->arena), dup = -1;
	enum rlx_status st;

	if (ch->ops->attach) {		/* the kernel brings it over */
		st = ch->ops->attach(ch, att, err);
		if (st)
			return st;
		m.handle = att->wire;
		st = rlx_channel_ask(ch, &m, -1, deadline_ns, err);
		if (st)
			ch->ops->detach(ch, att->wire);
		return st;
	}
	att->wire = att->handle;
	/* A service that may only read shall not get a descriptor that writes. */
	if (!(att->access & RLX_ACCESS_WRITE) &&
	    !rlx_arena_dup_readonly(att->arena, &dup, NULL))
		fd = dup;
	st = rlx_channel_ask(ch, &m, fd, deadline_ns, err);
	if (dup >= 0)
		close(dup);
	return st;
}

enum rlx_status rlx_channel_ask(struct rlx_channel *ch,
				struct rlx_wire_msg *msg, int fd,
				uint64_t deadline_ns, struct rlx_error *err)
{
	struct got got = { .max = 0 };
	enum rlx_status st;

	msg->serial = ++ch->serial;
	if (!rlx_sock_send(ch->sock, msg, &fd, fd >= 0))
		return rlx_fail(err, errno == EAGAIN ? RLX_ETIME : RLX_EPIPE,
				"sending to the service: %s", strerror(errno));
	st = await(ch, msg, &got, deadline_ns, err);
	if (!st && (msg->type != RLX_WIRE_DONE || msg->status))
		st = peer_said(msg, err);
	return st;
}

void rlx_channel_disconnect(struct rlx_channel *ch)
{
	if (ch->ops)
		ch->ops->down(ch);
	if (ch->sock >= 0)
		close(ch->sock);
	ch->sock = -1;
	ch->ops = NULL;
}

void rlx_channel_last_words(struct rlx_channel *ch)
{
	struct rlx_wire_msg m;
	unsigned int nr;
	int i;

	for (i = 0; i < 8 && ch->sock >= 0; i++) {
		if (rlx_sock_recv(ch->sock, &m, NULL, 0, &nr) != 1)
			return;
		if (m.type == RLX_WIRE_BYE) {
			peer_said(&m, &ch->err);
			return;
		}
	}
}

/* A full backlog empties in a moment. */
static enum rlx_status dial(struct rlx_channel *ch, uint64_t deadline_ns,
			    struct rlx_error *err)
{
	for (;;) {
		struct rlx_error now = { 0 };
		enum rlx_status st = rlx_sock_connect(ch->address, &ch->sock,
						      &now);

		if (st != RLX_EAGAIN || !rlx_poll_ms(deadline_ns))
			return st ? rlx_fail(err, st, "%s", now.text) : st;
		poll(NULL, 0, 1);
	}
}

enum rlx_status rlx_channel_connect(struct rlx_channel *ch,
				    uint64_t deadline_ns, struct rlx_error *err)
{
	enum rlx_status st;
	uint32_t i;

	st = dial(ch, deadline_ns, err);
	if (st)
		return st;
	if (!rlx_sock_cred(ch->sock, &ch->cred))
		ch->cred = (struct rlx_cred){ 0 };
	st = greet(ch, deadline_ns, err);
	for (i = 0; !st && i < RLX_CHANNEL_ARENAS_MAX; i++)
		if (ch->att[i].arena)
			st = rlx_channel_send_arena(ch, &ch->att[i],
						    deadline_ns, err);
	if (st)
		rlx_channel_disconnect(ch);
	else
		ch->state = RLX_CHANNEL_UP;
	rlx_channel_watch(ch);
	return st;
}
