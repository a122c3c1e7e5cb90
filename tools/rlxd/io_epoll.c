// SPDX-License-Identifier: MIT
/* The engine on epoll, for kernels and containers without io_uring. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/server.h"

enum { EVENTS = 1024, ACCEPTS = 256 };

struct epoll {
	int			 fd;
	const struct listener	*listener[LISTENERS_MAX];
	unsigned int		 n_listener;
	int64_t			 accept_at;
	bool			 listening, unlistened;
	uint16_t		 free[CHUNKS];
	unsigned int		 n_free;
};

static void epoll_shutdown(struct loop *l)
{
	struct epoll *e = l->state;

	if (!e)
		return;
	close(e->fd);
	rlx_free(e);
	l->state = NULL;
}

static enum rlx_status epoll_open(struct loop *l, struct rlx_error *err)
{
	struct epoll *e = rlx_calloc(1, sizeof(*e));
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL };
	unsigned int i;

	if (!e)
		return rlx_fail(err, RLX_ENOMEM, "epoll: out of memory");
	e->fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->fd < 0 || epoll_ctl(e->fd, EPOLL_CTL_ADD, l->wake_fd, &ev)) {
		rlx_fail(err, RLX_EIO, "epoll: %m");
		if (e->fd >= 0)
			close(e->fd);
		rlx_free(e);
		return RLX_EIO;
	}
	for (i = 0; i < CHUNKS; i++)
		e->free[i] = (uint16_t)i;
	e->n_free = CHUNKS;
	l->state = e;
	return RLX_OK;
}

static bool epoll_listen(struct loop *l, const struct listener *ln)
{
	struct epoll *e = l->state;

	if (e->n_listener == LISTENERS_MAX)
		return false;
	e->listener[e->n_listener++] = ln;
	return true;
}

/* A listener is told from a connection by its place in the table. */
static void set_listening(struct epoll *e, bool on)
{
	struct epoll_event ev = { .events = EPOLLIN };
	unsigned int i;

	if (e->listening == on)
		return;
	e->listening = on;
	for (i = 0; i < e->n_listener; i++) {
		ev.data.ptr = &e->listener[i];
		epoll_ctl(e->fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, e->listener[i]->fd, &ev);
	}
}

static void epoll_unlisten(struct loop *l)
{
	struct epoll *e = l->state;

	e->unlistened = true;
	set_listening(e, false);
}

static bool epoll_listens(const struct loop *l)
{
	const struct epoll *e = l->state;

	return e->listening;
}

/* What the connection waits for, told to the kernel; errors always come. */
static void watch(struct conn *c, int op)
{
	struct epoll *e = c->loop->state;
	struct epoll_event ev = { .data.ptr = c };

	bool own = c->io == &engine_epoll.io;

	if (own ? c->armed || c->filling : c->polled & POLLIN)
		ev.events |= EPOLLIN | EPOLLRDHUP;
	if (own ? c->sending : c->polled & POLLOUT)
		ev.events |= EPOLLOUT;
	epoll_ctl(e->fd, op, c->fd, &ev);
}

static void epoll_poll(struct conn *c, unsigned int events)
{
	c->polled |= events;
	watch(c, EPOLL_CTL_MOD);
}

static void epoll_adopt(struct conn *c)
{
	watch(c, EPOLL_CTL_ADD);
}

static void do_recv(struct conn *c);

static void epoll_want(struct conn *c)
{
	if (c->armed || c->shut || c->starved)
		return;
	c->armed = true;
	watch(c, EPOLL_CTL_MOD);
	/* Who was starved takes its chunk at once, or others would have it in the next turn. */
	if (c->one_chunk)
		do_recv(c);
}

static void epoll_stop(struct conn *c)
{
	if (!c->armed)
		return;
	c->armed = false;
	watch(c, EPOLL_CTL_MOD);
	conn_ready(c);
}

static void epoll_fill(struct conn *c, void *p, size_t n)
{
	c->filling = true;
	c->fill_p = p;
	c->fill_n = n;
	c->filled = 0;
	watch(c, EPOLL_CTL_MOD);
}

/* Try at once; what is left, or the end, is for the next turn. */
static void epoll_send(struct conn *c)
{
	c->sending = true;
	watch(c, EPOLL_CTL_MOD);
}

static void epoll_shut(struct conn *c)
{
	struct epoll *e = c->loop->state;

	c->shut = true;
	c->armed = c->filling = c->sending = false;
	epoll_ctl(e->fd, EPOLL_CTL_DEL, c->fd, NULL);
	conn_gone(c);
}

static void give(struct loop *l, uint16_t id)
{
	struct epoll *e = l->state;

	e->free[e->n_free++] = id;
}

