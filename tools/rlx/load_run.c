// SPDX-License-Identifier: MIT
/* One thread, epoll, and a clock that requests are due by. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "tools/rlx/load_run.h"

enum { EVENTS = 64, ROOM = 64 << 10 };

struct conn {
	int		fd;
	struct tls_conn	*tls;		/* NULL: plain */
	bool		busy, writing;
	struct conn	*next;		/* idle ones */
	int64_t		due, begun;
	size_t		sent;
	char		*buf;
	size_t		n, cap;
	size_t		head, want;	/* of the reply; head 0: not whole yet */
	int		status;
};

struct run {
	const struct load_plan	*p;
	struct load_result	*r;
	int			 ep;
	struct conn		*conn, *idle;
	struct load_clock	 clock;
	unsigned int		 busy;
	char			*first;		/* body of the first reply, if same */
	size_t			 first_n;
	bool			 have_first;
};

static int64_t clock_ns(void)
{
	return (int64_t)rlx_now();
}

void load_clock_start(struct load_clock *c, const struct load_plan *p)
{
	*c = (struct load_clock){ .rate = p->rate, .begin = clock_ns() };
	c->measure = c->begin + (int64_t)(p->warm_up * 1e9);
	c->end = c->measure + (int64_t)(p->seconds * 1e9);
}

int64_t load_clock_due(const struct load_clock *c, int64_t now)
{
	int64_t due = c->rate > 0 ? c->begin + (int64_t)((double)c->n * 1e9 / c->rate) : now;

	return due >= c->end || now > c->end + LOAD_GRACE_NS ? INT64_MAX : due;
}

bool load_clock_over(const struct load_clock *c, int64_t now, unsigned int busy)
{
	return (now >= c->end && !busy) || now > c->end + 2 * LOAD_GRACE_NS;
}

void load_clock_end(const struct load_clock *c, struct load_result *r)
{
	uint64_t all = (uint64_t)((double)(c->end - c->begin) * c->rate / 1e9);

	/* Nobody was free to begin them. */
	r->late = all > c->n ? all - c->n : 0;
	r->seconds = (double)(clock_ns() - c->measure) * 1e-9;
}

static void watch(struct run *u, struct conn *c, int op)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };

	if (c->writing)
		ev.events |= EPOLLOUT;
	epoll_ctl(u->ep, op, c->fd, &ev);
}

static void hang_up(struct conn *c)
{
	tls_conn_free(c->tls);
	c->tls = NULL;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static bool dial(struct run *u, struct conn *c, struct rlx_error *err)
{
	const struct load_plan *p = u->p;
	int one = 1;

	c->fd = socket(p->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&p->to, p->to_len)) {
		rlx_fail(err, RLX_EIO, "%m");
		hang_up(c);
		return false;
	}
	if (p->to.ss_family != AF_UNIX)
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (p->tls && tls_conn_new(p->tls, c->fd, &c->tls, err)) {
		hang_up(c);
		return false;
	}
	watch(u, c, EPOLL_CTL_ADD);
	return true;
}

