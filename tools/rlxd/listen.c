// SPDX-License-Identifier: MIT
/* Opens and checks listening sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/rlx/address.h"
#include "tools/rlxd/listen.h"

enum { BACKLOG = 1024 };

/* A socket file of a process that ended, as connecting to it tells. */
static void remove_stale(const struct sockaddr_un *a)
{
	struct ucred cred = { 0 };
	socklen_t n = sizeof(cred);
	struct stat sb;
	bool ended;
	int fd;

	if (lstat(a->sun_path, &sb) || !S_ISSOCK(sb.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		ended = errno == ECONNREFUSED;
	else	/* perhaps to what is left of a ring, whose process is gone */
		ended = !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) && cred.pid > 0 &&
			kill(cred.pid, 0) && errno == ESRCH;
	if (ended)
		unlink(a->sun_path);
	close(fd);
}

static bool take_address(int fd, const struct sockaddr *a, socklen_t n)
{
	if (a->sa_family == AF_UNIX)
		remove_stale((const struct sockaddr_un *)a);
	return !bind(fd, a, n) && !listen(fd, BACKLOG);
}

/* The address as bound: the port may have been 0. */
static void name(struct listener *l)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	const char *tls = l->tls ? "tls:" : "";
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
		snprintf(l->name, sizeof(l->name), "%s[%s]:%u", tls, host, ntohs(in6->sin6_port));
	} else {
		struct sockaddr_in *in = (struct sockaddr_in *)&a;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(l->name, sizeof(l->name), "%s%s:%u", tls, host, ntohs(in->sin_port));
	}
}

enum rlx_status listen_open(const struct conf_listen *cl, struct listener *out,
			    struct rlx_error *err)
{
	bool is_unix = cl->addr.ss_family == AF_UNIX;
	enum rlx_status st;
	int fd, one = 1;
	mode_t mask;
	bool ok;

	*out = (struct listener){ .fd = -1, .tls = cl->tls,
				  .off_host = cl->tls || !address_is_local(&cl->addr) };
	fd = socket(cl->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return rlx_fail(err, RLX_EIO, "%s: %m", cl->text);
	if (!is_unix)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* For the user and the group; who may come in is the folder's say as well. */
	mask = umask(0117);
	ok = take_address(fd, (const struct sockaddr *)&cl->addr, cl->len);
	umask(mask);
	if (!ok) {
		st = rlx_fail(err, errno == EADDRINUSE ? RLX_EBUSY : RLX_EIO, "%s: %m", cl->text);
		close(fd);
		return st;
	}
	out->fd = fd;
	out->ours = is_unix;
	name(out);
	return RLX_OK;
}

enum rlx_status listen_adopt(int fd, bool tls, bool insecure, struct listener *out,
			     struct rlx_error *err)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a), len = sizeof(int);
	int yes = 0, flags = fcntl(fd, F_GETFL);

	*out = (struct listener){ .fd = fd, .tls = tls };
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &len) || !yes)
		return rlx_fail(err, RLX_EBADFD, "descriptor %d, which was passed to us, is no "
				"listening socket", fd);
	/* Accepting must not wait for one more than there are. */
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return rlx_fail(err, RLX_EIO, "descriptor %d: %m", fd);
	name(out);
	out->off_host = tls || getsockname(fd, (struct sockaddr *)&a, &n) || !address_is_local(&a);
	if (out->off_host && !tls && !insecure)
		return rlx_fail(err, RLX_EACCES, "%s, which was passed to us, is not an address of "
				"this machine alone: name it so that we speak TLS there "
				"(FileDescriptorName=tls), or plain HTTP (insecure), or listen on "
				"another", out->name);
	return RLX_OK;
}
