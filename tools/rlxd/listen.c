// SPDX-License-Identifier: MIT
/* Opens and checks listening sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/rlxd/listen.h"

enum { BACKLOG = 1024 };

static bool is_local(const struct sockaddr_storage *a)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;

	if (a->ss_family == AF_UNIX)
		return true;
	if (a->ss_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	return a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

static enum rlx_status not_local(const char *address, struct rlx_error *err)
{
	return rlx_fail(err, RLX_EACCES, "%s is not an address of this machine alone; listen on "
			"127.0.0.1:PORT, [::1]:PORT or unix:/PATH, and put a proxy that speaks "
			"TLS in front for others", address);
}

/* A socket file of a process that ended, as connecting to it tells. */
static void remove_stale(const struct sockaddr_un *a)
{
	struct stat sb;
	int fd;

	if (lstat(a->sun_path, &sb) || !S_ISSOCK(sb.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) && errno == ECONNREFUSED)
		unlink(a->sun_path);
	close(fd);
}

/*
 * Bind and listen. A process that was killed may hold the address for some moments
 * more, until the kernel has taken its ring apart.
 */
static bool take_address(int fd, const struct sockaddr *a, socklen_t n)
{
	int64_t end = now_ns() + 3000000000;

	for (;;) {
		if (a->sa_family == AF_UNIX)
			remove_stale((const struct sockaddr_un *)a);
		if (!bind(fd, a, n) && !listen(fd, BACKLOG))
			return true;
		if (errno != EADDRINUSE || now_ns() > end)
			return false;
		usleep(20000);
	}
}

static enum rlx_status open_unix(const char *path, struct listener *out, struct rlx_error *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	mode_t mask;
	bool ok;
	int fd;

	if (*path != '/' || strlen(path) >= sizeof(a.sun_path))
		return rlx_fail(err, RLX_EINVAL, "unix:%s: an absolute path of at most %zu bytes "
				"is needed", path, sizeof(a.sun_path) - 1);
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return rlx_fail(err, RLX_EIO, "unix:%s: %m", path);
	/* For the user and the group; who may come in is the folder's say as well. */
	mask = umask(0117);
	ok = take_address(fd, (const struct sockaddr *)&a, sizeof(a));
	umask(mask);
	if (!ok) {
		rlx_fail(err, errno == EADDRINUSE ? RLX_EBUSY : RLX_EIO, "unix:%s: %m", path);
		close(fd);
		return RLX_EIO;
	}
	out->fd = fd;
	out->is_unix = out->ours = true;
	return RLX_OK;
}

static bool parse(const char *s, struct sockaddr_storage *a, socklen_t *n)
{
	struct sockaddr_in *in = (struct sockaddr_in *)a;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)a;
	const char *colon = strrchr(s, ':');
	char host[64], *end;
	long port;
	size_t k;

	memset(a, 0, sizeof(*a));
	if (!colon || colon == s || (size_t)(colon - s) >= sizeof(host))
		return false;
	port = strtol(colon + 1, &end, 10);
	if (!colon[1] || *end || port < 0 || port > 65535)
		return false;
	k = (size_t)(colon - s);
	memcpy(host, s, k);
	host[k] = 0;
	if (host[0] == '[' && host[k - 1] == ']') {
		host[k - 1] = 0;
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		*n = sizeof(*in6);
		return inet_pton(AF_INET6, host + 1, &in6->sin6_addr) == 1;
	}
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	*n = sizeof(*in);
	return inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1",
			 &in->sin_addr) == 1;
}

/* The address as bound: the port may have been 0. */
static void name(struct listener *l)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	char host[64] = "?";

	if (getsockname(l->fd, (struct sockaddr *)&a, &n))
		return;
	if (a.ss_family == AF_UNIX) {
		struct sockaddr_un *u = (struct sockaddr_un *)&a;

		l->is_unix = true;
		snprintf(l->name, sizeof(l->name), "unix:%.*s",
			 (int)(n - offsetof(struct sockaddr_un, sun_path)), u->sun_path);
	} else if (a.ss_family == AF_INET6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(l->name, sizeof(l->name), "[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		struct sockaddr_in *in = (struct sockaddr_in *)&a;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(l->name, sizeof(l->name), "%s:%u", host, ntohs(in->sin_port));
	}
}

enum rlx_status listen_open(const char *address, struct listener *out, struct rlx_error *err)
{
	struct sockaddr_storage a;
	enum rlx_status st;
	socklen_t n;
	int fd, one = 1;

	*out = (struct listener){ .fd = -1 };
	if (!strncmp(address, "unix:", 5)) {
		st = open_unix(address + 5, out, err);
		if (!st)
			name(out);
		return st;
	}
	if (!parse(address, &a, &n))
		return rlx_fail(err, RLX_EINVAL, "'%s' is no address: 127.0.0.1:PORT, [::1]:PORT "
				"or unix:/PATH", address);
	if (!is_local(&a))
		return not_local(address, err);
	fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return rlx_fail(err, RLX_EIO, "%s: %m", address);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!take_address(fd, (const struct sockaddr *)&a, n)) {
		rlx_fail(err, errno == EADDRINUSE ? RLX_EBUSY : RLX_EIO, "%s: %m", address);
		close(fd);
		return RLX_EIO;
	}
	out->fd = fd;
	name(out);
	return RLX_OK;
}

enum rlx_status listen_adopt(int fd, struct listener *out, struct rlx_error *err)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a), len = sizeof(int);
	int yes = 0;

	*out = (struct listener){ .fd = fd };
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &len) || !yes)
		return rlx_fail(err, RLX_EBADFD, "descriptor %d, which was passed to us, is no "
				"listening socket", fd);
	name(out);
	if (getsockname(fd, (struct sockaddr *)&a, &n) || !is_local(&a))
		return not_local(out->name, err);
	return RLX_OK;
}
