// SPDX-License-Identifier: MIT
/* Addresses, listening, connecting, and messages with descriptors. */
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/sock.h"

uint64_t rlx_deadline_in(uint64_t ns)
{
	uint64_t now = rlx_now();

	return ns > RLX_NO_DEADLINE - now ? RLX_NO_DEADLINE : now + ns;
}

int rlx_poll_ms(uint64_t deadline_ns)
{
	uint64_t now, ms;

	if (deadline_ns == RLX_NO_DEADLINE)
		return -1;
	now = rlx_now();
	if (now >= deadline_ns)
		return 0;
	ms = (deadline_ns - now + 999999) / 1000000;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

struct timespec *rlx_poll_ts(uint64_t deadline_ns, struct timespec *ts)
{
	uint64_t now, ns;

	if (deadline_ns == RLX_NO_DEADLINE)
		return NULL;
	now = rlx_now();
	ns = now >= deadline_ns ? 0 : deadline_ns - now;
	ts->tv_sec = (time_t)(ns / 1000000000);
	ts->tv_nsec = (long)(ns % 1000000000);
	return ts;
}

static enum rlx_status fill_addr(const char *address, struct sockaddr_un *sun,
				 socklen_t *len, struct rlx_error *err)
{
	size_t n = address ? strlen(address) : 0;

	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	if (n < 2 || (address[0] != '/' && address[0] != '@'))
		return rlx_fail(err, RLX_EINVAL,
				"address \"%.60s\": wanted \"/path\" or \"@name\"",
				address ? address : "");
	if (n >= sizeof(sun->sun_path))
		return rlx_fail(err, RLX_EINVAL,
				"address of %zu bytes: a socket's has at most %zu",
				n, sizeof(sun->sun_path) - 1);
	memcpy(sun->sun_path, address, n);
	if (address[0] == '@')
		sun->sun_path[0] = 0;
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n +
			   (address[0] != '@'));
	return RLX_OK;
}

static enum rlx_status sock_errno(const char *what, const char *address,
				  struct rlx_error *err)
{
	int e = errno;
	enum rlx_status st = e == EMFILE || e == ENFILE || e == ENOMEM ||
			     e == ENOBUFS ? RLX_ENOMEM :
			     e == EACCES || e == EPERM || e == EROFS ?
			     RLX_EACCES : e == ENOENT || e == ENOTDIR ?
			     RLX_ENOENT : e == EADDRINUSE ? RLX_EBUSY : RLX_EIO;

	return rlx_fail(err, st, "%s of %.100s: %s", what, address, strerror(e));
}

/* A socket for @address, neither bound nor connected yet. */
static enum rlx_status new_sock(const char *address, struct sockaddr_un *sun,
				socklen_t *len, int *out_fd, struct rlx_error *err)
{
	enum rlx_status st = fill_addr(address, sun, len, err);

	if (st)
		return st;
	*out_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return *out_fd < 0 ? sock_errno("socket", address, err) : RLX_OK;
}

/* Does anybody answer there? */
static bool answers(const char *path)
{
	int fd;

	if (rlx_sock_connect(path, &fd, NULL))
		return false;
	close(fd);
	return true;
}

/*
 * Whoever holds the lock on PATH.lock owns PATH, so a socket file found then was
 * left by a service that died. Without it, two services that start at once could
 * each remove the other's; where the file system or the kernel has no locks, that
 * is left to chance, and only who answers is respected.
 */
static enum rlx_status take_path(const char *path, int *lock_fd,
				 struct rlx_error *err)
{
	char lock[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
	struct stat s;

	snprintf(lock, sizeof(lock), "%s.lock", path);
	*lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*lock_fd < 0)
		return sock_errno("lock file", path, err);
	if (flock(*lock_fd, LOCK_EX | LOCK_NB) &&
	    (errno == EWOULDBLOCK || answers(path))) {
		close(*lock_fd);
		*lock_fd = -1;
		return rlx_fail(err, RLX_EBUSY,
				"address %.100s: another service listens there",
				path);
	}
	if (!lstat(path, &s) && S_ISSOCK(s.st_mode))
		unlink(path);
	return RLX_OK;
}

/* For a path the mode is set before anybody can connect: listen() comes after. */
static bool bind_mode(int fd, const struct sockaddr_un *sun, socklen_t len,
		      uint32_t mode)
{
	if (bind(fd, (const struct sockaddr *)sun, len))
		return false;
	return !sun->sun_path[0] || !chmod(sun->sun_path, mode & 0777);
}

enum rlx_status rlx_sock_listen(const char *address, uint32_t mode, int *out_fd,
				int *lock_fd, struct rlx_error *err)
{
	struct sockaddr_un sun;
	enum rlx_status st;
	socklen_t len;
	int fd;

	*lock_fd = -1;
	st = new_sock(address, &sun, &len, &fd, err);
	if (st)
		return st;
	if (address[0] == '/') {
		st = take_path(address, lock_fd, err);
		if (st)
			goto out_close;
	}
	if (!bind_mode(fd, &sun, len, mode) || listen(fd, 128)) {
		st = sock_errno("listening", address, err);
		goto out_unlock;
	}
	*out_fd = fd;
	return RLX_OK;

out_unlock:
	if (*lock_fd >= 0) {
		close(*lock_fd);
		*lock_fd = -1;
	}
out_close:
	close(fd);
	return st;
}

void rlx_sock_unlisten(const char *address, int fd, int lock_fd)
{
	if (fd >= 0)
		close(fd);
	if (lock_fd < 0)
		return;
	unlink(address);
	close(lock_fd);
}

