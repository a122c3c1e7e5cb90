// SPDX-License-Identifier: MIT
/* Handshakes, and the bytes of connections that OpenSSL encrypts and decrypts. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/rlx/openssl.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/metric.h"
#include "tools/rlxd/server.h"
#include "tools/rlxd/tls.h"
#include "tools/rlxd/worker_pool.h"

struct tls {
	SSL	*ssl;
	int	 fd_flags;	/* as it was accepted */
	bool	 kernel_sends;
	bool	 broken;	/* nothing more may be asked of ssl */
	/* Of the handshake, while c->with_worker the worker's, but for @unwanted. */
	struct conn	*conn;
	struct client	*client;	/* whose turn it takes */
	struct task	 task;
	int		 result;	/* of its last part, SSL_ERROR_NONE at its end */
	unsigned long	 why;		/* that failed */
	atomic_bool	 unwanted;	/* the connection ends */

	size_t	 head_n;	/* bytes of a head that is not whole */
	size_t	 head_least;	/* no head of this connection was shorter; 0: none yet */
	unsigned int ended;	/* bytes of the empty line behind a head that are there */
	bool	 counts;	/* the handshake is done: more of it is another matter */
	unsigned int again;	/* steps of it since then, or since the last head */
};

/* How much to take: all that there is room for, what came with the first of it, or a head. */
enum amount { ALL, WHAT_CAME, HEAD };

enum outcome { AGAIN, END, BROKEN };

/* To read so many takes as long as a part of a handshake. */
enum { SHAKE_BYTES = 8 << 10 };

/* Steps of handshakes from one request to the next: new keys take four. */
enum { AGAIN_MAX = 64 };

static const struct transport tls_io;

/* What a call waits for that gave this error, which the engine is told, or why it ended. */
static enum outcome outcome(struct conn *c, int error)
{
	switch (error) {
	case SSL_ERROR_WANT_READ:
		c->loop->engine->poll(c, POLLIN);
		return AGAIN;
	case SSL_ERROR_WANT_WRITE:
		c->loop->engine->poll(c, POLLOUT);
		return AGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return END;
	default:
		c->tls->broken = true;
		return BROKEN;
	}
}

static const char head_end[4] = "\r\n\r\n";

enum { HEAD_LEAST = 24 /* GET / HTTP/1.1, Host: */ };

/*
 * So many bytes belong to the head for sure. One too many may be of a body, which
 * would then move twice: here, and to where it belongs. Few heads are shorter than those
 * before them, so that only the first of a connection takes many calls.
 */
static size_t head_step(const struct tls *t)
{
	size_t least = t->head_least ? t->head_least : HEAD_LEAST;

	if (t->head_n + sizeof(head_end) < least)
		return least - sizeof(head_end) - t->head_n;
	return sizeof(head_end) - t->ended;
}

/* Bytes of a head were taken. True: up to its end. */
static bool head_ends(struct tls *t, const char *p, size_t n)
{
	size_t i;

	t->head_n += n;
	for (i = 0; i < n && t->ended < sizeof(head_end); i++)
		t->ended = p[i] == head_end[t->ended] ? t->ended + 1 : p[i] == '\r';
	if (t->ended < sizeof(head_end))
		return false;
	t->head_n -= n - i;
	if (t->head_n >= HEAD_LEAST && (!t->head_least || t->head_n < t->head_least))
		t->head_least = t->head_n;
	t->head_n = 0;
	t->ended = 0;
	t->again = 0;
	return true;
}

/*
 * Up to @n bytes. But for all of them the socket is asked again when there is more, unless
 * that is there. At the end of the connection conn_eof() was told.
 */
static size_t take(struct conn *c, char *p, size_t n, enum amount amount)
{
	struct tls *t = c->tls;
	bool whole = false;
	size_t got = 0, k;
	enum outcome o;

	while (got < n) {
		/* What follows goes to a body's place, or is of a request behind this one. */
		if (whole && (c->state != CONN_HEAD || SSL_has_pending(t->ssl))) {
			c->armed = false;
			break;
		}
		if (got && amount != ALL && !SSL_has_pending(t->ssl)) {
			c->loop->engine->poll(c, POLLIN);
			break;
		}
		k = amount == HEAD && head_step(t) < n - got ? head_step(t) : n - got;
		ERR_clear_error();
		if (SSL_read_ex(t->ssl, p + got, k, &k)) {
			whole = amount == HEAD && head_ends(t, p + got, k);
			got += k;
			continue;
		}
		o = outcome(c, SSL_get_error(t->ssl, 0));
		if (o == AGAIN)
			break;
		c->armed = false;
		conn_eof(c, o == END ? 0 : EPROTO);
		conn_ready(c);
		break;
	}
	metric_add(&metrics.bytes_copied, got);
	return got;
}

