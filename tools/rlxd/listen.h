/* SPDX-License-Identifier: MIT */
/* Sockets to listen on: addresses of this machine, unix sockets, passed ones. */
#ifndef RLXD_LISTEN_H
#define RLXD_LISTEN_H

#include "tools/rlxd/loop.h"

/*
 * "127.0.0.1:8000", "[::1]:8000", "localhost:8000" or "unix:/path". Other addresses
 * are refused: whoever can reach them could read and ask everything.
 */
enum rlx_status __rlx_must_check
listen_open(const char *address, struct listener *out, struct rlx_error *err);
/* A socket from the service manager, which is held to the same. */
enum rlx_status __rlx_must_check
listen_adopt(int fd, struct listener *out, struct rlx_error *err);

#endif