enum rlx_status rlx_sock_connect(const char *address, int *out_fd,
				 struct rlx_error *err)
{
	struct sockaddr_un sun;
	enum rlx_status st;
	socklen_t len;
	int fd;

	st = new_sock(address, &sun, &len, &fd, err);
	if (st)
		return st;
	if (!connect(fd, (struct sockaddr *)&sun, len)) {
		*out_fd = fd;
		return RLX_OK;
	}
	if (errno == ECONNREFUSED || errno == ENOENT || errno == ENOTDIR)
		st = rlx_fail(err, RLX_ENOTCONN, "%.100s: nobody listens there",
			      address);
	else if (errno == EAGAIN)	/* its backlog is full */
		st = rlx_fail(err, RLX_EAGAIN,
			      "%.100s: too many are waiting to be let in",
			      address);
	else if (errno == EPROTOTYPE)
		st = rlx_fail(err, RLX_EPROTO,
			      "%.100s: what listens there is no such service",
			      address);
	else
		st = sock_errno("connecting", address, err);
	close(fd);
	return st;
}

bool rlx_sock_cred(int fd, struct rlx_cred *out)
{
	struct ucred c;
	socklen_t len = sizeof(c);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len))
		return false;
	*out = (struct rlx_cred){ c.pid, c.uid, c.gid };
	return true;
}

/* Its own group is not among the others, unless it stands there as well. */
bool rlx_sock_in_group(int fd, const uint32_t *gids, uint32_t n)
{
	struct rlx_cred cred;
	gid_t *has = NULL;
	socklen_t len = 0;
	uint32_t i, k, nr = 0;
	bool found = false;

	if (!rlx_sock_cred(fd, &cred))
		return false;
	/* Without room it tells how much is needed. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) && errno == ERANGE)
		has = rlx_malloc(len);
	if (has && !getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, has, &len))
		nr = len / sizeof(*has);
	for (i = 0; i < n && !found; i++) {
		found = gids[i] == cred.gid;
		for (k = 0; k < nr && !found; k++)
			found = gids[i] == has[k];
	}
	rlx_free(has);
	return found;
}

bool rlx_sock_send(int fd, struct rlx_wire_msg *msg, const int *fds,
		   unsigned int nr_fds)
{
	_Alignas(struct cmsghdr) char ctl[CMSG_SPACE(RLX_WIRE_FDS * sizeof(int))];
	struct iovec iov = { msg, sizeof(*msg) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	msg->magic = RLX_WIRE_MAGIC;
	msg->version = RLX_WIRE_VERSION;
	if (nr_fds) {
		struct cmsghdr *c;

		memset(ctl, 0, sizeof(ctl));
		mh.msg_control = ctl;
		mh.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nr_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nr_fds * sizeof(int));
	}
	do
		n = sendmsg(fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*msg);
}

void rlx_bell_ring(int fd)
{
	ssize_t n = send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);

	(void)n;	/* full: it has been rung, and not been heard yet */
}

bool rlx_bell_drain(int fd)
{
	char buf[256];
	ssize_t n;

	/* What is left after that is another wakeup, for nothing. */
	n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

bool rlx_bell_wait(int fd)
{
	char buf[256];
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	return n > 0 || (n < 0 && errno == EINTR);
}

bool rlx_wire_sane(const struct rlx_wire_msg *msg)
{
	return msg->magic == RLX_WIRE_MAGIC && msg->type >= RLX_WIRE_HELLO &&
	       msg->type <= RLX_WIRE_FD_STORE && memchr(msg->text, 0,
						  sizeof(msg->text));
}

/* All descriptors that came, kept or not: none may leak. */
static unsigned int take_fds(struct msghdr *mh, int *fds, unsigned int max)
{
	struct cmsghdr *c;
	unsigned int n = 0;

	for (c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		size_t i, m;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		m = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < m; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (n < max)
				fds[n++] = fd;
			else
				close(fd);
		}
	}
	return n;
}

int rlx_sock_recv(int fd, struct rlx_wire_msg *msg, int *fds, unsigned int max,
		  unsigned int *nr)
{
	_Alignas(struct cmsghdr) char ctl[CMSG_SPACE(RLX_WIRE_FDS * sizeof(int))];
	struct iovec iov = { msg, sizeof(*msg) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1,
			     .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	bool reset = false, end = false;
	unsigned int i;
	ssize_t n;

	*nr = 0;
	/*
	 * Two things come before the peer's last words. ECONNRESET, where it closed
	 * with a message of ours unread. And an end that is none yet: the kernel
	 * looks for a message first and whether the peer has closed after that, so
	 * what was sent in between is still there. Only a second end is the end; with
	 * nothing behind it, or with descriptors, the first was an empty message.
	 */
	for (;;) {
		mh.msg_controllen = sizeof(ctl);
		n = recvmsg(fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n > 0 || (!n && (end || mh.msg_controllen)) ||
		    (n < 0 && errno != EINTR && (errno != ECONNRESET || reset)))
			break;
		end |= !n;
		reset |= n < 0 && errno == ECONNRESET;
	}
	if (n < 0)
		return errno == EAGAIN && !end ? 0 : -1;
	*nr = take_fds(&mh, fds, max);
	if (n == (ssize_t)sizeof(*msg) && !(mh.msg_flags & MSG_TRUNC) &&
	    rlx_wire_sane(msg))
		return 1;
	for (i = 0; i < *nr; i++)
		close(fds[i]);
	*nr = 0;
	return n ? -2 : -1;
}