static void do_accept(struct loop *l, const struct listener *ln)
{
	struct epoll *e = l->state;
	int fd, i;

	for (i = 0; i < ACCEPTS; i++) {
		fd = accept4(ln->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			conn_accepted(l, fd, ln);
			continue;
		}
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		if (log_allow())
			log_event(LOG_WARN, "accept failed", L_STR("address", ln->name),
				  L_STR("error", strerror(errno)));
		e->accept_at = now_ns() + 100000000;
		set_listening(e, false);
		return;
	}
}

static void do_recv(struct conn *c)
{
	struct epoll *e = c->loop->state;
	uint16_t id;
	ssize_t n;

	if (!e->n_free) {
		c->armed = false;
		watch(c, EPOLL_CTL_MOD);
		conn_starve(c);
		return;
	}
	id = e->free[--e->n_free];
	n = recv(c->fd, chunk_bytes(c->loop, id), CHUNK_BYTES, MSG_DONTWAIT);
	if (n > 0) {
		conn_chunk(c, id, (uint32_t)n);
		conn_ready(c);
		return;
	}
	give(c->loop, id);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->armed = false;
	watch(c, EPOLL_CTL_MOD);
	conn_eof(c, n ? errno : 0);
	conn_ready(c);
}

static void do_fill(struct conn *c)
{
	ssize_t n = recv(c->fd, (char *)c->fill_p + c->filled, c->fill_n - c->filled,
			 MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		c->filled += (size_t)n;
	if (n > 0 && c->filled < c->fill_n)
		return;
	c->filling = false;
	watch(c, EPOLL_CTL_MOD);
	conn_filled(c, n < 0 ? -errno : (ssize_t)c->filled);
}

static void do_send(struct conn *c)
{
	ssize_t n = sendmsg(c->fd, &c->msg, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && !conn_advance(c, (size_t)n))
		return;
	c->sending = false;
	watch(c, EPOLL_CTL_MOD);
	conn_sent(c, n < 0 ? -errno : c->sent);
}

/* Somebody else moves its bytes, and asked when it can. */
static void on_polled(struct conn *c, uint32_t events)
{
	if (c->polled) {
		c->polled = 0;
		watch(c, EPOLL_CTL_MOD);
		conn_polled(c);
	} else if (!c->eof && events & (EPOLLERR | EPOLLHUP)) {
		conn_eof(c, ECONNRESET);
		conn_ready(c);
	}
}

static void on_conn(struct conn *c, uint32_t events)
{
	if (c->io != &engine_epoll.io) {
		on_polled(c, events);
		return;
	}
	if (c->sending && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		do_send(c);
	if (c->filling && events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP))
		do_fill(c);
	else if (c->armed && events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP))
		do_recv(c);
	/* Nothing is wanted, but the peer is gone: tell once. */
	else if (!c->armed && !c->filling && !c->sending && !c->shut && !c->eof &&
		 events & (EPOLLERR | EPOLLHUP)) {
		conn_eof(c, ECONNRESET);
		conn_ready(c);
	}
}

static bool epoll_wait_turn(struct loop *l, int64_t until)
{
	struct epoll *e = l->state;
	struct epoll_event ev[EVENTS];
	int64_t left = until - now_ns();
	uint64_t count;
	int i, n;

	if (!e->unlistened && now_ns() >= e->accept_at)
		set_listening(e, true);
	left = left < 0 ? 0 : (left + 999999) / 1000000;
	n = epoll_wait(e->fd, ev, EVENTS, (int)left);
	for (i = 0; i < n; i++) {
		const struct listener **ln = ev[i].data.ptr;

		if (!ln) {
			if (read(l->wake_fd, &count, sizeof(count)) < 0)
				continue;
		} else if (ln >= e->listener && ln < e->listener + LISTENERS_MAX) {
			do_accept(l, *ln);
		} else {
			struct conn *c = ev[i].data.ptr;

			if (!c->shut)
				on_conn(c, ev[i].events);
		}
	}
	return n > 0;
}

const struct engine engine_epoll = {
	.name	  = "epoll",
	.open	  = epoll_open,
	.close	  = epoll_shutdown,
	.listen	  = epoll_listen,
	.unlisten = epoll_unlisten,
	.listens  = epoll_listens,
	.adopt	  = epoll_adopt,
	.io	  = {
		.want	= epoll_want,
		.stop	= epoll_stop,
		.fill	= epoll_fill,
		.send	= epoll_send,
		.direct	= DIRECT_BYTES,
	},
	.poll	  = epoll_poll,
	.shut	  = epoll_shut,
	.give	  = give,
	.wait	  = epoll_wait_turn,
};