/* One chunk; no more of it than a head, as a body is received in place. */
static void pull(struct conn *c)
{
	struct loop *l = c->loop;
	bool head = c->state != CONN_CHUNKED && c->state != CONN_LINGER;
	uint16_t id;
	size_t n;

	if (!l->n_spare) {
		c->armed = false;
		conn_starve(c);
		return;
	}
	id = l->spare[--l->n_spare];
	n = take(c, chunk_bytes(l, id), CHUNK_BYTES, head ? HEAD : WHAT_CAME);
	c->armed &= n < CHUNK_BYTES;
	if (!n) {
		chunk_give(l, id);
		return;
	}
	conn_chunk(c, id, (uint32_t)n);
	conn_ready(c);
}

static void tls_want(struct conn *c)
{
	if (c->armed || c->shut || c->starved)
		return;
	c->armed = true;
	pull(c);
}

static void tls_stop(struct conn *c)
{
	c->armed = false;
	conn_ready(c);
}

static void fill_on(struct conn *c)
{
	c->filled += take(c, (char *)c->fill_p + c->filled, c->fill_n - c->filled,
			  ALL);
	if (c->filled < c->fill_n && !c->eof)
		return;
	c->filling = false;
	/* The peer may go while it is being answered. */
	c->armed = !c->eof && !SSL_has_pending(c->tls->ssl);
	if (c->armed)
		c->loop->engine->poll(c, POLLIN);
	conn_filled(c, (ssize_t)c->filled);
}

static void tls_fill(struct conn *c, void *p, size_t n)
{
	c->filling = true;
	c->fill_p = p;
	c->fill_n = n;
	c->filled = 0;
	fill_on(c);
}

