/* SPDX-License-Identifier: MIT */
/* TLS for those who connect: names, certificates, bytes over a socket. */
#ifndef RLX_TOOLS_LOAD_TLS_H
#define RLX_TOOLS_LOAD_TLS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "rlx/status.h"

/* Whom connections go to, and whom they believe to be there. */
struct load_tls;
/* One connection. */
struct tls_conn;

/*
 * For @url, "https://NAME:PORT" (443). @ca: a file with the certificates of whoever may
 * have signed the server's, NULL: whom this system trusts. @insecure: take any.
 */
enum rlx_status __rlx_must_check
load_tls_open(const char *url, const char *ca, bool insecure, struct load_tls **out,
	      struct rlx_error *err);
void load_tls_close(struct load_tls *t);
/* Where it is. */
const struct sockaddr_storage *load_tls_address(const struct load_tls *t, socklen_t *out_len);
/* NAME:PORT as a Host line has it. */
const char *load_tls_host(const struct load_tls *t);

/* Over a socket that is connected; waits for the peer. It is non-blocking from then on. */
enum rlx_status __rlx_must_check
tls_conn_new(const struct load_tls *t, int fd, struct tls_conn **out, struct rlx_error *err);
void tls_conn_free(struct tls_conn *c);
/* As send() and recv() without waiting: 0 is the end, -1 with EAGAIN later. */
ssize_t tls_conn_send(struct tls_conn *c, const void *p, size_t n);
ssize_t tls_conn_recv(struct tls_conn *c, void *p, size_t n);
/* Are there bytes that the socket does not tell of? */
bool tls_conn_pending(const struct tls_conn *c);

#endif
