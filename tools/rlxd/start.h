/* SPDX-License-Identifier: MIT */
/* A server from its listening sockets to its threads; models come later. */
#ifndef RLXD_START_H
#define RLXD_START_H

#include "tools/rlxd/server.h"

/*
 * In this order. Open: take @c, also on failure; @n_passed descriptors came with the
 * start, from 3 on. From then on models can be loaded. Listen: on those and on the
 * addresses of @c; whoever connects waits. Serve: answer. Nothing is ready until
 * server_swap() and the two flags say so. server_close() in any case.
 */
enum rlx_status __rlx_must_check
server_open(struct server *s, struct conf *c, unsigned int n_passed, struct rlx_error *err);
enum rlx_status __rlx_must_check
server_listen(struct server *s, unsigned int n_passed, struct rlx_error *err);
enum rlx_status __rlx_must_check server_serve(struct server *s, struct rlx_error *err);
/* Nobody is answered any more. */
void server_stop_loops(struct server *s);
/* Ends the threads and frees everything; requests that are not answered are lost. */
void server_close(struct server *s);

#endif
