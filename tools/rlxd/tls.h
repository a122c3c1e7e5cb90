/* SPDX-License-Identifier: MIT */
/*
 * TLS on a connection, by OpenSSL. A handshake reads and writes the socket when the
 * engine says that it can; afterwards the kernel encrypts and decrypts where it
 * knows how, and the connection goes on as a plain one does. Else bytes go through
 * OpenSSL, straight from and to where they belong: one copy, which is counted.
 */
#ifndef RLXD_TLS_H
#define RLXD_TLS_H

#include "tools/rlxd/loop.h"

struct conf_server;
struct ssl_ctx_st;

/*
 * Certificate, key and, if there is one, the CA of clients' certificates, out of the
 * files that @cf names. On failure @err tells which of them is wrong and how.
 */
enum rlx_status __rlx_must_check
tls_ctx_new(const struct conf_server *cf, struct ssl_ctx_st **out, struct rlx_error *err);
void tls_ctx_free(struct ssl_ctx_st *ctx);
/* When its certificate ends, realtime seconds. */
int64_t tls_ctx_expiry(const struct ssl_ctx_st *ctx);

/* Wait for a peer's first words. False: it cannot be; shut it. */
bool tls_begin(struct conn *c);
/* One of the events that the engine was told to look out for is there. */
void tls_polled(struct conn *c);
/* Some bytes at once. False: the socket did not take them. */
bool tls_say(struct conn *c, const char *p, size_t n);
/* Tell the peer that nothing more comes; once, and if that is possible. */
void tls_goodbye(struct conn *c);
void tls_end(struct conn *c);
/* Bytes that are decrypted and not taken yet. */
size_t tls_pending(const struct conn *c);

#endif
