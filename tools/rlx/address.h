/* SPDX-License-Identifier: MIT */
/* Addresses of servers, for those who connect and those who listen. */
#ifndef RLX_TOOLS_ADDRESS_H
#define RLX_TOOLS_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* "127.0.0.1:8000", "[::1]:8000", "localhost:8000" or "unix:/path". */
bool address_parse(const char *s, struct sockaddr_storage *out, socklen_t *out_len);
struct url {
	char	host[256], port[6], path[200];	/* the host without brackets */
};

/* "http://HOST[:PORT][/PATH]"; what is left out is @port and @path. */
bool address_url(const char *text, const char *port, const char *path, struct url *out);
/* Can only processes of this machine reach it? */
bool address_is_local(const struct sockaddr_storage *a);

#endif
