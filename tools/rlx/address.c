// SPDX-License-Identifier: MIT
/* Addresses of servers out of text. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "tools/rlx/address.h"

static bool parse_port(const char *s, in_port_t *out)
{
	size_t n = strspn(s, "0123456789");
	long v = n && n < 6 && !s[n] ? strtol(s, NULL, 10) : -1;

	*out = htons((uint16_t)v);
	return v >= 0 && v <= 65535;
}

bool address_parse(const char *s, struct sockaddr_storage *out, socklen_t *out_len)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	struct sockaddr_un *un = (struct sockaddr_un *)out;
	const char *colon = strrchr(s, ':');
	char host[64];
	size_t n;

	memset(out, 0, sizeof(*out));
	if (!strncmp(s, "unix:", 5) && strlen(s + 5) < sizeof(un->sun_path)) {
		un->sun_family = AF_UNIX;
		strcpy(un->sun_path, s + 5);
		*out_len = sizeof(*un);
		return true;
	}
	n = colon ? (size_t)(colon - s) : 0;
	if (!n || n >= sizeof(host))
		return false;
	memcpy(host, s, n);
	host[n] = 0;
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = 0;
		in6->sin6_family = AF_INET6;
		*out_len = sizeof(*in6);
		return parse_port(colon + 1, &in6->sin6_port) &&
		       inet_pton(AF_INET6, host + 1, &in6->sin6_addr) == 1;
	}
	in->sin_family = AF_INET;
	*out_len = sizeof(*in);
	return parse_port(colon + 1, &in->sin_port) &&
	       inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1",
			 &in->sin_addr) == 1;
}

bool address_url(const char *text, const char *port, const char *path, struct url *out)
{
	const char *host = text + 7, *end, *colon, *slash;
	in_port_t n;

	if (strncmp(text, "http://", 7) || text[strspn(text, "!#$%&'()*+,-./0123456789:;=?@"
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz~")])
		return false;
	slash = host + strcspn(host, "/?#");
	end = *host == '[' ? memchr(host, ']', (size_t)(slash - host)) : NULL;
	colon = memchr(end ? end : host, ':', (size_t)(slash - (end ? end : host)));
	if (*host == '[' && (!end || (end + 1 != slash && end + 1 != colon)))
		return false;
	host += end != NULL;
	end = end ? end : colon ? colon : slash;
	if (end == host || (size_t)(end - host) >= sizeof(out->host) || memchr(host, '@',
		(size_t)(end - host)) || strlen(slash) >= sizeof(out->path) || *slash == '?' ||
	    *slash == '#')
		return false;
	snprintf(out->host, sizeof(out->host), "%.*s", (int)(end - host), host);
	snprintf(out->path, sizeof(out->path), "%s", *slash && slash[1] ? slash : path);
	snprintf(out->port, sizeof(out->port), "%s", port);
	if (colon && (slash - colon > 6 || slash == colon + 1))
		return false;
	if (colon)
		snprintf(out->port, sizeof(out->port), "%.*s", (int)(slash - colon - 1), colon + 1);
	return parse_port(out->port, &n) && n;
}

bool address_is_local(const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in *in = (const struct sockaddr_in *)a;

	if (a->ss_family == AF_UNIX)
		return true;
	if (a->ss_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	return a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}
