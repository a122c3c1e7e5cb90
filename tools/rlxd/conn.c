// SPDX-License-Identifier: MIT
/* A connection: heads and bodies out of chunks, replies in order. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/metric.h"
#include "tools/rlxd/req.h"
#include "tools/rlxd/server.h"
#include "tools/rlxd/tls.h"

enum { BODY_FIRST = 1 << 20 };

static const int64_t linger_ns = 2000000000;
/* Who connects is about to ask: when draining too, that is waited for so long. */
static const int64_t ask_ns = 1000000000;

/* Who is at the other end: a user on a unix socket, else an address. */
static void name_peer(struct conn *c)
{
	struct sockaddr_storage a;
	unsigned int bits = (unsigned int)c->loop->server->limits.ipv6_prefix;
	socklen_t n = sizeof(a);
	struct ucred cred;
	int one = 1;

	c->uid = -1;
	if (c->listener->is_unix) {
		n = sizeof(cred);
		if (!getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &n))
			c->uid = (int)cred.uid;
		snprintf(c->peer, sizeof(c->peer), "uid:%d", c->uid);
		memcpy(c->client, c->peer, sizeof(c->client));
		return;
	}
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (getpeername(c->fd, (struct sockaddr *)&a, &n))
		memset(&a, 0, sizeof(a));
	client_of_address(&a, 128, c->peer, sizeof(c->peer));
	client_of_address(&a, bits, c->client, sizeof(c->client));
}

void conn_new(struct loop *l, int fd, const struct listener *s)
{
	const struct conf_server *cf = &l->server->limits;
	struct conn *c;

	/* When draining too: the kernel may have taken it before it was told to stop. */
	c = atomic_load(&l->stop) ? NULL : rlx_calloc(1, sizeof(*c));
	if (!c) {
		accept_refused(l, fd, s);
		return;
	}
	c->loop = l;
	c->io = &l->engine->io;
	c->fd = fd;
	c->listener = s;
	c->first = c->last_chunk = -1;
	c->account.budget = &l->server->budget;
	c->state = CONN_HEAD;
	/* Not from the loop's clock: it stands since before the last runs and the wait. */
	c->ask_by = now_ns() + ask_ns;
	c->deadline = c->ask_by - ask_ns + cf->header_timeout_ns;
	name_peer(c);
	c->next = l->conns;
	if (c->next)
		c->next->prev = c;
	l->conns = c;
	metric_add(&metrics.connections, 1);
	l->engine->adopt(c);
	if (!s->tls)
		c->io->want(c);
	else if (!tls_begin(c))
		conn_shut(c);
	if (l->draining)
		conn_drain(c);
}

void conn_ready(struct conn *c)
{
	if (c->ready)
		return;
	c->ready = true;
	c->ready_next = NULL;
	*c->loop->ready_end = c;
	c->loop->ready_end = &c->ready_next;
}

void conn_chunk(struct conn *c, uint16_t id, uint32_t n)
{
	struct loop *l = c->loop;

	l->n_held += id < CHUNKS;
	l->chunk[id] = (struct chunk){ 0, n, -1 };
	if (c->first < 0)
		c->first = id;
	else
		l->chunk[c->last_chunk].next = id;
	c->last_chunk = id;
	c->n_in += n;
	metric_add(&metrics.bytes_in, n);
	if (++c->n_chunk >= CONN_CHUNKS || c->one_chunk)
		c->io->stop(c);
	c->one_chunk = false;
}

/* The first chunk leaves the list; whoever calls gives or keeps it. */
static int32_t take_chunk(struct conn *c)
{
	int32_t id = c->first;

	c->first = c->loop->chunk[id].next;
	if (c->first < 0)
		c->last_chunk = -1;
	c->n_chunk--;
	return id;
}

static void drop_chunks(struct conn *c)
{
	while (c->first >= 0)
		chunk_give(c->loop, take_chunk(c));
}

void conn_drop_pipelined(struct loop *l)
{
	bool engines = l->n_held == CHUNKS, spare = !l->n_spare;
	struct conn *c;

	for (c = l->conns; c; c = c->next) {
		if ((c->state != CONN_BUSY && c->state != CONN_SEND) || c->first < 0)
			continue;
		if (c->first < CHUNKS ? engines : spare) {
			c->last = true;
			drop_chunks(c);
		}
	}
}

