// SPDX-License-Identifier: MIT
/*
 * Clients that leave while they are being answered. An engine need not notice: it does
 * not read then, or has bytes of a next request before the end. So sockets are asked
 * now and then, whatever moves their bytes.
 *
 * A reset is plain. An end is not: a client may close its sending half and read on, and
 * over TCP one that closed looks the same until it is sent something. So it is: a
 * "100 Continue", which clients of HTTP/1.1 must take at any time, and which a socket
 * that is closed answers with a reset. HTTP/1.0 has no such reply; there an end is one.
 */
#include <poll.h>
#include <time.h>

#include "tools/rlxd/loop.h"
#include "tools/rlxd/req.h"

enum {
	AT_ONCE = 64,
	/* A thread looks for no more than one part in so many of its processor's time. */
	LOOK_SHARE = 32,
	/* A request that more rows are left of is not soon complete. */
	LONG_ROWS = 32,
};

/* What is run for a client that left is little more than what runs when it leaves. */
static const int64_t look_ns = 5000000;
/* Replies that are complete sooner have no interim ones before them. */
static const int64_t ask_first_ns = 50000000;
/* One that read on may leave later: it is asked again, ever more rarely. */
static const int64_t ask_most_ns = 5000000000;

void gone_begin(struct conn *c)
{
	c->probe_at = c->loop->now + ask_first_ns;
	c->probe_ns = ask_first_ns;
}

int64_t gone_look_at(const struct loop *l)
{
	return atomic_load(&l->busy) ? l->next_look : INT64_MAX;
}

/* Is it to be asked now? The first time at once, where the reply takes long in any case. */
static bool is_due(const struct conn *c)
{
	bool first = c->probe_ns == ask_first_ns;

	return c->probe_at <= c->loop->now ||
	       (first && atomic_load(&c->req->job.rows_left) > LONG_ROWS);
}

/* Its end came, or cannot come: it stands behind bytes that are not read now. */
static void on_doubt(struct conn *c, bool ended)
{
	bool old = !c->http.parser.http_minor;

	/* A unix socket that is closed says so. */
	if (c->listener->is_unix || !is_due(c) || (old && !ended))
		return;
	c->probe_at = c->loop->now + c->probe_ns;
	c->probe_ns = 2 * c->probe_ns < ask_most_ns ? 2 * c->probe_ns : ask_most_ns;
	if (old || !conn_say_continue(c))
		conn_shut(c);
}

static void look_at(struct conn **c, struct pollfd *p, unsigned int n)
{
	unsigned int i;

	if (!n || poll(p, n, 0) < 0)
		return;
	for (i = 0; i < n; i++) {
		if (p[i].revents & (POLLERR | POLLHUP | POLLNVAL))
			conn_shut(c[i]);
		else if (p[i].revents & POLLRDHUP || (p[i].revents & POLLIN && !c[i]->armed))
			on_doubt(c[i], p[i].revents & POLLRDHUP);
	}
}

/* Not by the clock: a look that others interrupt is not to put off the next one. */
static int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

void gone_look(struct loop *l)
{
	struct conn *c, *some[AT_ONCE];
	struct pollfd p[AT_ONCE];
	unsigned int n = 0;
	int64_t begin, took;

	if (l->now < l->next_look || !atomic_load(&l->busy))
		return;
	begin = cpu_ns();
	/* Shut ones stay in the list until the end of the turn. */
	for (c = l->conns; c; c = c->next) {
		if (c->state != CONN_BUSY)
			continue;
		some[n] = c;
		p[n++] = (struct pollfd){ .fd = c->fd, .events = POLLIN | POLLRDHUP };
		if (n == AT_ONCE) {
			look_at(some, p, n);
			n = 0;
		}
	}
	look_at(some, p, n);
	took = cpu_ns() - begin;
	l->next_look = l->now + (took * LOOK_SHARE > look_ns ? took * LOOK_SHARE : look_ns);
}
