// SPDX-License-Identifier: MIT
/*
 * Connections behind their last reply. To close one with unread bytes would reset it and take
 * the reply along, so what still comes is read and dropped until the peer has closed too. That
 * needs no chunk: who asks waits for those, and clients that go on sending are many at times.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "tools/rlxd/loop.h"

enum { COPIED_BYTES = 64 << 10, DROPPED_BYTES = 16 << 20 };

static void linger_want(struct conn *c)
{
	if (!c->shut)
		c->loop->engine->poll(c, POLLIN);
}

static const struct transport linger_io = { .want = linger_want };

static void drop(struct conn *c)
{
	/* TCP drops all that is there without a copy; with TLS in the kernel it may not. */
	bool copies = c->tls || c->listener->is_unix;
	char copied[COPIED_BYTES];
	ssize_t n = copies ? recv(c->fd, copied, sizeof(copied), MSG_DONTWAIT) :
			     recv(c->fd, NULL, DROPPED_BYTES, MSG_DONTWAIT | MSG_TRUNC);

	c->has_more = false;
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) {
		linger_want(c);
		return;
	}
	conn_eof(c, n ? errno : 0);
	conn_ready(c);
}

void linger(struct conn *c)
{
	/* Its own transport lets go first, and says so. */
	if (c->armed) {
		c->io->stop(c);
	} else if (c->io != &linger_io) {
		c->io = &linger_io;
		linger_want(c);
	} else if (c->has_more && !c->loop->drops_left) {
		conn_ready(c);
	} else if (c->has_more) {
		c->loop->drops_left--;
		drop(c);
	}
}

bool linger_end_oldest(struct loop *l)
{
	struct conn *c = TAILQ_FIRST(&l->lingering);

	if (c)
		conn_shut(c);
	return c;
}

void linger_polled(struct conn *c)
{
	c->has_more = true;
	conn_ready(c);
}
