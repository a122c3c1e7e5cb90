// SPDX-License-Identifier: MIT
/* TLS of rlx load, by OpenSSL. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/rlx/load_tls.h"
#include "tools/rlx/openssl.h"

enum { NAME_MAX_LEN = 255, SHAKE_SECONDS = 10 };

struct load_tls {
	SSL_CTX		*ctx;
	bool		 is_address, insecure;
	struct sockaddr_storage to;
	socklen_t	 to_len;
	char		 name[NAME_MAX_LEN + 1], host[NAME_MAX_LEN + 10];
};

struct tls_conn {
	SSL		*ssl;
};

/* "NAME:PORT", "[::1]:PORT" or without a port, and maybe a '/', into its parts. */
static bool split(const char *s, struct load_tls *t, char port[6])
{
	const char *end = *s == '[' ? strchr(s, ']') : NULL;
	size_t n = end ? (size_t)(end - ++s) : strcspn(s, ":/"), k;
	struct in6_addr any;

	if (!n || n > NAME_MAX_LEN)
		return false;
	memcpy(t->name, s, n);
	t->is_address = inet_pton(end ? AF_INET6 : AF_INET, t->name, &any) == 1;
	if (end && !t->is_address)
		return false;
	s += n + !!end;
	snprintf(port, 6, "443");
	if (*s == ':') {
		k = strspn(++s, "0123456789");
		if (!k || k > 5)
			return false;
		snprintf(port, 6, "%.*s", (int)k, s);
		s += k;
	}
	snprintf(t->host, sizeof(t->host), end ? "[%s]:%s" : "%s:%s", t->name, port);
	return !*s || !strcmp(s, "/");
}

/* A name may have addresses that nobody listens on. */
static bool answers(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool yes = fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen);

	if (fd >= 0)
		close(fd);
	return yes;
}

static enum rlx_status resolve(struct load_tls *t, const char *port, struct rlx_error *err)
{
	struct addrinfo hint = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *all, *a;
	int rc = getaddrinfo(t->name, port, &hint, &all);

	if (rc)
		return rlx_fail(err, RLX_ENOENT, "%s: %s", t->host, gai_strerror(rc));
	for (a = all; a && !answers(a); a = a->ai_next)
		;
	a = a ? a : all;
	memcpy(&t->to, a->ai_addr, a->ai_addrlen);
	t->to_len = a->ai_addrlen;
	freeaddrinfo(all);
	return RLX_OK;
}

static const char *reason(void)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	return why ? why : strerror(errno);
}

static enum rlx_status trust(SSL_CTX *ctx, const char *ca, struct rlx_error *err)
{
	int ok;

	if (ca && access(ca, R_OK))
		return rlx_fail(err, RLX_ENOENT, "%s: %m", ca);
	ok = ca ? SSL_CTX_load_verify_file(ctx, ca) : SSL_CTX_set_default_verify_paths(ctx);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	return ok == 1 ? RLX_OK : rlx_fail(err, RLX_EPARSE, "%s: no certificates in PEM form "
					   "(%s)", ca ? ca : "what this system trusts", reason());
}

enum rlx_status load_tls_open(const char *url, const char *ca, bool insecure,
			      struct load_tls **out, struct rlx_error *err)
{
	struct load_tls *t = rlx_calloc(1, sizeof(*t));
	enum rlx_status st;
	char port[6];

	*out = NULL;
	if (!t)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	t->insecure = insecure;
	st = split(url + strlen("https://"), t, port) ? RLX_OK :
	     rlx_fail(err, RLX_EINVAL, "'%s' is not https://NAME:PORT", url);
	if (!st)
		st = openssl_open(err);
	if (!st)
		st = resolve(t, port, err);
	if (!st) {
		ERR_clear_error();
		t->ctx = SSL_CTX_new(TLS_client_method());
		if (!t->ctx || SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION) != 1)
			st = rlx_fail(err, RLX_ENOMEM, "OpenSSL: %s", reason());
	}
	if (!st) {
		SSL_CTX_set_mode(t->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
				 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
		SSL_CTX_set_options(t->ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
		st = insecure ? RLX_OK : trust(t->ctx, ca, err);
	}
	if (st) {
		load_tls_close(t);
		return st;
	}
	*out = t;
	return RLX_OK;
}

void load_tls_close(struct load_tls *t)
{
	if (t && t->ctx)
		SSL_CTX_free(t->ctx);
	rlx_free(t);
}

const struct sockaddr_storage *load_tls_address(const struct load_tls *t, socklen_t *out_len)
{
	*out_len = t->to_len;
	return &t->to;
}

const char *load_tls_host(const struct load_tls *t)
{
	return t->host;
}

/* The certificate must name whom we asked for. */
static bool expect(const struct load_tls *t, SSL *ssl)
{
	if (t->is_address)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), t->name) == 1;
	return SSL_set_tlsext_host_name(ssl, t->name) == 1 && SSL_set1_host(ssl, t->name) == 1;
}

static enum rlx_status why_not(const struct load_tls *t, SSL *ssl, struct rlx_error *err)
{
	long v = SSL_get_verify_result(ssl);

	if (v != X509_V_OK && !t->insecure)
		return rlx_fail(err, RLX_EACCES, "%s: its certificate is refused: %s; --ca FILE "
				"tells who may sign it, --insecure takes any", t->host,
				X509_verify_cert_error_string(v));
	return rlx_fail(err, RLX_EIO, "%s: no TLS: %s", t->host,
			ERR_peek_last_error() ? reason() : errno == EAGAIN ? "no answer" :
			errno ? strerror(errno) : "the server hung up");
}

enum rlx_status tls_conn_new(const struct load_tls *t, int fd, struct tls_conn **out,
			     struct rlx_error *err)
{
	struct timeval limit = { .tv_sec = SHAKE_SECONDS };
	struct tls_conn *c = rlx_calloc(1, sizeof(*c));
	enum rlx_status st = RLX_OK;

	*out = NULL;
	ERR_clear_error();
	if (c)
		c->ssl = SSL_new(t->ctx);
	if (!c || !c->ssl || !expect(t, c->ssl) || SSL_set_fd(c->ssl, fd) != 1) {
		tls_conn_free(c);
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	errno = 0;
	if (SSL_connect(c->ssl) != 1)
		st = why_not(t, c->ssl, err);
	else if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		st = rlx_fail(err, RLX_EIO, "%s: %m", t->host);
	if (st) {
		tls_conn_free(c);
		return st;
	}
	*out = c;
	return RLX_OK;
}

void tls_conn_free(struct tls_conn *c)
{
	if (c && c->ssl)
		SSL_free(c->ssl);
	rlx_free(c);
}

/* What a call that did nothing comes to. */
static ssize_t nothing(struct tls_conn *c)
{
	int e = SSL_get_error(c->ssl, 0);

	errno = e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
	return e == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

ssize_t tls_conn_send(struct tls_conn *c, const void *p, size_t n)
{
	size_t k;

	ERR_clear_error();
	return SSL_write_ex(c->ssl, p, n, &k) ? (ssize_t)k : nothing(c);
}

ssize_t tls_conn_recv(struct tls_conn *c, void *p, size_t n)
{
	size_t k;

	ERR_clear_error();
	return SSL_read_ex(c->ssl, p, n, &k) ? (ssize_t)k : nothing(c);
}

bool tls_conn_pending(const struct tls_conn *c)
{
	return SSL_pending(c->ssl) > 0;
}
