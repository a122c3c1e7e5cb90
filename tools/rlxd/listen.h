/* SPDX-License-Identifier: MIT */
/* Sockets to listen on: addresses of this machine, unix sockets, passed ones. */
#ifndef RLXD_LISTEN_H
#define RLXD_LISTEN_H

#include "tools/rlxd/conf.h"
#include "tools/rlxd/loop.h"

enum rlx_status __rlx_must_check
listen_open(const struct conf_listen *cl, struct listener *out, struct rlx_error *err);
/*
 * A socket from the service manager: without @tls it must be of this machine alone, or
 * @insecure.
 */
enum rlx_status __rlx_must_check
listen_adopt(int fd, bool tls, bool insecure, struct listener *out, struct rlx_error *err);

#endif