void conn_eof(struct conn *c, int error)
{
	/* TLS in the kernel: a record that is no data, as a farewell is. */
	if (c->tls && error == EIO)
		error = 0;
	c->eof = true;
	c->bad |= error != 0;
	if (error)
		c->error = error;
}

/* Nobody reads the reply: what has not begun need not begin. */
static void abandon(struct conn *c)
{
	struct req *r = c->req;

	if (!r)
		return;
	c->req = NULL;
	r->conn = NULL;
	atomic_fetch_sub(&c->loop->busy, 1);
	if (r->with_workers) {
		atomic_store(&r->cancelled, true);
		metric_add(&metrics.abandoned, 1);
	} else {
		req_free(r);
	}
}

void conn_starve(struct conn *c)
{
	struct loop *l = c->loop;

	c->starved = true;
	c->starved_next = NULL;
	*l->starved_end = c;
	l->starved_end = &c->starved_next;
}

static void unstarve(struct conn *c)
{
	struct loop *l = c->loop;
	struct conn **p = &l->starved;

	if (!c->starved)
		return;
	while (*p != c)
		p = &(*p)->starved_next;
	*p = c->starved_next;
	if (!*p)
		l->starved_end = p;
	c->starved = false;
}

/*
 * A reply did not get to its peer, whole or at all. Peers may go as they like, and we
 * may be told to end; all else is a fault of this machine or ours.
 */
static void lost_reply(struct conn *c)
{
	int e = c->error;
	bool by_peer = e == EPIPE || e == ECONNRESET || e == ETIMEDOUT;
	const struct req *r = c->req;

	metric_add(by_peer ? &metrics.lost_by_peer : e ? &metrics.lost_by_error :
		   &metrics.lost_by_end, 1);
	if (log_allow())
		log_event(by_peer || !e ? LOG_INFO : LOG_ERROR, "reply lost",
			  L_STR("id", r->id),
			  L_STR("client", req_asker(r)),
			  L_STR("path", r->path), L_INT("status", r->reply.status),
			  L_INT("bytes", c->to_send), L_INT("sent", c->sent),
			  L_STR("error", e ? strerror(e) : "the server ends"));
}

void conn_shut(struct conn *c)
{
	if (c->state == CONN_GONE)
		return;
	if (c->state == CONN_SEND && c->req)
		lost_reply(c);
	if (c->tls)
		tls_goodbye(c);
	if (c->state == CONN_LINGER)
		TAILQ_REMOVE(&c->loop->lingering, c, linger);
	c->state = CONN_GONE;
	unstarve(c);
	/* A reply under way, or a body that is received in place, is in use until
	 * the engine lets go: conn_gone() gives it up. */
	if (!c->sending && !c->filling)
		abandon(c);
	drop_chunks(c);
	c->loop->engine->shut(c);
}

/* Callers up to the loop may still look at it: freed at the end of the turn. */
void conn_gone(struct conn *c)
{
	c->let_go = true;
	if (c->with_worker)
		return;
	c->gone_next = c->loop->gone;
	c->loop->gone = c;
}

static void free_head(struct conn *c)
{
	rlx_free(c->head);
	c->head = NULL;
	c->head_cap = 0;
	account_close(&c->account);
}

static void release(struct conn *c)
{
	struct loop *l = c->loop;

	abandon(c);
	drop_chunks(c);
	if (c->tls)
		tls_end(c);
	close(c->fd);
	if (c->next)
		c->next->prev = c->prev;
	if (c->prev)
		c->prev->next = c->next;
	else
		l->conns = c->next;
	atomic_fetch_sub(&l->n_conn, 1);
	atomic_fetch_sub(&l->server->n_conn, 1);
	metric_add(&metrics.connections, -1);
	if (c->ready) {
		struct conn **p = &l->ready;

		while (*p != c)
			p = &(*p)->ready_next;
		*p = c->ready_next;
		if (!*p)
			l->ready_end = p;
	}
	free_head(c);
	rlx_free(c);
}

void conn_reap(struct loop *l)
{
	struct conn *c;

	while ((c = l->gone)) {
		l->gone = c->gone_next;
		release(c);
	}
}

static bool has_bytes(const struct conn *c)
{
	const struct chunk *k = c->loop->chunk;

	return c->first >= 0 && (k[c->first].at < k[c->first].end || k[c->first].next >= 0);
}

