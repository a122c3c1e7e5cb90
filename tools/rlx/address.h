/* SPDX-License-Identifier: MIT */
/* "127.0.0.1:8000" and "unix:/path", as several subcommands take them. */
#ifndef RLX_TOOLS_ADDRESS_H
#define RLX_TOOLS_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

bool address_parse(const char *s, struct sockaddr_storage *out, socklen_t *out_len);

#endif