static ssize_t conn_send(struct conn *c, const void *p, size_t n)
{
	return c->tls ? tls_conn_send(c->tls, p, n) :
			send(c->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t conn_recv(struct conn *c, void *p, size_t n)
{
	return c->tls ? tls_conn_recv(c->tls, p, n) : recv(c->fd, p, n, MSG_DONTWAIT);
}

static void make_idle(struct run *u, struct conn *c)
{
	if (c->busy)
		u->busy--;
	c->busy = c->writing = false;
	c->n = c->head = c->want = c->sent = 0;
	c->next = u->idle;
	u->idle = c;
}

/* The peer closed or spoke nonsense; the connection is opened anew. */
static void broken(struct run *u, struct conn *c)
{
	struct rlx_error err = { 0 };

	if (c->busy)
		u->r->broken++;
	hang_up(c);
	dial(u, c, &err);
	make_idle(u, c);
}

static void do_write(struct run *u, struct conn *c)
{
	ssize_t n = conn_send(c, u->p->request + c->sent, u->p->request_n - c->sent);
	bool was = c->writing;

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		broken(u, c);
		return;
	}
	c->sent += n > 0 ? (size_t)n : 0;
	c->writing = c->sent < u->p->request_n;
	if (was != c->writing)
		watch(u, c, EPOLL_CTL_MOD);
}

static void start(struct run *u, int64_t due, int64_t now)
{
	struct rlx_error err = { 0 };
	struct conn *c = u->idle;

	u->idle = c->next;
	if (c->fd < 0 && !dial(u, c, &err)) {
		u->r->broken++;
		make_idle(u, c);
		return;
	}
	c->busy = true;
	u->busy++;
	c->due = due;
	c->begun = now;
	u->r->sent++;
	do_write(u, c);
}

/* "Content-Length: N" within the head; false if there is none. */
static bool find_length(const char *p, size_t n, size_t *out)
{
	static const char name[] = "content-length:";
	const char *end = p + n;

	/* Line by line: what a reply costs here counts as the server's. */
	while ((p = memchr(p, '\n', (size_t)(end - p))) && ++p + sizeof(name) < end)
		if (!strncasecmp(p, name, sizeof(name) - 1)) {
			*out = strtoull(p + sizeof(name) - 1, NULL, 10);
			return true;
		}
	return false;
}

/* False: this is no reply. */
static bool read_head(struct conn *c)
{
	char *end = memmem(c->buf, c->n, "\r\n\r\n", 4);
	size_t len = 0;

	if (!end)
		return c->n < ROOM;
	c->head = (size_t)(end - c->buf) + 4;
	if (c->head < 15 || memcmp(c->buf, "HTTP/1.1 ", 9) || !find_length(c->buf, c->head, &len))
		return false;
	c->status = atoi(c->buf + 9);
	c->want = c->head + len;
	return len < (size_t)1 << 32;
}

static void judge(struct run *u, struct conn *c, int64_t now)
{
	struct load_result *r = u->r;
	const char *body = c->buf + c->head;
	size_t n = c->want - c->head;

	if (!u->p->raw && c->status != 200) {
		r->bad_status++;
		r->status = c->status;
		snprintf(r->text, sizeof(r->text), "%.*s", (int)(n < 190 ? n : 190), body);
		return;
	}
	if (u->p->same && !u->have_first) {
		u->have_first = true;
		u->first = rlx_memdup(body, n);
		u->first_n = n;
	} else if (u->p->same && (n != u->first_n || memcmp(u->first, body, n))) {
		r->differ++;
		return;
	}
	r->ok++;
	r->bytes_in += c->want;
	hist_add(&r->time, (uint64_t)(now - c->due));
	hist_add(&r->service, (uint64_t)(now - c->begun));
}

static void do_read(struct run *u, struct conn *c)
{
	int64_t now;
	ssize_t n;
	size_t cap;
	char *p;

	if (c->n == c->cap) {
		cap = c->want > c->cap ? c->want : c->cap ? 2 * c->cap : ROOM;
		p = rlx_realloc(c->buf, cap);
		if (!p) {
			broken(u, c);
			return;
		}
		c->buf = p;
		c->cap = cap;
	}
	n = conn_recv(c, c->buf + c->n, c->cap - c->n);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || !c->busy) {
		broken(u, c);
		return;
	}
	c->n += (size_t)n;
	if (u->p->raw)
		c->want = u->p->request_n;
	else if (!c->head && !read_head(c)) {
		broken(u, c);
		return;
	}
	if ((!u->p->raw && !c->head) || c->n < c->want)
		return;
	now = clock_ns();
	/* A request that was due before the measuring began is part of the warm-up. */
	if (c->due >= u->clock.measure)
		judge(u, c, now);
	make_idle(u, c);
}

/* Begin what is due. Gives back when the next is. */
static int64_t begin_due(struct run *u)
{
	int64_t now = clock_ns(), due;

	for (;;) {
		due = load_clock_due(&u->clock, now);
		if (due > now || !u->idle)
			return due;
		u->clock.n++;
		start(u, due, now);
		if (u->p->rate <= 0)
			now = clock_ns();
	}
}

static void loop(struct run *u)
{
	struct epoll_event ev[EVENTS];
	struct timespec ts;
	int64_t next, now, wait;
	int i, n;

	for (;;) {
		next = begin_due(u);
		now = clock_ns();
		if (load_clock_over(&u->clock, now, u->busy))
			break;
		wait = !u->idle || next - now > 100000000 ? 100000000 : next - now;
		wait = wait < 0 ? 0 : wait;
		ts = (struct timespec){ 0, wait };
		n = epoll_pwait2(u->ep, ev, EVENTS, &ts, NULL);
		for (i = 0; i < n; i++) {
			struct conn *c = ev[i].data.ptr;

			if (ev[i].events & EPOLLOUT)
				do_write(u, c);
			if (c->fd >= 0 && ev[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
				do_read(u, c);
			while (c->tls && tls_conn_pending(c->tls))
				do_read(u, c);
		}
	}
	u->r->broken += u->busy;
	load_clock_end(&u->clock, u->r);
}

enum rlx_status load_run(const struct load_plan *p, struct load_result *out,
			 struct rlx_error *err)
{
	struct run u = { .p = p, .r = out };
	struct rlx_error why = { 0 };
	enum rlx_status st = RLX_OK;
	unsigned int i;

	u.conn = rlx_calloc(p->connections, sizeof(*u.conn));
	u.ep = epoll_create1(EPOLL_CLOEXEC);
	if (!u.conn || u.ep < 0)
		st = rlx_fail(err, RLX_ENOMEM, "out of memory or descriptors");
	for (i = 0; u.conn && i < p->connections; i++)
		u.conn[i].fd = -1;
	for (i = 0; !st && i < p->connections; i++) {
		if (!dial(&u, &u.conn[i], &why))
			st = rlx_fail(err, why.status, "connection %u: %s", i + 1, why.text);
		else
			make_idle(&u, &u.conn[i]);
	}
	if (!st) {
		load_clock_start(&u.clock, p);
		loop(&u);
	}
	for (i = 0; u.conn && i < p->connections; i++) {
		hang_up(&u.conn[i]);
		rlx_free(u.conn[i].buf);
	}
	if (u.ep >= 0)
		close(u.ep);
	rlx_free(u.first);
	rlx_free(u.conn);
	return st;
}