/* Where the next request begins in all that comes. */
static uint64_t next_at(const struct conn *c)
{
	const struct chunk *k = c->loop->chunk;
	uint64_t at = c->n_in;
	int32_t i;

	for (i = c->first; i >= 0; i = k[i].next)
		at -= k[i].end - k[i].at;
	return at;
}

/*
 * What is received by now is answered when draining, and nothing behind it: a client that
 * goes on asking would keep the server. A socket that does not tell has no more.
 */
static void bound_drain(struct conn *c)
{
	int queued = 0;

	if (ioctl(c->fd, FIONREAD, &queued))
		queued = 0;
	c->drain_at = c->n_in + (uint64_t)queued + (c->tls ? tls_pending(c) : 0);
}

/* May another request follow the one that is being answered? */
static bool may_follow(const struct conn *c)
{
	return (!c->eof || has_bytes(c)) && (!c->loop->draining || next_at(c) < c->drain_at);
}

/* What a reply says of the connection: staying is to be told in HTTP/1.0 alone. */
static const char *connection_of(const struct conn *c)
{
	if (c->last)
		return "close";
	return c->http.parser.http_minor ? NULL : "keep-alive";
}

/* Send what the request's reply says. */
static void send_reply(struct conn *c)
{
	struct loop *l = c->loop;
	struct req *r = c->req;
	struct reply *y = &r->reply;
	unsigned int i;

	if (y->body.failed) {
		obuf_fini(&y->body);
		req_fail_memory(r, "the reply");
	}
	c->last |= !may_follow(c);
	c->iov[0] = (struct iovec){ y->head, req_head(r, connection_of(c), l->date) };
	c->n_iov = 1;
	c->to_send = c->iov[0].iov_len;
	if (r->method != METHOD_HEAD) {
		c->iov[c->n_iov++] = (struct iovec){ y->body.p, y->body.n };
		for (i = 0; i < y->n_tail; i++)
			c->iov[c->n_iov++] = y->tail[i];
		c->to_send += req_body_bytes(r);
	}
	/* Unix sockets have no such sending, and refuse it. */
	c->zerocopy = c->to_send >= ZEROCOPY_BYTES && !c->tls && !c->listener->is_unix;
	c->sent = 0;
	c->msg = (struct msghdr){ .msg_iov = c->iov, .msg_iovlen = c->n_iov };
	c->state = CONN_SEND;
	c->deadline = l->now + l->server->limits.send_timeout_ns;
	c->io->send(c);
}

void conn_reply(struct conn *c)
{
	c->req->with_workers = false;
	send_reply(c);
}

/* An answer to what could not be made a request. */
static void refuse(struct conn *c, int status, const char *why)
{
	struct req *r = c->req;

	if (!r) {
		r = req_new(c->loop);
		if (!r) {
			conn_shut(c);
			return;
		}
		r->conn = c;
		c->req = r;
		atomic_fetch_add(&c->loop->busy, 1);
		c->parsed = (struct http_head){ 0 };
		http_refused(&c->http, c->head ? c->head : "", c->head_n, &c->parsed);
		req_identify(r, &c->parsed);
	}
	obuf_fini(&r->reply.body);
	req_fail(r, status, "%s", why);
	c->last = true;
	send_reply(c);
}

bool conn_advance(struct conn *c, size_t n)
{
	struct iovec *v;
	size_t k;

	c->sent += (ssize_t)n;
	for (; c->msg.msg_iovlen; c->msg.msg_iov++, c->msg.msg_iovlen--) {
		v = c->msg.msg_iov;
		k = n < v->iov_len ? n : v->iov_len;
		v->iov_base = (char *)v->iov_base + k;
		v->iov_len -= k;
		n -= k;
		if (v->iov_len)
			return false;
	}
	return true;
}