/* Pieces of a reply are records of their own, but not packets of their own. */
static void cork(struct conn *c, int on)
{
	setsockopt(c->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
}

static void send_on(struct conn *c)
{
	ssize_t before = c->sent, end;
	struct iovec *v;
	size_t n = 0;

	do {
		v = c->msg.msg_iov;
		ERR_clear_error();
		if (!v->iov_len || SSL_write_ex(c->tls->ssl, v->iov_base, v->iov_len, &n))
			continue;
		if (outcome(c, SSL_get_error(c->tls->ssl, 0)) != AGAIN)
			break;
		if (!c->tls->kernel_sends)
			metric_add(&metrics.bytes_copied, c->sent - before);
		return;
	} while (!conn_advance(c, v->iov_len ? n : 0));
	if (!c->tls->kernel_sends)
		metric_add(&metrics.bytes_copied, c->sent - before);
	end = c->tls->broken ? -EPIPE : c->sent;
	cork(c, 0);
	c->sending = false;
	conn_sent(c, end);
}

static void tls_send(struct conn *c)
{
	c->sending = true;
	cork(c, 1);
	send_on(c);
}

static const struct transport tls_io = {
	.want = tls_want,
	.stop = tls_stop,
	.fill = tls_fill,
	.send = tls_send,
	.direct = 1,
};

/*
 * Calls of OpenSSL must not wait for the peer; an io_uring engine's must, in its ring,
 * where a descriptor that never waits would have them fail.
 */
static bool set_waits(struct conn *c, bool waits)
{
	int flags = c->tls->fd_flags;

	return !fcntl(c->fd, F_SETFL, waits ? flags : flags | O_NONBLOCK);
}

/*
 * OpenSSL does whatever a peer asks for in between, new keys in TLS 1.3 or in vain a renegotiation,
 * and reads on, for as long as more of it comes: who never ends is taken as gone.
 */
static void on_step(const SSL *ssl, int where, int value)
{
	struct tls *t = SSL_get_app_data(ssl);

	if (t->counts && (where & SSL_CB_LOOP || where == SSL_CB_WRITE_ALERT) &&
	    ++t->again > AGAIN_MAX)
		SSL_set_shutdown(t->ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
}

bool tls_begin(struct conn *c)
{
	struct server *s = c->loop->server;
	struct tls *t = rlx_calloc(1, sizeof(*t));
	bool certified;

	c->io = &tls_io;
	c->state = CONN_SHAKE;
	c->tls = t;
	if (!t)
		return false;
	t->conn = c;
	/* The certificate of this moment; SSL_new() takes a reference. */
	pthread_mutex_lock(&s->lock);
	certified = s->conf->tls;
	t->ssl = certified ? SSL_new(s->conf->tls) : NULL;
	pthread_mutex_unlock(&s->lock);
	t->broken = !t->ssl;
	t->fd_flags = fcntl(c->fd, F_GETFL);
	if (!t->ssl || t->fd_flags < 0 || !set_waits(c, false) || !SSL_set_fd(t->ssl, c->fd) ||
	    !SSL_set_app_data(t->ssl, t)) {
		if (log_allow())
			log_event(LOG_WARN, "cannot speak TLS", L_STR("client", c->peer),
				  L_STR("error", certified ? "out of memory" :
					"the configuration has no tls_certificate any more"));
		return false;
	}
	SSL_set_info_callback(t->ssl, on_step);
	SSL_set_accept_state(t->ssl);
	c->loop->engine->poll(c, POLLIN);
	return true;
}

static void shake_failed(struct conn *c)
{
	static const char plain[] =
		"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
		"Content-Length: 24\r\nConnection: close\r\n\r\n"
		"this address speaks TLS\n";
	unsigned long e = c->tls->why;
	const char *why = e ? ERR_reason_error_string(e) : "the peer went away";

	metric_add(&metrics.handshakes_failed, 1);
	if (ERR_GET_REASON(e) == SSL_R_HTTP_REQUEST &&
	    send(c->fd, plain, sizeof(plain) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		why = "a plain HTTP request";
	if (log_allow())
		log_event(LOG_INFO, "TLS handshake failed", L_STR("client", c->peer),
			  L_STR("error", why ? why : "unknown"));
	conn_shut(c);
}

/* Bytes that OpenSSL has read ahead keep it between us and the socket. */
static void shaken(struct conn *c)
{
	struct tls *t = c->tls;
	bool receives = BIO_get_ktls_recv(SSL_get_rbio(t->ssl)) && !SSL_has_pending(t->ssl);

	t->counts = true;
	t->kernel_sends = BIO_get_ktls_send(SSL_get_wbio(t->ssl));
	metric_add(&metrics.handshakes, 1);
	metric_add(&metrics.kernel_sends, t->kernel_sends);
	metric_add(&metrics.kernel_receives, receives);
	log_event(LOG_DEBUG, "TLS", L_STR("client", c->peer),
		  L_STR("version", SSL_get_version(t->ssl)),
		  L_STR("cipher", SSL_get_cipher_name(t->ssl)),
		  L_STR("kernel", !t->kernel_sends ? "no" : receives ? "both" : "sends"));
	if (t->kernel_sends && receives && set_waits(c, true))
		c->io = &c->loop->engine->io;
	c->state = CONN_HEAD;
	c->deadline = c->loop->now + c->loop->server->limits.header_timeout_ns;
	conn_ready(c);
}

static void shake(struct tls *t)
{
	int rc;

	/* Errors are of the thread. */
	ERR_clear_error();
	rc = SSL_do_handshake(t->ssl);
	t->result = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, rc);
	t->why = ERR_peek_error();
}

static void shake_task(struct task *task)
{
	struct tls *t = (struct tls *)((char *)task - offsetof(struct tls, task));

	if (!atomic_load(&t->unwanted))
		shake(t);
	client_put(t->client);
	loop_post_shaken(t->conn);
}

void conn_shaken(struct conn *c)
{
	if (c->tls->result == SSL_ERROR_NONE)
		shaken(c);
	else if (outcome(c, c->tls->result) != AGAIN)
		shake_failed(c);
}

/*
 * A part of a handshake: signing takes some 0.3 ms, and peers that ask for it may be many. Where
 * they are, workers do it, in turn between addresses.
 */
static void shake_on(struct conn *c)
{
	bool here = loop_may_read(c->loop, SHAKE_BYTES);
	struct server *s = c->loop->server;
	struct tls *t = c->tls;

	t->client = here ? NULL : server_client(s, c->client);
	if (!t->client) {
		shake(t);
		conn_shaken(c);
		return;
	}
	c->with_worker = true;
	t->task = (struct task){ .fn = shake_task, .share = &t->client->share };
	worker_pool_post_read(s->workers, &t->task, SHAKE_BYTES);
}

void tls_polled(struct conn *c)
{
	if (c->state == CONN_SHAKE) {
		shake_on(c);
		return;
	}
	if (c->io != &tls_io)
		return;
	if (c->sending)
		send_on(c);
	if (c->state == CONN_GONE)
		return;
	if (c->filling)
		fill_on(c);
	else if (c->armed)
		pull(c);
}

bool tls_say(struct conn *c, const char *p, size_t n)
{
	bool ok, engine = c->io != &tls_io;
	size_t k;

	if (engine && !set_waits(c, false))
		return false;
	ERR_clear_error();
	ok = SSL_write_ex(c->tls->ssl, p, n, &k) && k == n;
	return !engine ? ok : set_waits(c, true) && ok;
}

void tls_goodbye(struct conn *c)
{
	struct tls *t = c->tls;

	bool engine = c->io != &tls_io;

	atomic_store(&t->unwanted, true);
	if (t->broken || c->sending || c->state == CONN_SHAKE ||
	    SSL_get_shutdown(t->ssl) & SSL_SENT_SHUTDOWN || (engine && !set_waits(c, false)))
		return;
	ERR_clear_error();
	if (SSL_shutdown(t->ssl) < 0)
		t->broken = true;
	if (engine && !set_waits(c, true))
		t->broken = true;
}

void tls_end(struct conn *c)
{
	SSL_free(c->tls->ssl);
	rlx_free(c->tls);
	c->tls = NULL;
}

size_t tls_pending(const struct conn *c)
{
	return (size_t)SSL_pending(c->tls->ssl);
}
