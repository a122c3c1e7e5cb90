/* SPDX-License-Identifier: MIT */
/* A server from its listening sockets to its threads; models come later. */
#ifndef RLXD_START_H
#define RLXD_START_H

#include "tools/rlxd/server.h"

/*
 * Start serving by @c, which is taken also on failure, on the first @n_passed
 * descriptors from 3 on and on the addresses of @c. Nothing is ready until
 * server_swap() and the two flags say so. server_close() in any case.
 */
enum rlx_status __rlx_must_check
server_open(struct server *s, struct conf *c, unsigned int n_passed, struct rlx_error *err);
/* Ends the threads and frees everything; requests that are not answered are lost. */
void server_close(struct server *s);

#endif