void conn_sent(struct conn *c, ssize_t n)
{
	struct loop *l = c->loop;
	struct req *r = c->req;

	if (n > 0)
		metric_add(&metrics.bytes_out, (uint64_t)n);
	if (n < 0 || (size_t)n != c->to_send) {
		c->error = n < 0 ? (int)-n : EIO;
		conn_shut(c);
		return;
	}
	l->now = now_ns();
	metric_request(r, l->now);
	req_log(r, l->now);
	c->req = NULL;
	atomic_fetch_sub(&l->busy, 1);
	req_free(r);
	c->http.err.status = 0;
	if (c->last) {
		/* Closing with unread bytes would reset the connection and take
		 * the reply along. */
		if (c->tls)
			tls_goodbye(c);
		shutdown(c->fd, SHUT_WR);
		c->state = CONN_LINGER;
		c->deadline = l->now + linger_ns;
		TAILQ_INSERT_TAIL(&l->lingering, c, linger);
	} else {
		c->state = CONN_HEAD;
		/* What is to be answered when draining is in the socket at least. */
		c->ask_by = next_at(c) < c->drain_at ? l->now + ask_ns : 0;
		c->deadline = l->now + l->server->limits.idle_timeout_ns;
	}
	conn_ready(c);
}

/* Room for @n more bytes of the body, charged to the server's budget. */
static bool reserve_body(struct conn *c, size_t n)
{
	const struct server *sv = c->loop->server;
	struct req *r = c->req;
	size_t need = r->body_n + n, cap = r->body_cap ? r->body_cap : 4096;
	void *p;

	if (need <= r->body_cap)
		return true;
	if (need > (size_t)sv->limits.max_body)
		return false;
	while (cap < need)
		cap *= 2;
	if (c->parsed.length && cap > c->parsed.length)
		cap = c->parsed.length;
	if (!account_take(&r->account, cap - r->body_cap))
		return false;
	p = rlx_realloc(r->body, cap);
	if (!p) {
		account_give(&r->account, cap - r->body_cap);
		return false;
	}
	r->body = p;
	r->body_cap = cap;
	return true;
}

static bool put_body(void *ctx, const char *p, size_t n)
{
	struct conn *c = ctx;
	struct req *r = c->req;

	if (!reserve_body(c, n))
		return false;
	memcpy(r->body + r->body_n, p, n);
	r->body_n += n;
	r->copied += n;
	return true;
}

static void no_room(struct conn *c)
{
	refuse(c, 503, "too many bytes of requests are held (max_memory); try again later");
}

static void run(struct conn *c)
{
	struct req *r = c->req;

	c->state = CONN_BUSY;
	c->deadline = 0;
	gone_begin(c);
	r->t_body = c->loop->now;
	if (req_run(r))
		send_reply(c);
}

bool conn_say_continue(struct conn *c)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	size_t n = sizeof(text) - 1;

	if (c->tls)
		return tls_say(c, text, n);
	return send(c->fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n;
}

/* What is larger than all that may ever be held never fits. */
static uint64_t body_max(const struct conf_server *cf)
{
	return (uint64_t)(cf->max_body < cf->max_memory ? cf->max_body : cf->max_memory);
}

/* A head of @n bytes at @p: what it asks for, and where its body goes. */
static void begin(struct conn *c, const char *p, size_t n)
{
	struct loop *l = c->loop;
	const struct conf_server *cf = &l->server->limits;
	struct req *r = req_new(l);
	bool ok;

	if (!r) {
		conn_shut(c);
		return;
	}
	r->conn = c;
	r->job.line = c;
	c->req = r;
	atomic_fetch_add(&l->busy, 1);
	r->t_head = l->now;
	/* It had asked nothing when that began. */
	if (l->draining && !c->drain_at)
		bound_drain(c);
	c->http.put = put_body;
	c->http.ctx = c;
	c->http.max_body = body_max(cf);
	if (!http_head(&c->http, p, n, &c->parsed)) {
		req_identify(r, &c->parsed);
		refuse(c, c->http.err.status, c->http.err.why);
		return;
	}
	c->last = !c->parsed.keep_alive;
	ok = req_identify(r, &c->parsed);
	if (ok && c->parsed.length > body_max(cf)) {
		refuse(c, 413, "Content-Length is larger than max_body or max_memory");
		return;
	}
	if (!ok || !req_begin(r, &c->parsed)) {
		/* A body that nobody asked for is not read: close behind the reply. */
		c->last |= c->parsed.length || c->parsed.chunked;
		send_reply(c);
		return;
	}
	c->deadline = l->now + cf->body_timeout_ns;
	if (!c->parsed.length && !c->parsed.chunked) {
		run(c);
		return;
	}
	c->state = c->parsed.chunked ? CONN_CHUNKED : CONN_LENGTH;
	if (c->parsed.expect && !has_bytes(c) && !conn_say_continue(c))
		conn_shut(c);
}

