// SPDX-License-Identifier: MIT
/* Whose requests a browser may bring. */
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "tools/rlxd/origin.h"

static bool same(struct slice a, const char *p, size_t n)
{
	return a.n == n && !strncasecmp(a.p, p, n);
}

static bool ends_with(struct slice a, const char *end)
{
	size_t n = strlen(end);

	return a.n > n && !strncasecmp(a.p + a.n - n, end, n);
}

static bool is_listed(const struct conf_list *l, struct slice s)
{
	unsigned int i;

	for (i = 0; i < l->n; i++)
		if (!strcmp(l->v[i], "*") || same(s, l->v[i], strlen(l->v[i])))
			return true;
	return false;
}

/* "NAME:PORT", "[::1]:PORT" or either without a port; without it and brackets. */
static struct slice host_name(struct slice h)
{
	const char *end;

	if (h.n && *h.p == '[') {
		end = memchr(h.p, ']', h.n);
		return end ? (struct slice){ h.p + 1, (size_t)(end - h.p) - 1 } : h;
	}
	end = memchr(h.p, ':', h.n);
	if (end)
		h.n = (size_t)(end - h.p);
	/* Absolute, as resolvers write it: the same name. */
	if (h.n && h.p[h.n - 1] == '.')
		h.n--;
	return h;
}

static bool is_address(struct slice s)
{
	unsigned char addr[sizeof(struct in6_addr)];
	char text[INET6_ADDRSTRLEN];

	if (s.n >= sizeof(text))
		return false;
	memcpy(text, s.p, s.n);
	text[s.n] = 0;
	return inet_pton(AF_INET, text, addr) == 1 || inet_pton(AF_INET6, text, addr) == 1;
}

bool origin_host_is_ours(struct slice host, const struct conf_list *names)
{
	struct slice name;

	if (!host.n)
		return true;
	name = host_name(host);
	return is_address(name) || same(name, "localhost", 9) || ends_with(name, ".localhost") ||
	       is_listed(names, name);
}

bool origin_is_allowed(struct slice origin, struct slice host, const struct conf_server *cf)
{
	struct slice at = origin;

	if (is_listed(&cf->cors_origins, origin))
		return true;
	if (at.n > 7 && !strncasecmp(at.p, "http://", 7))
		at = (struct slice){ at.p + 7, at.n - 7 };
	else if (at.n > 8 && !strncasecmp(at.p, "https://", 8))
		at = (struct slice){ at.p + 8, at.n - 8 };
	else
		return false;
	return same(at, host.p, host.n) && origin_host_is_ours(host, &cf->hosts);
}

bool origin_type_is_json(struct slice type)
{
	const char *end = type.n ? memchr(type.p, ';', type.n) : NULL;

	if (end)
		type.n = (size_t)(end - type.p);
	while (type.n && (type.p[type.n - 1] == ' ' || type.p[type.n - 1] == '\t'))
		type.n--;
	return same(type, "application/json", 16) || ends_with(type, "+json") ||
	       same(type, "application/octet-stream", 24);
}
