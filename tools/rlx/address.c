// SPDX-License-Identifier: MIT
/* Addresses of servers out of text. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "tools/rlx/address.h"
#include "tools/rlx/args.h"

bool address_parse(const char *s, struct sockaddr_storage *out, socklen_t *out_len)
{
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	struct sockaddr_un *un = (struct sockaddr_un *)out;
	const char *colon = strrchr(s, ':');
	uint64_t port;
	char host[64];

	memset(out, 0, sizeof(*out));
	if (!strncmp(s, "unix:", 5) && strlen(s + 5) < sizeof(un->sun_path)) {
		un->sun_family = AF_UNIX;
		strcpy(un->sun_path, s + 5);
		*out_len = sizeof(*un);
		return true;
	}
	if (!colon || (size_t)(colon - s) >= sizeof(host) || !parse_u64(colon + 1, 65535, &port))
		return false;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - s), s);
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	*out_len = sizeof(*in);
	return inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1",
			 &in->sin_addr) == 1;
}