/* Bytes of a head that is not whole in its chunk: kept aside. False: refused. */
static bool keep_head(struct conn *c, const char *p, size_t n)
{
	size_t max = (size_t)c->loop->server->limits.max_header;

	if (!c->head_n)
		c->deadline = c->loop->now + c->loop->server->limits.header_timeout_ns;
	if (!c->head_cap) {
		c->head = account_alloc(&c->account, max + CHUNK_BYTES, 1);
		if (!c->head) {
			no_room(c);
			return false;
		}
		c->head_cap = max + CHUNK_BYTES;
	}
	memcpy(c->head + c->head_n, p, n);
	c->head_n += n;
	return true;
}

/* Look for a head in the first chunk, or in what is kept and that. */
static void read_head(struct conn *c)
{
	struct loop *l = c->loop;
	struct chunk *k = &l->chunk[c->first];
	const char *p = chunk_bytes(l, (uint16_t)c->first) + k->at;
	size_t n = k->end - k->at, max = (size_t)l->server->limits.max_header;
	size_t from = 0, whole, before = c->head_n;

	/* Empty lines before a request are to be skipped. */
	while (!before && n && (*p == '\r' || *p == '\n'))
		p++, n--, k->at++;
	if (!n) {
		chunk_give(l, take_chunk(c));
		return;
	}
	if (!before) {
		whole = http_head_length(p, n, &from);
		if (whole && whole <= max) {
			k->at += (uint32_t)whole;
			begin(c, p, whole);
			if (c->first >= 0 && l->chunk[c->first].at == l->chunk[c->first].end)
				chunk_give(l, take_chunk(c));
			return;
		}
		c->head_from = 0;
	}
	if (!keep_head(c, p, n))
		return;
	whole = http_head_length(c->head, c->head_n, &c->head_from);
	if (whole > max || (!whole && c->head_n >= max)) {
		refuse(c, 431, "the head is larger than max_header");
		return;
	}
	k->at = whole ? k->at + (uint32_t)(whole - before) : k->end;
	if (k->at == k->end)
		chunk_give(l, take_chunk(c));
	if (!whole)
		return;
	c->head_n = 0;
	begin(c, c->head, whole);
	if (c->state == CONN_GONE)
		return;
	free_head(c);
}

/* The body lies whole in a chunk with nothing behind it: used where it is. */
static bool lend_chunk(struct conn *c)
{
	struct loop *l = c->loop;
	struct chunk *k = &l->chunk[c->first];
	struct req *r = c->req;

	if (r->body_n || k->end - k->at != c->parsed.length ||
	    (c->first < CHUNKS ? l->n_held > CHUNKS / 2 : l->n_spare < SPARE_CHUNKS / 2))
		return false;
	r->body = chunk_bytes(l, (uint16_t)c->first) + k->at;
	r->body_n = k->end - k->at;
	r->body_chunk = take_chunk(c);
	return true;
}

static void read_length(struct conn *c)
{
	struct loop *l = c->loop;
	struct req *r = c->req;
	struct chunk *k;
	size_t left, n;

	while (c->first >= 0 && r->body_n < c->parsed.length) {
		if (lend_chunk(c))
			break;
		k = &l->chunk[c->first];
		left = c->parsed.length - r->body_n;
		n = k->end - k->at < left ? k->end - k->at : left;
		if (!put_body(c, chunk_bytes(l, (uint16_t)c->first) + k->at, n)) {
			no_room(c);
			return;
		}
		k->at += (uint32_t)n;
		if (k->at == k->end)
			chunk_give(l, take_chunk(c));
	}
	left = c->parsed.length - r->body_n;
	if (!left) {
		run(c);
	} else if (c->eof) {
		conn_shut(c);
	} else if (left < c->io->direct && !c->filling) {
		c->io->want(c);
	} else if (c->armed) {
		c->io->stop(c);
	} else if (!c->filling) {
		/* In place, a piece at a time so that a length alone takes no memory. */
		n = left < BODY_FIRST + r->body_n ? left : BODY_FIRST + r->body_n;
		if (!reserve_body(c, n)) {
			no_room(c);
			return;
		}
		c->io->fill(c, r->body + r->body_n, n);
	}
}

