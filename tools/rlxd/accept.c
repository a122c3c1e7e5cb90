// SPDX-License-Identifier: MIT
/* From the loop that accepts a connection to the one that has it. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/metric.h"
#include "tools/rlxd/server.h"

/* On its way to its loop. */
struct accepted {
	struct accepted		*next;
	const struct listener	*listener;
	int			 fd;
};

/* Too many: the peer learns why, if its socket takes it at once. */
static void turn_away(const struct listener *s, int fd)
{
	static const char text[] =
		"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
		"Retry-After: 1\r\nConnection: close\r\n\r\n";

	if (!s->tls && send(fd, text, sizeof(text) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		errno = 0;
	close(fd);
	metric_add(&metrics.connections_refused, 1);
}

void accept_refused(struct loop *l, int fd, const struct listener *s)
{
	atomic_fetch_sub(&l->n_conn, 1);
	atomic_fetch_sub(&l->server->n_conn, 1);
	turn_away(s, fd);
}

/*
 * The loop with the fewest connections, @l if none has fewer: while others are busy the kernel
 * tells one of all that come, and those would have nothing to do afterwards.
 */
static struct loop *least_loaded(struct loop *l)
{
	struct server *s = l->server;
	struct loop *best = l;
	unsigned int i;

	for (i = 0; i < s->n_loop; i++)
		if (atomic_load(&s->loop[i].n_conn) < atomic_load(&best->n_conn))
			best = &s->loop[i];
	return best;
}

/* Counted in n_conn. False: there is no memory for it. */
static bool hand_over(struct loop *to, int fd, const struct listener *s)
{
	struct accepted *n = rlx_malloc(sizeof(*n)), *head = atomic_load(&to->accepted);

	if (!n)
		return false;
	n->fd = fd;
	n->listener = s;
	atomic_fetch_add(&to->n_conn, 1);
	do
		n->next = head;
	while (!atomic_compare_exchange_weak(&to->accepted, &head, n));
	loop_wake(to);
	return true;
}

void conn_accepted(struct loop *l, int fd, const struct listener *s)
{
	unsigned int max = (unsigned int)l->server->limits.max_connections;
	struct loop *to;

	/*
	 * Counted from here on: who drains waits for it, whoever has it. One that has had its reply
	 * makes room, counted until the end of the turn.
	 */
	if (atomic_fetch_add(&l->server->n_conn, 1) >= max && !linger_end_oldest(l)) {
		atomic_fetch_sub(&l->server->n_conn, 1);
		turn_away(s, fd);
		return;
	}
	to = least_loaded(l);
	if (to != l && hand_over(to, fd, s))
		return;
	atomic_fetch_add(&l->n_conn, 1);
	conn_new(l, fd, s);
}

void accept_take(struct loop *l)
{
	struct accepted *n = atomic_exchange(&l->accepted, NULL), *next;

	for (; n; n = next) {
		next = n->next;
		conn_new(l, n->fd, n->listener);
		rlx_free(n);
	}
}