void conn_filled(struct conn *c, ssize_t n)
{
	if (n <= 0) {
		conn_eof(c, n ? (int)-n : ECONNRESET);
	} else {
		c->req->body_n += (size_t)n;
		c->n_in += (uint64_t)n;
		metric_add(&metrics.bytes_in, (uint64_t)n);
	}
	conn_ready(c);
}

static void read_chunked(struct conn *c)
{
	struct loop *l = c->loop;

	while (c->first >= 0) {
		struct chunk *k = &l->chunk[c->first];
		size_t used, n = k->end - k->at;

		/* Sizes, extensions and trailers are not the body, but not free. */
		c->body_at += n;
		if (c->body_at > 65536 + 16 * ((uint64_t)c->req->body_n + n)) {
			refuse(c, 413, "the chunks are mostly overhead");
			return;
		}
		if (!http_chunks(&c->http, chunk_bytes(l, (uint16_t)c->first) + k->at, n,
				 &used)) {
			refuse(c, c->http.err.status, c->http.err.why);
			return;
		}
		k->at += (uint32_t)used;
		if (k->at == k->end)
			chunk_give(l, take_chunk(c));
		if (c->http.end) {
			c->body_at = 0;
			run(c);
			return;
		}
	}
	if (c->eof)
		conn_shut(c);
	else
		c->io->want(c);
}

/* Draining, and nothing was asked. */
static void end_idle(struct conn *c)
{
	if (c->loop->now >= c->ask_by)
		conn_shut(c);
	else if (c->deadline > c->ask_by)
		c->deadline = c->ask_by;
}

static void wait_for_head(struct conn *c)
{
	if (c->eof)
		conn_shut(c);
	else if (c->loop->draining && !c->head_n)
		end_idle(c);
	if (c->state != CONN_GONE)
		c->io->want(c);
}

void conn_polled(struct conn *c)
{
	if (c->state == CONN_LINGER)
		linger_polled(c);
	else if (c->tls)
		tls_polled(c);
}

/* Go on as far as the bytes that are there allow. */
void conn_process(struct conn *c)
{
	enum conn_state before;
	int32_t first;

	do {
		before = c->state;
		first = c->first;
		if (c->bad && c->state != CONN_GONE)
			conn_shut(c);
		switch (c->state) {
		case CONN_HEAD:
			if (c->first >= 0)
				read_head(c);
			else
				wait_for_head(c);
			break;
		case CONN_LENGTH:
			read_length(c);
			break;
		case CONN_CHUNKED:
			read_chunked(c);
			break;
		case CONN_LINGER:
			drop_chunks(c);
			unstarve(c);
			if (c->eof)
				conn_shut(c);
			else
				linger(c);
			break;
		case CONN_SHAKE:
			if (c->eof)
				conn_shut(c);
			break;
		case CONN_BUSY:
			/* A peer that half-closes still reads: gone_look() tells it
			 * from one that is gone. */
		case CONN_SEND:
			/* Nothing behind the last request is answered. */
			if (c->last)
				drop_chunks(c);
			break;
		case CONN_GONE:
			break;
		}
		/* What follows a reply is another turn's: others have theirs first. */
	} while (c->state != CONN_GONE && !c->ready &&
		 (c->state != before || c->first != first));
}

void conn_timeout(struct conn *c)
{
	c->deadline = 0;
	switch (c->state) {
	case CONN_HEAD:
		if (c->head_n)
			refuse(c, 408, "the head did not arrive within header_timeout");
		else
			conn_shut(c);
		break;
	case CONN_LENGTH:
		/* Received in place: the request's memory is in use until shut. */
		if (c->filling)
			conn_shut(c);
		else
			refuse(c, 408, "the body did not arrive within body_timeout");
		break;
	case CONN_CHUNKED:
		refuse(c, 408, "the body did not arrive within body_timeout");
		break;
	default:
		c->error = ETIMEDOUT;
		conn_shut(c);
	}
}

void conn_drain(struct conn *c)
{
	if (c->state != CONN_SHAKE)
		bound_drain(c);
	if (c->state == CONN_HEAD && next_at(c) < c->drain_at)
		c->ask_by = c->loop->now + ask_ns;
	if (c->state == CONN_SHAKE ||
	    (c->state == CONN_HEAD && !c->head_n && c->first < 0))
		end_idle(c);
}
